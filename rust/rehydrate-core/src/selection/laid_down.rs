//! What users laid down: rules, limits, preferences (analysis/directives.rs). A share of the budget is theirs before
//! anything competes: such a sentence is short, is never said again, and no later tool call shows that it was needed.
use crate::analysis::directives::read;
use crate::conversation::prepared::Prepared;
use crate::conversation::unit::PieceKind;
use crate::packing::pack::{Blocks, Problem};
use crate::selection::outcome::BlockChoice;
use crate::tune::tune;

/// Share of the budget that they may take.
const SHARE: f64 = 0.1;

impl Prepared {
    /// Per item to be packed, whether a user lays something down in it.
    pub(crate) fn items_with_directives(&self, items: usize) -> Vec<bool> {
        let mut found = vec![false; items];
        for (index, message) in self.messages.iter().enumerate().filter(|(_, message)| message.role.may_be_users()) {
            let block = self.parts.as_ref().and_then(|parts| parts.block[index]);
            let item = block.map_or(message.unit, |block| self.units.len() + block);
            // The cache may know directives of a text that here somebody else says.
            let said = message.pieces.clone().filter(|&at| self.kinds[at] == PieceKind::Text);
            found[item] |= said.into_iter().any(|at| self.analyses[at].directives().is_some_and(|found| read(found).next().is_some()));
        }
        found
    }

    /// Mark in `first` the items in which users lay something down, the newest first, as far as their share goes. What
    /// says only what is there already is passed over.
    pub(crate) fn reserve_laid_down(
        &self,
        directives: &[bool],
        problem: &Problem<'_>,
        blocks: &Blocks<'_>,
        first: &mut [bool],
    ) {
        let units = self.units.len();
        let mut room = problem.budget_tokens as f64 * tune("RULES", SHARE);
        let mut said = vec![false; problem.feature_weight.len()];
        let mut say = |item: usize| -> bool {
            let features = problem.features.of(item);
            features.iter().fold(features.is_empty(), |is_new, &f| !std::mem::replace(&mut said[f as usize], true) | is_new)
        };
        (0..first.len()).filter(|&item| first[item]).for_each(|item| _ = say(item));
        for unit in (0..units).rev() {
            for item in blocks.of(unit, units).rev().chain([unit]).filter(|&item| directives[item]) {
                if first[item] {
                    continue;
                }
                let skeleton = if first[unit] { 0 } else { i64::from(problem.token_cost[unit]) };
                let block = if item == unit { 0 } else { blocks.cost(item, units, problem, first) };
                let price = (skeleton + block) as f64;
                if price <= room && say(item) {
                    room -= price;
                    (first[item], first[unit]) = (true, true);
                }
            }
        }
    }

    /// Per unit, whether a user lays something down in what is kept of it.
    pub(crate) fn units_with_directives(&self, directives: &[bool], kept: &[bool], blocks: &[BlockChoice]) -> Vec<bool> {
        let units = self.units.len();
        let mut found: Vec<bool> = (0..units).map(|unit| kept[unit] && directives[unit]).collect();
        for (index, part) in self.parts.iter().flat_map(|parts| &parts.blocks).enumerate() {
            found[self.messages[part.part].unit] |= blocks[index].kept && directives[units + index];
        }
        found
    }
}
