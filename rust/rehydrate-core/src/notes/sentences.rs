//! Sentences of a plain text, by its stops and lines, and texts under a label in capitals.
//!
//! Places are in bytes. Limits are in characters.
use std::ops::Range;

use once_cell::race::OnceBox;
use regex::Regex;

use crate::analysis::python_re;

/// A longer one is not a sentence.
pub const MAX_SENTENCE: usize = 400;

/// The sentences of a text, without white space around them.
pub fn sentences(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    let mut ends = ends(text, 0..text.len());
    let mut is_over = false;
    std::iter::from_fn(move || {
        while !is_over {
            let end = ends.next().unwrap_or_else(|| {
                is_over = true;
                text.len()..text.len()
            });
            let sentence = trimmed(text, start..end.start);
            start = end.end;
            if sentence.is_some() {
                return sentence;
            }
        }
        None
    })
}

/// The sentences that a part of a text is in: a word before it may reverse its meaning.
///
/// If they are longer than a sentence may be, the result is longer too.
#[must_use]
pub fn whole_sentences(text: &str, part: Range<usize>) -> Range<usize> {
    let before = text[..part.start].char_indices().rev().nth(MAX_SENTENCE - 1);
    let after = text[part.end..].char_indices().nth(MAX_SENTENCE);
    let mut whole = before.map_or(0, |(at, _)| at)..after.map_or(text.len(), |(at, _)| part.end + at);
    for end in ends(text, whole.clone()) {
        if end.end <= part.start {
            whole.start = end.end;
        } else if end.start >= part.end {
            whole.end = end.start;
            break;
        }
    }
    stripped(text, whole)
}

/// Text that the user put under a label in capitals, to the end of the line.
#[must_use]
pub fn labelled(text: &str) -> Vec<Range<usize>> {
    static LABEL: OnceBox<Regex> = OnceBox::new();
    let label = LABEL.get_or_init(|| {
        let pattern = r"\A(?:[A-Z][A-Z'-]+ ){0,3}[A-Z][A-Z'-]{2,}: [^\n]";
        Box::new(Regex::new(pattern).expect("it is written correctly"))
    });
    let mut found = Vec::new();
    let mut start = 0;
    for line in text.split('\n') {
        let stops = line.match_indices(['.', '!', '?']).filter(|(at, _)| line[at + 1..].starts_with(' '));
        let begin = std::iter::once(0).chain(stops.map(|(at, _)| at + 2)).find(|&at| label.is_match(&line[at..]));
        found.extend(begin.and_then(|at| trimmed(text, start + at..start + line.len())));
        start += line.len() + 1;
    }
    found
}

/// The range without white space around it, if that leaves a sentence.
pub(super) fn trimmed(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let range = stripped(text, range);
    let is_sentence = !range.is_empty() && text[range.clone()].chars().nth(MAX_SENTENCE).is_none();
    is_sentence.then_some(range)
}

/// The range without white space around it; if that is all, nothing at its start.
fn stripped(text: &str, range: Range<usize>) -> Range<usize> {
    let part = text[range.clone()].trim_end_matches(is_space);
    let words = part.trim_start_matches(is_space);
    let start = range.start + part.len() - words.len();
    start..start + words.len()
}

fn is_space(char: char) -> bool {
    python_re::is_space(char.into())
}

/// The gaps between the sentences of a range: white space after a stop, nothing after a stop in a script without
/// spaces, line breaks. The last sentence has no gap after it.
fn ends(text: &str, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut at = range.start;
    let mut is_after_empty = false;
    let run = move |at: usize, is_so: fn(char) -> bool| {
        let part = &text[at..range.end];
        at..at + part.len() - part.trim_start_matches(is_so).len()
    };
    std::iter::from_fn(move || {
        loop {
            let before = text[..at].chars().next_back();
            if matches!(before, Some('。' | '！' | '？')) && !is_after_empty {
                is_after_empty = true;
                return Some(at..at);
            }
            is_after_empty = false;
            let found = match before {
                Some('.' | '!' | '?' | '؟') => run(at, is_space),
                _ => run(at, |char| char == '\n'),
            };
            at = found.end;
            if !found.is_empty() {
                return Some(found);
            }
            at += text[at..range.end].chars().next()?.len_utf8();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<&str> {
        sentences(text).map(|range| &text[range]).collect()
    }

    #[test]
    fn sentences_end_at_stops_and_lines() {
        for (text, expected) in [
            ("", &[] as &[&str]),
            ("It is slow. We use 3.5 now!\n\nWhy?\x1cSo", &["It is slow.", "We use 3.5 now!", "Why?", "So"]),
            ("早い。\n遅い！次", &["早い。", "遅い！", "次"]),
            (" a\r\n b ", &["a", "b"]),
        ] {
            assert_eq!(said(text), expected, "{text:?}");
        }
        assert_eq!(said(&"x".repeat(401)), [""; 0]);
    }

    #[test]
    fn a_part_is_in_whole_sentences() {
        let text = "Hi. Never push to main. Bye.";
        assert_eq!(&text[whole_sentences(text, 10..14)], "Never push to main.");
        assert_eq!(&text[whole_sentences(text, 1..5)], "Hi. Never push to main.");
        assert_eq!(whole_sentences(&"é".repeat(1_000), 1_000..1_002), 200..1_802);
    }

    #[test]
    fn labels_are_in_capitals_at_the_start_of_a_sentence() {
        let text = "Hello. GOAL: ship it. Friday.\nA: no\nTHE LAST ONE: yes \nLABEL:\n";
        let found: Vec<&str> = labelled(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["GOAL: ship it. Friday.", "THE LAST ONE: yes"]);
    }
}
