//! Texts that must go, in a text and in JSON.
use std::ops::Range;

use rustc_hash::FxHashSet;

use super::spans::{Member, Spans, decoded, encoded, unescaped};
use crate::caps;
use crate::context_store::{Raw, key_of};
use crate::json_spans::{end_of_value, skip_blank};

/// The text in place of one that goes.
pub const REDACTED: &str = "[redacted]";
/// JSON within a string, and a string within that, are read this deep; no tool writes deeper.
const DEEPEST: usize = 4;
/// Characters of a key; a longer one was cut.
const MAX_KEY: usize = 200;
/// If only the beginning of a text is at the end of a key, fewer characters than this mean nothing.
const LEAST_BEGINNING: usize = 4;

/// Fields of formats that say what something is and what belongs to what: their texts stay.
const STRUCTURE: &str = "role type subtype source_type format status state stop_reason finish_reason \
    media_type mediaType mimeType model provider signature thoughtSignature encrypted_content required timestamp \
    id uuid parentUuid logicalParentUuid sessionId sourceToolUseID itemId call_id caller_id tool_call_id tool_use_id \
    toolCallId toolUseId parent_tool_use_id approvalId approval_request_id toolName tool_name";
/// The same of our own records.
const OURS: &str = "handle digest sent counter breakpoints section priority outcome by mode stability position native_to \
    cache_retention cache_ttl time op kind heading span use uses";
/// Fields of our own records with what is in a format.
const CONTENTS: &[&str] = &["entry", "rest", "content"];
/// Fields with a tool's or a host's own values, in which keys and numbers are said, too.
const DATA: &[&str] =
    &["input", "arguments", "args", "rawInput", "json", "artifact", "toolUseResult", "structuredContent"];
/// The same, but an object with a `type` is a block of the format.
const RESULTS: &[&str] = &["output", "result", "response", "value"];
/// What else an object has whose `name` is a tool's.
const SCHEMAS: &[&str] = &["schema", "parameters", "input_schema", "inputSchema"];

/// What a value is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Within {
    Record,
    Format,
    Result,
    Data,
}

/// An open object or list.
struct Open<'a> {
    start: usize,
    within: Within,
    /// The name of the member that is read; of a list, its own.
    name: &'a str,
    /// Its keys as they were and as they are now, once one of them changes.
    keys: FxHashSet<Vec<u8>>,
    /// The number after the last key that would have been there twice.
    number: usize,
}

/// The texts that go.
pub(super) struct Texts<'a>(pub &'a [Raw]);

impl Texts<'_> {
    /// A text without them, wherever they are in it, also if JSON in it escapes them. If all of it is JSON, it stays JSON.
    pub(super) fn without(&self, text: &[u8]) -> Raw {
        self.without_at(text, 0)
    }

    /// The same, letter by letter.
    pub(super) fn plain(&self, text: &[u8]) -> Raw {
        cut(text, &found(text, self.0)).into()
    }

    fn without_at(&self, text: &[u8], depth: usize) -> Raw {
        let places = found(text, self.0);
        let is_read = depth < DEEPEST && !places.is_empty();
        let Some(json) = is_read.then(|| whole_json(text)).flatten() else { return cut(text, &places).into() };
        let json = self.json(json, Within::Data, depth + 1).unwrap_or_else(|| json.to_owned());
        // What goes may be JSON itself, with parts of it on both sides of a bracket.
        let is_across = |gone: &&Raw| gone.iter().any(|byte| b"{}[],:\"".contains(byte));
        let across: Vec<Raw> = self.0.iter().filter(is_across).cloned().collect();
        cut(json.as_bytes(), &found(json.as_bytes(), &across)).into()
    }

    /// A JSON text without them in the values that somebody said. None if it has none of them.
    pub(super) fn json(&self, text: &str, within: Within, depth: usize) -> Option<String> {
        let bytes = text.as_bytes();
        let (mut out, mut copied, mut at) = (String::new(), 0, 0);
        let mut open = vec![Open::new(0, within, "")];
        while let (Some(byte), Some(place)) = (bytes.get(at), open.last_mut()) {
            match byte {
                b'{' | b'[' => {
                    let inner = place.opened(text, at);
                    open.push(inner);
                    at += 1;
                    continue;
                }
                b'}' | b']' | b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => {
                    if matches!(byte, b'}' | b']') && open.len() > 1 {
                        open.pop();
                    }
                    at += 1;
                    continue;
                }
                _ => {}
            }
            let (start, Some(end)) = (at, end_of_value(bytes, at)) else { break };
            at = end;
            let value = &text[start..end];
            let is_text = *byte == b'"';
            let is_key = is_text && bytes.get(skip_blank(bytes, end)) == Some(&b':');
            if is_key {
                place.name = &value[1..value.len() - 1];
            }
            let now = if is_text {
                let was = decoded(value);
                let now = self.without_at(&was, depth);
                if *now == *was {
                    None
                } else if is_key && place.within == Within::Data {
                    Some(encoded(&place.new_key(text, &now)))
                } else {
                    Some(encoded(&now))
                }
            } else {
                let is_number = byte.is_ascii_digit() || *byte == b'-';
                (is_number && !found(value.as_bytes(), self.0).is_empty()).then(|| format!("\"{REDACTED}\""))
            };
            let is_said = |_: &String| match (is_key, is_text) {
                (true, _) => place.within == Within::Data,
                (_, true) => !place.is_structure(text),
                _ => matches!(place.within_of_value(), Within::Result | Within::Data),
            };
            if let Some(now) = now.filter(is_said) {
                out.push_str(&text[copied..start]);
                out.push_str(&now);
                copied = end;
            }
        }
        (copied > 0).then(|| out + &text[copied..])
    }

    /// A key without them, even if its end has only the beginning of one.
    pub(super) fn key(&self, key: &[u8]) -> Vec<u8> {
        let keys: Vec<Raw> = self.0.iter().map(|text| key_of(text)).collect();
        let mut points = caps::decoded(key);
        if points.len() == MAX_KEY {
            let beginning = |gone: &Raw| {
                let gone = caps::decoded(gone);
                (LEAST_BEGINNING..gone.len()).rev().find(|&length| points.ends_with(&gone[..length])).unwrap_or(0)
            };
            let longest = keys.iter().map(beginning).max().unwrap_or(0);
            points.truncate(MAX_KEY - longest);
        }
        let key = caps::encoded(&points);
        cut(&key, &found(&key, &keys))
    }
}

impl<'a> Open<'a> {
    fn new(start: usize, within: Within, name: &'a str) -> Self {
        Self { start, within, name, keys: FxHashSet::default(), number: 1 }
    }

    /// The object or list that begins here, in this one.
    fn opened(&self, text: &'a str, start: usize) -> Self {
        let is_list = text.as_bytes()[start] == b'[';
        let within = match self.within_of_value() {
            Within::Result if !is_list && !has_one_of(text, start, &["type"]) => Within::Data,
            within => within,
        };
        Self::new(start, within, if is_list { self.name } else { "" })
    }

    /// A key in place of one that goes. No two are the same: one of their values would be lost.
    fn new_key(&mut self, text: &str, key: &[u8]) -> Vec<u8> {
        if self.keys.is_empty() {
            let members = object_at(text, self.start).unwrap_or_default();
            self.keys.extend(members.iter().map(|member| unescaped(member.key.as_bytes()).0));
        }
        let mut new = key.to_vec();
        while !self.keys.insert(new.clone()) {
            self.number += 1;
            new = [key, format!(" {}", self.number).as_bytes()].concat();
        }
        new
    }

    fn within_of_value(&self) -> Within {
        match self.within {
            Within::Data => Within::Data,
            _ if DATA.contains(&self.name) => Within::Data,
            _ if RESULTS.contains(&self.name) => Within::Result,
            Within::Record if CONTENTS.contains(&self.name) => Within::Format,
            within => within,
        }
    }

    /// Whether a text here says what something is.
    fn is_structure(&self, text: &str) -> bool {
        let is_tool = || [DATA, RESULTS, SCHEMAS].iter().any(|names| has_one_of(text, self.start, names));
        let is_in = |names: &str| names.split_ascii_whitespace().any(|name| name == self.name);
        match self.within {
            Within::Data => false,
            Within::Record if is_in(OURS) => true,
            _ => is_in(STRUCTURE) || (self.name == "name" && is_tool()),
        }
    }
}

/// Whether the object that begins here has a field of one of these names.
fn has_one_of(text: &str, start: usize, names: &[&str]) -> bool {
    object_at(text, start).is_some_and(|members| members.iter().any(|member| names.contains(&member.key)))
}

/// The members of the object that begins here.
fn object_at(text: &str, start: usize) -> Option<Vec<Member<'_>>> {
    end_of_value(text.as_bytes(), start).and_then(|end| Spans(&text[start..end]).object())
}

/// The text, if it is an object or a list of JSON.
fn whole_json(text: &[u8]) -> Option<&str> {
    let opening = text.get(skip_blank(text, 0)).filter(|byte| b"{[".contains(byte));
    let text = opening.and_then(|_| str::from_utf8(text).ok());
    text.filter(|text| serde_json::from_str::<serde_json::Value>(text).is_ok())
}

/// The places of these in a text, whole or within each other, also where JSON escapes them.
fn found(text: &[u8], gone: &[Raw]) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let (mut read, mut places) = (text.to_vec(), Vec::new());
    for _ in 0..=DEEPEST {
        let place = |at: usize| places.get(at).copied().unwrap_or(at);
        for gone in gone.iter().filter(|gone| !gone.is_empty()) {
            all.extend(memchr::memmem::find_iter(&read, gone).map(|at| place(at)..place(at + gone.len())));
        }
        if !read.contains(&b'\\') {
            break;
        }
        let (next, at) = unescaped(&read);
        places = at.into_iter().map(place).collect();
        read = next;
    }
    all.sort_unstable_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for range in all {
        match apart.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

fn cut(text: &[u8], gone: &[Range<usize>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut copied = 0;
    for range in gone {
        out.extend_from_slice(&text[copied..range.start]);
        out.extend_from_slice(REDACTED.as_bytes());
        copied = range.end;
    }
    out.extend_from_slice(&text[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str, gone: &[&str]) -> String {
        let gone: Vec<Raw> = gone.iter().map(|gone| gone.as_bytes().into()).collect();
        String::from_utf8(Texts(&gone).without(text.as_bytes()).into()).unwrap()
    }

    fn json(text: &str, gone: &str) -> String {
        Texts(&[gone.as_bytes().into()]).json(text, Within::Record, 0).unwrap_or_else(|| text.into())
    }

    #[test]
    fn texts_within_each_other_go_whole_in_any_order() {
        for gone in [["pass", "password123"], ["password123", "pass"], ["my pass", "password123"]] {
            let after = without("my password123, ok", &gone);
            assert!(["my [redacted], ok", "[redacted], ok"].contains(&&*after), "{after}");
        }
        assert_eq!(without("hunter2hunter2", &["hunter2"]), "[redacted][redacted]");
    }

    #[test]
    fn texts_go_where_json_escapes_them_however_often() {
        let gone = "a \"ü\" 🧠";
        for written in [r#"a \"ü\" 🧠"#, r#"a \"\u00fc\" \ud83e\udde0"#, r"a \u0022\u00FC\u0022 \uD83E\uDDE0"] {
            let twice = serde_json::to_string(written).unwrap();
            for text in [written, &twice[1..twice.len() - 1]] {
                assert_eq!(without(&format!("he said {text} to"), &[gone]), "he said [redacted] to");
            }
        }
        assert_eq!(without(r"C:\new\users \", &["new"]), r"C:\[redacted]\users \");
        assert_eq!(without(r"C:\new", &["\n"]), r"C:[redacted]ew");
    }

    #[test]
    fn structure_stays_and_what_tools_say_goes() {
        for (text, gone, after) in [
            (r#"{"role": "user", "content": "a user"}"#, "user", r#"{"role": "user", "content": "a [redacted]"}"#),
            (r#"{"name": "read", "input": {"read": 1}}"#, "read", r#"{"name": "read", "input": {"[redacted]": 1}}"#),
            (r#"{"op": "use", "entry": {"op": "use"}}"#, "use", r#"{"op": "use", "entry": {"op": "[redacted]"}}"#),
            (r#"{"role": "user", "name": "Bob"}"#, "Bob", r#"{"role": "user", "name": "[redacted]"}"#),
            (
                r#"{"input": {"pin": [-12.5, 7], "type": "12"}, "n": 12}"#,
                "12",
                r#"{"input": {"pin": ["[redacted]", 7], "type": "[redacted]"}, "n": 12}"#,
            ),
            (
                r#"{"output": [{"type": "text", "text": "text"}]}"#,
                "text",
                r#"{"output": [{"type": "text", "text": "[redacted]"}]}"#,
            ),
            (r#"{"output": {"text": true}}"#, "text", r#"{"output": {"[redacted]": true}}"#),
            (
                r#"{"arguments": "{\"pin\": 48, \"n\\n\": \"\\u00e9\"}"}"#,
                "é",
                r#"{"arguments": "{\"pin\": 48, \"n\\n\": \"[redacted]\"}"}"#,
            ),
            (r#"{"arguments": "{\"pin\": 48}"}"#, "48", r#"{"arguments": "{\"pin\": \"[redacted]\"}"}"#),
            (r#"{"content": "{\"pin\": 48}"}"#, "\"pin\": 48", r#"{"content": "{[redacted]}"}"#),
        ] {
            assert_eq!(json(text, gone), after);
        }
        assert_eq!(json(r#"{"content": "\\n"}"#, "\n"), r#"{"content": "[redacted]"}"#);
    }

    #[test]
    fn no_two_keys_become_the_same() {
        let gone: [Raw; 2] = [b"Ann".as_slice().into(), b"Bob".as_slice().into()];
        let keys = r#"{"Ann": {"Bob": 1}, "[redacted] 2": 2, "Bob": 3, "a Bob": 4, "\u0042ob": 5, "a [redacted]": 6}"#;
        let after = r#"{"[redacted]": {"[redacted]": 1}, "[redacted] 2": 2, "[redacted] 3": 3, "a [redacted] 4": 4, "[redacted] 5": 5, "a [redacted]": 6}"#;
        let call = |input: &str| format!(r#"{{"input": {input}}}"#);
        assert_eq!(Texts(&gone).json(&call(keys), Within::Record, 0), Some(call(after)));
        assert_eq!(&*Texts(&gone).without(keys.as_bytes()), after.as_bytes());
        let many: Vec<String> = (0..50_000).map(|at| format!(r#""{}": {at}"#, "Ann".repeat(at % 9 + 1))).collect();
        let many = format!("{{{}}}", many.join(", "));
        assert!(Texts(&gone).json(&many, Within::Data, 0).is_some());
    }

    #[test]
    fn a_cut_key_has_not_even_the_beginning() {
        let texts: [Raw; 1] = [b"Hunter2 is it".as_slice().into()];
        let key = format!("{}hunter2", "x".repeat(MAX_KEY - 7));
        assert_eq!(Texts(&texts).key(key.as_bytes()), "x".repeat(MAX_KEY - 7).into_bytes());
        assert_eq!(Texts(&texts).key(b"say hunter2 is it"), b"say [redacted]");
    }

    #[test]
    fn what_is_nested_ever_deeper_takes_no_stack() {
        let deep = format!("{}x{}", "[".repeat(200_000), "\\u005cu005c".repeat(200_000));
        assert_eq!(without(&deep, &["x"]), deep.replace('x', "[redacted]"));
        assert!(json(&"[".repeat(1_000_000), "x").len() == 1_000_000);
    }
}
