//! The subjects of a thread's directives: which of them a new one may contradict.
use rustc_hash::{FxHashMap, FxHashSet};

use crate::analysis::directives::directive_spans;

/// Share of the words of two directives (Jaccard) from which one is about the other.
const SAME_SUBJECT: f64 = 0.34;
/// Directives that a new one is compared with: those that share its rarest words.
const MAX_COMPARED: usize = 256;

/// The texts of a thread with directives, by word. Each is read once.
#[derive(Debug, Default)]
pub struct Subjects {
    /// The subjects of a text's directives, ascending.
    by_text: FxHashMap<u64, Vec<Vec<u32>>>,
    /// The texts about a word, the last one last.
    by_word: FxHashMap<u32, Vec<u64>>,
}

impl Subjects {
    /// Whether the text with this number was read.
    #[must_use]
    pub fn has(&self, text: u64) -> bool {
        self.by_text.contains_key(&text)
    }

    /// Read a text.
    pub fn add(&mut self, number: u64, text: &str) {
        let subjects: Vec<Vec<u32>> = directive_spans(text).into_iter().map(|directive| directive.subject).collect();
        for &word in subjects.iter().flatten() {
            let texts = self.by_word.entry(word).or_default();
            if texts.last() != Some(&number) {
                texts.push(number);
            }
        }
        self.by_text.insert(number, subjects);
    }

    /// The valid text that is most about these words, the last of equals, if one is about the same.
    pub fn nearest(&mut self, subject: &[u32], holds: impl Fn(u64) -> bool) -> Option<u64> {
        let (mut best, mut most) = (None, SAME_SUBJECT);
        for number in self.candidates(subject, holds) {
            for other in &self.by_text[&number] {
                let shared = subject.iter().filter(|&word| other.binary_search(word).is_ok()).count();
                let share = shared as f64 / (subject.len() + other.len() - shared).max(1) as f64;
                if share >= most {
                    (best, most) = (Some(number), share);
                }
            }
        }
        best
    }

    /// The texts that share a word, ascending: of the rarest words first, the last read first.
    fn candidates(&mut self, subject: &[u32], holds: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut words = subject.to_vec();
        words.sort_by_key(|word| self.by_word.get(word).map_or(0, Vec::len));
        let mut found = FxHashSet::default();
        for word in words {
            let Some(texts) = self.by_word.get_mut(&word) else { continue };
            let mut gone = FxHashSet::default();
            for &number in texts.iter().rev() {
                if found.len() == MAX_COMPARED {
                    break;
                }
                if holds(number) {
                    found.insert(number);
                } else {
                    gone.insert(number);
                }
            }
            texts.retain(|number| !gone.contains(number));
        }
        let mut found: Vec<u64> = found.into_iter().collect();
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_directive_of_the_same_subject_is_found_while_it_holds() {
        let mut subjects = Subjects::default();
        for (number, text) in [(1, "Always use tabs."), (2, "Never push to main."), (3, "Always use tabs for Go.")] {
            subjects.add(number, text);
        }
        let subject = directive_spans("From now on, always use tabs.").remove(0).subject;
        assert!(subjects.has(2) && !subjects.has(4));
        assert_eq!(subjects.nearest(&subject, |_| true), Some(1));
        assert_eq!(subjects.nearest(&subject, |number| number != 1), Some(3));
        assert_eq!(subjects.nearest(&subject, |number| number == 2), None);
        assert_eq!(subjects.nearest(&[], |_| true), None);
    }
}
