//! What notes are read from, for Python: places in texts, in characters.
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rehydrate_core::notes::{self, Chunk, Subject, SummaryLine};

use crate::caps::{CodePoints, string};
use crate::convert::{Places, Text};
use crate::errors::detached;

/// Where a part of a text begins and ends.
type Place = (usize, usize);

fn place(range: Range<usize>) -> Place {
    (range.start, range.end)
}

fn places(ranges: Vec<Range<usize>>) -> Vec<Place> {
    ranges.into_iter().map(place).collect()
}

/// The sentences that say what was decided.
#[pyfunction]
pub fn decisions(py: Python<'_>, text: Places) -> PyResult<Vec<Place>> {
    detached(py, || Ok(text.in_chars(notes::decisions(text.as_str()))))
}

/// Whether a sentence says that something holds from now on, or instead of another thing.
#[pyfunction]
pub fn is_correction(py: Python<'_>, sentence: Places) -> PyResult<bool> {
    detached(py, || Ok(notes::is_correction(sentence.as_str())))
}

/// The sentences of a text.
#[pyfunction]
pub fn sentences(py: Python<'_>, text: Places) -> PyResult<Vec<Place>> {
    detached(py, || Ok(text.in_chars(notes::sentences(text.as_str()))))
}

/// The sentences that a part of a text is in.
#[pyfunction]
pub fn whole_sentences(py: Python<'_>, text: Places, start: usize, end: usize) -> PyResult<Place> {
    detached(py, || {
        let start = text.byte(start);
        let part = start..text.byte(end).max(start);
        Ok(text.in_chars([notes::whole_sentences(text.as_str(), part)])[0])
    })
}

/// What is under labels in capitals.
#[pyfunction]
pub fn labelled(py: Python<'_>, text: Places) -> PyResult<Vec<Place>> {
    detached(py, || Ok(text.in_chars(notes::labelled(text.as_str()))))
}

/// The first line about an error.
#[pyfunction]
pub fn first_error(py: Python<'_>, text: Places) -> PyResult<Option<Place>> {
    detached(py, || Ok(text.in_chars(notes::first_error(text.as_str())).pop()))
}

/// The code that a command's result says it exited with.
#[pyfunction]
pub fn exit_code(py: Python<'_>, text: Places) -> PyResult<Option<u32>> {
    detached(py, || Ok(notes::exit_code(text.as_str())))
}

/// The parts of a text that its author did not say.
#[pyfunction]
pub fn pasted(py: Python<'_>, text: Places) -> PyResult<Vec<Place>> {
    detached(py, || Ok(text.in_chars(notes::pasted(text.as_str()))))
}

/// What a shell command is about: what is done, and with what.
#[pyfunction]
pub fn command_subjects(py: Python<'_>, command: CodePoints) -> PyResult<Vec<(&'static str, Bound<'_, PyAny>)>> {
    let found = detached(py, || Ok(notes::command_subjects(&command.0)))?;
    found.into_iter().map(|Subject { used, text }| Ok((used.name(), string(py, &text)?))).collect()
}

/// The place of a line's heading, its kind, where its text is, and what was done with a file.
type Line = (usize, &'static str, Place, Vec<Place>);

/// What a summary of ours says, line by line; None for any other text.
#[pyfunction]
pub fn summary_lines(py: Python<'_>, text: CodePoints) -> PyResult<Option<Vec<Line>>> {
    let line = |SummaryLine { heading, kind, text, uses }: SummaryLine| (heading, kind, place(text), places(uses));
    detached(py, || Ok(notes::summary_lines(&text.0).map(|found| found.into_iter().map(line).collect())))
}

/// The chunks of a text: the headings above each, and where it is.
#[pyfunction]
pub fn chunks(py: Python<'_>, text: CodePoints, max_chars: usize) -> PyResult<Vec<(Vec<Place>, Place)>> {
    let chunk = |Chunk { headings, body }: Chunk| (places(headings), place(body));
    detached(py, || Ok(notes::chunks(&text.0, max_chars).into_iter().map(chunk).collect()))
}

/// What the directives of a thread are about.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Subjects(Mutex<notes::Subjects>);

impl Subjects {
    /// No call leaves it half changed: there is nothing to wait for in one.
    fn core(&self) -> MutexGuard<'_, notes::Subjects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Subjects {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn __contains__(&self, text: u64) -> bool {
        self.core().has(text)
    }

    /// Read the text with a number.
    fn add(&self, number: u64, text: Text) {
        self.core().add(number, text.as_str());
    }

    /// The number of the text that is among those that `hold` and is most about a subject, if one is about the same.
    fn nearest(&self, subject: Vec<u32>, hold: &Bound<'_, PyDict>) -> Option<u64> {
        self.core().nearest(&subject, |number| hold.contains(number).unwrap_or(false))
    }
}
