//! BM25 over the messages of one conversation.
use once_cell::race::OnceBox;

use crate::interrupt::{self, Pace, checkpoint, stretches};

/// The content words of a text: lower-cased, stemmed, without stop words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// Hash and count of each distinct word, by ascending hash.
    pub words: Box<[(u32, u32)]>,
    /// Number of words in all.
    pub length: u32,
    /// Words of a leading `Name: `, the speaker's label in group chats and in transcripts.
    pub speaker: Box<[u32]>,
}

impl Terms {
    /// How often the word of that hash occurs.
    #[must_use]
    pub fn count(&self, word: u32) -> u32 {
        self.words.binary_search_by_key(&word, |entry| entry.0).map_or(0, |at| self.words[at].1)
    }
}

/// A label at the start of a text is at most this long.
const MAX_LABEL_BYTES: usize = 60;

/// The words of `text`.
#[must_use]
pub fn terms(text: &str) -> Terms {
    let mut hashes = words(text);
    let length = u32::try_from(hashes.len()).unwrap_or(u32::MAX);
    interrupt::sort(&mut hashes);
    let count = |run: &[u32]| u32::try_from(run.len()).unwrap_or(u32::MAX);
    let words = hashes.chunk_by(|a, b| a == b).map(|run| (run[0], count(run))).collect();
    Terms { words, length, speaker: label(text).map(self::words).unwrap_or_default().into() }
}

fn label(text: &str) -> Option<&str> {
    let colon = memchr::memchr(b':', &text.as_bytes()[..text.len().min(MAX_LABEL_BYTES + 1)])?;
    let label = &text[..colon];
    (text.as_bytes().get(colon + 1) == Some(&b' ') && !label.contains('\n')).then_some(label)
}

/// Hashes of the content words of `text`, in order, with repeats: maximal runs of letters and digits, and each CJK
/// character by itself, since nothing stands between words there.
#[must_use]
pub fn words(text: &str) -> Vec<u32> {
    let mut found = Vec::with_capacity(text.len() / 6);
    stretches(text).for_each(|stretch| find_words(stretch, &mut found));
    found
}

fn find_words(text: &str, found: &mut Vec<u32>) {
    let mut word = String::new();
    let mut pace = Pace::default();
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        if char.is_ascii() {
            // Whole ASCII runs at once: this is nearly all of the text.
            let run = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
            if run > 0 {
                word.extend(rest[..run].bytes().map(|byte| char::from(byte.to_ascii_lowercase())));
                rest = &rest[run..];
            } else {
                finish(&mut word, found);
                rest = &rest[1..];
            }
            continue;
        }
        pace.step();
        if is_cjk(char) {
            finish(&mut word, found);
            word.push(char);
            finish(&mut word, found);
        } else if char.is_alphanumeric() {
            word.extend(char.to_lowercase());
        } else {
            finish(&mut word, found);
        }
        rest = &rest[char.len_utf8()..];
    }
    finish(&mut word, found);
}

/// Whether a lower-cased word says nothing of a subject.
pub(crate) fn is_stop_word(word: &str) -> bool {
    stop_words().contains(word)
}

fn finish(word: &mut String, found: &mut Vec<u32>) {
    if !word.is_empty() {
        if !is_stop_word(word) {
            found.push(hash(stem(word)));
        }
        word.clear();
    }
}

/// A light suffix stripper for ASCII words: researching, researched, researches -> research.
fn stem(word: &mut String) -> &str {
    if word.len() <= 3 || !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return word;
    }
    let suffixes = [("ies", "y"), ("ing", ""), ("ed", ""), ("ly", ""), ("s", "")];
    let fits = |suffix: &str| word.ends_with(suffix) && word.len() - suffix.len() >= 3 && !word.ends_with("ss");
    if let Some((suffix, ending)) = suffixes.into_iter().find(|(suffix, _)| fits(suffix)) {
        word.truncate(word.len() - suffix.len());
        word.push_str(ending);
    }
    if word.len() > 3 && word.ends_with('e') {
        word.pop();
    }
    let bytes = word.as_bytes();
    if let [.., before, last] = bytes
        && bytes.len() > 3
        && before == last
        && b"bdfgmnprt".contains(last)
    {
        word.pop();
    }
    word
}

/// Scripts written without spaces: ideographs, kana, Thai and their like are told apart character by character.
fn is_cjk(char: char) -> bool {
    matches!(u32::from(char), 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x2E80..=0x2FDF | 0x3040..=0x30FF
        | 0x31F0..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

#[expect(clippy::cast_possible_truncation, reason = "half of the hash is enough to tell a conversation's words apart")]
fn hash(word: &str) -> u32 {
    xxhash_rust::xxh3::xxh3_64(word.as_bytes()) as u32
}

/// English words that say nothing of a subject.
const STOP_WORDS: &str = "a an the and or but if of at by for with about to from in on off is are was were be been being \
    do does did done have has had having i you he she it we they me him her them my your his its our their this that \
    these those what which who whom whose when where why how will would can could should may might must not no so than \
    too very just as into then there here also s t ll re ve m d now next please ok okay yes thanks thank let continue";

fn stop_words() -> &'static WordSet {
    static SET: OnceBox<WordSet> = OnceBox::new();
    SET.get_or_init(|| Box::new(WordSet::of(STOP_WORDS)))
}

/// A few short words, looked up by one probe in most cases.
struct WordSet {
    slots: [&'static str; 512],
    longest: usize,
}

impl WordSet {
    fn of(words: &'static str) -> Self {
        let mut set = Self { slots: [""; 512], longest: 0 };
        for word in words.split(' ') {
            let slot = set.slot(word);
            set.slots[slot] = word;
            set.longest = set.longest.max(word.len());
        }
        set
    }

    fn contains(&self, word: &str) -> bool {
        word.len() <= self.longest && !self.slots[self.slot(word)].is_empty()
    }

    /// Where `word` stands, or the free slot where it would.
    fn slot(&self, word: &str) -> usize {
        let seed = word.bytes().fold(word.len(), |seed, byte| seed.wrapping_mul(31) ^ byte as usize);
        let probes = (0..self.slots.len()).map(|step| (seed + step) % self.slots.len());
        let mut free = probes.filter(|&slot| self.slots[slot].is_empty() || self.slots[slot] == word);
        free.next().expect("more slots than words")
    }
}

const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Inverse document frequency as BM25 has it (Robertson and Walker 1994, floored at 0 as in Lucene): `documents` in all,
/// a word in `with_it` of them.
#[must_use]
pub fn idf(documents: usize, with_it: f64) -> f64 {
    (1.0 + (documents as f64 - with_it + 0.5) / (with_it + 0.5)).ln()
}

/// BM25 of each document against the distinct words of a query; a document is the terms of its texts together.
#[must_use]
pub fn bm25(documents: &[Vec<&Terms>], query: &[u32]) -> Vec<f64> {
    let length = |document: &Vec<&Terms>| document.iter().map(|terms| f64::from(terms.length)).sum::<f64>();
    let lengths: Vec<f64> = documents.iter().map(length).collect();
    let average = (lengths.iter().sum::<f64>() / documents.len().max(1) as f64).max(1e-9);
    let mut scores = vec![0.0; documents.len()];
    let mut counts = vec![0.0; documents.len()];
    for &word in query {
        checkpoint();
        for (count, document) in counts.iter_mut().zip(documents) {
            *count = f64::from(document.iter().map(|terms| terms.count(word)).sum::<u32>());
        }
        let rarity = idf(documents.len(), counts.iter().filter(|&&count| count > 0.0).count() as f64);
        for ((score, &count), &length) in scores.iter_mut().zip(&counts).zip(&lengths) {
            *score += rarity * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / average));
        }
    }
    scores
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
    fn other_scripts_are_words_and_cjk_characters_stand_alone() {
        assert_eq!(words("Größe שלום").len(), 2);
        assert_eq!(words("漢字テスト").len(), 5);
        assert_eq!(words("GRÖSSE"), words("grösse"));
    }

    #[test]
    fn a_leading_name_is_the_speaker() {
        assert_eq!(terms("Caroline: hello").speaker.to_vec(), words("caroline"));
        assert!(terms("no label here").speaker.is_empty());
        assert!(terms("https://x").speaker.is_empty());
        assert!(terms("two\nlines: x").speaker.is_empty());
    }

    #[test]
    fn bm25_is_the_formula() {
        let texts = ["apple pie apple", "apple", "cherry tart with cream"].map(terms);
        let documents: Vec<Vec<&Terms>> = texts.iter().map(|terms| vec![terms]).collect();
        let scores = bm25(&documents, &words("apple"));
        // lengths 3, 1, 3 (no stop word), 7/3 on average; idf = ln(1 + 1.5 / 2.5)
        let expected =
            |tf: f64, length: f64| 1.6_f64.ln() * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / (7.0 / 3.0)));
        for (score, expected) in scores.iter().zip([expected(2.0, 3.0), expected(1.0, 1.0), 0.0]) {
            assert!((score - expected).abs() < 1e-12, "{score} {expected}");
        }
    }
}
