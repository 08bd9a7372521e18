//! Logs and the output of commands: the last lines, and the errors before them.
use std::ops::Range;

use rustc_hash::FxHashSet;

use super::code_points::{first, is, is_blank, is_digit, is_in, lossy, run, trim};
use super::lines::{Excerpt, MARK, MAX_LINES, Selection, lines_mark};
use super::patterns::PROBLEM;
use crate::interrupt::checkpoint;

/// The share of the room for the last lines: an error before them is worth more than one line more.
const TAIL_SHARE: f64 = 0.7;
const FIRST_LINES: usize = 8;
/// Indented lines after an error that belong to it.
const MAX_DETAILS: usize = 6;
const MAX_LOG_LINE: usize = 600;

/// The last lines, the first of each kind of error before them, and the first lines.
pub(super) fn cap_log(lines: &[&[u32]], limit: usize, tail_lines: usize) -> Excerpt {
    let mut selection = Selection::new(lines, limit as i64, MARK, MAX_LOG_LINE);
    let reserve = (selection.remaining as f64 * (1.0 - TAIL_SHARE)).round_ties_even() as i64;
    let end = lines.len();
    // The empty string after the last line break is not a line.
    let has_break = usize::from(lines.last().is_some_and(|line| line.is_empty()));
    let tail = end.saturating_sub(tail_lines + has_break)..end;
    let mut tail_start = end;
    for index in tail.clone().rev() {
        if selection.remaining < reserve || !selection.keep(index) {
            break;
        }
        tail_start = index;
    }
    selection.keep_all(0..FIRST_LINES.min(tail_start), 0.0);
    let mut kinds = FxHashSet::default();
    // Only the start and the end of a very long log are read.
    for index in (0..tail_start.min(MAX_LINES)).chain(MAX_LINES.max(tail_start.saturating_sub(MAX_LINES))..tail_start) {
        if !is_new_problem(lines, index, &mut kinds) {
            continue;
        }
        if selection.remaining < 0 {
            break;
        }
        if selection.keep(index) {
            selection.keep_all(details(lines, index, tail_start), 0.0);
        }
    }
    for index in tail.rev() {
        if !selection.keep(index) {
            break;
        }
    }
    selection.render(&lines_mark)
}

/// Whether a line is about an error or a warning, and is the first of its kind. Lines that differ only in numbers are
/// of one kind.
fn is_new_problem(lines: &[&[u32]], index: usize, kinds: &mut FxHashSet<Vec<u32>>) -> bool {
    if index.is_multiple_of(256) {
        checkpoint();
    }
    let line = first(lines[index], MAX_LOG_LINE);
    if !PROBLEM.is_match(&lossy(line)) {
        return false;
    }
    let mut kind = trim(line).to_vec();
    if let Some(detail) = details(lines, index, (index + 2).min(lines.len())).next() {
        kind.extend_from_slice(first(lines[detail], MAX_LOG_LINE));
    }
    kinds.insert(without_numbers(&kind))
}

/// The text with 0 in place of every number.
fn without_numbers(text: &[u32]) -> Vec<u32> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&point, after)) = rest.split_first() {
        let hexadecimals = match after.first() {
            Some(&x) if is(point, b'0') && is(x, b'x') => {
                run(&after[1..], |point| char::from_u32(point).is_some_and(|c| c.is_ascii_hexdigit()))
            }
            _ => 0,
        };
        let length = if hexadecimals > 0 { 2 + hexadecimals } else { run(rest, is_digit) };
        out.push(if length > 0 { u32::from('0') } else { point });
        rest = &rest[length.max(1)..];
    }
    out
}

/// The indented lines after an error, such as its traceback.
fn details<'a>(lines: &'a [&'a [u32]], index: usize, end: usize) -> impl Iterator<Item = usize> + 'a {
    let depth = depth(lines[index]);
    let after: Range<usize> = index + 1..(index + 1 + MAX_DETAILS).min(end);
    after.take_while(move |&after| !is_blank(lines[after]) && self::depth(lines[after]) > depth)
}

fn depth(line: &[u32]) -> usize {
    run(line, |point| is_in(point, " \t│|>-"))
}
