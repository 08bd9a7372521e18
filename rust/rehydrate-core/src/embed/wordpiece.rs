//! BERT's WordPiece tokenizer: text in, token ids out, equal to the `tokenizers` crate id for id.
//!
//! The contract is `BertNormalizer { clean_text, handle_chinese_chars, strip_accents, lowercase }`, then
//! `BertPreTokenizer`, then `WordPiece { "[UNK]", "##", 100 }`, with no special tokens: `[CLS]` in a text is five
//! characters of text. `tests/wordpiece.rs` holds the two side by side; `benches/wordpiece.rs` times them.
//!
//! Three paths, each taken only where the one before cannot decide:
//! 1. ASCII letters and digits, up to 16 bytes: found, lower-cased and looked up in the [`cache`] eight bytes at a
//!    time. ASCII punctuation is a table.
//! 2. A chunk (what is between ASCII white space and punctuation) that holds anything else: character by
//!    character through the tables of [`normal`].
//! 3. A chunk with a combining mark that survives the stripping: the normaliser's passes over the whole chunk, because
//!    such marks change places.
//!
//! Chunks are independent: ASCII white space and punctuation are never removed, never compose or decompose, and stop
//! the reordering of marks, so nothing to their left can change what is to their right.

mod cache;
mod normal;
mod trie;

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use self::cache::HANDED;
use self::cache::{Key, MAX_KEY_BYTES, WordCache};
use self::normal::Normal;
use self::trie::{Root, Trie};
use crate::error::Error;
use crate::interrupt::Pace;

/// Words of more characters than this are unknown, as in BERT.
const MAX_WORD_CHARS: usize = 100;
const UNKNOWN: &str = "[UNK]";
const CONTINUING: &str = "##";

/// A BERT vocabulary, ready to encode: immutable, to be shared between threads.
///
/// ```
/// use rehydrate_core::embed::wordpiece::WordPiece;
///
/// let tokenizer = WordPiece::from_vocab("[UNK]\nun\n##able\n!\n").unwrap();
/// let mut ids = Vec::new();
/// tokenizer.encode_into("Unable! Möglich", &mut ids);
/// assert_eq!(ids, [1, 2, 3, 0]);
/// ```
pub struct WordPiece {
    trie: Trie,
    unknown: u16,
    vocab_size: usize,
    /// The id of each ASCII punctuation mark, which is always a word of its own.
    punctuation: [u16; 128],
    /// Distinguishes this vocabulary's cached words from another's: caches belong to threads, not to tokenizers.
    identity: u64,
}

impl WordPiece {
    /// Reads a vocabulary, one token per line. A token's id is its line's number, from 0.
    ///
    /// # Errors
    /// An empty or repeated token, more than `u16::MAX` tokens, or no `[UNK]`.
    pub fn from_vocab(vocab: &str) -> Result<WordPiece, Error> {
        let mut starting = Vec::new();
        let mut continuing = Vec::new();
        let mut unknown = None;
        let mut vocab_size = 0;
        for (index, line) in vocab.lines().enumerate() {
            let token = line.trim_end();
            let number = index + 1;
            let id = u16::try_from(index).ok().filter(|&id| id < u16::MAX);
            let Some(id) = id else {
                let limit = u16::MAX;
                return Err(Error::Model(format!(
                    "vocabulary line {number}: more than {limit} tokens; token ids are 16 bits wide"
                )));
            };
            if token.is_empty() {
                return Err(Error::Model(format!("vocabulary line {number} is empty; every line must hold one token")));
            }
            if token == UNKNOWN {
                unknown = Some(id);
            }
            match token.strip_prefix(CONTINUING) {
                Some(rest) => continuing.push((rest.as_bytes(), id)),
                None => starting.push((token.as_bytes(), id)),
            }
            vocab_size = number;
        }
        let Some(unknown) = unknown else {
            return Err(Error::Model(format!(
                "vocabulary of {vocab_size} lines has no line {UNKNOWN}; add it: unknown words need an id"
            )));
        };
        for tokens in [&mut starting, &mut continuing] {
            tokens.sort_by_cached_key(|&(token, id)| (begin(token), token, id));
            for pair in tokens.windows(2) {
                if pair[0].0 == pair[1].0 {
                    let (first, second) = (pair[0].1 + 1, pair[1].1 + 1);
                    let token = vocab.lines().nth(usize::from(pair[1].1)).unwrap_or_default();
                    return Err(Error::Model(format!(
                        "vocabulary line {second}: token {token:?} is on line {first} already"
                    )));
                }
            }
        }
        Ok(Self::of(Trie::new(&starting, &continuing), unknown, vocab_size))
    }

    /// That of the built-in model. The build script has made its trie, which takes longer than all else at a start.
    pub(crate) fn builtin() -> WordPiece {
        mod made {
            include!(concat!(env!("OUT_DIR"), "/wordpiece.rs"));
        }
        Self::of(Trie::with_nodes(&made::NODES), made::UNKNOWN, made::VOCAB_SIZE)
    }

    fn of(trie: Trie, unknown: u16, vocab_size: usize) -> WordPiece {
        let mut tokenizer =
            WordPiece { trie, unknown, vocab_size, punctuation: [unknown; 128], identity: next_identity() };
        for byte in 0..128u8 {
            if let Some((id, 1)) = tokenizer.trie.longest_prefix(Root::Starting, &[byte]) {
                tokenizer.punctuation[usize::from(byte)] = id;
            }
        }
        tokenizer
    }

    /// The number of tokens; every id is below it.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Appends the token ids of `text`: no `[CLS]` or `[SEP]`, no truncation.
    ///
    /// Time is linear in `text`; each thread keeps a word cache of fixed size (see [`cache`]).
    pub fn encode_into(&self, text: &str, ids: &mut Vec<u16>) {
        cache::with_thread_cache(self.identity, |cache| self.encode(text, cache, ids));
    }

    fn encode(&self, text: &str, cache: &mut WordCache, ids: &mut Vec<u16>) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match CLASSES[usize::from(byte)] {
                Class::Space => at += 1,
                Class::Punctuation => {
                    ids.push(self.punctuation[usize::from(byte)]);
                    at += 1;
                }
                Class::Word | Class::Other => at = self.encode_chunk(text, at, cache, ids),
            }
        }
    }

    /// Encodes the text from `start` to the next ASCII white space or punctuation, and returns where that is.
    #[inline]
    fn encode_chunk(&self, text: &str, start: usize, cache: &mut WordCache, ids: &mut Vec<u16>) -> usize {
        let bytes = text.as_bytes();
        let window = Key::load(bytes, start);
        let word_len = window.word_len();
        let end = start + word_len;
        if bytes.get(end).is_some_and(|&byte| matches!(CLASSES[usize::from(byte)], Class::Word | Class::Other)) {
            return self.encode_long_or_unicode(text, start, end, cache, ids);
        }
        let key = window.lowercase_word(word_len);
        if !cache.recall(key, ids) {
            let first = ids.len();
            self.split_word(&key.bytes()[..word_len], ids);
            cache.remember(key, &ids[first..]);
        }
        end
    }

    /// The chunks that aren't short ASCII words. `known` is the end of the bytes already known to be letters or digits.
    #[cold]
    #[inline(never)]
    fn encode_long_or_unicode(
        &self,
        text: &str,
        start: usize,
        known: usize,
        cache: &mut WordCache,
        ids: &mut Vec<u16>,
    ) -> usize {
        let bytes = text.as_bytes();
        let mut end = known;
        let mut ascii_word = true;
        while let Some(&byte) = bytes.get(end) {
            match CLASSES[usize::from(byte)] {
                Class::Word => end += 1,
                Class::Other => {
                    ascii_word = false;
                    end += 1;
                }
                Class::Space | Class::Punctuation => break,
            }
        }
        let chunk = &text[start..end];
        if ascii_word {
            if chunk.len() > MAX_WORD_CHARS {
                ids.push(self.unknown);
            } else {
                let mut lower = [0; MAX_WORD_CHARS];
                let lower = &mut lower[..chunk.len()];
                lower.copy_from_slice(chunk.as_bytes());
                lower.make_ascii_lowercase();
                self.split_word(lower, ids);
            }
        } else if chunk.len() <= MAX_KEY_BYTES {
            let key = Key::load(bytes, start).prefix(chunk.len());
            if !cache.recall(key, ids) {
                let first = ids.len();
                self.encode_unicode(chunk, ids);
                cache.remember(key, &ids[first..]);
            }
        } else {
            self.encode_unicode(chunk, ids);
        }
        end
    }

    /// Normalises one chunk and encodes its words.
    fn encode_unicode(&self, chunk: &str, ids: &mut Vec<u16>) {
        let first = ids.len();
        let mut word = Word::new(self, ids);
        let mut pace = Pace::default();
        for char in chunk.chars() {
            pace.step();
            match normal::of(char) {
                Normal::Reorders => {
                    word.ids.truncate(first);
                    let mut word = Word::new(self, ids);
                    normal::chunk(chunk.chars().inspect(|_| pace.step()), |normal| word.take(normal));
                    word.finish();
                    return;
                }
                Normal::Several(sequence) => sequence.iter().for_each(|&normal| word.take(normal)),
                normal => word.take(normal),
            }
        }
        word.finish();
    }

    /// Splits one normalised word into the longest tokens from the left. If that fails anywhere, the word is unknown.
    fn split_word(&self, word: &[u8], ids: &mut Vec<u16>) {
        let first = ids.len();
        let mut root = Root::Starting;
        let mut rest = word;
        while !rest.is_empty() {
            let Some((id, len)) = self.trie.longest_prefix(root, rest) else {
                ids.truncate(first);
                ids.push(self.unknown);
                return;
            };
            ids.push(id);
            rest = &rest[len..];
            root = Root::Continuing;
        }
    }
}

/// A word under construction: it is encoded when it ends, and counted but not kept beyond [`MAX_WORD_CHARS`].
struct Word<'a> {
    tokenizer: &'a WordPiece,
    ids: &'a mut Vec<u16>,
    utf8: [u8; MAX_WORD_CHARS * 4],
    len: usize,
    chars: usize,
}

impl<'a> Word<'a> {
    fn new(tokenizer: &'a WordPiece, ids: &'a mut Vec<u16>) -> Self {
        Word { tokenizer, ids, utf8: [0; MAX_WORD_CHARS * 4], len: 0, chars: 0 }
    }

    #[inline]
    fn take(&mut self, normal: Normal) {
        match normal {
            Normal::Letter(char) => self.push(char),
            Normal::Boundary => self.finish(),
            Normal::Alone(char) => {
                self.finish();
                self.push(char);
                self.finish();
            }
            Normal::Several(sequence) => sequence.iter().for_each(|&normal| self.take(normal)),
            Normal::Nothing | Normal::Reorders => {}
        }
    }

    #[inline]
    fn push(&mut self, char: char) {
        if self.chars < MAX_WORD_CHARS {
            self.len += char.encode_utf8(&mut self.utf8[self.len..]).len();
        }
        self.chars += 1;
    }

    #[inline]
    fn finish(&mut self) {
        if self.chars > MAX_WORD_CHARS {
            self.ids.push(self.tokenizer.unknown);
        } else {
            self.tokenizer.split_word(&self.utf8[..self.len], self.ids);
        }
        self.len = 0;
        self.chars = 0;
    }
}

/// The effect of an ASCII byte on the text around it. `Other` are bytes beyond ASCII, and the control characters, which
/// disappear without ending a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Space,
    Punctuation,
    Other,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 128 {
        let char = byte as u8;
        classes[byte] = match char {
            b' ' | b'\t' | b'\n' | b'\r' => Class::Space,
            _ if char.is_ascii_alphanumeric() => Class::Word,
            _ if char.is_ascii_punctuation() => Class::Punctuation,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

/// The first eight bytes of a token, in the order of the tokens: most comparisons end there.
fn begin(token: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(token).for_each(|(byte, &from)| *byte = from);
    u64::from_be_bytes(bytes)
}

fn next_identity() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_script_makes_the_trie_that_the_vocabulary_gives() {
        let read = WordPiece::from_vocab(include_str!("../../model/vocab.txt")).unwrap();
        let made = WordPiece::builtin();
        assert!(made.trie.nodes() == read.trie.nodes());
        assert_eq!((made.unknown, made.vocab_size), (read.unknown, read.vocab_size));
    }
}
