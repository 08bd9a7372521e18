//! BERT's normaliser and pre-tokenizer, character by character, by tables filled a page at a time on first use.
//!
//! The passes themselves are in [`chunk`], in the order of the `tokenizers` crate and on the same two Unicode crates:
//! old ones (Unicode 8 and 9; opening brackets beyond ASCII aren't punctuation to them), but the model's ids were made
//! with them. The tables are [`chunk`] asked about one character, so the two cannot disagree; the one thing that
//! depends on neighbours is the canonical order of combining marks, and [`Normal::Reorders`] says where it matters.

use once_cell::race::OnceBox;
use unicode_categories::UnicodeCategories;
use unicode_normalization_alignments::{UnicodeNormalization, char::canonical_combining_class};

/// The outcome of normalising one character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normal {
    Nothing,
    /// White space: the word before it ends.
    Boundary,
    /// Punctuation, or a Chinese character: a word of its own.
    Alone(char),
    Letter(char),
    Several(&'static [Normal]),
    /// A mark that is kept and moves among its neighbours: only [`chunk`] over the whole text around it is right.
    Reorders,
}

/// The outcome of `char`, whatever its neighbours; a table look-up.
#[inline]
pub fn of(char: char) -> Normal {
    let code = char as usize;
    let page = PAGES[code / PAGE_SIZE].get_or_init(|| fill_page((code / PAGE_SIZE * PAGE_SIZE) as u32));
    page[code % PAGE_SIZE]
}

/// Normalises characters one pass after the other, as BERT does, and gives each result to `take`.
pub fn chunk(chars: impl Iterator<Item = char>, mut take: impl FnMut(Normal)) {
    let spaced = chars.filter(|&char| !is_dropped(char)).flat_map(|char| {
        let space = is_chinese(char).then_some(' ');
        space.into_iter().chain([char]).chain(space)
    });
    for (char, _) in spaced.nfd() {
        if char.is_mark_nonspacing() {
            continue;
        }
        for lower in char.to_lowercase() {
            take(if lower.is_whitespace() {
                Normal::Boundary
            } else if lower.is_ascii_punctuation() || lower.is_punctuation() {
                Normal::Alone(lower)
            } else {
                Normal::Letter(lower)
            });
        }
    }
}

const PAGE_SIZE: usize = 256;
type Page = [Normal; PAGE_SIZE];
static PAGES: [OnceBox<Page>; 0x11_0000 / PAGE_SIZE] = [const { OnceBox::new() }; 0x11_0000 / PAGE_SIZE];

#[cold]
fn fill_page(first: u32) -> Box<Page> {
    let mut page = Box::new([Normal::Nothing; PAGE_SIZE]);
    for (normal, code) in page.iter_mut().zip(first..) {
        // Surrogates are in no text.
        if let Some(char) = char::from_u32(code) {
            *normal = of_one(char);
        }
    }
    page
}

fn of_one(char: char) -> Normal {
    let mut parts = Vec::new();
    chunk([char].into_iter(), |part| parts.push(part));
    let moves =
        |part: &Normal| matches!(*part, Normal::Letter(c) | Normal::Alone(c) if canonical_combining_class(c) != 0);
    match parts[..] {
        _ if parts.iter().any(moves) => Normal::Reorders,
        [] => Normal::Nothing,
        [part] => part,
        [Normal::Boundary, Normal::Letter(char), Normal::Boundary] => Normal::Alone(char),
        // Filled once in the life of the program (or once a thread, if several begin together): a bounded leak.
        _ => Normal::Several(parts.leak()),
    }
}

/// NUL, the replacement character, and control, format and private-use characters, except the three that count as
/// space.
fn is_dropped(char: char) -> bool {
    match char {
        '\t' | '\n' | '\r' => false,
        '\0' | '\u{FFFD}' => true,
        _ => char.is_other(),
    }
}

/// The blocks that BERT takes for Chinese.
fn is_chinese(char: char) -> bool {
    matches!(char,
        '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{2A6DF}'
        | '\u{2A700}'..='\u{2B81F}'
        | '\u{2B920}'..='\u{2CEAF}'
        | '\u{2F800}'..='\u{2FA1F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_for_each_kind_of_character_what_becomes_of_it() {
        assert_eq!(of('É'), Normal::Letter('e'));
        assert_eq!(of('\u{301}'), Normal::Nothing);
        assert_eq!(of('\u{7F}'), Normal::Nothing);
        assert_eq!(of('\u{2003}'), Normal::Boundary);
        assert_eq!(of('漢'), Normal::Alone('漢'));
        assert_eq!(of('“'), Normal::Alone('“'));
        assert_eq!(of('≠'), Normal::Alone('='));
        assert_eq!(of('한'), Normal::Several(&[Normal::Letter('ᄒ'), Normal::Letter('ᅡ'), Normal::Letter('ᆫ')]));
        assert_eq!(of('\u{302E}'), Normal::Reorders);
    }
}
