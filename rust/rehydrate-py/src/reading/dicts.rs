//! Objects of the providers' SDKs as the dicts that the SDK would send.
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use super::fields::{Fields, python};
use super::langchain::is_langchain_message;
use crate::interned::interned;

/// The depth of nested values that are searched; a block in a tool result is three levels down.
const MAX_DEPTH: usize = 6;

/// The entries with dicts for an SDK's objects; the same sequence where there are none.
///
/// Raises InvalidMessageError for a whole response and for an object that cannot be read.
#[pyfunction]
pub fn as_dicts<'py>(entries: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut is_changed = false;
    let mut read = Vec::with_capacity(entries.len().unwrap_or(0));
    for (index, entry) in entries.try_iter()?.enumerate() {
        let entry = entry?;
        let found = if entry.is_exact_instance_of::<PyDict>() {
            value(&entry, index, 0)?
        } else if is_langchain_message(&entry)? {
            None
        } else if is_model(&entry)? {
            Some(python(entry.py(), "model_as_entry", (&entry, index))?)
        } else {
            value(&entry, index, 0)?
        };
        is_changed |= found.is_some();
        read.push(found.unwrap_or(entry));
    }
    if is_changed { Ok(PyList::new(entries.py(), read)?.into_any()) } else { Ok(entries.clone()) }
}

/// A value with dicts for an SDK's objects in it; the same value where there are none.
#[pyfunction]
pub fn as_dict<'py>(value_of: &Bound<'py, PyAny>, index: usize) -> PyResult<Bound<'py, PyAny>> {
    Ok(value(value_of, index, 1)?.unwrap_or_else(|| value_of.clone()))
}

/// The value with dicts for objects; None where it holds none.
fn value<'py>(of: &Bound<'py, PyAny>, index: usize, depth: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    if depth > MAX_DEPTH || is_scalar(of) {
        return Ok(None);
    }
    if let Some(fields) = Fields::of(of) {
        let mut changed = Vec::new();
        for (key, inner) in fields.items()? {
            if let Some(found) = value(&inner, index, depth + 1)? {
                changed.push((key, found));
            }
        }
        if changed.is_empty() {
            return Ok(None);
        }
        let copy = PyDict::new(of.py());
        copy.update(of.cast()?)?;
        for (key, found) in changed {
            copy.set_item(key, found)?;
        }
        return Ok(Some(copy.into_any()));
    }
    let is_tuple = of.is_exact_instance_of::<PyTuple>();
    if is_tuple || of.is_exact_instance_of::<PyList>() {
        let mut is_changed = false;
        let mut read = Vec::with_capacity(of.len()?);
        for inner in of.try_iter()? {
            let inner = inner?;
            let found = value(&inner, index, depth + 1)?;
            is_changed |= found.is_some();
            read.push(found.unwrap_or(inner));
        }
        return Ok(match (is_changed, is_tuple) {
            (false, _) => None,
            (true, true) => Some(PyTuple::new(of.py(), read)?.into_any()),
            (true, false) => Some(PyList::new(of.py(), read)?.into_any()),
        });
    }
    if is_model(of)? { Ok(Some(python(of.py(), "dumped", (of, index))?)) } else { Ok(None) }
}

fn is_scalar(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyFloat>()
}

/// Whether it is an object, no mapping, that can be dumped.
fn is_model(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let dump = value.getattr_opt(interned!(value.py(), "model_dump"))?;
    Ok(dump.is_some_and(|dump| dump.is_callable()) && !value.is_instance_of::<PyType>() && Fields::of(value).is_none())
}
