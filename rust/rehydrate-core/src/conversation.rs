//! A conversation: its columns, the analysis of its texts, its long texts in blocks, all prepared for selection.
mod calls_first;
mod in_place;
pub(crate) mod message_parts;
pub mod outline;
pub(crate) mod prepared;
pub(crate) mod text;
pub(crate) mod unit;
pub(crate) mod weighted_rows;

pub use calls_first::{CallLine, calls_first};
pub use in_place::{Spoken, in_place};
pub use message_parts::{CachedDivision, DividedText, Excerpting, MessagePart};
pub use prepared::Prepared;
pub use text::{Needs, TextAnalysis, Wanted};
pub use unit::{Conversation, MAX_WEIGHT, Message, Piece, PieceKind, Role, Unit};
