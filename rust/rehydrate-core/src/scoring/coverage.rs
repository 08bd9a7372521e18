//! Coverage: the features that each unit mentions, and their worth to an agent that goes on working.
//!
//! `w(f) = class * (4 if f ever stood in a tool input) / (1 + d / 10) * (1 - c)`, where `d` is how many units ago `f` was
//! last mentioned and `c` is the most that memory covers of any message that mentions it. Chosen by what agents went on
//! to use in real sessions (DESIGN.md, coverage); a regression on 28 attributes of a feature did no better.
use crate::analysis::features::{Class, PackedMentions};
use crate::conversation::prepared::Prepared;
use crate::conversation::text::TextAnalysis;
use crate::conversation::unit::PieceKind;
use crate::interrupt::Pace;
use crate::packing::feature_lists::FeatureLists;
use crate::scoring::signals::Signals;
use crate::tune::tune;

/// Features of a conversation: lists by item to be packed, weights by feature.
pub(crate) struct Features {
    pub of_item: FeatureLists,
    pub weight: Vec<f64>,
}

impl Features {
    pub fn none(items: usize) -> Self {
        Self { of_item: FeatureLists::none(items), weight: Vec::new() }
    }

    /// Per item, the summed weights of its features, whoever else mentions them.
    pub fn worth_of_items(&self, items: usize) -> Vec<f64> {
        // Four sums at a time, each in the order of its list: one addition need not wait for the one before it.
        let mut worth = vec![-0.0; items];
        for (some, sums) in worth.chunks_mut(4).enumerate() {
            let lists: [&[u32]; 4] =
                std::array::from_fn(|at| if at < sums.len() { self.of_item.of(4 * some + at) } else { &[] });
            let together = lists[..sums.len()].iter().map(|list| list.len()).min().unwrap_or(0);
            let mut four = [-0.0; 4]; // of nothing, as `sum` has it
            for at in 0..together {
                for (sum, list) in four[..sums.len()].iter_mut().zip(&lists) {
                    *sum += self.weight[list[at] as usize];
                }
            }
            for ((sum, list), four) in sums.iter_mut().zip(&lists).zip(four) {
                *sum = list[together..].iter().fold(four, |sum, &feature| sum + self.weight[feature as usize]);
            }
        }
        worth
    }
}

impl Prepared {
    /// The features of all items but the system's, which are there anyway.
    pub(crate) fn features(&self, signals: &[Signals]) -> Features {
        let mentions_in_all = self.analyses.iter().filter_map(TextAnalysis::mentions).map(PackedMentions::len).sum();
        let mut interned = FeatureTable::with_room_for(mentions_in_all / 4);
        // The most that memory covers of any part that mentions a feature; most often there is no memory.
        let mut covered: Vec<f64> = Vec::new();
        let mut of_units = FeatureLists::with_capacity(self.units.len(), mentions_in_all);
        let mut of_blocks = FeatureLists::default();
        let mut items = 0;
        let mut ids = Vec::new();
        let mut pace = Pace::default();
        let last_user = self.messages.iter().rfind(|m| m.role == crate::conversation::unit::Role::User && self.units[m.unit].pinned).map_or(usize::MAX, |m| m.unit);
        // Items in the order of their units, whose blocks follow them.
        for (unit, skeletons) in self.messages_of_units().into_iter().enumerate() {
            let unit = u32::try_from(unit).expect("under 4 billion units");
            let blocks = self.parts.iter().flat_map(|parts| parts.blocks_of(unit as usize)).map(|block| vec![block.part]);
            for (index, members) in std::iter::once(skeletons).chain(blocks).enumerate() {
                pace.step_by(1);
                let item = items;
                items += 1;
                for (part, piece) in members.iter().flat_map(|&m| self.messages[m].pieces.clone().map(move |p| (m, p)))
                {
                    let kind = self.kinds[piece];
                    if kind == PieceKind::Thinking || self.messages[part].is_system() {
                        continue;
                    }
                    let Some(mentions) = self.analyses[piece].mentions() else { continue };
                    pace.step_by(mentions.len());
                    let by = Mentioner { item, unit, acts: kind == PieceKind::ToolInput };
                    interned.mention_all(mentions, by, &mut ids);
                    let coverage = signals[part].coverage;
                    if coverage > 0.0 {
                        covered.resize(interned.len(), 0.0);
                        for mention in mentions.iter() {
                            let id = interned.slots[interned.slot(mention.hash)].id as usize;
                            covered[id] = covered[id].max(coverage);
                        }
                    }
                }
                if tune("NOCOVER", 0.0) > 0.0 && index == 0 && members.iter().any(|&m| self.messages[m].role == crate::conversation::unit::Role::User) && self.messages[members[0]].unit == last_user {
                    ids.clear();
                }
                let lists = if index == 0 { &mut of_units } else { &mut of_blocks };
                lists.push(ids.drain(..));
            }
        }
        of_units.append(of_blocks);
        let mut weight = interned.worths(self.units.len().saturating_sub(1));
        for (weight, covered) in weight.iter_mut().zip(&covered) {
            *weight *= 1.0 - covered;
        }
        Features { of_item: of_units, weight }
    }
}

/// One feature of a conversation: who mentioned it, and what it is.
#[derive(Clone, Copy)]
struct Feature {
    /// The item that mentioned it last, in the order in which items are read.
    item: u32,
    /// The unit of that item.
    unit: u32,
    /// How many units mentioned it.
    units: u32,
    /// The strongest class seen.
    class: Class,
    /// Whether it ever was in the input of a tool call.
    acted_on: bool,
}

impl Feature {
    /// Nobody mentioned it yet. The weakest class, so that the first mention decides.
    const FREE: Self = Self { item: u32::MAX, unit: u32::MAX, units: 0, class: Class::Line, acted_on: false };

    /// The same, mentioned once more.
    fn mentioned(self, by: Mentioner, class: Class) -> Self {
        Self {
            item: by.item,
            unit: by.unit,
            units: self.units + u32::from(self.unit != by.unit),
            class: self.class.min(class),
            acted_on: self.acted_on | by.acts,
        }
    }
}

/// Who mentions a feature.
#[derive(Clone, Copy)]
struct Mentioner {
    item: u32,
    unit: u32,
    /// Whether it does so in the input of a tool call.
    acts: bool,
}

/// What a feature of a class is worth by itself.
fn worth_of_class(class: Class) -> f64 {
    match class {
        Class::Name => 1.0,
        Class::Number => tune("NUMBER", 0.1),
        Class::Line => tune("LINE", 0.6),
    }
}

/// The worth of a mention: of its class, how many units made it, whether one acted on it, and how long ago the last was.
pub(crate) fn worth(class: Class, acted_on: bool, units: u32, age_units: usize) -> f64 {
    let acted_on = if acted_on { tune("ACTED", 2.0) } else { 1.0 };
    let often = if tune("LOG", 1.0) > 0.0 { f64::from(1 + units).ln() } else { 1.0 };
    worth_of_class(class) * acted_on * often / (1.0 + age_units as f64 / tune("HALF", 10.0))
}

/// Where a feature stands: its hash, and its number in the order of first mentions. `NONE` marks a free slot.
#[derive(Clone, Copy)]
struct Slot {
    hash: u32,
    id: u32,
}

const NONE: u32 = u32::MAX;
const FREE: Slot = Slot { hash: 0, id: NONE };

/// Features by hash, in one open table of at most half load, in the order of their hashes: a text's mentions come by
/// ascending hash too, so that each text walks through the table once, forwards. What is known of them lies by number.
struct FeatureTable {
    slots: Vec<Slot>,
    /// Bits by which a hash is shifted to its slot.
    shift: u32,
    features: Vec<Feature>,
}

impl FeatureTable {
    fn with_room_for(features: usize) -> Self {
        let bits = (2 * features.max(32)).next_power_of_two().trailing_zeros().min(31);
        Self { slots: vec![FREE; 1 << bits], shift: u32::BITS - bits, features: Vec::with_capacity(features) }
    }

    /// Make room for so many more.
    fn reserve(&mut self, more: usize) {
        let needed = self.len() + more;
        if 2 * needed > self.slots.len() && self.shift > 1 {
            let mut larger = Self::with_room_for(needed + needed / 2);
            for &taken in self.slots.iter().filter(|slot| slot.id != NONE) {
                let slot = larger.slot(taken.hash);
                larger.slots[slot] = taken;
            }
            larger.features.extend_from_slice(&self.features);
            *self = larger;
        }
    }

    /// Note the mentions of one text; append to `ids` those that its item had not mentioned yet.
    #[inline(never)] // Registers for this loop alone: it is the hottest of a selection.
    fn mention_all(&mut self, mentions: PackedMentions<'_>, by: Mentioner, ids: &mut Vec<u32>) {
        self.reserve(mentions.len());
        let (mut taken, first) = (self.features.len(), ids.len());
        ids.resize(first + mentions.len(), 0);
        self.features.resize(taken + mentions.len(), Feature::FREE);
        let (new_ids, mut found) = (&mut ids[first..], 0);
        mentions.iter().for_each(|mention| {
            let slot = self.slot(mention.hash);
            let known = self.slots[slot].id;
            // Whether a mention is the first of its feature, or of its item, is a coin's toss: no branch hangs on it.
            let is_new = known == NONE;
            let id = if is_new { taken } else { known as usize };
            taken += usize::from(is_new);
            #[expect(clippy::cast_possible_truncation, reason = "a table has at most 2^31 slots")]
            let number = id as u32;
            self.slots[slot] = Slot { hash: mention.hash, id: number };
            let there = self.features[id];
            self.features[id] = there.mentioned(by, mention.class);
            new_ids[found] = number;
            found += usize::from(there.item != by.item);
        });
        self.features.truncate(taken);
        ids.truncate(first + found);
    }

    /// Where the feature of that hash is, or would be.
    #[inline]
    fn slot(&self, hash: u32) -> usize {
        let mut slot = (hash >> self.shift) as usize;
        while self.slots[slot].id != NONE && self.slots[slot].hash != hash {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        slot
    }

    /// By id, what each feature is worth where `newest` is the last unit.
    fn worths(&self, newest: usize) -> Vec<f64> {
        let of = |feature: &Feature| {
            worth(feature.class, feature.acted_on, feature.units, newest - feature.unit as usize)
        };
        self.features.iter().map(of).collect()
    }

    fn len(&self) -> usize {
        self.features.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::analysis::features::{self, Mention};

    #[test]
    fn sums_of_four_items_at_a_time_are_the_sums() {
        for items in 0..10_u32 {
            let mut of_item = FeatureLists::default();
            (0..items).for_each(|item| of_item.push((0..item * 7 % 5).map(|n| (item + n) % 11)));
            let weight = (0..11).map(|n| 0.1 * f64::from(n * n)).collect();
            let features = Features { of_item, weight, named: Vec::new() };
            let plainly = |item: usize| features.of_item.of(item).iter().map(|&f| features.weight[f as usize]).sum();
            let expected: Vec<f64> = (0..items as usize).map(plainly).collect();
            let bits = |sums: &[f64]| sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&features.worth_of_items(items as usize)), bits(&expected));
        }
    }

    #[test]
    fn a_table_of_worths_says_what_each_feature_is_worth() {
        for (features, oldest) in [(3, 50), (500, 9)] {
            let mut interned = FeatureTable::with_room_for(1);
            let classes = [Class::Name, Class::Number, Class::Word];
            for turn in 0..=oldest {
                let every = 0..features as u32;
                let of_turn = every.filter(|n| n % (turn as u32 + 1) == 0);
                let mention = |n: u32| Mention { hash: n << 20, class: classes[(n as usize + turn) % 3] };
                let mut packed = Vec::new();
                features::pack(&of_turn.map(mention).collect::<Vec<_>>(), &mut packed);
                interned.mention_all(PackedMentions::read(&packed), turn as u32, turn % 4 == 0, &mut Vec::new());
            }
            let worths = interned.worths(|turn| oldest - turn, oldest);
            for (feature, found) in interned.features.iter().zip(worths) {
                let age = oldest - feature.turn() as usize;
                assert_eq!(found.to_bits(), worth(feature.class(), feature.is_acted_on(), age).to_bits());
            }
        }
    }

    #[test]
    fn features_are_numbered_as_a_map_would_number_them() {
        let mut interned = FeatureTable::with_room_for(1);
        let mut numbers = HashMap::new();
        // Hashes that crowd at both ends of the table, and some spread out; every other unit mentions them again.
        let hashes = |unit: u32| {
            (0..100).map(move |n| match n % 3 {
                0 => unit / 2 * 100 + n,
                1 => u32::MAX - n - unit / 2 * 100,
                _ => (unit / 2 * 100 + n).wrapping_mul(0x9E37_79B9),
            })
        };
        for unit in 0..60 {
            let mentions: Vec<Mention> = hashes(unit).map(|hash| Mention { hash, class: Class::Name }).collect();
            let mut packed = Vec::new();
            features::pack(&mentions, &mut packed);
            let mut ids = Vec::new();
            interned.mention_all(PackedMentions::read(&packed), unit, false, &mut ids);
            let expected = hashes(unit).map(|hash| {
                let next = u32::try_from(numbers.len()).unwrap();
                *numbers.entry(hash).or_insert(next)
            });
            assert_eq!(ids, expected.collect::<Vec<_>>());
            interned.mention_all(PackedMentions::read(&packed), unit, false, &mut ids);
            assert_eq!(ids.len(), mentions.len(), "the unit had mentioned them all");
        }
        assert_eq!(interned.len(), numbers.len());
    }
}
