//! Questions in texts, for Python.
use pyo3::prelude::*;
use rehydrate_core::analysis::questions;

use crate::convert::Places;
use crate::errors::detached;
use crate::exit::Running;

/// The share of a text that is in questions, 0 to 1.
#[pyfunction]
pub fn question_share(py: Python<'_>, text: Places) -> PyResult<f64> {
    let _running = Running::begin();
    detached(py, || Ok(questions::question_share(text.as_str())))
}
