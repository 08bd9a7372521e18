//! The vocabularies: the byte strings that are tokens, and the order in which they merge.
//!
//! A table is a hash table in the binary's read-only data, written by `build.rs`: there is nothing to load, decode or
//! allocate at first use, the operating system pages in what is touched.

use super::layout::{self, Key, LONGEST, SHORT};

/// The tokens of one encoding.
pub struct Vocabulary {
    /// 64-bit little-endian slots; see `layout.rs`.
    slots: &'static [u8],
    slot_bits: u32,
    /// The tokens' bytes, and sixteen more.
    bytes: &'static [u8],
}

/// "Not a token": ranks after every other.
pub const NO_RANK: u32 = u32::MAX;

macro_rules! vocabulary {
    ($name:literal) => {{
        const SLOTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".slots"));
        Vocabulary {
            slots: SLOTS,
            slot_bits: (SLOTS.len() / 8).ilog2(),
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bytes")),
        }
    }};
}

pub static O200K_BASE: Vocabulary = vocabulary!("o200k_base");
pub static CL100K_BASE: Vocabulary = vocabulary!("cl100k_base");

impl Vocabulary {
    /// The rank of a piece: the smaller, the earlier it merges. [`NO_RANK`] if it isn't a token.
    pub fn rank(&self, piece: &[u8]) -> u32 {
        match piece.len() {
            1..=SHORT => self.rank_of_key(layout::key(layout::window(piece, 0), piece.len())),
            16..=LONGEST => self.find(layout::hash(piece), piece.len(), |start| self.bytes[start..].starts_with(piece)),
            _ => NO_RANK,
        }
    }

    /// [`Vocabulary::rank`] of a short piece.
    #[inline]
    pub fn rank_of_key(&self, key: Key) -> u32 {
        let len = (key >> 120) as usize;
        self.find(layout::hash_key(key), len, |start| layout::key(layout::window(self.bytes, start), len) == key)
    }

    #[inline(always)]
    fn find(&self, hash: u64, len: usize, is_at: impl Fn(usize) -> bool) -> u32 {
        let print = layout::print(hash, len);
        let mut index = layout::first_slot(hash, self.slot_bits);
        loop {
            let slot = &self.slots[8 * index..8 * index + 8];
            let slot = u64::from_le_bytes(slot.try_into().expect("eight bytes"));
            if slot == 0 {
                return NO_RANK;
            }
            if layout::may_hold(slot, print) && is_at(layout::start(slot)) {
                return layout::rank(slot);
            }
            index = (index + 1) & ((1 << self.slot_bits) - 1);
        }
    }
}
