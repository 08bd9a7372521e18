//! Where the values of a JSON text begin and end, by its brackets and quotation marks.

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
    /// The members of the object that the text is; None where it is none.
    pub(super) fn object(self) -> Option<Vec<Member<'a>>> {
        let mut members = Vec::new();
        self.walk(b'{', b'}', |at| {
            let after = self.string_end(at)?;
            let start = self.skip(after);
            if self.byte(start) != Some(b':') {
                return None;
            }
            let start = self.skip(start + 1);
            let end = self.value_end(start)?;
            members.push(Member { key: &self.0[at + 1..after - 1], value: &self.0[start..end] });
            Some(end)
        })?;
        Some(members)
    }

    /// The items of the list that the text is; None where it is none.
    pub(super) fn list(self) -> Option<Vec<&'a str>> {
        let mut items = Vec::new();
        self.walk(b'[', b']', |at| {
            let end = self.value_end(at)?;
            items.push(&self.0[at..end]);
            Some(end)
        })?;
        Some(items)
    }

    fn walk(self, opening: u8, closing: u8, mut take: impl FnMut(usize) -> Option<usize>) -> Option<()> {
        let mut at = self.skip(0);
        if self.byte(at) != Some(opening) {
            return None;
        }
        at = self.skip(at + 1);
        let mut is_done = self.byte(at) == Some(closing);
        while !is_done {
            at = self.skip(take(at)?);
            is_done = self.byte(at) == Some(closing);
            if !is_done {
                if self.byte(at) != Some(b',') {
                    return None;
                }
                at = self.skip(at + 1);
            }
        }
        (self.skip(at + 1) == self.0.len()).then_some(())
    }

    fn byte(self, at: usize) -> Option<u8> {
        self.0.as_bytes().get(at).copied()
    }

    fn skip(self, at: usize) -> usize {
        let rest = self.0.as_bytes().get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| b" \t\n\r".contains(byte)).count()
    }

    fn string_end(self, start: usize) -> Option<usize> {
        if self.byte(start) != Some(b'"') {
            return None;
        }
        let mut at = start + 1;
        loop {
            at += memchr::memchr2(b'"', b'\\', self.0.as_bytes().get(at..)?)?;
            if self.byte(at) == Some(b'"') {
                return Some(at + 1);
            }
            at += 2;
        }
    }

    fn value_end(self, start: usize) -> Option<usize> {
        let (mut at, mut depth) = (start, 0_usize);
        loop {
            match self.byte(at) {
                Some(b'"') => at = self.string_end(at)?,
                Some(b'[' | b'{') => {
                    depth += 1;
                    at += 1;
                }
                Some(b']' | b'}') if depth > 0 => {
                    depth -= 1;
                    at += 1;
                }
                Some(b',' | b':' | b' ' | b'\t' | b'\n' | b'\r') if depth > 0 => at += 1,
                Some(_) => {
                    let rest = &self.0.as_bytes()[at..];
                    let size = rest.iter().take_while(|byte| !b"\"[]{},: \t\n\r".contains(byte)).count();
                    if size == 0 {
                        return None;
                    }
                    at += size;
                }
                None => return None,
            }
            if depth == 0 {
                return Some(at);
            }
        }
    }
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
