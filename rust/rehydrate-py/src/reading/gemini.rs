//! Gemini's `contents`: each part has one key for its kind, in camelCase as in REST or in `snake_case` as in
//! google-genai's `model_dump`.
//!
//! The keys are those of google-genai 2.34 (2026-11). A response answers a call by its id. If one of them has none, it
//! answers the first of its name: the API accepts both, and `Part.from_function_response` has no id.
//!
//! A turn with calls must come after a user's, so a content of the model and the one after it are one unit. A content
//! of the `system` role at the beginning is for `systemInstruction`.
use std::collections::{HashMap, VecDeque};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use rehydrate_core::conversation::{PieceKind, Role};

use super::anthropic::check_calls;
use super::blocks::{At, Body};
use super::chat::{FUNCTION, function_id};
use super::columns::Columns;
use super::draft::Speaker;
use super::fields::{Fields, is_list, listed, python, text_of};
use super::strings::Id;
use super::{Link, Read, speaker_of, usual_speaker};
use crate::errors::raise;
use crate::interned::{Interned, interned};

/// A field, as REST has it and as Python has it.
pub struct Key(Interned, Interned);

impl Key {
    const fn new(camel: &'static str, snake: &'static str) -> Self {
        Self(Interned::new(camel), Interned::new(snake))
    }

    /// The name that the field has in an object, and its value.
    pub fn in_<'py>(&self, of: Fields<'_, 'py>) -> PyResult<Option<(&'static str, Bound<'py, PyAny>)>> {
        let py = of.as_any().py();
        for name in [&self.0, &self.1] {
            if let Some(value) = of.get(name.get(py))? {
                return Ok(Some((name.text(), value)));
            }
        }
        Ok(None)
    }

    pub fn value<'py>(&self, of: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.in_(of)?.map(|(_, value)| value))
    }

    pub fn text<'py>(&self, of: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        Ok(self.value(of)?.and_then(|value| value.cast_into().ok()))
    }
}

pub static SIGNATURE: Key = Key::new("thoughtSignature", "thought_signature");
pub static MIME_TYPE: Key = Key::new("mimeType", "mime_type");
pub static FILE_URI: Key = Key::new("fileUri", "file_uri");
pub static DISPLAY_NAME: Key = Key::new("displayName", "display_name");

/// The keys for the kind of a part.
static KEYS: [(Key, Is); 10] = [
    (Key::new("functionCall", "function_call"), Is::Call),
    (Key::new("functionResponse", "function_response"), Is::Response),
    (Key::new("text", "text"), Is::Text),
    (Key::new("inlineData", "inline_data"), Is::Inline),
    (Key::new("fileData", "file_data"), Is::File),
    (Key::new("executableCode", "executable_code"), Is::Readable),
    (Key::new("codeExecutionResult", "code_execution_result"), Is::Readable),
    (Key::new("toolCall", "tool_call"), Is::Readable),
    (Key::new("toolResponse", "tool_response"), Is::Readable),
    (Key::new("audioTranscription", "audio_transcription"), Is::Transcript),
];

/// The kind of data in a part.
#[derive(Clone, Copy, PartialEq)]
pub enum Is {
    Text,
    Call,
    Response,
    Inline,
    File,
    /// Calls and results of the provider's own tools.
    Readable,
    /// What was said in speech: its text, and each word once more.
    Transcript,
}

/// The data of a part: its key and its value.
pub struct Data<'py> {
    pub is: Is,
    pub key: &'static str,
    pub value: Bound<'py, PyAny>,
}

/// All data in a part. None if it has a type, as other formats' parts have.
pub fn all_data<'py>(part: Fields<'_, 'py>) -> PyResult<Vec<Data<'py>>> {
    let mut found = Vec::new();
    if part.kind()?.0.is_none() {
        for (key, is) in &KEYS {
            found.extend(key.in_(part)?.map(|(key, value)| Data { is: *is, key, value }));
        }
    }
    Ok(found)
}

/// The first data in a part.
pub fn data_of<'py>(part: Fields<'_, 'py>) -> PyResult<Option<Data<'py>>> {
    Ok(all_data(part)?.into_iter().next())
}

/// Whether a part is a thought.
pub fn is_thought(part: Fields<'_, '_>) -> PyResult<bool> {
    Ok(part.kind()?.0.is_none() && part.is_set(interned!(part.as_any().py(), "thought"))?)
}

/// The parts of a content: a string is one text. If there are none, those under `content`.
pub fn parts_of<'py>(entry: Fields<'_, 'py>, index: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = entry.as_any().py();
    let (parts, content) = (entry.get(interned!(py, "parts"))?, entry.get(interned!(py, "content"))?);
    let Some(text) = parts.or(content) else { return Ok(Vec::new()) };
    if is_list(&text) {
        return listed(Some(&text));
    }
    if text.is_instance_of::<PyString>() {
        return Ok(if text.is_truthy()? { vec![text] } else { Vec::new() });
    }
    let remedy = "wrap the part in a list";
    Err(raise(py, "InvalidMessageError", (index, "parts", text, "a list of Gemini's parts", remedy)))
}

/// The speaker: the user if there is no role.
pub fn speaker<'py>(entry: Fields<'_, 'py>, index: usize) -> PyResult<Speaker<'py>> {
    let py = entry.as_any().py();
    let Some(role) = entry.get(interned!(py, "role"))? else {
        return Ok(Speaker::known(Role::User, interned!(py, "user")));
    };
    match role.cast::<PyString>() {
        Ok(role) if text_of(role) == "model" => Ok(Speaker::known(Role::Assistant, interned!(py, "assistant"))),
        Ok(role) if text_of(role) == "function" => Ok(Speaker::known(Role::User, interned!(py, "user"))),
        Ok(role) if role.is_exact_instance_of::<PyString>() && !role.is_empty()? => Ok(usual_speaker(role.clone())),
        _ => speaker_of(entry, index),
    }
}

/// The calls of the last turn of the model that wait for their responses, and the ids of pairs without one.
#[derive(Default)]
pub struct Waiting {
    /// The id of each call, until it is answered.
    calls: Vec<Option<Py<PyString>>>,
    /// The calls that a response answers, in order. An answered call leaves when it is the first.
    asked: HashMap<Asked, VecDeque<usize>>,
    /// The number of pairs without an id, by name.
    nameless: Option<Py<PyDict>>,
}

/// The key of a call: its id or its name. A name may be missing.
#[derive(PartialEq, Eq, Hash)]
enum Asked {
    Id(Vec<u8>),
    Name(Option<Vec<u8>>),
    /// The name of a call without an id.
    OnlyName(Option<Vec<u8>>),
}

impl Waiting {
    /// Begin with another content. Responses go on with the ids of the calls before them.
    pub fn begin(&mut self, is_models: bool, has_responses: bool) {
        if is_models || !has_responses {
            *self = Self::default();
        }
    }

    /// The id of a call.
    pub fn call<'py>(&mut self, call: Fields<'_, 'py>) -> PyResult<Bound<'py, PyString>> {
        let (id, name) = pair(call)?;
        let key = name.as_ref().map(bytes_of).transpose()?;
        let number = self.calls.len();
        self.asked.entry(Asked::Name(key.clone())).or_default().push_back(number);
        let own = match &id {
            Some(id) => Asked::Id(bytes_of(id)?),
            None => Asked::OnlyName(key),
        };
        self.asked.entry(own).or_default().push_back(number);
        let id = match id {
            Some(id) => id,
            None => self.own_id(name.as_ref(), call.as_any().py())?,
        };
        self.calls.push(Some(id.clone().unbind()));
        Ok(id)
    }

    /// The id of the call that a response answers.
    pub fn answer<'py>(&mut self, response: Fields<'_, 'py>) -> PyResult<Bound<'py, PyString>> {
        let py = response.as_any().py();
        let (id, name) = pair(response)?;
        let key = name.as_ref().map(bytes_of).transpose()?;
        let found = match &id {
            Some(id) => {
                let (same, nameless) = (self.first(&Asked::Id(bytes_of(id)?)), self.first(&Asked::OnlyName(key)));
                same.into_iter().chain(nameless).min()
            }
            None => self.first(&Asked::Name(key)),
        };
        match (found.and_then(|number| self.calls[number].take()), id) {
            (Some(call), _) => Ok(call.into_bound(py)),
            (None, Some(id)) => Ok(id),
            (None, None) => self.own_id(name.as_ref(), py),
        }
    }

    /// The first call of these that waits.
    fn first(&mut self, asked: &Asked) -> Option<usize> {
        let numbers = self.asked.get_mut(asked)?;
        while numbers.front().is_some_and(|&number| self.calls[number].is_none()) {
            numbers.pop_front();
        }
        numbers.front().copied()
    }

    fn own_id<'py>(&mut self, name: Option<&Bound<'py, PyString>>, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let empty = PyString::new(py, "");
        let id = function_id(name.unwrap_or(&empty))?;
        let counts = self.nameless.get_or_insert_with(|| PyDict::new(py).unbind()).bind(py);
        let number = counts.get_item(&id)?.map_or(Ok(0), |number| number.extract::<usize>())? + 1;
        counts.set_item(&id, number)?;
        if number == 1 {
            return Ok(id);
        }
        Ok(id.add(format!(":{number}"))?.cast_into()?)
    }
}

/// Whether a response without an id may answer a call before it that has one: read alone, it has no id.
pub fn answers_by_name(before: &Columns, after: &Columns) -> bool {
    let is_nameless = |id: &Id| id.as_bytes().starts_with(FUNCTION.as_bytes());
    let responses = (0..after.of.rows.len()).map(|at| after.answers(at)).take_while(|answers| !answers.is_empty());
    let asked = (0..before.of.rows.len()).rev().find(|&at| before.answers(at).is_empty());
    let may_wait = asked.is_some_and(|at| before.calls(at).iter().any(|call| !is_nameless(call)));
    may_wait && responses.flatten().any(is_nameless)
}

fn bytes_of(text: &Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    Ok(Id::of(text.clone())?.as_bytes().to_vec())
}

/// An id and a name.
type Pair<'py> = (Option<Bound<'py, PyString>>, Option<Bound<'py, PyString>>);

/// The id of a call or a response, unless it is empty, and its name.
fn pair<'py>(of: Fields<'_, 'py>) -> PyResult<Pair<'py>> {
    let py = of.as_any().py();
    let id = of.text(interned!(py, "id"))?.filter(|id| !id.is_empty().unwrap_or(true));
    Ok((id, of.text(interned!(py, "name"))?))
}

/// Whether a part is a response.
pub fn is_response(part: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Some(part) = Fields::of(part) else { return Ok(false) };
    Ok(data_of(part)?.is_some_and(|data| data.is == Is::Response))
}

/// Read one content.
pub(super) fn read_message<'py>(body: &mut Body, raw: &Bound<'py, PyAny>) -> PyResult<Read<'py>> {
    let py = raw.py();
    let entry = Fields::needed(raw, body.index, String::new)?;
    let speaker = speaker(entry, body.index)?;
    if !entry.is_small(2) {
        check_calls(entry, body.index)?;
    }
    let parts = parts_of(entry, body.index)?;
    let mut has_responses = false;
    for part in &parts {
        has_responses |= is_response(part)?;
    }
    body.waiting.begin(speaker.role == Role::Assistant, has_responses);
    let key = if entry.get(interned!(py, "parts"))?.is_some() { "parts" } else { "content" };
    let is_list = entry.get(&PyString::new(py, key))?.as_ref().is_some_and(is_list);
    let path = body.places.is_some().then(|| PyTuple::new(py, [key])).transpose()?;
    let root = At::Root(path.as_ref(), key);
    body.parts = parts.len();
    for (number, part) in parts.iter().enumerate() {
        let at = if is_list { At::Number(&root, number) } else { root };
        if part.is_instance_of::<PyString>() {
            body.add(Some(part.clone()), PieceKind::Text, Some(at))?;
            continue;
        }
        read_part(body, Fields::needed(part, body.index, || at.words())?, at)?;
    }
    Ok(Read { speaker, link: Link::None })
}

fn read_part<'py>(body: &mut Body, part: Fields<'_, 'py>, at: At<'_, 'py>) -> PyResult<()> {
    let py = part.as_any().py();
    let Some(Data { is, key, value }) = data_of(part)? else {
        return if part.kind()?.0.is_some() {
            body.add_block(part, PieceKind::Text, at)
        } else {
            body.is_uncommon = true;
            body.add_unknown(part, PieceKind::Text)
        };
    };
    let here = At::Key(&at, key);
    let is_thought = is_thought(part)?;
    body.is_thoughtful |= is_thought;
    match (is, Fields::of(&value)) {
        (Is::Text, _) => {
            let kind = if is_thought { PieceKind::Thinking } else { PieceKind::Text };
            let is_free = !is_thought && SIGNATURE.value(part)?.is_none();
            body.add(Some(value), kind, is_free.then_some(here))
        }
        (Is::Call, Some(call)) => {
            let id = body.waiting.call(call)?;
            body.calls.push(Id::of(id)?);
            let (name, args) = (call.get(interned!(py, "name"))?, call.get(interned!(py, "args"))?);
            let none = PyDict::new(py).into_any();
            body.add_input(py, name.as_ref(), Some(args.as_ref().unwrap_or(&none)))
        }
        (Is::Response, Some(response)) => {
            body.results += 1;
            let id = body.waiting.answer(response)?;
            body.answers.push(Id::of(id)?);
            listed(response.get(interned!(py, "parts"))?.as_ref())?
                .iter()
                .try_for_each(|part| body.add_medium(part))?;
            read_response(body, response.get(interned!(py, "response"))?, At::Key(&here, "response"))
        }
        (Is::Inline | Is::File, _) => body.add_medium(part.as_any()),
        (Is::Transcript, Some(said)) => body.add(said.get(interned!(py, "text"))?, PieceKind::Text, None),
        _ => {
            body.is_uncommon = true;
            body.add_readable(&value, PieceKind::Text)
        }
    }
}

/// Read a function's result: each of its texts, then everything else as one JSON.
fn read_response<'py>(body: &mut Body, value: Option<Bound<'py, PyAny>>, at: At<'_, 'py>) -> PyResult<()> {
    let Some(value) = value else { return Ok(()) };
    let Some(response) = Fields::of(&value) else { return body.add_readable(&value, PieceKind::ToolResult) };
    let py = value.py();
    let rest = PyDict::new(py);
    for (key, value) in response.items()? {
        match (key.cast::<PyString>(), value.is_instance_of::<PyString>()) {
            (Ok(key), true) => body.add(Some(value), PieceKind::ToolResult, Some(At::Named(&at, key)))?,
            _ => rest.set_item(key, value)?,
        }
    }
    if rest.is_empty() {
        Ok(())
    } else {
        body.add(Some(python(py, "compact_json", (rest,))?), PieceKind::ToolResult, None)
    }
}
