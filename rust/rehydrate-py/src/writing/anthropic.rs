//! Writing Anthropic's messages: from neutral ones, and from its own as they are sent.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::conversation::Role;

use super::bedrock::{EMPTY, decoded};
use super::contents::Reader;
use super::neutral::{Answer, Media, Message, Part, Sent, dict};
use crate::interned::interned;
use crate::reading::{Fields, is_blank, text_of};

/// The images that the API takes; the only other bytes are a PDF's.
const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

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
pub fn write<'py>(reader: &Reader<'py>, messages: &[Message<'py>]) -> PyResult<Vec<Sent<'py>>> {
    let py = reader.py;
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
            let made = block(reader, part, each.first())?;
            let is_document = is_assistant
                && made.get_item(interned!(py, "type"))?.is_some_and(|of| of.eq("document").unwrap_or(false));
            if is_document { &mut documents } else { &mut blocks }.push(made);
        }
        if !documents.is_empty() {
            documents.insert(0, dict!(py, "type": "text", "text": "[assistant]"));
        }
        sent.extend(super::blocks_of_role(py, false, documents, each)?);
        sent.extend(super::blocks_of_role(py, is_assistant, blocks, each)?);
    }
    Ok(sent)
}

fn block<'py>(reader: &Reader<'py>, part: &Part<'py>, at: usize) -> PyResult<Bound<'py, PyDict>> {
    let py = reader.py;
    match part {
        Part::Text(text) => text_block(text),
        Part::Media(media) => match medium(media)? {
            Some(medium) => Ok(medium),
            None => text_block(&reader.left_out(media, at)?),
        },
        Part::Call(call) => {
            let input = super::object(&call.input)?;
            Ok(dict!(py, "type": "tool_use", "id": &call.id, "name": &call.name, "input": input))
        }
        Part::Result(answer) => result(reader, answer, at),
    }
}

fn result<'py>(reader: &Reader<'py>, answer: &Answer<'py>, at: usize) -> PyResult<Bound<'py, PyDict>> {
    let py = reader.py;
    let content = match answer.parts.as_slice() {
        [Part::Text(text)] => text.clone().into_any(),
        [] if answer.is_error => PyString::new(py, EMPTY).into_any(),
        parts => {
            let blocks = parts.iter().map(|part| block(reader, part, at)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, blocks)?.into_any()
        }
    };
    let made = dict!(py, "type": "tool_result", "tool_use_id": &answer.id, "content": content);
    if answer.is_error {
        made.set_item(interned!(py, "is_error"), true)?;
    }
    Ok(made)
}

/// A medium. None if the API does not take its type, or it is not on the web.
fn medium<'py>(media: &Media<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let py = media.url.py();
    let url = text_of(&media.url);
    let Some((kind, data)) = Media::base64_in(&url) else {
        let kind = if media.is_image { "image" } else { "document" };
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        return Ok(is_web.then_some(dict!(py, "type": kind, "source": dict!(py, "type": "url", "url": &media.url))));
    };
    let is_image = IMAGES.contains(&kind.as_str());
    if is_image || kind == "application/pdf" {
        let source = dict!(py, "type": "base64", "media_type": kind, "data": data);
        return Ok(Some(dict!(py, "type": if is_image { "image" } else { "document" }, "source": source)));
    }
    let bytes = if kind.starts_with("text/") { decoded(&PyString::new(py, data))? } else { None };
    let text = bytes.as_ref().and_then(|bytes| std::str::from_utf8(bytes.as_bytes()).ok());
    let Some(text) = text.filter(|text| !is_blank(text)) else { return Ok(None) };
    let source = dict!(py, "type": "text", "media_type": "text/plain", "data": text);
    let made = dict!(py, "type": "document", "source": source);
    if !media.name.is_empty()? {
        made.set_item(interned!(py, "title"), &media.name)?;
    }
    Ok(Some(made))
}
