//! A tool's input as compact JSON, letter for letter as Python's `json` writes it.
use pyo3::exceptions::{PyRecursionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::checks::refused;
use crate::exit::Running;
use crate::interned::interned;
use crate::writing::dict;

/// Inputs of tools nested deeper than this are left to Python.
pub const MAX_DEPTH: usize = 16;

/// Append `value`. None, with `out` half written, if it is more than strings, numbers, booleans, nulls, lists and
/// dicts, all of exactly these types.
pub fn write_json(out: &mut String, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Option<()>> {
    if depth == 0 {
        return Ok(None);
    }
    if let Ok(text) = value.cast_exact::<PyString>() {
        return Ok(write_string(out, text));
    }
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        out.push('{');
        for (index, (key, value)) in dict.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            let Some(()) = key.cast_exact::<PyString>().ok().and_then(|key| write_string(out, key)) else {
                return Ok(None);
            };
            out.push(':');
            if write_json(out, &value, depth - 1)?.is_none() {
                return Ok(None);
            }
        }
        out.push('}');
        return Ok(Some(()));
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        out.push('[');
        for (index, value) in list.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            if write_json(out, &value, depth - 1)?.is_none() {
                return Ok(None);
            }
        }
        out.push(']');
        return Ok(Some(()));
    }
    if value.is_none() {
        out.push_str("null");
    } else if let Ok(truth) = value.cast_exact::<PyBool>() {
        out.push_str(if truth.is_true() { "true" } else { "false" });
    } else if let Ok(Ok(number)) = value.cast_exact::<PyInt>().map(|number| number.extract::<i64>()) {
        out.push_str(&number.to_string());
    } else if let Ok(number) = value.cast_exact::<PyFloat>()
        && number.value().is_finite()
    {
        out.push_str(number.repr()?.to_str()?);
    } else {
        return Ok(None);
    }
    Ok(Some(()))
}

/// None if the string holds lone surrogates.
fn write_string(out: &mut String, text: &Bound<'_, PyString>) -> Option<()> {
    let text = text.to_str().ok()?;
    out.push('"');
    write_escaped(out, text);
    out.push('"');
    Some(())
}

/// The value of a JSON text or its bytes, as Python reads it. None if it is not JSON.
pub fn json_value<'py>(text: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = text.py();
    match py.import("json")?.call_method1(interned!(py, "loads"), (text,)) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_instance_of::<PyValueError>(py) || error.is_instance_of::<PyRecursionError>(py) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// An object, or a text that is the JSON of one, as a dict. None for anything else.
#[pyfunction]
pub fn json_object<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let _running = Running::begin();
    let read = if value.is_instance_of::<PyString>() { json_value(value)? } else { Some(value.clone()) };
    Ok(read.and_then(|value| value.cast_into().ok()))
}

/// A tool call's input in OpenAI's form: a JSON text. A text stays as it is.
pub fn arguments<'py>(input: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = input.py();
    if input.is_instance_of::<PyString>() {
        return Ok(input.clone());
    }
    let options = dict!(py, "ensure_ascii": false, "default": py.get_type::<PyString>());
    py.import("json")?.call_method("dumps", (input,), Some(&options)).map_err(|error| {
        let is_kind = error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyValueError>(py);
        if !is_kind && !error.is_instance_of::<PyRecursionError>(py) {
            return error;
        }
        let problem = error.value(py).to_string();
        refused(py, format!("the input of a tool call can't be written as JSON ({problem}); pass what JSON holds"))
    })
}

/// A text as inside of a JSON string.
pub fn in_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    write_escaped(&mut out, text);
    out
}

fn write_escaped(out: &mut String, text: &str) {
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate().filter(|&(_, byte)| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.push_str(&text[copied..at]);
        copied = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x0C => out.push_str("\\f"),
            0x08 => out.push_str("\\b"),
            _ => out.push_str(&format!("\\u{byte:04x}")),
        }
    }
    out.push_str(&text[copied..]);
}
