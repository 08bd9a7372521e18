//! Messages of OpenAI chat, and plain ones, as the rules read them.
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use rehydrate_core::conversation::{PieceKind, Role};
use rehydrate_core::rules::Name;
use rehydrate_core::rules::openai_chat::{Call, Message, Speaker};
use rehydrate_core::rules::plain;

use super::super::blocks::{At, Body};
use super::super::chat::{Call as Made, answer_of, calls_of};
use super::super::fields::{Fields, string_of, text_of};
use super::super::langchain;
use super::super::pairs::check_content;
use super::super::speaker_of;
use super::{name_of, named, written_role};
use crate::interned::interned;

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// The messages of a plain list.
pub fn plain_messages(entries: &Bound<'_, PyAny>) -> PyResult<Vec<plain::Message>> {
    let read = |(index, raw): (usize, PyResult<Bound<'_, PyAny>>)| {
        let raw = raw?;
        let entry = Fields::needed(&raw, index, String::new)?;
        let is_unknown = speaker_of(entry, index)?.role == Role::Other;
        plain_message(entry, index, is_unknown)
    };
    entries.try_iter()?.enumerate().map(read).collect()
}

/// The messages of a list of OpenAI chat's.
pub fn messages(entries: &Bound<'_, PyAny>) -> PyResult<Vec<Message>> {
    let read = |(index, raw): (usize, PyResult<Bound<'_, PyAny>>)| {
        let raw = raw?;
        let entry = Fields::needed(&raw, index, String::new)?;
        let role = speaker_of(entry, index)?.role;
        let written = entry.text(interned!(raw.py(), "role"))?;
        let is_known = written.is_some_and(|role| ROLES.contains(&text_of(&role).as_ref()));
        let of = plain_message(entry, index, !is_known)?;
        Ok(Message { of, speaker: if role == Role::Tool { tool(entry)? } else { other(entry, index)? } })
    };
    entries.try_iter()?.enumerate().map(read).collect()
}

/// LangChain's messages as OpenAI chat would get them, and the index of each one's entry: LangChain sends one list to any
/// provider, and chat is the model of its messages.
pub fn sent_of_langchain(entries: &Bound<'_, PyAny>) -> PyResult<(Vec<Message>, Vec<usize>)> {
    let (mut sent, mut indices) = (Vec::new(), Vec::new());
    for (index, raw) in entries.try_iter()?.enumerate() {
        let Some(message) = langchain::Message::of(&raw?, index)? else { continue };
        message.read(&mut Body::new(index, false))?; // raises what the reader raises
        let place = sent.len();
        let role = message.speaker.role;
        let is_tools = role == Role::Tool;
        let answers = message.answers.iter().cloned().map(name_of).collect::<PyResult<Vec<_>>>()?;
        let answering = if is_tools { vec![answers.first().cloned()] } else { answers.into_iter().map(Some).collect() };
        let is_answering = is_tools || role == Role::User;
        for answer in answering.into_iter().filter(|_| is_answering) {
            let of = plain::Message { index: sent.len(), ..plain::Message::default() };
            let answer = answer.filter(|answer| !answer.is_empty());
            sent.push(Message { of, speaker: Speaker::Tool { answer, tool: None } });
        }
        if !(is_tools || role == Role::User && message.only_results()?) {
            sent.push(sent_message(&message, sent.len())?);
        }
        indices.resize(indices.len() + sent.len() - place, index);
    }
    Ok((sent, indices))
}

fn sent_message(message: &langchain::Message<'_>, place: usize) -> PyResult<Message> {
    let shown = &message.speaker.shown;
    let is_known = ROLES.contains(&text_of(shown).as_ref());
    let unknown_role = if is_known { None } else { Some(name_of(shown.clone())?) };
    let own = message.calls.iter().filter(|call| !call.by_server);
    let calls = own.map(|call| {
        Ok(match &call.id {
            Some(id) => Call::Of(name_of(id.clone())?),
            None => Call::Nameless,
        })
    });
    let calls = calls.collect::<PyResult<_>>()?;
    let of = plain::Message { index: place, unknown_role, has_pair: false, is_null: message.content.is_none() };
    Ok(Message { of, speaker: Speaker::Other { calls, speaks_otherwise: false, has_empty_calls: false } })
}

fn plain_message(entry: Fields<'_, '_>, index: usize, is_unknown: bool) -> PyResult<plain::Message> {
    let content = entry.get(interned!(entry.as_any().py(), "content"))?;
    check_content(entry, index, content.as_ref())?;
    let mut body = Body::new(index, false);
    body.add_content(content.as_ref(), PieceKind::Text, At::Root(None, "content"))?;
    let unknown_role = if is_unknown { Some(written_role(entry)?) } else { None };
    Ok(plain::Message { index, unknown_role, has_pair: body.has_pair, is_null: content.is_none() })
}

fn tool(entry: Fields<'_, '_>) -> PyResult<Speaker> {
    let py = entry.as_any().py();
    let named_tool = entry.is_set(interned!(py, "tool_name"))?;
    let tool = named(entry, if named_tool { interned!(py, "tool_name") } else { interned!(py, "name") })?;
    let answer = answer_of(entry)?.map(name_of).transpose()?.filter(|answer| !answer.is_empty());
    Ok(Speaker::Tool { answer, tool })
}

fn other(entry: Fields<'_, '_>, index: usize) -> PyResult<Speaker> {
    let py = entry.as_any().py();
    let made = calls_of(entry, index)?;
    let calls = made.iter().enumerate().map(|(number, call)| call_of(call, index, number)).collect::<PyResult<_>>()?;
    let listed = entry.get(interned!(py, "tool_calls"))?;
    Ok(Speaker::Other {
        calls,
        speaks_otherwise: entry.is_set(interned!(py, "refusal"))? || entry.is_set(interned!(py, "audio"))?,
        has_empty_calls: listed.is_some_and(|calls| calls.cast::<PyList>().is_ok_and(|calls| calls.is_empty())),
    })
}

fn call_of(call: &Made<'_>, index: usize, number: usize) -> PyResult<Call> {
    let py = call.said.py();
    let id = call.id.clone().map(name_of).transpose()?;
    let usual = |id: Option<Name>| Ok(id.map_or(Call::Nameless, Call::Of));
    let Some(said) = Fields::of(&call.said).filter(|_| !call.is_lone) else { return usual(id) };
    let function = said.get(interned!(py, "function"))?;
    let Some(function) = function.as_ref().and_then(Fields::of) else { return usual(id) };
    let arguments = function.get(interned!(py, "arguments"))?;
    if arguments.as_ref().and_then(Fields::of).is_none() {
        return usual(id);
    }
    let tool = match function.get(interned!(py, "name"))? {
        Some(name) => name_of(string_of(&name)?)?,
        None => name_of(PyString::new(py, "None"))?,
    };
    let id = id.filter(|id| !id.is_empty());
    Ok(Call::Ollama { id: id.unwrap_or_else(|| format!("ollama:{index}:{number}").into_bytes()), tool })
}
