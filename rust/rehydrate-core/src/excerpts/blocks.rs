//! Division of a long text into blocks that a reader can follow: hunks, records, paragraphs, elements, whole lines.
//!
//! The blocks in sequence are the text, byte for byte. The kind of a text is guessed from its first lines; a wrong
//! guess costs a clumsy cut, never a byte. There is one pass over the text, without recursion, and blocks grow with the
//! text, so that there are never more than [`super::MAX_BLOCKS`].
use std::ops::Range;

use super::cut::{MIN_BYTES, Measure};
use super::{json, lines};

/// A stretch of a text that is kept or omitted whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its place, in bytes.
    pub bytes: Range<usize>,
    /// Its place, in characters.
    pub chars: Range<usize>,
    /// Its size in the measure of its text.
    pub count: usize,
    /// The number of its first line, element, member or character, from 1.
    pub first: usize,
    /// The number of its last.
    pub last: usize,
}

/// A text's blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// The unit in which they are counted.
    pub measure: Measure,
    /// End to end the whole text.
    pub blocks: Box<[Block]>,
}

/// Divide `text`, if it is long enough to gain by it.
///
/// ```
/// use rehydrate_core::excerpts::{Measure, divide};
///
/// let log: String = (0..50).map(|n| format!("2026-02-17 12:00:{n:02} request {n} served\n")).collect();
/// let division = divide(&log).expect("it is long");
/// assert_eq!(division.measure, Measure::Lines);
/// assert_eq!(division.blocks.last().unwrap().last, 50);
/// assert_eq!(divide("short"), None);
/// ```
#[must_use]
pub fn divide(text: &str) -> Option<Division> {
    if text.len() < MIN_BYTES {
        return None;
    }
    let (measure, candidates) = json::candidates(text).unwrap_or_else(|| lines::candidates(text));
    let cuts = candidates.cuts(text.len());
    let is_ascii = text.is_ascii();
    let total = candidates.total();
    let mut blocks = Vec::with_capacity(cuts.len() + 1);
    let (mut start, mut start_char, mut start_index) = (0, 0, 0);
    for (end, end_index) in cuts.into_iter().chain([(text.len(), total)]) {
        let part = &text[start..end];
        let chars = start_char + if is_ascii { part.len() } else { part.chars().count() };
        let (count, first, last) = match measure {
            Measure::Characters => (chars - start_char, start_char + 1, chars),
            Measure::Lines => {
                let (first, last) = lines::numbers(part).unwrap_or((start_index + 1, end_index));
                (end_index - start_index, first, last)
            }
            Measure::Elements | Measure::Members => (end_index - start_index, start_index + 1, end_index),
        };
        blocks.push(Block { bytes: start..end, chars: start_char..chars, count, first, last });
        (start, start_char, start_index) = (end, chars, end_index);
    }
    Some(Division { measure, blocks: blocks.into() })
}
