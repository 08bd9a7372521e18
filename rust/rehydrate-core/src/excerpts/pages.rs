//! Pages of a long text: where one ends, which lines it has, and how to read on. Places are in characters.
use std::ops::Range;

use super::grouped;

/// No page has more. Longer tokens are rare, and a page that is too short is followed by another.
const CHARACTERS_A_TOKEN: usize = 8;
/// The end of a line.
const BREAK: u32 = 0x0A;

/// The end of the page from `range.start` on: the range's end, or earlier if there is no room for more.
///
/// It ends after a line if that loses less than half of it.
pub fn page_end(text: &[u32], range: Range<usize>, max_tokens: usize, count: impl Fn(&[u32]) -> usize) -> usize {
    let Range { start, end } = range;
    let limit = end.min(start.saturating_add(max_tokens.saturating_mul(CHARACTERS_A_TOKEN)));
    let (mut fits, mut beyond) = (start, limit + 1);
    while beyond.saturating_sub(fits) > 1 {
        let middle = fits.midpoint(beyond);
        if count(text.get(start..middle).unwrap_or_default()) <= max_tokens {
            fits = middle;
        } else {
            beyond = middle;
        }
    }
    if fits < end
        && let Some(last) = text[start..fits].iter().rposition(|&point| point == BREAK)
        && start + last + 1 > start + (fits - start) / 2
    {
        return start + last + 1;
    }
    fits
}

/// The beginning and the end of some lines, counted from 1. Without a last line, all that follow. They may end beyond
/// the text.
///
/// None if they begin beyond it.
#[must_use]
pub fn line_span(text: &[u32], first: usize, last: Option<usize>) -> Option<Range<usize>> {
    if first > line_count(text).max(1) {
        return None;
    }
    let mut starts = vec![0];
    starts.extend(text.iter().enumerate().filter(|(_, point)| **point == BREAK).map(|(at, _)| at + 1));
    starts.push(text.len());
    let end = last.map_or(text.len(), |last| starts[last.min(starts.len() - 1)]);
    Some(starts[first - 1]..end)
}

/// A notice of what a page shows and how to read on up to `end`. Empty once `end` is reached.
#[must_use]
pub fn describe_page(text: &[u32], page: Range<usize>, end: usize, in_lines: bool) -> (String, String) {
    let Range { start, end: stop } = page;
    let onward = if stop < end { format!("; go on with offset {stop}") } else { String::new() };
    if !in_lines {
        let [start, stop, total] = [start, stop, text.len()].map(|number| grouped(number as u64));
        return (format!("characters {start} to {stop} of {total}"), onward);
    }
    let shown = format!("{} of {}", line_numbers(text, start..stop), grouped(line_count(text) as u64));
    if !onward.is_empty() && stop > start && text[stop - 1] == BREAK {
        let next = breaks(&text[..stop]) + 1;
        return (shown, format!("; go on with lines=\"{next}-{}\"", breaks(&text[..end - 1]) + 1));
    }
    (shown, onward)
}

/// The numbers of the lines of a range; those of its characters in part of a line.
#[must_use]
pub fn line_numbers(text: &[u32], range: Range<usize>) -> String {
    let Range { start, end } = range;
    let first = breaks(&text[..start]) + 1;
    let last = first + breaks(&text[start..end.saturating_sub(1).max(start)]);
    let begins_line = start == 0 || text[start - 1] == BREAK;
    let ends_line = end == text.len() || end > 0 && text[end - 1] == BREAK;
    match first == last {
        true if !(begins_line && ends_line) => format!("characters {start}-{end} (line {first})"),
        true => format!("line {first}"),
        false => format!("lines {first}-{last}"),
    }
}

/// The number of lines; a break at the end starts no further line.
fn line_count(text: &[u32]) -> usize {
    breaks(text) + usize::from(text.last().is_some_and(|&last| last != BREAK))
}

fn breaks(text: &[u32]) -> usize {
    text.iter().filter(|point| **point == BREAK).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chars(text: &str) -> Vec<u32> {
        text.chars().map(u32::from).collect()
    }

    fn words(text: &[u32]) -> usize {
        crate::caps::lossy(text).split_whitespace().count()
    }

    #[test]
    fn a_page_ends_after_a_line_where_that_loses_little() {
        let text = chars("one two three four\nfive six seven eight");
        assert_eq!(page_end(&text, 0..39, 5, words), 19);
        assert_eq!(page_end(&text, 0..39, 99, words), 39);
        assert_eq!(page_end(&text, 8..39, 0, words), 8);
        assert_eq!(page_end(&text, 0..13, 99, words), 13);
        assert_eq!(page_end(&chars("a\nbb cc dd ee"), 0..13, 4, words), 11);
        assert_eq!(page_end(&[], 0..0, 9, words), 0);
    }

    #[test]
    fn lines_are_counted_from_one() {
        let text = chars("ä\nb\nc\n");
        assert_eq!((line_span(&text, 2, Some(2)), line_span(&text, 2, None)), (Some(2..4), Some(2..6)));
        assert_eq!((line_span(&text, 3, Some(99)), line_span(&text, 4, None)), (Some(4..6), None));
        assert_eq!((line_span(&[], 1, Some(1)), line_span(&[], 2, None)), (Some(0..0), None));
        assert_eq!(line_numbers(&text, 2..6), "lines 2-3");
        assert_eq!(line_numbers(&chars("abc"), 1..2), "characters 1-2 (line 1)");
        assert_eq!(line_numbers(&text, 2..4), "line 2");
    }

    #[test]
    fn a_page_says_how_to_read_on() {
        let text = chars("a\nb\nc\nd");
        let lines = describe_page(&text, 0..2, 7, true);
        assert_eq!(lines, ("line 1 of 4".into(), "; go on with lines=\"2-4\"".into()));
        let offset = describe_page(&text, 2..3, 7, false);
        assert_eq!(offset, ("characters 2 to 3 of 7".into(), "; go on with offset 3".into()));
        assert_eq!(describe_page(&text, 2..7, 7, true), ("lines 2-4 of 4".into(), String::new()));
    }
}
