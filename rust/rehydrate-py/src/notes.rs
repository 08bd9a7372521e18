//! Reading notes, for Python: places in texts, in characters.
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use rehydrate_core::notes::{self, Chunk};

use crate::caps::{CodePoints, string};
use crate::convert::{NamedTuple, Places, Text};
use crate::division::sliced;
use crate::errors::detached;
use crate::exit::Running;

/// Why a writer's text is not a summary. "" if it may be one.
#[pyfunction]
pub fn refusal(written: &Bound<'_, PyAny>) -> PyResult<String> {
    let _running = Running::begin();
    match written.extract::<Places>() {
        Ok(text) => detached(written.py(), || Ok(notes::refusal(text.as_str()).unwrap_or_default())),
        Err(_) => Ok(format!("it is of type {}", written.get_type().name()?)),
    }
}

/// The most tokens of a chunk, and how many characters one has.
const CHUNK_TOKENS: usize = 200;
pub const CHARS_A_TOKEN: f64 = 3.5;

fn chunk_chars(tokens: usize) -> usize {
    ((tokens as f64 * CHARS_A_TOKEN) as usize).max(1)
}

/// The front matter of a text, and the text after it.
#[pyfunction]
pub fn split_front_matter<'py>(
    py: Python<'py>,
    text: &Bound<'py, PyString>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyString>)> {
    let _running = Running::begin();
    let (points, scalars) = (text.extract::<CodePoints>()?.0, PyDict::new(py));
    let Some(found) = notes::front_matter(&points) else { return Ok((scalars, text.clone())) };
    for (name, value) in found.scalars {
        scalars.set_item(string(py, &points[name])?, string(py, &points[value])?)?;
    }
    Ok((scalars, sliced(text, found.end, points.len())?))
}

fn chunk_of<'py>(of: &NamedTuple<'py>, text: &Bound<'py, PyString>, chunk: Chunk) -> PyResult<Bound<'py, PyAny>> {
    let words = |range: Range<usize>| sliced(text, range.start, range.end);
    let headings = chunk.headings.into_iter().map(words).collect::<PyResult<Vec<_>>>()?;
    of.make([PyTuple::new(text.py(), headings)?.into_any(), words(chunk.body)?.into_any()])
}

/// The chunks of a text, in order: their bodies joined are the text.
#[pyfunction]
#[pyo3(signature = (text, *, chunk_tokens = CHUNK_TOKENS))]
pub fn chunks<'py>(
    py: Python<'py>,
    text: &Bound<'py, PyString>,
    chunk_tokens: usize,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let _running = Running::begin();
    let points: CodePoints = text.extract()?;
    let of = NamedTuple::of(py, "rehydrate.memory.folder", "Chunk")?;
    let found = detached(py, || Ok(notes::chunks(&points.0, chunk_chars(chunk_tokens))))?;
    found.into_iter().map(|chunk| chunk_of(&of, text, chunk)).collect()
}

/// The tier of a piece, and its chunk.
type PieceRow<'py> = (&'static str, Bound<'py, PyAny>);

/// The pieces of a file of notes that become items, each with its tier, and its number of lines if the first ones are
/// hot memory.
#[pyfunction]
pub fn note_pieces<'py>(
    py: Python<'py>,
    path: Text,
    text: &Bound<'py, PyString>,
) -> PyResult<(Vec<PieceRow<'py>>, usize)> {
    let _running = Running::begin();
    let points: CodePoints = text.extract()?;
    let of = NamedTuple::of(py, "rehydrate.memory.folder", "Chunk")?;
    let tier = notes::tier_of(path.as_str());
    let (pieces, lines) = detached(py, || Ok(notes::note_pieces(&points.0, tier, chunk_chars(CHUNK_TOKENS))))?;
    let pieces = pieces.into_iter().map(|piece| Ok((piece.tier, chunk_of(&of, text, piece.chunk)?)));
    Ok((pieces.collect::<PyResult<_>>()?, lines))
}
