//! Shapes of lines: line numbers, search results, paths, logs, code, errors.
use std::ops::Range;

use super::code_points::{first, is, is_digit, is_in, is_space, is_word, run, starts_with};
use crate::analysis::python_re::Pattern;

/// Characters of a line that are matched against patterns.
pub(super) const LINE: usize = 200;

/// A line of JSON lines: it starts like an array or an object of its own.
pub(super) static ROW: Pattern = Pattern::new("", r#"^\s*(?:\d{1,7}→\s*)?(?:\{\s*"|\[\s*["{\[\-0-9tfn])"#);
/// A date or a time: it looks like a line number between colons too.
pub(super) static TIMESTAMP: Pattern = Pattern::new("", r"^\[?\d{1,4}[-/:.]\d\d[-/:.]\d\d");
/// A row of a list, a table or `ls -l`.
pub(super) static BULLET: Pattern =
    Pattern::new("", r"^(?:\s{0,8}(?:[-*+•]|\d{1,5}[.)])\s+\S|[|].*[|]\s*$|[-dlcbps][rwxsStT-]{9}\s)");
pub(super) static LOG: Pattern = Pattern::new(
    "",
    concat!(
        r#"^(?:\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d|\d{2}[-/]\d{2}[ T]|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:)"#,
        r#"|(?:.{0,39}\W)?(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE|FATAL|NOTICE)»|\[\d{2,}[.:]\d+\])"#,
    ),
);
/// A line by which a command says whether it succeeded.
pub(super) static OUTCOME: Pattern = Pattern::new(
    concat!(
        r#"«\d+ (?:tests?|specs?|examples?|passed|passing|failed|failures?|failing|errors?|warnings?|problems?"#,
        r#"|succeeded|skipped)»|«exit (?:code|status)»|«BUILD (?:SUCCESS|FAIL)|^(?:error|FAILED|ok)»|npm ERR!"#,
        r#"|^make(?:\[\d+\])?: |«(?:finished|completed|done|built|compiled) in»|Traceback|panicked"#,
    ),
    "",
);
/// A line of code that defines or imports something.
pub(super) static SIGNATURE: Pattern = Pattern::new(
    "",
    concat!(
        r#"^(?:\s{0,24}(?:(?:export|default|pub(?:\([^)]{0,20}\))?|public|private|protected|internal|static|final"#,
        r#"|abstract|async|unsafe|extern|override|virtual|inline|sealed|partial|open|data|declare)\s+){0,5}(?:def"#,
        r#"|defp|defmodule|defmacro|defstruct|defimpl|defprotocol|class|fn|func|fun|function|interface|struct|enum"#,
        r#"|trait|impl|type|module|mod|namespace|package|record|object|protocol|extension|union|describe|context"#,
        r#"|test|it|sub|proc|procedure|template|CREATE|create_table|schema|service|message|rpc)[\s(<"'!]"#,
        r#"|\s{0,8}(?:from\s+[\w.]+\s+import|import|use|using|alias|require|include|#include|@[A-Za-z])»"#,
        r#"|\s{0,12}(?:export\s+)?(?:const|let|var)\s+\w+\s*=\s*(?:async\s*)?(?:\(|function)"#,
        r#"|(?:[\w:<>,*&~]+\s+){1,4}[\w:~]+\s*\([^;]{0,200}$|[.#@]?[\w-]+[^{;]{0,80}\{\s*$)"#,
    ),
);
/// A line of a shape that is common in code.
pub(super) static CODE: Pattern = Pattern::new(
    "",
    concat!(
        r#"^(?:.*[;{}]\s*$|\s*(?:return|if|for|while|else|end|elif|case|when|do|let|const|var|val)»|\s*(?:self"#,
        r#"|this)\.\w|\s*[)\]}]+[;,]?\s*$|.{0,80}(?:=>|->|::|\|>|==|&&|\|\||:=)|\s*(?:#|//|/\*|\*|--|<!--|<\w+)"#,
        r#"|\s*[\w.@:]+\s*(?:=|\()\s*\S|\s*\w+:\s.{0,80},\s*$)"#,
    ),
);
/// A line about an error or a warning.
pub(super) static PROBLEM: Pattern = Pattern::new(
    concat!(
        r#"«(?:error|fatal|panic|panicked|exception|traceback|failed|failure|warn|warning|critical|denied|refused"#,
        r#"|timed? ?out|cannot|undefined|unable|not found|segfault|assert\w*)»"#,
    ),
    r#"[a-z]Error»|[a-z]Exception»|«E\d{3,4}»|^E\s{2,}|✗|✘|❌|FAIL|ERR!"#,
);

/// The length of the line number that a tool which reads files put before a line, with what follows it.
pub(super) fn line_number(line: &[u32]) -> Option<usize> {
    let blanks = run(first(line, 8), |point| is_in(point, " \t"));
    let digits = run(first(&line[blanks..], 8), is_digit);
    let at = blanks + digits;
    let after = |offset: usize, char: char| line.get(at + offset) == Some(&u32::from(char));
    if !(1..=7).contains(&digits) {
        return None;
    }
    match () {
        () if after(0, '→') || after(0, '\t') => Some(at + 1),
        () if after(0, '|') => Some(at + 1 + usize::from(after(1, ' '))),
        () if after(0, ' ') && after(1, '|') => Some(at + 2 + usize::from(after(2, ' '))),
        () if after(0, ':') && after(1, ' ') && after(2, ' ') => Some(at + 2),
        () if after(0, ':') && after(1, '\t') => Some(at + 1),
        () => None,
    }
}

/// The file in a line of a search result: path, line number and text; path and text; or number and text, without one.
pub(super) fn found_in(line: &[u32]) -> Option<Range<usize>> {
    let drive = drive(line);
    numbered_path(line, drive).or_else(|| bare_path(line, drive)).or_else(|| {
        let digits = run(first(line, 8), is_digit);
        let has_mark = line.get(digits).is_some_and(|&mark| is_in(mark, ":-"));
        ((1..=7).contains(&digits) && has_mark && line.len() > digits + 1).then_some(0..0)
    })
}

/// The length of `C:\` at the start.
fn drive(line: &[u32]) -> usize {
    let is_drive = line.len() > 2
        && char::from_u32(line[0]).is_some_and(|c| c.is_ascii_alphabetic())
        && is(line[1], b':')
        && is_in(line[2], "\\/");
    if is_drive { 3 } else { 0 }
}

/// `path:12:` or `path-12-`.
fn numbered_path(line: &[u32], drive: usize) -> Option<Range<usize>> {
    let length = run(first(&line[drive..], 260), |point| !is_space(point) && !is_in(point, r#":'"(){}[]<>|,;=*"#));
    (drive + 1..=drive + length).rev().find_map(|end| {
        let mark = *line.get(end).filter(|&&mark| is_in(mark, ":-"))?;
        let digits = run(first(&line[end + 1..], 8), is_digit);
        ((1..=7).contains(&digits) && line.get(end + 1 + digits) == Some(&mark)).then_some(0..end)
    })
}

/// `folder/file.py:` with text after it.
fn bare_path(line: &[u32], drive: usize) -> Option<Range<usize>> {
    let end = drive + line[drive..].iter().position(|&point| is(point, b':'))?;
    if line.get(end + 1).is_none_or(|&after| is(after, b' ')) {
        return None;
    }
    let dot = line[..end].iter().rposition(|&point| is(point, b'.'))?;
    let extension = &line[dot + 1..end];
    if !(1..=10).contains(&extension.len()) || !extension.iter().all(|&point| is_word(point)) {
        return None;
    }
    let is_path = |start: usize| {
        let is_name = |name: &[u32]| {
            (1..=80).contains(&name.len()) && name.iter().all(|&point| is_word(point) || is_in(point, "@.+~-"))
        };
        start <= dot
            && line[start..dot].split(|&point| is_in(point, "\\/")).count() <= 21
            && line[start..dot].split(|&point| is_in(point, "\\/")).all(is_name)
    };
    let dots = ["../", "./", "/"].iter().find(|start| starts_with(line, start)).map_or(0, |start| start.len());
    (is_path(drive) || (drive == 0 && is_path(dots))).then_some(0..end)
}

/// Whether a line is a path.
pub(super) fn is_path(line: &[u32]) -> bool {
    let is_path = |path: &[u32]| {
        if path.iter().any(|&point| is_space(point) || is(point, b':')) {
            return false;
        }
        let has_folder = path.iter().skip(1).any(|&point| is_in(point, "\\/"));
        let dot = path.iter().rposition(|&point| is(point, b'.')).unwrap_or_default();
        let extension = &path[(dot + 1).min(path.len())..];
        has_folder || (dot > 0 && (1..=8).contains(&extension.len()) && extension.iter().all(|&point| is_word(point)))
    };
    is_path(line) || is_path(&line[drive(line)..])
}

/// The first character of a line of a diff.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DiffHead {
    File,
    Hunk,
    Other,
}

pub(super) fn diff_head(line: &[u32]) -> Option<DiffHead> {
    if starts_with(line, "diff --git ") {
        return Some(DiffHead::File);
    }
    if is_hunk(line) {
        // @@ -1,2 +3
        let mut at = 4 + run(&line[4..], is_digit);
        if line.get(at).is_some_and(|&point| is(point, b',')) {
            let digits = run(&line[at + 1..], is_digit);
            at += if digits > 0 { 1 + digits } else { 0 };
        }
        let is_whole = starts_with(&line[at..], " +") && line.get(at + 2).is_some_and(|&point| is_digit(point));
        return is_whole.then_some(DiffHead::Hunk);
    }
    let other = ["--- a/", "--- /", "+++ b/", "+++ /", "Index: "];
    other.iter().any(|start| starts_with(line, start)).then_some(DiffHead::Other)
}

pub(super) fn is_hunk(line: &[u32]) -> bool {
    starts_with(line, "@@ -") && line.get(4).is_some_and(|&point| is_digit(point))
}

/// Whether a line is of the head that a commit has before its diff.
pub(super) fn is_commit(line: &[u32]) -> bool {
    if starts_with(line, "commit ") {
        let hash = &line[7..];
        let digits = run(hash, |point| is_in(point, "0123456789abcdef"));
        return (7..=40).contains(&digits) && hash.get(digits).is_none_or(|&after| !is_word(after));
    }
    ["Author:", "Date:", "Subject:", "From:"]
        .iter()
        .any(|name| starts_with(line, name) && line.get(name.len()).is_some_and(|&after| is_space(after)))
}
