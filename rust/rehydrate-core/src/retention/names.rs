//! Names in a text: paths, identifiers, ids and numbers, but no words.
use aho_corasick::AhoCorasick;

use crate::analysis::python_re::{is_digit, is_word};

/// A shorter one says little.
const MIN_CHARS: usize = 4;

/// The names in a text, in order; one may come several times.
pub fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let is_outside = |c: char| !(is_word(u32::from(c)) || "./@~-".contains(c));
    let runs = text.split(is_outside);
    runs.map(|run| run.trim_end_matches(['.', '-']).trim_start_matches('-')).filter(|run| is_name(run))
}

fn is_name(run: &str) -> bool {
    let chars: Vec<char> = run.chars().collect();
    let is_joined = |at: &[char]| is_word(u32::from(at[0])) && "./@_-".contains(at[1]) && is_word(u32::from(at[2]));
    let is_camel = |at: &[char]| at[0].is_ascii_lowercase() && at[1].is_ascii_uppercase();
    chars.len() >= MIN_CHARS
        && (chars[0] == '/'
            || chars.iter().any(|&c| is_digit(u32::from(c)))
            || chars.windows(3).any(is_joined)
            || chars.windows(2).any(is_camel))
}

/// Names to be looked for, all in one pass.
pub struct WantedNames {
    names: Vec<String>,
    finder: AhoCorasick,
}

impl WantedNames {
    #[must_use]
    pub fn new(names: Vec<String>) -> Self {
        let finder = AhoCorasick::new(&names).expect("fewer than two thousand million characters");
        Self { names, finder }
    }

    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The numbers of those that occur in a text, also within longer words and other names.
    #[must_use]
    pub fn found_in(&self, text: &str) -> Vec<usize> {
        let mut is_found = vec![false; self.names.len()];
        for found in self.finder.find_overlapping_iter(text) {
            is_found[found.pattern().as_usize()] = true;
        }
        (0..is_found.len()).filter(|&number| is_found[number]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_within_another() {
        let wanted = WantedNames::new(["a/b.py", "b.py", "src/a/b.py", "c.py"].map(String::from).into());
        assert_eq!(wanted.found_in("see src/a/b.py"), [0, 1, 2]);
        assert_eq!(WantedNames::new(Vec::new()).found_in("x"), [0; 0]);
    }

    #[test]
    fn paths_and_identifiers_are_names_and_words_are_none() {
        let text = "Open ./src/app.py, see parse_row() and userName; -- order HAT017 of 2024-05-20. /tmp a.b Then-.";
        let found: Vec<&str> = names_in(text).collect();
        assert_eq!(found, ["./src/app.py", "parse_row", "userName", "HAT017", "2024-05-20", "/tmp"]);
    }
}
