//! What notes are read from, for Python: places in texts, in characters.
use std::ops::Range;

use pyo3::prelude::*;
use rehydrate_core::notes::{self, Chunk};

use crate::caps::CodePoints;
use crate::convert::Places;
use crate::errors::detached;

/// Where a part of a text begins and ends.
type Place = (usize, usize);

fn place(range: Range<usize>) -> Place {
    (range.start, range.end)
}

fn places(ranges: Vec<Range<usize>>) -> Vec<Place> {
    ranges.into_iter().map(place).collect()
}

/// Whether what a writer of summaries returned is the text of an error or a refusal.
#[pyfunction]
pub fn is_refusal(py: Python<'_>, text: Places) -> PyResult<bool> {
    detached(py, || Ok(notes::is_refusal(text.as_str())))
}

/// The chunks of a text: the headings above each, and where it is.
#[pyfunction]
pub fn chunks(py: Python<'_>, text: CodePoints, max_chars: usize) -> PyResult<Vec<(Vec<Place>, Place)>> {
    let chunk = |Chunk { headings, body }: Chunk| (places(headings), place(body));
    detached(py, || Ok(notes::chunks(&text.0, max_chars).into_iter().map(chunk).collect()))
}
