//! Selection: score every message, pack the units, see to the first turn.
pub(crate) mod directive_worth;
mod items;
pub(crate) mod outcome;
mod select;
mod user_turn_reserve;

pub use crate::scoring::request::{PackMode, Request, SignalMode, Vectors};
pub use outcome::{BlockChoice, Selection};
