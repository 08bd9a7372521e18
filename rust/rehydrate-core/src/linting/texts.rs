//! Rules about single texts: binary data, logs, whole files, echoes, unused results; old thinking and heavy tools.
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Finding, Severity, Subject, Text, Tool};
use crate::analysis::python_re::{Pattern, lines};
use crate::caps::{Kind, code_points, grouped, kind_of};
use crate::conversation::PieceKind;
use crate::interrupt::checkpoint;
use crate::sessions::stripped;

/// Less than this is not worth a reader's time.
const WORTH_TOKENS: i64 = 500;

static BASE64: Pattern = Pattern::new("", r"[A-Za-z0-9+/]{256,}={0,2}|(?:[A-Za-z0-9+/]{60,80}\r?\n){6,}");

/// Runs of base64 in a text: the model reads each letter and sees nothing.
pub(super) fn base64_in_text(subject: &Subject<'_>) -> Vec<Finding> {
    /// A long name, hexadecimal, or one repeated letter has no more.
    const MIN_LETTERS: usize = 25;
    let is_base64 = |run: &&str| {
        let has = |kind: fn(&u8) -> bool| run.as_bytes().iter().any(kind);
        let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
        is_mixed && run.bytes().collect::<FxHashSet<_>>().len() >= MIN_LETTERS
    };
    let mut findings = Vec::new();
    for text in &subject.texts {
        let found = BASE64.regex().find_iter(text.text).map(|run| run.as_str());
        let runs: Vec<&str> = found.filter(is_base64).collect();
        let tokens: i64 = runs.iter().map(|run| subject.count(run)).sum();
        if tokens >= WORTH_TOKENS {
            let characters = grouped(runs.iter().map(|run| run.len() as i64).sum());
            let message = format!("{characters} characters of base64 in {}", what(text));
            let remedy = "send it as an image or a document block, or leave a reference in its place";
            findings.push(Finding::new(Severity::Warning, text.place, tokens, message, remedy));
        }
    }
    findings
}

/// Logs with more lines than a cap would leave.
pub(super) fn raw_logs(subject: &Subject<'_>) -> Vec<Finding> {
    /// The lines that the pass `cap_tool_results` leaves.
    const LOG_LINES: usize = 200;
    let mut findings = Vec::new();
    for text in &subject.texts {
        let is_read = matches!(text.kind, PieceKind::ToolResult | PieceKind::Text);
        let lines = if is_read && text.tokens >= WORTH_TOKENS { lines(text.text) } else { Vec::new() };
        // Without the tool's name: a shell's output is a log only if it looks like one.
        if lines.len() <= LOG_LINES || kind_of(&code_points(text.text), "") != Kind::Log {
            continue;
        }
        let saved = text.tokens - subject.count(&lines[lines.len() - LOG_LINES..].join("\n"));
        if saved >= WORTH_TOKENS {
            let (count, tokens) = (grouped(lines.len() as i64), grouped(text.tokens));
            let message = format!("{count} lines of a log in {}, {tokens} tokens", what(text));
            let remedy = format!(
                "cap it to its last {LOG_LINES} lines (the pass cap_tool_results), or filter it where it is made"
            );
            findings.push(Finding::new(Severity::Warning, text.place, saved, message, remedy));
        }
    }
    findings
}

const FILE_TOKENS: i64 = 4_000;
const FILE_LINES: usize = 300;

static READERS: Pattern = Pattern::new(r"read|view|cat\b|open|fetch|get_file|file_contents", "");
static A_PART: Pattern = Pattern::new("", r#""(?:offset|limit|view_range|start_line|end_line|range|lines)":"#);
static CAT: Pattern = Pattern::new("", r"\b(?:cat|bat|type)\b");
static NUMBERED: Pattern = Pattern::new("", r"^\s{0,8}\d{1,7}(?:→|\t|: | \| )");
static FENCED: Pattern = Pattern::new("", r"(?sm)^```[^\n]*\n(.*?)^```");

/// Long whole files, read by a tool or pasted by the user.
pub(super) fn whole_files(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for text in subject.texts.iter().filter(|text| text.tokens >= FILE_TOKENS) {
        let (how, remedy) = if text.kind == PieceKind::ToolResult && is_whole_file(text) {
            let remedy = "read the lines that are needed (grep, then offset and limit)";
            (format!("read whole by {}", text.tool), remedy)
        } else if text.kind == PieceKind::Text && text.role == "user" && is_pasted(text.text) {
            ("pasted whole".to_owned(), "name its path and let a tool read the lines needed")
        } else {
            continue;
        };
        let (count, tokens) = (grouped(breaks(text.text) as i64 + 1), grouped(text.tokens));
        let message = format!("a file of {count} lines, {tokens} tokens, {how}");
        findings.push(Finding::new(Severity::Info, text.place, text.tokens, message, remedy));
    }
    findings
}

fn is_whole_file(text: &Text<'_>) -> bool {
    let reads = READERS.is_match(text.tool) || is_printed(text.asked);
    reads && !A_PART.is_match(text.asked) && breaks(text.text) >= FILE_LINES
}

/// Whether a command prints a file, and neither pipes nor writes it on.
fn is_printed(command: &str) -> bool {
    /// Characters in which a pipe belongs to the command.
    const NEAR: usize = 501;
    CAT.regex().find_iter(command).any(|found| {
        let mut rest = command[found.end()..].chars().take(NEAR).take_while(|&c| c != '"');
        !rest.any(|c| matches!(c, '|' | '>'))
    })
}

fn is_pasted(text: &str) -> bool {
    let fenced: usize = FENCED.regex().captures_iter(text).map(|block| breaks(&block[1])).sum();
    let numbered = lines(text).into_iter().filter(|line| NUMBERED.is_match(line)).count();
    fenced.max(numbered) >= FILE_LINES
}

fn breaks(text: &str) -> usize {
    text.bytes().filter(|&byte| byte == b'\n').count()
}

/// A description of a text.
fn what(text: &Text<'_>) -> String {
    match text.kind {
        PieceKind::ToolResult if text.tool.is_empty() => "a tool's result".to_owned(),
        PieceKind::ToolResult => format!("the result of {}", text.tool),
        PieceKind::ToolInput => "a tool call".to_owned(),
        _ => format!("the {}'s words", text.role),
    }
}

/// Texts most of whose long lines are in earlier texts.
pub(super) fn echoes(subject: &Subject<'_>) -> Vec<Finding> {
    /// The share of the characters in long lines that earlier texts must have.
    const SHARE: f64 = 0.8;
    const ECHO_TOKENS: i64 = 300;
    let mut first_seen: FxHashMap<String, &str> = FxHashMap::default();
    let mut findings = Vec::new();
    for text in subject.texts.iter().filter(|text| text.kind != PieceKind::Thinking) {
        checkpoint();
        let lines = long_lines(text);
        let size: usize = lines.iter().map(|(_, length)| length).sum();
        if text.tokens >= ECHO_TOKENS && text.kind != PieceKind::ToolInput && size > 0 {
            let mut places: Vec<(&str, usize)> = Vec::new();
            let mut number_of: FxHashMap<&str, usize> = FxHashMap::default();
            for (line, length) in &lines {
                let Some(&place) = first_seen.get(line).filter(|&&place| place != text.place) else { continue };
                let number = *number_of.entry(place).or_insert(places.len());
                if number == places.len() {
                    places.push((place, 0));
                }
                places[number].1 += length;
            }
            let echoed: usize = places.iter().map(|(_, characters)| characters).sum();
            let share = echoed as f64 / size as f64;
            // The first of the places that have the most.
            let most = places.iter().rev().max_by_key(|(_, characters)| *characters);
            if let Some(&(place, characters)) = most.filter(|_| share >= SHARE) {
                let is_result = text.kind == PieceKind::ToolResult;
                let name = if is_result { what(text) } else { format!("what the {} says", text.role) };
                let others = places.len() - 1;
                let is_scattered = others > 0 && (characters as f64) < 0.9 * size as f64;
                let also = if is_scattered { format!(" and {others} more") } else { String::new() };
                let message = format!("{:.0}% of {name} is in {place}{also} already", 100.0 * share);
                let remedy = format!("leave a reference to {place} in its place (the pass remove_echoes)");
                let tokens = (text.tokens as f64 * share) as i64;
                findings.push(Finding::new(Severity::Warning, text.place, tokens, message, remedy));
            }
        }
        for (line, _) in lines {
            first_seen.entry(line).or_insert(text.place);
        }
    }
    findings
}

/// The long lines of a text and their lengths, without the numbers that tools put before them.
fn long_lines(text: &Text<'_>) -> Vec<(String, usize)> {
    /// Shorter lines (brackets, blanks) are in every file.
    const LONG_LINE: usize = 16;
    let unescaped; // a file in JSON: its line breaks are escaped
    let content: &str = if text.kind == PieceKind::ToolInput {
        unescaped = text.text.replace("\\\"", "\"").replace("\\t", "\t").replace("\\n", "\n");
        &unescaped
    } else {
        text.text
    };
    let bare = lines(content).into_iter().map(|line| {
        let number = NUMBERED.regex().find(line).map_or(0, |found| found.end());
        stripped(&line[number..])
    });
    let sized = bare.map(|line| (line.to_owned(), line.chars().count()));
    sized.filter(|&(_, length)| length >= LONG_LINE).collect()
}

/// Thinking before the last user turn, if leaving it out saves enough.
pub(super) fn old_thinking(subject: &Subject<'_>) -> Vec<Finding> {
    const THINKING_TOKENS: i64 = 1_000;
    let is_turn = |text: &Text<'_>| text.role == "user" && text.kind == PieceKind::Text;
    let last = subject.texts.iter().rposition(is_turn).unwrap_or_default();
    let thoughts: Vec<_> = subject.texts[..last].iter().filter(|text| text.kind == PieceKind::Thinking).collect();
    let tokens: i64 = thoughts.iter().map(|text| text.tokens).sum();
    if tokens < THINKING_TOKENS {
        return Vec::new();
    }
    let message = format!("{} thinking blocks of earlier turns, {} tokens", thoughts.len(), grouped(tokens));
    let remedy = "leave them out when you compact, all of them: compact_context(thinking=\"strip\")";
    vec![Finding::new(Severity::Info, thoughts[0].place, tokens, message, remedy)]
}

/// Definitions of tools that are heavy together.
pub(super) fn heavy_tools(subject: &Subject<'_>) -> Vec<Finding> {
    const HEAVY_TOKENS: i64 = 2_000;
    const SHOWN: usize = 3;
    let total = subject.tool_tokens();
    if total < HEAVY_TOKENS {
        return Vec::new();
    }
    // A name and a line, with the schema on demand.
    let brief = |tool: &Tool<'_>| {
        let line = stripped(tool.description).split('\n').next().unwrap_or_default();
        subject.count(&format!("{}: {line}", tool.name)).min(tool.tokens)
    };
    let left: i64 = subject.tools.iter().map(brief).sum();
    let mut by_weight: Vec<(usize, &Tool<'_>)> = subject.tools.iter().enumerate().collect();
    by_weight.sort_by_key(|(_, tool)| -tool.tokens);
    let named = by_weight.iter().take(SHOWN).map(|(_, tool)| format!("{} {}", tool.name, grouped(tool.tokens)));
    let named = named.collect::<Vec<_>>().join(", ");
    let (count, tokens) = (subject.tools.len(), grouped(total));
    let message = format!("{count} tool schemas weigh {tokens} tokens in every request (heaviest: {named})");
    let remedy = format!("name and one line each, the schema on demand, would take {}", grouped(left));
    let place = format!("tools[{}]", by_weight[0].0);
    vec![Finding::new(Severity::Warning, &place, total - left, message, remedy)]
}

static TERM: Pattern = Pattern::new("", r"[A-Za-z_][A-Za-z0-9_]{3,}|\d{3,}");

/// Results of which no new name (identifier, word, number) occurs later.
///
/// If in doubt it reports nothing: any word that is new in a result and occurs later, in whatever sense, counts as a
/// use.
pub(super) fn unused_results(subject: &Subject<'_>) -> Vec<Finding> {
    const RESULT_TOKENS: i64 = 1_000;
    /// Later requests that do not mention it.
    const LATER_STEPS: i64 = 8;
    /// New names in a result. With fewer it is unknown whether it was used.
    const NEW_TERMS: usize = 12;
    let terms: Vec<_> = subject.texts.iter().map(terms_of).collect();
    let mut last_seen: FxHashMap<&str, usize> = FxHashMap::default();
    let others = subject.texts.iter().enumerate().filter(|(_, text)| text.kind != PieceKind::ToolResult);
    for (index, _) in others {
        checkpoint();
        last_seen.extend(terms[index].iter().map(|&term| (term, index)));
    }
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    let mut findings = Vec::new();
    for (index, text) in subject.texts.iter().enumerate() {
        let later = subject.steps() - text.step;
        if text.kind == PieceKind::ToolResult && text.tokens >= RESULT_TOKENS && later >= LATER_STEPS {
            let new: Vec<&str> = terms[index].iter().copied().filter(|term| !seen.contains(term)).collect();
            let is_unused = new.iter().all(|term| last_seen.get(term).is_none_or(|&last| last < index));
            if new.len() >= NEW_TERMS && is_unused {
                let tool = if text.tool.is_empty() { "this tool" } else { text.tool };
                let tokens = grouped(text.tokens);
                let message =
                    format!("nothing that {tool} found ({tokens} tokens) is mentioned in the {later} requests since");
                let remedy = "leave a handle in its place (compact_context, or the pass cap_tool_results)";
                findings.push(Finding::new(Severity::Info, text.place, text.tokens, message, remedy));
            }
        }
        seen.extend(&terms[index]);
    }
    findings
}

fn terms_of<'a>(text: &Text<'a>) -> FxHashSet<&'a str> {
    TERM.regex().find_iter(text.text).map(|term| term.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{nothing, said};
    use super::*;

    #[test]
    fn a_command_prints_a_file_unless_it_goes_on_elsewhere() {
        assert!(is_printed(r#"{"command":"cat a.py"}"#));
        assert!(!is_printed(r#"{"command":"cat a.py | head"}"#));
        assert!(!is_printed(r#"{"command":"cat a.py > b.py"}"#));
        assert!(is_printed(r#"{"command":"cat a.py","note":"a | b"}"#));
        assert!(!is_printed(r#"{"command":"concatenate a.py"}"#));
    }

    #[test]
    fn an_echo_names_the_place_that_has_most_of_it() {
        let lines: Vec<String> = (0..40).map(|n| format!("a line of its own, number {n}")).collect();
        let (whole, again) =
            (lines.join("\n"), lines.iter().map(|line| format!("  7\t{line}\r\n")).collect::<String>());
        let first = Text { tokens: 400, ..said(&whole) };
        let second = Text { place: "history[1]", kind: PieceKind::ToolResult, tokens: 401, ..said(&again) };
        let found = echoes(&Subject { texts: vec![first, second], ..nothing() });
        assert_eq!((found.len(), found[0].tokens), (1, 401));
        assert_eq!(found[0].message, "100% of a tool's result is in history[0] already");
    }

    #[test]
    fn a_result_whose_names_come_again_was_used() {
        let (names, ten) = ("alpha beta1 gamma delta epsilon zeta1 theta iota1 kappa lambda omicron sigma", "Go on.");
        let result = Text { kind: PieceKind::ToolResult, tokens: 2_000, ..said(names) };
        let later = Text { place: "history[1]", step: 9, ..said(ten) };
        let unused = Subject { texts: vec![result, later], ..nothing() };
        assert_eq!(unused_results(&unused).len(), 1);
        let used = Subject { texts: vec![result, Text { text: "kappa", ..later }], ..nothing() };
        assert!(unused_results(&used).is_empty());
    }
}
