//! Writing the AI SDK's messages: from neutral ones, and from its own as they are sent.
use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::conversation::Role;

use super::contents::Reader;
use super::gemini::media_type;
use super::neutral::{Answer, Key, Media, Message, Part, Sent, after, dict, joined, key_of, texts_of};
use super::system_apart::{Placed, placed_in};
use super::{Lost, Rendered, with_words};
use crate::interned::interned;
use crate::reading::{Fields, is_blank, listed, text_of};

/// Move the system messages out: those at the beginning are for `system`, and each later one becomes the user's, never
/// between calls and their results. Version 7 accepts none among the messages, unless the app asks it to: so one that only
/// sets the effort stays, in its place.
pub fn without_system<'py>(py: Python<'py>, sent: Vec<Sent<'py>>) -> PyResult<Rendered<'py>> {
    let Placed { leading, rest } = placed_in(py, "ai_sdk", &sent)?;
    let mut system = Vec::new();
    for each in &sent[..leading] {
        if only_sets(each)? || is_as_sent(each)? {
            system.push(each.clone());
        } else if let Some(text) = text_in(each)? {
            system.push(Sent::new(dict!(py, "role": "system", "content": text), &each.sources));
        }
    }
    let mut messages = Vec::with_capacity(rest.len());
    for (at, is_system) in rest {
        if !is_system || only_sets(&sent[at])? {
            messages.push(sent[at].clone());
        } else if let Some(text) = text_in(&sent[at])? {
            messages.push(Sent::new(user(&after("[system]\n", &text)?)?, &sent[at].sources));
        }
    }
    Ok(Rendered { system, messages, lost: Lost::default() })
}

/// Whether a system message has no text and sets the effort of OpenAI's models (`reasoningEffortUpdate`, `@ai-sdk/openai`
/// 4.0.75, 2026-11, <https://github.com/vercel/ai/releases/tag/@ai-sdk/openai@4.0.75>).
fn only_sets(sent: &Sent<'_>) -> PyResult<bool> {
    let (py, message) = (sent.message.py(), Fields::needed(&sent.message, 0, String::new)?);
    let options = message.get(interned!(py, "providerOptions"))?;
    for (_, of) in options.as_ref().and_then(Fields::of).map_or(Ok(Vec::new()), Fields::items)? {
        if let Some(of) = Fields::of(&of)
            && of.is_set(interned!(py, "reasoningEffortUpdate"))?
        {
            return Ok(text_in(sent)?.is_none());
        }
    }
    Ok(false)
}

/// Whether a system message is as the SDK takes it, a text with options.
fn is_as_sent(sent: &Sent<'_>) -> PyResult<bool> {
    let (py, message) = (sent.message.py(), Fields::needed(&sent.message, 0, String::new)?);
    let is_text = message.text(interned!(py, "content"))?.is_some();
    Ok(is_text && message.is_set(interned!(py, "providerOptions"))? && text_in(sent)?.is_some())
}

/// The text of a system message. None if it has none.
fn text_in<'py>(sent: &Sent<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
    let py = sent.message.py();
    let content = Fields::needed(&sent.message, 0, String::new)?.get(interned!(py, "content"))?;
    let mut texts = Vec::new();
    for part in listed(content.as_ref())? {
        texts.extend(Fields::of(&part).map(|part| part.text(interned!(py, "text"))).transpose()?.flatten());
    }
    texts.extend(content.and_then(|content| content.cast_into::<PyString>().ok()));
    let text = joined(interned!(py, "\n\n"), texts)?;
    let is_said = !is_blank(&text_of(&text));
    Ok(is_said.then_some(text))
}

/// A user's message of one text.
pub fn user<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(text.py(), "role": "user", "content": text))
}

/// Messages of the AI SDK's. The user's words in a message with results follow in a message of their own.
pub fn write<'py>(reader: &Reader<'py>, messages: &[Message<'py>]) -> PyResult<Vec<Sent<'py>>> {
    let py = reader.py;
    let mut sent: Vec<Sent<'py>> = Vec::new();
    let mut tools: HashMap<Key, Bound<'py, PyAny>> = HashMap::new();
    for each in messages {
        if each.role == Role::System {
            sent.extend(each.as_users(py, user)?);
            continue;
        }
        if let Some(entry) = &each.entry {
            sent.push(Sent { message: entry.clone(), sources: each.sources.clone() });
            continue;
        }
        let (said, results) = (PyList::empty(py), PyList::empty(py));
        for part in &each.parts {
            match part {
                Part::Text(text) => said.append(dict!(py, "type": "text", "text": text))?,
                Part::Media(media) => said.append(file(media)?)?,
                Part::Call(of) => {
                    tools.insert(key_of(of.id.as_ref())?, of.name.clone());
                    let call = dict!(py, "type": "tool-call", "toolCallId": &of.id, "toolName": &of.name);
                    call.set_item(interned!(py, "input"), super::object(&of.input)?)?;
                    said.append(call)?;
                }
                Part::Result(answer) => {
                    let unknown = PyString::new(py, "tool").into_any(); // its call is not there
                    let name = tools.get(&key_of(answer.id.as_ref())?).unwrap_or(&unknown);
                    let result = dict!(py, "type": "tool-result", "toolCallId": &answer.id, "toolName": name);
                    result.set_item(interned!(py, "output"), output(reader, answer, each.first())?)?;
                    results.append(result)?;
                }
            }
        }
        let role = if each.role == Role::Assistant { "assistant" } else { "user" };
        for (role, parts) in [("tool", results), (role, said)] {
            if !parts.is_empty() {
                sent.push(Sent::new(dict!(py, "role": role, "content": parts), &each.sources));
            }
        }
    }
    Ok(sent)
}

fn output<'py>(reader: &Reader<'py>, answer: &Answer<'py>, at: usize) -> PyResult<Bound<'py, PyDict>> {
    let py = reader.py;
    if answer.is_error {
        let said = with_words(&answer.parts, |media| reader.left_out(media, at))?;
        return Ok(dict!(py, "type": "error-text", "value": texts_of(py, &said)?));
    }
    if !answer.parts.iter().any(|part| matches!(part, Part::Media(_))) {
        return Ok(dict!(py, "type": "text", "value": texts_of(py, &answer.parts)?));
    }
    let items = PyList::empty(py);
    for part in &answer.parts {
        match part {
            Part::Text(text) => items.append(dict!(py, "type": "text", "text": text))?,
            Part::Media(media) => items.append(item(media)?)?,
            Part::Call(_) | Part::Result(_) => {}
        }
    }
    Ok(dict!(py, "type": "content", "value": items))
}

/// A medium in a message.
pub fn file<'py>(media: &Media<'py>) -> PyResult<Bound<'py, PyDict>> {
    let made = dict!(media.url.py(), "type": "file", "data": &media.url, "mediaType": media_type(media));
    if !media.name.is_empty()? {
        made.set_item(interned!(media.url.py(), "filename"), &media.name)?;
    }
    Ok(made)
}

/// A medium in a result.
fn item<'py>(media: &Media<'py>) -> PyResult<Bound<'py, PyDict>> {
    let py = media.url.py();
    let url = text_of(&media.url);
    let kind = if media.is_image { "image" } else { "file" };
    match url.strip_prefix("data:").and_then(|url| url.split_once(";base64,")) {
        Some((_, data)) => Ok(dict!(py, "type": format!("{kind}-data"), "data": data, "mediaType": media_type(media))),
        // Version 7 wants the type of a file.
        None => Ok(dict!(py, "type": format!("{kind}-url"), "url": &media.url, "mediaType": media_type(media))),
    }
}
