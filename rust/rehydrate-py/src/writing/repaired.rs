//! The entries of a model's reply with their calls repaired, so that the provider accepts them back.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString, PyTuple};

use crate::exit::Running;
use crate::reading::json_value;

/// Gemini wants it back, also on a part whose text is empty.
const SIGNATURE: &str = "thoughtSignature";

/// The entries with their calls repaired: each gets its new id, and arguments that are an object. Blocks of empty texts
/// go. `calls` are the ids of the calls in their order, before and after. An entry that needs no repair is the same
/// object.
#[pyfunction]
pub fn repaired_entries<'py>(
    entries: Vec<Bound<'py, PyAny>>,
    calls: Vec<(Bound<'py, PyString>, Bound<'py, PyString>)>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let _running = Running::begin();
    let mut calls = Calls { calls, next: 0 };
    entries.into_iter().map(|entry| calls.entry(entry)).collect()
}

/// The calls that follow.
struct Calls<'py> {
    calls: Vec<(Bound<'py, PyString>, Bound<'py, PyString>)>,
    next: usize,
}

impl<'py> Calls<'py> {
    /// The new id of the next call, if this is its id.
    fn take(&mut self, id: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Bound<'py, PyString>>> {
        let (Some(id), Some((known, new))) = (id, self.calls.get(self.next)) else { return Ok(None) };
        if !known.as_any().eq(id)? {
            return Ok(None);
        }
        self.next += 1;
        Ok(Some(new.clone()))
    }

    fn entry(&mut self, entry: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Ok(fields) = entry.cast::<PyMapping>() else { return Ok(entry) };
        if let Some(id) = self.take(value(fields, "call_id")?.as_ref())? {
            return repaired(fields, "call_id", &id, Some("arguments"));
        }
        let mut changed = Vec::new();
        for key in ["content", "parts", "tool_calls"] {
            let Some(blocks) = value(fields, key)? else { continue };
            if !blocks.is_instance_of::<PyList>() && !blocks.is_instance_of::<PyTuple>() {
                continue;
            }
            let (mut all, mut is_same) = (Vec::new(), true);
            for block in blocks.try_iter()? {
                let block = block?;
                let now = if key == "tool_calls" { Some(self.chat_call(&block)?) } else { self.block(&block)? };
                is_same &= now.as_ref().is_some_and(|now| now.is(&block));
                all.extend(now);
            }
            if !is_same {
                changed.push((key, PyList::new(entry.py(), all)?.into_any()));
            }
        }
        if changed.is_empty() { Ok(entry) } else { with(fields, changed) }
    }

    /// A block of a message, or a part of one; None for an empty text.
    fn block(&mut self, block: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Ok(fields) = block.cast::<PyMapping>() else { return Ok(Some(block.clone())) };
        for (inner, id, arguments) in [("functionCall", "id", "args"), ("toolUse", "toolUseId", "input")] {
            let made = value(fields, inner)?.and_then(|made| made.cast_into::<PyMapping>().ok());
            let Some(made) = made else { continue };
            let made_id = value(&made, id)?.filter(|id| inner == "toolUse" || id.is_truthy().unwrap_or_default());
            if let Some(new) = self.take(made_id.as_ref())? {
                let now = repaired(&made, id, &new, Some(arguments))?;
                return if now.is(&made) {
                    Ok(Some(block.clone()))
                } else {
                    with(fields, vec![(inner, now)]).map(Some)
                };
            }
        }
        if let Some(new) = self.take(value(fields, "toolCallId")?.as_ref())? {
            return repaired(fields, "toolCallId", &new, Some("input")).map(Some);
        }
        let kind = value(fields, "type")?;
        let is = |name: &str| kind.as_ref().map_or(Ok(false), |kind| kind.eq(name));
        if is("tool_use")?
            && let Some(new) = self.take(value(fields, "id")?.as_ref())?
        {
            return repaired(fields, "id", &new, Some("input")).map(Some);
        }
        let is_empty = value(fields, "text")?.map_or(Ok(false), |text| text.eq(""))?;
        let is_text = kind.is_none() || is("text")?;
        Ok((!is_empty || !is_text || fields.contains(SIGNATURE)?).then(|| block.clone()))
    }

    /// A call of OpenAI chat's.
    fn chat_call(&mut self, call: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Ok(fields) = call.cast::<PyMapping>() else { return Ok(call.clone()) };
        let Some(id) = self.take(value(fields, "id")?.as_ref())? else { return Ok(call.clone()) };
        let now = repaired(fields, "id", &id, None)?;
        let function = value(fields, "function")?.and_then(|function| function.cast_into::<PyMapping>().ok());
        match function {
            Some(function) if !is_object(value(&function, "arguments")?)? => {
                let empty = PyString::new(call.py(), "{}").into_any();
                let function = with(&function, vec![("arguments", empty)])?;
                with(now.cast::<PyMapping>()?, vec![("function", function)])
            }
            _ => Ok(now),
        }
    }
}

fn value<'py>(fields: &Bound<'py, PyMapping>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    if fields.contains(name)? { fields.get_item(name).map(Some) } else { Ok(None) }
}

/// A call with its new id, and with arguments that are an object.
fn repaired<'py>(
    call: &Bound<'py, PyMapping>,
    id: &'static str,
    new: &Bound<'py, PyString>,
    arguments: Option<&'static str>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = call.py();
    let mut changes = Vec::new();
    if !call.get_item(id)?.eq(new)? {
        changes.push((id, new.clone().into_any()));
    }
    if let Some(arguments) = arguments
        && !is_object(value(call, arguments)?)?
    {
        let is_text = arguments == "arguments";
        let empty = if is_text { PyString::new(py, "{}").into_any() } else { PyDict::new(py).into_any() };
        changes.push((arguments, empty));
    }
    if changes.is_empty() { Ok(call.clone().into_any()) } else { with(call, changes) }
}

/// A dict of these fields, some of them with other values.
fn with<'py>(fields: &Bound<'py, PyMapping>, changes: Vec<(&str, Bound<'py, PyAny>)>) -> PyResult<Bound<'py, PyAny>> {
    let changed = PyDict::new(fields.py());
    changed.update(fields)?;
    for (name, value) in changes {
        changed.set_item(name, value)?;
    }
    Ok(changed.into_any())
}

/// Whether arguments are an object, or the JSON of one.
fn is_object(arguments: Option<Bound<'_, PyAny>>) -> PyResult<bool> {
    let Some(arguments) = arguments else { return Ok(false) };
    if !arguments.is_instance_of::<PyString>() {
        return Ok(arguments.cast::<PyMapping>().is_ok());
    }
    Ok(json_value(&arguments)?.is_some_and(|read| read.is_instance_of::<PyDict>()))
}
