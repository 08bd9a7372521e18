//! Excerpts of long texts: the blocks that may be kept one by one, and the names in what is left out.
pub(crate) mod blocks;
mod cut;
mod json;
mod lines;
pub mod outline;

pub use blocks::{Block, Division, divide};
pub use cut::{MAX_BLOCKS, MIN_BYTES, MIN_LINES, Measure};
