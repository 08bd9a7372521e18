//! The places of the values of a JSON text. The text is not checked here: the reader of the values does that.
use memchr::memchr2;

/// The place after the white space that JSON allows.
pub fn skip_blank(text: &[u8], at: usize) -> usize {
    text[at..].iter().position(|byte| !b" \t\r\n".contains(byte)).map_or(text.len(), |blank| at + blank)
}

/// The end of the value that begins here. None if there is none, or it has no end.
pub fn end_of_value(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => end_of_string(text, at),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0, at);
            loop {
                match text.get(at)? {
                    b'"' => {
                        at = end_of_string(text, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        _ => {
            let rest = &text[at..];
            let length = rest.iter().position(|byte| b",:]}[{\" \t\r\n".contains(byte)).unwrap_or(rest.len());
            (length > 0).then_some(at + length)
        }
    }
}

fn end_of_string(text: &[u8], opening: usize) -> Option<usize> {
    let mut at = opening + 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The parts of the object or the array that opens here. `read` reads each: it gets its beginning and returns its end.
/// Returns the end of the whole. None if a comma or the end is missing.
pub fn each_part<E>(
    text: &[u8],
    opening: usize,
    closing: u8,
    mut read: impl FnMut(usize) -> Result<Option<usize>, E>,
) -> Result<Option<usize>, E> {
    let mut at = skip_blank(text, opening + 1);
    if text.get(at) == Some(&closing) {
        return Ok(Some(at + 1));
    }
    loop {
        let Some(end) = read(at)? else { return Ok(None) };
        at = skip_blank(text, end);
        match text.get(at) {
            Some(b',') => at = skip_blank(text, at + 1),
            Some(mark) if *mark == closing => return Ok(Some(at + 1)),
            _ => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_where_its_brackets_and_quotes_do() {
        let end = |text: &str| end_of_value(text.as_bytes(), 0);
        assert_eq!(end(r#""a\"b" "#), Some(6));
        assert_eq!(end(r#"{"a": ["]", {}]}, 1"#), Some(16));
        assert_eq!(end("-1.5e3,"), Some(6));
        assert_eq!([end("\"a"), end("[1"), end(""), end(","), end(r#""\"#)], [None; 5]);
    }

    #[test]
    fn the_parts_of_an_array() {
        let parts = |text: &str| {
            let (bytes, mut found) = (text.as_bytes(), Vec::new());
            let end = each_part(bytes, 0, b']', |at| {
                let end = end_of_value(bytes, at);
                found.extend(end.map(|end| text[at..end].to_owned()));
                Ok::<_, ()>(end)
            });
            (found.join("|"), end.unwrap())
        };
        assert_eq!(parts("[ 1 ,\n{\"a\":2} ] x"), ("1|{\"a\":2}".to_owned(), Some(15)));
        assert_eq!(parts("[ ]"), (String::new(), Some(3)));
        assert_eq!([parts("[1 2]").1, parts("[1,]").1, parts("[1").1], [None; 3]);
    }
}
