//! Lists and tables: the first rows, the number of missing ones, and filters by folder.
use rustc_hash::FxHashMap;

use super::code_points::{grouped, is, is_blank, push};
use super::lines::{Excerpt, MAX_LINES, clip, filters_room, join};

/// The first rows, and below them the number and the folders of the others.
pub(super) fn cap_list(lines: &[&[u32]], limit: usize, rows: usize) -> Excerpt {
    const MAX_ROW: usize = 400;
    let mut remaining = limit - filters_room(limit);
    let (mut text, mut kept) = (Vec::new(), Vec::new());
    let mut shown = 0;
    for line in lines {
        if shown == rows {
            break;
        }
        let mut row = Vec::new();
        let length = clip(line, MAX_ROW, &mut row);
        if row.len() + 1 > remaining {
            break;
        }
        remaining -= row.len() + 1;
        text.push(row);
        kept.push(&line[..length]);
        shown += usize::from(!is_blank(line));
    }
    let present = lines.iter().filter(|line| !is_blank(line)).count();
    let mut text = join(text.iter().map(Vec::as_slice));
    push(&mut text, &format!("\n\n{} more", grouped((present - shown) as i64)));
    text.extend(folders(lines, filters_room(limit)));
    text.truncate(limit);
    Excerpt { text, kept: join(kept) }
}

/// The counts of paths by folder, below the folder that all share; nothing for other rows.
fn folders(lines: &[&[u32]], room: usize) -> Vec<u32> {
    const MAX_PATH: usize = 1_000;
    /// The paths that decide which character separates folders.
    const SAMPLE: usize = 100;
    const MAX_FOLDERS: usize = 8;
    let has = |line: &[u32], char: u8| line.iter().any(|&point| is(point, char));
    let paths = lines.iter().take(MAX_LINES).filter(|line| line.len() < MAX_PATH && !has(line, b' '));
    let paths: Vec<&[u32]> = paths.copied().collect();
    let separator = if paths.iter().take(SAMPLE).any(|path| has(path, b'/')) { b'/' } else { b'\\' };
    let split: Vec<Vec<&[u32]>> = paths
        .iter()
        .filter_map(|path| Some(&path[..path.iter().rposition(|&point| is(point, separator))?]))
        .map(|folder| folder.split(|&point| is(point, separator)).collect())
        .collect();
    let (Some(least), Some(most)) = (split.iter().min(), split.iter().max()) else { return Vec::new() };
    if split.len() * 2 < paths.len() {
        return Vec::new();
    }
    let common = least.iter().zip(most).take_while(|(one, other)| one == other).count();
    let mut numbers = FxHashMap::default();
    let mut counts: Vec<(&[&[u32]], usize)> = Vec::new();
    for parts in &split {
        let folder = &parts[..parts.len().min(common + 1)];
        let number = *numbers.entry(folder).or_insert(counts.len());
        if number == counts.len() {
            counts.push((folder, 0));
        }
        counts[number].1 += 1;
    }
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let mut summary = Vec::new();
    push(&mut summary, ". by folder: ");
    for (number, (folder, count)) in counts.iter().take(MAX_FOLDERS).enumerate() {
        push(&mut summary, if number > 0 { ", " } else { "" });
        summary.extend(folder.join(&u32::from(separator)));
        if lines.len() <= MAX_LINES {
            push(&mut summary, &format!(" {}", grouped(*count as i64)));
        }
    }
    if counts.len() > MAX_FOLDERS {
        push(&mut summary, &format!(", and {} others", grouped((counts.len() - MAX_FOLDERS) as i64)));
    }
    if (summary.len() as i64) < room as i64 - 40 { summary } else { Vec::new() }
}
