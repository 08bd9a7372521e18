//! The word cache: the tokens of each short word as encoded last time, one direct-mapped table per thread.
//!
//! A table has [`SLOTS`] slots of 32 bytes. It is made when the thread first encodes, and never grows. It belongs to
//! one vocabulary at a time; encoding with another empties it.

use std::cell::RefCell;

use crate::cache::Handed;

/// The longest word, in bytes, that can be a key.
pub const MAX_KEY_BYTES: usize = 16;
/// The most tokens a cached word may have: with them a slot fills half a cache line.
const MAX_IDS: usize = 7;
/// 128 kB per thread, within its core's cache. Four times as much gained a sixth on conversations
/// (`benches/wordpiece.rs`).
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 12;

/// Calls `encode` with this thread's cache, emptied first if it was another vocabulary's.
pub fn with_thread_cache<R>(identity: u64, encode: impl FnOnce(&mut WordCache) -> R) -> R {
    // Taken, not borrowed: a checkpoint may run a signal handler that encodes too.
    let mut cache = CACHE.take();
    if cache.identity != identity {
        cache.slots.clear();
        cache.slots.resize(SLOTS, Slot { key: Key([0; 2]), ids: [0; MAX_IDS], len: 0 });
        cache.identity = identity;
    }
    let encoded = encode(&mut cache);
    CACHE.set(cache);
    encoded
}

thread_local! {
    static CACHE: RefCell<WordCache> = const { RefCell::new(WordCache { slots: Vec::new(), identity: 0 }) };
}

/// The cache, handed from helper to helper.
pub(crate) static HANDED: Handed<WordCache> = Handed::new(&CACHE);

#[derive(Default)]
pub struct WordCache {
    slots: Vec<Slot>,
    identity: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    key: Key,
    ids: [u16; MAX_IDS],
    len: u8,
}

impl WordCache {
    /// Appends the ids of `key` if they are here.
    #[inline]
    pub fn recall(&self, key: Key, ids: &mut Vec<u16>) -> bool {
        let slot = &self.slots[key.slot()];
        let hit = slot.key == key;
        if hit {
            // A copy of fixed length, cut afterwards, is one store. One of variable length would be a call.
            let end = ids.len() + usize::from(slot.len);
            ids.extend_from_slice(&slot.ids);
            ids.truncate(end);
        }
        hit
    }

    /// Keeps the ids of `key` in its slot, unless they are too many.
    pub fn remember(&mut self, key: Key, ids: &[u16]) {
        let slot = &mut self.slots[key.slot()];
        if let Some(kept) = slot.ids.get_mut(..ids.len()) {
            kept.copy_from_slice(ids);
            slot.key = key;
            slot.len = ids.len() as u8;
        }
    }
}

/// Up to [`MAX_KEY_BYTES`] bytes of text as two little-endian words, filled up with zeros.
///
/// A text that ends in NUL has the key of the same text without it, and all NULs that of the empty slot. Both are right:
/// the normaliser drops NULs, so they have the same ids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u64; 2]);

impl Key {
    /// The bytes from `start` on; beyond the end of the text, zeros.
    #[inline]
    pub fn load(bytes: &[u8], start: usize) -> Key {
        let tail = &bytes[start..];
        if let Some(window) = tail.first_chunk::<MAX_KEY_BYTES>() {
            return Key::from_bytes(*window);
        }
        let mut window = [0; MAX_KEY_BYTES];
        window[..tail.len()].copy_from_slice(tail);
        Key::from_bytes(window)
    }

    #[inline]
    fn from_bytes(window: [u8; MAX_KEY_BYTES]) -> Key {
        let both = u128::from_le_bytes(window);
        Key([both as u64, (both >> 64) as u64])
    }

    pub fn bytes(self) -> [u8; MAX_KEY_BYTES] {
        (u128::from(self.0[0]) | (u128::from(self.0[1]) << 64)).to_le_bytes()
    }

    /// The number of ASCII letters and digits at the beginning.
    #[inline]
    pub fn word_len(self) -> usize {
        match non_word_bytes(self.0[0]) {
            0 => 8 + non_word_bytes(self.0[1]).trailing_zeros() as usize / 8,
            flags => flags.trailing_zeros() as usize / 8,
        }
    }

    /// The first `len` bytes, with zeros for the rest.
    #[inline]
    pub fn prefix(self, len: usize) -> Key {
        let [low, high] = MASKS[len];
        Key([self.0[0] & low, self.0[1] & high])
    }

    /// The first `len` bytes, ASCII letters and digits, in lower case: digits have the bit that makes the difference.
    #[inline]
    pub fn lowercase_word(self, len: usize) -> Key {
        const LOWER: u64 = ONES * 0x20;
        Key([self.0[0] | LOWER, self.0[1] | LOWER]).prefix(len)
    }

    #[inline]
    fn slot(self) -> usize {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let mixed = (self.0[0] ^ self.0[1].wrapping_mul(ODD).rotate_left(29)).wrapping_mul(ODD);
        (mixed >> (u64::BITS - SLOT_BITS)) as usize
    }
}

/// Every byte of it 1.
const ONES: u64 = u64::MAX / 0xFF;

const MASKS: [[u64; 2]; MAX_KEY_BYTES + 1] = {
    let mut masks = [[u64::MAX; 2]; MAX_KEY_BYTES + 1];
    let mut len = 0;
    while len < MAX_KEY_BYTES {
        let mask = (1u128 << (8 * len)) - 1;
        masks[len] = [mask as u64, (mask >> 64) as u64];
        len += 1;
    }
    masks
};

/// The top bit of every byte of `window` that is not an ASCII letter or digit.
///
/// Eight comparisons at once: adding `0x80 - x` to a byte below 0x80 sets its top bit just if it is at least `x`, and
/// carries nothing into the next.
#[inline]
fn non_word_bytes(window: u64) -> u64 {
    const TOPS: u64 = ONES * 0x80;
    const fn at_least(bytes: u64, limit: u8) -> u64 {
        bytes + ONES * (0x80 - limit as u64)
    }
    let low = window & !TOPS;
    let lower = low | (ONES * 0x20);
    let letters = at_least(lower, b'a') & !at_least(lower, b'z' + 1);
    let digits = at_least(low, b'0') & !at_least(low, b'9' + 1);
    !((letters | digits) & !window) & TOPS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_ends_at_the_first_byte_that_is_no_letter_or_digit() {
        for byte in 0..=u8::MAX {
            for at in 0..MAX_KEY_BYTES {
                let mut window = *b"aZ09mNzAbc5678xY";
                window[at] = byte;
                let expected = if byte.is_ascii_alphanumeric() { MAX_KEY_BYTES } else { at };
                assert_eq!(Key::from_bytes(window).word_len(), expected, "byte {byte:#x} at {at}");
            }
        }
    }

    #[test]
    fn a_key_is_the_word_in_lower_case_with_zeros_behind() {
        let text = b"HTTP2Server_x";
        let window = Key::load(text, 0);
        assert_eq!(window.word_len(), 11);
        assert_eq!(window.lowercase_word(11).bytes(), *b"http2server\0\0\0\0\0");
        assert_eq!(Key::load(text, 12).bytes(), *b"x\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn a_cache_used_by_two_vocabularies_never_mixes_them() {
        let key = Key::from_bytes(*b"word\0\0\0\0\0\0\0\0\0\0\0\0");
        let mut ids = Vec::new();
        with_thread_cache(u64::MAX, |cache| cache.remember(key, &[7, 8]));
        assert!(with_thread_cache(u64::MAX, |cache| cache.recall(key, &mut ids)));
        assert!(!with_thread_cache(u64::MAX - 1, |cache| cache.recall(key, &mut ids)));
        assert!(!with_thread_cache(u64::MAX, |cache| cache.recall(key, &mut ids)));
        assert_eq!(ids, [7, 8]);
    }

    #[test]
    fn a_word_of_too_many_tokens_is_not_kept() {
        let key = Key::from_bytes(*b"0123456789abcdef");
        with_thread_cache(u64::MAX, |cache| {
            cache.remember(key, &[1; MAX_IDS + 1]);
            assert!(!cache.recall(key, &mut Vec::new()));
        });
    }
}
