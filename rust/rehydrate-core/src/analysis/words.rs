//! The content words of a text: lower-cased, stemmed, without stop words; a speaker's label; whether it asks.
use crate::analysis::bit_packing::{self, Numbers};
use crate::analysis::scripts::{self, Script};
use crate::analysis::stems::{is_stop_word, is_stop_word_of, stem, stemmed};
use crate::interrupt::{self, Pace, STRETCH_BYTES, checkpoint, stretches};

/// The content words of a text: lower-cased, stemmed, without stop words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// Hash and count of each distinct word, by ascending hash.
    pub words: Box<[(u32, u32)]>,
    /// Number of words in all.
    pub length: u32,
    /// Whether it ends in a question.
    pub asks: bool,
    /// Words of a leading `Name: `, the speaker's label in group chats and in transcripts.
    pub speaker: Box<[u32]>,
}

impl Terms {
    /// Append them to `out`: length and whether it asks, counts over one, speaker, then the hashes.
    pub(crate) fn pack(&self, out: &mut Vec<u32>) {
        out.push((self.length << 1) | u32::from(self.asks));
        bit_packing::push(out, self.words.iter().map(|&(_, count)| count - 1));
        bit_packing::push(out, self.speaker.iter().copied());
        out.extend(self.words.iter().map(|&(hash, _)| hash));
    }
}

/// Terms as [`Terms::pack`] lays them out.
#[derive(Clone, Copy)]
pub(crate) struct PackedTerms<'a> {
    hashes: &'a [u32],
    more: Numbers<'a>,
    /// Number of words in all.
    pub length: u32,
    asks: bool,
    speaker: Numbers<'a>,
}

impl<'a> PackedTerms<'a> {
    pub fn read(section: &'a [u32]) -> Self {
        let (more, rest) = Numbers::split(&section[1..]);
        let (speaker, hashes) = Numbers::split(rest);
        Self { hashes, more, length: section[0] >> 1, asks: section[0] & 1 == 1, speaker }
    }

    /// Whether the text ends in a question.
    pub fn asks(self) -> bool {
        self.asks
    }

    /// Words of the speaker's label.
    pub fn speaker(self) -> Numbers<'a> {
        self.speaker
    }

    /// The number of times that the word with this hash occurs. Hashes are spread evenly, so its index is guessed and
    /// then walked to: half the time of a binary search.
    pub fn count(self, word: u32) -> u32 {
        let hashes = self.hashes;
        let mut at = ((u64::from(word) * hashes.len() as u64) >> 32) as usize;
        while at > 0 && hashes[at - 1] >= word {
            at -= 1;
        }
        while at < hashes.len() && hashes[at] < word {
            at += 1;
        }
        if hashes.get(at) == Some(&word) { self.more.get(at) + 1 } else { 0 }
    }
}

/// A label at the start of a text is at most this long.
const MAX_LABEL_BYTES: usize = 60;

/// The words of `text`.
#[must_use]
pub fn terms(text: &str) -> Terms {
    let mut hashes = words(text);
    let length = u32::try_from(hashes.len()).unwrap_or(u32::MAX).min(u32::MAX >> 1);
    interrupt::sort(&mut hashes);
    let count = |run: &[u32]| u32::try_from(run.len()).unwrap_or(u32::MAX);
    let words = hashes.chunk_by(|a, b| a == b).map(|run| (run[0], count(run))).collect();
    Terms { words, length, asks: asks(text), speaker: label(text).map(self::words).unwrap_or_default().into() }
}

/// The marks that end a question: Latin, full-width, Arabic, Greek, Armenian.
const QUESTION_MARKS: [char; 5] = ['?', '\u{FF1F}', '\u{61F}', '\u{37E}', '\u{55E}'];
/// Characters after the mark that are skipped: a smiley, a closing quote.
const AFTER_QUESTION: usize = 4;

/// Whether a text ends in a question: a question says less than its answer.
pub(crate) fn asks(text: &str) -> bool {
    let last = text.chars().rev().filter(|char| !char.is_whitespace()).take(AFTER_QUESTION + 1);
    last.take_while(|char| !char.is_alphanumeric()).any(|char| QUESTION_MARKS.contains(&char))
}

/// The speaker's label at the start of a text: `Name: `.
pub(crate) fn label(text: &str) -> Option<&str> {
    let colon = memchr::memchr(b':', &text.as_bytes()[..text.len().min(MAX_LABEL_BYTES + 1)])?;
    let label = &text[..colon];
    (text.as_bytes().get(colon + 1) == Some(&b' ') && !label.contains('\n')).then_some(label)
}

/// Hashes of the content words of `text`, in order, with repeats: maximal runs of Latin letters and digits. In other
/// scripts a word counts as itself and as its n-grams, which do not depend on its prefixes and endings; text without
/// spaces counts as n-grams only.
#[must_use]
pub fn words(text: &str) -> Vec<u32> {
    let mut found = Vec::with_capacity(text.len() / 6);
    stretches(text).for_each(|stretch| find_words(stretch, &mut found));
    found
}

/// A longer word takes the long way.
const PLAIN_BYTES: usize = 32;

/// Per byte, an ASCII letter in lower case, or a digit; 0 for all others.
const PLAIN: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() {
            table[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    table
};

/// Read the first word of `text` into `word`, if it is short and ASCII, as nearly all words of most texts are. Returns
/// its length.
#[inline]
fn plain_word(text: &[u8], word: &mut [u8; PLAIN_BYTES]) -> Option<usize> {
    for (length, &byte) in text.iter().enumerate() {
        let lower = PLAIN[byte as usize];
        if lower == 0 {
            return byte.is_ascii().then_some(length);
        }
        *word.get_mut(length)? = lower;
    }
    Some(text.len())
}

fn find_words(text: &str, found: &mut Vec<u32>) {
    let mut plain = [0; PLAIN_BYTES];
    let mut word = String::new();
    let mut pace = Pace::default();
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        pace.step();
        if word.is_empty()
            && let Some(length) = plain_word(rest.as_bytes(), &mut plain)
        {
            let short = &mut plain[..length];
            if length > 0 && !is_stop_word_of(short) {
                let stem = stemmed(short);
                found.push(hash(&short[..stem]));
            }
            rest = &rest[length.max(1)..];
            continue;
        }
        if char.is_ascii() {
            let run = rest.as_bytes()[..rest.len().min(STRETCH_BYTES)]
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric())
                .count();
            if run > 0 {
                let before = word.len();
                word.push_str(&rest[..run]);
                word[before..].make_ascii_lowercase();
                if run == STRETCH_BYTES {
                    checkpoint();
                }
                rest = &rest[run..];
            } else {
                finish(&mut word, found);
                rest = &rest[1..];
            }
            continue;
        }
        if let Some((script, run)) = scripts::foreign_run(rest) {
            finish(&mut word, found);
            find_foreign(run, script, found);
            rest = &rest[run.len()..];
            continue;
        }
        if char.is_alphanumeric() {
            word.extend(char.to_lowercase());
        } else if !scripts::is_mark(char) {
            finish(&mut word, found);
        }
        rest = &rest[char.len_utf8()..];
    }
    finish(&mut word, found);
}

fn find_foreign(run: &str, script: Script, found: &mut Vec<u32>) {
    let mut pace = Pace::default();
    if script != Script::Spaced {
        found.extend(scripts::shorter_and_grams(run, script).inspect(|_| pace.step()).map(hash));
        return;
    }
    let form = scripts::form(run);
    found.extend(scripts::form_and_grams(&form, script).inspect(|_| pace.step()).map(hash));
}

fn finish(word: &mut String, found: &mut Vec<u32>) {
    if !word.is_empty() {
        if !is_stop_word(word) {
            found.push(hash(stem(word)));
        }
        word.clear();
    }
}

#[expect(clippy::cast_possible_truncation, reason = "half of the hash is enough to tell a conversation's words apart")]
fn hash(word: impl AsRef<[u8]>) -> u32 {
    xxhash_rust::xxh3::xxh3_64(word.as_ref()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_are_one_word() {
        for form in ["research", "researching", "Researched", "researches", "RESEARCH"] {
            assert_eq!(words(form), words("research"), "{form}");
        }
        assert_eq!(words("stopped running classes"), words("stop run class"));
    }

    #[test]
    fn stop_words_say_nothing_and_underscores_separate() {
        assert!(words("what was the of IT").is_empty());
        assert_eq!(words("parse_row"), words("parse row"));
        assert_ne!(words("there"), words("weather"));
    }

    #[test]
    fn other_scripts_are_words_and_their_n_grams() {
        assert_eq!(words("Größe").len(), 1);
        assert_eq!(words("GRÖSSE"), words("grösse"));
        assert_eq!(words("שלום").len(), 3);
        assert_eq!(words("漢字テスト").len(), 5 + 4);
        assert_eq!(words("छूट").len(), 1, "vowel signs split no word");
        let shares = |a: &str, b: &str| words(a).iter().any(|word| words(b).contains(word));
        for (asked, said) in
            [("חשבוניות", "שהחשבוניות"), ("فواتير", "والفواتير"), ("счёт", "счета"), ("발행", "발행하고")]
        {
            assert!(shares(asked, said), "{asked} {said}");
        }
        assert!(!shares("скрипка", "поезд"));
    }

    #[test]
    fn a_leading_name_is_the_speaker() {
        assert_eq!(terms("Caroline: hello").speaker.to_vec(), words("caroline"));
        assert!(terms("no label here").speaker.is_empty());
        assert!(terms("https://x").speaker.is_empty());
        assert!(terms("two\nlines: x").speaker.is_empty());
    }

    #[test]
    fn a_question_is_known_by_how_the_text_ends() {
        for text in ["Which port?", "Wie viel?\n", "どこですか？", "أين؟", "\"Really?\" :)", "What?! \u{1F600}"]
        {
            assert!(asks(text) && terms(text).asks, "{text}");
        }
        for text in ["", "Port 8443.", "Why? Because it was free.", "https://x/?a=1", "a ? b : c"] {
            assert!(!asks(text), "{text}");
        }
    }

    fn packed(text: &str) -> Vec<u32> {
        let mut packed = Vec::new();
        terms(text).pack(&mut packed);
        packed
    }

    #[test]
    fn every_word_is_found_where_it_is_packed() {
        let text: String = (0..500).map(|n| format!("word{n} ").repeat(n % 5 + 1)).collect();
        for text in ["", "Caroline: one two two", "which one?", &text] {
            let (terms, packed) = (terms(text), packed(text));
            let read = PackedTerms::read(&packed);
            assert_eq!((read.length, read.asks()), (terms.length, terms.asks));
            for &(hash, count) in &terms.words {
                assert_eq!(read.count(hash), count);
                assert_eq!(read.count(hash.wrapping_add(1)), 0);
            }
            assert_eq!((read.count(0), read.count(u32::MAX)), (0, 0));
            assert_eq!(read.speaker().iter().collect::<Vec<_>>(), terms.speaker.to_vec());
        }
    }
}
