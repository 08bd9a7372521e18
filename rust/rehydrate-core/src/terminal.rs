//! Texts for a terminal or a page: foreign ones made safe, and the lines of a search hit.
mod hits;

use unicode_general_category::GeneralCategory as Category;
use unicode_normalization_alignments::UnicodeNormalization;

use crate::analysis::python_re::{Pattern, category};
use crate::sessions::one_line;
pub use hits::{HitLines, hit_lines, paragraphs};

/// Escape sequences as a whole, so that no "[31m" remains: CSI, then OSC and the other strings up to their terminator or the
/// escape that breaks them off, then those of two characters.
static ESCAPES: Pattern = Pattern::new(
    "",
    concat!(
        r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]",
        r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?",
        r"|\x1b[ -/]*[0-~]?",
    ),
);

/// A text without anything that moves the cursor, changes colours or reorders, on one line.
///
/// Escape sequences and invisible characters are removed, control characters become blanks. Characters of unclear width are
/// simplified: joined emoji and skin tones come apart, flags become their letters.
#[must_use]
pub fn safe(text: &str) -> String {
    /// A tower of marks covers other lines.
    const MARKS_A_CHARACTER: usize = 2;
    let mut shown = String::with_capacity(text.len());
    let mut marks = 0;
    for (character, _) in ESCAPES.regex().replace_all(text, " ").nfc() {
        let Some(plain) = plain(character) else { continue };
        marks = if is_mark(plain) { marks + 1 } else { 0 };
        // A mark needs a base character.
        if marks == 0 || (marks <= MARKS_A_CHARACTER && !shown.is_empty()) {
            shown.push(plain);
        }
    }
    one_line(&shown)
}

/// A text as a page may hold it: control characters as their pictures, and nothing that is not a character.
#[must_use]
pub fn visible(text: &str) -> String {
    let picture = |c: char| match u32::from(c) {
        0x09 | 0x0A => c,
        code @ 0..=0x1F => char::from_u32(0x2400 + code).unwrap_or(c),
        0x7F => '\u{2421}',
        0x80..=0x9F | 0xFDD0..=0xFDEF => char::REPLACEMENT_CHARACTER,
        code if code & 0xFFFE == 0xFFFE => char::REPLACEMENT_CHARACTER,
        _ => c,
    };
    text.replace("\r\n", "\n").chars().map(picture).collect()
}

/// A character as every terminal shows it. None if it shows nothing.
fn plain(character: char) -> Option<char> {
    match character {
        ' '..='~' => return Some(character),
        '\u{1F1E6}'..='\u{1F1FF}' => return char::from_u32(u32::from(character) - 0x1F1E6 + u32::from('A')),
        '\u{1F3FB}'..='\u{1F3FF}' | '\u{FE00}'..='\u{FE0F}' => return None, // skin tones, and variants
        _ => {}
    }
    match category(u32::from(character))? {
        Category::Format => None, // joiners, and marks that reverse the direction of writing
        Category::Control | Category::LineSeparator | Category::ParagraphSeparator | Category::SpaceSeparator => {
            Some(' ')
        }
        Category::PrivateUse | Category::Unassigned => Some(char::REPLACEMENT_CHARACTER), // of any width
        _ => Some(character),
    }
}

/// Whether it takes no cell of its own: also the second and third parts of Hangul syllables.
fn is_mark(character: char) -> bool {
    if character.is_ascii() {
        return false;
    }
    let is_part = matches!(character, '\u{1160}'..='\u{11FF}' | '\u{D7B0}'..='\u{D7FF}');
    let of = category(u32::from(character));
    is_part || matches!(of, Some(Category::NonspacingMark | Category::EnclosingMark | Category::SpacingMark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_reaches_the_terminal_as_a_command() {
        let cases = [
            ("\x1b[31mred\x07 alert", "red alert"),
            ("a\x1b]0;title\x07b\r\nc", "a b c"),
            ("\u{9b}2Jgone", "gone"),
            ("a\u{202e}b\u{200b}c", "abc"),
            ("e\u{301}\u{301}\u{301}\u{301}", "é\u{301}\u{301}"),
            ("\u{301}a", "a"),
            ("\u{1F1E9}\u{1F1EA} \u{1F44D}\u{1F3FD}", "DE \u{1F44D}"),
            ("\u{E000}", "\u{FFFD}"),
        ];
        for (text, shown) in cases {
            assert_eq!(safe(text), shown, "{text:?}");
        }
    }
}
