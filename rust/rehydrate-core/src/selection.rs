//! Selection: score every message, pack the units, repair the first turn.
mod items;
mod laid_down;
pub(crate) mod outcome;
mod select;

pub use crate::scoring::request::{PackMode, Request, SignalMode, Vectors};
pub use outcome::{BlockChoice, Selection};
