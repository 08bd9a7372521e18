//! A text as its code points: caps, positions and marks are counted in them, as Python counts.
//!
//! So the halves of surrogate pairs that a Python string may hold stay as they are.
use std::ops::Range;

use unicode_general_category::GeneralCategory as Category;

use crate::analysis::python_re::category;
pub(crate) use crate::analysis::python_re::{is_digit, is_line_end, is_space, is_word};

/// The code points of a text.
#[must_use]
pub fn code_points(text: &str) -> Vec<u32> {
    text.chars().map(u32::from).collect()
}

/// The text, with `?` in place of each half of a surrogate pair.
#[must_use]
pub fn lossy(text: &[u32]) -> String {
    text.iter().map(|&point| char::from_u32(point).unwrap_or('?')).collect()
}

/// The text as UTF-8, in which a half of a surrogate pair is written like any other code point.
#[must_use]
pub fn encoded(text: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &point in text {
        match char::from_u32(point) {
            Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            None => {
                out.extend([0xE0 | (point >> 12) as u8, 0x80 | (point >> 6 & 0x3F) as u8, 0x80 | (point & 0x3F) as u8])
            }
        }
    }
    out
}

/// The code points of what `encoded` wrote.
#[must_use]
pub fn decoded(text: &[u8]) -> Vec<u32> {
    let mut points: Vec<u32> = Vec::with_capacity(text.len());
    for &byte in text {
        match (byte, points.last_mut()) {
            (0x80..0xC0, Some(last)) => *last = *last << 6 | u32::from(byte & 0x3F),
            (0xC0..0xE0, _) => points.push(u32::from(byte & 0x1F)),
            (0xE0..0xF0, _) => points.push(u32::from(byte & 0x0F)),
            (0xF0.., _) => points.push(u32::from(byte & 0x07)),
            _ => points.push(u32::from(byte)),
        }
    }
    points
}

pub(crate) fn is_blank(text: &[u32]) -> bool {
    text.iter().all(|&point| is_space(point))
}

/// The text without the white space around it.
pub(crate) fn trim(text: &[u32]) -> &[u32] {
    let text = trim_end(text);
    &text[run(text, is_space)..]
}

/// The text without the white space at its end.
pub(crate) fn trim_end(text: &[u32]) -> &[u32] {
    let end = text.iter().rposition(|&point| !is_space(point)).map_or(0, |last| last + 1);
    &text[..end]
}

/// The beginning and the end of each line, its end included, as Python's `str.splitlines` finds them.
pub(crate) fn lines(text: &[u32]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let length = run(text.get(start..)?, |point| !is_line_end(point));
        at = (start + length + 1).min(text.len());
        if at > start && is(text[at - 1], b'\r') && text.get(at).is_some_and(|&point| is(point, b'\n')) {
            at += 1;
        }
        (at > start).then_some(start..at)
    })
}

/// Whether the code point is this ASCII character.
pub(crate) fn is(point: u32, char: u8) -> bool {
    point == u32::from(char)
}

/// Whether the code point is one of these characters.
pub(crate) fn is_in(point: u32, chars: &str) -> bool {
    char::from_u32(point).is_some_and(|c| chars.contains(c))
}

pub(crate) fn starts_with(text: &[u32], start: &str) -> bool {
    start.chars().count() <= text.len() && start.chars().zip(text).all(|(c, &point)| u32::from(c) == point)
}

/// The number of code points at the start for which `is_so` holds.
pub(crate) fn run(text: &[u32], is_so: impl Fn(u32) -> bool) -> usize {
    text.iter().take_while(|&&point| is_so(point)).count()
}

/// The first `count` code points, or all.
pub(super) fn first(text: &[u32], count: usize) -> &[u32] {
    &text[..count.min(text.len())]
}

pub(super) fn push(out: &mut Vec<u32>, text: &str) {
    out.extend(text.chars().map(u32::from));
}

/// The place of a cut: the last index up to `limit` that splits no character as readers see them.
pub(super) fn boundary(text: &[u32], limit: usize) -> usize {
    const LOOK_BACK: usize = 32;
    if limit == 0 || limit >= text.len() {
        return limit.min(text.len());
    }
    let first = (limit + 1).saturating_sub(LOOK_BACK);
    (first..=limit).rev().find(|&index| index == 0 || !is_joined(text[index - 1], text[index])).unwrap_or(limit)
}

/// Whether both code points belong to the same character.
fn is_joined(before: u32, after: u32) -> bool {
    const JOINER: u32 = 0x200D;
    match after {
        0..0x300 => is(before, b'\r') && is(after, b'\n'),
        JOINER | 0xFE0E | 0xFE0F | 0x1F3FB..=0x1F3FF => true,
        0xDC00..0xE000 => before == JOINER || (0xD800..0xDC00).contains(&before),
        _ => before == JOINER || matches!(category(after), Some(Category::NonspacingMark | Category::EnclosingMark)),
    }
}

/// A number with commas between its thousands.
#[must_use]
pub fn grouped(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", crate::excerpts::grouped(number.unsigned_abs()))
}

/// A number and its noun.
pub(super) fn plural(count: i64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// The mark in place of the omitted part.
pub(super) fn mark(one: &str, count: i64, first: i64, last: i64) -> String {
    let span = if first == last { first.to_string() } else { format!("{first}-{last}") };
    format!("[... {} omitted, {span} ...]", plural(count, one, &format!("{one}s")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_is_split() {
        for character in ["e\u{301}", "👨\u{200D}👩\u{200D}👧", "👍🏽", "\r\n", "☝\u{FE0F}"] {
            let length = character.chars().count();
            let text = code_points(&format!("ab{}", character.repeat(200)));
            for limit in 2..60 {
                let cut = boundary(&text, limit);
                assert!(
                    cut + length > limit && cut <= limit && (cut - 2).is_multiple_of(length),
                    "{character:?} {limit} {cut}"
                );
            }
        }
        assert_eq!((boundary(&[0x61; 3], 2), boundary(&[0x65, 0x301], 1), boundary(&[0xD83D, 0xDE00], 1)), (2, 0, 0));
    }

    #[test]
    fn halves_of_surrogate_pairs_are_encoded_like_any_code_point() {
        let text = [0x61, 0x7F, 0x80, 0x7FF, 0x800, 0xD83D, 0xDE00, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF];
        assert_eq!(decoded(&encoded(&text)), text);
        assert_eq!(encoded(&code_points("aé→😀")), "aé→😀".as_bytes());
        assert_eq!(encoded(&[0xD83D]), [0xED, 0xA0, 0xBD]);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 4_900, -12_345].map(grouped), ["0", "999", "1,000", "4,900", "-12,345"]);
        assert_eq!(mark("line", 42, 118, 159), "[... 42 lines omitted, 118-159 ...]");
        assert_eq!(mark("character", 1, 7, 7), "[... 1 character omitted, 7 ...]");
    }
}
