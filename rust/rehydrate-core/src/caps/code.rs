//! Code: definitions and imports, then the lines with the most new names.
use super::code_points::{code_points, first, is_space, lossy, run};
use super::lines::{Excerpt, MAX_LINES, Selection, short_mark};
use super::patterns::{LINE, SIGNATURE, line_number};
use crate::interrupt::checkpoint;

/// The share of the room for definitions and imports.
const SIGNATURES_SHARE: f64 = 0.5;
const MAX_CODE_LINE: usize = 400;
/// The lines that decide whether lines are numbered.
const SAMPLE: usize = 200;

/// Definitions and imports, outer ones first, then the lines with the most new names, then others from the top.
pub(super) fn cap_code(lines: &[&[u32]], limit: usize) -> Excerpt {
    let sample = &lines[..lines.len().min(SAMPLE)];
    let numbered = sample.iter().filter(|line| line_number(first(line, LINE)).is_some()).count();
    let is_numbered = numbered * 2 > sample.len();
    let mark_cost = if is_numbered { 6 } else { 24 };
    let mut selection = Selection::new(lines, limit as i64, mark_cost, MAX_CODE_LINE);
    let mut signatures: Vec<(usize, usize)> = Vec::new();
    for (index, line) in lines.iter().take(MAX_LINES).enumerate() {
        if index.is_multiple_of(256) {
            checkpoint();
        }
        let start = first(line, LINE);
        let bare = &start[line_number(start).unwrap_or_default()..];
        if SIGNATURE.is_match(&lossy(bare)) {
            signatures.push((run(bare, is_space), index));
        }
    }
    signatures.sort_unstable();
    let reserve = selection.remaining as f64 * (1.0 - SIGNATURES_SHARE);
    selection.keep_all(signatures.into_iter().map(|(_, index)| index), reserve);
    selection.keep_by_new_names(usize::MAX);
    selection.fill(0..lines.len(), MAX_CODE_LINE as i64);
    if is_numbered { selection.render(&|_, _| code_points("[...]")) } else { selection.render(&short_mark) }
}
