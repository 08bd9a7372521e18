//! Secrets in texts, for Python.
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyString;
use rehydrate_core::redact;

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
    let find = |text: &str| redact::secrets(text, &off).iter().map(|it| (it.start, it.end, it.kind)).collect();
    match PyBackedStr::try_from(text.clone()) {
        Ok(text) if text.len() <= SHORT_BYTES => Ok(find(&text)),
        Ok(text) => detached(py, || Ok(find(&text))),
        Err(_) => {
            // Half of a surrogate pair: as a character that belongs to nothing.
            let points: CodePoints = text.extract()?;
            let replaced: String = points.0.iter().map(|&point| char::from_u32(point).unwrap_or('\u{FFFF}')).collect();
            detached(py, || Ok(find(&replaced)))
        }
    }
}
