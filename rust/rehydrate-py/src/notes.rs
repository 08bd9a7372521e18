//! What notes are read from, for Python: places in texts, in characters.
use std::ops::Range;

use pyo3::prelude::*;
use rehydrate_core::notes::{self, Chunk};

use crate::caps::CodePoints;
use crate::convert::Places;
use crate::errors::detached;
use crate::exit::Running;

/// Where a part of a text begins and ends.
type Place = (usize, usize);

fn place(range: Range<usize>) -> Place {
    (range.start, range.end)
}

fn places(ranges: Vec<Range<usize>>) -> Vec<Place> {
    ranges.into_iter().map(place).collect()
}

/// Why what a writer of summaries returned is not a summary; "" where it may be one.
#[pyfunction]
pub fn refusal(written: &Bound<'_, PyAny>) -> PyResult<String> {
    let _running = Running::begin();
    match written.extract::<Places>() {
        Ok(text) => detached(written.py(), || Ok(notes::refusal(text.as_str()).unwrap_or_default())),
        Err(_) => Ok(format!("it is of type {}", written.get_type().name()?)),
    }
}

/// The chunks of a text: the headings above each, and where it is.
#[pyfunction]
pub fn chunks(py: Python<'_>, text: CodePoints, max_chars: usize) -> PyResult<Vec<(Vec<Place>, Place)>> {
    let _running = Running::begin();
    let chunk = |Chunk { headings, body }: Chunk| (places(headings), place(body));
    detached(py, || Ok(notes::chunks(&text.0, max_chars).into_iter().map(chunk).collect()))
}
