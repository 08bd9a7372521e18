//! The layout of a vocabulary table, shared by the build script that writes it and the code that reads it.

/// The longest piece that fits a [`Key`]: the sixteenth byte holds the length.
pub const SHORT: usize = 15;

/// No token is longer.
pub const LONGEST: usize = 128;

/// A piece of at most [`SHORT`] bytes as one number: its bytes from the low end, its length on top.
/// Equal keys are equal pieces.
pub type Key = u128;

/// Makes the key of the first `len` bytes of a sixteen-byte window. `len` is 1 to [`SHORT`].
#[inline(always)]
pub fn key(window: u128, len: usize) -> Key {
    debug_assert!((1..=SHORT).contains(&len));
    (window & (u128::MAX >> (128 - 8 * len))) | (len as u128) << 120
}

/// The hash of a short piece. It also places pieces in the word cache.
#[inline(always)]
pub fn hash_key(key: Key) -> u64 {
    fold(key as u64 ^ 0x9e37_79b9_7f4a_7c15, (key >> 64) as u64 ^ 0xd1b5_4a32_d192_ed03)
}

/// The hash of any piece; [`hash_key`] for short ones.
pub fn hash(piece: &[u8]) -> u64 {
    if piece.len() <= SHORT {
        return hash_key(key(window(piece, 0), piece.len()));
    }
    let mut hash = piece.len() as u64;
    for chunk in piece.chunks(16) {
        let chunk = window(chunk, 0);
        hash = fold(chunk as u64 ^ hash, (chunk >> 64) as u64 ^ 0xa076_1d64_78bd_642f).wrapping_add(hash);
    }
    fold(hash ^ 0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03)
}

/// The sixteen bytes from `start`, zeros after the end.
#[inline(always)]
pub fn window(bytes: &[u8], start: usize) -> u128 {
    match bytes.get(start..start + 16) {
        Some(chunk) => u128::from_le_bytes(chunk.try_into().expect("sixteen bytes")),
        None => window_at_end(bytes, start),
    }
}

#[cold]
fn window_at_end(bytes: &[u8], start: usize) -> u128 {
    let rest = &bytes[start.min(bytes.len())..];
    let mut chunk = [0; 16];
    chunk[..rest.len()].copy_from_slice(rest);
    u128::from_le_bytes(chunk)
}

/// The slot at which the search for a hash starts in a table of `1 << slot_bits` slots.
#[inline(always)]
pub fn first_slot(hash: u64, slot_bits: u32) -> usize {
    (hash >> (64 - slot_bits)) as usize
}

const RANK_BITS: u32 = 18;
const START_BITS: u32 = 21;
const LEN_BITS: u32 = 8;
const PRINT_SHIFT: u32 = RANK_BITS + START_BITS;

/// One token in the table: its rank, the start of its bytes, its length and part of its hash. Never 0: that is an empty
/// slot.
#[allow(dead_code, reason = "only the build script packs")]
pub fn pack(rank: u32, start: usize, len: usize, hash: u64) -> u64 {
    assert!(rank < 1 << RANK_BITS && start < 1 << START_BITS && (1..=LONGEST).contains(&len));
    print(hash, len) | (start as u64) << RANK_BITS | u64::from(rank)
}

/// The upper part of a slot whose token has this hash and length. A search compares it first.
#[inline(always)]
pub fn print(hash: u64, len: usize) -> u64 {
    hash << (PRINT_SHIFT + LEN_BITS) | (len as u64) << PRINT_SHIFT
}

/// Whether a slot may hold the token that `print` describes.
#[inline(always)]
pub fn may_hold(slot: u64, print: u64) -> bool {
    (slot ^ print) >> PRINT_SHIFT == 0
}

/// The rank of the token in a slot.
#[inline(always)]
pub fn rank(slot: u64) -> u32 {
    (slot & ((1 << RANK_BITS) - 1)) as u32
}

/// The start of the bytes of a slot's token.
#[inline(always)]
pub fn start(slot: u64) -> usize {
    (slot >> RANK_BITS) as usize & ((1 << START_BITS) - 1)
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
