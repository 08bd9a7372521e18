//! Stems of English words, and the words that say nothing of a subject.
use once_cell::race::OnceBox;

/// Whether a lower-cased word says nothing of a subject.
pub(crate) fn is_stop_word(word: &str) -> bool {
    is_stop_word_of(word.as_bytes())
}

/// A light suffix stripper for ASCII words: researching, researched, researches -> research.
pub(crate) fn stem(word: &mut String) -> &str {
    let mut bytes = std::mem::take(word).into_bytes();
    let length = stemmed(&mut bytes);
    bytes.truncate(length);
    *word = String::from_utf8(bytes).expect("only whole ASCII words change");
    word
}

/// The same of a word's bytes: how many of them stay.
pub(crate) fn stemmed(word: &mut [u8]) -> usize {
    let whole = word.len();
    if whole <= 3 || !word.iter().all(u8::is_ascii_alphabetic) {
        return whole;
    }
    let mut length = whole;
    let suffixes: &[&[u8]] = match word[whole - 1] {
        b's' => &[b"ies", b"s"],
        b'g' => &[b"ing"],
        b'd' => &[b"ed"],
        b'y' => &[b"ly"],
        _ => &[],
    };
    let fits = |suffix: &&&[u8]| word.ends_with(suffix) && whole - suffix.len() >= 3 && !word.ends_with(b"ss");
    if let Some(suffix) = suffixes.iter().find(fits) {
        length -= suffix.len();
        if *suffix == b"ies" {
            word[length] = b'y';
            length += 1;
        }
    }
    if length > 3 && word[length - 1] == b'e' {
        length -= 1;
    }
    if length > 3 && word[length - 1] == word[length - 2] && b"bdfgmnprt".contains(&word[length - 1]) {
        length -= 1;
    }
    length
}

/// English words that say nothing of a subject.
const STOP_WORDS: &str = "a an the and or but if of at by for with about to from in on off is are was were be been being \
    do does did done have has had having i you he she it we they me him her them my your his its our their this that \
    these those what which who whom whose when where why how will would can could should may might must not no so than \
    too very just as into then there here also s t ll re ve m d now next please ok okay yes thanks thank let continue";

pub(crate) fn is_stop_word_of(bytes: &[u8]) -> bool {
    static SET: OnceBox<WordSet> = OnceBox::new();
    SET.get_or_init(|| Box::new(WordSet::of(STOP_WORDS))).contains(bytes)
}

/// A few words of eight bytes at most, each as one number.
struct WordSet([u64; 512]);

impl WordSet {
    fn of(words: &str) -> Self {
        let mut set = Self([0; 512]);
        for word in words.split(' ') {
            let key = Self::key(word.as_bytes()).expect("short words");
            let slot = set.slot(key);
            set.0[slot] = key;
        }
        set
    }

    #[inline]
    fn contains(&self, word: &[u8]) -> bool {
        Self::key(word).is_some_and(|key| key != 0 && self.0[self.slot(key)] == key)
    }

    /// The word as a number; None if it is too long, or has a zero byte, which no word has.
    #[inline]
    fn key(word: &[u8]) -> Option<u64> {
        if word.len() > 8 || word.contains(&0) {
            return None;
        }
        Some(word.iter().fold(0, |key, &byte| key << 8 | u64::from(byte)))
    }

    /// The slot of the word, or the free slot for it.
    #[inline]
    fn slot(&self, key: u64) -> usize {
        // Fibonacci hashing: the high bits of a product (Knuth, The Art of Computer Programming, 6.4).
        let mut slot = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - 9)) as usize;
        while self.0[slot] != 0 && self.0[slot] != key {
            slot = (slot + 1) % self.0.len();
        }
        slot
    }
}
