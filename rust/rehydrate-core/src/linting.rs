//! Tokens that a prompt or a session wastes, and content that breaks its caching: a rule for each.
mod growth;
mod prefix;
mod searches;
mod texts;

use rustc_hash::FxHashSet;

use crate::conversation::PieceKind;
use crate::engine::Engine;
use crate::interrupt::checkpoint;
use crate::tokens::Counter;

/// A text of the prompt.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// Its place, such as `history[12]`.
    pub place: &'a str,
    pub text: &'a str,
    pub kind: PieceKind,
    pub tokens: i64,
    pub role: &'a str,
    /// The number of requests that were answered before it was added.
    pub step: i64,
    /// For a tool's result: the name of the tool.
    pub tool: &'a str,
    /// For a tool's result: the input of its call, as compact JSON.
    pub asked: &'a str,
}

/// The definition of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Tool<'a> {
    pub name: &'a str,
    pub description: &'a str,
    /// The whole of it, as compact JSON.
    pub definition: &'a str,
    pub tokens: i64,
}

/// A tool, a system block or a message, as the prompt is sent.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    pub id: &'a str,
    pub tokens: i64,
    /// Whether a cache mark is at its end.
    pub is_marked: bool,
    /// Whether it is another one in the next turn.
    pub is_dynamic: bool,
}

/// The sizes from which on a prompt is compacted or not sent, and the size that a compaction leaves.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub soft: i64,
    pub hard: i64,
    pub target: i64,
}

/// A prompt or a session, as the rules read it.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// Those of the history, and of dynamic sections, in their order.
    pub texts: Vec<Text<'a>>,
    /// The first text of the current prompt: a transcript goes on after a compaction.
    pub begins: usize,
    /// The texts before them, which are sent with every request: the system text.
    pub fixed: Vec<Text<'a>>,
    /// The system text of each of a session's requests, if these are known.
    pub systems: Vec<Text<'a>>,
    pub tools: Vec<Tool<'a>>,
    /// The prompt as it is sent, if its cache marks are known.
    pub segments: Vec<Segment<'a>>,
    /// Cache marks in it.
    pub marks: usize,
    /// Whether it is a whole prompt for a provider that only caches marked prefixes.
    pub marks_cache: bool,
    pub media_tokens: i64,
    /// Those before the current prompt.
    pub media_before: i64,
    pub budget: Budget,
    pub model: &'a str,
    /// The shortest prefix that the model's cache keeps.
    pub min_prefix: i64,
    pub counter: Counter,
}

impl<'a> Subject<'a> {
    /// The texts of the current prompt.
    fn now(&self) -> &[Text<'a>] {
        &self.texts[self.begins.min(self.texts.len())..]
    }

    /// Tokens of the tools' definitions.
    #[must_use]
    pub fn tool_tokens(&self) -> i64 {
        self.tools.iter().map(|tool| tool.tokens).sum()
    }

    /// Tokens of the current prompt.
    #[must_use]
    pub fn tokens(&self) -> i64 {
        sum(&self.fixed) + self.tool_tokens() + self.growing_tokens()
    }

    /// Tokens before the current prompt.
    #[must_use]
    pub fn tokens_before(&self) -> i64 {
        sum(&self.texts[..self.begins.min(self.texts.len())]) + self.media_before
    }

    /// Tokens of the current prompt that requests have added.
    fn growing_tokens(&self) -> i64 {
        sum(self.now()) + self.media_tokens - self.media_before
    }

    /// The number of requests that were answered.
    #[must_use]
    pub fn steps(&self) -> i64 {
        self.texts.last().map_or(0, |last| last.step + i64::from(last.role == "assistant"))
    }

    fn count(&self, text: &str) -> i64 {
        i64::from(Engine::shared().count(text, self.counter))
    }
}

fn sum(texts: &[Text<'_>]) -> i64 {
    texts.iter().map(|text| text.tokens).sum()
}

/// The severity of a finding, the mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Info,
    /// Costs tokens or money in every turn.
    Warning,
    /// Stops the job, or is refused.
    Error,
}

impl Severity {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A problem at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// Empty for the whole.
    pub place: String,
    /// Tokens that the remedy would save in every request.
    pub tokens: i64,
    pub message: String,
    pub remedy: String,
}

impl Finding {
    fn new(severity: Severity, place: &str, tokens: i64, message: String, remedy: impl Into<String>) -> Self {
        Self { severity, place: place.to_owned(), tokens, message, remedy: remedy.into() }
    }
}

type Rule = fn(&Subject<'_>) -> Vec<Finding>;

/// The name of a rule, its purpose, and the rule.
type Named = (&'static str, &'static str, Rule);

/// Rules about single texts: a text that one of them reports is not reported by a later one.
const TEXT_RULES: [Named; 6] = [
    ("base64", "binary data as text", texts::base64_in_text),
    ("echo", "content that was there before", texts::echoes),
    ("raw_log", "logs in full", texts::raw_logs),
    ("search_dump", "searches that return whole files", searches::search_dumps),
    ("unused_result", "tool results never used again", texts::unused_results),
    ("whole_file", "long files in full", texts::whole_files),
];
const OTHER_RULES: [Named; 6] = [
    ("heavy_tools", "heavy tool schemas", texts::heavy_tools),
    ("thinking", "thinking of turns that are over", texts::old_thinking),
    ("growth", "tokens a turn, and when the budget is crossed", growth::growth),
    ("growing_system", "a system prompt that grows", growth::growing_system),
    ("unstable_prefix", "dates, times and ids that break the cache", prefix::unstable_prefix),
    ("breakpoints", "cache marks too many, too early or missing", prefix::breakpoints),
];

/// Every rule: its name, and its purpose.
pub fn rules() -> impl Iterator<Item = (&'static str, &'static str)> {
    TEXT_RULES.into_iter().chain(OTHER_RULES).map(|(name, about, _)| (name, about))
}

/// The findings of the rules of these names, each with the name of its rule; the most severe first.
#[must_use]
pub fn lint(subject: &Subject<'_>, names: &[&str]) -> Vec<(&'static str, Finding)> {
    let mut findings = Vec::new();
    let mut reported: FxHashSet<String> = FxHashSet::default();
    for (name, _, find) in TEXT_RULES.into_iter().filter(|(name, ..)| names.contains(name)) {
        checkpoint();
        let mut found = find(subject);
        found.retain(|finding| !reported.contains(&finding.place));
        reported.extend(found.iter().map(|finding| finding.place.clone()));
        findings.extend(found.into_iter().map(|finding| (name, finding)));
    }
    for (name, _, find) in OTHER_RULES.into_iter().filter(|(name, ..)| names.contains(name)) {
        checkpoint();
        findings.extend(find(subject).into_iter().map(|finding| (name, finding)));
    }
    findings.sort_by(|(_, one), (_, other)| {
        let gravest = other.severity.cmp(&one.severity);
        gravest.then(other.tokens.cmp(&one.tokens)).then_with(|| one.place.cmp(&other.place))
    });
    findings
}

/// A text of a test, said by the user.
#[cfg(test)]
fn said(text: &str) -> Text<'_> {
    let (kind, role) = (PieceKind::Text, "user");
    Text { place: "history[0]", text, kind, tokens: text.len() as i64 / 4, role, step: 0, tool: "", asked: "" }
}

/// A subject of a test, with nothing in it.
#[cfg(test)]
fn nothing<'a>() -> Subject<'a> {
    Subject {
        texts: Vec::new(),
        begins: 0,
        fixed: Vec::new(),
        systems: Vec::new(),
        tools: Vec::new(),
        segments: Vec::new(),
        marks: 0,
        marks_cache: false,
        media_tokens: 0,
        media_before: 0,
        budget: Budget { soft: 50_000, hard: 180_000, target: 30_000 },
        model: "",
        min_prefix: 1_024,
        counter: Counter::Words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_reported_by_one_rule_only_and_the_gravest_finding_is_first() {
        let log: String = (0..600).map(|n| format!("12:00:{:02} INFO request {n} served\n", n % 60)).collect();
        let text = Text { kind: PieceKind::ToolResult, tool: "read", tokens: 60_000, ..said(&log) };
        let subject = Subject { texts: vec![text], ..nothing() };
        let names = ["raw_log", "whole_file", "growth"];
        let found: Vec<&str> = lint(&subject, &names).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found.iter().filter(|name| **name != "growth").count(), 1);
        assert!(found.contains(&"growth"));
        assert!(lint(&subject, &[]).is_empty());
    }
}
