//! The conversations in a file: a list of messages, several of these, or lines.
use pyo3::exceptions::{PyRecursionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use rehydrate_core::sessions::stripped;

use super::message::Value;
use crate::convert::Text;
use crate::errors::raise;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::Fields;

/// The keys under which an object keeps its messages, best first: a request, a trajectory, a Responses request, a response.
const LISTS: [&str; 7] = ["messages", "history", "traj", "trajectory", "conversation", "input", "output"];
/// The keys of two datasets, which stay as they are.
const DATASETS: [&[&str]; 2] = [&["qa", "conversation"], &["task_id", "trial", "traj"]];

/// The raw conversations in the text of a file. Raises UnreadableSessionError for `path`. `expected` says what to pass.
#[pyfunction]
pub fn session_values<'py>(path: &Value<'py>, text: Text, expected: &str) -> PyResult<Vec<Value<'py>>> {
    let _running = Running::begin();
    let py = path.py();
    let unreadable = |problem: String, remedy: &str| raise(py, "UnreadableSessionError", (path, problem, remedy));
    let values = match loads(py, text.as_str()) {
        Ok(value) => {
            let items: Vec<_> = value.cast::<PyList>().map_or_else(|_| Vec::new(), |list| list.iter().collect());
            if items.is_empty() { vec![value] } else { items }
        }
        Err(error) if error.is_instance_of::<PyRecursionError>(py) => {
            return Err(unreadable("it is nested too deeply".into(), expected));
        }
        Err(error) if error.is_instance_of::<PyValueError>(py) => {
            if !error.value(py).hasattr("msg")? {
                return Err(unreadable("it holds a number of thousands of digits".into(), "shorten it"));
            }
            if !stripped(text.as_str()).starts_with('{') {
                return Err(unreadable(format!("it is not JSON ({})", error.value(py)), expected));
            }
            lines(py, text.as_str()).map_err(|number| {
                let remedy = "delete the line, or put each value on a line of its own (jq -c .)";
                unreadable(format!("line {number} is not JSON"), remedy)
            })?
        }
        Err(error) => return Err(error),
    };
    let values = values.iter().map(unwrapped).collect::<PyResult<Vec<_>>>()?;
    for value in &values {
        if !is_entry(value)? {
            return Ok(values);
        }
    }
    Ok(vec![PyList::new(py, values)?.into_any()])
}

/// The value on each line, or the number of the first that is not JSON.
fn lines<'py>(py: Python<'py>, text: &str) -> Result<Vec<Value<'py>>, usize> {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut values = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if stripped(line).is_empty() {
            continue;
        }
        match loads(py, line) {
            Ok(value) => values.push(value),
            // A session that is being written, or was cut off: everything but its last line.
            Err(_) if index + 2 >= lines.len() && values.len() > 1 => break,
            Err(_) => return Err(index + 1),
        }
    }
    Ok(values)
}

fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Value<'py>> {
    py.import("json")?.call_method1(interned!(py, "loads"), (text,))
}

/// The conversation inside an object around it.
fn unwrapped<'py>(value: &Value<'py>) -> PyResult<Value<'py>> {
    let py = value.py();
    let Some(fields) = Fields::of(value) else { return Ok(value.clone()) };
    if is_entry(value)? {
        return Ok(value.clone());
    }
    for keys in DATASETS {
        let has = keys.iter().map(|key| fields.has(&PyString::new(py, key))).collect::<PyResult<Vec<_>>>()?;
        if has.into_iter().all(|has| has) {
            return Ok(value.clone());
        }
    }
    for key in LISTS {
        if let Some(list) = fields.get(&PyString::new(py, key))?.filter(|list| list.is_instance_of::<PyList>()) {
            return Ok(list);
        }
    }
    Ok(value.clone())
}

/// Whether a value is one message, or one line of a transcript.
fn is_entry(value: &Value<'_>) -> PyResult<bool> {
    let py = value.py();
    let Some(fields) = Fields::of(value) else { return Ok(false) };
    let is_typed = fields.text(interned!(py, "type"))?.is_some();
    Ok(fields.has(interned!(py, "role"))? || (is_typed && !fields.has(interned!(py, "messages"))?))
}
