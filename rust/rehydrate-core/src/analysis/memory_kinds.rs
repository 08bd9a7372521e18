//! The kind of memory that a text is, by the first kind with a cue in it.
use super::python_re::{Pattern, is_space};

/// The kind of a text without a cue.
pub const EPISODE: &str = "episode";
/// A kind that only the assistant's words can be.
const WISDOM: &str = "wisdom";

/// A correction that begins a text, a sentence or a line.
static NO: Pattern = Pattern::new("^(?:no|nope|wait|actually)»", "");
/// A "no" that corrects nothing.
static NO_PROBLEM: Pattern = Pattern::new(r"^(?:no|nope|wait|actually)\s+(?:problem|worries)", "");

/// The kinds, the first of which counts.
static KINDS: [(&str, Pattern); 4] = [
    (
        "correction",
        Pattern::new(
            concat!(
                r"«(?:correction|i\smeant|not\swhat\si|that(?:'s|\sis|\swas)\s(?:not|wrong|incorrect)",
                r"|you(?:'re|\sare|\swere)\s(?:wrong|mistaken)|should(?:n't|\snot)\shave|(?:my|a)\smistake)»",
            ),
            "",
        ),
    ),
    (
        "preference",
        Pattern::new(
            concat!(
                r"«(?:prefer(?:s|red|ence|ences|ably)?|favou?rites?|i\s(?:really\s|do\s)?(?:like|love|hate|dislike)",
                r"|i\s(?:do\snot|don't)\s(?:like|want)|i(?:'d|\swould)\srather",
                r"|please\s(?:always|never|do\snot|don't|avoid))»",
            ),
            "",
        ),
    ),
    (
        "habit",
        Pattern::new(
            concat!(
                r"«(?:always|usually|typically|normally|routinely|never",
                r"|(?:every|each)\s(?:time|day|morning|evening|night|week|month)|tends?\sto|as\sa\srule|whenever)»",
            ),
            "",
        ),
    ),
    (
        WISDOM,
        Pattern::new(
            concat!(
                r"«(?:lessons?|i(?:'ve)?\s(?:learned|learnt)|insight|(?:it\s)?turn(?:s|ed)\sout|root\scause",
                r"|the\s(?:key|trick|reason|cause|problem|issue|bug|fix|solution)\s(?:is|was)",
                r"|rule\sof\sthumb|best\spractice|takeaway|(?:remember|note)\s(?:to|that))»",
            ),
            "",
        ),
    ),
];

fn says_no(text: &str) -> bool {
    let begins = text.match_indices(['.', '!', '?', '\n']).map(|(at, _)| {
        let rest = &text[at + 1..];
        rest.trim_start_matches(|c| c != '\n' && is_space(u32::from(c)))
    });
    std::iter::once(text).chain(begins).any(|said| NO.is_match(said) && !NO_PROBLEM.is_match(said))
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
    let plain = text.replace('\u{2019}', "'");
    if says_no(&plain) {
        return "correction";
    }
    let mut kinds = KINDS.iter().filter(|(kind, _)| is_assistant || *kind != WISDOM);
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
