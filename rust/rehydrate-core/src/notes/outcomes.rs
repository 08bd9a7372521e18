//! The outcome in a tool's result: the first line about an error, the exit code of a command.
use std::ops::Range;

use aho_corasick::AhoCorasick;
use memchr::{memchr, memrchr};
use once_cell::race::OnceBox;
use regex::Regex;

use super::sentences::{MAX_SENTENCE, trimmed};
use crate::analysis::python_re::{self, is_space};

/// A line says by one of these that it is about an error.
const CUES: [&str; 7] = ["Error", "Exception", "error", "fatal", "FAILED", "panicked", "Traceback"];
/// Characters before the cue.
const MAX_BEFORE: usize = 200;

/// The first line about an error, in bytes; None if it is longer than a sentence.
#[must_use]
pub fn first_error(text: &str) -> Option<Range<usize>> {
    static FINDER: OnceBox<AhoCorasick> = OnceBox::new();
    let finder = FINDER.get_or_init(|| Box::new(AhoCorasick::new(CUES).expect("a few words")));
    let mut seen = 0;
    for found in finder.find_iter(text) {
        if found.start() < seen {
            continue; // its line says nothing of an error
        }
        let start = memrchr(b'\n', &text.as_bytes()[..found.start()]).map_or(0, |end| end + 1);
        let end = line_end(text, start);
        if let Some(after) = cue_end(&text[start..], end - start) {
            return trimmed(text, start..line_end(text, start + after));
        }
        seen = end;
    }
    None
}

fn line_end(text: &str, at: usize) -> usize {
    memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |length| at + length)
}

/// The end of the last cue of a line, with what has to follow it, which may be the end of the line. The line has
/// `length` bytes.
fn cue_end(text: &str, length: usize) -> Option<usize> {
    let mut begins: Vec<usize> = text[..length].char_indices().map(|(at, _)| at).take(MAX_BEFORE + 1).collect();
    if begins.len() <= MAX_BEFORE {
        begins.push(length);
    }
    begins.into_iter().rev().find_map(|at| {
        let rest = &text[at..];
        let word = CUES.iter().find(|word| rest.starts_with(**word))?;
        let after = &rest[word.len()..];
        let next = after.chars().next();
        let space = next.filter(|&next| is_space(next.into())).map(char::len_utf8);
        let more = match *word {
            "Error" | "Exception" => space.or((next == Some(':')).then_some(1))?,
            "Traceback" if at == 0 => 0,
            "Traceback" => return None,
            _ if text[..at].chars().next_back().is_some_and(|before| python_re::is_word(before.into())) => return None,
            _ if matches!(next, Some(':' | '[')) => 1,
            _ => space.filter(|&space| after[space..].starts_with("at") || after[space..].starts_with('-'))?,
        };
        Some(at + word.len() + more)
    })
}

/// The code that a command's result says it exited with.
#[must_use]
pub fn exit_code(text: &str) -> Option<u32> {
    static EXIT: OnceBox<Regex> = OnceBox::new();
    let source = r"(?m:^)(?:process )?exit(?:ed with)?(?: code| status)?:? ([0-9]{1,3})(?:\z|(?-i:\W))";
    let exit = EXIT.get_or_init(|| Box::new(python_re::compiled(source, "")));
    let end = text.char_indices().nth(MAX_SENTENCE).map_or(text.len(), |(at, _)| at);
    exit.captures(&text[..end])?[1].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_about_an_error_is_found() {
        for (text, expected) in [
            ("ok\nValueError: no port\nmore", Some("ValueError: no port")),
            ("an error of mine\nsrc/x.rs error[E1] here", Some("src/x.rs error[E1] here")),
            ("a terror: b", None),
            ("ValueError\nno port\nx", Some("ValueError\nno port")),
            ("  Traceback", None),
            ("Traceback", Some("Traceback")),
            ("fatal - it", Some("fatal - it")),
            ("Error", None),
        ] {
            assert_eq!(first_error(text).map(|range| &text[range]), expected, "{text:?}");
        }
        assert_eq!(first_error(&format!("{}error: x", " ".repeat(201))), None);
        assert_eq!(first_error(&format!("error: {}", "x".repeat(400))), None);
    }

    #[test]
    fn an_exit_code_is_a_number_by_itself() {
        for (text, expected) in [
            ("Exit code: 2\nno such file", Some(2)),
            ("x\nprocess exited with code 137", Some(137)),
            ("EXİT 0", Some(0)),
            ("exit 1234", None),
            ("exit 1a", None),
            ("done", None),
        ] {
            assert_eq!(exit_code(text), expected, "{text:?}");
        }
    }
}
