//! Writing Anthropic's messages: from neutral ones, and from its own as they are sent.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::conversation::Role;

use super::neutral::{Answer, Media, Message, Part, Sent, dict};
use crate::interned::interned;
use crate::reading::{Fields, text_of};

/// A message with the keys that the API takes (anthropic 2.12, 2026-11): role and content, and how long a system message is
/// shown and what it sets.
pub fn own<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = entry.py();
    let of = Fields::needed(entry, 0, String::new)?;
    if of.len()? == 2 {
        return Ok(entry.clone());
    }
    let (role, content) = (of.get(interned!(py, "role"))?, of.get(interned!(py, "content"))?);
    if !role.as_ref().map_or(Ok(false), |role| role.eq("system"))? {
        return Ok(dict!(py, "role": role, "content": content).into_any());
    }
    let made = dict!(py, "role": role);
    for key in [interned!(py, "content"), interned!(py, "clear_at"), interned!(py, "output_config")] {
        if let Some(value) = of.get(key)? {
            made.set_item(key, value)?;
        }
    }
    Ok(made.into_any())
}

/// A block of a text.
pub fn text_block<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(text.py(), "type": "text", "text": text))
}

/// A user's message of one text.
pub fn user<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyDict>> {
    let py = text.py();
    Ok(dict!(py, "role": "user", "content": PyList::new(py, [text_block(text)?])?))
}

/// Messages of Anthropic's. A system entry among them becomes a user message that says it is one, and so does a
/// document of the assistant's, which the API only accepts from the user (2026-10-21).
pub fn write<'py>(py: Python<'py>, messages: &[Message<'py>]) -> PyResult<Vec<Sent<'py>>> {
    let mut sent = Vec::new();
    for each in messages {
        if each.role == Role::System {
            sent.extend(each.as_users(py, user)?);
            continue;
        }
        if let Some(entry) = &each.entry {
            sent.push(Sent { message: entry.clone(), sources: each.sources.clone() });
            continue;
        }
        let is_assistant = each.role == Role::Assistant;
        let (mut blocks, mut documents) = (Vec::new(), Vec::new());
        for part in &each.parts {
            let is_document = is_assistant && matches!(part, Part::Media(media) if !media.is_image);
            if is_document { &mut documents } else { &mut blocks }.push(block(py, part)?);
        }
        if !documents.is_empty() {
            documents.insert(0, dict!(py, "type": "text", "text": "[assistant]"));
        }
        sent.extend(super::blocks_of_role(py, false, documents, each)?);
        sent.extend(super::blocks_of_role(py, is_assistant, blocks, each)?);
    }
    Ok(sent)
}

fn block<'py>(py: Python<'py>, part: &Part<'py>) -> PyResult<Bound<'py, PyDict>> {
    match part {
        Part::Text(text) => text_block(text),
        Part::Media(media) => medium(media),
        Part::Call(call) => {
            let input = super::object(&call.input)?;
            Ok(dict!(py, "type": "tool_use", "id": &call.id, "name": &call.name, "input": input))
        }
        Part::Result(answer) => result(py, answer),
    }
}

fn result<'py>(py: Python<'py>, answer: &Answer<'py>) -> PyResult<Bound<'py, PyDict>> {
    let content = match answer.parts.as_slice() {
        [Part::Text(text)] => text.clone().into_any(),
        parts => {
            let blocks = parts.iter().map(|part| block(py, part)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, blocks)?.into_any()
        }
    };
    let made = dict!(py, "type": "tool_result", "tool_use_id": &answer.id, "content": content);
    if answer.is_error {
        made.set_item(interned!(py, "is_error"), true)?;
    }
    Ok(made)
}

fn medium<'py>(media: &Media<'py>) -> PyResult<Bound<'py, PyDict>> {
    let py = media.url.py();
    let (head, comma, data): (Bound<'py, PyString>, Bound<'py, PyString>, Bound<'py, PyString>) =
        media.url.call_method1("partition", (",",))?.extract()?;
    let head = text_of(&head);
    let of = head.strip_prefix("data:").and_then(|of| of.strip_suffix(";base64"));
    let source = match of.filter(|_| !comma.is_empty().unwrap_or(true)) {
        Some(of) => {
            let media_type = of.split(';').next().unwrap_or_default();
            dict!(py, "type": "base64", "media_type": media_type, "data": data)
        }
        None => dict!(py, "type": "url", "url": &media.url),
    };
    let kind = if media.is_image { interned!(py, "image") } else { interned!(py, "document") };
    Ok(dict!(py, "type": kind, "source": source))
}
