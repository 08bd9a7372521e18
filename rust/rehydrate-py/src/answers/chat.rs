//! Answers of OpenAI's chat completions, and of servers that speak the same: arguments may be an object or an empty
//! string, calls may have no id or all the same, the content may be null. The result has OpenAI's documented form.
use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::{
    Any, Joins, Said, as_json, copied, get, grown, is_blank, is_object, items, joined, listed, name, new_id, nothing,
    set,
};
use crate::reading::{json_value, text_of};
use crate::writing::dict;

/// The API returns these fields of a message and refuses them in a request.
const ONLY_IN_ANSWERS: [&str; 4] = ["annotations", "provider_specific_fields", "function_call", "index"];

/// A completion, joined of chunks.
pub struct Completion {
    head: Py<PyDict>,
    message: Py<PyDict>,
    calls: Py<PyList>,
    call_by_index: Py<PyDict>,
    finish_reason: Option<Py<PyAny>>,
}

impl Completion {
    pub fn begin(py: Python<'_>) -> Self {
        let empty = || PyDict::new(py).unbind();
        let calls = PyList::empty(py).unbind();
        Self { head: empty(), message: empty(), calls, call_by_index: empty(), finish_reason: None }
    }

    fn add_call(&self, delta: &Any<'_>) -> PyResult<()> {
        let call = self.call_of(delta)?;
        for (key, value) in items(delta)? {
            if value.is_truthy()? && !key.eq("index")? && !key.eq("function")? {
                call.set_item(key, value)?;
            }
        }
        let function = call.get_item("function")?;
        for (key, value) in set(delta, "function")?.map_or_else(|| Ok(Vec::new()), |function| items(&function))? {
            if value.is_none() || (key.eq("name")? && value.eq(function.get_item("name")?)?) {
                continue;
            }
            let is_text = value.is_instance_of::<PyString>();
            let piece = if key.eq("arguments")? && !is_text { as_json(&value, false)? } else { value };
            let before = if function.contains(&key)? { Some(function.get_item(&key)?) } else { None };
            function.set_item(&key, grown(before, piece)?)?;
        }
        Ok(())
    }

    /// The call that a piece belongs to; a new one if none fits.
    ///
    /// That is the call with the same index, or the last call if the piece has none. A piece with a name and another id begins
    /// a new call: some servers number all of theirs 0.
    fn call_of<'py>(&self, delta: &Any<'py>) -> PyResult<Any<'py>> {
        let py = delta.py();
        let index = get(delta, "index")?.unwrap_or_else(|| py.None().into_bound(py));
        let id = set(delta, "id")?;
        let has_name = match set(delta, "function")? {
            Some(function) => set(&function, "name")?.is_some(),
            None => false,
        };
        if let Some(call) = self.call_by_index.bind(py).get_item(&index)? {
            let is_other = match id {
                Some(id) => get(&call, "id")?.map_or(Ok(true), |known| id.ne(known))?,
                None => false,
            };
            if !has_name || !(is_other || index.is_none()) {
                return Ok(call);
            }
        }
        let call = dict!(py, "function": dict!(py, "name": "", "arguments": "")).into_any();
        self.calls.bind(py).append(&call)?;
        self.call_by_index.bind(py).set_item(index, &call)?;
        Ok(call)
    }
}

impl Joins for Completion {
    /// The last chunk has the usage and no choice.
    fn add<'py>(&mut self, chunk: &Any<'py>) -> PyResult<Any<'py>> {
        let py = chunk.py();
        for (key, value) in items(chunk)? {
            if !value.is_none() && !key.eq("choices")? {
                self.head.bind(py).set_item(key, value)?;
            }
        }
        let (message, mut texts) = (self.message.bind(py), Vec::new());
        for choice in listed(chunk, "choices")? {
            if let Some(delta) = set(&choice, "delta")? {
                for call in listed(&delta, "tool_calls")? {
                    self.add_call(&call)?;
                }
                for (key, value) in items(&delta)? {
                    if !value.is_none() && !key.eq("role")? && !key.eq("tool_calls")? {
                        message.set_item(&key, grown(message.get_item(&key)?, value)?)?;
                    }
                }
                texts.push(text_in(get(&delta, "content")?, py)?);
            }
            if let Some(reason) = set(&choice, "finish_reason")? {
                self.finish_reason = Some(reason.unbind());
            }
        }
        joined(py, texts)
    }

    fn body<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(reason) = &self.finish_reason else { return Ok(None) };
        let message = dict!(py, "role": "assistant", "content": py.None());
        message.update(self.message.bind(py).as_mapping())?;
        message.set_item("tool_calls", &self.calls)?;
        let body = self.head.bind(py).copy()?;
        body.set_item("choices", [dict!(py, "message": message, "finish_reason": reason)])?;
        Ok(Some(body))
    }
}

pub fn read<'py>(body: &Any<'py>) -> PyResult<Said<'py>> {
    let py = body.py();
    let choice = body.get_item("choices")?.get_item(0)?;
    let message = choice.get_item("message")?;
    let refusal = set(&message, "refusal")?;
    let stop = match name(&choice, "finish_reason")?.as_str() {
        _ if refusal.is_some() => "refusal",
        "length" => "length",
        "content_filter" => "refusal",
        _ => "answer",
    };
    let calls = if stop == "refusal" { Vec::new() } else { calls(listed(&message, "tool_calls")?, stop)? };
    let mut text = text_in(get(&message, "content")?, py)?;
    if !text.is_truthy()? {
        text = refusal.clone().unwrap_or(text);
    }
    let mut entries = Vec::new();
    if text.is_truthy()? || !calls.is_empty() {
        entries.push(resendable(&message, &calls)?.into_any());
    }
    let stop = if calls.is_empty() { stop } else { "calls" };
    let (usage, model, id) = (get(body, "usage")?, get(body, "model")?, get(body, "id")?);
    Ok(Said { entries, text, calls, stop, usage, model, id })
}

/// The text of a content: a string, or a list of parts.
fn text_in<'py>(content: Option<Any<'py>>, py: Python<'py>) -> PyResult<Any<'py>> {
    match content {
        Some(content) if content.is_instance_of::<PyString>() => Ok(content),
        Some(content) if content.is_instance_of::<PyList>() => {
            let mut texts = Vec::new();
            for part in content.try_iter()? {
                let part = part?;
                let text = if is_object(&part) { get(&part, "text")? } else { None };
                texts.extend(text.filter(|text| text.is_instance_of::<PyString>()));
            }
            joined(py, texts)
        }
        _ => Ok(nothing(py)),
    }
}

/// The message in the form that the API accepts in a request.
///
/// It drops nulls, an empty list of calls, and fields that only answers have. A server's own fields stay, also a
/// provider's own summary, which LiteLLM needs back.
pub fn resendable<'py>(received: &Any<'py>, calls: &[Any<'py>]) -> PyResult<Bound<'py, PyDict>> {
    let py = received.py();
    let message = PyDict::new(py);
    for (key, value) in items(received)? {
        let key_text = key.str()?;
        let key_text = text_of(&key_text);
        if !value.is_none() && !ONLY_IN_ANSWERS.contains(&key_text.as_ref()) && key_text != "tool_calls" {
            message.set_item(key, value)?;
        }
    }
    if let Some(fields) = get(received, "provider_specific_fields")?.filter(is_object)
        && let Some(blocks) = set(&fields, "compaction_blocks")?
    {
        message.set_item("provider_specific_fields", dict!(py, "compaction_blocks": blocks))?;
    }
    let audio = get(&message, "audio")?;
    if let Some(audio) = audio.as_ref().filter(|audio| audio.is_truthy().unwrap_or(true)) {
        message.set_item("audio", dict!(py, "id": get(audio, "id")?))?;
    }
    message.set_item("role", "assistant")?;
    message.set_item("content", get(received, "content")?)?;
    let is_said = !calls.is_empty() || audio.is_some() || message.contains("refusal")?;
    if set(&message, "content")?.is_none() && !is_said {
        message.set_item("content", "")?;
    }
    if !calls.is_empty() {
        message.set_item("tool_calls", calls)?;
    }
    Ok(message)
}

/// The calls in OpenAI's form, without those whose arguments were cut off.
fn calls<'py>(received: Vec<Any<'py>>, stop: &str) -> PyResult<Vec<Any<'py>>> {
    let (mut calls, mut ids) = (Vec::new(), HashSet::new());
    let last = received.len().saturating_sub(1);
    for (number, call) in received.iter().enumerate() {
        let Some(function) = get(call, "function")?.filter(is_object) else { continue };
        if set(&function, "name")?.is_none() {
            continue; // some gateways stream empty calls between the others
        }
        let arguments = arguments_json(get(&function, "arguments")?, call.py())?;
        if stop == "length" && number == last && json_value(&arguments)?.is_none() {
            continue;
        }
        let id = set(call, "id")?.and_then(|id| id.cast_into::<PyString>().ok());
        let id = match id {
            Some(id) if !ids.contains(&*text_of(&id)) => id.into_any(),
            _ => new_id(call.py())?,
        };
        ids.insert(text_of(id.cast::<PyString>()?).into_owned());
        let kept = PyDict::new(call.py());
        for (key, value) in items(call)? {
            if !value.is_none() && !key.eq("index")? {
                kept.set_item(key, value)?;
            }
        }
        let function = copied(&function)?;
        function.set_item("arguments", arguments)?;
        kept.set_item("id", id)?;
        kept.set_item("type", "function")?;
        kept.set_item("function", function)?;
        calls.push(kept.into_any());
    }
    Ok(calls)
}

/// The arguments as JSON. A server may send an object, or an empty text for none.
fn arguments_json<'py>(arguments: Option<Any<'py>>, py: Python<'py>) -> PyResult<Any<'py>> {
    let empty = || PyString::new(py, "{}").into_any();
    match arguments {
        Some(text) if text.is_instance_of::<PyString>() => Ok(if is_blank(&text)? { empty() } else { text }),
        Some(value) if value.is_truthy()? => as_json(&value, false),
        _ => Ok(empty()),
    }
}
