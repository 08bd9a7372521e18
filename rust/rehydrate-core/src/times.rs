//! One time, as people and models write it: what it means on the clock of a zone, which is not known here.
mod calendar;
mod words;

pub use words::{Meaning, Unit, Unreadable, read_time};
