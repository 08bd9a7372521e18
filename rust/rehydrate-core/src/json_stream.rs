//! A stream of bytes split into JSON values, in any layout and with reads that end anywhere.
//!
//! Values may be pretty-printed, concatenated, one per line or several per line, with or without `Content-Length`
//! headers. A value ends at its own closing bracket, so nothing else is needed to find the next one. Only the value
//! being read is held in memory.
//!
//! Input that is not JSON is reported once and skipped. A truncated request is detected early, by a bracket that cannot be there
//! or a line end inside a string. Reading goes on at the next line that begins a value and is indented no deeper than the broken
//! one. Whole requests inside the broken one are found again, line by line. Every byte is read at most a fixed number of times.
use std::collections::VecDeque;

use memchr::{memchr, memmem, memrchr};

const BOM: &[u8] = b"\xef\xbb\xbf";
const HEADERS: [&[u8]; 2] = [b"content-length:", b"content-type:"];
const CUT_OFF: &str = "a string is cut off or holds a control character";
const ENDED: &str = "it ends before its brackets do";

/// A part of the stream, in its order. The reader of values decides whether it is JSON.
#[derive(Debug, PartialEq)]
pub enum Found {
    /// Between brackets, or a string.
    Value(Vec<u8>),
    /// A number, a literal, or rubbish: if it isn't JSON, call [`Splitter::skip_line`].
    Word(Vec<u8>),
    /// A line inside a broken value, which may be a whole request.
    Line(Vec<u8>),
    /// Why the skipped text isn't JSON.
    Broken(String),
}

/// Takes bytes in pieces of any size. Gives values as soon as they are complete.
pub struct Splitter {
    max: usize,
    buffer: Vec<u8>,
    /// The beginning of the unread part of the buffer.
    head: usize,
    /// The place up to which the present value is read, from the head.
    at: usize,
    /// The brackets that are open; empty between values.
    open: Vec<u8>,
    in_string: bool,
    /// The last byte that was not blank. It decides whether a value can begin here.
    last: u8,
    /// Indentation of the line on which the present value began.
    indent: usize,
    /// Whether the head is where a line begins.
    line_start: bool,
    skipping: bool,
    has_headers: bool,
    found: VecDeque<Found>,
}

impl Splitter {
    /// Refuses values of more than this many bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            buffer: Vec::new(),
            head: 0,
            at: 0,
            open: Vec::new(),
            in_string: false,
            last: 0,
            indent: 0,
            line_start: true,
            skipping: false,
            has_headers: false,
            found: VecDeque::new(),
        }
    }

    /// Whether the sender puts `Content-Length` headers before its values.
    #[must_use]
    pub fn has_headers(&self) -> bool {
        self.has_headers
    }

    /// Takes more of the stream.
    pub fn feed(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// The next complete part. At the end of the stream, also the rest of it.
    pub fn next(&mut self, ended: bool) -> Option<Found> {
        while self.found.is_empty() && self.step(ended) {}
        if self.found.is_empty() {
            if ended && self.is_inside() {
                self.found.push_back(Found::Broken(ENDED.to_owned()));
                self.swallowed(self.rest().len());
                self.open.clear();
                self.in_string = false;
                self.head = self.buffer.len();
            }
            self.buffer.drain(..self.head);
            self.head = 0;
        }
        self.found.pop_front()
    }

    /// Skips the rest of a line whose word wasn't JSON.
    pub fn skip_line(&mut self) {
        self.skipping = true;
        // No value has begun, so its indentation says nothing: any next line will do.
        self.indent = self.max;
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.head..]
    }

    fn is_inside(&self) -> bool {
        self.in_string || !self.open.is_empty()
    }

    /// Reads on; whether it got anywhere.
    fn step(&mut self, ended: bool) -> bool {
        if self.skipping {
            self.skip()
        } else if self.is_inside() {
            self.inside()
        } else {
            self.between(ended)
        }
    }

    /// Skips the rest of a broken value; the head is somewhere inside it.
    fn skip(&mut self) -> bool {
        let rest = self.rest();
        let mut position = 0;
        while let Some(found) = memchr(b'\n', &rest[position..]) {
            let line = position + found + 1;
            let indent = rest[line..].iter().take_while(|byte| b" \t\r".contains(byte)).count();
            position = line + indent;
            if matches!(rest.get(position), Some(b'{' | b'[')) && indent <= self.indent {
                self.head += line;
                (self.skipping, self.line_start, self.at) = (false, true, 0);
                return true;
            }
        }
        // A line that is blank so far may still turn out to begin a value.
        let line = memrchr(b'\n', rest).filter(|&line| rest.len() - line <= self.max);
        let line = line.filter(|&line| rest[line..].iter().all(is_blank));
        self.head += line.unwrap_or(rest.len());
        false
    }

    /// Reads blanks, headers and single words, up to the bracket or quote that begins a value.
    fn between(&mut self, ended: bool) -> bool {
        let rest = self.rest();
        let start = rest.iter().take_while(|byte| is_blank(byte)).count();
        let line = memrchr(b'\n', &rest[..start]).map(|line| line + 1);
        let (length, first) = (rest.len(), rest.get(start).copied());
        let has_bom = rest[start..].starts_with(BOM);
        if line.is_some() || self.line_start {
            self.indent = start - line.unwrap_or(0);
        }
        let Some(first) = first else {
            if let Some(line) = line {
                self.head += line; // only the indentation of the next line is kept
                self.line_start = true;
            } else if start > self.max {
                self.head += length;
            }
            return false;
        };
        if has_bom {
            self.buffer.copy_within(self.head..self.head + start, self.head + BOM.len());
            self.head += BOM.len();
            return true;
        }
        self.line_start = false;
        if !begins_value(first) {
            return self.read_word(start, ended);
        }
        self.head += start;
        (self.at, self.last) = (1, first);
        if first == b'"' {
            self.in_string = true;
        } else {
            self.open.push(first);
        }
        true
    }

    /// Reads a number, a literal, the name of a header, or rubbish.
    fn read_word(&mut self, start: usize, ended: bool) -> bool {
        let rest = &self.buffer[self.head..];
        let length = rest.len();
        let bytes = rest[start..].iter().take(self.max.saturating_add(1));
        let end = start + bytes.take_while(|byte| !is_blank(byte) && !begins_value(**byte)).count();
        let word = &rest[start..end];
        let is_too_large = word.len() > self.max;
        if end == length && !(ended || is_too_large) {
            return false;
        }
        if HEADERS.iter().any(|name| word.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name))) {
            let Some(line) = memchr(b'\n', &rest[end..]) else {
                self.buffer.truncate(self.head + end); // the header's value is not needed
                return false;
            };
            (self.has_headers, self.line_start) = (true, true);
            self.head += end + line + 1;
            return true;
        }
        if is_too_large {
            let reason = self.too_large();
            self.found.push_back(Found::Broken(reason));
            self.skip_line();
        } else {
            self.found.push_back(Found::Word(word.to_vec()));
        }
        self.head += end;
        true
    }

    /// Reads from bracket to bracket, until the value is complete or broken.
    fn inside(&mut self) -> bool {
        let buffer = &self.buffer[self.head..];
        let length = buffer.len();
        let text = &buffer[..length.min(self.max)];
        while self.at < text.len() {
            let mut problem = None;
            if self.in_string {
                self.at = string_end(text, self.at);
                if self.at == text.len() || (self.at == text.len() - 1 && text[self.at] == b'\\') {
                    break;
                }
                self.in_string = false;
                if text[self.at] != b'"' {
                    problem = Some(CUT_OFF.to_owned());
                }
            } else {
                let start = self.at;
                self.at = run_end(text, start);
                if let Some(&byte) = text[start..self.at].iter().rev().find(|byte| !is_blank(byte)) {
                    self.last = byte;
                }
                let Some(&byte) = text.get(self.at) else { break };
                match byte {
                    b'"' => self.in_string = true,
                    b'}' | b']' => {
                        let opening = if byte == b'}' { b'{' } else { b'[' };
                        if self.open.pop() != Some(opening) {
                            problem = Some(format!("a {} closes another bracket", char::from(byte)));
                        }
                    }
                    _ => {
                        let before: &[u8] = if self.open.last() == Some(&b'{') { b":" } else { b"[," };
                        if before.contains(&self.last) {
                            self.open.push(byte);
                        } else {
                            problem = Some(format!("a {} is where no value can begin", char::from(byte)));
                        }
                    }
                }
            }
            if let Some(problem) = problem {
                self.fail(&problem, self.at);
                return true;
            }
            self.last = text[self.at];
            self.at += 1;
            if !self.in_string && self.open.is_empty() {
                self.found.push_back(Found::Value(text[..self.at].to_vec()));
                self.head += self.at;
                return true;
            }
        }
        if length > self.max {
            let reason = self.too_large();
            self.fail(&reason, self.max);
            return true;
        }
        false
    }

    fn too_large(&self) -> String {
        format!("it has more than {} bytes; send a smaller one", self.max)
    }

    /// Reports a broken value, and finds the requests in it up to the byte of the error.
    fn fail(&mut self, reason: &str, position: usize) {
        self.found.push_back(Found::Broken(format!("{reason}, at byte {position} of it")));
        let resume = memrchr(b'\n', &self.rest()[..=position]).unwrap_or(position);
        self.swallowed(resume);
        self.head += resume;
        self.open.clear();
        (self.in_string, self.skipping) = (false, true);
    }

    /// Gives the lines up to here, but the first, that may be requests.
    fn swallowed(&mut self, end: usize) {
        let lines = self.buffer[self.head..self.head + end].split(|byte| b"\r\n".contains(byte)).skip(1);
        let requests = lines.filter(|line| memmem::find(line, b"\"jsonrpc\"").is_some());
        self.found.extend(requests.map(|line| Found::Line(line.to_vec())));
    }
}

fn is_blank(byte: &u8) -> bool {
    b" \t\r\n".contains(byte)
}

fn begins_value(byte: u8) -> bool {
    b"{[\"".contains(&byte)
}

/// The end of the inside of a string: at its quote, at a byte that it cannot have, or at a backslash that nothing
/// follows.
fn string_end(text: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        at += match byte {
            b'\\' if text.get(at + 1).is_some_and(|after| *after > 0x1f) => 2,
            b'\\' | b'"' | 0..=0x1f => return at,
            _ => 1,
        };
    }
    at
}

/// The next bracket, or the quote of a string that does not end within the text.
fn run_end(text: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        match byte {
            b'{' | b'}' | b'[' | b']' => return at,
            b'"' => {
                let end = string_end(text, at + 1);
                if text.get(end) != Some(&b'"') {
                    return at;
                }
                at = end + 1;
            }
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pieces: &[&[u8]]) -> Vec<Found> {
        let mut splitter = Splitter::new(1 << 20);
        let mut every = Vec::new();
        for piece in pieces {
            splitter.feed(piece);
            every.extend(std::iter::from_fn(|| splitter.next(false)));
        }
        every.extend(std::iter::from_fn(|| splitter.next(true)));
        every
    }

    fn value(text: &[u8]) -> Found {
        Found::Value(text.to_vec())
    }

    #[test]
    fn values_end_where_their_brackets_do() {
        let whole = b"{\"a\": [1, \"}\"]}[2]\n \"x\" true".as_slice();
        let expected = [value(b"{\"a\": [1, \"}\"]}"), value(b"[2]"), value(b"\"x\""), Found::Word(b"true".to_vec())];
        assert_eq!(found(&[whole]), expected);
        assert_eq!(found(&whole.chunks(1).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn a_broken_value_is_reported_once_and_the_requests_in_it_are_found() {
        let stream = b"{\"a\":\n{\"jsonrpc\": 1}\n{\"b\": 2}]\n[3]".as_slice();
        let reason = "a { is where no value can begin, at byte 21 of it".to_owned();
        let lines = [Found::Broken(reason), Found::Line(b"{\"jsonrpc\": 1}".to_vec())];
        assert_eq!(found(&[stream])[..2], lines);
        assert_eq!(found(&[stream]).last(), Some(&value(b"[3]")));
        assert_eq!(found(&[b"[1"]), [Found::Broken(ENDED.to_owned())]);
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        for endless in [b" ".as_slice(), b"x", b"[", b"\"", b"Content-Length:", b"oops\n "] {
            let mut splitter = Splitter::new(1_000);
            for _ in 0..500 {
                splitter.feed(&endless.repeat(20));
                while let Some(found) = splitter.next(false) {
                    if matches!(found, Found::Word(_)) {
                        splitter.skip_line();
                    }
                }
                assert!(splitter.buffer.len() + splitter.open.len() < 4_000, "{endless:?}");
            }
        }
    }
}
