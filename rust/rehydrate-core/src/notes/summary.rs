//! Reading one of our summaries back, line by line: the store's markdown, or a model's words with additions.
use std::ops::Range;

use crate::caps::code_points::{code_points, is_digit, is_space, lines, run, starts_with, trim_end};

/// The headings of the context store, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heading {
    TaskState,
    Decisions,
    Files,
    Context,
    Preferences,
}

impl Heading {
    pub const ALL: [Self; 5] = [Self::TaskState, Self::Decisions, Self::Files, Self::Context, Self::Preferences];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TaskState => "Task State",
            Self::Decisions => "Decisions",
            Self::Files => "Files & Code",
            Self::Context => "Important Context",
            Self::Preferences => "User Preferences",
        }
    }

    /// The usual kind of an item under it.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::TaskState => "request",
            Self::Decisions => "decision",
            Self::Files => "file",
            Self::Context => "note",
            Self::Preferences => "preference",
        }
    }
}

/// The kind of an item that a model wrote.
const TASK: &str = "task";
/// The first line of a summary that takes the place of messages.
const SUMMARY: &str = "[compacted history summary]";
/// Above the additions to a model's summary.
pub(crate) const WORD_FOR_WORD: &str = "\nAlso, word for word:\n";
/// Above the names and lines that fill the room.
pub const NAMES: &str = "Names and lines, by what they were used for and where they stood:";
/// Characters of a host's line above the first heading.
const LONGEST_PREFACE: usize = 200;

/// A line of a summary. Places are in code points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryLine {
    pub heading: Heading,
    pub kind: &'static str,
    pub text: Range<usize>,
    /// The uses of a file.
    pub uses: Vec<Range<usize>>,
}

/// The lines of one of our summaries. None for any other text.
///
/// Such a text is the markdown alone, after at most one line of a host. Or it begins as summaries do: then a model may
/// have written it, and only the additions are ours.
#[must_use]
pub fn summary_lines(text: &[u32]) -> Option<Vec<SummaryLine>> {
    let mut found = markdown(text).unwrap_or_default();
    if !found.is_empty() || !starts_with(text, SUMMARY) {
        return (!found.is_empty()).then_some(found);
    }
    let above = code_points(WORD_FOR_WORD);
    let end = text.windows(above.len()).position(|part| part == above).unwrap_or(text.len());
    let by_model = stripped(text, SUMMARY.len()..end);
    if !by_model.is_empty() {
        found.push(SummaryLine { heading: Heading::TaskState, kind: TASK, text: by_model, uses: Vec::new() });
    }
    let start = (end + above.len()).min(text.len());
    for line in lines(&text[start..]) {
        let mut line = stripped_end(text, start + line.start..start + line.end);
        line.start += if starts_with(&text[line.clone()], "- ") { 2 } else { 0 };
        for heading in Heading::ALL {
            let kind = heading.kind();
            let label = format!("{kind}: ");
            let words = &text[line.clone()];
            if starts_with(words, &label) {
                said(text, heading, kind, line.start + label.len()..line.end, &mut found);
            } else if starts_with(words, kind) && words.len() == kind.len() {
                said(text, heading, kind, line.end..line.end, &mut found);
            }
        }
    }
    Some(found)
}

/// The lines of the store's markdown. None for a text with any other line.
fn markdown(text: &[u32]) -> Option<Vec<SummaryLine>> {
    let mut found = Vec::new();
    let (mut under, mut in_names) = (None, false);
    for (number, line) in lines(text).enumerate() {
        let line = stripped_end(text, line);
        let words = &text[line.clone()];
        let is = |other: &str| starts_with(words, other) && words.len() == other.len();
        if let Some(heading) = Heading::ALL.into_iter().find(|heading| is(&format!("## {}", heading.name()))) {
            (under, in_names) = (Some(heading), false);
            continue;
        }
        let Some(heading) = under else {
            if !words.is_empty() && (number > 0 || words.len() > LONGEST_PREFACE) {
                return None;
            }
            continue;
        };
        if is(NAMES) {
            in_names = true;
        } else if starts_with(words, "- ran ") {
            // A command's outcome is read from its result.
        } else if starts_with(words, "- ") {
            let labels = [("- [ ] ", "plan"), ("- open error: ", "error"), ("- ", heading.kind())];
            if let Some((label, kind)) = labels.into_iter().find(|(label, _)| starts_with(words, label)) {
                said(text, heading, kind, line.start + label.len()..line.end, &mut found);
            }
        } else if !words.is_empty() && !in_names {
            return None;
        }
    }
    Some(found)
}

/// A line without its label. A line of only handles is left out.
fn said(text: &[u32], heading: Heading, kind: &'static str, line: Range<usize>, found: &mut Vec<SummaryLine>) {
    if kind == "file" {
        let (path, uses) = file(text, line);
        found.push(SummaryLine { heading, kind, text: path, uses });
        return;
    }
    let words = &text[line.clone()];
    let Some(end) = last(words, " (#").filter(|&end| end > 0) else { return };
    if let [handle @ .., close] = &words[end + 3..]
        && *close == u32::from(')')
        && !handle.is_empty()
        && handle.iter().all(|&point| is_digit(point))
    {
        found.push(SummaryLine { heading, kind, text: line.start..line.start + end, uses: Vec::new() });
    }
}

/// A file's path, and its uses: `path: edited #4; read #6`, or `path edited #4`.
fn file(text: &[u32], line: Range<usize>) -> (Range<usize>, Vec<Range<usize>>) {
    let colon = last(&text[line.clone()], ": ");
    let mut done = Vec::new();
    let mut start = line.start + colon.map_or(0, |colon| colon + 2);
    for use_ in split(&text[start..line.end], "; ") {
        if let Some(end) = first(&text[start + use_.start..start + use_.end], " #") {
            done.push(start + use_.start..start + use_.start + end);
        }
    }
    if let Some(colon) = colon.filter(|&colon| colon > 0) {
        return (line.start..line.start + colon, done);
    }
    start = line.start;
    let mut words = split(&text[line], " ");
    let mut before = Vec::new();
    while let [_, .., used, entry] = &*words
        && starts_with(&text[start + entry.start..start + entry.end], "#")
    {
        before.push(start + used.start..start + used.end);
        words.truncate(words.len() - 2);
    }
    before.reverse();
    before.append(&mut done);
    let end = words.last().map_or(0, |word| word.end);
    (start..start + end, before)
}

fn first(text: &[u32], part: &str) -> Option<usize> {
    (0..text.len()).find(|&at| starts_with(&text[at..], part))
}

fn last(text: &[u32], part: &str) -> Option<usize> {
    (0..text.len()).rev().find(|&at| starts_with(&text[at..], part))
}

/// The parts between the separators.
fn split(text: &[u32], separator: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(length) = first(&text[start..], separator) {
        found.push(start..start + length);
        start += length + separator.len();
    }
    found.push(start..text.len());
    found
}

fn stripped_end(text: &[u32], range: Range<usize>) -> Range<usize> {
    range.start..range.start + trim_end(&text[range]).len()
}

fn stripped(text: &[u32], range: Range<usize>) -> Range<usize> {
    let range = stripped_end(text, range);
    range.start + run(&text[range.clone()], is_space)..range.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps::code_points::lossy;

    fn read(text: &str) -> Option<Vec<String>> {
        let points = code_points(text);
        let shown = |SummaryLine { heading, kind, text, uses }: SummaryLine| {
            let uses: Vec<String> = uses.into_iter().map(|range| lossy(&points[range])).collect();
            format!("{heading:?} {kind} {} [{}]", lossy(&points[text]), uses.join(","))
        };
        summary_lines(&points).map(|lines| lines.into_iter().map(shown).collect())
    }

    #[test]
    fn the_markdown_is_read_line_by_line() {
        let text = "A host's line:\n\n## Task State\n- Fix it. (#0)\n- [ ] Test (all) (#3)\n## Files & Code\n- a.py: edited #4; read #6\n\
            - 2 more: #1 #2\n## Important Context\n- open error: E: x (#7)\n- ran ls: ok (#8)\n\
            Names and lines, by what they were used for and where they stood:\nread: x\n\n## User Preferences\n- Tabs. (#0)";
        let expected = [
            "TaskState request Fix it. []",
            "TaskState plan Test (all) []",
            "Files file a.py [edited,read]",
            "Files file 2 more [#1]",
            "Context error E: x []",
            "Preferences preference Tabs. []",
        ];
        assert_eq!(read(text).unwrap_or_default(), expected);
        for text in ["", "## User Preferences\nAlways use tabs.", "a\nb", "## Decisions\n", "- Tabs. (#0)"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_models_summary_is_a_task_and_what_was_added_is_ours() {
        let text = "[compacted history summary]\nWe went on.\nAlso, word for word:\n- file: a b.py edited #4\n- preference: Tabs. (#0)\n- note";
        let expected = [
            "TaskState task We went on. []",
            "Files file a b.py [edited,a b.py edited]",
            "Preferences preference Tabs. []",
        ];
        assert_eq!(read(text).unwrap_or_default(), expected);
        assert_eq!(read("[compacted history summary]"), Some(Vec::new()));
    }
}
