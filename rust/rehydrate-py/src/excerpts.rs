//! Long texts kept in part: which texts of a conversation may be divided, and its messages without the blocks that go.
//!
//! The core decides which blocks of a text are kept. Nothing ever reads a mark: one that is in a text already is text like any
//! other.
mod compared;
mod divisible;
mod inputs;
mod kept;
mod messages;

pub use compared::compared_texts;
pub use divisible::DivisibleTexts;
pub use kept::Excerpts;
