//! Writing the AI SDK's UI messages, as `useChat` stores them (`ai` 5 to 7, 2026-11,
//! <https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message>).
use std::collections::{HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::conversation::Role;

use super::contents::Reader;
use super::gemini::media_type;
use super::neutral::{Answer, Key, Media, Message, Part, dict, key_of, texts_of};
use super::{ai_sdk, histories, left_out, normal, object, with_words};
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{is_blank, text_of};

/// The entries of a format as UI messages. What the assistant says between two words of the user's is one message: each
/// call with its result, and a `step-start` where it goes on after results.
#[pyfunction]
pub fn ui_messages<'py>(entries: &Bound<'py, PyAny>, format: &str) -> PyResult<Bound<'py, PyList>> {
    let _running = Running::begin();
    let py = entries.py();
    let read = histories::messages_of(&Reader::new(py), format, entries, 0)?;
    let mut writer = Writer::new(py);
    for message in normal::normalized(py, read)? {
        writer.add(&message)?;
    }
    Ok(writer.made)
}

struct Writer<'py> {
    made: Bound<'py, PyList>,
    ids: HashSet<String>,
    /// The parts of the assistant's message that may go on.
    open: Option<Bound<'py, PyList>>,
    /// Its tool parts, by the id of the call.
    tools: HashMap<Key, Bound<'py, PyDict>>,
}

impl<'py> Writer<'py> {
    fn new(py: Python<'py>) -> Self {
        Self { made: PyList::empty(py), ids: HashSet::new(), open: None, tools: HashMap::new() }
    }

    fn add(&mut self, message: &Message<'py>) -> PyResult<()> {
        let py = self.made.py();
        let is_models = message.role == Role::Assistant;
        let parts = PyList::empty(py);
        for part in &message.parts {
            match part {
                Part::Text(text) => add_text(&parts, text)?,
                Part::Media(media) => parts.append(file(media)?)?,
                Part::Call(call) => {
                    let kind = format!("tool-{}", call.name.str()?.to_string_lossy());
                    let tool = dict!(py, "type": kind, "toolCallId": &call.id, "state": "input-available");
                    tool.set_item(interned!(py, "input"), object(&call.input)?)?;
                    self.tools.insert(key_of(call.id.as_ref())?, tool.clone());
                    parts.append(tool)?;
                }
                Part::Result(answer) => match self.tools.get(&key_of(answer.id.as_ref())?) {
                    Some(tool) => answered(tool, answer)?,
                    None => add_text(&parts, &texts_of(py, &answer.parts)?)?, // its call is not there
                },
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        if let Some(open) = self.open.as_ref().filter(|_| is_models) {
            open.append(dict!(py, "type": "step-start"))?;
            return parts.iter().try_for_each(|part| open.append(part));
        }
        let role = match message.role {
            Role::Assistant => "assistant",
            Role::System => "system",
            _ => "user",
        };
        let id = self.free_id(message.first());
        self.made.append(dict!(py, "id": id, "role": role, "parts": &parts))?;
        self.open = is_models.then_some(parts);
        Ok(())
    }

    /// An id by the index of the entry: a list that goes on keeps those that it had.
    fn free_id(&mut self, index: usize) -> String {
        let (mut id, mut number) = (format!("rehydrate-{index}"), 1);
        while !self.ids.insert(id.clone()) {
            number += 1;
            id = format!("rehydrate-{index}-{number}");
        }
        id
    }
}

fn add_text<'py>(parts: &Bound<'py, PyList>, text: &Bound<'py, PyString>) -> PyResult<()> {
    if is_blank(&text_of(text)) {
        return Ok(());
    }
    parts.append(dict!(text.py(), "type": "text", "text": text))
}

fn file<'py>(media: &Media<'py>) -> PyResult<Bound<'py, PyDict>> {
    let file = ai_sdk::file(media)?;
    file.del_item(interned!(media.url.py(), "data"))?;
    file.set_item(interned!(media.url.py(), "url"), &media.url)?;
    Ok(file)
}

/// Give a tool part its result. One with media has the form of an MCP server's, of which the SDK makes images.
fn answered<'py>(tool: &Bound<'py, PyDict>, answer: &Answer<'py>) -> PyResult<()> {
    let py = tool.py();
    let state = if answer.is_error { "output-error" } else { "output-available" };
    tool.set_item(interned!(py, "state"), state)?;
    if answer.is_error {
        let said = with_words(&answer.parts, left_out)?;
        return tool.set_item(interned!(py, "errorText"), texts_of(py, &said)?);
    }
    let output = interned!(py, "output");
    if !answer.parts.iter().any(|part| matches!(part, Part::Media(_))) {
        return tool.set_item(output, texts_of(py, &answer.parts)?);
    }
    let content = PyList::empty(py);
    for part in &answer.parts {
        match part {
            Part::Text(text) => content.append(dict!(py, "type": "text", "text": text))?,
            Part::Media(media) => content.append(item(media)?)?,
            Part::Call(_) | Part::Result(_) => {}
        }
    }
    tool.set_item(output, dict!(py, "content": content))
}

/// A medium in a result.
fn item<'py>(media: &Media<'py>) -> PyResult<Bound<'py, PyDict>> {
    let (py, url) = (media.url.py(), text_of(&media.url));
    Ok(match url.strip_prefix("data:").and_then(|url| url.split_once(";base64,")) {
        Some((_, data)) if media.is_image => dict!(py, "type": "image", "data": data, "mimeType": media_type(media)),
        // The SDK would send the bytes of a file as text.
        Some(_) => dict!(py, "type": "text", "text": left_out(media)?),
        None => {
            dict!(py, "type": "resource_link", "uri": &media.url, "name": &media.name, "mimeType": media_type(media))
        }
    })
}
