//! Reading one text: scripts, words, stems, the names in it, what a user lays down in it.
pub(crate) mod bit_packing;
pub mod directives;
pub mod features;
pub mod memory_kinds;
pub(crate) mod python_re;
pub mod questions;
pub(crate) mod scripts;
pub mod small_talk;
pub(crate) mod stems;
pub mod words;
