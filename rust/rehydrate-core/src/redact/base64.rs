//! Base64: the text that a run of it encodes, if it is text.
use std::ops::Range;

use crate::interrupt::Pace;

/// Characters that distinguish a text from a picture: only one picture in 100,000 has this many printable bytes.
const SCREENED: usize = 16;
/// Fewest characters of a line but the last.
const LINE: usize = 24;

fn is_standard(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

/// Also the alphabet that is safe in addresses.
fn is_digit(byte: u8) -> bool {
    is_standard(byte) || matches!(byte, b'-' | b'_')
}

/// The runs of base64 in a text, from 24 characters on, over lines.
pub(super) fn runs(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let (mut read, mut pace) = (0, Pace::default());
    std::iter::from_fn(move || {
        loop {
            let start = read + bytes[read..].iter().position(|&byte| is_digit(byte))?;
            let first = line_end(bytes, start);
            let begin = start + bytes[start..first].iter().take_while(|&&byte| !is_standard(byte)).count();
            pace.step_by(first - read);
            read = first;
            if first - begin < LINE {
                continue;
            }
            while let Some((start, end)) = next_line(bytes, read) {
                if end - start < 2 {
                    break;
                }
                read = end;
                if end - start < LINE {
                    break;
                }
            }
            read += bytes[read..].iter().take(2).take_while(|&&byte| byte == b'=').count();
            return Some(begin..read);
        }
    })
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|&&byte| is_digit(byte)).count()
}

fn next_line(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let feed = at + usize::from(bytes.get(at) == Some(&b'\r'));
    (bytes.get(feed) == Some(&b'\n')).then(|| (feed + 1, line_end(bytes, feed + 1)))
}

/// The text that a run encodes, line by line; "" if it isn't text.
pub(super) fn decoded_text(run: &str) -> String {
    let mut text = String::new();
    if line_text(&run[..SCREENED]).is_some() {
        for line in run.split_ascii_whitespace() {
            let Some(decoded) = line_text(line) else { break };
            text.push_str(&decoded);
        }
    }
    text
}

/// The text of one line, if it is one.
fn line_text(line: &str) -> Option<String> {
    let bytes = decoded(line.trim_matches(['=', '-', '_']))?; // markdown's may be around it
    let text: String = bytes.utf8_chunks().map(|chunk| chunk.valid()).collect();
    (!text.is_empty() && !text.contains(is_control)).then_some(text)
}

fn is_control(char: char) -> bool {
    !matches!(char, '\t' | '\n' | '\r' | '\x1b' | ' '..='~' | '\u{a0}'..)
}

/// The six bits of a character of base64, in either alphabet.
pub(crate) fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

/// The bytes of base64 in either alphabet, without its padding. Left-over bits of the last character are dropped, and
/// so is a last character that says nothing.
fn decoded(digits: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for four in digits.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for &byte in four {
            bits = bits << 6 | u32::from(digit(byte)?);
        }
        bits <<= 6 * (4 - four.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    Some(bytes)
}

/// Whether it is base64 of `name:password`.
pub(super) fn is_name_and_password(value: &str) -> bool {
    let digits = value.trim_end_matches('=');
    digits.len() % 4 != 1
        && decoded(digits)
            .is_some_and(|bytes| bytes.contains(&b':') && bytes.iter().all(|byte| matches!(byte, b' '..=b'~')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_encodes_a_text_is_read() {
        assert_eq!(decoded_text("cGFzc3dvcmQ9aHVudGVyMiF4OQ=="), "password=hunter2!x9");
        assert_eq!(decoded_text("iVBORw0KGgoAAAANSUhEUgAA"), "");
        assert_eq!(decoded_text("cGFzc3dvcmQ9aHVudGVy\nMiF4OQ=="), "password=hunter2!x9");
        assert!(is_name_and_password("bWU6SHVudGVyMiF4OXp6") && !is_name_and_password("aHVudGVyMg=="));
    }

    #[test]
    fn runs_begin_after_what_is_none_and_go_on_over_lines() {
        let [long, short] = ["QUFB".repeat(6), "QUFB".repeat(5)];
        let found = |text: &str| runs(text).map(|run| text[run].to_owned()).collect::<Vec<_>>();
        assert_eq!(found(&format!("x {short} é{long}== y")), [format!("{long}==")]);
        assert_eq!(found(&format!("__{long}_")), [format!("{long}_")]);
        assert_eq!(found(&format!("{long}\r\n{long}\nQU=\n{long}")), [format!("{long}\r\n{long}\nQU="), long.clone()]);
        assert_eq!(found(&format!("{long}\nQ\n")), std::slice::from_ref(&long));
        assert_eq!(found(&format!("{long}==={long}")), [format!("{long}=="), long.clone()]);
    }
}
