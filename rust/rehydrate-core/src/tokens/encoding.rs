//! Exact counts of an encoding: split the text, look each piece up, merge those not seen lately.

use std::cell::RefCell;
use std::thread::LocalKey;

use rustc_hash::FxHashMap;

use crate::cache::Handed;
use crate::interrupt::{STRETCH_BYTES, checkpoint};

use super::layout::{self, Key, SHORT};
use super::vocabulary::{self, Vocabulary};
use super::{merge, split};

/// The number of tokens of a text in o200k_base.
pub fn o200k_base(text: &str) -> usize {
    count(text, split::o200k_base, &vocabulary::O200K_BASE, &SEEN_O200K)
}

/// The number of tokens of a text in cl100k_base.
pub fn cl100k_base(text: &str) -> usize {
    count(text, split::cl100k_base, &vocabulary::CL100K_BASE, &SEEN_CL100K)
}

thread_local! {
    static SEEN_O200K: RefCell<Seen> = const { RefCell::new(Seen::new()) };
    static SEEN_CL100K: RefCell<Seen> = const { RefCell::new(Seen::new()) };
}

/// Both caches, handed from helper to helper.
pub(crate) static HANDED: [Handed<Seen>; 2] = [Handed::new(&SEEN_O200K), Handed::new(&SEEN_CL100K)];

#[inline(always)]
fn count(
    text: &str,
    piece_end: impl Fn(&str, usize) -> usize,
    vocabulary: &Vocabulary,
    seen: &'static LocalKey<RefCell<Seen>>,
) -> usize {
    // Taken, not borrowed: a checkpoint may run a signal handler that counts too.
    let mut words = seen.take();
    let bytes = text.as_bytes();
    let (mut tokens, mut start) = (0, 0);
    while start < bytes.len() {
        let stretch_end = bytes.len().min(start + STRETCH_BYTES);
        while start < stretch_end {
            let end = piece_end(text, start);
            tokens += match end - start {
                len @ 1..=SHORT => words.short(layout::key(layout::window(bytes, start), len), vocabulary),
                _ => words.long(&bytes[start..end], vocabulary),
            } as usize;
            start = end;
        }
        checkpoint();
    }
    seen.set(words);
    tokens
}

/// The counts of pieces seen lately by this thread: most words of a conversation come again.
#[derive(Default)]
pub(crate) struct Seen {
    /// Short pieces, each in the one slot its hash names. An entry is the key with the count in the free half of the
    /// length byte (a piece of 15 bytes has at most 15 tokens), 0 if there is none.
    short: Vec<u128>,
    /// Longer pieces, which are rare in Latin scripts and the rule in others.
    long: FxHashMap<Box<[u8]>, u32>,
}

const SHORT_BITS: u32 = 14;
const LONG_ENTRIES: usize = 4096;
/// Longer ones hardly ever come again.
const LONG_BYTES: usize = 128;

impl Seen {
    const fn new() -> Self {
        Self { short: Vec::new(), long: FxHashMap::with_hasher(rustc_hash::FxBuildHasher) }
    }

    #[inline(always)]
    fn short(&mut self, key: Key, vocabulary: &Vocabulary) -> u32 {
        let slot = layout::first_slot(layout::hash_key(key), SHORT_BITS);
        match self.short.get(slot) {
            Some(&entry) if (entry ^ key) << 4 == 0 => (entry >> 124) as u32,
            _ => self.learn(slot, key, vocabulary),
        }
    }

    #[cold]
    #[inline(never)]
    fn learn(&mut self, slot: usize, key: Key, vocabulary: &Vocabulary) -> u32 {
        if self.short.is_empty() {
            self.short = vec![0; 1 << SHORT_BITS];
        }
        let tokens = merge::count_key(vocabulary, key);
        self.short[slot] = key | u128::from(tokens) << 124;
        tokens
    }

    #[cold]
    #[inline(never)]
    fn long(&mut self, piece: &[u8], vocabulary: &Vocabulary) -> u32 {
        if piece.len() > LONG_BYTES {
            return merge::count(vocabulary, piece);
        }
        if let Some(&tokens) = self.long.get(piece) {
            return tokens;
        }
        let tokens = merge::count(vocabulary, piece);
        if self.long.len() == LONG_ENTRIES {
            self.long.clear();
        }
        self.long.insert(piece.into(), tokens);
        tokens
    }
}
