//! Texts that a request can carry: without halves of surrogate pairs.
use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString, PyTuple};

use crate::exit::Running;

/// Levels of values in one another.
const MAX_DEPTH: usize = 900;

/// The text with U+FFFD in place of each half of a pair.
#[pyfunction]
pub fn as_unicode<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    match text.to_str() {
        Ok(whole) if !text.is_exact_instance_of::<PyString>() => Ok(PyString::new(text.py(), whole).into_any()),
        Ok(_) => Ok(text.clone().into_any()),
        Err(_) => {
            let units = text.call_method1("encode", ("utf-16-le", "surrogatepass"))?;
            units.call_method1("decode", ("utf-16-le", "replace"))
        }
    }
}

/// JSON without such halves in any of its strings, names included. Raises RecursionError.
#[pyfunction]
pub fn unicode_inside<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    inside(value, MAX_DEPTH)
}

fn inside<'py>(value: &Bound<'py, PyAny>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
    if depth == 0 {
        return Err(PyRecursionError::new_err("the value is nested too deeply"));
    }
    let py = value.py();
    if let Ok(text) = value.cast::<PyString>() {
        return as_unicode(text);
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let made = PyDict::new(py);
        for item in mapping.items()? {
            let (key, each): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item.extract()?;
            made.set_item(inside(&key, depth - 1)?, inside(&each, depth - 1)?)?;
        }
        return Ok(made.into_any());
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let made = value.try_iter()?.map(|each| inside(&each?, depth - 1)).collect::<PyResult<Vec<_>>>()?;
        return Ok(PyList::new(py, made)?.into_any());
    }
    Ok(value.clone())
}
