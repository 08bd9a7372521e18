//! Secrets in texts, for Python.
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyString;
use rehydrate_core::redact::{self, Secret};

use crate::caps::CodePoints;
use crate::errors::detached;

/// Texts up to this length are looked through without giving the interpreter up: that would take as long.
const SHORT_BYTES: usize = 4 << 10;

/// The names of all kinds of secrets.
#[pyfunction]
pub fn secret_kinds() -> Vec<&'static str> {
    redact::kinds().collect()
}

/// Where each secret begins and ends, in characters, and its kind's place among all; without the kinds that are `off`.
#[pyfunction]
pub fn secrets(py: Python<'_>, text: Bound<'_, PyString>, off: Vec<usize>) -> PyResult<Vec<(usize, usize, usize)>> {
    let found = match PyBackedStr::try_from(text.clone()) {
        Ok(text) => found(py, &text, &off)?,
        Err(_) => found(py, &without_halves(&text)?, &off)?,
    };
    Ok(found.iter().map(|it| (it.start, it.end, it.kind)).collect())
}

/// The secrets of a text, without the kinds that are `off`.
pub fn found(py: Python<'_>, text: &str, off: &[usize]) -> PyResult<Vec<Secret>> {
    if text.len() <= SHORT_BYTES {
        Ok(redact::secrets(text, off))
    } else {
        detached(py, || Ok(redact::secrets(text, off)))
    }
}

/// The text with a character that belongs to nothing for each half of a surrogate pair.
pub fn without_halves(text: &Bound<'_, PyString>) -> PyResult<String> {
    let points: CodePoints = text.extract()?;
    Ok(points.0.iter().map(|&point| char::from_u32(point).unwrap_or('\u{FFFF}')).collect())
}
