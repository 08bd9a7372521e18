//! The lines that a prompt already has, and the runs of them in a new text.
//!
//! Every row of four lines that was seen is an anchor, stored by its hash. In a text to check, a row may begin at any line.
//! Around an anchor that matches, the texts are compared line by line. So every run of seven lines is found, wherever it is,
//! in time linear in the length of all texts. Two lines are the same if they differ in the number before them alone. The
//! texts are held by the conversation; this index takes about 20 bytes for four lines.
use std::ops::Range;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::code_points::{code_points, is_digit, lossy};
use super::json::{Result, members, skip, string, value_end};
use crate::interrupt::checkpoint;

const ANCHOR_LINES: usize = 4;
/// Characters. A line so long is an anchor alone.
const LONG_LINE: usize = 400;
/// Strings in a tool's input that are nested deeper are not read.
const MAX_DEPTH: usize = 8;

/// The lines that were seen, numbered in the order in which they were added. `T` holds a text.
pub struct SeenLines<T> {
    least_chars: usize,
    count: u32,
    blocks: Vec<Block<T>>,
    /// By the hash of the row that begins at a line; the first line of a hash stays.
    anchors: FxHashMap<u32, Anchor>,
}

#[derive(Clone, Copy)]
struct Anchor {
    line: u32,
    /// The beginning of the line in its text.
    offset: u32,
}

/// Consecutive lines of one text.
#[derive(Clone)]
struct Block<T> {
    /// The number of its first line among all lines that were seen.
    first: u32,
    held: Held<T>,
    /// The index of its first line in the text.
    start: usize,
    /// The number of lines of the whole text.
    total: usize,
}

/// A text, or the long string of this number in a JSON text, which is decoded again when it is needed.
#[derive(Clone)]
enum Held<T> {
    Text(T),
    InJson(T, usize),
}

/// Lines of a text that an earlier text has too.
#[derive(Debug, PartialEq, Eq)]
pub struct Repeat<'a, T> {
    pub lines: Range<usize>,
    /// The earlier text.
    pub source: &'a T,
    /// The number of the first of these lines in the source, counted from 1.
    pub first: usize,
    /// Whether they are all lines of the source.
    pub is_whole: bool,
    /// Whether the numbers before the lines may differ.
    pub is_numbered: bool,
}

impl<T: AsRef<str> + Clone> SeenLines<T> {
    /// Runs of fewer characters are ignored: they are not worth a reference.
    #[must_use]
    pub fn new(least_chars: usize) -> Self {
        Self { least_chars, count: 0, blocks: Vec::new(), anchors: FxHashMap::default() }
    }

    /// The number of lines that were added.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The first `count` lines; the last of them must be the last of a text.
    #[must_use]
    pub fn beginning(&self, count: u32) -> Self {
        let blocks = self.blocks[..self.blocks.partition_point(|block| block.first < count)].to_vec();
        let anchors = self.anchors.iter().filter(|(_, anchor)| anchor.line < count);
        Self { count, blocks, anchors: anchors.map(|(&key, &anchor)| (key, anchor)).collect(), ..*self }
    }

    /// Add the lines of a text, but for these.
    pub fn add(&mut self, text: &T, without: &[(usize, usize)]) {
        self.add_held(text.as_ref(), &Held::Text(text.clone()), without);
    }

    /// Add the long strings of a tool's input, which is JSON or another text. Those that are among the entry's `own` are
    /// held as such, without a copy.
    pub fn add_input(&mut self, input: &T, own: &[T]) {
        let own: FxHashMap<&str, &T> = own.iter().map(|text| (text.as_ref(), text)).collect();
        let input = *own.get(input.as_ref()).unwrap_or(&input);
        for (number, text) in long_strings(input.as_ref(), self.least_chars).iter().enumerate() {
            let held = own.get(&**text).map(|&own| Held::Text(own.clone()));
            self.add_held(text, &held.unwrap_or_else(|| Held::InJson(input.clone(), number)), &[]);
        }
    }

    fn add_held(&mut self, text: &str, held: &Held<T>, without: &[(usize, usize)]) {
        if u32::try_from(text.len()).is_err() {
            return;
        }
        let lines = Line::all(text);
        let mut start = 0;
        for &(repeat_start, repeat_end) in without.iter().chain([&(lines.len(), 0)]) {
            if lines.get(start..repeat_start).is_some_and(|lines| chars(lines) >= self.least_chars.max(1)) {
                self.blocks.push(Block { first: self.count, held: held.clone(), start, total: lines.len() });
                self.add_lines(&lines[start..repeat_start]);
            }
            start = repeat_end;
        }
    }

    fn add_lines(&mut self, lines: &[Line]) {
        let first = self.count;
        self.count += lines.len() as u32;
        let long = lines.iter().enumerate().filter(|(_, line)| line.chars >= LONG_LINE).map(|(at, _)| (at, 1));
        let rows = (ANCHOR_LINES..=lines.len()).step_by(ANCHOR_LINES).map(|end| (end - ANCHOR_LINES, ANCHOR_LINES));
        for (at, size) in long.chain(rows) {
            let anchor = Anchor { line: first + at as u32, offset: lines[at].offset as u32 };
            self.anchors.entry(hash_of(&lines[at..at + size])).or_insert(anchor);
        }
    }

    /// The runs of lines that were seen, each as long as possible, in order.
    #[must_use]
    pub fn repeats(&self, text: &str) -> Vec<Repeat<'_, T>> {
        let mut found = Vec::new();
        if self.anchors.is_empty() {
            return found;
        }
        let lines = Line::all(text);
        let is_numbered = lines.iter().any(|line| line.is_numbered);
        let mut decoded = FxHashMap::default();
        let (mut done, mut index) = (0, 0);
        while index < lines.len() {
            let size = if lines[index].chars >= LONG_LINE { 1 } else { ANCHOR_LINES };
            let row = &lines[index..lines.len().min(index + size)];
            let Some(&anchor) = self.anchors.get(&hash_of(row)) else {
                index += 1;
                continue;
            };
            checkpoint();
            let number = self.blocks.partition_point(|block| block.first <= anchor.line) - 1;
            let block = &self.blocks[number];
            let end = self.blocks.get(number + 1).map_or(self.count, |next| next.first);
            let (source, text) = match &block.held {
                Held::Text(text) => (text, text.as_ref()),
                Held::InJson(json, number) => {
                    let strings = decoded.entry(json.as_ref().as_ptr());
                    let strings: &Vec<String> =
                        strings.or_insert_with(|| long_strings(json.as_ref(), self.least_chars));
                    (json, &*strings[*number])
                }
            };
            let mut run = index..index;
            let (mut seen, mut at) = (anchor.line, anchor.offset as usize);
            while run.start > done && seen > block.first {
                let start = text[..at - 1].rfind('\n').map_or(0, |end| end + 1);
                if without_number(&text[start..at - 1]) != lines[run.start - 1].text {
                    break;
                }
                (run.start, seen, at) = (run.start - 1, seen - 1, start);
            }
            let first = (seen - block.first) as usize + block.start + 1;
            (seen, at) = (anchor.line, anchor.offset as usize);
            while run.end < lines.len() && seen < end {
                let stop = memchr::memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |length| at + length);
                if without_number(&text[at..stop]) != lines[run.end].text {
                    break;
                }
                (run.end, seen, at) = (run.end + 1, seen + 1, text.len().min(stop + 1));
            }
            index = run.end.max(index + 1);
            if chars(&lines[run.clone()]) >= self.least_chars {
                done = run.end;
                found.push(Repeat { is_whole: run.len() == block.total, lines: run, source, first, is_numbered });
            }
        }
        found
    }
}

/// A line of a text.
struct Line<'a> {
    /// Its beginning in the text.
    offset: usize,
    /// Without the number before it.
    text: &'a str,
    is_numbered: bool,
    chars: usize,
    hash: u64,
}

impl<'a> Line<'a> {
    fn all(text: &'a str) -> Vec<Self> {
        let mut offset = 0;
        let line = |(number, line): (usize, &'a str)| {
            if number.is_multiple_of(1 << 12) {
                checkpoint();
            }
            let text = without_number(line);
            let (is_numbered, chars) = (text.len() < line.len(), text.chars().count());
            let made = Self { offset, text, is_numbered, chars, hash: xxh3_64(text.as_bytes()) };
            offset += line.len() + 1;
            made
        };
        text.split('\n').enumerate().map(line).collect()
    }
}

/// The length of these lines with their line breaks, in characters.
fn chars(lines: &[Line]) -> usize {
    lines.iter().map(|line| line.chars + 1).sum()
}

fn hash_of(row: &[Line]) -> u32 {
    let hashes: Vec<u8> = row.iter().flat_map(|line| line.hash.to_le_bytes()).collect();
    xxh3_64(&hashes) as u32
}

/// The line without the number that a tool put before it, as Claude Code and `cat -n` do.
fn without_number(line: &str) -> &str {
    let rest = line.trim_start_matches(' ');
    let blanks = line.len() - rest.len();
    let after = rest.trim_start_matches(|char| is_digit(u32::from(char)));
    let digits = rest[..rest.len() - after.len()].chars().take(8).count();
    if blanks > 7 || !(1..=7).contains(&digits) {
        return line;
    }
    after.strip_prefix('→').or_else(|| after.strip_prefix('\t').filter(|_| blanks > 0)).unwrap_or(line)
}

/// The strings of at least this many characters in a JSON text, in order; a text that is not JSON is one string.
fn long_strings(text: &str, least_chars: usize) -> Vec<String> {
    let points = code_points(text);
    let mut found = Vec::new();
    let start = skip(&points, 0);
    let is_json = value_end(&points, start).is_ok_and(|end| {
        skip(&points, end) == points.len() && strings_in(&points, start..end, least_chars, 0, &mut found).is_ok()
    });
    if is_json { found } else { vec![text.to_owned()] }
}

fn strings_in(
    text: &[u32],
    value: Range<usize>,
    least_chars: usize,
    depth: usize,
    found: &mut Vec<String>,
) -> Result<()> {
    match u8::try_from(text[value.start]) {
        Ok(b'"') => {
            let string = string(&text[value]);
            if string.len() >= least_chars {
                found.push(lossy(&string));
            }
        }
        Ok(b'[' | b'{') if depth < MAX_DEPTH => {
            for member in members(text, value.start) {
                let member = member?;
                strings_in(text, member.start..member.end, least_chars, depth + 1, found)?;
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// A text with a number.
    #[derive(Clone)]
    struct Text(usize, Rc<str>);

    impl AsRef<str> for Text {
        fn as_ref(&self) -> &str {
            &self.1
        }
    }

    fn text(number: usize, text: &str) -> Text {
        Text(number, text.into())
    }

    /// 312 lines.
    fn file(name: &str) -> String {
        let lines: Vec<String> = (0..312).map(|n| format!("line {n} of {name} does {} things", n * 7)).collect();
        lines.join("\n")
    }

    fn seen(least_chars: usize, texts: &[&str]) -> SeenLines<Text> {
        let mut seen = SeenLines::new(least_chars);
        texts.iter().enumerate().for_each(|(number, one)| seen.add(&text(number, one), &[]));
        seen
    }

    /// Each run: its beginning and end, the number of its source, its first line there, whether it is the whole source,
    /// and whether numbers may differ.
    fn found(seen: &SeenLines<Text>, text: &str) -> Vec<(usize, usize, usize, usize, bool, bool)> {
        let values = |Repeat { lines, source, first, is_whole, is_numbered }: Repeat<'_, Text>| {
            (lines.start, lines.end, source.0, first, is_whole, is_numbered)
        };
        seen.repeats(text).into_iter().map(values).collect()
    }

    #[test]
    fn a_run_is_where_it_is_said_to_be_and_seven_lines_in_a_row_are_found() {
        let mut state = 7_u64;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let mut runs = 0;
        for _ in 0..500 {
            let letters = 2 + below(7);
            let mut lines = |most: u64| -> Vec<String> {
                (0..=below(most)).map(|_| char::from(b'a' + below(letters) as u8).to_string()).collect()
            };
            let sources: Vec<Vec<String>> = (0..5).map(|_| lines(40)).collect();
            let wanted = lines(60);
            let joined: Vec<String> = sources.iter().map(|lines| lines.join("\n")).collect();
            let seen = seen(1, &joined.iter().map(String::as_str).collect::<Vec<_>>());
            let (mut covered, mut at) = (vec![false; wanted.len()], 0);
            for (start, end, source, first, ..) in found(&seen, &wanted.join("\n")) {
                assert!(at <= start && start < end);
                assert_eq!(wanted[start..end], sources[source][first - 1..first - 1 + end - start]);
                covered[start..end].fill(true);
                (at, runs) = (end, runs + 1);
            }
            for row in sources.iter().flat_map(|lines| lines.windows(7)) {
                for (start, same) in wanted.windows(7).enumerate() {
                    assert!(row != same || covered[start..start + 7].contains(&true));
                }
            }
        }
        assert!(runs > 100, "{runs}");
    }

    #[test]
    fn a_run_is_found_anywhere_in_a_long_text() {
        let lines: Vec<String> = (0..3_000).map(|n| format!("line {n} of the log has {} events", n * 13)).collect();
        let seen = seen(100, &[&"before\n".repeat(21), &lines.join("\n")]);
        for start in [0, 5, 2_989] {
            let wanted = format!("new\n{}\nnew", lines[start..start + 9].join("\n"));
            assert_eq!(found(&seen, &wanted), [(1, 10, 1, start + 1, false, false)]);
        }
    }

    #[test]
    fn the_first_text_of_several_stays_and_the_beginning_knows_no_later_one() {
        let file = file("the file");
        let seen = seen(1_000, &[&file, &file, &file]);
        assert_eq!(found(&seen, &file), [(0, 312, 0, 1, true, false)]);
        assert_eq!(seen.beginning(312).count(), 312);
        assert_eq!(found(&seen.beginning(312), &file), found(&seen, &file));
        assert!(found(&SeenLines::new(1_000).beginning(0), &file).is_empty());
    }

    #[test]
    fn what_was_replaced_is_not_seen_again() {
        let (file, mut seen) = (file("the file"), SeenLines::new(1_000));
        seen.add(&text(0, &file), &[(0, 100), (200, 300)]);
        assert_eq!(seen.count(), 100); // the last twelve are too short a run
        assert_eq!(found(&seen, &file), [(100, 200, 0, 101, false, false)]);
    }

    #[test]
    fn strings_of_an_input_are_seen_wherever_they_are_held() {
        let (one, other) = (file("the file"), file("another"));
        let quoted = |text: &str| format!("\"{}\"", text.replace('\n', "\\n"));
        let rest = r#""\u00e9": 1e3, "\"": [null, "\ud83d"]"#;
        let (new, news) = (quoted(&one), quoted(&other));
        let compact = format!(r#"{{"path":"a.py","edits":[{{"new":{new}}},{{"new":{news}}}],{rest}}}"#);
        let spaced =
            format!("{{\n \"path\": \"a.py\",\n \"edits\": [{{\"new\": {new}}}, {{\"new\": {news}}}], {rest}\n}}");
        for input in [&compact, &spaced] {
            for own in
                [vec![], vec![text(1, &one), text(1, &other)], vec![text(1, &format!("x{other}")), text(1, input)]]
            {
                let mut seen = SeenLines::new(1_000);
                seen.add_input(&text(0, input), &own);
                for each in &own {
                    let is_held = [one.as_str(), other.as_str(), input.as_str()].contains(&each.as_ref());
                    assert_eq!(Rc::strong_count(&each.1) > 1, is_held);
                }
                for wanted in [&one, &other] {
                    let source = usize::from(!own.is_empty());
                    assert_eq!(found(&seen, wanted), [(0, 312, source, 1, true, false)]);
                }
                assert_eq!(seen.count(), 624);
            }
        }
    }

    #[test]
    fn an_input_that_is_not_json_is_one_text() {
        let file = file("the file");
        for input in [
            format!("{{{file}"),
            format!("{file}]"),
            format!("{}{file}", "[".repeat(2_000)),
            format!("\u{feff}[]\n{file}"),
        ] {
            let mut seen = SeenLines::new(1_000);
            seen.add_input(&text(0, &input), &[]);
            assert_eq!(found(&seen, &input), [(0, input.split('\n').count(), 0, 1, true, false)]);
        }
    }

    #[test]
    fn a_number_before_a_line_is_what_tools_write() {
        let file = file("the file");
        let seen = seen(1_000, &[&file]);
        for (before, is_number) in [
            ("7→", true),
            ("   7→", true),
            ("        7→", false),
            ("12345678→", false),
            ("٧→", true),
            (" 7\t", true),
            ("7\t", false),
            (" 7 \t", false),
            ("→", false),
        ] {
            let numbered: Vec<String> = file.split('\n').map(|line| format!("{before}{line}")).collect();
            let expected = if is_number { vec![(0, 312, 0, 1, true, true)] } else { vec![] };
            assert_eq!(found(&seen, &numbered.join("\n")), expected, "{before:?}");
        }
    }
}
