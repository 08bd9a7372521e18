//! JSON texts: the elements of an array, the members of an object, or those of the one large value inside.
use super::cut::{Candidates, LONG_BYTES, Measure, Strength};
use super::lines;

/// A level with fewer elements than this, and with one that holds most of the text, is skipped for that one.
const FEW_ELEMENTS: usize = 4;
/// The depth to which the level that holds the elements is looked for.
const MAX_LEVELS: usize = 8;

/// The places between the elements; None if the text isn't JSON, or lines serve better.
pub(super) fn candidates(text: &str) -> Option<(Measure, Candidates)> {
    let mut open = text.len() - text.trim_ascii_start().len();
    let closed = text.trim_ascii_end().as_bytes().last()?;
    if !matches!((text.as_bytes()[open], closed), (b'[', b']') | (b'{', b'}')) {
        return None;
    }
    for depth in 0..MAX_LEVELS {
        let level = Level::read(text, open)?;
        if depth == 0 && !text[level.closed + 1..].trim_ascii().is_empty() {
            return None; // several values, one after the other
        }
        let holds_most = level.largest.len() * 10 > text.len() * 9;
        if level.elements >= FEW_ELEMENTS && !holds_most {
            if level.largest.len() > LONG_BYTES {
                break;
            }
            let measure = match text.as_bytes()[open] {
                // Members follow, in one block with the last elements: a mark that counts only these hides them.
                _ if text[level.closed..].contains(',') => Measure::Characters,
                b'[' => Measure::Elements,
                _ => Measure::Members,
            };
            return Some((measure, level.candidates.finish(level.elements)));
        }
        match value_bracket(text, level.largest) {
            Some(inner) if holds_most => open = inner,
            _ => break,
        }
    }
    // No level holds most of it: whole lines by their indentation, if there are enough of them; else any comma.
    let longest = text.lines().map(str::len).max().unwrap_or_default();
    (longest > LONG_BYTES).then(|| (Measure::Characters, commas(text)))
}

/// The elements between two brackets.
struct Level {
    elements: usize,
    /// The largest of them.
    largest: std::ops::Range<usize>,
    /// The place of the closing bracket.
    closed: usize,
    candidates: Candidates,
}

impl Level {
    /// Read from the bracket that opens at `open` to the one that closes it.
    fn read(text: &str, open: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut level = Self { elements: 0, largest: 0..0, closed: 0, candidates: Candidates::new(text.len()) };
        let mut scan = Scan::default();
        let mut start = open + 1;
        for at in open + 1..bytes.len() {
            let depth = scan.depth;
            let is_comma = scan.step(bytes[at]) && bytes[at] == b',' && depth == 0;
            let is_end = depth == 0 && scan.depth < 0;
            if !(is_comma || is_end) {
                continue;
            }
            if is_comma || !text[start..at].trim_ascii().is_empty() {
                level.elements += 1;
            }
            if at - start > level.largest.len() {
                level.largest = start..at;
            }
            if is_end {
                level.closed = at;
                return Some(level);
            }
            start = after_comma(bytes, at + 1);
            level.candidates.offer(start, Strength::Plain, level.elements);
        }
        None // the bracket never closes
    }
}

/// After the blanks after a comma, or after its line break: an element keeps its own indentation.
fn after_comma(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r')) {
        at += 1;
    }
    at + usize::from(bytes.get(at) == Some(&b'\n'))
}

/// The bracket with which an element or the value of a member opens.
fn value_bracket(text: &str, element: std::ops::Range<usize>) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut scan = Scan::default();
    for at in element {
        if scan.step(bytes[at]) && matches!(bytes[at], b'[' | b'{') {
            return Some(at);
        }
        if !scan.in_string && !matches!(bytes[at], b'"' | b':' | b' ' | b'\t' | b'\r' | b'\n') {
            return None;
        }
    }
    None
}

/// Every comma outside a string, the better the less deep, and the places where a long string may be cut.
fn commas(text: &str) -> Candidates {
    let bytes = text.as_bytes();
    let mut candidates = Candidates::new(text.len());
    let mut scan = Scan::default();
    let mut last = 0;
    for at in 0..bytes.len() {
        if scan.step(bytes[at]) && bytes[at] == b',' {
            let next = after_comma(bytes, at + 1);
            if next - last > LONG_BYTES {
                lines::offer_within(&text[last..next], last, 0, &mut candidates);
            }
            let strength = if scan.depth <= 2 { Strength::Strong } else { Strength::Weak };
            candidates.offer(next, strength, 0);
            last = next;
        }
    }
    if text.len() - last > LONG_BYTES {
        lines::offer_within(&text[last..], last, 0, &mut candidates);
    }
    candidates
}

/// A reader of JSON that only knows strings and depth.
#[derive(Default)]
struct Scan {
    depth: isize,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// Read one byte; whether it is outside of strings.
    fn step(&mut self, byte: u8) -> bool {
        if self.in_string {
            if self.escaped {
                self.escaped = false;
            } else if byte == b'\\' {
                self.escaped = true;
            } else if byte == b'"' {
                self.in_string = false;
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth -= 1,
            _ => {}
        }
        true
    }
}
