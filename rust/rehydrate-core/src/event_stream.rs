//! Server-sent events, decoded from bytes that may be cut anywhere.
use memchr::memchr2;

/// Decodes the events of one stream.
#[derive(Default)]
pub struct Decoder {
    /// The line that has no end yet.
    line: Vec<u8>,
    /// Whether the last byte was a carriage return: a line feed right after it belongs to the same line end.
    is_after_return: bool,
    /// The data of the event that has no end yet.
    data: Option<String>,
}

impl Decoder {
    /// The data of each event that these bytes complete.
    pub fn feed(&mut self, chunk: &[u8]) -> Vec<String> {
        let (mut found, mut rest) = (Vec::new(), chunk);
        if self.is_after_return && !rest.is_empty() {
            self.is_after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            self.line.extend_from_slice(&rest[..end]);
            let is_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if is_return {
                self.is_after_return = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            found.extend(self.end_line());
        }
        self.line.extend_from_slice(rest);
        found
    }

    /// The event that ends with this line, if it is an empty one.
    fn end_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if let Some(data) = line.strip_prefix(b"data:") {
            let data = String::from_utf8_lossy(data.strip_prefix(b" ").unwrap_or(data));
            match &mut self.data {
                Some(before) => {
                    before.push('\n');
                    before.push_str(&data);
                }
                None => self.data = Some(data.into_owned()),
            }
        }
        if line.is_empty() { self.data.take() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::Decoder;

    #[test]
    fn the_same_events_wherever_the_bytes_are_cut() {
        let stream = b"event: a\r\ndata: 1\r\n\r\n: note\ndata:2\ndata: 3\n\ndata\n\rdata: \xFF\r\rid: 7\n\ndata:\n\n";
        let wanted = ["1", "2\n3", "\u{FFFD}", ""];
        for size in 1..=stream.len() {
            let mut decoder = Decoder::default();
            let found: Vec<_> = stream.chunks(size).flat_map(|chunk| decoder.feed(chunk)).collect();
            assert_eq!(found, wanted, "in chunks of {size}");
        }
    }
}
