//! Reading one text: scripts, words, stems, the names in it, what a user lays down in it.
pub(crate) mod bit_packing;
pub mod directives;
pub mod features;
pub(crate) mod python_re;
pub(crate) mod scripts;
pub(crate) mod stems;
pub mod words;
