//! Long texts kept in part: the texts of a conversation that may be divided, and its messages without the dropped
//! blocks.
//!
//! The core decides which blocks of a text are kept. Nothing ever reads a mark: a mark that is already in a text is
//! text like any other.
mod compared;
mod divisible;
mod inputs;
mod kept;
mod messages;

pub use compared::compared_texts;
pub use divisible::DivisibleTexts;
pub use kept::Excerpts;
