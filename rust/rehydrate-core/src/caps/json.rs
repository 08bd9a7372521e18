//! JSON read with the position of each value, so that values can be cut out letter for letter.
//!
//! It takes what Python's `json` takes: also `NaN`, `Infinity`, and halves of surrogate pairs in escapes.
use super::code_points::{is, is_in, lossy, run, starts_with, trim};
use crate::interrupt::checkpoint;

/// Values nested deeper than this are not read as JSON.
const MAX_DEPTH: usize = 960;

/// Not JSON, or nested too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotJson;

pub(super) type Result<T> = std::result::Result<T, NotJson>;

/// An element of an array or a member of an object, with the span of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Empty in an array.
    pub key: Vec<u32>,
    /// The beginning of the white space before it.
    pub lead: usize,
    pub start: usize,
    pub end: usize,
}

/// Whether the text starts and ends like an array or an object.
pub(super) fn looks_like_json(text: &[u32]) -> bool {
    let start = run(text, |point| is_in(point, " \t\n\r\u{FEFF}"));
    let Some(&opening) = text.get(start) else { return false };
    let next = text.get(skip(text, start + 1)).copied().unwrap_or_default();
    let (inside, closing) = match opening {
        0x5B => ("\"{[]-0123456789tfn", b']'),
        0x7B => ("\"}", b'}'),
        _ => return false,
    };
    let end = &text[text.len().saturating_sub(4_096)..];
    is_in(next, inside) && trim(end).last().is_some_and(|&last| is(last, closing))
}

/// Whether the whole text is one array or object.
pub(super) fn is_json(text: &[u32]) -> bool {
    looks_like_json(text) && {
        let start = first_value(text);
        is_in(text[start], "[{") && value_end(text, start).is_ok_and(|end| skip(text, end) == text.len())
    }
}

/// The beginning of a text's value, after a byte order mark.
pub(super) fn first_value(text: &[u32]) -> usize {
    skip(text, usize::from(text.first() == Some(&0xFEFF)))
}

/// The index of the next code point that is not white space.
pub(super) fn skip(text: &[u32], at: usize) -> usize {
    let at = at.min(text.len());
    at + run(&text[at..], |point| is_in(point, " \t\n\r"))
}

fn has(text: &[u32], at: usize, char: u8) -> bool {
    text.get(at).is_some_and(|&point| is(point, char))
}

/// The members of the array or object that starts at `start`, in their order.
///
/// # Errors
/// [`NotJson`] if none starts there, and if its values are nested too deeply.
pub fn json_members(text: &[u32], start: usize) -> Result<Vec<Member>> {
    let &opening = text.get(start).ok_or(NotJson)?;
    if is_in(opening, "[{") { members(text, start).collect() } else { Err(NotJson) }
}

/// The same, one by one.
pub(super) fn members(text: &[u32], start: usize) -> Members<'_> {
    let is_object = is(text[start], b'{');
    let at = skip(text, start + 1);
    let is_done = has(text, at, if is_object { b'}' } else { b']' });
    Members { text, lead: start + 1, at, is_object, is_done, pace: Pace(at) }
}

pub(super) struct Members<'a> {
    text: &'a [u32],
    lead: usize,
    at: usize,
    is_object: bool,
    is_done: bool,
    pace: Pace,
}

impl Iterator for Members<'_> {
    type Item = Result<Member>;

    fn next(&mut self) -> Option<Result<Member>> {
        if self.is_done {
            return None;
        }
        self.pace.reach(self.at);
        let member = self.read();
        self.is_done |= member.is_err();
        Some(member)
    }
}

impl Members<'_> {
    fn read(&mut self) -> Result<Member> {
        let text = self.text;
        let mut key = Vec::new();
        let start = if self.is_object {
            let end = string_end(text, self.at)?;
            key = string(&text[self.at..end]);
            after_colon(text, end)?
        } else {
            self.at
        };
        let end = value_end(text, start)?;
        let lead = self.lead;
        self.at = skip(text, end);
        if has(text, self.at, b',') {
            self.lead = self.at + 1;
            self.at = skip(text, self.lead);
        } else if has(text, self.at, if self.is_object { b'}' } else { b']' }) {
            self.is_done = true;
        } else {
            return Err(NotJson);
        }
        Ok(Member { key, lead, start, end })
    }
}

/// How far a text was read when it was last asked whether to stop.
struct Pace(usize);

impl Pace {
    fn reach(&mut self, at: usize) {
        if at > self.0 + (1 << 18) {
            checkpoint();
            self.0 = at;
        }
    }
}

/// The end of the value that starts here.
pub(super) fn value_end(text: &[u32], mut at: usize) -> Result<usize> {
    let mut pace = Pace(at);
    let mut open: Vec<u8> = Vec::new();
    loop {
        pace.reach(at);
        match text.get(at) {
            Some(&opening @ (0x5B | 0x7B)) => {
                let closing = if opening == 0x5B { b']' } else { b'}' };
                if open.len() == MAX_DEPTH {
                    return Err(NotJson);
                }
                open.push(closing);
                at = skip(text, at + 1);
                if !has(text, at, closing) {
                    at = if closing == b'}' { after_key(text, at)? } else { at };
                    continue;
                }
            }
            Some(0x22) => at = string_end(text, at)?,
            _ => at = scalar_end(text, at)?,
        }
        loop {
            let Some(&closing) = open.last() else { return Ok(at) };
            at = skip(text, at);
            if has(text, at, closing) {
                open.pop();
                at += 1;
            } else if has(text, at, b',') {
                at = skip(text, at + 1);
                at = if closing == b'}' { after_key(text, at)? } else { at };
                break;
            } else {
                return Err(NotJson);
            }
        }
    }
}

fn after_key(text: &[u32], at: usize) -> Result<usize> {
    after_colon(text, string_end(text, at)?)
}

fn after_colon(text: &[u32], at: usize) -> Result<usize> {
    let at = skip(text, at);
    if has(text, at, b':') { Ok(skip(text, at + 1)) } else { Err(NotJson) }
}

fn string_end(text: &[u32], at: usize) -> Result<usize> {
    if !has(text, at, b'"') {
        return Err(NotJson);
    }
    let mut at = at + 1;
    loop {
        match *text.get(at).ok_or(NotJson)? {
            0x22 => return Ok(at + 1),
            0x5C => at += escape(&text[at..]).ok_or(NotJson)?,
            0..0x20 => return Err(NotJson),
            _ => at += 1,
        }
    }
}

/// The length of the escape that the text begins with.
fn escape(text: &[u32]) -> Option<usize> {
    let &letter = text.get(1)?;
    if is(letter, b'u') {
        return unit(text).map(|_| 6);
    }
    is_in(letter, "\"\\/bfnrt").then_some(2)
}

/// The number in a `\u` escape that the text begins with.
pub(super) fn unit(text: &[u32]) -> Option<u32> {
    if !starts_with(text, "\\u") {
        return None;
    }
    let digits = text.get(2..6)?.iter().map(|&point| char::from_u32(point).and_then(|digit| digit.to_digit(16)));
    digits.into_iter().try_fold(0, |number, digit| Some(number * 16 + digit?))
}

/// The value of a string, from its source with the quotes.
pub(super) fn string(source: &[u32]) -> Vec<u32> {
    let mut rest = &source[1..source.len() - 1];
    let mut out = Vec::with_capacity(rest.len());
    while let Some(&point) = rest.first() {
        if !is(point, b'\\') {
            out.push(point);
            rest = &rest[1..];
        } else if let Some(high) = unit(rest) {
            rest = &rest[6..];
            match unit(rest) {
                Some(low) if (0xD800..0xDC00).contains(&high) && (0xDC00..0xE000).contains(&low) => {
                    out.push(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
                    rest = &rest[6..];
                }
                _ => out.push(high),
            }
        } else {
            let letter = char::from_u32(rest[1]).unwrap_or_default();
            out.push(match letter {
                'b' => 0x08,
                'f' => 0x0C,
                'n' => 0x0A,
                'r' => 0x0D,
                't' => 0x09,
                same => u32::from(same),
            });
            rest = &rest[2..];
        }
    }
    out
}

/// The end of a number or a literal.
fn scalar_end(text: &[u32], start: usize) -> Result<usize> {
    let rest = text.get(start..).unwrap_or_default();
    for literal in ["null", "true", "false", "NaN", "Infinity", "-Infinity"] {
        if starts_with(rest, literal) {
            return Ok(start + literal.len());
        }
    }
    let digits = |at: usize| run(rest.get(at..).unwrap_or_default(), |point| (0x30..0x3A).contains(&point));
    let mut at = usize::from(has(rest, 0, b'-'));
    at += match digits(at) {
        0 => return Err(NotJson),
        _ if has(rest, at, b'0') => 1,
        count => count,
    };
    if has(rest, at, b'.') && digits(at + 1) > 0 {
        at += 1 + digits(at + 1);
    }
    if has(rest, at, b'e') || has(rest, at, b'E') {
        let exponent = at + 1 + usize::from(has(rest, at + 1, b'+') || has(rest, at + 1, b'-'));
        if digits(exponent) > 0 {
            at = exponent + digits(exponent);
        }
    }
    Ok(start + at)
}

/// The value in a row as a filter would name it. None for a value with others inside.
pub(super) fn scalar_text(source: &[u32]) -> Option<Vec<u32>> {
    match source.first()? {
        0x5B | 0x7B => None,
        0x22 => Some(string(source)),
        _ => Some(source.to_vec()),
    }
}

/// The strings in the value of a text. Strings that follow each other in an array are one, a line each.
///
/// # Errors
/// [`NotJson`] where the text is anything but one value.
pub(crate) fn strings_in(text: &[u32]) -> Result<Vec<Vec<u32>>> {
    let (start, end) = only_value(text)?;
    let mut found = Vec::new();
    add_strings(text, start, end, &mut found)?;
    Ok(found)
}

fn add_strings(text: &[u32], start: usize, end: usize, found: &mut Vec<Vec<u32>>) -> Result<()> {
    if has(text, start, b'"') {
        found.push(string(&text[start..end]));
    } else if is_in(text[start], "[{") {
        let inside = json_members(text, start)?;
        let is_string = |member: &Member| has(text, member.start, b'"');
        if has(text, start, b'[') && !inside.is_empty() && inside.iter().all(is_string) {
            let lines: Vec<_> = inside.iter().map(|member| string(&text[member.start..member.end])).collect();
            found.push(lines.join(&u32::from('\n')));
        } else {
            for member in inside {
                add_strings(text, member.start, member.end, found)?;
            }
        }
    }
    Ok(())
}

/// The first of these members of the object in a text: what a string says, the source of any other value.
pub(crate) fn member_text(text: &[u32], keys: &[&str]) -> Option<Vec<u32>> {
    let (start, _) = only_value(text).ok()?;
    let members = if has(text, start, b'{') { json_members(text, start).ok()? } else { return None };
    let member = keys.iter().find_map(|key| members.iter().rev().find(|member| lossy(&member.key) == *key))?;
    let source = &text[member.start..member.end];
    Some(scalar_text(source).unwrap_or_else(|| source.to_vec()))
}

/// The beginning and the end of the only value of a text.
fn only_value(text: &[u32]) -> Result<(usize, usize)> {
    let start = skip(text, 0);
    let end = value_end(text, start)?;
    if skip(text, end) == text.len() { Ok((start, end)) } else { Err(NotJson) }
}
