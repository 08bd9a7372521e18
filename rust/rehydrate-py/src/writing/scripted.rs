//! The answers of a scripted model, in the form of a provider: for tests and demos.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::neutral::dict;
use crate::answers::as_json;
use crate::exit::Running;
use crate::interned::interned;

type Value<'py> = Bound<'py, PyAny>;

/// Ids that are the same for the same prompt, and different for all others.
struct Ids<'a> {
    of_prompt: &'a str,
    count: usize,
}

impl Ids<'_> {
    fn next(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}_{}{:02}", self.of_prompt, self.count)
    }
}

/// A text, or the name and the arguments of a call.
enum Part<'py> {
    Text(Bound<'py, PyString>),
    Call(Value<'py>, Bound<'py, PyDict>),
}

impl<'py> Part<'py> {
    fn of(part: &Value<'py>) -> PyResult<Self> {
        let py = part.py();
        if let Ok(text) = part.cast::<PyString>() {
            return Ok(Self::Text(text.clone()));
        }
        let arguments = PyDict::new(py);
        arguments.update(part.getattr(interned!(py, "arguments"))?.cast()?)?;
        Ok(Self::Call(part.getattr(interned!(py, "name"))?, arguments))
    }
}

/// The entries of a reply for the history, the calls in them, and the id of the reply. `parts` are texts and calls in order.
#[pyfunction]
pub fn scripted_reply<'py>(
    provider: &str,
    parts: Vec<Value<'py>>,
    of_prompt: &str,
    py: Python<'py>,
) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>, String)> {
    let _running = Running::begin();
    let parts = parts.iter().map(Part::of).collect::<PyResult<Vec<_>>>()?;
    let mut ids = Ids { of_prompt, count: 0 };
    let (entries, calls) = match provider {
        "openai_chat" => chat(py, &parts, &mut ids)?,
        "openai_responses" => responses(py, &parts, &mut ids)?,
        _ => blocks(py, provider, &parts, &mut ids)?,
    };
    Ok((PyList::new(py, entries)?, PyList::new(py, calls)?, ids.next("resp")))
}

type Written<'py> = (Vec<Bound<'py, PyDict>>, Vec<Bound<'py, PyDict>>);

/// A message whose texts and calls are blocks.
fn blocks<'py>(py: Python<'py>, provider: &str, parts: &[Part<'py>], ids: &mut Ids<'_>) -> PyResult<Written<'py>> {
    let (mut blocks, mut calls) = (Vec::new(), Vec::new());
    for part in parts {
        let block = match (part, provider) {
            (Part::Text(text), "bedrock" | "gemini") => dict!(py, "text": text),
            (Part::Text(text), _) => dict!(py, "type": "text", "text": text),
            (Part::Call(name, input), "anthropic") => {
                dict!(py, "type": "tool_use", "id": ids.next("toolu"), "name": name, "input": input)
            }
            (Part::Call(name, input), "bedrock") => {
                dict!(py, "toolUse": dict!(py, "toolUseId": ids.next("tooluse"), "name": name, "input": input))
            }
            (Part::Call(name, args), "gemini") => {
                dict!(py, "functionCall": dict!(py, "id": ids.next("call"), "name": name, "args": args))
            }
            (Part::Call(name, input), _) => {
                dict!(py, "type": "tool-call", "toolCallId": ids.next("call"), "toolName": name, "input": input)
            }
        };
        if matches!(part, Part::Call(..)) {
            calls.push(block.clone());
        }
        blocks.push(block);
    }
    if blocks.is_empty() {
        return Ok((Vec::new(), calls));
    }
    let message = match provider {
        "gemini" => dict!(py, "role": "model", "parts": blocks),
        _ => dict!(py, "role": "assistant", "content": blocks),
    };
    Ok((vec![message], calls))
}

fn chat<'py>(py: Python<'py>, parts: &[Part<'py>], ids: &mut Ids<'_>) -> PyResult<Written<'py>> {
    if parts.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let (mut texts, mut calls) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Text(text) => texts.push(text),
            Part::Call(name, arguments) => {
                let function = dict!(py, "name": name, "arguments": as_json(arguments.as_any(), false)?);
                calls.push(dict!(py, "id": ids.next("call"), "type": "function", "function": function));
            }
        }
    }
    let text = PyString::new(py, "").call_method1("join", (texts,))?;
    let text = if text.is_truthy()? { text } else { py.None().into_bound(py) };
    let message = dict!(py, "role": "assistant", "content": text);
    if !calls.is_empty() {
        message.set_item("tool_calls", &calls)?;
    }
    Ok((vec![message], calls))
}

fn responses<'py>(py: Python<'py>, parts: &[Part<'py>], ids: &mut Ids<'_>) -> PyResult<Written<'py>> {
    let (mut items, mut calls) = (Vec::new(), Vec::new());
    for part in parts {
        items.push(match part {
            Part::Text(text) => {
                let none = PyList::empty(py);
                let content = dict!(py, "type": "output_text", "text": text, "annotations": none);
                let (id, status) = (ids.next("msg"), "completed");
                dict!(py, "type": "message", "id": id, "role": "assistant", "status": status, "content": [content])
            }
            Part::Call(name, arguments) => {
                let (id, call_id, status) = (ids.next("fc"), ids.next("call"), "completed");
                let arguments = as_json(arguments.as_any(), false)?;
                let item = dict!(
                    py, "type": "function_call", "id": id, "call_id": call_id, "name": name,
                    "arguments": arguments, "status": status
                );
                calls.push(item.clone());
                item
            }
        });
    }
    Ok((items, calls))
}
