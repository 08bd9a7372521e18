//! JSON lines: a row a line, of which long ones are cut inside.
use super::code_points::{is, is_blank, is_digit, push, run};
use super::json_values::{Columns, MIN_VALUE, cut_value};
use super::lines::{Excerpt, MARK, MAX_NAMED_LINES, Selection, filters_room, lines_mark};

/// The maximum share of the room for one row: these differ more than those of an array.
const LINE_SHARE: f64 = 1.0 / 3.0;

/// Rows, and below them how many are missing: the first row, then those with the most new names, then others from the top.
pub(super) fn cap_json_lines(lines: &[&[u32]], limit: usize, rows: usize) -> Excerpt {
    let lines = match lines.split_last() {
        Some((last, before)) if is_blank(last) => before,
        _ => lines,
    };
    let row_indices: Vec<usize> = (0..lines.len()).filter(|&index| !is_blank(lines[index])).collect();
    let mut columns = Columns::new(filters_room(limit));
    for &index in &row_indices {
        columns.add_line(&lines[index][row_number(lines[index])..]);
    }
    let room = limit as i64 - columns.summary(row_indices.len()).chars().count() as i64 - 2;
    let row_room = ((room as f64 * LINE_SHARE).round_ties_even() as i64).max(MIN_VALUE as i64) as usize;
    let cut: Vec<Vec<u32>> = lines.iter().take(MAX_NAMED_LINES).map(|line| cut_line(line, row_room, rows)).collect();
    let cut: Vec<&[u32]> = cut.iter().map(Vec::as_slice).chain(lines.iter().skip(MAX_NAMED_LINES).copied()).collect();
    let mut selection = Selection::new(&cut, room, MARK, row_room);
    selection.keep_all(row_indices.first().copied(), 0.0);
    selection.keep_by_new_names(rows.saturating_sub(1));
    let missing = |selection: &Selection<'_>| -> Vec<usize> {
        row_indices.iter().copied().filter(|&index| !selection.is_kept(index)).collect()
    };
    let others = missing(&selection);
    let more = rows.saturating_sub(row_indices.len() - others.len());
    selection.keep_all(others.into_iter().take(more), 0.0);
    let mut excerpt = selection.render(&lines_mark);
    push(&mut excerpt.text, &format!("\n\n{}", columns.summary(missing(&selection).len())));
    excerpt
}

/// The length of the line number that a tool put before a row.
fn row_number(line: &[u32]) -> usize {
    let blanks = run(line, |point| is(point, b' '));
    let digits = run(&line[blanks..], is_digit);
    let end = blanks + digits;
    let is_number = blanks <= 7 && (1..=7).contains(&digits) && line.get(end) == Some(&u32::from('→'));
    if is_number { end + 1 } else { 0 }
}

/// A row in at most `limit` characters, after its number if it has one.
fn cut_line(line: &[u32], limit: usize, rows: usize) -> Vec<u32> {
    if line.len() <= limit {
        return line.to_vec();
    }
    let start = row_number(line);
    let mut out = line[..start].to_vec();
    out.extend(cut_value(&line[start..], limit - start, rows));
    out
}
