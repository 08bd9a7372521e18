//! Literal matching: the places where any of some hundred short strings begins in a text, in any case, in one pass over
//! it.
use aho_corasick::{AhoCorasick, AhoCorasickKind, Input};

use crate::interrupt::{STRETCH_BYTES, checkpoint};

/// Strings to look for, in groups, made ready once.
pub(super) struct LiteralMatcher {
    automaton: AhoCorasick,
    /// The group and the bytes of each literal.
    known: Vec<(usize, usize)>,
}

/// The literals of one group that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub group: usize,
    /// The beginning of each, ascending.
    pub starts: Vec<usize>,
}

impl LiteralMatcher {
    /// None may be empty. The case of letters that are not ASCII counts.
    pub fn new<S: AsRef<str>>(groups: &[Vec<S>]) -> Self {
        let literals = || {
            let numbered = groups.iter().enumerate();
            numbered.flat_map(|(group, literals)| literals.iter().map(move |literal| (group, literal.as_ref())))
        };
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(literals().map(|(_, literal)| literal))
            .expect("some hundred short strings");
        Self { automaton, known: literals().map(|(group, literal)| (group, literal.len())).collect() }
    }

    /// All literals in `text`, also those within others. The groups are in order, without empty ones.
    pub fn find(&self, text: &str) -> Vec<Found> {
        let bytes = text.as_bytes();
        let longest = self.known.iter().map(|&(_, bytes)| bytes - 1).max().unwrap_or(0);
        let mut found: Vec<Found> = Vec::new();
        for start in (0..bytes.len()).step_by(STRETCH_BYTES) {
            checkpoint();
            let end = bytes.len().min(start + STRETCH_BYTES);
            // Matches that end up to `start` were found in the stretch before.
            let stretch = Input::new(bytes).range(start.saturating_sub(longest)..end);
            for one in self.automaton.find_overlapping_iter(stretch).filter(|one| one.end() > start) {
                let (group, length) = self.known[one.pattern().as_usize()];
                let start = one.end() - length;
                match found.iter_mut().find(|found| found.group == group) {
                    Some(found) => found.starts.push(start),
                    None => found.push(Found { group, starts: vec![start] }),
                }
            }
        }
        found.sort_unstable_by_key(|found| found.group);
        found.iter_mut().for_each(|found| found.starts.sort_unstable());
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn looked_for(groups: &[Vec<&str>], text: &str) -> Vec<Found> {
        let lower = text.to_ascii_lowercase();
        let mut found = Vec::new();
        for (group, literals) in groups.iter().enumerate() {
            let mut starts = Vec::new();
            for (at, _) in lower.char_indices() {
                let here = literals.iter().filter(|literal| lower[at..].starts_with(**literal));
                starts.extend(here.map(|_| at));
            }
            if !starts.is_empty() {
                found.push(Found { group, starts });
            }
        }
        found
    }

    #[test]
    fn literals_are_found_in_any_case_within_each_other_and_after_other_letters() {
        let groups = [vec!["sk"], vec!["none"], vec!["://", "k-a", "sk-"]];
        let expected = [(0, vec![3]), (2, vec![3, 4, 11])].map(|(group, starts)| Found { group, starts });
        assert_eq!(LiteralMatcher::new(&groups).find("\u{e9} SK-a \u{8a18}://"), expected);
        assert_eq!(LiteralMatcher::new(&groups).find(""), []);
        let other = LiteralMatcher::new(&[vec!["\u{8a18}\u{61b6}", "\u{e9}"]]);
        assert_eq!(other.find("\u{e9} \u{c9} \u{8a18}\u{61b6}"), [Found { group: 0, starts: vec![0, 6] }]);
    }

    #[test]
    fn a_literal_across_two_stretches_is_found_once() {
        let literals = LiteralMatcher::new(&[vec!["token=", "en", "="]]);
        for before in STRETCH_BYTES - 8..STRETCH_BYTES + 3 {
            let text = format!("{}token={}", "a".repeat(before), "x".repeat(9));
            let starts = vec![before, before + 3, before + 5];
            assert_eq!(literals.find(&text), [Found { group: 0, starts }]);
        }
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_at_every_character_finds(text in "[aAbB=\u{e9}K\u{8a18}]{0,40}") {
            let groups = [vec!["a", "ab"], vec!["b=", "bab", "aa"], vec!["k"]];
            prop_assert_eq!(LiteralMatcher::new(&groups).find(&text), looked_for(&groups, &text));
        }
    }
}
