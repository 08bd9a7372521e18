//! The mentions in a text that an agent later needs word for word: names (paths, identifiers, ids) and whole lines.
//!
//! A *run* is a maximal stretch of word characters (letters, digits, `_`) and joiners (`. / - @`). A run mentions each
//! of its words that is a name, each segment between `/` and `@` that is itself a compound (a file name), and itself as a
//! whole. A line is mentioned as it is, white space folded.

use std::ops::Range;

use crate::interrupt::{self, Pace, STRETCH_BYTES, checkpoint, stretches};

/// The class of a mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// An identifier, a path, an id: letters with digits, an inner underscore, a hump, all capitals, or a compound.
    Name,
    /// A whole line of at least 15 characters, white space folded, without a line number in front of it.
    Line,
}

/// One feature that a text mentions, however often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mention {
    /// Hash of the feature's text. A collision makes two features one; it can cost a mention, never a message's bytes.
    pub hash: u32,
    /// The strongest class seen.
    pub class: Class,
}

/// The distinct features of a text, by ascending hash.
pub type Mentions = Box<[Mention]>;

const CLASS_BITS: usize = 1;
const CLASSES_A_WORD: usize = 32 / CLASS_BITS;

/// Append `mentions` to `out`: their number, their classes, then their hashes.
pub(crate) fn pack(mentions: &[Mention], out: &mut Vec<u32>) {
    out.push(u32::try_from(mentions.len()).expect("a text has under 2^32 mentions"));
    let word = |word, (index, mention): (usize, &Mention)| word | (mention.class as u32) << (index * CLASS_BITS);
    out.extend(mentions.chunks(CLASSES_A_WORD).map(|some| some.iter().enumerate().fold(0, word)));
    out.extend(mentions.iter().map(|mention| mention.hash));
}

/// Mentions as [`pack`] lays them out.
#[derive(Clone, Copy)]
pub(crate) struct PackedMentions<'a> {
    hashes: &'a [u32],
    classes: &'a [u32],
}

impl<'a> PackedMentions<'a> {
    pub fn read(section: &'a [u32]) -> Self {
        let (classes, hashes) = section[1..].split_at((section[0] as usize).div_ceil(CLASSES_A_WORD));
        Self { hashes, classes }
    }

    pub fn len(self) -> usize {
        self.hashes.len()
    }

    /// Their hashes, ascending.
    pub fn hashes(self) -> &'a [u32] {
        self.hashes
    }

    /// All of them, by ascending hash.
    pub fn iter(self) -> impl Iterator<Item = Mention> + use<'a> {
        self.hashes.chunks(CLASSES_A_WORD).zip(self.classes).flat_map(|(hashes, &classes)| {
            let class = move |index: usize| CLASSES[(classes >> (index * CLASS_BITS) & 1) as usize];
            hashes.iter().enumerate().map(move |(index, &hash)| Mention { hash, class: class(index) })
        })
    }
}

/// By their bits.
const CLASSES: [Class; 2] = [Class::Name, Class::Line];

/// Runs over this many bytes (base64, minified code) mention nothing.
pub(crate) const MAX_RUN_BYTES: usize = 200;
const MIN_SEGMENT_BYTES: usize = 4;
/// A shorter line is a bracket, an `else`, a blank.
const MIN_LINE_CHARS: usize = 15;
/// A number of this many characters is a name: of an order, an item, a measurement.
const MIN_ID_CHARS: usize = 4;
const MIN_COMPOUND_BYTES: usize = 3;

/// The features that `text` mentions.
#[must_use]
pub fn mentions(text: &str) -> Mentions {
    let mut found = Vec::with_capacity(text.len() / 8);
    for stretch in stretches(text) {
        scan(stretch, |name| found.push(Mention { hash: hash(name), class: Class::Name }));
    }
    let mut folded = String::new();
    for line in text.split('\n') {
        if let Some(hash) = hash_of_line(line, &mut folded) {
            found.push(Mention { hash, class: Class::Line });
        }
    }
    interrupt::sort(&mut found);
    found.dedup_by_key(|mention| mention.hash); // sorted: the strongest class of a hash comes first
    found.into_boxed_slice()
}

/// Call `emit` with each name in `text`, in reading order, with repeats.
pub fn scan(text: &str, mut emit: impl FnMut(&str)) {
    let mut buffer = String::new();
    runs(text, |run, seen| {
        let run = &text[run];
        if seen & JOINER == 0 {
            if run.len() <= MAX_RUN_BYTES {
                emit_word(run, &mut emit);
            }
        } else if seen & WORD != 0 {
            emit_compound(run, &mut buffer, &mut emit);
        }
    });
}

/// Call `take` with where each run of `text` is (of a time stamp, its date), and the classes of its characters, as
/// bits.
#[inline]
pub(crate) fn runs(text: &str, mut take: impl FnMut(Range<usize>, u8)) {
    let bytes = text.as_bytes();
    let mut pace = Pace::default();
    let mut at = 0;
    while at < bytes.len() {
        let (class, length) = char_class(text, at);
        if class & (WORD | JOINER) == 0 {
            at += length;
            if length > 1 {
                pace.step();
            }
            continue;
        }
        pace.step();
        if let Some(stamp) = stamp_at(&bytes[at..]) {
            take(at..at + DATE_BYTES, DIGIT | JOINER);
            at += stamp;
            continue;
        }
        let start = at;
        let mut seen = 0;
        let mut stop = at + STRETCH_BYTES;
        while at < bytes.len() {
            let (class, length) = char_class(text, at);
            if class & (WORD | JOINER) == 0 {
                break;
            }
            seen |= class;
            at += length;
            if at >= stop {
                checkpoint(); // ideographs, or one letter, may go on for megabytes
                stop = at + STRETCH_BYTES;
            }
        }
        take(start..at, seen);
    }
}

// Character classes, as bits, so that a run's are its characters' joined with or.
pub(crate) const LOWER: u8 = 1;
pub(crate) const UPPER: u8 = 2;
const LETTER: u8 = 4 | LOWER | UPPER;
const CASELESS: u8 = 4;
pub(crate) const DIGIT: u8 = 8;
pub(crate) const UNDERSCORE: u8 = 16;
/// A character like a letter or digit that is neither, such as a superscript.
pub(crate) const OTHER_ALNUM: u8 = 32;
pub(crate) const JOINER: u8 = 64;
pub(crate) const WORD: u8 = LETTER | DIGIT | UNDERSCORE | OTHER_ALNUM;

const ASCII: [u8; 128] = {
    let mut table = [0; 128];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            b'_' => UNDERSCORE,
            b'.' | b'/' | b'-' | b'@' => JOINER,
            _ => 0,
        };
        byte += 1;
    }
    table
};

pub(crate) fn is_joiner(c: char) -> bool {
    c.is_ascii() && ASCII[c as usize] & JOINER != 0
}

/// Class and length in bytes of the character at `at`.
#[inline(always)]
pub(crate) fn char_class(text: &str, at: usize) -> (u8, usize) {
    let byte = text.as_bytes()[at];
    if byte < 128 { (ASCII[byte as usize], 1) } else { wide_class(text, at) }
}

#[cold]
fn wide_class(text: &str, at: usize) -> (u8, usize) {
    let char = text[at..].chars().next().expect("at is a character's first byte");
    let class = match char {
        c if c.is_lowercase() => LOWER,
        c if c.is_uppercase() => UPPER,
        c if c.is_alphabetic() => CASELESS,
        c if c.is_alphanumeric() => OTHER_ALNUM,
        _ => 0,
    };
    (class, char.len_utf8())
}

/// The mention in one word, if it is a name: word characters only.
fn emit_word(word: &str, emit: &mut impl FnMut(&str)) {
    let (mut seen, mut before, mut chars, mut hump, mut at) = (0, 0, 0, false, 0);
    while at < word.len() {
        let (class, length) = char_class(word, at);
        hump |= before & LOWER != 0 && class & UPPER != 0;
        (seen, before) = (seen | class, class);
        chars += 1;
        at += length;
    }
    let (digits, letters) = (seen & DIGIT != 0, seen & LETTER != 0);
    let inner_underscore = seen & UNDERSCORE != 0 && word.trim_matches('_').contains('_');
    let capitals = chars >= 2 && seen & UPPER != 0 && seen & LOWER == 0;
    let id = digits && chars >= MIN_ID_CHARS;
    if (digits && letters) || inner_underscore || hump || (letters && capitals) || id {
        emit(word);
    }
}

const DATE_BYTES: usize = "2026-02-17".len();

/// The length of a time stamp (`2026-02-17T12:32Z`) at the start of `bytes`. It mentions its date. Its hours and
/// minutes mention nothing.
fn stamp_at(bytes: &[u8]) -> Option<usize> {
    const FORM: &[u8] = b"0000-00-00T00";
    let fits = |(&byte, &form): (&u8, &u8)| if form == b'0' { byte.is_ascii_digit() } else { byte == form };
    if bytes.len() < FORM.len() || !bytes.iter().zip(FORM).all(fits) {
        return None;
    }
    let rest = bytes[FORM.len()..].iter();
    Some(FORM.len() + rest.take_while(|byte| byte.is_ascii_digit() || b":.,+-Z".contains(byte)).count())
}

/// The mentions in a run with joiners: its words, its compound segments, and itself.
fn emit_compound(run: &str, buffer: &mut String, emit: &mut impl FnMut(&str)) {
    let core = run.trim_matches(is_joiner);
    if core.is_empty() || core.len() > MAX_RUN_BYTES {
        return;
    }
    for word in core.split(is_joiner).filter(|word| !word.is_empty()) {
        emit_word(word, emit);
    }
    for segment in core.split(['/', '@']).filter(|segment| segment.len() < core.len()) {
        let segment = segment.trim_matches(is_joiner);
        if segment.len() >= MIN_SEGMENT_BYTES && segment.contains(is_joiner) && is_name(segment) {
            emit(segment);
        }
    }
    let flag = run.as_bytes()[..run.len() - run.trim_start_matches(is_joiner).len()].ends_with(b"--");
    if core.len() < MIN_COMPOUND_BYTES || !(flag || core.contains(is_joiner)) || !is_name(core) {
        return;
    }
    if flag {
        buffer.clear();
        buffer.push_str("--");
        buffer.push_str(core);
        emit(buffer);
    } else {
        emit(core);
    }
}

/// A compound of a few digits alone is a number and mentions nothing. Any other compound is a name.
fn is_name(compound: &str) -> bool {
    let bytes = compound.as_bytes();
    let digits_alone = bytes.iter().all(|&byte| byte < 128 && ASCII[byte as usize] & (DIGIT | JOINER) != 0);
    !digits_alone || bytes.len() >= MIN_ID_CHARS
}

#[expect(clippy::cast_possible_truncation, reason = "half of the hash is enough to tell a conversation's names apart")]
fn hash(feature: &str) -> u32 {
    xxhash_rust::xxh3::xxh3_64(feature.as_bytes()) as u32
}

/// Keeps lines apart from names of the same letters.
const LINES_SEED: u64 = 1;

/// The hash of a line that is long enough to be a mention; `folded` is scratch.
#[expect(clippy::cast_possible_truncation, reason = "as for names")]
fn hash_of_line(line: &str, folded: &mut String) -> Option<u32> {
    let line = without_number(line).trim();
    if line.len() < MIN_LINE_CHARS {
        return None;
    }
    let mut before = b'.';
    let is_folded = line.bytes().all(|byte| {
        let run = byte.is_ascii_whitespace() && (byte != b' ' || before == b' ');
        before = byte;
        !run && byte < 128
    });
    let line = if is_folded {
        line
    } else {
        folded.clear();
        for word in line.split_whitespace() {
            if !folded.is_empty() {
                folded.push(' ');
            }
            folded.push_str(word);
        }
        folded.as_str()
    };
    let is_long = line.is_ascii() || line.chars().nth(MIN_LINE_CHARS - 1).is_some();
    (is_long && line.len() >= MIN_LINE_CHARS)
        .then(|| xxhash_rust::xxh3::xxh3_64_with_seed(line.as_bytes(), LINES_SEED) as u32)
}

/// A line without the number that `cat -n` and editors write in front of it.
fn without_number(line: &str) -> &str {
    let trimmed = line.trim_start_matches(' ');
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let after = &trimmed[digits..];
    let body = after.strip_prefix('\t').or_else(|| after.strip_prefix('\u{2192}'));
    body.filter(|_| digits > 0).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        scan(text, |name| found.push(name.to_string()));
        found
    }

    #[test]
    fn a_path_mentions_its_file_name_and_itself() {
        assert_eq!(names("see ./src/app_main.py, line 12"), ["app_main", "app_main.py", "src/app_main.py"]);
    }

    #[test]
    fn identifiers_are_names_and_plain_words_are_not() {
        assert_eq!(
            names("call parseRow, snake_case, HTTP, f0a9 and Upper"),
            ["parseRow", "snake_case", "HTTP", "f0a9"]
        );
        assert!(names("The Größe of it").is_empty());
        assert!(names("__init__").is_empty(), "underscores at the ends join nothing");
    }

    #[test]
    fn a_long_number_is_an_id_and_a_short_one_names_nothing() {
        assert_eq!(
            names("order 4711 of item 104829375 for 0.4 on 2024-05-20"),
            ["4711", "104829375", "2024", "2024-05-20"]
        );
    }

    #[test]
    fn a_line_is_mentioned_without_its_number_and_with_its_white_space_folded() {
        let lines = |text: &str| -> Vec<Mention> {
            mentions(text).iter().copied().filter(|mention| mention.class == Class::Line).collect()
        };
        let plain = lines("return the harbour of it");
        assert_eq!(plain.len(), 1);
        for same in
            ["  return the  harbour\tof it \n", "   118\treturn the harbour of it", "7\u{2192}return the harbour of it"]
        {
            assert_eq!(lines(same), plain, "{same:?}");
        }
        assert!(lines("}\nelse:\n14 characters.\n").is_empty());
        assert_eq!(lines("漢字漢字漢字漢字漢字漢字漢字漢").len(), 1, "characters, not bytes");
        assert!(lines("漢字漢字漢字漢").is_empty());
    }

    #[test]
    fn a_time_stamp_names_its_date() {
        for stamp in ["2026-02-17T12:32Z", "2026-02-17T12:32:05.123+01:00", "2026-02-17T12"] {
            assert_eq!(names(&format!("at {stamp}, in")), ["2026", "2026-02-17"]);
        }
        assert_eq!(names("2026-02-17T1 is none"), ["2026", "17T1", "2026-02-17T1"]);
    }

    #[test]
    fn flags_keep_their_dashes() {
        assert_eq!(names("cargo test --no-run --quiet"), ["--no-run", "--quiet"]);
    }

    #[test]
    fn a_long_run_names_nothing() {
        assert!(names(&"a1".repeat(101)).is_empty());
        assert!(names(&format!("{}/", "a1.".repeat(100))).is_empty());
        assert_eq!(names("-- ... / @").len(), 0);
    }

    #[test]
    fn mentions_are_distinct_and_keep_the_strongest_class() {
        let found = mentions("lib/core lib/core core");
        assert!(found.windows(2).all(|pair| pair[0].hash < pair[1].hash));
        assert_eq!(found.iter().filter(|mention| mention.class == Class::Name).count(), 1);
    }

    #[test]
    fn packed_mentions_are_read_as_they_were_found() {
        for text in ["", "cores", "lib/core_1 4711 core, HTTP and 12345"] {
            let (found, mut packed) = (mentions(text), Vec::new());
            pack(&found, &mut packed);
            assert_eq!(PackedMentions::read(&packed).iter().collect::<Vec<_>>(), found.to_vec());
        }
    }
}
