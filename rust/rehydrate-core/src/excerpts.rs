//! Excerpts of long texts: the blocks that may be kept one by one.
pub(crate) mod blocks;
mod cut;
mod json;
mod lines;

pub use blocks::{Block, Division, divide};
pub use cut::{MAX_BLOCKS, MIN_BYTES, Measure};
