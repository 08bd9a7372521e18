//! Writing items of OpenAI Responses: from neutral messages, and from its own as they are sent.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::conversation::Role;

use super::contents::Reader;
use super::neutral::{Media, Message, Part, Sent, dict};
use super::{one_or_all, role_and_content};
use crate::interned::interned;
use crate::reading::{Fields, arguments, text_of};

/// Keys of chat in addition to the content.
const CHAT_KEYS: &[&str] = &[
    "name",
    "tool_calls",
    "function_call",
    "refusal",
    "audio",
    "annotations",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
];

/// A message with its content and without chat's other keys. An item is unchanged.
pub fn own<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = entry.py();
    let of = Fields::needed(entry, 0, String::new)?;
    if !of.has(interned!(py, "role"))? {
        return Ok(entry.clone());
    }
    let (kept, mut is_same) = (PyDict::new(py), true);
    for (key, value) in of.items()? {
        if key.cast::<PyString>().is_ok_and(|key| CHAT_KEYS.contains(&text_of(key).as_ref())) {
            is_same = false;
        } else {
            kept.set_item(key, value)?;
        }
    }
    Ok(if is_same { entry.clone() } else { kept.into_any() })
}

/// Messages as items.
pub fn write<'py>(reader: &Reader<'py>, messages: &[Message<'py>]) -> PyResult<Vec<Sent<'py>>> {
    let mut sent = Vec::new();
    for each in messages {
        if let Some(entry) = &each.entry {
            sent.push(Sent { message: entry.clone(), sources: each.sources.clone() });
            continue;
        }
        for item in items(reader, each)? {
            sent.push(Sent::new(item, &each.sources));
        }
    }
    Ok(sent)
}

fn items<'py>(reader: &Reader<'py>, message: &Message<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let (py, at) = (reader.py, message.first());
    let mut items = Vec::new();
    if matches!(message.role, Role::System | Role::Assistant) {
        let text = message.text(py)?;
        if !text.is_empty()? {
            let role = if message.role == Role::System { "system" } else { "assistant" };
            items.push(role_and_content(py, role, text.as_any())?);
        }
        for call in message.calls().filter(|_| message.role == Role::Assistant) {
            items.push(dict!(py,
                "type": "function_call",
                "call_id": &call.id,
                "name": &call.name,
                "arguments": arguments(&call.input)?,
            ));
        }
        return Ok(items);
    }
    for answer in message.answers() {
        let output = match answer.parts.as_slice() {
            [] => PyString::new(py, "").into_any(),
            parts => content(reader, parts, at)?,
        };
        items.push(dict!(py, "type": "function_call_output", "call_id": &answer.id, "output": output));
    }
    if message.parts.iter().any(|part| matches!(part, Part::Text(_) | Part::Media(_))) {
        items.push(role_and_content(py, "user", &content(reader, &message.parts, at)?)?);
    }
    Ok(items)
}

/// Texts and media as a content.
fn content<'py>(reader: &Reader<'py>, parts: &[Part<'py>], at: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = reader.py;
    let shown = PyList::empty(py);
    for part in parts {
        match part {
            Part::Text(text) => shown.append(dict!(py, "type": "input_text", "text": text))?,
            Part::Media(media) => shown.append(medium(reader, media, at)?)?,
            Part::Call(_) | Part::Result(_) => {}
        }
    }
    one_or_all(&shown, "input_text")
}

fn medium<'py>(reader: &Reader<'py>, media: &Media<'py>, at: usize) -> PyResult<Bound<'py, PyDict>> {
    let (py, url) = (media.url.py(), &media.url);
    if media.is_image {
        return Ok(dict!(py, "type": "input_image", "image_url": url, "detail": "auto"));
    }
    if super::is_heard(&Media::base64_in(&text_of(url)).unwrap_or_default().0) {
        return Ok(dict!(py, "type": "input_text", "text": reader.left_out(media, at)?));
    }
    if text_of(url).starts_with("data:") {
        let name = super::file_name(media)?;
        return Ok(dict!(py, "type": "input_file", "filename": name, "file_data": url));
    }
    Ok(dict!(py, "type": "input_file", "file_url": url))
}
