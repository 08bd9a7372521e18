//! Coverage: the features that each item mentions, and their worth to an agent that goes on working.
//!
//! `w(f) = class * ln(1 + units that mention f) * (2 if f ever was in a tool input) / (1 + d / 10) * (1 - c)`, where
//! `d` is the number of units since `f` was last mentioned and `c` is the most that memory covers of any message that
//! mentions it. It was chosen by what agents used later, in sessions of other kinds than those that it is measured on
//! (DESIGN.md, coverage).
use std::hint::black_box;

use crate::analysis::features::{Class, PackedMentions};
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
}

impl Prepared {
    /// The features of all items except the system's, which are always kept. `names` are hashes of those that the query
    /// names.
    pub(crate) fn features(&self, signals: &[Signals], names: &[u32]) -> Features {
        let mentions_in_all: usize =
            self.analyses.chunks(TEXTS_AHEAD).flat_map(TextAnalysis::mentions_of).map(PackedMentions::len).sum();
        // A table that grows takes twice as long, and half to three quarters of the mentions in a coding agent's session
        // are new.
        let mut interned = FeatureTable::with_room_for((mentions_in_all / 2).max(mentions_in_all.min(MANY_MENTIONS)));
        // The most that memory covers of any part that mentions a feature. Most often there is no memory.
        let mut covered: Vec<f64> = Vec::new();
        let mut of_units = FeatureLists::with_capacity(self.units.len(), mentions_in_all);
        let mut of_blocks = FeatureLists::default();
        let mut items = 0;
        let (mut ids, mut looked_at) = (Vec::new(), 0);
        let mut pace = Pace::default();
        // Items in the order of their units, whose blocks follow them.
        let messages = self.messages_by_unit();
        let mut rest = messages.as_slice();
        for unit in 0..self.units.len() {
            let of_unit = rest.iter().take_while(|&&m| self.messages[m].unit == unit).count();
            let (skeletons, others) = rest.split_at(of_unit);
            rest = others;
            let blocks = self.parts.iter().flat_map(|parts| parts.blocks_of(unit));
            let blocks = blocks.map(|block| std::slice::from_ref(&block.part));
            let unit = u32::try_from(unit).expect("under 4 billion units");
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
                    if piece >= looked_at {
                        looked_at = self.analyses.len().min(piece + TEXTS_AHEAD);
                        interned.look_at(&self.analyses[piece..looked_at]);
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
                let lists = if index == 0 { &mut of_units } else { &mut of_blocks };
                lists.push(ids.drain(..));
            }
        }
        of_units.append(of_blocks);
        let mut weight = interned.worths(self.units.len().saturating_sub(1));
        for (weight, covered) in weight.iter_mut().zip(&covered) {
            *weight *= 1.0 - covered;
        }
        let named = names.iter().filter_map(|&hash| interned.find(hash)).collect();
        Features { of_item: of_units, weight, named }
    }
}

/// One feature of a conversation: its mentions, and its class.
#[derive(Clone, Copy)]
struct Feature {
    /// The item that mentioned it last, in the order in which items are read.
    item: u32,
    /// The unit of that item.
    unit: u32,
    /// The number of units that mentioned it.
    units: u32,
    /// The strongest class seen.
    class: Class,
    /// Whether it ever was in the input of a tool call.
    acted_on: bool,
}

impl Feature {
    /// Not mentioned yet. It has the weakest class, so that the first mention decides.
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

/// The item and the unit that mention a feature.
#[derive(Clone, Copy)]
struct Mentioner {
    item: u32,
    unit: u32,
    /// Whether it does so in the input of a tool call.
    acts: bool,
}

/// Texts that are looked at together before they are read: so few that they are still in the processor's cache then.
const TEXTS_AHEAD: usize = 8;
/// Up to this many mentions the table has room for all of them: a megabyte.
const MANY_MENTIONS: usize = 1 << 16;
/// The factor for a feature that the agent acted on.
const ACTED_ON: f64 = 2.0;
/// A mention this many units ago is worth half.
const HALF_WORTH_UNITS: f64 = 10.0;

/// The worth of a feature by its class.
fn worth_of_class(class: Class) -> f64 {
    match class {
        Class::Name => 1.0,
        Class::Line => 0.6,
    }
}

/// The worth of a feature by the number of units that mention it.
fn worth_of_units(units: u32) -> f64 {
    f64::from(1 + units).ln()
}

/// The worth of a mention: by its class, the number of units that made it, whether one acted on it, and the age of the
/// last.
fn worth(class: Class, acted_on: bool, of_units: f64, age_units: usize) -> f64 {
    let acted_on = if acted_on { ACTED_ON } else { 1.0 };
    worth_of_class(class) * of_units * acted_on / (1.0 + age_units as f64 / HALF_WORTH_UNITS)
}

/// The worth of a name, by which an outline ranks omitted names.
pub(crate) fn worth_of_name(acted_on: bool, units: u32, age_units: usize) -> f64 {
    worth(Class::Name, acted_on, worth_of_units(units), age_units)
}

/// The slot of a feature: its hash, and its number in the order of first mentions. `NONE` marks a free slot.
#[derive(Clone, Copy)]
struct Slot {
    hash: u32,
    id: u32,
}

const NONE: u32 = u32::MAX;
const FREE: Slot = Slot { hash: 0, id: NONE };

/// Features by hash, in one open table of at most half load, in the order of their hashes: a text's mentions come by
/// ascending hash too, so each text walks through the table once, forwards. Data on features is kept by number.
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

    /// Make room for more.
    fn reserve(&mut self, more: usize) {
        let needed = self.len() + more;
        if 2 * needed > self.slots.len() && self.shift > 1 {
            let mut larger = Self::with_room_for(needed + needed / 2);
            for &taken in self.slots.iter().filter(|slot| slot.id != NONE) {
                let slot = larger.slot(taken.hash);
                larger.slots[slot] = taken;
            }
            larger.features = std::mem::take(&mut self.features);
            *self = larger;
        }
    }

    /// Read the slots of the mentions in these texts. None of these reads waits for another, as those of a search do, which
    /// ends at a branch: of a large table they come from memory together.
    fn look_at(&self, texts: &[TextAnalysis]) {
        let look = |seen, &hash: &u32| seen ^ self.slots[home(self.shift, hash)].id;
        black_box(TextAnalysis::mentions_of(texts).fold(0, |seen, text| text.hashes().iter().fold(seen, look)));
    }

    /// Note the mentions of one text. Appends to `ids` those that its item had not mentioned yet.
    #[inline(never)] // Registers for this loop alone: it is the hottest of a selection.
    fn mention_all(&mut self, mentions: PackedMentions<'_>, by: Mentioner, ids: &mut Vec<u32>) {
        self.reserve(mentions.len());
        let (mut taken, first) = (self.features.len(), ids.len());
        ids.resize(first + mentions.len(), 0);
        self.features.resize(taken + mentions.len(), Feature::FREE);
        let (new_ids, mut found) = (&mut ids[first..], 0);
        let (slots, shift, features) = (self.slots.as_mut_slice(), self.shift, self.features.as_mut_slice());
        mentions.iter().for_each(|mention| {
            let slot = slot_of(slots, shift, mention.hash);
            let known = slots[slot].id;
            // Whether a mention is the first of its feature, or of its item, is unpredictable, so no branch depends on
            // it.
            let is_new = known == NONE;
            let id = if is_new { taken } else { known as usize };
            taken += usize::from(is_new);
            #[expect(clippy::cast_possible_truncation, reason = "a table has at most 2^31 slots")]
            let number = id as u32;
            slots[slot] = Slot { hash: mention.hash, id: number };
            let there = features[id];
            features[id] = there.mentioned(by, mention.class);
            new_ids[found] = number;
            found += usize::from(there.item != by.item);
        });
        self.features.truncate(taken);
        ids.truncate(first + found);
    }

    /// The slot of the feature with this hash, or the free slot for it.
    fn slot(&self, hash: u32) -> usize {
        slot_of(&self.slots, self.shift, hash)
    }

    /// The number of the feature with that hash.
    fn find(&self, hash: u32) -> Option<u32> {
        Some(self.slots[self.slot(hash)].id).filter(|&id| id != NONE)
    }

    /// By id, the worth of each feature if `newest` is the last unit.
    fn worths(&self, newest: usize) -> Vec<f64> {
        // A logarithm takes as long as everything else here, and few numbers of units occur.
        let most = self.features.iter().map(|feature| feature.units).max().unwrap_or(0);
        let of_units: Vec<f64> = (0..=most).map(worth_of_units).collect();
        let of = |feature: &Feature| {
            let age_units = newest - feature.unit as usize;
            worth(feature.class, feature.acted_on, of_units[feature.units as usize], age_units)
        };
        self.features.iter().map(of).collect()
    }

    fn len(&self) -> usize {
        self.features.len()
    }
}

/// Where the search for a hash begins.
#[inline]
fn home(shift: u32, hash: u32) -> usize {
    (hash >> shift) as usize
}

/// Where the feature of that hash is, or would be.
#[inline]
fn slot_of(slots: &[Slot], shift: u32, hash: u32) -> usize {
    let mut slot = home(shift, hash);
    while slots[slot].id != NONE && slots[slot].hash != hash {
        slot = (slot + 1) & (slots.len() - 1);
    }
    slot
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::analysis::features::{self, Mention};

    #[test]
    fn a_feature_is_worth_more_the_more_units_mention_it_and_less_the_longer_ago() {
        let worth_of = |mentioned: &[(u32, bool)], newest: usize| {
            let mut interned = FeatureTable::with_room_for(1);
            let mut packed = Vec::new();
            features::pack(&[Mention { hash: 7, class: Class::Name }], &mut packed);
            for (item, &(unit, acts)) in mentioned.iter().enumerate() {
                let by = Mentioner { item: u32::try_from(item).unwrap(), unit, acts };
                interned.mention_all(PackedMentions::read(&packed), by, &mut Vec::new());
            }
            interned.worths(newest)[0]
        };
        let once = worth_of(&[(0, false)], 0);
        assert!((once - 2_f64.ln()).abs() < 1e-12);
        assert_eq!(worth_of(&[(0, false), (0, false)], 0), once, "two items of one unit are one mention");
        assert!((worth_of(&[(0, false), (3, false)], 3) - 3_f64.ln()).abs() < 1e-12);
        assert_eq!(worth_of(&[(0, true), (3, false)], 3), 2.0 * worth_of(&[(0, false), (3, false)], 3));
        assert_eq!(worth_of(&[(0, false)], 10), once / 2.0);
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
            let by = Mentioner { item: unit, unit, acts: false };
            interned.mention_all(PackedMentions::read(&packed), by, &mut ids);
            let expected = hashes(unit).map(|hash| {
                let next = u32::try_from(numbers.len()).unwrap();
                *numbers.entry(hash).or_insert(next)
            });
            assert_eq!(ids, expected.collect::<Vec<_>>());
            interned.mention_all(PackedMentions::read(&packed), by, &mut ids);
            assert_eq!(ids.len(), mentions.len(), "the unit had mentioned them all");
        }
        assert_eq!(interned.len(), numbers.len());
    }
}
