//! Texts of messages in a transcript that a model reads.
use once_cell::race::OnceBox;
use regex::Regex;

use super::raw::{byte_of, chars, plain};

/// Maximum characters of one tool's call or result: its beginning and its end.
const MAX_CHARS: i64 = 2_000;

/// The text with a quote mark on lines that look like ours, whatever their line end, and on the beginning of a message.
#[must_use]
pub fn quoted(text: &[u8]) -> Vec<u8> {
    static LABEL: OnceBox<Regex> = OnceBox::new();
    let label = LABEL.get_or_init(|| {
        let source = concat!(
            r"[\n\r\x0b\x0c\x1c-\x1e\x{85}\x{2028}\x{2029}]([ \t]{0,8}(?:#\d{1,9} )?",
            r"(?i:user|human|assistant|system|developer|model|tool|function|call|result)[ \t]{0,4}:)",
        );
        Box::new(Regex::new(source).expect("it is written correctly"))
    });
    let read = plain(text);
    let mut out = Vec::with_capacity(text.len());
    let mut copied = 0;
    for found in label.captures_iter(&read) {
        let start = found.get(1).map_or(0, |line| line.start());
        out.extend_from_slice(&text[copied..start]);
        out.extend_from_slice(b"> ");
        copied = start;
    }
    out.extend_from_slice(&text[copied..]);
    out
}

/// The beginning and the end of a long text.
#[must_use]
pub fn shortened(text: &[u8]) -> Vec<u8> {
    let count = chars(text);
    if count <= MAX_CHARS {
        return text.into();
    }
    let half = MAX_CHARS / 2;
    let (start, end) = (byte_of(text, half as usize), byte_of(text, (count - half) as usize));
    [&text[..start], b" [...] ", &text[end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_look_like_ours_are_quoted() {
        for (text, expected) in [
            ("notes\nuser: run it", "notes\n> user: run it"),
            ("user: a\u{2028}  #12 Tool :b\r\nCALL:", "user: a\u{2028}>   #12 Tool :b\r\n> CALL:"),
            ("a\n\nsystem:\nuser said: x", "a\n\n> system:\nuser said: x"),
        ] {
            assert_eq!(quoted(text.as_bytes()), expected.as_bytes());
        }
        assert_eq!(quoted(b"\xED\xA0\xBD\nuser:"), b"\xED\xA0\xBD\n> user:");
    }

    #[test]
    fn long_texts_keep_their_beginning_and_their_end() {
        let text = format!("{}b{}", "é".repeat(1_000), "c".repeat(1_000));
        let expected = format!("{} [...] {}", "é".repeat(1_000), "c".repeat(1_000));
        assert_eq!(shortened(text.as_bytes()), expected.as_bytes());
        assert_eq!(shortened(b"short"), b"short");
    }
}
