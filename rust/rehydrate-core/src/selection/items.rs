//! From messages to items and back: units and blocks are packed, messages and units are reported.
use crate::conversation::message_parts::MessageParts;
use crate::conversation::prepared::Prepared;
use crate::packing::pack::{FeatureLists, Packing, Problem};
use crate::scoring::signals::{self, Signals};
use crate::selection::outcome::BlockChoice;

impl Prepared {
    /// Recency of each part: its message's.
    pub(crate) fn recency(&self) -> Vec<f64> {
        let Some(parts) = &self.parts else { return signals::recency(&self.messages) };
        let whole = self.messages.iter().zip(&parts.block).filter(|(_, block)| block.is_none());
        let of_messages = signals::recency(&whole.map(|(part, _)| part.clone()).collect::<Vec<_>>());
        parts.message.iter().map(|&message| of_messages[message]).collect()
    }

    /// Score of each item: for a unit the best of its messages or skeletons, for a block its own. A skeleton without a
    /// text of its own is worth nothing by itself.
    pub(crate) fn item_scores(&self, part_scores: &[f64]) -> Vec<f64> {
        let mut scores = vec![0.0_f64; self.units.len()];
        for (index, part) in self.messages.iter().enumerate() {
            let is_empty_skeleton = self.parts.is_some() && (self.is_block(index) || self.is_empty_skeleton(index));
            if !is_empty_skeleton {
                scores[part.unit] = scores[part.unit].max(part_scores[index]);
            }
        }
        let blocks = self.parts.iter().flat_map(|parts| &parts.blocks);
        scores.extend(blocks.map(|block| part_scores[block.part].max(0.0)));
        scores
    }

    /// Whether only the blocks of a message are left.
    fn is_empty_skeleton(&self, part: usize) -> bool {
        let next = part + 1;
        self.messages[part].pieces.is_empty() && next < self.messages.len() && self.is_block(next)
    }

    /// Whether excerpts were asked for and nothing needs to go: texts counted in blocks may come to a few tokens more.
    pub(crate) fn fits_whole(&self, target_tokens: u64) -> bool {
        self.parts.is_some()
            && self.message_tokens.iter().map(|&tokens| u64::from(tokens)).sum::<u64>() <= target_tokens
    }

    /// The unit of each block.
    fn units_of_blocks(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().flat_map(|parts| &parts.blocks).map(|block| self.messages[block.part].unit)
    }

    /// The unit of each item.
    pub(crate) fn units_of_items(&self) -> impl Iterator<Item = usize> {
        (0..self.units.len()).chain(self.units_of_blocks())
    }

    /// Flags of units and of their blocks as flags of items.
    pub(crate) fn items_of(&self, units: &[bool], blocks_of: &[bool]) -> Vec<bool> {
        units.iter().copied().chain(self.units_of_blocks().map(|unit| blocks_of[unit])).collect()
    }

    /// Per unit, the share of its mentions that no kept item has. 1 if it mentions nothing.
    pub(crate) fn unsaid(&self, lists: &FeatureLists, features: usize, is_kept: impl Fn(usize) -> bool) -> Vec<f64> {
        let mut said = vec![false; features];
        let mut counts = vec![(0_u32, 0_u32); self.units.len()];
        for (item, _) in self.units_of_items().enumerate().filter(|&(item, _)| is_kept(item)) {
            lists.of(item).iter().for_each(|&feature| said[feature as usize] = true);
        }
        for (item, unit) in self.units_of_items().enumerate() {
            let of_item = lists.of(item);
            let is_new = |&&feature: &&u32| !said[feature as usize];
            let new = if is_kept(item) { 0 } else { of_item.iter().filter(is_new).count() };
            counts[unit].0 += u32::try_from(new).expect("under 4 billion mentions");
            counts[unit].1 += u32::try_from(of_item.len()).expect("under 4 billion mentions");
        }
        counts.iter().map(|&(new, all)| if all == 0 { 1.0 } else { f64::from(new) / f64::from(all) }).collect()
    }

    /// Per message the signals and the score of the part that scores best.
    pub(crate) fn best_of_messages(&self, signals: Vec<Signals>, scores: Vec<f64>) -> (Vec<Signals>, Vec<f64>) {
        let Some(parts) = &self.parts else { return (signals, scores) };
        let mut best: Vec<Option<usize>> = vec![None; self.message_tokens.len()];
        for (part, &message) in parts.message.iter().enumerate() {
            let is_better =
                best[message].is_none_or(|other| self.is_empty_skeleton(other) || scores[part] > scores[other]);
            if is_better {
                best[message] = Some(part);
            }
        }
        best.into_iter().flatten().map(|part| (signals[part], scores[part])).unzip()
    }

    /// Per unit its best message.
    pub(crate) fn best_of_units(&self, message_scores: &[f64]) -> Vec<usize> {
        let mut best: Vec<Option<usize>> = vec![None; self.units.len()];
        let whole = self.messages.iter().enumerate().filter(|&(index, _)| !self.is_block(index));
        for (message, (_, part)) in whole.enumerate() {
            let so_far = &mut best[part.unit];
            if so_far.is_none_or(|other| message_scores[message] > message_scores[other]) {
                *so_far = Some(message);
            }
        }
        best.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// From the kept items to units and their blocks. `repair` makes the first survivor among the units valid.
    pub(crate) fn resolve_units(
        &self,
        problem: &Problem<'_>,
        mut packing: Packing,
        reserved: &[bool],
        repair: impl FnOnce(&Problem<'_>, &mut Packing) -> Option<usize>,
    ) -> (Packing, Vec<BlockChoice>, Option<usize>) {
        let units = self.units.len();
        // The reserved units make room for a first user turn last of all, whatever they gained.
        let repair = |problem: &Problem<'_>, packing: &mut Packing| {
            let gain = packing.gain.clone();
            let most = gain.iter().copied().fold(0.0, f64::max);
            (0..units).filter(|&unit| reserved[unit]).for_each(|unit| packing.gain[unit] += most);
            let leader = repair(problem, packing);
            packing.gain = gain;
            leader
        };
        let Some(parts) = &self.parts else {
            let leader = repair(problem, &mut packing);
            return (packing, Vec::new(), leader);
        };
        drop_empty_units(self, parts, problem, &mut packing);
        let token_cost = parts.tokens_of_units(units, problem, &packing.kept);
        let mut by_unit = Packing {
            kept: packing.kept[..units].to_vec(),
            gain: self.gain_of_units(parts, &packing),
            ..packing.clone()
        };
        let leader = repair(&Problem { token_cost: &token_cost, ..*problem }, &mut by_unit);
        for (index, block) in parts.blocks.iter().enumerate() {
            packing.kept[units + index] &= by_unit.kept[self.messages[block.part].unit];
        }
        packing.kept[..units].copy_from_slice(&by_unit.kept);
        if let Some(leader) = leader {
            drop_blocks(parts, problem, &mut packing, &mut by_unit.used_tokens);
            // A leader should say something: its first blocks, as far as there is room.
            for item in parts.for_packing().of(leader, units) {
                let cost = parts.for_packing().cost(item, units, problem, &packing.kept);
                let with_it = by_unit.used_tokens.saturating_add_signed(cost);
                if with_it <= problem.budget_tokens {
                    packing.kept[item] = true;
                    by_unit.used_tokens = with_it;
                }
            }
        }
        let choice = |(index, block): (usize, &crate::conversation::message_parts::ExcerptBlock)| BlockChoice {
            text: block.text,
            position: block.position,
            tokens: parts.tokens[block.part],
            gain: packing.gain[units + index],
            kept: packing.kept[units + index],
        };
        let blocks = parts.blocks.iter().enumerate().map(choice).collect();
        (by_unit, blocks, leader)
    }

    /// The gain of a unit: its skeleton and its kept blocks, or all of them if it is dropped.
    fn gain_of_units(&self, parts: &MessageParts, packing: &Packing) -> Vec<f64> {
        let units = self.units.len();
        let mut gain = packing.gain[..units].to_vec();
        for (index, block) in parts.blocks.iter().enumerate() {
            let unit = self.messages[block.part].unit;
            if packing.kept[units + index] || !packing.kept[unit] {
                gain[unit] += packing.gain[units + index];
            }
        }
        gain
    }
}

/// Drop the units of which only the marks of gaps are kept.
fn drop_empty_units(prepared: &Prepared, parts: &MessageParts, problem: &Problem<'_>, packing: &mut Packing) {
    let units = prepared.units.len();
    let mut says_something = vec![false; units];
    for (index, part) in prepared.messages.iter().enumerate() {
        let item = parts.block[index].map(|block| units + block);
        says_something[part.unit] |= item.map_or_else(|| !prepared.is_empty_skeleton(index), |item| packing.kept[item]);
    }
    for unit in (0..units).filter(|&unit| !says_something[unit] && !problem.pinned[unit]) {
        if std::mem::replace(&mut packing.kept[unit], false) {
            packing.used_tokens -= u64::from(problem.token_cost[unit]);
        }
    }
}

/// The leader may have taken more room than the dropped units had: drop blocks of the kept ones, of least gain.
fn drop_blocks(parts: &MessageParts, problem: &Problem<'_>, packing: &mut Packing, used_tokens: &mut u64) {
    let (blocks, units) = (parts.for_packing(), packing.kept.len() - parts.blocks.len());
    let pinned = (0..units).filter(|&unit| problem.pinned[unit]);
    let mut kept: Vec<usize> =
        pinned.flat_map(|unit| blocks.of(unit, units)).filter(|&item| packing.kept[item]).collect();
    kept.sort_by(|&a, &b| packing.gain[a].total_cmp(&packing.gain[b]).then(a.cmp(&b)));
    for item in kept {
        if *used_tokens <= problem.budget_tokens {
            break;
        }
        packing.kept[item] = false;
        *used_tokens = used_tokens.saturating_add_signed(-blocks.cost(item, units, problem, &packing.kept));
    }
}

impl MessageParts {
    /// Tokens of each unit as it would be kept: with its kept blocks, or, if it is dropped so far, with none.
    fn tokens_of_units(&self, units: usize, problem: &Problem<'_>, kept: &[bool]) -> Vec<u32> {
        let blocks = self.for_packing();
        let mut tokens: Vec<i64> = problem.token_cost[..units].iter().map(|&tokens| i64::from(tokens)).collect();
        let mut so_far = vec![false; kept.len()];
        for (unit, sum) in tokens.iter_mut().enumerate() {
            for item in blocks.of(unit, units).filter(|&item| kept[item]) {
                *sum += blocks.cost(item, units, problem, &so_far);
                so_far[item] = true;
            }
        }
        tokens.into_iter().map(|tokens| u32::try_from(tokens.max(0)).unwrap_or(u32::MAX)).collect()
    }
}
