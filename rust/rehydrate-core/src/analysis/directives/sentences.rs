//! Sentences and clauses of a user's prose, without a harness's text in it.
use std::ops::Range;

use crate::analysis::scripts;

/// Tags of texts that harnesses put into user turns in their own name, from the opening to the closing tag.
const HARNESS_TAGS: [&str; 5] =
    ["system-reminder", "task-notification", "local-command-caveat", "local-command-stdout", "command-name"];

/// Between clauses, as a word of its own.
pub(super) const CLAUSE: &str = "\n";

/// Properties of a sentence's letters.
pub(super) struct Letters {
    pub has_digit: bool,
    /// Two capitals side by side: it may stress a word.
    pub has_capitals: bool,
}

/// `sentence` as words between single spaces, lower-cased and folded, with a mark of its own at the start of each clause.
pub(super) fn in_clauses(sentence: &str, out: &mut String) -> Letters {
    out.clear();
    out.push(' ');
    out.push_str(CLAUSE);
    out.push(' ');
    let (mut has_digit, mut has_capitals, mut after_capital) = (false, false, false);
    let mut chars = sentence.chars().peekable();
    while let Some(char) = chars.next() {
        if char.is_ascii_alphanumeric() {
            // Nearly all of a text: no table is asked about it.
            out.push(char.to_ascii_lowercase());
            has_digit |= char.is_ascii_digit();
            has_capitals |= after_capital && char.is_ascii_uppercase();
            after_capital = char.is_ascii_uppercase();
            continue;
        }
        let is_word = !char.is_ascii() && (char.is_alphanumeric() || scripts::is_mark(char));
        if is_word {
            has_digit |= char.is_numeric();
            has_capitals |= after_capital && char.is_uppercase();
            after_capital = char.is_uppercase();
            out.extend(folded(char));
            continue;
        }
        after_capital = false;
        if matches!(char, '\'' | '’') && chars.peek().is_some_and(|next| next.is_alphabetic()) {
            out.push('\'');
        } else {
            if !out.ends_with(' ') {
                out.push(' ');
            }
            let is_joint = char.is_whitespace() || matches!(char, '-' | '_' | '/' | '.' | '*' | '`' | '\'' | '"');
            if !is_joint && !out.ends_with(" \n ") {
                out.push_str(CLAUSE);
                out.push(' ');
            }
        }
    }
    if !out.ends_with(' ') {
        out.push(' ');
    }
    Letters { has_digit, has_capitals }
}

pub(super) fn folded(char: char) -> impl Iterator<Item = char> {
    char.to_lowercase().filter_map(|char| scripts::fold(if char == '’' { '\'' } else { char }))
}

/// The sentences of `text`, and whether each asks something. The end of a line ends a sentence.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let Range { start, end } = next_end(rest);
            let (sentence, asks) = (&rest[..start], rest[start..end].contains(['?', '？', '؟']));
            rest = &rest[end..];
            if sentence.chars().any(char::is_alphabetic) {
                return Some((sentence, asks));
            }
        }
        None
    })
}

/// The end of the first sentence of `text`, its stop included.
fn next_end(text: &str) -> Range<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'\n' => Some(at + 1),
            b'.' | b'!' | b'?' if ends_here(&text[at + 1..]) => Some(at + 1),
            0x80.. => {
                let char = text[at..].chars().next().expect("at is a character's first byte");
                let after = at + char.len_utf8();
                let ends =
                    matches!(char, '。' | '！' | '？' | '؟' | '।' | '；') || (char == '…' && ends_here(&text[after..]));
                if !ends {
                    at = after;
                    continue;
                }
                Some(after)
            }
            _ => None,
        };
        if let Some(end) = end {
            return at..end;
        }
        at += 1;
    }
    text.len()..text.len()
}

/// Whether a stop ends a sentence, by the text after it. It does not within a name or a number.
fn ends_here(after: &str) -> bool {
    after.chars().next().is_none_or(|next| next.is_whitespace() || matches!(next, '"' | ')' | '?' | '!'))
}

/// `text` without a harness's text.
pub(super) fn outside_harness_tags(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let opened = memchr::memchr_iter(b'<', rest.as_bytes()).find_map(|at| {
            let tag = HARNESS_TAGS.iter().find(|tag| rest[at + 1..].starts_with(**tag))?;
            Some((at, tag))
        });
        let Some((at, tag)) = opened else { return Some(std::mem::take(&mut rest)) };
        let said = &rest[..at];
        let close = format!("</{tag}>");
        rest = rest[at..].find(&close).map_or("", |end| &rest[at + end + close.len()..]);
        Some(said)
    })
}
