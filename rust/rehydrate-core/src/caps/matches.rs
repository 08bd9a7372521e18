//! Search results: the first match of each file, then those with the most new names.
use rustc_hash::FxHashSet;

use super::code_points::{code_points, first, grouped, is_in, is_space, plural};
use super::lines::{Excerpt, MARK, MAX_LINES, Selection};
use super::patterns::found_in;
use crate::interrupt::checkpoint;

const MAX_MATCH: usize = 300;
const MAX_PATH: usize = 80;

/// Matches of a search: of each file the first, then those with the most new names, then others from the top.
pub(super) fn cap_matches(lines: &[&[u32]], limit: usize) -> Excerpt {
    let paths = paths(&lines[..lines.len().min(MAX_LINES)]);
    let mut known = FxHashSet::default();
    let firsts: Vec<usize> = (0..paths.len()).filter(|&index| known.insert(paths[index])).collect();
    let longest = known.iter().map(|path| path.len()).max().unwrap_or_default().min(MAX_PATH);
    let mut selection = Selection::new(lines, limit as i64, MARK + longest, MAX_MATCH);
    selection.fill(firsts, MAX_PATH as i64);
    selection.keep_by_new_names(usize::MAX);
    selection.fill(0..paths.len(), MAX_PATH as i64);
    selection.render(&|first, last| gap_mark(lines, &paths, first, last))
}

fn gap_mark(lines: &[&[u32]], paths: &[&[u32]], start: usize, last: usize) -> Vec<u32> {
    let files: FxHashSet<&[u32]> = paths[start.min(paths.len())..paths.len().min(last + 1)].iter().copied().collect();
    let is_counted = |line: &&&[u32]| !line.is_empty() && ***line != [u32::from('-'); 2];
    let count = lines[start..=last].iter().filter(is_counted).count();
    let count = plural(count as i64, "more match", "more matches");
    if files.len() > 1 {
        let beyond = if last >= paths.len() { " or more" } else { "" };
        return code_points(&format!("[... {count} in {} files{beyond} ...]", grouped(files.len() as i64)));
    }
    let path = files.into_iter().next().unwrap_or_default();
    let mut mark = code_points(&format!("[... {count}{}", if path.is_empty() { "" } else { " in " }));
    mark.extend_from_slice(&path[path.len().saturating_sub(MAX_PATH)..]);
    mark.extend(code_points(" ...]"));
    mark
}

/// The file of each line: its own path, or else that of the line before.
fn paths<'a>(lines: &[&'a [u32]]) -> Vec<&'a [u32]> {
    let mut path: &[u32] = &[];
    let mut paths = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        if index.is_multiple_of(1_024) {
            checkpoint();
        }
        match found_in(first(line, MAX_MATCH)) {
            Some(found) if !found.is_empty() => path = &line[found],
            Some(_) => {}
            None if is_heading(line) => path = line,
            None => {}
        }
        paths.push(path);
    }
    paths
}

/// Whether the line is a path alone, which ripgrep writes above the matches of a file.
fn is_heading(line: &[u32]) -> bool {
    const MAX_HEADING: usize = 260;
    line.len() < MAX_HEADING
        && line.first().is_some_and(|&point| !is_space(point))
        && line.iter().any(|&point| is_in(point, "/."))
}
