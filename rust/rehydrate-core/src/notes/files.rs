//! A file of a folder of notes: its front matter, and the pieces that become items.
use std::ops::Range;

use super::chunks::{Chunk, chunks};
use crate::caps::code_points::{is, is_blank, is_in, is_line_end, lines, run, starts_with};

/// The most lines of hot memory in a prompt.
pub const HOT_LINES: usize = 100;

/// The `name: value` lines between `---` at the head of a file: names, values, and where the rest begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontMatter {
    pub scalars: Vec<(Range<usize>, Range<usize>)>,
    pub end: usize,
}

/// The front matter of a text, in code points; nested values are skipped. None if it has none.
#[must_use]
pub fn front_matter(text: &[u32]) -> Option<FrontMatter> {
    let start = usize::from(text.first() == Some(&0xFEFF));
    let rule = |from: usize, marks: &[&str]| {
        let mark = marks.iter().find(|mark| starts_with(&text[from..], mark))?;
        let end = from + mark.len();
        let end = end + run(&text[end..], |point| is_in(point, " \t"));
        let end = end + usize::from(text[end..].len() > 1 && is(text[end], b'\r') && is(text[end + 1], b'\n'));
        match text.get(end) {
            None => Some(end),
            Some(&point) => is(point, b'\n').then_some(end + 1),
        }
    };
    let opened = rule(start, &["---"]).filter(|&end| is(text[end - 1], b'\n'))?;
    let mut at = opened;
    loop {
        if let Some(end) = rule(at, &["---", "..."]) {
            let lines = lines(&text[opened..at]).map(|line| line.start + opened..line.end + opened);
            return Some(FrontMatter { scalars: lines.filter_map(|line| scalar(text, line)).collect(), end });
        }
        at += run(&text[at..], |point| !is(point, b'\n'));
        if at == text.len() {
            return None;
        }
        at += 1;
    }
}

/// A line's name and value: without quotes around it.
fn scalar(text: &[u32], line: Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let is_name = |point: u32| is_in(point, "_-") || char::from_u32(point).is_some_and(|c| c.is_ascii_alphanumeric());
    let of_line = &text[line.clone()];
    let length = run(of_line, is_name);
    let begins = of_line.first().is_some_and(|&point| !is(point, b'-') && !(0x30..0x3A).contains(&point));
    let blank = run(of_line.get(length + 1..)?, |point| is_in(point, " \t"));
    if length == 0 || !begins || !is(of_line[length], b':') || blank == 0 {
        return None;
    }
    let start = length + 1 + blank;
    let mut end = start + of_line[start..].len();
    // As `splitlines` has it: a line's own end is not of its value.
    end -= of_line[start..end].iter().rev().take_while(|&&point| is_line_end(point)).count();
    if start == end {
        return None;
    }
    let blank = of_line[start..end].iter().rev().take_while(|&&point| is_in(point, " \t")).count();
    let (mut start, mut end) = (start, end - blank);
    while start < end && is_in(of_line[start], "\"'") {
        start += 1;
    }
    while start < end && is_in(of_line[end - 1], "\"'") {
        end -= 1;
    }
    Some((line.start..line.start + length, line.start + start..line.start + end))
}

/// A piece of a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotePiece {
    /// "hot", "warm" or "cold".
    pub tier: &'static str,
    pub chunk: Chunk,
}

/// The tier of a file, by its path in the folder.
#[must_use]
pub fn tier_of(path: &str) -> &'static str {
    match path.split('/').next() {
        Some("core.md") if path == "core.md" => "hot",
        Some("archive") => "cold",
        _ => "warm",
    }
}

/// The pieces of the text after the front matter, and its number of lines if its first lines are hot memory.
///
/// Hot lines are one piece: they go into every prompt whole, and no search needs a part of them.
#[must_use]
pub fn note_pieces(text: &[u32], tier: &'static str, max_chars: usize) -> (Vec<NotePiece>, usize) {
    let (mut pieces, mut hot_end, mut count) = (Vec::new(), 0, 0);
    let is_hot = tier == "hot";
    if is_hot {
        for line in lines(text) {
            count += 1;
            if count <= HOT_LINES {
                hot_end = line.end;
            }
        }
        pieces.push(NotePiece { tier, chunk: Chunk { headings: Vec::new(), body: 0..hot_end } });
    }
    let tier = if is_hot { "warm" } else { tier };
    let moved = |range: Range<usize>| range.start + hot_end..range.end + hot_end;
    for Chunk { headings, body } in chunks(&text[hot_end..], max_chars) {
        let chunk = Chunk { headings: headings.into_iter().map(moved).collect(), body: moved(body) };
        pieces.push(NotePiece { tier, chunk });
    }
    pieces.retain(|piece| !is_blank(&text[piece.chunk.body.clone()]));
    (pieces, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps::code_points::{code_points, lossy};

    fn read(text: &str) -> Option<(Vec<(String, String)>, String)> {
        let points = code_points(text);
        let said = |range: &Range<usize>| lossy(&points[range.clone()]);
        let found = front_matter(&points)?;
        let scalars = found.scalars.iter().map(|(name, value)| (said(name), said(value))).collect();
        Some((scalars, lossy(&points[found.end..])))
    }

    #[test]
    fn front_matter_has_names_and_plain_values() {
        let text = "---\ntitle: \"Ports: all\" \ntags: [a, b]\nnested:\n  deep: 1\n1st: no\nnone:x\n---\nbody\n";
        let expected = vec![("title".into(), "Ports: all".into()), ("tags".into(), "[a, b]".into())];
        assert_eq!(read(text), Some((expected, "body\n".into())));
        assert_eq!(
            read("\u{FEFF}--- \r\na: 'b'\r\n...\r\nrest"),
            Some((vec![("a".into(), "b".into())], "rest".into()))
        );
        assert_eq!(read("---\n---"), Some((vec![], String::new())));
        for text in ["---", "---\nnever closed\n", "text\n---\n---\n", "----\n---\n", "--- a\n---\n"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_core_is_hot_up_to_its_hundredth_line() {
        let text = code_points(&"rule\n".repeat(120));
        let (pieces, count) = note_pieces(&text, tier_of("core.md"), 700);
        assert_eq!(count, 120);
        assert_eq!(pieces[0], NotePiece { tier: "hot", chunk: Chunk { headings: vec![], body: 0..500 } });
        assert_eq!(pieces[1].tier, "warm");
        assert_eq!(pieces[1].chunk.body, 500..600);
    }

    #[test]
    fn the_place_of_a_file_is_its_tier() {
        for (path, tier) in [
            ("core.md", "hot"),
            ("daily/2026-02-17.md", "warm"),
            ("archive/2025/old.md", "cold"),
            ("archived.md", "warm"),
        ] {
            assert_eq!(tier_of(path), tier, "{path}");
        }
    }
}
