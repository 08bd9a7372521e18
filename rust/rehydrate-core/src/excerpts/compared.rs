//! A text as others shortened it, compared with the original: lines that stayed, and marks in place of missing ones.
use std::ops::Range;

use crate::analysis::python_re::lines;

/// A part of a text that was kept or left out as a whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Compared<'a> {
    pub before: &'a str,
    /// The same text if it is kept, else the marks.
    pub after: String,
    pub is_kept: bool,
}

/// The runs of a text of which lines were left out.
#[must_use]
pub fn compared<'a>(before: &'a str, after: &str) -> Vec<Compared<'a>> {
    if before == after {
        return vec![Compared { before, after: after.to_owned(), is_kept: true }];
    }
    let whole = with_ends(before);
    let bare: Vec<&str> = whole.iter().map(|line| without_end(&before[line.clone()])).collect();
    let start = |number: usize| whole.get(number).map_or(before.len(), |line| line.start);
    let part = |first: usize, end: usize| &before[start(first)..start(end)];
    let (mut runs, mut marks) = (Vec::new(), String::new());
    let (mut begun, mut at) = (0, 0); // the kept run goes on from there to here
    for line in with_ends(after) {
        let line = &after[line];
        let wanted = without_end(line);
        let Some(found) = bare[at..].iter().position(|bare| *bare == wanted).map(|offset| at + offset) else {
            marks.push_str(line);
            continue;
        };
        if !marks.is_empty() || found > at {
            runs.extend(kept(part(begun, at)));
            runs.push(Compared { before: part(at, found), after: std::mem::take(&mut marks), is_kept: false });
            begun = found;
        }
        at = found + 1;
    }
    runs.extend(kept(part(begun, at)));
    if !marks.is_empty() || at < whole.len() {
        runs.push(Compared { before: part(at, whole.len()), after: marks, is_kept: false });
    }
    runs
}

fn kept(text: &str) -> Option<Compared<'_>> {
    (!text.is_empty()).then(|| Compared { before: text, after: text.to_owned(), is_kept: true })
}

fn without_end(line: &str) -> &str {
    line.trim_end_matches(['\r', '\n'])
}

/// The lines of a text, with their ends.
fn with_ends(text: &str) -> Vec<Range<usize>> {
    let starts: Vec<usize> = lines(text).iter().map(|line| line.as_ptr() as usize - text.as_ptr() as usize).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(before: &str, after: &str) -> Vec<(String, String, bool)> {
        compared(before, after).into_iter().map(|run| (run.before.to_owned(), run.after, run.is_kept)).collect()
    }

    #[test]
    fn marks_stand_where_lines_are_gone() {
        let run = |before: &str, after: &str, kept| (before.to_owned(), after.to_owned(), kept);
        assert_eq!(runs("a\nb", "a\nb"), [run("a\nb", "a\nb", true)]);
        assert_eq!(
            runs("a\r\nb\nc", "a\n[...]\nc"),
            [run("a\r\n", "a\r\n", true), run("b\n", "[...]\n", false), run("c", "c", true)]
        );
        assert_eq!(runs("a\nb", "[...]"), [run("a\nb", "[...]", false)]);
        assert_eq!(runs("", "new"), [run("", "new", false)]);
        assert_eq!(runs("a\nb\n", "b\n"), [run("a\n", "", false), run("b\n", "b\n", true)]);
        assert_eq!(runs("a", ""), [run("a", "", false)]);
    }
}
