//! The kept blocks of a text, with a mark in place of each gap. Nothing ever reads a mark: a mark that is already in a
//! text is text like any other.
use std::ops::Range;

use super::blocks::Division;
use super::cut::Measure;

/// Neighbouring blocks that are all kept, or all left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Their numbers; never none.
    pub blocks: Range<usize>,
    pub is_kept: bool,
}

/// The shown form of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Its text.
    Text(Run),
    /// A mark, on a line of its own.
    Mark(String),
}

impl Measure {
    /// Its name, as marks and reports have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Elements => "elements",
            Self::Members => "members",
            Self::Characters => "characters",
        }
    }
}

impl Division {
    /// The runs of blocks, by whether each one is kept.
    #[must_use]
    pub fn runs(&self, kept: &[bool]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (block, &is_kept) in kept.iter().enumerate().take(self.blocks.len()) {
            match runs.last_mut() {
                Some(run) if run.is_kept == is_kept => run.blocks.end = block + 1,
                _ => runs.push(Run { blocks: block..block + 1, is_kept }),
            }
        }
        runs
    }

    /// The part of its text that a run is, in bytes and in characters.
    #[must_use]
    pub fn span(&self, run: &Run) -> (Range<usize>, Range<usize>) {
        let (first, last) = (&self.blocks[run.blocks.start], &self.blocks[run.blocks.end - 1]);
        (first.bytes.start..last.bytes.end, first.chars.start..last.chars.end)
    }

    /// The mark for a run that is left out.
    #[must_use]
    pub fn mark(&self, run: &Run, handle: &str) -> String {
        let blocks = &self.blocks[run.blocks.clone()];
        let count: usize = blocks.iter().map(|block| block.count).sum();
        let (first, last) = (blocks[0].first, blocks[blocks.len() - 1].last);
        // Lines after numbered ones may have no number.
        let last = if last < first { first + count - 1 } else { last };
        mark(self.measure.name(), count, first, last, handle)
    }

    /// The shown runs of `text`, whose division this is, in order.
    #[must_use]
    pub fn shown(&self, text: &str, kept: &[bool], handle: &str) -> Vec<Shown> {
        let (mut at_line_start, mut shown) = (true, Vec::new());
        for run in self.runs(kept) {
            if run.is_kept {
                at_line_start = text[self.span(&run).0].ends_with('\n');
                shown.push(Shown::Text(run));
                continue;
            }
            let before = if at_line_start { "" } else { "\n" };
            let after = if run.blocks.end == self.blocks.len() { "" } else { "\n" };
            shown.push(Shown::Mark(format!("{before}{}{after}", self.mark(&run, handle))));
            at_line_start = true;
        }
        shown
    }
}

/// The mark for a gap of this many lines or other things of a measure; the handle says where a memory has the whole
/// text.
#[must_use]
pub fn mark(measure: &str, count: usize, first: usize, last: usize, handle: &str) -> String {
    let noun = if count == 1 { measure.strip_suffix('s').unwrap_or(measure) } else { measure };
    let last = if first == last { String::new() } else { format!("-{last}") };
    let comma = if handle.is_empty() { "" } else { ", " };
    format!("[... {} {noun} omitted, {first}{last}{comma}{handle} ...]", grouped(count as u64))
}

/// A whole number with a comma before every three digits.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::super::blocks::Block;
    use super::*;

    fn division() -> Division {
        let block = |start: usize, number| Block {
            bytes: start..start + 2,
            chars: start..start + 2,
            count: 1,
            first: number,
            last: number,
        };
        Division { measure: Measure::Lines, blocks: [block(0, 1), block(2, 2), block(4, 3)].into() }
    }

    fn rendered(kept: [bool; 3]) -> String {
        let (division, text) = (division(), "a\nb\ncd");
        let part = |shown: &Shown| match shown {
            Shown::Text(run) => text[division.span(run).0].to_owned(),
            Shown::Mark(mark) => mark.clone(),
        };
        division.shown(text, &kept, "").iter().map(part).collect()
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_mark_has_a_line_of_its_own() {
        assert_eq!(rendered([true; 3]), "a\nb\ncd");
        assert_eq!(rendered([false, true, false]), "[... 1 line omitted, 1 ...]\nb\n[... 1 line omitted, 3 ...]");
        assert_eq!(rendered([false; 3]), "[... 3 lines omitted, 1-3 ...]");
    }

    #[test]
    fn a_mark_agrees_with_its_number() {
        assert_eq!(mark("lines", 42, 118, 159, "mem_3f"), "[... 42 lines omitted, 118-159, mem_3f ...]");
        assert_eq!(mark("characters", 12_345, 1, 12_345, ""), "[... 12,345 characters omitted, 1-12345 ...]");
    }
}
