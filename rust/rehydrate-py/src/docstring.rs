//! Docstrings of functions, for Python.
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use rehydrate_core::docstring::described;

use crate::convert::Text;
use crate::exit::Running;

/// The description of a function, and that of each parameter by its name.
#[pyfunction]
pub fn parsed_docstring(py: Python<'_>, docstring: Text) -> PyResult<(String, Bound<'_, PyDict>)> {
    let _running = Running::begin();
    let (description, of) = described(docstring.as_str());
    Ok((description, of.into_py_dict(py)?))
}
