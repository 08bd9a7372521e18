//! Notes in chunks, each with the headings that it is under.
use std::ops::Range;

use crate::caps::code_points::{is, is_blank, is_in, is_space, lines, run, trim, trim_end};

/// A piece of a text, in code points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The words of the headings above it, the outermost first, without a heading at the beginning of the body itself.
    pub headings: Vec<Range<usize>>,
    pub body: Range<usize>,
}

/// A heading's level, and where its words are.
type Heading = (usize, Range<usize>);

/// The text in chunks of about `max_chars`, in order, without a gap.
///
/// The cut is before a heading, else between paragraphs, lines, sentences or words: at the largest unit that fits.
/// Fenced code is one paragraph. Headings stay with the text below them.
#[must_use]
pub fn chunks(text: &[u32], max_chars: usize) -> Vec<Chunk> {
    let mut found: Vec<Chunk> = Vec::new();
    let mut path: Vec<Heading> = Vec::new();
    let mut chunk = Chunk { headings: Vec::new(), body: 0..0 };
    let mut has_words = false;
    for (block, heading) in blocks(text) {
        for piece in if heading.is_some() { vec![block] } else { pieces(text, block, max_chars) } {
            let words = trim_end(&text[piece.clone()]).len();
            if has_words && (heading.is_some() || chunk.body.len() + words > max_chars) {
                let next = Chunk { headings: Vec::new(), body: piece.start..piece.start };
                found.push(std::mem::replace(&mut chunk, next));
                has_words = false;
            }
            if let Some((level, _)) = heading {
                path.retain(|(above, _)| *above < level);
            }
            if chunk.body.is_empty() {
                chunk.headings = path.iter().map(|(_, name)| name.clone()).filter(|name| !name.is_empty()).collect();
            }
            path.extend(heading.clone());
            chunk.body.end = piece.end;
            has_words |= heading.is_none() && words > 0;
        }
    }
    match found.last_mut() {
        Some(last) if is_blank(&text[chunk.body.clone()]) => last.body.end = chunk.body.end,
        _ if !chunk.body.is_empty() => found.push(chunk),
        _ => {}
    }
    found
}

/// The headings and the paragraphs, each with the blank lines after it.
fn blocks(text: &[u32]) -> Vec<(Range<usize>, Option<Heading>)> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut is_last_blank = false;
    let mut fence: Option<&[u32]> = None;
    for line in lines(text) {
        let whole = &text[line.clone()];
        let mark = fence_mark(whole);
        if let Some(open) = fence {
            let is_closed =
                mark.is_some_and(|mark| mark.starts_with(open)) && trim(whole).iter().all(|&point| point == open[0]);
            if is_closed {
                fence = None;
            }
            is_last_blank = is_blank(whole);
            continue;
        }
        let heading = heading(text, &line);
        if line.start > start && (heading.is_some() || (is_last_blank && !is_blank(whole))) {
            found.push((start..line.start, None));
            start = line.start;
        }
        if heading.is_some() {
            start = line.end;
            found.push((line, heading));
        } else {
            is_last_blank = is_blank(whole);
            fence = mark;
        }
    }
    if start < text.len() {
        found.push((start..text.len(), None));
    }
    found
}

/// The backticks or tildes with which a line opens or closes a fence.
fn fence_mark(line: &[u32]) -> Option<&[u32]> {
    let start = run(line, |point| is(point, b' '));
    let first = *line.get(start).filter(|&&point| start <= 3 && is_in(point, "`~"))?;
    let length = run(&line[start..], |point| point == first);
    (length >= 3).then(|| &line[start..start + length])
}

/// A heading's level, and where its words are in the text.
fn heading(text: &[u32], line: &Range<usize>) -> Option<Heading> {
    let whole = &text[line.clone()];
    let lead = run(whole, is_space);
    let words = trim(whole);
    let level = run(words, |point| is(point, b'#'));
    let title = &words[level..];
    let is_code = lead >= 4.min(whole.len());
    if !(1..=6).contains(&level) || is_code || title.first().is_some_and(|&point| !is_space(point)) {
        return None;
    }
    let closed = title.iter().rposition(|&point| !is(point, b'#')).map_or(0, |last| last + 1);
    let title = if closed == 0 || is_space(title[closed - 1]) { &title[..closed] } else { title };
    let start = line.start + lead + level + run(title, is_space);
    Some((level, start..start + trim(title).len()))
}

/// The block, cut between lines, sentences, words, or anywhere if it is still too long.
fn pieces(text: &[u32], block: Range<usize>, max_chars: usize) -> Vec<Range<usize>> {
    let least = max_chars / 4;
    let end = block.start + trim_end(&text[block.clone()]).len();
    let mut found = Vec::new();
    let mut start = block.start;
    while end.saturating_sub(start) > max_chars {
        let head = &text[start..start + max_chars];
        let after = |char: u8| head.iter().rposition(|&point| is(point, char)).map_or(0, |at| at + 1);
        let is_enough = |&cut: &usize| cut > least;
        let cut = Some(after(b'\n'))
            .filter(is_enough)
            .or_else(|| last_sentence_end(head).filter(is_enough))
            .or_else(|| Some(after(b' ')).filter(is_enough))
            .unwrap_or(max_chars);
        found.push(start..start + cut);
        start += cut;
    }
    found.push(start..block.end);
    found
}

/// The end of the last sentence, the white space after it included.
fn last_sentence_end(head: &[u32]) -> Option<usize> {
    let mut last = None;
    let mut at = 0;
    while let Some(&point) = head.get(at) {
        at += 1;
        if is_in(point, "。！？") {
            last = Some(at);
        } else if is_in(point, ".!?…") {
            let closed = at + run(&head[at..], |point| is_in(point, "'\")]"));
            let spaces = run(&head[closed..], is_space);
            if spaces > 0 {
                at = closed + spaces;
                last = Some(at);
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps::code_points::{code_points, lossy};

    #[test]
    fn chunks_are_the_text_under_its_headings() {
        for (text, max_chars, expected) in [
            ("", 9, &[] as &[&str]),
            ("# A\n## B\nhello\n", 99, &["| # A\n## B\nhello\n"]),
            (
                "# Ports ##\n\nAll.\n\n## Staging\n\n8443\n\n",
                99,
                &["| # Ports ##\n\nAll.\n\n", "Ports | ## Staging\n\n8443\n\n"],
            ),
            ("One is so. \"Two.\" is.", 20, &["| One is so. \"Two.\" ", "| is."]),
            ("a\n\n \n", 2, &["| a\n\n \n"]),
            ("\u{d}\n# x\u{85}~~~\n# y\n~~~~\n# z", 99, &["| \r\n# x\u{85}~~~\n# y\n~~~~\n", "| # z"]),
        ] {
            let points = code_points(text);
            let shown = |Chunk { headings, body }: Chunk| {
                let names = headings.into_iter().map(|name| lossy(&points[name]) + " ");
                format!("{}| {}", names.collect::<String>(), lossy(&points[body]))
            };
            let found: Vec<String> = chunks(&points, max_chars).into_iter().map(shown).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
