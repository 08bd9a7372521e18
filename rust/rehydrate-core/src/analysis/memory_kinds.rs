//! The kind of memory that a text is, by the first kind with a cue in it.
use once_cell::race::OnceBox;
use regex::Regex;

use super::python_re::{as_python_reads, pattern};

/// The kind of a text without a cue.
pub const EPISODE: &str = "episode";
/// What only the assistant's words can be.
const WISDOM: &str = "wisdom";

/// A correction that begins a text, a sentence or a line.
const NO: &str = r"(?: ^ | [.!?\n] [^\S\n]* ) (?: no | nope | wait | actually ) \b";
/// What makes it none.
const PROBLEM: &str = r"^ \s+ (?: problem | worries )";
const CORRECTION: &str = r"\b correction \b | \b i \s meant \b | \b not \s what \s i \b
    | \b that (?: 's | \s is | \s was ) \s (?: not | wrong | incorrect ) \b
    | \b you (?: 're | \s are | \s were ) \s (?: wrong | mistaken ) \b
    | \b should (?: n't | \s not ) \s have \b | \b (?: my | a ) \s mistake \b";
const PREFERENCE: &str = r"\b prefer (?: s | red | ence | ences | ably )? \b | \b favou?rites? \b
    | \b i \s (?: really \s | do \s )? (?: like | love | hate | dislike ) \b
    | \b i \s (?: do \s not | don't ) \s (?: like | want ) \b
    | \b i (?: 'd | \s would ) \s rather \b
    | \b please \s (?: always | never | do \s not | don't | avoid ) \b";
const HABIT: &str = r"\b (?: always | usually | typically | normally | routinely | never ) \b
    | \b (?: every | each ) \s (?: time | day | morning | evening | night | week | month ) \b
    | \b tend (?: s )? \s to \b | \b as \s a \s rule \b | \b whenever \b";
const LESSON: &str = r"\b lessons? \b | \b i (?: 've )? \s (?: learned | learnt ) \b | \b insight \b
    | \b (?: it \s )? turn (?: s | ed ) \s out \b | \b root \s cause \b
    | \b the \s (?: key | trick | reason | cause | problem | issue | bug | fix | solution ) \s (?: is | was ) \b
    | \b rule \s of \s thumb \b | \b best \s practice \b | \b takeaway \b
    | \b (?: remember | note ) \s (?: to | that ) \b";

struct Patterns {
    no: Regex,
    problem: Regex,
    kinds: [(&'static str, Regex); 4],
}

impl Patterns {
    fn get() -> &'static Self {
        static PATTERNS: OnceBox<Patterns> = OnceBox::new();
        PATTERNS.get_or_init(|| {
            let kinds = [("correction", CORRECTION), ("preference", PREFERENCE), ("habit", HABIT), (WISDOM, LESSON)];
            let kinds = kinds.map(|(kind, cues)| (kind, pattern(cues)));
            Box::new(Self { no: pattern(NO), problem: pattern(PROBLEM), kinds })
        })
    }

    fn says_no(&self, text: &str) -> bool {
        self.no.find_iter(text).any(|found| !self.problem.is_match(&text[found.end()..]))
    }
}

/// The kind of memory that a text is, by the first kind with a cue in it.
///
/// ```
/// use rehydrate_core::analysis::memory_kinds::memory_kind;
///
/// assert_eq!(memory_kind("No, the port is 8443.", false), "correction");
/// assert_eq!(memory_kind("The root cause is a stale lock.", true), "wisdom");
/// assert_eq!(memory_kind("The root cause is a stale lock.", false), "episode");
/// ```
#[must_use]
pub fn memory_kind(text: &str, is_assistant: bool) -> &'static str {
    let (patterns, plain) = (Patterns::get(), text.replace('\u{2019}', "'"));
    let plain = as_python_reads(&plain);
    if patterns.says_no(&plain) {
        return "correction";
    }
    let mut kinds = patterns.kinds.iter().filter(|(kind, _)| is_assistant || *kind != WISDOM);
    kinds.find(|(_, cues)| cues.is_match(&plain)).map_or(EPISODE, |(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use super::memory_kind;

    #[test]
    fn the_first_kind_with_a_cue_is_the_kind() {
        for (text, kind) in [
            ("ok. No problem, nope", "episode"),
            ("ok! \t no", "correction"),
            ("NOPE", "correction"),
            ("no  worries.\nwait", "correction"),
            ("you\u{2019}re wrong", "correction"),
            ("I prefer tabs, always", "preference"),
            ("We always test", "habit"),
            ("always\u{301} x", "habit"),
            ("né no", "episode"),
        ] {
            assert_eq!(memory_kind(text, true), kind, "{text}");
        }
    }
}
