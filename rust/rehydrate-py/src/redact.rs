//! Secrets in texts, for Python.
use pyo3::prelude::*;
use rehydrate_core::redact;

use crate::convert::Places;
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
pub fn secrets(py: Python<'_>, text: Places, off: Vec<usize>) -> PyResult<Vec<(usize, usize, usize)>> {
    let find = || redact::secrets(text.as_str(), &off).iter().map(|it| (it.start, it.end, it.kind)).collect();
    if text.as_str().len() <= SHORT_BYTES { Ok(find()) } else { detached(py, || Ok(find())) }
}
