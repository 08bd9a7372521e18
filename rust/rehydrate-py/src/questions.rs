//! Questions in texts, and the kinds of memories that texts are, for Python.
use pyo3::prelude::*;
use rehydrate_core::analysis::{memory_kinds, questions};

use crate::convert::{Places, Text};
use crate::errors::detached;

/// The share of a text that is in questions, 0 to 1.
#[pyfunction]
pub fn question_share(py: Python<'_>, text: Places) -> PyResult<f64> {
    detached(py, || Ok(questions::question_share(text.as_str())))
}

/// The kind of memory that a text is, by the first kind with a cue in it.
#[pyfunction]
pub fn memory_kind(py: Python<'_>, text: Text, is_assistant: bool) -> PyResult<&'static str> {
    detached(py, || Ok(memory_kinds::memory_kind(text.as_str(), is_assistant)))
}
