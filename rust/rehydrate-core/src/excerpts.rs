//! Excerpts of long texts: the blocks that may be kept one by one, and the passages that match a query.
pub(crate) mod blocks;
mod compared;
mod cut;
mod json;
mod lines;
mod marks;
mod pages;
mod passages;

pub use blocks::{Block, Division, divide};
pub use compared::{Compared, compared};
pub use cut::{MAX_BLOCKS, MIN_BYTES, Measure};
pub use marks::{Run, Shown, grouped, mark};
pub use pages::{describe_page, line_numbers, line_span, page_end};
pub use passages::{excerpt, hidden_windows};
