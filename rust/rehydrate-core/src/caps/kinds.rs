//! The kind of a text, such as log, diff or code: by its lines, and by the tool that returned it.
use super::code_points::{first, is, is_blank, is_in, lossy};
use super::json::is_json;
use super::lines::split;
use super::patterns::{
    BULLET, CODE, DiffHead, LINE, LOG, OUTCOME, ROW, SIGNATURE, TIMESTAMP, diff_head, found_in, is_path, line_number,
};

/// The kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Json,
    JsonLines,
    Diff,
    Matches,
    List,
    Code,
    Log,
    Text,
}

impl Kind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::JsonLines => "json_lines",
            Self::Diff => "diff",
            Self::Matches => "matches",
            Self::List => "list",
            Self::Code => "code",
            Self::Log => "log",
            Self::Text => "text",
        }
    }
}

/// Lines that a list needs.
const MIN_LINES: usize = 3;
const SHELLS: &[&str] = &["bash", "shell", "exec", "terminal", "command", "run", "taskoutput", "console", "log"];
const SEARCHES: &[&str] = &["grep", "rg", "search", "ack"];
const READERS: &[&str] = &["read", "view", "cat", "open", "edit", "write"];

/// The kind of a text that the tool with this name returned.
///
/// ```
/// use rehydrate_core::caps::{Kind, code_points, kind_of};
///
/// assert_eq!(kind_of(&code_points(r#"[{"id": 1}, {"id": 2}]"#), ""), Kind::Json);
/// assert_eq!(kind_of(&code_points("src/a.py:3:import os\nsrc/b.py:9:import os"), ""), Kind::Matches);
/// assert_eq!(kind_of(&code_points(""), ""), Kind::Text);
/// ```
#[must_use]
pub fn kind_of(text: &[u32], tool: &str) -> Kind {
    if is_json(text) { Kind::Json } else { kind_of_lines(text, tool) }
}

/// The kind of a text that is not JSON.
pub(super) fn kind_of_lines(text: &[u32], tool: &str) -> Kind {
    let tool = Tool(tool.to_lowercase());
    let lines = sample(text);
    let count = lines.len();
    if count >= MIN_LINES && is_share(0.9, &lines, |line| ROW.is_match(&lossy(line))) {
        return Kind::JsonLines;
    }
    if is_diff(&lines) {
        return Kind::Diff;
    }
    let is_numbered = is_share(0.6, &lines, |line| line_number(line).is_some());
    if !is_numbered {
        let min_share = if tool.is_one_of(SEARCHES) { 0.4 } else { 0.7 };
        if is_share(min_share, &lines, is_match) {
            return Kind::Matches;
        }
        if is_list(&lines) {
            return Kind::List;
        }
    }
    let bare: Vec<String> = lines.iter().map(|line| lossy(&line[line_number(line).unwrap_or_default()..])).collect();
    kind_of_content(&bare, &tool, is_numbered)
}

struct Tool(String);

impl Tool {
    fn is_one_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.contains(name))
    }
}

/// Whether `is_so` holds for more than this share of the lines.
fn is_share<T>(share: f64, lines: &[T], is_so: impl Fn(&T) -> bool) -> bool {
    count(lines, is_so) > share * lines.len() as f64
}

fn count<T>(lines: &[T], is_so: impl Fn(&T) -> bool) -> f64 {
    lines.iter().filter(|line| is_so(line)).count() as f64
}

/// Lines from the start and the end, each cut, without the empty ones.
fn sample(text: &[u32]) -> Vec<&[u32]> {
    const HEAD: usize = 32_768;
    const TAIL: usize = 8_192;
    let mut lines = split(first(text, HEAD));
    if text.len() > HEAD {
        if lines.len() > 1 {
            lines.pop();
        }
        lines.extend_from_slice(&split(&text[HEAD.max(text.len() - TAIL)..])[1..]);
    }
    lines.retain(|line| !is_blank(line));
    lines.iter().map(|line| first(line, LINE)).collect()
}

fn is_match(line: &&[u32]) -> bool {
    match found_in(line) {
        Some(_) => !TIMESTAMP.is_match(&lossy(line)),
        None => line.len() == 2 && line.iter().all(|&point| is(point, b'-')),
    }
}

fn is_diff(lines: &[&[u32]]) -> bool {
    let heads = |head| lines.iter().any(|line| diff_head(line) == Some(head));
    (heads(DiffHead::Hunk) || heads(DiffHead::File))
        && is_share(0.7, lines, |line| is_in(line[0], "+- @\\") || diff_head(line).is_some())
}

/// Whether nearly all lines are paths, bullets, or rows with the same number of fields.
fn is_list(lines: &[&[u32]]) -> bool {
    if lines.len() < MIN_LINES {
        return false;
    }
    if is_share(0.8, lines, |line| is_path(line)) || is_share(0.8, lines, |line| BULLET.is_match(&lossy(line))) {
        return true;
    }
    [(b'\t', 1), (b',', 2), (b';', 2), (b'|', 2)].iter().any(|&(separator, min)| {
        let count_in = |line: &&[u32]| line.iter().filter(|&&point| is(point, separator)).count();
        // If more than nine tenths of the rows have it, the median row has it too.
        let mut counts: Vec<usize> = lines.iter().map(count_in).collect();
        let (_, &mut most, _) = counts.select_nth_unstable(lines.len() / 2);
        most >= min && is_share(0.9, &counts, |&count| count == most)
    })
}

/// The kind of a file's content or a program's output.
fn kind_of_content(lines: &[String], tool: &Tool, is_numbered: bool) -> Kind {
    if is_share(0.3, lines, |line| LOG.is_match(line)) {
        return Kind::Log;
    }
    let total = lines.len() as f64;
    let signatures = count(lines, |line| SIGNATURE.is_match(line));
    let code = count(lines, |line| CODE.is_match(line));
    let min_share = if is_numbered || tool.is_one_of(READERS) { 0.25 } else { 0.5 };
    let is_code = signatures > 0.02 * total && code + signatures > min_share * total;
    if is_code || (is_numbered && code > 0.5 * total) {
        return Kind::Code;
    }
    if tool.is_one_of(SHELLS) && has_outcome(lines) { Kind::Log } else { Kind::Text }
}

/// Whether the output of a command says its outcome: then its last lines matter most.
fn has_outcome(lines: &[String]) -> bool {
    const FIRST: usize = 2;
    const LAST: usize = 12;
    let mut ends = lines.iter().take(FIRST).chain(&lines[lines.len().saturating_sub(LAST)..]);
    ends.any(|line| OUTCOME.is_match(line))
}
