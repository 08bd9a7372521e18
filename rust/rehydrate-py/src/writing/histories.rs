//! The history of each format as neutral messages.
use std::collections::{HashMap, HashSet, VecDeque};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use rehydrate_core::conversation::Role;

use super::contents::{NO_THINKING, Reader, arguments_of, parts_of, picture, shown, text_in};
use super::from_ai_sdk;
use super::from_bedrock::as_anthropic;
use super::from_gemini;
use super::from_langchain::as_chat;
use super::neutral::{Call, Key, Message, Part, dict, joined, key_of};
use crate::errors::raise;
use crate::interned::{Interned, interned};
use crate::reading::{
    Fields, codex_items, function_id, gemini, is_by_server, is_setting, listed, merged_lines, text_of, usual_role,
};

/// Each entry and its index.
type Numbered<'py> = Vec<(usize, Bound<'py, PyAny>)>;

static THINKING_KEYS: [Interned; 4] = [
    Interned::new("reasoning_content"),
    Interned::new("reasoning"),
    Interned::new("thinking"),
    Interned::new("thinking_blocks"),
];
/// Types of items that are the client's calls, and the key of their input.
static CLIENT_CALLS: [(&str, Interned); 6] = [
    ("function_call", Interned::new("arguments")),
    ("custom_tool_call", Interned::new("input")),
    ("computer_call", Interned::new("action")),
    ("local_shell_call", Interned::new("action")),
    ("shell_call", Interned::new("action")),
    ("apply_patch_call", Interned::new("operation")),
];
/// Items that only their provider can resolve.
const HELD: &[&str] = &["item_reference", "compaction", "compaction_summary"];

/// Read a history, whose first entry has the index `first`. Raises InvalidMessageError for an entry that only its
/// provider can resolve.
pub fn messages_of<'py>(
    reader: &Reader<'py>,
    format: &str,
    entries: &Bound<'py, PyAny>,
    first: usize,
) -> PyResult<Vec<Message<'py>>> {
    let py = entries.py();
    let numbered = || -> PyResult<Numbered<'py>> {
        entries.try_iter()?.enumerate().map(|(at, entry)| Ok((first + at, entry?))).collect()
    };
    match format {
        "anthropic" => blocks(reader, numbered()?.into_iter().map(|(at, entry)| (entry, [at].into()))),
        "bedrock" => {
            let read = numbered()?.into_iter().map(|(at, entry)| Ok((as_anthropic(&entry)?.into_any(), [at].into())));
            blocks(reader, read.collect::<PyResult<Vec<_>>>()?.into_iter())
        }
        "gemini" => {
            let mut waiting = gemini::Waiting::default();
            let mut read = Vec::new();
            for (at, entry) in numbered()? {
                read.push((from_gemini::as_anthropic(&entry, at, &mut waiting)?.into_any(), vec![at]));
            }
            blocks(reader, read.into_iter())
        }
        "ai_sdk" | "ai_sdk_ui" => {
            let read = from_ai_sdk::as_anthropic(entries, first, format == "ai_sdk_ui")?;
            blocks(reader, read.into_iter())
        }
        "claude_code" => {
            let lines = merged_lines(entries)?.into_iter();
            let read = lines.map(|(message, places)| Ok((message.into_any(), places.extract()?)));
            blocks(reader, read.collect::<PyResult<Vec<_>>>()?.into_iter())
        }
        "codex" => {
            let items = codex_items(entries)?.into_iter();
            responses(reader, &items.map(|(at, item)| (first + at, item)).collect::<Numbered<'py>>())
        }
        "openai_chat" => chat(reader, &numbered()?),
        "openai_responses" => responses(reader, &numbered()?),
        "plain" => plain(reader, &numbered()?),
        "langchain" => {
            let mut sent = Vec::new();
            for (at, entry) in numbered()? {
                let kind = entry.getattr(interned!(py, "type"))?;
                if !kind.eq(interned!(py, "remove"))? {
                    sent.push((at, entry));
                }
            }
            let (indices, sent): (Vec<usize>, Vec<_>) = sent.into_iter().unzip();
            let read = sent.iter().enumerate().map(|(at, entry)| Ok(as_chat(entry, at, true)?.into_any()));
            let read = indices.into_iter().zip(read.collect::<PyResult<Vec<_>>>()?).collect::<Vec<_>>();
            let mut messages = chat(reader, &read)?;
            messages.iter_mut().for_each(|message| message.entry = None);
            Ok(messages)
        }
        _ => Err(PyValueError::new_err(format!("no reader of {format}"))),
    }
}

/// The usual name of an entry's role.
fn role_of<'py>(entry: Fields<'_, 'py>) -> PyResult<Bound<'py, PyString>> {
    let py = entry.as_any().py();
    Ok(usual_role(shown(py, entry.get(interned!(py, "role"))?)?))
}

/// Anthropic's messages, each with the indices of its entries.
fn blocks<'py>(
    reader: &Reader<'py>,
    entries: impl Iterator<Item = (Bound<'py, PyAny>, Vec<usize>)>,
) -> PyResult<Vec<Message<'py>>> {
    let read = |(entry, sources): (Bound<'py, PyAny>, Vec<usize>)| {
        let entry = Fields::needed(&entry, 0, String::new)?;
        reader.message(entry, &role_of(entry)?, sources.into())
    };
    entries.map(read).collect()
}

fn plain<'py>(reader: &Reader<'py>, entries: &Numbered<'py>) -> PyResult<Vec<Message<'py>>> {
    let mut messages = Vec::new();
    for (index, entry) in entries {
        let py = entry.py();
        let entry = Fields::needed(entry, *index, String::new)?;
        let role = role_of(entry)?;
        let message = reader.message(entry, &role, [*index].into())?;
        if matches!(message.role, Role::System | Role::User | Role::Assistant) {
            messages.push(message);
            continue;
        }
        // An unknown role, or a tool's answer to no call, becomes the user's, with its name.
        let text = message.text(py)?;
        if !text.is_empty()? {
            let named = vec![PyString::new(py, "["), role, PyString::new(py, "]\n"), text];
            let text = Part::Text(joined(&PyString::new(py, ""), named)?);
            messages.push(Message::new(Role::User, vec![text], [*index].into()));
        }
    }
    Ok(messages)
}

fn chat<'py>(reader: &Reader<'py>, entries: &Numbered<'py>) -> PyResult<Vec<Message<'py>>> {
    let mut messages = Vec::new();
    let mut waiting = Waiting::default();
    for (index, entry) in entries {
        let (py, index) = (entry.py(), *index);
        let entry = Fields::needed(entry, index, String::new)?;
        let role = role_of(entry)?;
        if text_of(&role) == "tool" {
            let mut call = entry.text(interned!(py, "tool_call_id"))?.filter(|id| !id.is_empty().unwrap_or(true));
            if call.is_none()
                && let Some(role) = entry.get(interned!(py, "role"))?
                && role.eq(interned!(py, "function"))?
            {
                call = Some(function_id(&shown(py, entry.get(interned!(py, "name"))?)?)?);
            }
            if call.is_none() {
                call = waiting.named_by(entry)?;
            }
            waiting.answer(call.as_ref())?;
            let result = reader.result(call, entry.get(interned!(py, "content"))?, entry, index)?;
            messages.push(Message::new(Role::User, vec![Part::Result(result)], [index].into()));
            continue;
        }
        let mut message = reader.message(entry, &role, [index].into())?;
        let mut more = beside_content(reader, entry, index)?;
        if message.role != Role::Assistant {
            // Only the assistant's calls are accepted: others become a message of the assistant after it.
            let is_call = |part: &Part<'_>| matches!(part, Part::Call(_));
            let (calls, rest): (Vec<_>, Vec<_>) = more.into_iter().partition(is_call);
            if calls.is_empty() {
                more = rest;
            } else {
                message.parts.extend(rest);
                message.entry = None;
                messages.push(message);
                message = Message::new(Role::Assistant, Vec::new(), [index].into());
                more = calls;
            }
        }
        if !more.is_empty() {
            message.parts.extend(more);
            message.entry = None;
        }
        waiting = Waiting::of(&message)?;
        messages.push(message);
    }
    Ok(messages)
}

/// The parts of a chat message in addition to its content.
fn beside_content<'py>(reader: &Reader<'py>, entry: Fields<'_, 'py>, index: usize) -> PyResult<Vec<Part<'py>>> {
    let py = entry.as_any().py();
    for key in &THINKING_KEYS {
        if entry.is_set(key.get(py))? {
            reader.lose(&PyString::new(py, NO_THINKING), index)?;
            break;
        }
    }
    let mut more = Vec::new();
    // Ollama keeps pictures there, in base64.
    for data in listed(entry.get(interned!(py, "images"))?.as_ref())? {
        if let Ok(data) = data.cast_into::<PyString>()
            && !data.is_empty()?
        {
            more.push(Part::Media(picture(data)?));
        }
    }
    more.extend(text_in(entry.get(interned!(py, "refusal"))?));
    let audio = entry.get(interned!(py, "audio"))?;
    if let Some(audio) = audio.as_ref().and_then(Fields::of) {
        let transcript = interned!(py, "transcript");
        more.extend(text_in(audio.get(transcript)?));
        if !audio.is_set(transcript)? {
            reader.lose(&PyString::new(py, "speech without its words is not sent:"), index)?;
        }
    }
    let calls = entry.get(interned!(py, "tool_calls"))?;
    for (number, raw) in parts_of(calls.as_ref(), index, "tool_calls")?.iter().enumerate() {
        let id = if number == 0 { format!("call_{index}") } else { format!("call_{index}_{number}") };
        more.extend(chat_call(raw, &id)?.map(Part::Call));
    }
    let legacy = entry.get(interned!(py, "function_call"))?;
    if let Some(legacy) = legacy.as_ref().and_then(Fields::of) {
        let name = shown(py, legacy.get(interned!(py, "name"))?)?;
        let input = arguments_of(py, legacy.get(interned!(py, "arguments"))?)?;
        more.push(Part::Call(Call { id: Some(function_id(&name)?), name: name.into_any(), input }));
    }
    Ok(more)
}

fn chat_call<'py>(raw: &Bound<'py, PyAny>, id_if_none: &str) -> PyResult<Option<Call<'py>>> {
    let py = raw.py();
    let Some(call) = Fields::of(raw) else { return Ok(None) };
    let id = call.text(interned!(py, "id"))?.filter(|id| !id.is_empty().unwrap_or(true));
    let id = Some(id.unwrap_or_else(|| PyString::new(py, id_if_none)));
    let function = call.get(interned!(py, "function"))?;
    if let Some(function) = function.as_ref().and_then(Fields::of) {
        let name = shown(py, function.get(interned!(py, "name"))?)?.into_any();
        return Ok(Some(Call { id, name, input: arguments_of(py, function.get(interned!(py, "arguments"))?)? }));
    }
    // A call of another kind, or of none. Its result answers it by its id.
    let custom = call.get(interned!(py, "custom"))?;
    let about = custom.as_ref().and_then(Fields::of);
    let name = match about {
        Some(about) if about.is_set(interned!(py, "name"))? => about.get(interned!(py, "name"))?,
        _ => call.kind()?.0.filter(|kind| !kind.is_empty().unwrap_or(true)).map(Bound::into_any),
    };
    let name = shown(py, Some(name.unwrap_or_else(|| PyString::new(py, "tool").into_any())))?.into_any();
    let input = about.map_or(Ok(None), |about| about.get(interned!(py, "input")))?;
    Ok(Some(Call { id, name, input: input.unwrap_or_else(|| py.None().into_bound(py)) }))
}

/// The calls of one message that wait for a result. One without an id answers the first of its tool.
#[derive(Default)]
struct Waiting<'py> {
    calls: VecDeque<(Key, Option<Bound<'py, PyString>>, Bound<'py, PyAny>)>,
    ids: HashSet<Key>,
}

impl<'py> Waiting<'py> {
    fn of(message: &Message<'py>) -> PyResult<Self> {
        let (mut waiting, mut places) = (Self::default(), HashMap::new());
        for call in message.calls() {
            let key = key_of(call.id.as_ref())?;
            // If two calls have one id, the tool is that of the last one.
            let at = *places.entry(key.clone()).or_insert(waiting.calls.len());
            if at == waiting.calls.len() {
                waiting.calls.push_back((key.clone(), call.id.clone(), call.name.clone()));
                waiting.ids.insert(key);
            } else {
                waiting.calls[at].2 = call.name.clone();
            }
        }
        Ok(waiting)
    }

    /// The first that waits for the tool that a message names, else the first of all. None if none waits.
    fn named_by(&self, entry: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        let py = entry.as_any().py();
        let own = interned!(py, "tool_name");
        let tool = entry.get(if entry.is_set(own)? { own } else { interned!(py, "name") })?;
        if let Some(tool) = tool {
            for (_, id, name) in &self.calls {
                if name.eq(&tool)? {
                    return Ok(id.clone());
                }
            }
        }
        Ok(self.calls.front().and_then(|(_, id, _)| id.clone()))
    }

    fn answer(&mut self, call: Option<&Bound<'py, PyString>>) -> PyResult<()> {
        let key = key_of(call)?;
        if self.ids.remove(&key)
            && let Some(at) = self.calls.iter().position(|(known, ..)| *known == key)
        {
            self.calls.remove(at);
        }
        Ok(())
    }
}

fn responses<'py>(reader: &Reader<'py>, entries: &Numbered<'py>) -> PyResult<Vec<Message<'py>>> {
    let mut messages = Vec::new();
    let mut made: HashSet<Key> = HashSet::new();
    // Ids of calls that aren't function calls, and are sent as text. So are their outputs.
    let mut others = overtaken(entries)?;
    for (index, raw) in entries {
        let (py, index) = (raw.py(), *index);
        let entry = Fields::needed(raw, index, String::new)?;
        let of = entry.kind()?;
        let kind = of.name();
        if HELD.contains(&kind.as_ref()) || (kind.is_empty() && !entry.has(interned!(py, "role"))?) {
            return Err(held(entry, index)?);
        }
        if matches!(kind.as_ref(), "" | "message") {
            messages.push(reader.message(entry, &role_of(entry)?, [index].into())?);
            continue;
        }
        if is_setting(&kind) {
            reader.lose(&PyString::new(py, &format!("{kind} is not sent:")), index)?;
            continue;
        }
        let id = entry.text(interned!(py, "call_id"))?;
        let key = key_of(id.as_ref())?;
        if let Some((_, input)) = CLIENT_CALLS.iter().find(|(name, _)| *name == kind)
            && !others.contains(&key)
        {
            let own = entry.get(interned!(py, "name"))?.filter(|name| name.is_truthy().unwrap_or(true));
            let name = match own {
                Some(own) => crate::reading::string_of(&own)?.into_any(),
                None => PyString::new(py, kind.strip_suffix("_call").unwrap_or(&kind)).into_any(),
            };
            let (mut given, actions) = (entry.get(input.get(py))?, entry.get(interned!(py, "actions"))?);
            if given.is_none() && kind == "computer_call" && actions.is_some() {
                given = Some(dict!(py, "actions": actions).into_any());
            }
            let input = match given {
                // An empty text is what a custom tool was given.
                Some(text) if kind == "custom_tool_call" && text.eq("")? => text,
                given => arguments_of(py, given)?,
            };
            made.insert(key);
            messages.push(Message::new(Role::Assistant, vec![Part::Call(Call { id, name, input })], [index].into()));
        } else if let Some(call) = clients_answer(entry, &kind, &made)?
            && !others.contains(&key_of(Some(&call))?)
        {
            let call = Some(call).filter(|call| !call.is_empty().unwrap_or(true)).or(id);
            let result = reader.result(call, entry.get(interned!(py, "output"))?, entry, index)?;
            messages.push(Message::new(Role::User, vec![Part::Result(result)], [index].into()));
        } else {
            others.insert(key);
            let said = entry.with(interned!(py, "status"), py.None())?;
            let parts = reader.parts(Some(PyList::new(py, [said])?.as_any()), index)?;
            if !parts.is_empty() {
                messages.push(Message::new(Role::Assistant, parts, [index].into()));
            }
        }
    }
    Ok(messages)
}

/// The error for an item that only its provider can resolve.
fn held(entry: Fields<'_, '_>, index: usize) -> PyResult<PyErr> {
    let py = entry.as_any().py();
    let kind = entry.kind()?.0.filter(|kind| !kind.is_empty().unwrap_or(true));
    let part = match &kind {
        Some(kind) => joined(&PyString::new(py, ""), vec![PyString::new(py, "type "), kind.repr()?])?,
        None => PyString::new(py, "type"),
    };
    let value = kind.map_or_else(|| entry.as_any().clone(), Bound::into_any);
    let expected = "an item that says what it holds";
    let remedy = "it can only be sent to the provider that holds it: leave it out";
    Ok(raise(py, "InvalidMessageError", (index, part, value, expected, remedy)))
}

/// The ids of calls that wait for the client while the server ran a later call of the same turn. Elsewhere the server's
/// is a client's too, and earlier calls must be answered.
fn overtaken(entries: &Numbered<'_>) -> PyResult<HashSet<Key>> {
    let mut answered = HashSet::new();
    let id_of = |entry: Fields<'_, '_>| key_of(entry.text(interned!(entry.as_any().py(), "call_id"))?.as_ref());
    for (index, entry) in entries {
        let entry = Fields::needed(entry, *index, String::new)?;
        if entry.kind()?.name().ends_with("_output") {
            answered.insert(id_of(entry)?);
        }
    }
    let (mut waiting, mut found) = (HashSet::new(), HashSet::new());
    for (index, raw) in entries {
        let py = raw.py();
        let entry = Fields::needed(raw, *index, String::new)?;
        let of = entry.kind()?;
        let kind = of.name();
        let is_call = CLIENT_CALLS.iter().any(|(name, _)| *name == kind);
        let id = if is_call { Some(id_of(entry)?) } else { None };
        if let Some(id) = id.filter(|id| !answered.contains(id)) {
            waiting.insert(id);
        } else if kind == "shell_call_output" && is_by_server(raw)? {
            found.extend(waiting.drain());
        } else if kind.ends_with("_output") || !speaks_as_assistant(entry, py)? {
            waiting.clear();
        }
    }
    found.remove(&None);
    Ok(found)
}

/// Whether an item is the assistant's: it says so, or has no role.
fn speaks_as_assistant<'py>(entry: Fields<'_, 'py>, py: Python<'py>) -> PyResult<bool> {
    let key = interned!(py, "role");
    match entry.get(key)? {
        Some(role) => role.eq(interned!(py, "assistant")),
        None => Ok(!entry.has(key)?),
    }
}

/// The id of the call that an item answers for the client, "" if it has none. `made` are the ids of the client's calls
/// so far.
fn clients_answer<'py>(
    entry: Fields<'_, 'py>,
    kind: &str,
    made: &HashSet<Key>,
) -> PyResult<Option<Bound<'py, PyString>>> {
    let py = entry.as_any().py();
    let Some(of) = kind.strip_suffix("_output") else { return Ok(None) };
    if kind != "shell_call_output" && is_by_server(entry.as_any())? {
        return Ok(None);
    }
    let mut call = PyString::new(py, "");
    for key in [interned!(py, "call_id"), interned!(py, "id")] {
        if let Some(id) = entry.text(key)?
            && !id.is_empty()?
        {
            call = id;
            break;
        }
    }
    let is_clients = made.contains(&key_of(Some(&call))?) || CLIENT_CALLS.iter().any(|(name, _)| *name == of);
    Ok(is_clients.then_some(call))
}
