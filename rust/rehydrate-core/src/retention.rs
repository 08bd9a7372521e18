//! The share of what is needed later that a compaction keeps: names, lines typed again and instructions, as texts have
//! them.
//!
//! A measure that shares code with the thing it measures shares its mistakes: nothing here uses the conversation's own
//! readers.
mod covers;
mod instructions;
mod lines;
mod losses;
mod names;

pub use covers::{Needs as CoverNeeds, best_cover, cover};
pub use instructions::{binding_sentences, share_kept};
pub use lines::{WantedLines, lines_in, without_marks};
pub use losses::{Loss, losses};
pub use names::{WantedNames, names_in};

use crate::analysis::python_re::is_space;

/// A text with each run of white space as one blank.
fn single_spaced(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len());
    let mut is_after_space = false;
    for c in text.chars() {
        let is_space = is_space(u32::from(c));
        if !is_space {
            spaced.push(c);
        } else if !is_after_space {
            spaced.push(' ');
        }
        is_after_space = is_space;
    }
    spaced
}

/// Whether one of the texts holds the wanted text, whatever the white space.
#[must_use]
pub fn is_held(wanted: &str, texts: &[String]) -> bool {
    if texts.iter().any(|text| text.contains(wanted)) {
        return true;
    }
    let wanted = single_spaced(wanted);
    texts.iter().any(|text| single_spaced(text).contains(&wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_does_not_matter() {
        assert_eq!(single_spaced(" a\u{1f}\n b  c"), " a b c");
        assert!(is_held("go  on", &["x".into(), "Now go\non.".into()]));
        assert!(!is_held("go on", &["goon".into()]));
    }
}
