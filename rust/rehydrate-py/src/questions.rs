//! Questions in texts, and the kinds of memories that texts are, for Python.
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::analysis::{memory_kinds, questions};

use crate::convert::Text;
use crate::errors::detached;
use crate::redact::without_halves;

/// The share of a text that is in questions, 0 to 1.
#[pyfunction]
pub fn question_share(py: Python<'_>, text: Bound<'_, PyString>) -> PyResult<f64> {
    let text = without_halves(&text)?;
    detached(py, || Ok(questions::question_share(&text)))
}

/// The kind of memory that a text is, by the first kind with a cue in it.
#[pyfunction]
pub fn memory_kind(py: Python<'_>, text: Text, is_assistant: bool) -> PyResult<&'static str> {
    detached(py, || Ok(memory_kinds::memory_kind(text.as_str(), is_assistant)))
}
