//! The growth of requests, the moment when they cross the budget, and a system prompt that gets longer.
use rustc_hash::FxHashSet;

use super::{Finding, Severity, Subject, Text, sum};
use crate::analysis::python_re::{Pattern, lines};
use crate::caps::grouped;

/// The prompt is over the hard budget, over the soft one, or will be soon: one finding at most.
pub(super) fn growth(subject: &Subject<'_>) -> Vec<Finding> {
    /// A budget that is crossed within this many further requests gets a finding.
    const SOON_STEPS: i64 = 20;
    /// With fewer requests a rate means nothing.
    const MIN_STEPS: i64 = 3;
    let (budget, total) = (subject.budget, subject.tokens());
    let steps = subject.steps() - subject.now().first().map_or(0, |first| first.step);
    let rate = if steps >= MIN_STEPS { subject.growing_tokens() as f64 / steps as f64 } else { 0.0 };
    let tokens = grouped(total);
    let grows = if rate == 0.0 { String::new() } else { format!(", {} more with each request", rounded(rate)) };
    if total > budget.soft {
        let is_over_hard = total > budget.hard;
        let (name, limit) = if is_over_hard { ("hard", budget.hard) } else { ("soft", budget.soft) };
        let severity = if is_over_hard { Severity::Error } else { Severity::Warning };
        let message = format!("{tokens} tokens{grows}: over the {name} budget of {} from here on", grouped(limit));
        let remedy = format!("compact it to {} tokens", grouped(budget.target));
        return vec![Finding::new(severity, crossed(subject, limit), total - limit, message, remedy)];
    }
    let left = ((budget.soft - total) as f64 / rate).ceil();
    if rate == 0.0 || left > SOON_STEPS as f64 {
        return Vec::new();
    }
    let soft = grouped(budget.soft);
    let message = format!("{tokens} tokens{grows}: over the soft budget of {soft} in about {left} more");
    let remedy = format!("compact it then, to {} tokens", grouped(budget.target));
    vec![Finding::new(Severity::Info, "", 0, message, remedy)]
}

fn rounded(number: f64) -> String {
    grouped(format!("{number:.0}").parse().unwrap_or_default())
}

/// The place where the prompt crosses the limit.
fn crossed<'a>(subject: &Subject<'a>, limit: i64) -> &'a str {
    let mut total = subject.tool_tokens() + sum(&subject.fixed);
    let crossing = subject.now().iter().find(|text| {
        total += text.tokens;
        total > limit
    });
    crossing.map_or("", |text| text.place)
}

macro_rules! months {
    () => {
        "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
    };
}
pub(super) use months;

/// A line of a journal: a date, with only a bullet, a heading's marks or a bracket before it.
static DATED: Pattern = Pattern::new(
    concat!(
        r"^[\s>#*+\-\[(]{0,8}(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|(?:",
        months!(),
        r")[a-z]*\.? \d{1,2},? \d{4}|\d{1,2}\.? (?:",
        months!(),
        r")[a-z]*\.? \d{4})\b",
    ),
    "",
);

const REMEDY: &str = "keep it as it is, put what is new after the history (Context.add, or a dynamic section), and \
                      what must be found later into memory";

/// The system's text grows: from request to request, from one system message to the next, or as a journal does.
pub(super) fn growing_system(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = if subject.systems.len() > 1 {
        grown(&subject.systems, "requests")
    } else {
        let joined = subject.fixed.iter().map(|text| text.text).collect::<Vec<_>>().join("\n");
        let whole = subject.fixed.first().map(|first| Text { text: &joined, tokens: sum(&subject.fixed), ..*first });
        let later = subject.texts.iter().filter(|text| text.role == "system").copied();
        grown(&whole.into_iter().chain(later).collect::<Vec<_>>(), "system messages")
    };
    findings.extend(subject.fixed.iter().filter_map(|text| journal(subject, text)));
    findings
}

/// Versions of one text, the last of which is longer by several additions.
fn grown(versions: &[Text<'_>], of_what: &str) -> Vec<Finding> {
    /// Less growth than this is a changed word.
    const GROWN_TOKENS: i64 = 100;
    /// One growth is an edit.
    const GROWN_TIMES: usize = 2;
    let [first, .., last] = versions else { return Vec::new() };
    let grows = |pair: &&[Text<'_>]| pair[1].tokens > pair[0].tokens && holds(pair[1].text, pair[0].text);
    let times = versions.windows(2).filter(grows).count();
    let more = last.tokens - first.tokens;
    if times < GROWN_TIMES || more < GROWN_TOKENS {
        return Vec::new();
    }
    let message = format!(
        "the system prompt grew {times} times in {} {of_what}, from {} to {} tokens: each time all after it is written \
         again",
        versions.len(),
        grouped(first.tokens),
        grouped(last.tokens),
    );
    vec![Finding::new(Severity::Warning, last.place, more, message, REMEDY)]
}

/// Whether the new text has most of the old one; else it is another prompt.
fn holds(new: &str, old: &str) -> bool {
    const STAYED: f64 = 0.8;
    let (before, now) = (lines(old), lines(new).into_iter().collect::<FxHashSet<_>>());
    let stayed = before.iter().filter(|line| now.contains(*line)).count();
    stayed as f64 >= STAYED * before.len() as f64 || new.contains(old)
}

/// Dated entries in order: more will come.
fn journal(subject: &Subject<'_>, text: &Text<'_>) -> Option<Finding> {
    const JOURNAL_DATES: usize = 5;
    const JOURNAL_TOKENS: i64 = 150;
    let lines = lines(text.text);
    let first = lines.iter().position(|line| DATED.is_match(line))?;
    let dates: Vec<&str> = lines[first..].iter().filter_map(|line| date_of(line)).collect();
    let is_year = |date: &&str| date.chars().take(4).all(char::is_numeric);
    let years: Vec<&str> = dates.iter().copied().filter(is_year).collect();
    // One way, as far as can be seen: not if a date does not begin with the year.
    let is_in_order = years.len() < dates.len() || years.is_sorted() || years.iter().rev().is_sorted();
    if dates.iter().collect::<FxHashSet<_>>().len() < JOURNAL_DATES || !is_in_order {
        return None;
    }
    let tokens = subject.count(&lines[first..].join("\n"));
    if tokens < JOURNAL_TOKENS {
        return None;
    }
    let message = format!(
        "{} dated entries, {} to {}, {} tokens: a journal in the system prompt grows",
        dates.len(),
        dates[0],
        dates[dates.len() - 1],
        grouped(tokens),
    );
    Some(Finding::new(Severity::Info, text.place, tokens, message, REMEDY))
}

/// The date that a line begins with.
fn date_of(line: &str) -> Option<&str> {
    Some(DATED.regex().captures(line)?.get(1)?.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::{nothing, said};
    use super::*;

    #[test]
    fn the_place_where_the_budget_is_crossed_is_named() {
        let texts =
            vec![Text { tokens: 40_000, ..said("a") }, Text { tokens: 20_000, place: "history[1]", ..said("b") }];
        let found = growth(&Subject { texts, ..nothing() });
        assert_eq!((found[0].place.as_str(), found[0].tokens), ("history[1]", 10_000));
        assert_eq!(found[0].message, "60,000 tokens: over the soft budget of 50,000 from here on");
    }

    #[test]
    fn a_rate_says_when_the_budget_will_be_crossed() {
        let of = |step| Text { tokens: 10_000, role: "assistant", step, ..said("a") };
        let found = growth(&Subject { texts: (0..4).map(of).collect(), ..nothing() });
        assert_eq!(
            found[0].message,
            "40,000 tokens, 10,000 more with each request: over the soft budget of 50,000 in about 1 more"
        );
    }

    #[test]
    fn dated_entries_in_order_are_a_journal() {
        let entry = |day| format!("- 2026-03-0{day}: {}\n", "learned something new about it ".repeat(10));
        let text: String = (1..8).map(entry).collect();
        let found = growing_system(&Subject { fixed: vec![said(&text)], ..nothing() });
        assert!(found[0].message.starts_with("7 dated entries, 2026-03-01 to 2026-03-07, "));
        let mixed: String = [3, 1, 2, 5, 4, 6].into_iter().map(entry).collect();
        assert!(growing_system(&Subject { fixed: vec![said(&mixed)], ..nothing() }).is_empty());
    }
}
