//! The places of the values of a JSON text, by its brackets and quotation marks.
use std::convert::Infallible;

use crate::caps;
use crate::json_spans::{each_part, end_of_value, skip_blank};

/// A text of which values are cut out letter for letter.
#[derive(Clone, Copy)]
pub(super) struct Spans<'a>(pub &'a str);

/// A member of an object; its key as it is written.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub key: &'a str,
    pub value: &'a str,
}

impl<'a> Spans<'a> {
    /// The members of the object that the text is; None if it isn't one.
    pub(super) fn object(self) -> Option<Vec<Member<'a>>> {
        let mut members = Vec::new();
        self.walk(b'{', b'}', |at| {
            let text = self.0.as_bytes();
            let after = end_of_value(text, at).filter(|_| self.byte(at) == Some(b'"'))?;
            let start = skip_blank(text, after);
            if self.byte(start) != Some(b':') {
                return None;
            }
            let start = skip_blank(text, start + 1);
            let end = end_of_value(text, start)?;
            members.push(Member { key: &self.0[at + 1..after - 1], value: &self.0[start..end] });
            Some(end)
        })?;
        Some(members)
    }

    /// The items of the list that the text is; None if it isn't one.
    pub(super) fn list(self) -> Option<Vec<&'a str>> {
        let mut items = Vec::new();
        self.walk(b'[', b']', |at| {
            let end = end_of_value(self.0.as_bytes(), at)?;
            items.push(&self.0[at..end]);
            Some(end)
        })?;
        Some(items)
    }

    fn walk(self, opening: u8, closing: u8, mut take: impl FnMut(usize) -> Option<usize>) -> Option<()> {
        let text = self.0.as_bytes();
        let at = skip_blank(text, 0);
        if self.byte(at) != Some(opening) {
            return None;
        }
        let Ok(end) = each_part(text, at, closing, |at| Ok::<_, Infallible>(take(at)));
        (skip_blank(text, end?) == text.len()).then_some(())
    }

    fn byte(self, at: usize) -> Option<u8> {
        self.0.as_bytes().get(at).copied()
    }
}

/// The text of a string with its quotation marks, as [`caps::encoded`] writes it.
pub(super) fn decoded(string: &str) -> Vec<u8> {
    let inner = string.get(1..string.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains('\\') {
        return inner.into();
    }
    unescaped(inner.as_bytes()).0
}

/// A text with what JSON's escapes in it mean; and for each byte the place of what is written for it, at last the end.
pub(super) fn unescaped(text: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let (mut out, mut places) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len() + 1));
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let mut start = at;
        at += 1;
        let escape = if byte == b'\\' { text.get(at) } else { None };
        at += usize::from(escape.is_some());
        let mut point = match escape {
            Some(b'b') => 8,
            Some(b't') => 9,
            Some(b'n') => 10,
            Some(b'f') => 12,
            Some(b'r') => 13,
            Some(b'u') => {
                let digits = text.get(at..at + 4).and_then(|digits| str::from_utf8(digits).ok());
                let digits = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                at += if digits.is_some() { 4 } else { 0 };
                digits.unwrap_or(0xFFFD)
            }
            other => {
                out.push(*other.unwrap_or(&byte));
                places.push(start);
                continue;
            }
        };
        if let (0xDC00..0xE000, Some(first)) = (point, out.len().checked_sub(3)) {
            // The second half of a pair.
            if let [half @ 0xD800..0xDC00] = caps::decoded(&out[first..])[..] {
                point = 0x10000 + ((half - 0xD800) << 10) + (point - 0xDC00);
                start = places[first];
                out.truncate(first);
                places.truncate(first);
            }
        }
        out.extend(caps::encoded(&[point]));
        places.resize(out.len(), start);
    }
    places.push(text.len());
    (out, places)
}

/// A text as JSON has it, with its quotation marks.
pub(super) fn encoded(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for point in caps::decoded(text) {
        match char::from_u32(point) {
            Some(char @ ('"' | '\\')) => out.extend(['\\', char]),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\u{c}') => out.push_str("\\f"),
            Some(char) if char >= ' ' => out.push(char),
            _ => out.push_str(&format!("\\u{point:04x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_out_letter_for_letter() {
        let text = r#" {"a" : [1, "]\"}", {"b": NaN}] ,"ä":-1e9, "c":"\ud83d", "c": null } "#;
        let members = Spans(text).object().unwrap();
        let read: Vec<_> = members.iter().map(|member| (member.key, member.value)).collect();
        let list = r#"[1, "]\"}", {"b": NaN}]"#;
        assert_eq!(read, [("a", list), ("ä", "-1e9"), ("c", r#""\ud83d""#), ("c", "null")]);
        assert_eq!(Spans(list).list().unwrap(), ["1", r#""]\"}""#, r#"{"b": NaN}"#]);
        assert!(Spans("{}").object().unwrap().is_empty() && Spans(" [ ] ").list().unwrap().is_empty());
    }

    #[test]
    fn strings_are_read_and_written_as_python_does() {
        let written = [r#""a\n\u00e9\ud83d\ude00\/""#, r#""\ud83d""#, r#""\"x\\""#];
        let strings = written.map(decoded);
        let expected: [&[u8]; 3] = ["a\né\u{1F600}/".as_bytes(), b"\xED\xA0\xBD", b"\"x\\"];
        assert_eq!(strings, expected);
        let written = strings.map(|string| encoded(&string));
        assert_eq!(written, ["\"a\\né\u{1F600}/\"", "\"\\ud83d\"", r#""\"x\\""#]);
    }

    #[test]
    fn each_byte_has_its_place_in_what_is_written() {
        let (text, places) = unescaped(r"é\u00e9\ud83d\ude00\u12\\".as_bytes());
        assert_eq!(text, "éé\u{1F600}\u{FFFD}12\\".as_bytes());
        assert_eq!(places, [0, 1, 2, 2, 8, 8, 8, 8, 20, 20, 20, 22, 23, 24, 26]);
    }

    #[test]
    fn what_does_not_end_is_none() {
        for text in
            ["", "{", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":1"#, r#"{"a":"\"}"#, r#"{"a":1}x"#, "{a:1}", r#"{"a":[1}"#]
        {
            assert!(Spans(text).object().is_none(), "{text}");
        }
        let deep = "[".repeat(1_000_000);
        assert!(Spans(&deep).list().is_none());
    }
}
