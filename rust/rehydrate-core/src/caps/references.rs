//! A text with one line in place of each run of lines that an earlier text has.
use std::ops::Range;

use super::code_points::plural;

/// Lines of a text, and where an earlier text has them. Texts are UTF-8, but may hold halves of surrogate pairs.
#[derive(Debug, Clone)]
pub struct Reference<'a> {
    pub lines: Range<usize>,
    /// The earlier text in words: "the result of call toolu_1 (Read)".
    pub source: &'a [u8],
    /// The number of the first of these lines in the source, counted from 1.
    pub first: usize,
    /// Whether they are all lines of the source.
    pub is_whole: bool,
    /// Whether the numbers before the lines may differ.
    pub is_numbered: bool,
}

impl Reference<'_> {
    /// Append the line that replaces them; the whole text is kept under `handle`.
    fn write(&self, out: &mut Vec<u8>, handle: &[u8]) {
        out.extend_from_slice(b"[same as ");
        if !self.is_whole {
            let last = (self.first + self.lines.len()).saturating_sub(1);
            out.extend_from_slice(format!("lines {}-{last} of ", self.first).as_bytes());
        }
        out.extend_from_slice(self.source);
        let lines = plural(self.lines.len() as i64, "line", "lines");
        let aside = if self.is_numbered { ", line numbers aside" } else { "" };
        out.extend_from_slice(format!(" above: {lines}{aside}. kept whole as ").as_bytes());
        out.extend_from_slice(handle);
        out.push(b']');
    }
}

/// The text with a reference instead of each run of lines. The runs are in order and do not overlap.
///
/// ```
/// use rehydrate_core::caps::{Reference, with_references};
///
/// let source = b"the result of call toolu_1 (Read)";
/// let same = Reference { lines: 1..3, source, first: 1, is_whole: true, is_numbered: false };
/// let text = with_references(b"a\nb\nc\nd", &[same], b"orig_a");
/// let line = "[same as the result of call toolu_1 (Read) above: 2 lines. kept whole as orig_a]";
/// assert_eq!(String::from_utf8(text).unwrap(), format!("a\n{line}\nd"));
/// ```
#[must_use]
pub fn with_references(text: &[u8], references: &[Reference<'_>], handle: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut left = references.iter().peekable();
    let mut skipped = 0..0;
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let starting = left.next_if(|reference| reference.lines.start <= number && !reference.lines.is_empty());
        if let Some(reference) = starting {
            if number > 0 {
                out.push(b'\n');
            }
            reference.write(&mut out, handle);
            skipped = reference.lines.clone();
        }
        if !skipped.contains(&number) {
            if number > 0 {
                out.push(b'\n');
            }
            out.extend_from_slice(line);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_says_where_the_lines_are() {
        let text = "0\n1\n2\n3\n4\n";
        let same = |lines, is_whole, is_numbered| Reference { lines, source: b"it", first: 7, is_whole, is_numbered };
        let cases = [
            (vec![], text),
            (vec![same(0..6, true, false)], "[same as it above: 6 lines. kept whole as h]"),
            (
                vec![same(1..2, false, true)],
                "0\n[same as lines 7-7 of it above: 1 line, line numbers aside. kept whole as h]\n2\n3\n4\n",
            ),
            (
                vec![same(0..2, false, false), same(2..5, true, false)],
                "[same as lines 7-8 of it above: 2 lines. kept whole as h]\n[same as it above: 3 lines. kept whole as h]\n",
            ),
        ];
        for (references, wanted) in cases {
            assert_eq!(String::from_utf8(with_references(text.as_bytes(), &references, b"h")).unwrap(), wanted);
        }
    }
}
