//! Directives of users: rules, limits, preferences (analysis/directives.rs). They are kept before anything competes:
//! such a sentence is never said again, and no later tool call shows that it was needed. Most are short and cost
//! little. A longer text, such as a task with rules in it, may take a share of the budget.
use crate::conversation::prepared::Prepared;
use crate::conversation::unit::PieceKind;
use crate::interrupt::checkpoint;
use crate::packing::pack::{Blocks, Problem};
use crate::selection::outcome::BlockChoice;

/// An item of this many tokens is short: a rule alone.
const SHORT_TOKENS: i64 = 50;
/// Share of the budget that longer ones may take.
const LONG_SHARE: f64 = 0.1;

impl Prepared {
    /// Per item to be packed, the strength of the strongest directive in it. 0 if there is none.
    pub(crate) fn directive_strengths(&self, items: usize) -> Vec<u32> {
        let mut strengths = vec![0; items];
        for (index, message) in self.messages.iter().enumerate().filter(|(_, message)| message.role.may_be_users()) {
            let block = self.parts.as_ref().and_then(|parts| parts.block[index]);
            let item = block.map_or(message.unit, |block| self.units.len() + block);
            // The cache may know directives of a text that here somebody else says.
            let said = message.pieces.clone().filter(|&at| self.kinds[at] == PieceKind::Text);
            let strongest = said.flat_map(|at| self.analyses[at].directives().unwrap_or_default()).max();
            strengths[item] = strengths[item].max(strongest.copied().unwrap_or(0));
        }
        strengths
    }

    /// Mark in `first` the items with users' directives, as far as `left` tokens go, and for long ones their share: the
    /// strongest first, of equal ones the shortest, then the newest. Directives that are already there are skipped.
    pub(crate) fn reserve_laid_down(
        &self,
        strengths: &[u32],
        problem: &Problem<'_>,
        blocks: &Blocks<'_>,
        left: u64,
        first: &mut [bool],
    ) {
        let units = self.units.len();
        let mut left = i64::try_from(left).unwrap_or(i64::MAX);
        let mut left_for_long = (problem.budget_tokens as f64 * LONG_SHARE) as i64;
        let mut said = vec![false; problem.feature_weight.len()];
        let mut says_more = |item: usize| {
            let features = problem.features.of(item).iter();
            let say = |is_new, &feature: &u32| is_new | !std::mem::replace(&mut said[feature as usize], true);
            features.fold(problem.features.of(item).is_empty(), say)
        };
        (0..first.len()).filter(|&item| first[item]).for_each(|item| _ = says_more(item));
        let items_of = |unit| blocks.of(unit, units).rev().chain([unit]).map(move |item| (unit, item));
        let mut order: Vec<(usize, usize)> =
            (0..units).rev().flat_map(items_of).filter(|&(_, item)| strengths[item] > 0 && !first[item]).collect();
        order.sort_by_key(|&(_, item)| (std::cmp::Reverse(strengths[item]), problem.token_cost[item]));
        for (unit, item) in order {
            checkpoint();
            let skeleton = if first[unit] { 0 } else { i64::from(problem.token_cost[unit]) };
            let block = if item == unit { 0 } else { blocks.cost(item, units, problem, first) };
            let price = skeleton + block;
            let is_long = price > SHORT_TOKENS;
            if price <= left && (!is_long || price <= left_for_long) && says_more(item) {
                left -= price;
                left_for_long -= if is_long { price } else { 0 };
                (first[item], first[unit]) = (true, true);
            }
        }
    }

    /// Per unit, whether a user's directive is in its kept part.
    pub(crate) fn units_with_directives(&self, strengths: &[u32], kept: &[bool], blocks: &[BlockChoice]) -> Vec<bool> {
        let units = self.units.len();
        let mut found: Vec<bool> = (0..units).map(|unit| kept[unit] && strengths[unit] > 0).collect();
        for (index, part) in self.parts.iter().flat_map(|parts| &parts.blocks).enumerate() {
            found[self.messages[part.part].unit] |= blocks[index].kept && strengths[units + index] > 0;
        }
        found
    }
}
