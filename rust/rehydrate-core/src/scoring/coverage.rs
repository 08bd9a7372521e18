//! Coverage: the features that each unit mentions, and their worth to an agent that goes on working.
//!
//! `w(f) = class * (4 if f ever stood in a tool input) / (1 + d / 10) * (1 - c)`, where `d` is how many units ago `f` was
//! last mentioned and `c` is the most that memory covers of any message that mentions it. Chosen by what agents went on
//! to use in real sessions (DESIGN.md, coverage); a regression on 28 attributes of a feature did no better.
use crate::analysis::features::{Class, PackedMentions, worth};
use crate::conversation::prepared::Prepared;
use crate::conversation::text::TextAnalysis;
use crate::conversation::unit::PieceKind;
use crate::interrupt::Pace;
use crate::packing::feature_lists::FeatureLists;
use crate::scoring::signals::Signals;

/// Features of a conversation: lists by item to be packed, weights by feature.
pub(crate) struct Features {
    pub of_item: FeatureLists,
    pub weight: Vec<f64>,
    /// Those that the query names.
    pub named: Vec<u32>,
}

impl Features {
    pub fn none(items: usize) -> Self {
        Self { of_item: FeatureLists::none(items), weight: Vec::new(), named: Vec::new() }
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
    /// The features of all items but the system's, which are there anyway. `names` are hashes of those that the query
    /// names.
    pub(crate) fn features(&self, signals: &[Signals], names: &[u32]) -> Features {
        let mentions_in_all = self.analyses.iter().filter_map(TextAnalysis::mentions).map(PackedMentions::len).sum();
        let mut interned = FeatureTable::with_room_for(mentions_in_all / 4);
        // The most that memory covers of any part that mentions a feature; most often there is no memory.
        let mut covered: Vec<f64> = Vec::new();
        let mut of_units = FeatureLists::with_capacity(self.units.len(), mentions_in_all);
        let mut of_blocks = FeatureLists::default();
        // Items in the order of their units, whose blocks follow them, so that the last to mention a feature is of the
        // newest unit that does.
        let mut unit_of_turn = Vec::with_capacity(self.units.len());
        let mut ids = Vec::new();
        let mut pace = Pace::default();
        for (unit, skeletons) in self.messages_of_units().into_iter().enumerate() {
            let blocks = self.parts.iter().flat_map(|parts| parts.blocks_of(unit)).map(|block| vec![block.part]);
            for (index, members) in std::iter::once(skeletons).chain(blocks).enumerate() {
                pace.step_by(1);
                let turn = u32::try_from(unit_of_turn.len()).expect("under 4 billion items");
                assert!(turn < Feature::FREE.turn(), "under half a billion items");
                unit_of_turn.push(unit);
                for (part, piece) in members.iter().flat_map(|&m| self.messages[m].pieces.clone().map(move |p| (m, p)))
                {
                    let kind = self.kinds[piece];
                    if kind == PieceKind::Thinking || self.messages[part].is_system() {
                        continue;
                    }
                    let Some(mentions) = self.analyses[piece].mentions() else { continue };
                    pace.step_by(mentions.len());
                    interned.mention_all(mentions, turn, kind == PieceKind::ToolInput, &mut ids);
                    let coverage = signals[part].coverage;
                    if coverage > 0.0 {
                        covered.resize(interned.len(), 0.0);
                        for mention in mentions.iter() {
                            let id = interned.slots[interned.slot(mention.hash)].id as usize;
                            covered[id] = covered[id].max(coverage);
                        }
                    }
                }
                let lists = if index == 0 { &mut of_units } else { &mut of_blocks };
                lists.push(ids.drain(..));
            }
        }
        of_units.append(of_blocks);
        let newest = self.units.len().saturating_sub(1);
        let mut weight = interned.worths(|turn| newest - unit_of_turn[turn], newest);
        for (weight, covered) in weight.iter_mut().zip(&covered) {
            *weight *= 1.0 - covered;
        }
        let named = names.iter().filter_map(|&hash| interned.find(hash)).collect();
        Features { of_item: of_units, weight, named }
    }
}

/// One feature of a conversation, in one word: the item that mentioned it last, in the order in which items are read;
/// whether it was acted on; its class.
#[derive(Clone, Copy)]
struct Feature(u32);

const CLASS_BITS: u32 = 0b11;
const ACTED_ON: u32 = 0b100;
const TURN_SHIFT: u32 = 3;

impl Feature {
    /// Nobody mentioned it yet. The weakest class, so that the first mention decides.
    const FREE: Self = Self(u32::MAX << TURN_SHIFT | Class::Word as u32);

    /// The same, mentioned once more.
    fn mentioned(self, turn: u32, class: Class, acted_on: bool) -> Self {
        let class = (self.0 & CLASS_BITS).min(class as u32);
        let acted_on = self.0 & ACTED_ON | if acted_on { ACTED_ON } else { 0 };
        Self(turn << TURN_SHIFT | acted_on | class)
    }

    fn turn(self) -> u32 {
        self.0 >> TURN_SHIFT
    }

    fn class(self) -> Class {
        [Class::Name, Class::Number, Class::Word, Class::Word][(self.0 & CLASS_BITS) as usize]
    }

    fn is_acted_on(self) -> bool {
        self.0 & ACTED_ON != 0
    }
}

/// Where a feature stands: its hash, and its number in the order of first mentions. `NONE` marks a free slot.
#[derive(Clone, Copy)]
struct Slot {
    hash: u32,
    id: u32,
}

const NONE: u32 = u32::MAX;
const FREE: Slot = Slot { hash: 0, id: NONE };
/// How many classes of features there are.
const CLASSES: usize = 3;

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

    /// Note the mentions of one text of the item whose turn it is; append to `ids` those it had not mentioned yet.
    #[inline(never)] // Registers for this loop alone: it is the hottest of a selection.
    fn mention_all(&mut self, mentions: PackedMentions<'_>, turn: u32, acted_on: bool, ids: &mut Vec<u32>) {
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
            self.features[id] = there.mentioned(turn, mention.class, acted_on);
            new_ids[found] = number;
            found += usize::from(there.turn() != turn);
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

    /// The number of the feature with that hash.
    fn find(&self, hash: u32) -> Option<u32> {
        Some(self.slots[self.slot(hash)].id).filter(|&id| id != NONE)
    }

    /// By id, what each feature is worth. `age_of` says how many units ago a turn was, `oldest` at most.
    fn worths(&self, age_of: impl Fn(usize) -> usize, oldest: usize) -> Vec<f64> {
        let features = self.features.iter();
        if 2 * CLASSES * oldest > self.len() {
            let of = |feature: &Feature| worth(feature.class(), feature.is_acted_on(), age_of(feature.turn() as usize));
            return features.map(of).collect();
        }
        // Many are of one age: the divisions are made once.
        let kinds = [Class::Name, Class::Number, Class::Word].map(|class| [(class, false), (class, true)]);
        let of_age = |age| kinds.as_flattened().iter().map(move |&(class, acted_on)| worth(class, acted_on, age));
        let table: Vec<f64> = (0..=oldest).flat_map(of_age).collect();
        let of = |feature: &Feature| {
            let kind = 2 * feature.class() as usize + usize::from(feature.is_acted_on());
            table[2 * CLASSES * age_of(feature.turn() as usize) + kind]
        };
        features.map(of).collect()
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
