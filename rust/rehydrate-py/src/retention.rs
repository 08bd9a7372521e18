//! The share of what is needed later that a compaction keeps, for `rehydrate.retention`.
//!
//! Messages are read here by a small reader of its own, not by the product's: a measure that shares code with the thing
//! it measures shares its mistakes.
mod covers;
mod file;
mod grouping;
mod instructions;
mod message;
mod needs;

pub use covers::{best_cover, cover};
pub use file::session_values;
pub use grouping::{count_messages, steps};
pub use instructions::{binding_instructions, instructions_kept, is_turn_kept};
pub use message::{is_summary, payload, role_of, text_of, tool_inputs, user_text};
pub use needs::{Needs, has_calls, lines_in, lost_names, names_in, needs_after, without_marks};
