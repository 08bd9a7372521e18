//! Byte-pair merging of one piece: the number of tokens that remain when no two neighbours form a token.
//!
//! The two neighbours whose union has the lowest rank merge first, the leftmost of equals before the others.

use std::collections::BTreeMap;

use crate::interrupt::{self, Pace};

use super::layout::{self, Key};
use super::vocabulary::{NO_RANK, Vocabulary};

/// Up to this length a scan for the minimum beats any queue.
const SCANNED: usize = 96;

/// The tokens of a piece of at least one byte.
pub fn count(vocabulary: &Vocabulary, piece: &[u8]) -> u32 {
    if vocabulary.rank(piece) != NO_RANK {
        1
    } else if piece.len() <= SCANNED {
        count_by_scan(piece.len(), |start, end| vocabulary.rank(&piece[start..end]))
    } else {
        count_by_rank(vocabulary, piece)
    }
}

/// [`count`] of a short piece: its parts are cut out of the key.
pub fn count_key(vocabulary: &Vocabulary, key: Key) -> u32 {
    if vocabulary.rank_of_key(key) != NO_RANK {
        return 1;
    }
    count_by_scan((key >> 120) as usize, |start, end| {
        vocabulary.rank_of_key(layout::key(key >> (8 * start), end - start))
    })
}

/// Looks through all neighbours for each merge. `rank` is asked about byte ranges of the piece.
fn count_by_scan(len: usize, rank: impl Fn(usize, usize) -> u32) -> u32 {
    // Part i goes from starts[i] to starts[i + 1]; unions[i] is the rank of part i together with part i + 1.
    let mut starts = [0u8; SCANNED + 1];
    let mut unions = [NO_RANK; SCANNED + 1];
    for i in 0..=len {
        starts[i] = i as u8;
        if i + 2 <= len {
            unions[i] = rank(i, i + 2);
        }
    }
    let mut parts = len;
    loop {
        let (mut lowest, mut at) = (NO_RANK, 0);
        for (i, &union) in unions[..parts.saturating_sub(1)].iter().enumerate() {
            if union < lowest {
                (lowest, at) = (union, i);
            }
        }
        if lowest == NO_RANK {
            return parts as u32;
        }
        starts.copy_within(at + 2..=parts, at + 1);
        unions.copy_within(at + 1..parts, at);
        parts -= 1;
        let union = |i: usize| match i + 2 <= parts {
            true => rank(starts[i].into(), starts[i + 2].into()),
            false => NO_RANK,
        };
        unions[at] = union(at);
        if at > 0 {
            unions[at - 1] = union(at - 1);
        }
    }
}

/// Merges rank by rank, for pieces of under 4 GiB.
///
/// A union ranks after both its parts, so no merge of one rank makes another of the same or a lower rank possible: each
/// rank is visited once, with the positions where it may apply from left to right.
fn count_by_rank(vocabulary: &Vocabulary, piece: &[u8]) -> u32 {
    // Positions in 32 bits: twelve bytes for one of text are enough, and freeing them takes time too.
    let len = u32::try_from(piece.len()).expect("a piece under 4 GiB");
    let union = |start: u32, end: u32| vocabulary.rank(&piece[start as usize..end as usize]);
    let mut positions: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    // For the first byte of a part: the end of the part, and the start of the one before it. ends is 0 elsewhere.
    // Filled with the first lookups, between whose checkpoints fresh memory comes in.
    let (mut ends, mut befores) = (Vec::with_capacity(piece.len()), Vec::with_capacity(piece.len()));
    let mut pace = Pace::default();
    for start in 0..len {
        pace.step();
        ends.push(start + 1);
        befores.push(start.saturating_sub(1));
        let rank = if start + 2 <= len { union(start, start + 2) } else { NO_RANK };
        if rank != NO_RANK {
            positions.entry(rank).or_default().push(start);
        }
    }
    let mut parts = len;
    while let Some((rank, mut starts)) = positions.pop_first() {
        interrupt::sort(&mut starts);
        for start in starts {
            pace.step();
            // The position is stale if a part there has merged otherwise since.
            let middle = ends[start as usize];
            if middle == 0 || middle == len || union(start, ends[middle as usize]) != rank {
                continue;
            }
            let end = ends[middle as usize];
            ends[start as usize] = end;
            ends[middle as usize] = 0;
            parts -= 1;
            if end < len {
                befores[end as usize] = start;
                let rank = union(start, ends[end as usize]);
                if rank != NO_RANK {
                    positions.entry(rank).or_default().push(start);
                }
            }
            if start > 0 {
                let before = befores[start as usize];
                let rank = union(before, end);
                if rank != NO_RANK {
                    positions.entry(rank).or_default().push(before);
                }
            }
        }
    }
    parts
}
