//! Reading one text: scripts, words, stems, its names, and the directives in it.
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
