//! The worth of directives: a later one on the same subject replaces the earlier, and all share a part of the objective.
use rustc_hash::FxHashMap;

use crate::analysis::directives::read;
use crate::conversation::prepared::Prepared;
use crate::conversation::unit::PieceKind;
use crate::interrupt::checkpoint;
use crate::selection::outcome::BlockChoice;

/// Strength of a directive that a later one replaces: the least there is.
const REPLACED: u32 = 1;
/// Share of the shorter directive's words that the other has, where both are on the same subject.
const SAME_SUBJECT: f64 = 0.6;
/// A word's last directives, which a directive is compared with.
const COMPARED: usize = 16;
/// Worth of all directives together in the objective, where all that is mentioned is worth 1.
const DIRECTIVES_SHARE: f64 = 4.0;
/// An item of more than this share of the free budget is not kept for the sake of a directive in it.
const MOST_OF_BUDGET: f64 = 0.25;

impl Prepared {
    /// Per item to be packed, how strong the strongest directive in it is; 0: there is none, or the item is kept
    /// anyway. Read from the newest, so that a directive on the subject of a later one counts as replaced.
    pub(crate) fn directive_strengths(&self, items: usize, pinned: &[bool]) -> Vec<u32> {
        let mut strengths = vec![0; items];
        let mut newer = NewerDirectives::default();
        // The cache may know directives of a text that here somebody else says.
        let users = self.messages.iter().enumerate().filter(|(_, message)| message.role.may_be_users());
        for (index, message) in users.rev() {
            let block = self.parts.as_ref().and_then(|parts| parts.block[index]);
            let item = block.map_or(message.unit, |block| self.units.len() + block);
            let said = message.pieces.clone().rev().filter(|&at| self.kinds[at] == PieceKind::Text);
            for at in said {
                for (strength, subject) in self.analyses[at].directives().into_iter().flat_map(read).rev() {
                    checkpoint();
                    let strength = if newer.replaces(subject) { REPLACED } else { strength };
                    if !pinned[message.unit] {
                        strengths[item] = strengths[item].max(strength);
                    }
                    newer.push(subject);
                }
            }
        }
        strengths
    }

    /// Per unit, whether a directive stands in what is kept of it.
    pub(crate) fn units_with_directives(&self, strengths: &[u32], kept: &[bool], blocks: &[BlockChoice]) -> Vec<bool> {
        let units = self.units.len();
        let mut found: Vec<bool> = (0..units).map(|unit| kept[unit] && strengths[unit] > 0).collect();
        for (index, part) in self.parts.iter().flat_map(|parts| &parts.blocks).enumerate() {
            found[self.messages[part.part].unit] |= blocks[index].kept && strengths[units + index] > 0;
        }
        found
    }
}

/// Add to the scores of items what the directives in them are worth: a share of the whole, divided by strength.
/// `weight`, 0 to 1, is how much counts beside a query.
pub(crate) fn add_worth(item_scores: &mut [f64], strengths: &[u32], tokens: &[u32], free_tokens: u64, weight: f64) {
    let affordable = free_tokens as f64 * MOST_OF_BUDGET;
    let strength_of =
        |item: usize| if f64::from(tokens[item]) <= affordable { f64::from(strengths[item]) } else { 0.0 };
    let all: f64 = (0..strengths.len()).map(strength_of).sum();
    if all > 0.0 {
        for (item, score) in item_scores.iter_mut().enumerate() {
            *score += weight * DIRECTIVES_SHARE * strength_of(item) / all;
        }
    }
}

/// The directives that were read so far, newest first, by the words of their subjects.
#[derive(Default)]
struct NewerDirectives {
    words: Vec<usize>,
    by_word: FxHashMap<u32, Vec<usize>>,
}

impl NewerDirectives {
    fn push(&mut self, subject: &[u32]) {
        let directive = self.words.len();
        self.words.push(subject.len());
        for &word in subject {
            let directives = self.by_word.entry(word).or_default();
            if directives.len() < COMPARED {
                directives.push(directive);
            }
        }
    }

    /// Whether one of them is on the same subject.
    fn replaces(&self, subject: &[u32]) -> bool {
        let mut shared: FxHashMap<usize, usize> = FxHashMap::default();
        for directive in subject.iter().filter_map(|word| self.by_word.get(word)).flatten() {
            *shared.entry(*directive).or_default() += 1;
        }
        shared.into_iter().any(|(directive, shared)| {
            let shorter = subject.len().min(self.words[directive]);
            shared >= 2 && shared as f64 >= SAME_SUBJECT * shorter as f64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::directives::directives;

    #[test]
    fn a_later_directive_on_the_same_subject_replaces_the_earlier() {
        let replaced = |later: &str, earlier: &str| {
            let mut seen = NewerDirectives::default();
            seen.push(&directives(later)[0].subject);
            seen.replaces(&directives(earlier)[0].subject)
        };
        assert!(replaced("The total budget is now 700 dollars.", "The total budget is 500 dollars."));
        assert!(replaced("Scratch that, we deploy to Frankfurt and not to Dublin.", "You must deploy to Dublin."));
        assert!(!replaced("Never push to the main branch.", "Never mock the database."));
        assert!(!replaced("Never push.", "Never mock."), "one word is no subject");
    }

    #[test]
    fn worth_is_shared_by_strength_and_not_given_to_what_takes_most_of_the_budget() {
        let mut scores = [0.0; 4];
        add_worth(&mut scores, &[2, 6, 0, 4], &[10, 10, 10, 500], 1_000, 0.5);
        assert_eq!(scores, [0.5, 1.5, 0.0, 0.0]);
        add_worth(&mut scores, &[0; 4], &[1; 4], 1_000, 1.0);
        assert_eq!(scores, [0.5, 1.5, 0.0, 0.0]);
    }
}
