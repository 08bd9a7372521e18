//! Literal matching: where any of some hundred short strings begins in a text, whatever its case, in one pass over it.
use aho_corasick::{AhoCorasick, AhoCorasickKind, Input};

use crate::error::{Error, Result};
use crate::interrupt::{STRETCH_BYTES, checkpoint};

/// Strings to look for, in groups, made ready once.
pub struct LiteralMatcher {
    automaton: AhoCorasick,
    /// Of each literal its group, its characters and its bytes.
    known: Vec<(usize, usize, usize)>,
}

/// The literals of one group that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub group: usize,
    /// Of each how many characters stand before it, ascending.
    pub starts: Vec<u32>,
}

impl LiteralMatcher {
    /// # Errors
    /// A literal that is empty. Of those that are not ASCII the case counts.
    pub fn new<S: AsRef<str>>(groups: &[Vec<S>]) -> Result<Self> {
        let literals: Vec<&str> = groups.iter().flatten().map(AsRef::as_ref).collect();
        if let Some(odd) = literals.iter().find(|literal| literal.is_empty()) {
            return Err(Error::Argument(format!("needle {odd:?}; look for at least one character")));
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(&literals)
            .map_err(|error| Error::Argument(format!("{} needles: {error}; look for fewer", literals.len())))?;
        let lengths_of = |(group, literals): (usize, &Vec<S>)| {
            let of_literal = |literal: &S| (group, literal.as_ref().chars().count(), literal.as_ref().len());
            literals.iter().map(of_literal).collect::<Vec<_>>()
        };
        Ok(Self { automaton, known: groups.iter().enumerate().flat_map(lengths_of).collect() })
    }

    /// All literals in `text`, also those within others; the groups in order, those without any left out.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<Found> {
        let bytes = text.as_bytes();
        let longest = self.known.iter().map(|&(.., bytes)| bytes - 1).max().unwrap_or(0);
        let mut found: Vec<Found> = Vec::new();
        let (mut counted, mut characters) = (0, 0);
        for start in (0..bytes.len()).step_by(STRETCH_BYTES) {
            checkpoint();
            let end = bytes.len().min(start + STRETCH_BYTES);
            // What ends up to `start` was found in the stretch before.
            let stretch = Input::new(bytes).range(start.saturating_sub(longest)..end);
            for one in self.automaton.find_overlapping_iter(stretch).filter(|one| one.end() > start) {
                let (group, length, _) = self.known[one.pattern().as_usize()];
                characters += bytes[counted..one.end()].iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
                counted = one.end();
                let start = (characters - length) as u32;
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
            for (start, (at, _)) in lower.char_indices().enumerate() {
                let here = literals.iter().filter(|literal| lower[at..].starts_with(**literal));
                starts.extend(here.map(|_| start as u32));
            }
            if !starts.is_empty() {
                found.push(Found { group, starts });
            }
        }
        found
    }

    #[test]
    fn needles_are_found_in_any_case_within_each_other_and_behind_other_letters() {
        let literals = LiteralMatcher::new(&[vec!["sk"], vec!["none"], vec!["://", "k-a", "sk-"]]).unwrap();
        let expected = [(0, vec![2]), (2, vec![2, 3, 8])].map(|(group, starts)| Found { group, starts });
        assert_eq!(literals.find("\u{e9} SK-a \u{8a18}://"), expected);
        assert_eq!(literals.find(""), []);
        let other = LiteralMatcher::new(&[vec!["\u{8a18}\u{61b6}", "\u{e9}"]]).unwrap();
        assert_eq!(other.find("\u{e9} \u{c9} \u{8a18}\u{61b6}"), [Found { group: 0, starts: vec![0, 4] }]);
        assert_eq!(LiteralMatcher::new::<&str>(&[]).unwrap().find("text"), []);
    }

    #[test]
    fn a_needle_across_two_stretches_is_found_once() {
        let literals = LiteralMatcher::new(&[vec!["token=", "en", "="]]).unwrap();
        for before in STRETCH_BYTES - 8..STRETCH_BYTES + 3 {
            let text = format!("{}token={}", "\u{e9}".repeat(before / 2) + &"a".repeat(before % 2), "x".repeat(9));
            let start = (before / 2 + before % 2) as u32;
            assert_eq!(literals.find(&text), [Found { group: 0, starts: vec![start, start + 3, start + 5] }]);
        }
    }

    #[test]
    fn what_is_no_needle_is_refused() {
        assert!(LiteralMatcher::new(&[vec!["fine", ""]]).is_err());
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_at_every_character_finds(text in "[aAbB=\u{e9}K\u{8a18}]{0,40}") {
            let groups = [vec!["a", "ab"], vec!["b=", "bab", "aa"], vec!["k"]];
            prop_assert_eq!(LiteralMatcher::new(&groups).unwrap().find(&text), looked_for(&groups, &text));
        }
    }
}
