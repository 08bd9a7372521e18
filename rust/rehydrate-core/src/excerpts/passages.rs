//! Passages of long texts: the windows that are compared with a query, and an excerpt of those that match it.
use std::ops::Range;

use rustc_hash::FxHashSet;

use super::marks::mark;
use crate::caps::code_points::{code_points, is, is_blank, lines, trim};

/// A range of code points.
type Span = Range<usize>;

/// Lines before and after a match that an excerpt shows.
const CONTEXT_LINES: usize = 3;
/// The most characters of these lines on each side.
const CONTEXT_CHARS: usize = 300;

/// The windows of a text that hold a line which is not shown.
///
/// They are of whole lines and of about `size` characters. A line of more than `max_line` becomes several, which overlap a
/// little: a word that one of them cuts is whole in the next.
#[must_use]
pub fn hidden_windows(text: &[u32], shown: &[u32], size: usize, max_line: usize) -> Vec<Span> {
    let shown_lines: FxHashSet<&[u32]> = shown.split(is_break).chain([&[][..]]).collect();
    let shown_bytes = bytes_of(shown);
    let is_shown = |span: &Span| {
        let window = &text[span.clone()];
        if starts_line(text, span.start) {
            return window.split(is_break).all(|line| shown_lines.contains(line));
        }
        holds(&shown_bytes, trim(window))
    };
    let mut found = windows(text, size.max(1), max_line);
    found.retain(|span| !is_blank(&text[span.clone()]) && (shown.is_empty() || !is_shown(span)));
    found
}

fn bytes_of(text: &[u32]) -> Vec<u8> {
    text.iter().flat_map(|char| char.to_ne_bytes()).collect()
}

/// Whether a text, as `bytes_of` it, has a part, in linear time.
fn holds(text: &[u8], part: &[u32]) -> bool {
    let (part, mut start) = (bytes_of(part), 0);
    let finder = memchr::memmem::Finder::new(&part);
    while let Some(at) = text.get(start..).and_then(|rest| finder.find(rest)) {
        if (start + at) % 4 == 0 {
            return true;
        }
        start += at + 1;
    }
    false
}

/// The whole text in windows.
fn windows(text: &[u32], size: usize, max_line: usize) -> Vec<Span> {
    let part = size + size / 4;
    let (mut start, mut found) = (0, Vec::new());
    while start < text.len() {
        let mut end = line_end(text, start + size - 1);
        if end - start > size + max_line {
            match text[start..start + size].iter().rposition(is_break) {
                Some(at) => end = start + at + 1, // the long line begins a window of its own
                None => {
                    while end - start > part {
                        found.push(start..start + part);
                        start += size;
                    }
                }
            }
        }
        found.push(start..end);
        start = end;
    }
    found
}

/// The best matches with the lines around them, each gap marked, and their spans.
///
/// It has as many matches as fit, in order, and at least one. Lines at the beginning and the end of a match that
/// `is_visible` are left out if they have `least` characters together. None if no line is left.
pub fn excerpt<E>(
    text: &[u32],
    matches: &[Span],
    least: usize,
    mut is_visible: impl FnMut(Span) -> Result<bool, E>,
    mut fits: impl FnMut(&[u32]) -> Result<bool, E>,
) -> Result<(Vec<u32>, Vec<Span>), E> {
    let breaks: Vec<usize> = (0..text.len()).filter(|&at| is_break(&text[at])).collect();
    let (mut content, mut chosen) = (Vec::new(), Vec::new());
    let (mut rest, mut together) = (matches, 1);
    while let Some(first) = rest.first() {
        // Most fit with the lines around them, so twice as many are tried each time, and fewer again near the end.
        let tried = together.min(rest.len());
        let mut wanted = Vec::with_capacity(tried);
        for span in &rest[..tried] {
            wanted.push(trimmed(text, with_context(text, span), least, &mut is_visible)?);
        }
        let mut both = merged(&chosen, wanted);
        let mut shown = rendered(text, &breaks, &both);
        if both != chosen && !fits(&shown)? {
            if tried > 1 {
                together = tried / 2;
                continue;
            }
            both = merged(&chosen, vec![trimmed(text, first.clone(), least, &mut is_visible)?]);
            shown = rendered(text, &breaks, &both);
            if !chosen.is_empty() && both != chosen && !fits(&shown)? {
                break;
            }
        } else {
            together = 2 * tried;
        }
        if both != chosen {
            (content, chosen) = (shown, both);
        }
        rest = &rest[tried..];
    }
    Ok((content, chosen))
}

/// The span with the lines before and after it.
fn with_context(text: &[u32], span: &Span) -> Span {
    let Span { mut start, mut end } = span.clone();
    let least = span.start.saturating_sub(CONTEXT_CHARS + 1);
    let most = text.len().min(span.end + CONTEXT_CHARS + 1);
    for _ in 0..CONTEXT_LINES {
        let before = &text[least..start.saturating_sub(1).max(least)];
        let line = before.iter().rposition(is_break).map_or(least, |at| least + at + 1);
        if span.start - line > CONTEXT_CHARS {
            break;
        }
        start = line;
    }
    for _ in 0..CONTEXT_LINES {
        let line = line_end(&text[..most], end);
        if line - span.end > CONTEXT_CHARS {
            break;
        }
        end = line;
    }
    start..end
}

/// The span without visible lines at its begin and its end.
fn trimmed<E>(
    text: &[u32],
    span: Span,
    least: usize,
    is_visible: &mut impl FnMut(Span) -> Result<bool, E>,
) -> Result<Span, E> {
    let all: Vec<Span> =
        lines(&text[span.clone()]).map(|line| span.start + line.start..span.start + line.end).collect();
    let first = visible_lines(text, all.iter(), least, is_visible)?;
    let last = visible_lines(text, all[first..].iter().rev(), least, is_visible)?;
    let start = all[..first].last().map_or(span.start, |line| line.end);
    let end = all[all.len() - last..].first().map_or(span.end, |line| line.start);
    Ok(start..end)
}

/// The number of first lines that are visible. 0 if they are too short to be left out.
fn visible_lines<'a, E>(
    text: &[u32],
    lines: impl ExactSizeIterator<Item = &'a Span>,
    least: usize,
    is_visible: &mut impl FnMut(Span) -> Result<bool, E>,
) -> Result<usize, E> {
    let (all, mut count, mut length) = (lines.len(), 0, 0);
    for line in lines {
        let end = text[line.clone()].iter().rposition(|&point| !is(point, b'\r') && !is(point, b'\n'));
        let bare = line.start..end.map_or(line.start, |last| line.start + last + 1);
        let words = trim(&text[bare.clone()]).len();
        if words > 0 && !is_visible(bare)? {
            break;
        }
        (count, length) = (count + 1, length + words);
    }
    Ok(if length >= least || count == all { count } else { 0 })
}

/// All these spans in order, without empty ones; those that touch become one.
fn merged(spans: &[Span], mut all: Vec<Span>) -> Vec<Span> {
    all.extend_from_slice(spans);
    all.retain(|span| !span.is_empty());
    all.sort_by_key(|span| (span.start, span.end));
    let mut merged: Vec<Span> = Vec::new();
    for span in all {
        match merged.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

/// The spans of the text, with a mark on a line of its own for each gap. `breaks`: where its lines end.
fn rendered(text: &[u32], breaks: &[usize], spans: &[Span]) -> Vec<u32> {
    const BREAK: u32 = b'\n' as u32;
    let (mut at, mut out) = (0, Vec::new());
    for span in spans.iter().cloned().chain(std::iter::once(text.len()..text.len())) {
        if at < span.start {
            if !starts_line(&out, out.len()) {
                out.push(BREAK);
            }
            out.extend(code_points(&gap_mark(text, breaks, at..span.start)));
            if span.start < text.len() {
                out.push(BREAK);
            }
        }
        out.extend_from_slice(&text[span.clone()]);
        at = span.end;
    }
    out
}

fn gap_mark(text: &[u32], breaks: &[usize], gap: Span) -> String {
    let before = |place: usize| breaks.partition_point(|&at| at < place);
    let ends_line = starts_line(text, gap.end);
    if !starts_line(text, gap.start) || gap.end < text.len() && !ends_line {
        return mark("characters", gap.len(), gap.start + 1, gap.end, "");
    }
    let first = before(gap.start) + 1;
    let count = before(gap.end) - before(gap.start) + usize::from(!ends_line);
    mark("lines", count, first, first + count - 1, "")
}

fn is_break(point: &u32) -> bool {
    is(*point, b'\n')
}

/// Whether a line begins there.
fn starts_line(text: &[u32], at: usize) -> bool {
    at == 0 || is_break(&text[at - 1])
}

/// The end of the line that the character at `from` is in, its break included.
fn line_end(text: &[u32], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.iter().position(is_break).map_or(text.len(), |at| from + at + 1)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::caps::lossy;

    type Place = (usize, usize);

    fn places(spans: &[Span]) -> Vec<Place> {
        spans.iter().map(|span| (span.start, span.end)).collect()
    }

    fn hidden(text: &[u32], shown: &[u32], size: usize) -> Vec<Place> {
        places(&hidden_windows(text, shown, size, 10))
    }

    fn shown(text: &str, matches: &[Place], visible: &[&str], room: usize) -> (String, Vec<Place>) {
        let matches: Vec<Span> = matches.iter().map(|&(start, end)| start..end).collect();
        let points = code_points(text);
        let is_visible = |span: Span| Ok::<_, Infallible>(visible.contains(&lossy(&points[span]).as_str()));
        let Ok((content, spans)) = excerpt(&points, &matches, 4, is_visible, |text| Ok(text.len() <= room));
        (lossy(&content), places(&spans))
    }

    #[test]
    fn windows_are_of_whole_lines_and_the_parts_of_a_long_line_overlap() {
        assert_eq!(windows(&code_points("a\nb\nc\n"), 4, 1_000), [0..4, 4..6]);
        let text = code_points(&format!("ab\n{}\nz", "x".repeat(40)));
        assert_eq!(windows(&text, 8, 10), [0..3, 3..13, 11..21, 19..29, 27..37, 35..44, 44..45]);
        assert!(windows(&[], 4, 10).is_empty());
    }

    #[test]
    fn a_window_of_shown_lines_is_hidden_no_more() {
        let (text, shown) = (code_points("one\ntwo\n \t\r\nsix\n"), code_points("two\none"));
        assert_eq!(hidden(&text, &shown, 4), [(12, 16)]);
        assert_eq!(hidden(&text, &[], 4), [(0, 4), (4, 8), (12, 16)]);
        let long = code_points(&"x".repeat(60));
        assert_eq!(hidden(&long, &long[..20], 8).len(), 1);
    }

    #[test]
    fn a_match_has_the_lines_around_it_and_marks_in_its_gaps() {
        let text = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let expected = "[... 1 line omitted, 1 ...]\n2\n3\n4\n5\n6\n7\n8\n[... 1 line omitted, 9 ...]";
        assert_eq!(shown(text, &[(8, 10)], &[], 200), (expected.into(), vec![(2, 16)]));
        let bare = "[... 4 lines omitted, 1-4 ...]\n5\n[... 4 lines omitted, 6-9 ...]";
        assert_eq!(shown(text, &[(8, 10), (0, 2)], &[], 10), (bare.into(), vec![(8, 10)]));
    }

    #[test]
    fn many_matches_are_tried_together_and_shown_as_if_one_by_one() {
        let text = code_points(&(0..4_000).map(|n| format!("line {n}\n")).collect::<String>());
        let ends: Vec<usize> = (0..text.len()).filter(|&at| is_break(&text[at])).collect();
        let breaks = &ends;
        let matches: Vec<Span> = (0..900).map(|n| ends[n * 4 + n % 3] + 1..ends[n * 4 + n % 3 + 1] + 1).collect();
        for room in [1, 60, 400, 2_000, 9_000, 1 << 20] {
            let mut asked = 0;
            let is_visible = |_: Span| Ok::<_, Infallible>(false);
            let Ok((content, spans)) = excerpt(&text, &matches, 4, is_visible, |text| {
                asked += 1;
                Ok(text.len() <= room)
            });
            let mut one_by_one: Vec<Span> = Vec::new();
            for span in &matches {
                let fits = |wanted: &Vec<Span>| rendered(&text, breaks, wanted).len() <= room;
                let wide = merged(&one_by_one, vec![with_context(&text, span)]);
                let bare = merged(&one_by_one, vec![span.clone()]);
                match [wide, bare].into_iter().find(|wanted| fits(wanted)) {
                    Some(wanted) => one_by_one = wanted,
                    None if one_by_one.is_empty() => one_by_one = vec![span.clone()],
                    None => break,
                }
            }
            assert_eq!(spans, one_by_one, "{room}");
            assert_eq!(content, rendered(&text, breaks, &spans));
            assert!(asked < 60, "{room}: {asked}");
        }
    }

    #[test]
    fn visible_lines_at_the_ends_are_left_out() {
        let text = "seen before\nnew\nseen after\n";
        let (content, spans) = shown(text, &[(12, 16)], &["seen before", "seen after"], 200);
        assert_eq!(spans, vec![(12, 16)]);
        assert_eq!(content, "[... 1 line omitted, 1 ...]\nnew\n[... 1 line omitted, 3 ...]");
        assert_eq!(shown(text, &[(12, 16)], &["seen before", "new", "seen after"], 200), (String::new(), vec![]));
    }

    #[test]
    fn a_gap_inside_a_line_is_counted_in_characters() {
        let content = shown(&"x".repeat(1_000), &[(400, 500)], &[], 2_000).0;
        assert!(content.starts_with("[... 400 characters omitted, 1-400 ...]\nx"), "{content}");
    }
}
