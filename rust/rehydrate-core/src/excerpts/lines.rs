//! Texts made of lines: diffs, logs, search results, numbered files, code, prose; and single lines that are too long.
use super::cut::{Candidates, LONG_BYTES, Measure, Strength};

/// The kind of a text of lines, judged by its first lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A unified diff: hunks.
    Diff,
    /// Records that each begin with a time. The lines after it belong to them.
    Log,
    /// Lines that each begin with `file:number:`.
    Search,
    /// Code or prose: paragraphs, headings, definitions.
    Plain,
}

/// The number of lines from which the kind is guessed.
const SAMPLE_LINES: usize = 60;
/// A log has at least this many lines that begin with a time, and one in ten: stack traces are long.
const MIN_RECORDS: usize = 3;

/// Every place between two lines, and places within lines that are too long.
pub(super) fn candidates(text: &str) -> (Measure, Candidates) {
    let mut candidates = Candidates::new(text.len());
    let mut reader = Reader::new(kind_of(text));
    let mut measure = Measure::Lines;
    let (mut at, mut index) = (0, 0);
    for line in text.split_inclusive('\n') {
        let strength = reader.strength_before(line);
        if at > 0 {
            candidates.offer(at, strength, index);
        }
        if line.len() > LONG_BYTES {
            measure = Measure::Characters;
            offer_within(line, at, index, &mut candidates);
        }
        at += line.len();
        index += 1;
    }
    (measure, candidates.finish(index))
}

/// Offer places within a line: after sentences, else after white space, else between characters.
pub(super) fn offer_within(line: &str, offset: usize, index: usize, candidates: &mut Candidates) {
    let bytes = line.as_bytes();
    let longest = candidates.min_bytes();
    let mut last = 0;
    for at in 1..bytes.len() {
        let strength = if bytes[at - 1].is_ascii_whitespace() && !bytes[at].is_ascii_whitespace() {
            let ends_sentence = at > 1 && matches!(bytes[at - 2], b'.' | b'!' | b'?' | b';' | b'}');
            if ends_sentence { Strength::Weak } else { Strength::Plain }
        } else if bytes[at - 1] == b'n' && at > 1 && bytes[at - 2] == b'\\' {
            Strength::Weak // a line break in a string of JSON
        } else if at - last >= longest && line.is_char_boundary(at) {
            Strength::Within
        } else {
            continue;
        };
        last = at;
        candidates.offer(offset + at, strength, index);
    }
}

/// The numbers before the first and the last line, as `cat -n` writes them.
pub(super) fn numbers(block: &str) -> Option<(usize, usize)> {
    let body = block.strip_suffix('\n').unwrap_or(block);
    let last = &body[body.rfind('\n').map_or(0, |at| at + 1)..];
    let number = |line: &str| unnumbered(line).and_then(|(number, _)| number.parse().ok());
    let (first, last) = (number(block)?, number(last)?);
    (first <= last).then_some((first, last))
}

/// The number before a line and the text after it: blanks, digits, then a tab or an arrow.
fn unnumbered(line: &str) -> Option<(&str, &str)> {
    let trimmed = line.trim_start_matches(' ');
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > 9 {
        return None;
    }
    let (number, rest) = trimmed.split_at(digits);
    Some((number, rest.strip_prefix('\t').or_else(|| rest.strip_prefix('→'))?))
}

fn kind_of(text: &str) -> Kind {
    let (mut lines, mut hunks, mut files, mut times, mut found) = (0, 0, 0, 0, 0);
    for line in text.lines().filter(|line| !line.trim_ascii().is_empty()).take(SAMPLE_LINES) {
        lines += 1;
        hunks += usize::from(line.starts_with("@@ -"));
        files += usize::from(line.starts_with("+++ ") || line.starts_with("diff --git "));
        times += usize::from(begins_with_time(line));
        found += usize::from(position_of_match(line).is_some());
    }
    match () {
        () if files > 0 && (hunks > 0 || text.contains("\n@@ -")) => Kind::Diff,
        () if times >= MIN_RECORDS && times * 10 >= lines => Kind::Log,
        () if found * 10 >= lines * 6 && lines > 0 => Kind::Search,
        () => Kind::Plain,
    }
}

/// Whether a line begins with a date or a time of day, in brackets or not.
fn begins_with_time(line: &str) -> bool {
    let line = line.trim_start_matches(['[', '(']).as_bytes();
    let is_shape = |shape: &[u8]| {
        line.len() >= shape.len()
            && shape.iter().zip(line).all(|(&s, &c)| if s == b'0' { c.is_ascii_digit() } else { s == c })
    };
    is_shape(b"0000-00-00") || is_shape(b"0000/00/00") || is_shape(b"00:00:00") || is_shape(b"00/00/0000") || {
        // Jan  5 12:00:00, as syslog writes it
        line.len() > 12 && line[..3].iter().all(u8::is_ascii_alphabetic) && line[3] == b' ' && line[9] == b':'
    }
}

/// The file in front of `:12:`, as grep writes it.
fn position_of_match(line: &str) -> Option<&str> {
    let colon = memchr::memchr(b':', line.as_bytes())?;
    let rest = &line.as_bytes()[colon + 1..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let ends = matches!(rest.get(digits), Some(b':' | b'-'));
    (digits > 0 && ends && !line[..colon].contains(' ')).then(|| &line[..colon])
}

/// Reads the lines of a text in order, and rates a cut before each of them.
struct Reader<'a> {
    kind: Kind,
    /// Whether the line before was blank.
    after_blank: bool,
    /// Whether the line before was a heading, or a header that its hunk follows.
    after_heading: bool,
    /// The indentation of the last line with text.
    indentation: usize,
    file: &'a str,
}

impl<'a> Reader<'a> {
    fn new(kind: Kind) -> Self {
        Self { kind, after_blank: false, after_heading: false, indentation: 0, file: "" }
    }

    fn strength_before(&mut self, line: &'a str) -> Strength {
        match self.kind {
            Kind::Diff => self.before_diff_line(line),
            Kind::Log => self.before_log_line(line),
            Kind::Search => self.before_match(line),
            Kind::Plain => self.before_plain_line(line),
        }
    }

    fn before_diff_line(&mut self, line: &str) -> Strength {
        let opens_file = line.starts_with("diff --git ") || (line.starts_with("--- ") && !self.after_heading);
        let is_header = opens_file || ["--- ", "+++ ", "index "].iter().any(|&start| line.starts_with(start));
        let is_hunk = line.starts_with("@@ ");
        let strength = match () {
            () if opens_file => Strength::Hard,
            () if self.after_heading => Strength::Within,
            () if is_hunk => Strength::Hard,
            () => Strength::Plain,
        };
        // A hunk stays with its file's header, and a changed line with its hunk's.
        self.after_heading = is_header || is_hunk;
        strength
    }

    fn before_log_line(&mut self, line: &str) -> Strength {
        if begins_with_time(line) { Strength::Strong } else { Strength::Within }
    }

    fn before_match(&mut self, line: &'a str) -> Strength {
        match position_of_match(line) {
            Some(file) if std::mem::replace(&mut self.file, file) != file => Strength::Strong,
            Some(_) => Strength::Plain,
            None => Strength::Within,
        }
    }

    fn before_plain_line(&mut self, line: &str) -> Strength {
        let body = unnumbered(line).map_or(line, |(_, body)| body);
        let text = body.trim_ascii();
        if text.is_empty() {
            self.after_blank = true;
            return Strength::Within; // a blank line stays with what it ends
        }
        let indentation = body.len() - body.trim_ascii_start().len();
        let is_closing = text.bytes().all(|byte| matches!(byte, b')' | b']' | b'}' | b',' | b';'));
        let is_heading = is_heading(text);
        let strength = match () {
            () if self.after_heading || is_closing => Strength::Within,
            () if self.after_blank && indentation == 0 => Strength::Strong,
            () if is_heading => Strength::Strong,
            () if self.after_blank || indentation < self.indentation => Strength::Weak,
            () => Strength::Plain,
        };
        (self.after_blank, self.after_heading, self.indentation) = (false, is_heading, indentation);
        strength
    }
}

/// A heading in Markdown. A comment of one `#` looks the same, and also keeps the text after it.
fn is_heading(text: &str) -> bool {
    let level = text.bytes().take_while(|&byte| byte == b'#').count();
    (1..=6).contains(&level) && text.as_bytes().get(level) == Some(&b' ')
}
