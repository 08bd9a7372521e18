//! Times, as people and models write them, and their meaning on the clock of a zone, which is not known here.
mod calendar;
mod names;
mod ranges;
mod words;

pub use names::Unreadable;
pub use ranges::{End, Range, RangeKind, read_range};
pub use words::Meaning;
