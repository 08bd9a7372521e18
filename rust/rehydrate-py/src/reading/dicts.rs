//! Objects of the providers' SDKs as the dicts that the SDK would send.
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use super::fields::Fields;
use super::langchain::is_langchain_message;
use crate::errors::raise;
use crate::exit::Running;
use crate::interned::{Interned, interned};
use crate::writing::dict;

/// The depth to which nested values are searched. A block in a tool result is three levels down.
const MAX_DEPTH: usize = 6;

/// The entries with dicts for an SDK's objects; the same sequence if there are none.
///
/// Raises InvalidMessageError for a whole response and for an object that cannot be read.
#[pyfunction]
pub fn as_dicts<'py>(entries: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    let mut is_changed = false;
    let mut read = Vec::new();
    for (index, entry) in entries.try_iter()?.enumerate() {
        let entry = entry?;
        let found = if entry.is_exact_instance_of::<PyDict>() {
            value(&entry, index, 0)?
        } else if is_langchain_message(&entry)? {
            None
        } else if is_model(&entry)? {
            Some(message_of(&entry, index)?.into_any())
        } else {
            value(&entry, index, 0)?
        };
        is_changed |= found.is_some();
        read.push(found.unwrap_or(entry));
    }
    if is_changed { Ok(PyList::new(entries.py(), read)?.into_any()) } else { Ok(entries.clone()) }
}

/// A value with dicts for an SDK's objects in it; the same value if there are none.
fn as_dict<'py>(value_of: &Bound<'py, PyAny>, index: usize) -> PyResult<Bound<'py, PyAny>> {
    Ok(value(value_of, index, 1)?.unwrap_or_else(|| value_of.clone()))
}

/// The value with dicts for objects; None if it holds none.
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
    if is_model(of)? { Ok(Some(dumped(of, index)?.into_any())) } else { Ok(None) }
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

/// The field to pass instead of a whole response, by the list that it holds.
static WHOLE_RESPONSES: [(Interned, &str); 3] = [
    (Interned::new("choices"), "pass its choices[0].message"),
    (Interned::new("output"), "pass its output, item by item"),
    (Interned::new("candidates"), "pass its candidates[0].content"),
];

/// An SDK's object of a message as a dict.
fn message_of<'py>(entry: &Bound<'py, PyAny>, index: usize) -> PyResult<Bound<'py, PyDict>> {
    let (py, role) = (entry.py(), interned!(entry.py(), "role"));
    let content = interned!(py, "content");
    let own_role = entry.getattr_opt(role)?;
    for (key, remedy) in &WHOLE_RESPONSES {
        let list = entry.getattr_opt(key.get(py))?.filter(|value| value.is_instance_of::<PyList>());
        if list.is_some() && own_role.is_none() {
            return Err(raise(py, "InvalidMessageError", (index, "", entry, "a message", *remedy)));
        }
    }
    let has = |name| PyResult::Ok(entry.getattr_opt(name)?.is_some());
    if has(interned!(py, "stop_reason"))? && has(interned!(py, "usage"))? {
        // Anthropic's response: a request with its other fields is refused.
        let made = PyDict::new(py);
        for key in [role, content] {
            let value = entry.getattr_opt(key)?.unwrap_or_else(|| py.None().into_bound(py));
            made.set_item(key, as_dict(&value, index)?)?;
        }
        return Ok(made);
    }
    let found = dumped(entry, index)?;
    if let Some(own) = own_role.filter(|role| role.is_instance_of::<PyString>())
        && !found.contains(role)?
    {
        found.set_item(role, own)?; // the default of its class, as google-genai's ModelContent
    }
    if !found.contains(role)? {
        return Ok(found);
    }
    // Chat answers null for every field it did not set.
    let set = PyDict::new(py);
    for (key, value) in found {
        if !value.is_none() || key.eq(content)? {
            set.set_item(key, value)?;
        }
    }
    Ok(set)
}

/// An object as the SDKs send it: without fields that were never set.
fn dumped<'py>(value: &Bound<'py, PyAny>, index: usize) -> PyResult<Bound<'py, PyDict>> {
    let (py, dump) = (value.py(), interned!(value.py(), "model_dump"));
    let options = dict!(py, "mode": "json", "exclude_unset": true, "by_alias": true);
    let found = match value.call_method(dump, (), Some(&options)) {
        // It only looks like pydantic's.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => value.call_method0(dump),
        found => found,
    };
    let found = found.map_err(|error| {
        if !error.is_instance_of::<PyException>(py) {
            return error;
        }
        let kind = error.get_type(py).name().map_or_else(|_| "Exception".into(), |name| name.to_string());
        let remedy = format!("its model_dump failed ({kind}); convert it to a dict");
        let values = (index, "", value, "a message or a part of one", remedy);
        let refused = raise(py, "InvalidMessageError", values);
        refused.set_cause(py, Some(error));
        refused
    })?;
    found.cast_into::<PyDict>().map_err(|_| {
        raise(py, "InvalidMessageError", (index, "", value, "a model of a mapping", "convert it to a dict"))
    })
}
