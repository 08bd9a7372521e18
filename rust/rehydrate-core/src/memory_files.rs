//! Files that a model keeps as its memory, and how folders, files and places in them are shown.
//!
//! The words are those of Anthropic's documentation of the memory tool (`memory_20250818`).
use std::collections::BTreeMap;

use crate::excerpts::grouped;
use crate::sessions::beginning;

/// The tool's description, which the model knows, says that longer views are cut here.
const MAX_VIEW_CHARS: usize = 16_000;
const MAX_LINES: usize = 999_999;
const LISTED_LINES: usize = 50;
const DEPTH: usize = 2;

/// A folder with all that is in it, two levels deep, each with its size.
pub fn shown_folder<'a>(path: &str, files: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let begin = format!("{path}/");
    // By the names on the way: the size, and whether it is a folder.
    let mut entries: BTreeMap<Vec<&str>, (usize, bool)> = BTreeMap::new();
    let mut total = 0;
    for (file, text) in files {
        let Some(inside) = file.strip_prefix(&begin) else { continue };
        total += text.len();
        let names: Vec<_> = inside.split('/').collect();
        for depth in 1..=DEPTH.min(names.len()) {
            if is_hidden(names[depth - 1]) {
                break;
            }
            let entry = entries.entry(names[..depth].to_vec()).or_default();
            entry.0 += text.len();
            entry.1 |= depth < names.len();
        }
    }
    let mut shown = format!(
        "Here're the files and directories up to {DEPTH} levels deep in {path}, excluding hidden items and \
         node_modules:\n{}\t{path}",
        human_size(total)
    );
    for (names, (size, is_folder)) in entries {
        let end = if is_folder { "/" } else { "" };
        shown.push_str(&format!("\n{}\t{begin}{}{end}", human_size(size), names.join("/")));
    }
    shown
}

fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || name == "node_modules"
}

/// A size as people read it.
fn human_size(size: usize) -> String {
    let (mut value, mut unit) = (size as f64, "B");
    for larger in ["K", "M", "G"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if value.fract() == 0.0 { format!("{value:.0}{unit}") } else { format!("{value:.1}{unit}") }
}

/// The lines of a file from one to another with their numbers, as many as a view may have. `range` gets the number of
/// lines and gives the first and the last. An error is the answer to the model.
pub fn shown_file<E: From<String>>(
    path: &str,
    text: &str,
    range: impl FnOnce(usize) -> Result<(usize, usize), E>,
) -> Result<String, E> {
    let lines: Vec<_> = text.split('\n').collect();
    if lines.len() > MAX_LINES {
        return Err(format!("File {path} exceeds maximum line limit of 999,999 lines.").into());
    }
    let (first, last) = range(lines.len())?;
    let mut shown = vec![format!("Here's the content of {path} with line numbers:")];
    let (mut room, mut number) = (MAX_VIEW_CHARS as i64, first);
    while number <= last {
        let line = lines[number - 1];
        let length = line.chars().count() as i64;
        if length > room {
            break;
        }
        shown.push(numbered(number, line));
        room -= length + 1;
        number += 1;
    }
    if number == first {
        let line = lines[number - 1]; // which alone is too long
        shown.push(numbered(number, beginning(line, MAX_VIEW_CHARS)));
        shown.push(format!("[line {number} is cut: it has {} characters]", grouped(line.chars().count() as u64)));
        number += 1;
    }
    if number <= last {
        shown.push(format!("[lines {number}-{last} are not shown: view them with view_range [{number}, {last}]]"));
    }
    Ok(shown.join("\n"))
}

/// A line with the two lines before and after it, with their numbers.
pub fn snippet(text: &str, line: usize) -> String {
    let lines: Vec<_> = text.split('\n').collect();
    let around = line.saturating_sub(2).max(1)..=lines.len().min(line + 2);
    let shown = around.map(|number| numbered(number, beginning(lines[number - 1], MAX_VIEW_CHARS)));
    shown.collect::<Vec<_>>().join("\n")
}

/// The number of the line in which a place is.
pub fn line_at(text: &str, place: usize) -> usize {
    text[..place].matches('\n').count() + 1
}

/// The lines in which a text begins, the first of many.
pub fn lines_with(text: &str, wanted: &str) -> String {
    let (mut numbers, mut line, mut read) = (Vec::new(), 1, 0);
    let mut found = text.find(wanted);
    while let Some(at) = found.filter(|_| numbers.len() < LISTED_LINES) {
        line += text[read..at].matches('\n').count();
        read = at;
        numbers.push(line.to_string());
        let next = at + text[at..].chars().next().map_or(1, char::len_utf8);
        found = text.get(next..).and_then(|rest| rest.find(wanted)).map(|place| next + place);
    }
    let more = if found.is_some() { ", ..." } else { "" };
    numbers.join(", ") + more
}

/// The text with another one after line number `line`. If it has fewer lines, their number is the error.
pub fn inserted(text: &str, line: Option<usize>, added: &str) -> Result<String, usize> {
    let mut lines: Vec<_> = text.split('\n').collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    let line = line.filter(|line| *line <= lines.len()).ok_or(lines.len())?;
    lines.insert(line, added.trim_end_matches('\n'));
    let mut after = lines.join("\n");
    if !after.ends_with('\n') {
        after.push('\n');
    }
    Ok(after)
}

/// A line after its number.
fn numbered(number: usize, line: &str) -> String {
    format!("{number:>6}\t{line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_numbers_as_people_read_them() {
        let sizes = [0, 900, 1_023, 5_632, 2_097_152].map(human_size);
        assert_eq!(sizes, ["0B", "900B", "1023B", "5.5K", "2M"]);
        assert_eq!(numbered(3, "Hello."), "     3\tHello.");
    }

    #[test]
    fn a_folder_is_shown_two_levels_deep() {
        let files = [("/memories/a/b/c.md", "four"), ("/memories/.git/x", "y"), ("/memories/z.md", "é")];
        let shown = shown_folder("/memories", files.into_iter());
        let lines: Vec<_> = shown.lines().skip(1).collect();
        assert_eq!(lines, ["7B\t/memories", "4B\t/memories/a/", "4B\t/memories/a/b/", "2B\t/memories/z.md"]);
    }

    #[test]
    fn a_long_view_says_what_it_does_not_show() {
        let all = |count| Ok::<_, String>((1, count));
        let long = "é".repeat(20_000);
        let shown = shown_file("/memories/a", &format!("{long}\nend"), all).unwrap();
        assert!(shown.ends_with("characters]\n[lines 2-2 are not shown: view them with view_range [2, 2]]"), "{shown}");
        assert!(shown.contains("[line 1 is cut: it has 20,000"));
        let full = "x".repeat(MAX_VIEW_CHARS);
        assert!(shown_file("/memories/a", &format!("{full}\n"), all).unwrap().contains("[lines 2-2 are not shown"));
        assert_eq!(shown_file("/memories/a", "", |_| Err("no".to_owned())), Err("no".to_owned()));
    }

    #[test]
    fn places_in_a_text() {
        assert_eq!(lines_with("aaa\nba", "aa"), "1, 1");
        assert_eq!(lines_with("é\né", "é"), "1, 2");
        assert!(lines_with(&"a\n".repeat(60), "a").ends_with("50, ..."));
        assert_eq!(snippet("1\n2\n3\n4\n5\n6", 5), "     3\t3\n     4\t4\n     5\t5\n     6\t6");
        assert_eq!(inserted("a\nb\n", Some(1), "x\n\n"), Ok("a\nx\nb\n".to_owned()));
        assert_eq!(inserted("", Some(0), ""), Ok("\n".to_owned()));
        assert_eq!((inserted("a", Some(2), "x"), inserted("a", None, "x")), (Err(1), Err(1)));
        assert_eq!(line_at("a\nb", 2), 2);
    }
}
