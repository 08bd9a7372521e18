//! Texts without their secrets, and the names inside secrets: an outline lists neither.
use rustc_hash::FxHashSet;

use crate::analysis::python_re::is_word;
use crate::redact::{Secret, kinds};

const LABEL: &str = "[redacted:";

/// A text without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaned {
    pub text: String,
    /// Possible names that are now nowhere in the text.
    pub lost: Vec<String>,
}

/// Put labels in place of these secrets of a text.
#[must_use]
pub fn labelled(text: &str, secrets: &[Secret]) -> String {
    let names: Vec<&str> = kinds().collect();
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut read) = (text, 0);
    for secret in secrets {
        let (kept, after) = split_at_chars(rest, secret.start.saturating_sub(read));
        let (_, after) = split_at_chars(after, secret.end - secret.start);
        out.push_str(kept);
        out.push_str(LABEL);
        out.push_str(names.get(secret.kind).unwrap_or(&"secret"));
        out.push(']');
        (rest, read) = (after, secret.end);
    }
    out + rest
}

/// Compare a text with the same one with labels for secrets; the labels go.
#[must_use]
pub fn cleaned(before: &str, after: &str) -> Cleaned {
    let text = without_labels(after);
    let left: FxHashSet<&str> = possible_names(&text).collect();
    let mut seen = FxHashSet::default();
    let lost = possible_names(before).filter(|name| !left.contains(name) && seen.insert(*name));
    let lost = lost.map(str::to_owned).collect();
    Cleaned { text, lost }
}

fn split_at_chars(text: &str, chars: usize) -> (&str, &str) {
    text.split_at(text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at))
}

/// The text with a blank in place of each label, also of those that it had before.
#[must_use]
pub fn without_labels(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(LABEL) {
        let name = &rest[at + LABEL.len()..];
        let end = name.find(|c| !is_word(u32::from(c))).unwrap_or(name.len());
        if end > 0 && name[end..].starts_with(']') {
            out.push_str(&rest[..at]);
            out.push(' ');
            rest = &name[end + 1..];
        } else {
            out.push_str(&rest[..at + LABEL.len()]);
            rest = name;
        }
    }
    out + rest
}

/// The runs of characters of which a name may be.
fn possible_names(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |c: char| !is_word(u32::from(c)) && !matches!(c, '.' | '/' | '@' | '~' | '-');
    text.split(is_between).filter(|name| !name.is_empty())
}

/// The heading of the names in a tool's inputs: the tool's name without characters with a meaning in a line, of at most
/// 64 characters.
#[must_use]
pub fn heading_of(tool: &str) -> String {
    tool.chars().filter(|&c| is_word(u32::from(c)) || matches!(c, '.' | '-')).take(64).collect()
}

/// Whether a name is that of an error, as in `ValueError`.
#[must_use]
pub fn is_error(name: &str) -> bool {
    let stem = ["Error", "Exception", "Failure"].iter().find_map(|end| name.strip_suffix(end));
    stem.and_then(|stem| stem.chars().next_back()).is_some_and(|c| is_word(u32::from(c)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::secrets;

    #[test]
    fn names_inside_secrets_are_lost_and_others_stay() {
        let text = "é db.example, password=hunter_22 [redacted:old] and db.example";
        let after = labelled(text, &secrets(text, &[]));
        assert_eq!(after, "é db.example, password=[redacted:password] [redacted:old] and db.example");
        let Cleaned { text, lost } = cleaned(text, &after);
        assert_eq!(text, "é db.example, password=    and db.example");
        assert_eq!(lost, ["hunter_22", "redacted", "old"]);
    }

    #[test]
    fn only_whole_labels_go() {
        for (text, shown) in
            [("[redacted:a] b", "  b"), ("[redacted:] [redacted:[redacted:é_1]", "[redacted:] [redacted: ")]
        {
            assert_eq!(without_labels(text), shown);
        }
    }

    #[test]
    fn tools_and_errors_are_known_by_their_names() {
        assert_eq!(heading_of("mcp: fs.read-é_1\u{301}"), "mcpfs.read-é_1");
        assert_eq!(heading_of(&"x".repeat(70)).len(), 64);
        let found: Vec<bool> = ["ValueError", "Error", ".Error", "Failures", "_Failure"].map(is_error).to_vec();
        assert_eq!(found, [true, false, false, false, true]);
    }
}
