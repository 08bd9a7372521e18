//! The rule about searches that return whole files where a few lines of each would be enough.
use super::{Finding, Severity, Subject, Text};
use crate::analysis::python_re::{Pattern, lines};
use crate::caps::{Kind, code_points, grouped, kind_of, lossy, member_text, strings_in};
use crate::conversation::PieceKind;

/// Tokens of the whole files in one answer.
const DUMP_TOKENS: i64 = 4_000;
/// A hit of this size is not a snippet: Rehydrate's own snippets have 200.
const WHOLE_TOKENS: i64 = 1_000;
/// Unbroken lines that count as a whole file, if nothing marks the ends of files.
const WHOLE_LINES: usize = 300;

static SEARCH: Pattern = Pattern::new(
    concat!(
        r"search|grep|(?:^|_)rg(?:$|_)|(?:^|_)find(?:$|_|[A-Z])|retriev|recall|(?:^|_)rag(?:$|_)",
        r"|look_?up|(?:^|_)query(?:$|_)",
    ),
    "",
);
/// In a shell: files found by a search are printed.
static PRINTS_FOUND: Pattern = Pattern::new(
    "",
    concat!(
        r"\bxargs\b[^|]{0,500}\b(?:cat|bat)\b|-exec\s+(?:cat|bat)\b",
        r"|\b(?:cat|bat)\s+\$?[(`]\s*(?:grep|rg|ag|find|fd|git\s+grep)\b",
    ),
);
/// In a shell: all lines of files may match.
static GREPS: Pattern = Pattern::new("", r#"(?:^|[\s"|;&(])(?:grep|rg|ag|ack)\s"#);
/// A line that matches: the path of its file, if it is named, and its number.
static MATCH: Pattern = Pattern::new("", r"^(?:([^\s:][^:\n]{0,300}?)[:-])?([0-9]{1,7})[:-]");
/// The border of two hits: a rule, a heading, a file's name.
static BREAK: Pattern = Pattern::new(
    concat!(
        r"^(?:-{2,}|={3,}|\*{3,}|~{3,})\s*$|^#{1,4} |^</?(?:file|document|doc|result|source|hit)\b",
        r"|^(?:=+>?|-{3,}|\*{3,}|#+) .{1,300} (?:<?=+|-{3,}|\*{3,}|#+)$",
        r"|^\W{0,4}(?:file|path|source|document|result|title|url)\b[^:\n]{0,12}:",
    ),
    "",
);

/// Answers of searches with whole files: hits of a thousand tokens, or one unbroken text.
pub(super) fn search_dumps(subject: &Subject<'_>) -> Vec<Finding> {
    let results = subject.texts.iter().filter(|text| text.kind == PieceKind::ToolResult);
    let results: Vec<Text<'_>> = results.copied().collect();
    let mut findings = Vec::new();
    let is_one_answer = |one: &Text<'_>, other: &Text<'_>| {
        one.place == other.place && one.tool == other.tool && one.asked == other.asked
    };
    for texts in results.chunk_by(is_one_answer) {
        if super::sum(texts) < DUMP_TOKENS {
            continue;
        }
        let files = whole_hits(subject, texts);
        let tokens: i64 = files.iter().sum();
        if tokens >= DUMP_TOKENS {
            let count = files.len();
            let named = if count == 1 { "a whole file".to_owned() } else { format!("{count} whole files") };
            let message = format!("the search {} answered with {named}, {} tokens", texts[0].tool, grouped(tokens));
            let remedy = "have it return the lines around each match and a way to load the whole";
            findings.push(Finding::new(Severity::Warning, texts[0].place, tokens, message, remedy));
        }
    }
    findings
}

/// The tokens of each whole file in a search's answer.
fn whole_hits(subject: &Subject<'_>, texts: &[Text<'_>]) -> Vec<i64> {
    if SEARCH.is_match(texts[0].tool) {
        return match texts {
            [text] => whole_in(subject, text),
            hits => of_size(hits.iter().map(|hit| hit.tokens)), // a text a hit
        };
    }
    let command = member_text(&code_points(texts[0].asked), &["command", "cmd", "commands"]);
    let command = lossy(&command.unwrap_or_default()); // none if the tool isn't a shell
    if PRINTS_FOUND.is_match(&command) {
        texts.iter().flat_map(|text| whole_files_in(subject, text, &lines(text.text))).collect()
    } else if GREPS.is_match(&command) {
        texts.iter().flat_map(|text| unbroken_matches(subject, &lines(text.text))).collect()
    } else {
        Vec::new()
    }
}

/// The tokens of whole files in one text: hits in JSON, matching lines, or files.
fn whole_in(subject: &Subject<'_>, text: &Text<'_>) -> Vec<i64> {
    let kind = kind_of(&code_points(text.text), text.tool);
    let lines = lines(text.text);
    if matches!(kind, Kind::Json | Kind::JsonLines) {
        let parts = if kind == Kind::JsonLines { lines } else { vec![text.text] };
        let hits = parts.into_iter().map(code_points).flat_map(|part| strings_in(&part).unwrap_or_else(|_| vec![part]));
        // A token has at least one character, so a shorter text need not be counted.
        let long = hits.filter(|hit| hit.len() >= WHOLE_TOKENS as usize);
        return of_size(long.map(|hit| subject.count(&lossy(&hit))));
    }
    let unbroken = unbroken_matches(subject, &lines);
    if unbroken.is_empty() && matches!(kind, Kind::Code | Kind::Text) && !is_table(&lines) {
        whole_files_in(subject, text, &lines)
    } else {
        unbroken // matching lines, names, rows
    }
}

/// Whether nearly every line has as many tabs, two or more; a numbered line has one.
fn is_table(lines: &[&str]) -> bool {
    let tabs: Vec<usize> = lines.iter().map(|line| line.matches('\t').count()).collect();
    let mut sorted = tabs.clone();
    sorted.sort_unstable();
    // If more than nine tenths have it, the median has it too.
    let Some(&most) = sorted.get(sorted.len() / 2) else { return false };
    let rows = tabs.iter().filter(|&&count| count == most).count();
    most >= 2 && rows as f64 > 0.9 * lines.len() as f64
}

/// The whole files of a text that is one file after another.
fn whole_files_in(subject: &Subject<'_>, text: &Text<'_>, lines: &[&str]) -> Vec<i64> {
    let mut borders: Vec<usize> = (0..lines.len()).filter(|&number| BREAK.is_match(lines[number])).collect();
    if borders.is_empty() {
        let is_whole = lines.len() >= WHOLE_LINES || lines.len() as f64 <= text.tokens as f64 / 100.0; // code; prose
        return if is_whole { vec![text.tokens] } else { Vec::new() };
    }
    borders.insert(0, 0);
    borders.push(lines.len());
    of_size(borders.windows(2).map(|part| subject.count(&lines[part[0]..part[1]].join("\n"))))
}

/// Runs of consecutive numbered lines of one file, as a broad pattern gives them.
fn unbroken_matches(subject: &Subject<'_>, lines: &[&str]) -> Vec<i64> {
    let place = |line: &&str| {
        let found = MATCH.regex().captures(line)?;
        Some((found.get(1).map(|path| path.as_str().to_owned()), found[2].parse::<u32>().ok()?))
    };
    let places: Vec<_> = lines.iter().map(place).collect();
    let mut files = Vec::new();
    let mut start = 0;
    for end in 1..=lines.len() {
        let goes_on = match (&places[end - 1], places.get(end).and_then(Option::as_ref)) {
            (Some((path, number)), Some((next_path, next))) => path == next_path && number + 1 == *next,
            _ => false,
        };
        if !goes_on {
            if places[start].is_some() && end - start >= WHOLE_LINES {
                files.push(subject.count(&lines[start..end].join("\n")));
            }
            start = end;
        }
    }
    files
}

fn of_size(counts: impl Iterator<Item = i64>) -> Vec<i64> {
    counts.filter(|&count| count >= WHOLE_TOKENS).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{nothing, said};
    use super::*;

    fn result<'a>(text: &'a str, tool: &'a str, asked: &'a str) -> Text<'a> {
        Text { kind: PieceKind::ToolResult, tokens: 9_000, tool, asked, ..said(text) }
    }

    #[test]
    fn hits_of_a_search_are_whole_files_where_they_are_long() {
        let long = "word ".repeat(4_000);
        let hits = format!(r#"[{{"text": "{long}"}}, {{"text": "short"}}, {{"lines": ["one", "two"]}}]"#);
        let found = search_dumps(&Subject { texts: vec![result(&hits, "web_search", "{}")], ..nothing() });
        assert_eq!((found.len(), found[0].tokens), (1, 5_200));
        let other = Subject { texts: vec![result(&hits, "ls", "{}")], ..nothing() };
        assert!(search_dumps(&other).is_empty());
    }

    #[test]
    fn lines_of_one_file_in_a_row_are_the_file() {
        let all: String = (1..=400).map(|n| format!("a.py:{n}:some line of the whole file and more of it\n")).collect();
        let asked = r#"{"command":"grep -n '' a.py"}"#;
        let found = search_dumps(&Subject { texts: vec![result(&all, "Bash", asked)], ..nothing() });
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message, "the search Bash answered with a whole file, 5,200 tokens");
        let apart = all.replace("0:some", "x:some");
        let found = search_dumps(&Subject { texts: vec![result(&apart, "Bash", asked)], ..nothing() });
        assert!(found.is_empty());
    }
}
