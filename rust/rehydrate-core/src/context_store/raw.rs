//! Texts as Python has them: UTF-8, in which half of a surrogate pair is written like any other code point.
//!
//! Places are in bytes here, and in characters in a [`super::Span`].
use std::borrow::Cow;
use std::ops::Range;

use blake2b_simd::Params;
use unicase::UniCase;

use crate::analysis::directives::{DirectiveSpan, directive_spans};
use crate::analysis::python_re;
use crate::caps::{decoded, lossy};

/// Such a text.
pub type Raw = Box<[u8]>;

/// Characters of a key.
const MAX_KEY: usize = 200;

/// The text with another character in place of each half of a surrogate pair. Every place stays the same.
pub(super) fn plain(text: &[u8]) -> Cow<'_, str> {
    read(text, |text| text.into_iter().map(|point| char::from_u32(point).unwrap_or('\u{FFFF}')).collect())
}

/// The text with `?` in their place, for counting and for finding directives.
pub(super) fn counted(text: &[u8]) -> Cow<'_, str> {
    read(text, |text| lossy(&text))
}

fn read(text: &[u8], with_halves: impl Fn(Vec<u32>) -> String) -> Cow<'_, str> {
    std::str::from_utf8(text).map_or_else(|_| Cow::Owned(with_halves(decoded(text))), Cow::Borrowed)
}

/// Its number of characters.
pub(super) fn chars(text: &[u8]) -> i64 {
    text.iter().filter(|byte| !(0x80..0xC0).contains(*byte)).count() as i64
}

/// The byte where the character with this number begins, or the end.
#[must_use]
pub fn byte_of(text: &[u8], char: usize) -> usize {
    let starts = text.iter().enumerate().filter(|(_, byte)| !(0x80..0xC0).contains(*byte));
    starts.map(|(at, _)| at).nth(char).unwrap_or(text.len())
}

/// The first place of a part.
pub(super) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, part)
}

/// Its words on one line.
pub(super) fn flat(text: &[u8]) -> Vec<u8> {
    let read = plain(text);
    let mut out = Vec::with_capacity(text.len());
    for word in read.split(is_space).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(b' ');
        }
        let start = word.as_ptr().addr() - read.as_ptr().addr();
        out.extend_from_slice(&text[start..start + word.len()]);
    }
    out
}

/// The range without the white space around it.
#[must_use]
pub fn stripped(text: &[u8]) -> Range<usize> {
    let read = plain(text);
    let end = read.trim_end_matches(is_space).len();
    let start = end - read[..end].trim_start_matches(is_space).len();
    start..end
}

pub(super) fn is_space(char: char) -> bool {
    python_re::is_space(char.into())
}

/// The key of a text, which two sayings of one thing share.
#[must_use]
pub fn key_of(text: &[u8]) -> Raw {
    let folded = match std::str::from_utf8(text) {
        Ok(text) => UniCase::unicode(text).to_folded_case().into_bytes(),
        Err(_) => folded(text),
    };
    let mut key = flat(&folded);
    key.truncate(byte_of(&key, MAX_KEY));
    key.into()
}

/// In one case, of a text with halves of surrogate pairs.
fn folded(text: &[u8]) -> Vec<u8> {
    let fold = |point: u32| match char::from_u32(point) {
        Some(char) => UniCase::unicode(char.to_string()).to_folded_case().into_bytes(),
        None => crate::caps::encoded(&[point]),
    };
    decoded(text).into_iter().flat_map(fold).collect()
}

/// 64 bits of a text, hexadecimal.
#[must_use]
pub fn digest(text: &[u8]) -> String {
    digest_of(&[text])
}

/// The same of the parts of one text.
pub(super) fn digest_of(parts: &[&[u8]]) -> String {
    let mut state = Params::new().hash_length(8).to_state();
    for part in parts {
        state.update(part);
    }
    state.finalize().to_hex().to_string()
}

/// The directives in a text, by their places in it.
pub(super) fn directives(text: &[u8]) -> Vec<DirectiveSpan> {
    let read = counted(text);
    let mut found = directive_spans(&read);
    if matches!(read, Cow::Owned(_)) {
        for DirectiveSpan { range, .. } in &mut found {
            let at = |byte: usize| byte_of(text, read[..byte].chars().count());
            *range = at(range.start)..at(range.end);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: &[u8] = b"A \xED\xA0\xBD\x1c B.";

    #[test]
    fn halves_of_surrogate_pairs_stay_what_they_are() {
        assert_eq!((plain(HALF).as_ref(), counted(HALF).as_ref()), ("A \u{FFFF}\u{1c} B.", "A ?\u{1c} B."));
        assert_eq!((chars(HALF), byte_of(HALF, 3), byte_of(HALF, 9)), (7, 5, HALF.len()));
        assert_eq!(flat(HALF), b"A \xED\xA0\xBD B.");
        assert_eq!(&*key_of(HALF), b"a \xED\xA0\xBD b.");
        let rule = b"\xED\xA0\xBDx. Always use tabs.";
        assert_eq!(directives(rule).remove(0).range, 6..rule.len() - 1);
    }

    #[test]
    fn keys_are_folded_as_python_folds_them() {
        for (text, key) in [("Use  Tabs.", "use tabs."), ("STRASSE Straße", "strasse strasse"), ("Σς İ", "σσ i\u{307}")]
        {
            assert_eq!(&*key_of(text.as_bytes()), key.as_bytes());
        }
        assert_eq!(chars(&key_of("ß".repeat(300).as_bytes())), 200);
        assert_eq!(digest(b"Use tabs."), "57ec54747cea1e95");
    }
}
