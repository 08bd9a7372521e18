//! Ranges of times, as people and models write them: from a time to another, after one, before one, or one alone.
use once_cell::race::OnceBox;
use regex::Regex;
use unicase::UniCase;
use unicode_normalization_alignments::UnicodeNormalization;

use super::names::Unreadable;
use super::words::{Meaning, read_time};
use crate::analysis::python_re::is_digit;
use crate::caps::grouped;

/// Longer than any text that means a time.
const MAX_CHARACTERS: usize = 200;

/// The meaning of a range; an end that it does not name is None.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    pub kind: RangeKind,
    pub ends: [Option<End>; 2],
}

/// The meaning of a range's ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeKind {
    /// It is its first end.
    One,
    /// From the beginning of the first to the end of the last.
    Between,
    /// From the end of the first to the beginning of the last.
    Outside,
}

/// One time of a range, and its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub text: String,
    pub meaning: Meaning,
}

/// Read a range, or else one time. `now` is the time of the zone's clock.
///
/// # Errors
/// `Unreadable`, with the reason.
pub fn read_range(text: &str, now: i64) -> Result<Range, Unreadable> {
    let refused = |why: &str| Err(Unreadable { subject: String::new(), why: why.into() });
    let count = text.chars().count();
    if count > MAX_CHARACTERS {
        let count = grouped(count as i64);
        let why = format!("it is {count} characters long, {MAX_CHARACTERS} at most can be a time");
        return refused(&why);
    }
    let text = plain(text);
    let forms = Forms::get();
    if text.is_empty() {
        return refused("it is empty");
    }
    if forms.slashed.is_match(&text) {
        return refused("dates with slashes or dots are not read here; write the date as 2026-02-17");
    }
    let read = |end: &str| {
        let meant = |meaning| End { text: end.to_owned(), meaning };
        (!end.is_empty()).then(|| read_time(end, now).map(meant)).transpose()
    };
    let Some((kind, first, last)) = forms.parted(&text) else {
        return Ok(Range { kind: RangeKind::One, ends: [read(&text)?, None] });
    };
    let ends = [read(first)?, read(last)?];
    if ends == [None, None] { refused("it names no time") } else { Ok(Range { kind, ends }) }
}

/// Separators of times.
struct Forms {
    fillers: Regex,
    units: Regex,
    ordinals: Regex,
    slashed: Regex,
    others: [(RangeKind, Regex); 5],
}

impl Forms {
    fn get() -> &'static Self {
        static FORMS: OnceBox<Forms> = OnceBox::new();
        let regex = |source| Regex::new(source).expect("it is written correctly");
        FORMS.get_or_init(|| {
            Box::new(Self {
                fillers: regex(r#"['"`]|\b(?:the|on|of|in|within|during)\b"#),
                units: regex(r"(^|[^\w-])(\d+) ?([hdw])\b"),
                ordinals: regex(r"(\d)(?:st|nd|rd|th)\b"),
                slashed: regex(r"\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{4}[/.]\d{1,2}[/.]\d{1,2}"),
                others: [
                    (RangeKind::Outside, regex(r"^after (.+)()$")),
                    (RangeKind::Outside, regex(r"^()before (.+)$")),
                    (RangeKind::Between, regex(r"^between (.+?) and (.+)$")),
                    (
                        RangeKind::Between,
                        regex(r"^(?:from |since )?(.*?) ?(?:\.{2,3}|/| - |(?:^| )(?:to|until|till|through) ) ?(.*)$"),
                    ),
                    (RangeKind::Between, regex(r"^(?:from|since) (.+)()$")),
                ],
            })
        })
    }

    /// The two times of a range; None for one time.
    fn parted<'a>(&self, text: &'a str) -> Option<(RangeKind, &'a str, &'a str)> {
        if let Some((first, last)) = after_and_before(text) {
            return Some((RangeKind::Outside, first, last));
        }
        self.others.iter().find_map(|(kind, form)| {
            let (_, [first, last]) = form.captures(text)?.extract();
            Some((*kind, first, last))
        })
    }
}

/// The times of "after X before Y", with "and" or without; the day before one is a time.
fn after_and_before(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("after ")?;
    rest.match_indices(' ').filter(|&(at, _)| at > 0).find_map(|(at, _)| {
        let (first, then) = (&rest[..at], &rest[at + 1..]);
        let last = match then.strip_prefix("and before ") {
            Some(last) => last,
            None if first == "day" => return None,
            None => then.strip_prefix("before ")?,
        };
        (!last.is_empty()).then_some((first, last))
    })
}

/// One spelling: small letters, plain dashes and blanks, without filler words.
fn plain(text: &str) -> String {
    let composed: String = text.nfkc().map(|(char, _)| char).collect();
    let folded = UniCase::unicode(composed).to_folded_case();
    let dashed = folded.replace(|char| matches!(char, '\u{2010}'..='\u{2015}' | '\u{2212}'), "-");
    let text = spaced(&dashed, |_, char, next| char == ',' && !next.is_some_and(|next| is_digit(next.into())));
    let forms = Forms::get();
    let text = forms.fillers.replace_all(&text, " ");
    let text = spaced(&text, |last, char, next| char == '.' && last.is_ascii_lowercase() && next != Some('.'));
    let text = forms.units.replace_all(&text, |found: &regex::Captures<'_>| {
        let unit = match &found[3] {
            "h" => "hours",
            "d" => "days",
            _ => "weeks",
        };
        format!("{}{} {unit}", &found[1], &found[2])
    });
    let text = forms.ordinals.replace_all(&text, "$1");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text with a blank in place of each character that means nothing together with its neighbours.
fn spaced(text: &str, says_nothing: impl Fn(char, char, Option<char>) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut last = ' ';
    for (at, char) in text.char_indices() {
        let next = text[at + char.len_utf8()..].chars().next();
        out.push(if says_nothing(last, char, next) { ' ' } else { char });
        last = char;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wednesday, 2026-02-18, 15:00.
    const NOW: i64 = (739_664 * 24 + 15) * 3_600_000_000;

    fn read(text: &str) -> String {
        let shown = |end: Option<End>| end.map_or_else(|| "-".into(), |end| end.text);
        match read_range(text, NOW) {
            Ok(Range { kind, ends: [first, last] }) => format!("{kind:?}: {}, {}", shown(first), shown(last)),
            Err(Unreadable { subject, why }) => format!("! {subject}{why}"),
        }
    }

    #[test]
    fn ranges_are_parted_at_the_words_between_their_times() {
        for (text, expected) in [
            ("On the 17th of Feb., 2026", "One: 17 feb 2026, -"),
            ("2026-02-01 … today", "Between: 2026-02-01, today"),
            ("2026-02-01–2026-02-17", "! 2026-02-01-2026-02-17 isn't a time that is known here"),
            ("from monday until yesterday", "Between: monday, yesterday"),
            ("since last week", "Between: last week, -"),
            ("until today", "Between: -, today"),
            ("between monday and tuesday", "Between: monday, tuesday"),
            ("past 3d", "One: past 3 days, -"),
            ("after monday and before today", "Outside: monday, today"),
            ("after 2 march before today", "Outside: 2 march, today"),
            ("after Monday, before Friday", "Outside: monday, friday"),
            ("after yesterday before today", "Outside: yesterday, today"),
            ("after the day before yesterday before today", "Outside: day before yesterday, today"),
            ("after the day before yesterday", "Outside: day before yesterday, -"),
            ("before the day before yesterday", "Outside: -, day before yesterday"),
            ("after the day before yesterday and before today", "Outside: day before yesterday, today"),
            ("17/02/2026", "! dates with slashes or dots are not read here; write the date as 2026-02-17"),
            ("..", "! it names no time"),
            (" the ", "! it is empty"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert!(read(&"x".repeat(201)).starts_with("! it is 201 characters long, 200 at most"));
    }
}
