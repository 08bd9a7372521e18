//! The lines of a text that are kept, chosen in any order, and the marks in the gaps between them.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::code_points::{boundary, code_points, first, is, is_digit, is_word, mark, plural, push, run};
use crate::interrupt::checkpoint;

/// A longer line is cut: minified code and dumps would leave no room for anything else.
pub(super) const MAX_LINE: usize = 1_000;
/// The lines among which the shown ones are chosen. No cap shows as many; further lines are only counted.
pub(super) const MAX_LINES: usize = 50_000;
/// The maximum length of [`lines_mark`].
pub(super) const MARK: usize = 44;
/// The lines in which names are searched for; no cap shows as many.
pub(super) const MAX_NAMED_LINES: usize = 5_000;

/// The shown part of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub text: Vec<u32>,
    /// The code points of the text itself, without marks and counts.
    pub kept: Vec<u32>,
}

pub(super) fn split(text: &[u32]) -> Vec<&[u32]> {
    text.split(|&point| is(point, b'\n')).collect()
}

pub(super) fn join<'a>(lines: impl IntoIterator<Item = &'a [u32]>) -> Vec<u32> {
    let mut out = Vec::new();
    for (number, line) in lines.into_iter().enumerate() {
        if number > 0 {
            out.push(u32::from('\n'));
        }
        out.extend_from_slice(line);
    }
    out
}

/// Characters for counts and filters, of a text that is cut to `limit`.
pub(super) fn filters_room(limit: usize) -> usize {
    (limit / 8).min(600)
}

/// Append the line in at most `limit` characters with its mark. Returns the number of its own characters.
pub(super) fn clip(line: &[u32], limit: usize, out: &mut Vec<u32>) -> usize {
    const MARK: usize = 40;
    if line.len() <= limit {
        out.extend_from_slice(line);
        return line.len();
    }
    let cut = boundary(line, limit.saturating_sub(MARK));
    out.extend_from_slice(&line[..cut]);
    push(out, &mark("character", (line.len() - cut) as i64, cut as i64 + 1, line.len() as i64));
    cut
}

/// The mark for a gap, from its first to its last line; "" for none.
pub(super) type GapMark<'a> = &'a dyn Fn(usize, usize) -> Vec<u32>;

pub(super) fn lines_mark(first: usize, last: usize) -> Vec<u32> {
    code_points(&mark("line", (last - first + 1) as i64, first as i64 + 1, last as i64 + 1))
}

/// A short mark, for texts with many gaps.
pub(super) fn short_mark(first: usize, last: usize) -> Vec<u32> {
    code_points(&format!("[... {} ...]", plural((last - first + 1) as i64, "line", "lines")))
}

/// The kept lines of a text, as long as they and the marks fit.
pub(super) struct Selection<'a> {
    lines: &'a [&'a [u32]],
    kept: Vec<bool>,
    mark_cost: i64,
    max_line: usize,
    /// Characters that are still free.
    pub remaining: i64,
}

impl<'a> Selection<'a> {
    /// `mark_cost` is a mark's maximum length; lines of more than `max_line` characters are cut.
    pub fn new(lines: &'a [&'a [u32]], limit: i64, mark_cost: usize, max_line: usize) -> Self {
        let mark_cost = mark_cost as i64;
        Self { lines, kept: vec![false; lines.len()], mark_cost, max_line, remaining: limit - mark_cost }
    }

    pub fn is_kept(&self, index: usize) -> bool {
        self.kept[index]
    }

    fn cost(&self, index: usize) -> i64 {
        self.lines[index].len().min(self.max_line) as i64 + 1
    }

    /// Keep the line if it fits; whether it is kept.
    pub fn keep(&mut self, index: usize) -> bool {
        if self.kept[index] {
            return true;
        }
        let gap_before = index > 0 && !self.kept[index - 1];
        let gap_after = index + 1 < self.lines.len() && !self.kept[index + 1];
        let cost = self.cost(index) + (i64::from(gap_before) + i64::from(gap_after) - 1) * self.mark_cost;
        if cost > self.remaining {
            return false;
        }
        self.kept[index] = true;
        self.remaining -= cost;
        true
    }

    /// Keep those that fit, in this order, until less than `reserve` characters remain.
    pub fn keep_all(&mut self, indices: impl IntoIterator<Item = usize>, reserve: f64) {
        for index in indices {
            if (self.remaining as f64) < reserve {
                return;
            }
            self.keep(index);
        }
    }

    /// Keep the lines of a range, all or none. Returns whether they are kept.
    pub fn keep_block(&mut self, range: Range<usize>) -> bool {
        let cost: i64 = range.clone().filter(|&index| !self.kept[index]).map(|index| self.cost(index)).sum();
        if cost + self.mark_cost > self.remaining {
            return false;
        }
        for index in range {
            self.keep(index);
        }
        true
    }

    /// Keep the lines that fit, until one does not and less than `min_room` characters remain.
    pub fn fill(&mut self, indices: impl IntoIterator<Item = usize>, min_room: i64) {
        for index in indices {
            if self.remaining < 0 || (!self.keep(index) && self.remaining < min_room) {
                return;
            }
        }
    }

    /// Keep up to `limit` more lines, first those with the most new names for their length.
    ///
    /// Names are the words, paths and numbers of a result: an agent needs these later. A name is new if no kept line
    /// has it. A line without a new name is not kept.
    pub fn keep_by_new_names(&mut self, limit: usize) {
        /// Characters of a line that are searched for names.
        const MAX_NAMED: usize = 1_000;
        /// Characters that a line costs in addition to its own. With fewer, single lines would be picked from
        /// everywhere.
        const LINE_COST: usize = 40;
        let lines = &self.lines[..self.lines.len().min(MAX_NAMED_LINES)];
        let mut ids = FxHashMap::default();
        let mut names: Vec<Box<[u32]>> = Vec::with_capacity(lines.len());
        for line in lines {
            checkpoint();
            let mut found = Vec::new();
            for name in NameFinder(first(line, MAX_NAMED)) {
                let next = ids.len() as u32;
                found.push(*ids.entry(name).or_insert(next));
            }
            found.sort_unstable();
            found.dedup();
            names.push(found.into());
        }
        let mut known = FxHashSet::default();
        for (_, found) in names.iter().enumerate().filter(|&(index, _)| self.kept[index]) {
            known.extend(found.iter().copied());
        }
        let value = |index: usize, known: &FxHashSet<u32>| {
            let new = names[index].iter().filter(|name| !known.contains(name)).count();
            // Positive numbers are in the order of their bits.
            (new as f64 / (lines[index].len().min(MAX_NAMED) + LINE_COST) as f64).to_bits()
        };
        // A lazy greedy choice: a line's value only falls, so only the top of the heap is computed again.
        let candidates = (0..lines.len()).filter(|&index| !names[index].is_empty() && !self.kept[index]);
        let mut heap: BinaryHeap<_> = candidates.map(|index| (value(index, &known), Reverse(index))).collect();
        let mut count = 0;
        while count < limit && self.remaining > 0 {
            let Some((before, Reverse(index))) = heap.pop() else { return };
            let now = value(index, &known);
            if now < before {
                heap.push((now, Reverse(index))); // some of its names are kept by now
            } else if now == 0 {
                return;
            } else if self.keep(index) {
                known.extend(names[index].iter().copied());
                count += 1;
            }
        }
    }

    /// The kept lines, and a mark on a line of its own for each gap. A gap that is no longer than its mark is shown.
    pub fn render(&self, gap_mark: GapMark<'_>) -> Excerpt {
        let mut shown: Vec<Vec<u32>> = Vec::new();
        let mut kept: Vec<&[u32]> = Vec::new();
        let mut start = 0;
        for run in self.kept.chunk_by(|one, other| one == other) {
            checkpoint();
            let (end, is_kept) = (start + run.len(), run[0]);
            let lines = &self.lines[start..end];
            let gap = if is_kept { Vec::new() } else { gap_mark(start, end - 1) };
            start = end;
            if !is_kept && lines.iter().map(|line| line.len() + 1).sum::<usize>() > gap.len() + 1 {
                if !gap.is_empty() {
                    shown.push(gap);
                }
                continue;
            }
            for line in lines {
                let mut clipped = Vec::new();
                let length = clip(line, self.max_line, &mut clipped);
                shown.push(clipped);
                kept.push(&line[..length]);
            }
        }
        Excerpt { text: join(shown.iter().map(Vec::as_slice)), kept: join(kept) }
    }
}

/// The names in a line, one after the other: words of four and more characters, with the dots, slashes and hyphens in
/// them, and numbers of three and more digits.
struct NameFinder<'a>(&'a [u32]);

impl<'a> Iterator for NameFinder<'a> {
    type Item = &'a [u32];

    fn next(&mut self) -> Option<&'a [u32]> {
        loop {
            let (&start, rest) = self.0.split_first()?;
            let length = match () {
                () if is_digit(start) => run(self.0, is_digit),
                () if is_word(start) => 1 + run(rest, |point| is_word(point) || matches!(point, 0x2D..=0x2F)),
                () => 0,
            };
            let (found, after) = self.0.split_at(length.max(1));
            if length >= if is_digit(start) { 3 } else { 4 } {
                self.0 = after;
                return Some(found);
            }
            self.0 = rest;
        }
    }
}
