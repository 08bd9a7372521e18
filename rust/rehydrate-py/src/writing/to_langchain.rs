//! OpenAI chat messages in the form of LangChain's own converter, and their calls in the form of its messages.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::neutral::dict;
use crate::errors::raise;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{Fields, as_sequence, is_list, json_object, no_list, speaker_of};

/// The messages, each a mapping with a role; raises InvalidMessageError.
#[pyfunction]
pub fn chat_entries<'py>(messages: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    let entries = as_sequence(messages)?;
    for (index, entry) in entries.try_iter()?.enumerate() {
        Fields::needed(&entry?, index, String::new)?;
    }
    for (index, entry) in entries.try_iter()?.enumerate() {
        speaker_of(Fields::needed(&entry?, index, String::new)?, index)?;
    }
    Ok(entries)
}

/// The fields of a message except its calls, and the fields of an AIMessage that hold these.
///
/// LangChain's own parser of calls refuses arguments that aren't JSON, which models do write.
#[pyfunction]
pub fn langchain_fields<'py>(
    entry: &Bound<'py, PyAny>,
    index: usize,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let _running = Running::begin();
    let (py, entry) = (entry.py(), Fields::needed(entry, index, String::new)?);
    let calls = entry.get(interned!(py, "tool_calls"))?;
    let rest = dict!(py, "content": "");
    for (key, value) in entry.items()? {
        let is_calls = key.cast::<PyString>().is_ok_and(|key| key == "tool_calls");
        if !is_calls && !value.is_none() {
            rest.set_item(key, value)?;
        }
    }
    let (made, invalid) = (PyList::empty(py), PyList::empty(py));
    if let Some(calls) = calls.filter(|calls| calls.is_truthy().unwrap_or(true)) {
        if !is_list(&calls) {
            return Err(no_list(&calls, index, "tool_calls"));
        }
        for (number, raw) in calls.try_iter()?.enumerate() {
            let (raw, part) = (raw?, format!("tool_calls[{number}]"));
            let call = Fields::needed(&raw, index, || part.clone())?;
            let function = call.get(interned!(py, "function"))?;
            let Some(function) = function.as_ref().and_then(Fields::of) else {
                let remedy = "LangChain's messages hold no others; leave its message and its result out";
                return Err(raise(py, "InvalidMessageError", (index, part, &raw, "a function call", remedy)));
            };
            let arguments = function.get(interned!(py, "arguments"))?;
            let parsed = arguments.as_ref().map_or(Ok(None), json_object)?;
            let is_valid = parsed.is_some();
            let args = parsed.map(|parsed| parsed.into_any()).or(arguments);
            let name = function.get(interned!(py, "name"))?;
            let own = dict!(py, "name": name, "args": args, "id": call.get(interned!(py, "id"))?);
            if is_valid {
                own.set_item("type", "tool_call")?;
                made.append(own)?;
            } else {
                own.set_item("error", py.None())?;
                own.set_item("type", "invalid_tool_call")?;
                invalid.append(own)?;
            }
        }
    }
    Ok((rest, dict!(py, "tool_calls": made, "invalid_tool_calls": invalid)))
}
