//! LangChain's message objects as messages of OpenAI chat.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::neutral::{Media, after, dict};
use super::{chat, left_out};
use crate::errors::{is_no_message, raise};
use crate::exit::Running;
use crate::interned::{Interned, interned};
use crate::reading::{Fields, LangchainMessage, arguments, as_message, langchain_role, text_of};

/// Types of blocks that are calls which the client answers.
const CLIENT_CALLS: &[&str] = &["tool_use", "tool_call", "invalid_tool_call", "function_call", "custom_tool_call"];
/// LangChain's note that a system message is the developer's.
static DEVELOPER: Interned = Interned::new("__openai_role__");
static EXTRAS: [Interned; 4] = [
    Interned::new("refusal"),
    Interned::new("reasoning_content"),
    Interned::new("audio"),
    Interned::new("function_call"),
];
const SPEAKS_OTHERWISE: &[&str] = &["tool_calls", "function_call", "refusal", "audio"];

/// Each message as a dict of chat. Raises InvalidMessageError for an entry that isn't a message, or is not sent.
#[pyfunction]
pub fn langchain_to_openai<'py>(messages: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let _running = Running::begin();
    messages.try_iter()?.enumerate().map(|(index, raw)| as_chat(&raw?, index, false)).collect()
}

/// The position and the dict of chat of each message that a model sees. A dict among them stays as it is.
#[pyfunction]
pub fn seen_as_chat<'py>(messages: &Bound<'py, PyAny>) -> PyResult<Vec<(usize, Bound<'py, PyAny>)>> {
    let _running = Running::begin();
    let mut seen = Vec::new();
    for (position, raw) in messages.try_iter()?.enumerate() {
        let raw = raw?;
        match as_chat(&raw, 0, false) {
            Ok(entry) => seen.push((position, entry.into_any())),
            Err(error) if !is_no_message(raw.py(), &error)? => return Err(error),
            Err(_) if Fields::of(&raw).is_some() => seen.push((position, raw)),
            Err(_) => {} // an order to a graph's state
        }
    }
    Ok(seen)
}

/// A message as a dict of chat. One that `is_read` keeps what another provider takes and chat does not: addresses of
/// files, any type of them, and whether a tool failed.
pub fn as_chat<'py>(raw: &Bound<'py, PyAny>, index: usize, is_read: bool) -> PyResult<Bound<'py, PyDict>> {
    let py = raw.py();
    let entry = as_message(raw, index)?;
    let role = langchain_role(&entry)?;
    let Some(of) = LangchainMessage::of(&entry, index)? else {
        let remedy = "it is an order to a graph's state; leave it out";
        return Err(raise(py, "InvalidMessageError", (index, "", entry, "a message that is sent", remedy)));
    };
    let extras = entry.getattr(interned!(py, "additional_kwargs"))?;
    let extras = Fields::of(&extras);
    let mut shown = role.clone().into_any();
    if let Some(extras) = extras
        && extras.has(DEVELOPER.get(py))?
    {
        shown = extras.as_any().get_item(DEVELOPER.get(py))?;
    }
    let made = dict!(py, "role": shown, "content": content(&entry.getattr(interned!(py, "content"))?, is_read)?);
    if is_read && let Some(status) = entry.getattr_opt(interned!(py, "status"))? {
        made.set_item(interned!(py, "status"), status)?;
    }
    let answered = entry.getattr_opt(interned!(py, "tool_call_id"))?;
    if let Some(answered) = answered.filter(|id| id.is_instance_of::<PyString>()) {
        made.set_item(interned!(py, "tool_call_id"), answered)?;
    } else if text_of(&role) == "tool" {
        made.set_item(interned!(py, "role"), interned!(py, "function"))?;
    }
    let name = entry.getattr(interned!(py, "name"))?;
    if !name.is_none() {
        made.set_item(interned!(py, "name"), name)?;
    }
    for key in EXTRAS.iter().map(|key| key.get(py)) {
        if let Some(extras) = extras
            && extras.has(key)?
        {
            made.set_item(key, extras.as_any().get_item(key)?)?;
        }
    }
    let calls = PyList::empty(py);
    for call in of.calls.iter().filter(|call| !call.by_server) {
        let arguments = match &call.input {
            Some(input) => arguments(input)?,
            None => PyString::new(py, "{}").into_any(),
        };
        let function = dict!(py, "name": &call.name, "arguments": arguments);
        calls.append(dict!(py, "id": &call.id, "type": "function", "function": function))?;
    }
    if !calls.is_empty() && !made.contains(interned!(py, "function_call"))? {
        made.set_item(interned!(py, "tool_calls"), calls)?;
    }
    let key = interned!(py, "content");
    let is_empty = made.get_item(key)?.map_or(Ok(false), |of| PyResult::Ok(of.eq("")? || of.eq(PyList::empty(py))?))?;
    for other in SPEAKS_OTHERWISE.iter().filter(|_| is_empty) {
        if made.contains(other)? {
            made.set_item(key, py.None())?;
        }
    }
    Ok(made)
}

/// The content without calls among its blocks, since `tool_calls` holds all of them, and with media in chat's form.
fn content<'py>(content: &Bound<'py, PyAny>, is_read: bool) -> PyResult<Bound<'py, PyAny>> {
    let py = content.py();
    if !content.is_instance_of::<PyList>() {
        return Ok(content.clone());
    }
    let kept = PyList::empty(py);
    for block in content.try_iter()? {
        let block = block?;
        match Fields::of(&block) {
            Some(of) if CLIENT_CALLS.contains(&of.kind()?.name().as_ref()) => {}
            Some(of) => match medium(of, is_read)? {
                Some(medium) => kept.append(medium)?,
                None => kept.append(block)?,
            },
            None => kept.append(block)?,
        }
    }
    Ok(kept.into_any())
}

/// LangChain's own block of a medium, of its version 0 (with `source_type`) or 1, in the form of chat. None for any other
/// block.
fn medium<'py>(block: Fields<'_, 'py>, is_read: bool) -> PyResult<Option<Bound<'py, PyDict>>> {
    let py = block.as_any().py();
    let kind = block.kind()?;
    let default = match kind.name().as_ref() {
        "image" => "image/png",
        "audio" => "audio/wav",
        "video" => "video/mp4",
        "file" => "application/pdf",
        _ => return Ok(None),
    };
    let form = block.text(interned!(py, "source_type"))?;
    let form = form.as_ref().map(text_of).unwrap_or_default();
    if form == "text" {
        return Ok(Some(dict!(py, "type": "text", "text": block.get(interned!(py, "text"))?)));
    }
    let own = if form == "base64" { interned!(py, "data") } else { interned!(py, "base64") };
    let url = match block.text(own)? {
        Some(data) => {
            let of = block.text(interned!(py, "mime_type"))?;
            let of = of.as_ref().map_or_else(|| default.into(), text_of);
            Some(after(&format!("data:{of};base64,"), &data)?)
        }
        None => block.text(interned!(py, "url"))?,
    };
    let Some(url) = url else {
        let key = if form == "id" { interned!(py, "id") } else { interned!(py, "file_id") };
        let id = block.text(key)?;
        return id.map(|id| PyResult::Ok(dict!(py, "type": "file", "file": dict!(py, "file_id": id)))).transpose();
    };
    let mut name = block.text(interned!(py, "filename"))?;
    for extras in [interned!(py, "extras"), interned!(py, "metadata")] {
        if name.is_none()
            && let Some(extras) = block.get(extras)?.as_ref().and_then(Fields::of)
        {
            name = extras.text(interned!(py, "filename"))?;
        }
    }
    if is_read && default != "image/png" {
        return Ok(Some(dict!(py, "type": "file", "file": dict!(py, "file_data": url, "filename": name))));
    }
    let name = name.unwrap_or_else(|| PyString::new(py, ""));
    let media = Media { is_image: default == "image/png", url, name };
    Ok(Some(match chat::medium(&media)? {
        Some(medium) => medium,
        None => dict!(py, "type": "text", "text": left_out(&media)?),
    }))
}
