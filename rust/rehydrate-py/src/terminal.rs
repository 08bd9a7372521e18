//! Texts that a terminal shows, for Python.
use pyo3::prelude::*;
use rehydrate_core::terminal::{self, HitLines};

use crate::caps::CodePoints;
use crate::convert::Text;

/// A text without anything that moves the cursor, changes colours or reorders, on one line.
#[pyfunction]
pub fn safe_line(text: CodePoints) -> String {
    terminal::safe(&characters(text))
}

/// A text as a page may hold it: control characters as their pictures, and nothing that is not a character.
#[pyfunction]
pub fn visible_text(text: CodePoints) -> String {
    terminal::visible(&characters(text))
}

/// The lines of a text. If some of a paragraph are longer than `width`, all of the paragraph is one line.
#[pyfunction]
pub fn paragraphs(text: Text, width: usize) -> Vec<String> {
    terminal::paragraphs(text.as_str(), width)
}

/// The lines of a hit's paragraphs, each in parts of which every second is a word of the query, and whether some are left out
/// before them and after them: of more than `most` those that have most of the query.
#[pyfunction]
pub fn hit_lines(paragraphs: Vec<Text>, query: Text, width: usize, most: usize) -> (Vec<Vec<String>>, bool, bool) {
    let paragraphs: Vec<&str> = paragraphs.iter().map(Text::as_str).collect();
    let HitLines { lines, is_cut: (before, after) } = terminal::hit_lines(&paragraphs, query.as_str(), width, most);
    (lines, before, after)
}

fn characters(text: CodePoints) -> String {
    text.0.into_iter().map(|point| char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}
