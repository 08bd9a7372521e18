//! Rules about the provider's cache: a beginning that differs in each request, and wrong marks.
use super::growth::months;
use super::{Finding, Severity, Subject};
use crate::analysis::python_re::{Pattern, is_digit, is_word};
use crate::caps::grouped;
use crate::prompt_cache::MAX_MARKS;

macro_rules! weekday {
    () => {
        "(?:mon|tues|wednes|thurs|fri|satur|sun)day,? (?:the )?"
    };
}
macro_rules! date {
    () => {
        concat!(
            r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|(?:",
            months!(),
            r")[a-z]{0,6}\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4}|\d{1,2}(?:st|nd|rd|th|\.)? (?:of )?(?:",
            months!(),
            r")[a-z]{0,6}\.?,? \d{4})",
        )
    };
}

/// A time of day is another one in each request, in any context.
static TIME: Pattern = Pattern::new(
    "",
    concat!(
        r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?|\b\d{1,2}:\d\d:\d\d\b",
        r"|\b\d{4}/\d\d/\d\d \d\d:\d\d|\b1[6-9]\d{8}(?:\d{3})?\b",
    ),
);
/// A date that the text calls today's changes too. That of a policy or of a model stays.
static TODAY: Pattern = Pattern::new(
    concat!(
        r"(?m:(?:\btoday\b(?:'s| is)?(?: date)?|\b(?:current|present) (?:date|day|time)\b|\bnow\b",
        r"|\bas of\b|^\W{0,4}date\b|\bdate and time\b|\bit is\b|<(?:current_?)?date>",
        r"|\btimestamp\b|\b(?:generated|started) (?:on|at)\b)",
        r"[^\n\w]{0,8}(?:is|it is|it's|the)?[^\n\w]{0,4}((?:",
        weekday!(),
        ")?",
        date!(),
        "))",
    ),
    "",
);
/// And one alone on its line, or with its day of the week.
static ALONE: Pattern =
    Pattern::new(concat!(r"(?m:^[^\n\w]{0,4}(", date!(), r")[^\n\w]{0,4}$|\b", weekday!(), date!(), ")"), "");
/// A UUID, with its hyphens or without, or a ULID of this age.
static UUID: Pattern = Pattern::new(
    "",
    concat!(
        r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
        r"|\b0[0-7][0-9A-HJKMNP-TV-Z]{24}\b|\b[0-9a-f]{32}\b",
    ),
);
/// The name of an id of the person or subject of this request, as in `user_id: 8f3k2`.
static ID_NAME: Pattern = Pattern::new(
    "",
    concat!(
        r"\b(?i:session|request|conversation|thread|chat|trace|span|run|job|correlation|user|customer",
        r"|account|client|tenant|order|ticket|transaction|message|device|visitor)[ _-]?(?i:id|uuid|guid)\b",
    ),
);
/// The id after its name.
static ID: [Pattern; 2] = [
    Pattern::new("", r#"^["'`*]{0,3}\s{0,3}(?:[:=#]|is\b)[\s"'`*#]{0,4}([A-Za-z0-9][\w.:-]{2,63}\w)"#),
    Pattern::new("", r#"^["'`*]{0,3}\s{0,3}[\s"'`*#]{0,4}([A-Za-z0-9][\w.:-]{2,63}\w)"#),
];
static EXAMPLE: Pattern = Pattern::new(r"e\.g\.|for example|such as|example|format|like|ISO", "");

/// A time, today's date or an id at the front: when it changes, nothing is cached.
pub(super) fn unstable_prefix(subject: &Subject<'_>) -> Vec<Finding> {
    let places: Vec<String> = (0..subject.tools.len()).map(|index| format!("tools[{index}]")).collect();
    let tools = subject.tools.iter().zip(&places).map(|(tool, place)| (place.as_str(), tool.definition, tool.tokens));
    let texts = subject.fixed.iter().map(|text| (text.place, text.text, text.tokens));
    let mut after = subject.tokens();
    let mut findings = Vec::new();
    for (place, text, tokens) in tools.chain(texts) {
        if let Some(found) = varying(text) {
            let written = grouped(after);
            let message = format!(
                "'{found}' is in front of everything: if it changes in the next request, {written} tokens are written again"
            );
            let remedy = "move it after the history (a dynamic section), or leave it out";
            findings.push(Finding::new(Severity::Warning, place, after, message, remedy));
        }
        after -= tokens;
    }
    findings
}

/// A time, a date of today or an id in a text, unless it is an example.
fn varying(text: &str) -> Option<&str> {
    let dates = [&TIME, &TODAY, &ALONE].into_iter().flat_map(|pattern| {
        pattern.regex().captures_iter(text).filter_map(|found| {
            let whole = found.get(0)?;
            Some((whole.start(), found.get(1).unwrap_or(whole).as_str()))
        })
    });
    let uuids = UUID.regex().find_iter(text).filter(|id| is_likely(id.as_str()));
    let uuids = uuids.map(|id| (id.start(), id.as_str()));
    let mut matches = dates.chain(uuids).chain(named_ids(text));
    matches.find(|&(start, _)| !is_example(&text[..start])).map(|(_, shown)| shown)
}

/// Whether it is one: without hyphens, a UUID has digits and letters.
fn is_likely(id: &str) -> bool {
    const HEX_DIGITS: usize = 32;
    const MIN_DIGITS: usize = 6;
    let digits = id.bytes().filter(u8::is_ascii_digit).count();
    id.len() != HEX_DIGITS || (MIN_DIGITS..HEX_DIGITS).contains(&digits)
}

/// Ids that follow their names, and the beginning of each name.
fn named_ids(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let name = ID_NAME.regex().find_at(text, at)?;
            let after = &text[name.end()..];
            let found = ID.iter().find_map(|pattern| {
                let id = pattern.regex().captures(after)?.get(1)?;
                has_digit(&after[id.start()..]).then_some(id)
            });
            match found {
                Some(id) => {
                    at = name.end() + id.end();
                    return Some((name.start(), id.as_str()));
                }
                None => at = name.start() + 1, // a name is ASCII
            }
        }
    })
}

/// Whether the id that a text begins with has a digit.
fn has_digit(text: &str) -> bool {
    const LONGEST: usize = 65;
    let points = text.chars().take(LONGEST).map(u32::from);
    let mut id = points.take_while(|&point| is_word(point) || ".:-".chars().any(|c| u32::from(c) == point));
    id.any(is_digit)
}

/// Whether the text before a match says that it is an example.
fn is_example(before: &str) -> bool {
    const NEAR: usize = 60;
    let start = before.char_indices().rev().take(NEAR).last().map_or(before.len(), |(start, _)| start);
    EXAMPLE.is_match(&before[start..])
}

/// Cache marks that are refused, that cache nothing, or that are missing.
pub(super) fn breakpoints(subject: &Subject<'_>) -> Vec<Finding> {
    let segments = &subject.segments;
    let mut end = 0;
    let ends: Vec<i64> = segments
        .iter()
        .map(|segment| {
            end += segment.tokens;
            end
        })
        .collect();
    let marked: Vec<usize> = (0..segments.len()).filter(|&index| segments[index].is_marked).collect();
    let mut findings = Vec::new();
    if subject.marks > MAX_MARKS {
        let place = marked.last().map_or("", |&last| segments[last].id);
        let message = format!("{} cache breakpoints, and the provider refuses more than {MAX_MARKS}", subject.marks);
        let remedy = "keep the one after the tools or the system, and those nearest to the end";
        findings.push(Finding::new(Severity::Error, place, 0, message, remedy));
    }
    for index in marked.iter().copied() {
        let (segment, end) = (segments[index], ends[index]);
        if subject.marks_cache && end < subject.min_prefix {
            let model = if subject.model.is_empty() { "the model" } else { subject.model };
            let (tokens, least) = (grouped(end), grouped(subject.min_prefix));
            let message = format!("the breakpoint ends a prefix of {tokens} tokens; {model} keeps none under {least}");
            let remedy = "take it away, or put it where the prefix is longer";
            findings.push(Finding::new(Severity::Info, segment.id, 0, message, remedy));
        }
        if segment.is_dynamic {
            let message = "the breakpoint is on what changes each turn: it is written and never read";
            let remedy = "put it at the end of what stays";
            findings.push(Finding::new(Severity::Warning, segment.id, end, message.to_owned(), remedy));
        }
    }
    if subject.marks_cache && marked.is_empty() && !segments.is_empty() && end >= subject.min_prefix {
        let message = format!("no cache breakpoint: {} tokens are paid in full in every request", grouped(end));
        let remedy = "compile it with rehydrate, or mark the end of the system and of the history";
        findings.push(Finding::new(Severity::Warning, "", end, message, remedy));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::{Segment, nothing, said};
    use super::*;

    #[test]
    fn what_is_another_one_in_each_request_is_found() {
        let cases = [
            ("It is 12:30:07 now.", Some("12:30:07")),
            ("Today's date is Friday, the 27th of November 2026.", Some("Friday, the 27th of November 2026")),
            ("Current date: 2026-11-27", Some("2026-11-27")),
            ("Release of 2026-11-27 and later.", None),
            ("Write times as 12:30:07, for example 12:30:08.", Some("12:30:07")),
            ("The format is like 12:30:07.", None),
            ("user_id: 8f3k2", Some("8f3k2")),
            ("The order id is is-40x.", Some("is-40x")),
            ("The order id is unknown.", None),
            ("0123456789abcdef0123456789abcdef", Some("0123456789abcdef0123456789abcdef")),
            ("01234567890123456789012345678901", None),
        ];
        for (text, found) in cases {
            assert_eq!(varying(text), found, "{text}");
        }
    }

    #[test]
    fn marks_are_too_many_too_early_or_missing() {
        let segment = Segment { id: "a", tokens: 600, is_marked: true, is_dynamic: false };
        let subject = Subject { segments: vec![segment; 5], marks: 5, marks_cache: true, ..nothing() };
        let severities: Vec<_> = breakpoints(&subject).iter().map(|found| found.severity).collect();
        assert_eq!(severities, [Severity::Error, Severity::Info]);
        let bare = vec![Segment { is_marked: false, ..segment }; 5];
        let found = breakpoints(&Subject { segments: bare, marks_cache: true, ..nothing() });
        assert_eq!((found.len(), found[0].tokens), (1, 3_000));
        assert!(breakpoints(&Subject { texts: vec![said("hi")], marks_cache: true, ..nothing() }).is_empty());
    }
}
