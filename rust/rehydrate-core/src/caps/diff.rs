//! Diffs: the heads of files and hunks, then whole hunks, some of each file.
use std::ops::Range;

use super::code_points::{first, is_in, starts_with};
use super::lines::{Excerpt, MAX_LINES, Selection, short_mark};
use super::patterns::{is_commit, is_hunk};

/// The first four characters of the lines in the head of a file.
const HEADS: [&str; 9] = ["diff", "--- ", "+++ ", "Inde", "rena", "new ", "dele", "Bina", "simi"];
const NAMES: [&str; 5] = ["Index: ", "+++ ", "rename to", "deleted file", "commit "];
/// The share of the room for the heads of files and hunks.
const HEADS_SHARE: f64 = 0.6;

/// The heads of files and hunks, then whole hunks: the first of each file, the second... Of a hunk that does not fit, as
/// many changed lines are kept as fit.
pub(super) fn cap_diff(lines: &[&[u32]], limit: usize) -> Excerpt {
    let mut selection = Selection::new(lines, limit as i64, 24, super::lines::MAX_LINE);
    let lines = &lines[..lines.len().min(MAX_LINES)];
    let reserve = selection.remaining as f64 * (1.0 - HEADS_SHARE);
    let starts = |index: usize, any: &[&str]| any.iter().any(|start| starts_with(lines[index], start));
    let heads: Vec<usize> =
        (0..lines.len()).filter(|&index| starts(index, &HEADS) || is_commit(lines[index])).collect();
    selection.keep_all(heads.iter().copied().filter(|&index| starts(index, &NAMES)), reserve);
    let mut hunks = hunks(lines);
    selection.keep_all(hunks.iter().map(|(_, hunk)| hunk.start), reserve);
    hunks.sort_by_key(|&(rank, _)| rank);
    hunks.retain(|(_, hunk)| !selection.keep_block(hunk.clone()));
    for (_, hunk) in hunks {
        for index in hunk {
            let is_changed = first(lines[index], 1).iter().any(|&point| is_in(point, "+-@"));
            // An empty line counts as a changed one, which costs little.
            if (is_changed || lines[index].is_empty()) && !selection.keep(index) {
                break;
            }
        }
    }
    selection.keep_all(heads, 0.0);
    selection.render(&short_mark)
}

/// The hunks in their order, each with its number among those of its file.
fn hunks(lines: &[&[u32]]) -> Vec<(usize, Range<usize>)> {
    let mut hunks = Vec::new();
    let mut rank = 0;
    let mut open: Option<usize> = None;
    for (index, line) in lines.iter().enumerate() {
        let is_file = starts_with(line, "diff --git ")
            || starts_with(line, "Index: ")
            || (starts_with(line, "--- ") && lines.get(index + 1).is_some_and(|next| starts_with(next, "+++ ")));
        let is_hunk = is_hunk(line);
        if !(is_file || is_hunk) {
            continue;
        }
        if let Some(start) = open.take() {
            hunks.push((rank, start..index));
            rank += 1;
        }
        if is_file {
            rank = 0;
        }
        if is_hunk {
            open = Some(index);
        }
    }
    if let Some(start) = open {
        hunks.push((rank, start..lines.len()));
    }
    hunks
}
