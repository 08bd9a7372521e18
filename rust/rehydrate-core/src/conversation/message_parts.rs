//! A conversation whose long texts may be kept in part: each divided message is a skeleton and blocks.
//!
//! The skeleton is the part that cannot be divided: tool inputs, thinking, media, short texts. It and every block are
//! *parts*. Everything that reads messages (signals, features) reads parts instead, each with the role of its message.
use std::fmt::Write;
use std::sync::Arc;

use crate::cache::Cached;
use crate::conversation::unit::{Conversation, Message};
use crate::error::{Error, Result};
use crate::excerpts::blocks::{Division, divide};
use crate::packing::pack::Blocks;

/// The texts that may be divided, and the cost of a gap's mark.
#[derive(Clone, Copy, Debug)]
pub struct Excerpting<'a> {
    /// Per piece, whether it may be divided. System messages always stay whole. In a unit that is always kept, the
    /// blocks of divisible texts compete like all others.
    pub divisible: &'a [bool],
    /// The raw count of a mark with numbers under 1,000, and of one with larger numbers.
    pub mark_counts: [u32; 2],
    /// If the caller counts by its own measure, the tokens of each block of each divided text.
    pub block_counts: Option<&'a [u32]>,
}

/// Tokens that a gap is charged where blocks compete: some more than its mark has, for fewer and longer stretches.
const GAP_TOKENS: u32 = 30;
/// A mark with a number from here on is a large one.
const LARGE_NUMBER: usize = 1_000;

impl Excerpting<'_> {
    pub(crate) fn verify(&self, conversation: &Conversation<'_>) -> Result<()> {
        if self.divisible.len() == conversation.pieces.len() {
            return Ok(());
        }
        let (flags, pieces) = (self.divisible.len(), conversation.pieces.len());
        Err(Error::Argument(format!("{flags} flags of divisible texts for {pieces} texts")))
    }

    pub(crate) fn mark_count(&self, division: &Division) -> u32 {
        let largest = division.blocks.last().map_or(0, |block| block.last);
        self.mark_counts[usize::from(largest >= LARGE_NUMBER)]
    }
}

/// The division of a text, if it has one, as the engine's cache keeps it.
#[derive(Clone)]
pub struct CachedDivision(pub(crate) Option<Arc<Division>>);

impl CachedDivision {
    pub(crate) fn of(text: &str) -> Self {
        Self(divide(text).map(Arc::new))
    }
}

impl Cached for CachedDivision {
    fn held_bytes(&self) -> usize {
        self.0
            .as_ref()
            .map_or(0, |division| size_of::<Division>() + size_of_val(&*division.blocks) + 4 * size_of::<usize>())
    }
}

/// A text in blocks.
#[derive(Clone, Debug)]
pub struct DividedText {
    /// The number of the caller's piece.
    pub piece: usize,
    /// Its blocks.
    pub division: Arc<Division>,
}

/// A part's message, and of a block its position among [`super::prepared::Prepared::divided_texts`] and in that text.
pub type MessagePart = (usize, Option<(usize, usize)>);

/// A text as it is in a string of JSON, its quotes left out.
pub(crate) fn in_json(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + text.len() / 16);
    for char in text.chars() {
        match char {
            '"' => written.push_str("\\\""),
            '\\' => written.push_str("\\\\"),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            char if char < ' ' => write!(written, "\\u{:04x}", u32::from(char)).expect("a string takes it"),
            char => written.push(char),
        }
    }
    written
}

/// The parts of a conversation's messages.
#[derive(Default)]
pub(crate) struct MessageParts {
    /// Per part, the message that it is a part of.
    pub message: Vec<usize>,
    /// Per part, which block it is; None for a skeleton, and for a message that is not divided.
    pub block: Vec<Option<usize>>,
    /// Per part, its tokens, those of a mark for each whole text included in the skeleton.
    pub tokens: Vec<u32>,
    /// The texts that are divided, those of one unit together.
    pub texts: Vec<DividedText>,
    /// Per text, the tokens of a mark in it.
    pub mark_tokens: Vec<u32>,
    /// Per block, its part, its text and its position in it.
    pub blocks: Vec<ExcerptBlock>,
    /// Per unit, the blocks up to and with its own.
    pub ends: Vec<u32>,
    /// Per block, its text.
    pub text_of: Vec<u32>,
}

/// One block among those of all texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExcerptBlock {
    pub part: usize,
    pub text: usize,
    pub position: usize,
}

impl MessageParts {
    /// A skeleton, or a message that is whole.
    pub fn push_skeleton(&mut self, message: usize, tokens: u32) {
        self.message.push(message);
        self.block.push(None);
        self.tokens.push(tokens);
    }

    /// The next block of the text that was pushed last.
    pub fn push_block(&mut self, message: usize, position: usize, tokens: u32) {
        let part = self.message.len();
        self.message.push(message);
        self.block.push(Some(self.blocks.len()));
        self.tokens.push(tokens);
        self.blocks.push(ExcerptBlock { part, text: self.texts.len() - 1, position });
    }

    /// Order the blocks by unit, as packing wants them; units may interleave.
    pub fn finish(mut self, parts: &[Message], units: usize) -> Self {
        self.blocks.sort_by_key(|block| parts[block.part].unit);
        self.ends = vec![0; units];
        for (index, block) in self.blocks.iter().enumerate() {
            self.block[block.part] = Some(index);
            self.ends[parts[block.part].unit] += 1;
        }
        for unit in 1..units {
            self.ends[unit] += self.ends[unit - 1];
        }
        self.text_of =
            self.blocks.iter().map(|block| u32::try_from(block.text).expect("under 4 billion texts")).collect();
        self
    }

    /// The blocks of one unit.
    pub fn blocks_of(&self, unit: usize) -> &[ExcerptBlock] {
        let start = if unit == 0 { 0 } else { self.ends[unit - 1] as usize };
        &self.blocks[start..self.ends[unit] as usize]
    }

    pub fn for_packing(&self) -> Blocks<'_> {
        Blocks { ends: &self.ends, text: &self.text_of, mark_tokens: &self.mark_tokens, gap_charge: GAP_TOKENS }
    }
}

#[cfg(test)]
mod tests {
    use super::in_json;

    #[test]
    fn a_text_stands_in_json_with_its_escapes() {
        assert_eq!(in_json("a \"b\"\\\n\t\u{1}é🙂"), r#"a \"b\"\\\n\t\u0001é🙂"#);
    }
}
