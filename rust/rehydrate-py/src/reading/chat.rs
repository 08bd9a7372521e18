//! OpenAI chat messages, and plain ones.
//!
//! The deprecated `function_call` with its `function` message is paired by the function's name. A tool message without an id
//! belongs to the calls that it directly follows; SWE-agent writes its id as the one of `tool_call_ids`. Ollama's calls have an
//! object as their arguments and no id, and its results no id either, but the name of the tool
//! (<https://docs.ollama.com/capabilities/tool-calling>, 2026-11): they are paired by name and order, and break no rule.
//!
//! A plain list of texts is valid for every provider, so its provider is unknown. If it starts with the user, it still
//! does after compaction: one more user turn costs little if the provider does not care, and saves the request if it
//! does.
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rehydrate_core::conversation::{PieceKind, Role};

use super::blocks::{At, Body};
use super::checks::no_list;
use super::draft::Speaker;
use super::fields::{Fields, is_list, listed, text_of};
use super::pairs::{check_content, program_of};
use super::readable::readable_texts;
use super::strings::Id;
use super::{Link, Read, speaker_of};
use crate::interned::interned;

/// Read one message of a role and a text.
pub fn read_plain<'py>(body: &mut Body, raw: &Bound<'py, PyAny>) -> PyResult<Read<'py>> {
    let entry = Fields::needed(raw, body.index, String::new)?;
    let speaker = speaker_of(entry, body.index)?;
    let content = entry.get(interned!(raw.py(), "content"))?;
    let has_more = content.is_none() || !entry.is_small(2);
    read_content(body, entry, content, &speaker, has_more)?;
    Ok(Read { speaker, link: Link::None })
}

/// Read a content, and if an entry has more fields, the pictures next to it.
fn read_content<'py>(
    body: &mut Body,
    entry: Fields<'_, 'py>,
    content: Option<Bound<'py, PyAny>>,
    speaker: &Speaker<'py>,
    has_more: bool,
) -> PyResult<()> {
    if has_more {
        check_content(entry, body.index, content.as_ref())?;
    }
    let kind = if speaker.role == Role::Tool { PieceKind::ToolResult } else { PieceKind::Text };
    let is_text = content.as_ref().is_some_and(|content| content.is_instance_of::<PyString>());
    if is_text && has_more && entry.is_set(interned!(entry.as_any().py(), "annotations"))? {
        // Citations point into the text by character number.
        body.add(content, kind, None)?;
        return body.add_pictures(entry);
    }
    let path = body.places.is_some().then(|| PyTuple::new(entry.as_any().py(), ["content"])).transpose()?;
    body.add_content(content.as_ref(), kind, At::Root(path.as_ref(), "content"))?;
    if has_more {
        body.add_pictures(entry)?;
    }
    Ok(())
}

/// Read one message of chat completions.
pub fn read_message<'py>(body: &mut Body, raw: &Bound<'py, PyAny>) -> PyResult<Read<'py>> {
    let py = raw.py();
    let index = body.index;
    let entry = Fields::needed(raw, index, String::new)?;
    let speaker = speaker_of(entry, index)?;
    let content = entry.get(interned!(py, "content"))?;
    let has_calls = content.is_none() || !entry.is_small(2);
    // Nearly all entries with calls, and all with answers, have no other field.
    let usual =
        [interned!(py, "role"), interned!(py, "content"), interned!(py, "tool_calls"), interned!(py, "tool_call_id")];
    let has_more = has_calls && !entry.has_only(&usual)?;
    if has_more && speaker.role == Role::Assistant {
        read_thoughts(body, entry)?;
    }
    read_content(body, entry, content, &speaker, has_more)?;
    if speaker.role == Role::Tool {
        if let Some(answer) = answer_of(entry)? {
            body.answers.insert(0, Id::of(answer)?);
        }
        return Ok(Read { speaker, link: Link::None });
    }
    let mut link = Link::None;
    if has_more {
        read_extras(body, entry)?;
    }
    if has_calls {
        for call in calls_of(entry, index)? {
            link = Link::Calls;
            if let Some(id) = call.id.clone() {
                body.calls.push(Id::of(id)?);
            }
            // LiteLLM keeps what Claude says of its own code.
            let program = Fields::of(&call.said).map_or(Ok(None), program_of)?;
            body.owners.extend(program.map(Id::of).transpose()?);
            read_call(body, &call)?;
        }
    }
    Ok(Read { speaker, link })
}

fn read_thoughts<'py>(body: &mut Body, entry: Fields<'_, 'py>) -> PyResult<()> {
    let py = entry.as_any().py();
    for key in [interned!(py, "reasoning_details"), interned!(py, "thinking_blocks")] {
        body.is_thoughtful |= entry.has(key)?;
    }
    // `thinking` is Ollama's.
    for key in [interned!(py, "reasoning_content"), interned!(py, "reasoning"), interned!(py, "thinking")] {
        if let Some(reasoning) = entry.get(key)? {
            body.is_thoughtful = true;
            if body.pieces.is_empty() {
                body.add(Some(reasoning), PieceKind::Thinking, None)?;
            }
        }
    }
    Ok(())
}

/// Read the assistant's fields next to its content. Speech without words is a medium.
fn read_extras<'py>(body: &mut Body, entry: Fields<'_, 'py>) -> PyResult<()> {
    let py = entry.as_any().py();
    body.add(entry.get(interned!(py, "refusal"))?, PieceKind::Text, None)?;
    if let Some(audio) = entry.get(interned!(py, "audio"))?
        && let Some(speech) = Fields::of(&audio)
        && speech.len()? > 0
    {
        let before = body.pieces.len();
        if let Some(transcript) = speech.get(interned!(py, "transcript"))? {
            body.add_readable(&transcript, PieceKind::Text)?;
        }
        if body.pieces.len() == before {
            body.add_medium(&audio)?;
        }
        body.is_uncommon = true;
    }
    // The field in which LiteLLM puts the summaries that the provider itself wrote.
    if let Some(fields) = entry.get(interned!(py, "provider_specific_fields"))?
        && let Some(fields) = Fields::of(&fields)
        && let Some(blocks) = fields.get(interned!(py, "compaction_blocks"))?
        && blocks.is_truthy()?
    {
        (body.has_state, body.is_uncommon) = (true, true);
        body.add_readable(&blocks, PieceKind::Text)?;
    }
    Ok(())
}

/// A tool call: its id, and its text.
pub struct Call<'py> {
    pub id: Option<Bound<'py, PyString>>,
    pub said: Bound<'py, PyAny>,
    /// Whether it is the deprecated single one.
    pub is_lone: bool,
}

/// The tool calls of a message, the deprecated single one included.
pub fn calls_of<'py>(entry: Fields<'_, 'py>, index: usize) -> PyResult<Vec<Call<'py>>> {
    let py = entry.as_any().py();
    let mut made = Vec::new();
    if let Some(calls) = entry.get(interned!(py, "tool_calls"))? {
        if !is_list(&calls) {
            return Err(no_list(&calls, index, "tool_calls"));
        }
        for (number, said) in calls.try_iter()?.enumerate() {
            let said = said?;
            let call = Fields::needed(&said, index, || format!("tool_calls[{number}]"))?;
            made.push(Call { id: call.text(interned!(py, "id"))?, said: said.clone(), is_lone: false });
        }
    }
    if let Some(said) = entry.get(interned!(py, "function_call"))? {
        let name = Fields::needed(&said, index, || "function_call".into())?.text(interned!(py, "name"))?;
        made.push(Call { id: name.map(|name| function_id(&name)).transpose()?, said, is_lone: true });
    }
    Ok(made)
}

fn read_call(body: &mut Body, call: &Call<'_>) -> PyResult<()> {
    let py = call.said.py();
    let Some(said) = Fields::of(&call.said) else { return Ok(()) };
    let name = interned!(py, "name");
    if call.is_lone {
        return body.add_input(py, said.get(name)?.as_ref(), said.get(interned!(py, "arguments"))?.as_ref());
    }
    for (key, input) in
        [(interned!(py, "function"), interned!(py, "arguments")), (interned!(py, "custom"), interned!(py, "input"))]
    {
        let Some(of) = said.get(key)? else { continue };
        if let Some(of) = Fields::of(&of) {
            return body.add_input(py, of.get(name)?.as_ref(), of.get(input)?.as_ref());
        }
    }
    let words = PyString::new(py, " ").call_method1("join", (readable_texts(&call.said)?,))?;
    body.add(Some(words), PieceKind::ToolInput, None)
}

/// The id of the call that a tool message answers.
pub fn answer_of<'py>(entry: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyString>>> {
    let py = entry.as_any().py();
    if let Some(answer) = entry.text(interned!(py, "tool_call_id"))? {
        return Ok(Some(answer));
    }
    let answers = listed(entry.get(interned!(py, "tool_call_ids"))?.as_ref())?;
    if let Some(Ok(answer)) = answers.into_iter().next().map(|answer| answer.cast_into::<PyString>()) {
        return Ok(Some(answer));
    }
    let role = entry.text(interned!(py, "role"))?;
    match entry.text(interned!(py, "name"))? {
        Some(name) if role.is_some_and(|role| text_of(&role) == "function") => function_id(&name).map(Some),
        _ => Ok(None),
    }
}

/// The beginning of an id that is made of a function's name: no provider makes such a string.
pub const FUNCTION: &str = "function_call:";

/// The id that pairs the deprecated `function_call` with its `function` message.
pub fn function_id<'py>(name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    Ok(PyString::new(name.py(), FUNCTION).add(name)?.cast_into()?)
}
