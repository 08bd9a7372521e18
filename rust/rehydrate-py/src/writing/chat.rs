//! Messages of OpenAI chat, written.
use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rehydrate_core::conversation::Role;

use super::contents::Reader;
use super::neutral::{Call, Key, Media, Message, Part, Sent, dict, key_of, texts_of};
use super::{one_or_all, role_and_content};
use crate::interned::interned;
use crate::reading::{arguments, text_of};

/// Messages of chat. OpenAI only accepts media from the user, so media in a result follow in a user message after all
/// results of their turn. If a result is missing, they go before the calls.
pub fn write<'py>(reader: &Reader<'py>, messages: &[Message<'py>]) -> PyResult<Vec<Sent<'py>>> {
    let mut sent: Vec<Sent<'py>> = Vec::new();
    let mut waiting: HashSet<Key> = HashSet::new();
    for each in messages {
        for answer in each.answers() {
            waiting.remove(&key_of(answer.id.as_ref())?);
        }
        if let Some(entry) = &each.entry {
            sent.push(Sent { message: entry.clone(), sources: each.sources.clone() });
        } else {
            let Made { mut messages, is_shown_last } = made(reader, each)?;
            if !waiting.is_empty()
                && messages.len() > 1
                && is_shown_last
                && let Some(shown) = messages.pop()
            {
                sent.insert(sent.len().saturating_sub(1), Sent::new(shown, &each.sources));
            }
            sent.extend(messages.into_iter().map(|message| Sent::new(message, &each.sources)));
        }
        waiting.clear();
        for call in each.calls() {
            waiting.insert(key_of(call.id.as_ref())?);
        }
    }
    Ok(sent)
}

/// The messages of one, and whether the last is the user's.
struct Made<'py> {
    messages: Vec<Bound<'py, PyDict>>,
    is_shown_last: bool,
}

fn made<'py>(reader: &Reader<'py>, message: &Message<'py>) -> PyResult<Made<'py>> {
    let py = reader.py;
    let mut messages = Vec::new();
    let mut is_shown_last = false;
    match message.role {
        Role::System => {
            let text = message.text(py)?;
            if !text.is_empty()? {
                messages.push(role_and_content(py, "system", text.as_any())?);
            }
        }
        Role::Assistant => {
            let (texts, calls) = (PyList::empty(py), PyList::empty(py));
            for part in &message.parts {
                match part {
                    Part::Text(text) => texts.append(dict!(py, "type": "text", "text": text))?,
                    Part::Call(of) => calls.append(call(py, of)?)?,
                    Part::Media(_) | Part::Result(_) => {}
                }
            }
            if !texts.is_empty() || !calls.is_empty() {
                let content = if texts.is_empty() { None } else { Some(one_or_all(&texts, "text")?) };
                let made = dict!(py, "role": "assistant", "content": content);
                if !calls.is_empty() {
                    made.set_item(interned!(py, "tool_calls"), calls)?;
                }
                messages.push(made);
            }
        }
        _ => {
            let shown = PyList::empty(py);
            for answer in message.answers() {
                for part in &answer.parts {
                    if let Part::Media(media) = part {
                        shown.append(shown_medium(reader, media, message.first())?)?;
                    }
                }
                let text = texts_of(py, &answer.parts)?;
                messages.push(dict!(py, "role": "tool", "tool_call_id": &answer.id, "content": text));
            }
            for part in &message.parts {
                match part {
                    Part::Text(text) => shown.append(dict!(py, "type": "text", "text": text))?,
                    Part::Media(media) => shown.append(shown_medium(reader, media, message.first())?)?,
                    Part::Call(_) | Part::Result(_) => {}
                }
            }
            if !shown.is_empty() {
                messages.push(role_and_content(py, "user", &one_or_all(&shown, "text")?)?);
                is_shown_last = true;
            }
        }
    }
    Ok(Made { messages, is_shown_last })
}

fn call<'py>(py: Python<'py>, call: &Call<'py>) -> PyResult<Bound<'py, PyDict>> {
    let arguments = arguments(&call.input)?;
    let function = dict!(py, "name": &call.name, "arguments": arguments);
    Ok(dict!(py, "id": &call.id, "type": "function", "function": function))
}

/// A medium. None if chat does not take it: it takes files by content only, and speech as WAV or MP3.
pub fn medium<'py>(media: &Media<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let py = media.url.py();
    if media.is_image {
        return Ok(Some(dict!(py, "type": "image_url", "image_url": dict!(py, "url": &media.url))));
    }
    let url = text_of(&media.url);
    let (kind, data) = Media::base64_in(&url).unwrap_or_default();
    let format = match kind.as_str() {
        "audio/wav" | "audio/wave" | "audio/x-wav" => "wav",
        "audio/mp3" | "audio/mpeg" => "mp3",
        _ if super::is_heard(&kind) || !url.starts_with("data:") => return Ok(None),
        _ => {
            let file = dict!(py, "filename": super::file_name(media)?, "file_data": &media.url);
            return Ok(Some(dict!(py, "type": "file", "file": file)));
        }
    };
    Ok(Some(dict!(py, "type": "input_audio", "input_audio": dict!(py, "data": data, "format": format))))
}

/// A medium, or the words for it.
fn shown_medium<'py>(reader: &Reader<'py>, media: &Media<'py>, at: usize) -> PyResult<Bound<'py, PyDict>> {
    match medium(media)? {
        Some(medium) => Ok(medium),
        None => Ok(dict!(reader.py, "type": "text", "text": reader.left_out(media, at)?)),
    }
}
