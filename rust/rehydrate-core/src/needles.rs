//! Needles: where any of some hundred short strings begins in a text, whatever its case, in one pass over it.
use aho_corasick::{AhoCorasick, AhoCorasickKind, Input};

use crate::error::{Error, Result};
use crate::interrupt::{STRETCH_BYTES, checkpoint};

/// Strings to look for, made ready once.
pub struct Needles {
    automaton: AhoCorasick,
    lengths: Vec<usize>,
}

/// A needle that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Which of the needles.
    pub needle: usize,
    /// How many characters stand before it.
    pub start: usize,
}

impl Needles {
    /// # Errors
    /// A needle that is empty or not ASCII: case and length are plain for ASCII only.
    pub fn new(needles: &[&str]) -> Result<Self> {
        if let Some(odd) = needles.iter().find(|needle| needle.is_empty() || !needle.is_ascii()) {
            return Err(Error::Argument(format!("needle {odd:?}; look for ASCII, and for at least one character")));
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(needles)
            .map_err(|error| Error::Argument(format!("{} needles: {error}; look for fewer", needles.len())))?;
        Ok(Self { automaton, lengths: needles.iter().map(|needle| needle.len()).collect() })
    }

    /// All needles in `text`, also those within others, in the order in which they end.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<Found> {
        let bytes = text.as_bytes();
        let longest = self.lengths.iter().max().map_or(0, |length| length - 1);
        let mut found = Vec::new();
        let (mut counted, mut characters) = (0, 0);
        for start in (0..bytes.len()).step_by(STRETCH_BYTES) {
            checkpoint();
            let end = bytes.len().min(start + STRETCH_BYTES);
            // What ends up to `start` was found in the stretch before.
            let stretch = Input::new(bytes).range(start.saturating_sub(longest)..end);
            for one in self.automaton.find_overlapping_iter(stretch).filter(|one| one.end() > start) {
                let needle = one.pattern().as_usize();
                characters += bytes[counted..one.end()].iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
                counted = one.end();
                found.push(Found { needle, start: characters - self.lengths[needle] });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn looked_for(needles: &[&str], text: &str) -> Vec<Found> {
        let lower = text.to_ascii_lowercase();
        let mut found: Vec<Found> = needles
            .iter()
            .enumerate()
            .flat_map(|(needle, word)| {
                let begins = lower.char_indices().enumerate();
                let begins = begins.filter(|(_, (at, _))| lower[*at..].starts_with(word));
                begins.map(move |(start, _)| Found { needle, start }).collect::<Vec<_>>()
            })
            .collect();
        found.sort_by_key(|one| (one.start, one.needle));
        found
    }

    fn sorted(mut found: Vec<Found>) -> Vec<Found> {
        found.sort_by_key(|one| (one.start, one.needle));
        found
    }

    #[test]
    fn needles_are_found_in_any_case_within_each_other_and_behind_other_letters() {
        let needles = Needles::new(&["sk", "sk-", "k-a", "://"]).unwrap();
        let found = needles.find("é SK-a 記://");
        let expected = [(0, 2), (1, 2), (2, 3), (3, 8)].map(|(needle, start)| Found { needle, start });
        assert_eq!(sorted(found), expected);
        assert_eq!(needles.find(""), []);
        assert_eq!(Needles::new(&[]).unwrap().find("text"), []);
    }

    #[test]
    fn a_needle_across_two_stretches_is_found_once() {
        let needles = Needles::new(&["token=", "en", "="]).unwrap();
        for before in STRETCH_BYTES - 8..STRETCH_BYTES + 3 {
            let text = format!("{}token={}", "é".repeat(before / 2) + &"a".repeat(before % 2), "x".repeat(9));
            let start = before / 2 + before % 2;
            let expected = [(0, start), (1, start + 3), (2, start + 5)].map(|(needle, start)| Found { needle, start });
            assert_eq!(sorted(needles.find(&text)), expected);
        }
    }

    #[test]
    fn what_is_no_needle_is_refused() {
        for odd in ["", "é"] {
            assert!(Needles::new(&["fine", odd]).is_err());
        }
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_at_every_character_finds(text in "[aAbB=éK記]{0,40}") {
            let words = ["a", "ab", "b=", "bab", "aa", "k"];
            prop_assert_eq!(sorted(Needles::new(&words).unwrap().find(&text)), looked_for(&words, &text));
        }
    }
}
