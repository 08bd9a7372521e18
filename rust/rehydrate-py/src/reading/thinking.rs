//! Entries without thinking: each one itself, a copy, or None if nothing is left. Entries are never changed.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rehydrate_core::conversation::Role;

use super::chat::calls_of;
use super::codex::codex_line;
use super::columns::is_blank;
use super::fields::{Fields, is_list, listed, text_of};
use super::responses::Item;
use super::speaker_of;
use super::{gemini, langchain};
use crate::exit::Running;
use crate::interned::{Interned, interned};

const BLOCKS: &[&str] = &["thinking", "redacted_thinking"];
/// Some gateways write thoughts among the parts of chat's content.
const CHAT_PARTS: &[&str] = &["thinking", "redacted_thinking", "reasoning"];
/// Thoughts, and the proofs of a thought that gateways add for the provider.
static CHAT_KEYS: [Interned; 5] = [
    Interned::new("reasoning_content"),
    Interned::new("reasoning"),
    Interned::new("reasoning_details"),
    Interned::new("thinking"),
    Interned::new("thinking_blocks"),
];
/// The Responses API takes these items without an id, and then without the reasoning that led to them.
const MAY_LOSE_ID: &[&str] = &["message", "function_call", "custom_tool_call", "shell_call", "apply_patch_call"];
/// The text of a message of only thinking, if a message must remain.
const THOUGHT_ONLY: &str = "(Nothing but thinking.)";

type Shown<'py> = Vec<Option<Bound<'py, PyAny>>>;

/// Each entry of a list without thinking.
#[pyfunction]
pub fn entries_without_thinking<'py>(format: &str, entries: &Bound<'py, PyAny>) -> PyResult<Shown<'py>> {
    let _running = Running::begin();
    let entries = entries.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let each = |without: fn(Fields<'_, 'py>, usize) -> PyResult<Option<Bound<'py, PyAny>>>| {
        let of = |(index, entry)| without(Fields::needed(entry, index, String::new)?, index);
        entries.iter().enumerate().map(of).collect()
    };
    match format {
        "anthropic" => of_messages(&entries),
        "bedrock" => each(of_bedrocks),
        "gemini" => each(of_geminis),
        "claude_code" => each(of_line),
        "ai_sdk" => each(|entry, index| of_ai_sdk(entry, index, "content")),
        "ai_sdk_ui" => each(|entry, index| of_ai_sdk(entry, index, "parts")),
        "openai_chat" => each(of_chats),
        "openai_responses" => of_items(&entries),
        "codex" => of_rollout(&entries),
        "langchain" => entries.iter().map(langchain::without_thinking).collect(),
        "plain" => Ok(entries.into_iter().map(Some).collect()),
        _ => Err(PyValueError::new_err(format!("no thinking of {format}"))),
    }
}

/// The rest of a content without blocks of these types.
pub enum Rest<'py> {
    Same,
    /// Nothing but white space, which the providers refuse.
    Nothing,
    Left(Bound<'py, PyAny>),
}

pub fn rest_of<'py>(content: Option<&Bound<'py, PyAny>>, kinds: &[&str]) -> PyResult<Rest<'py>> {
    let Some(content) = content.filter(|content| is_list(content)) else { return Ok(Rest::Same) };
    let (mut rest, mut length, mut has_words) = (Vec::new(), 0, false);
    for block in content.try_iter()? {
        let block = block?;
        length += 1;
        if !is_thinking(&block, kinds)? {
            has_words |= !is_blank_block(&block)?;
            rest.push(block);
        }
    }
    Ok(if rest.len() == length {
        Rest::Same
    } else if !has_words {
        Rest::Nothing
    } else if content.is_instance_of::<PyTuple>() {
        Rest::Left(PyTuple::new(content.py(), rest)?.into_any())
    } else {
        Rest::Left(PyList::new(content.py(), rest)?.into_any())
    })
}

/// Whether a block of a content is a thought of Claude's, or Converse's reasoning.
pub fn is_claudes_thinking(block: &Bound<'_, PyAny>) -> PyResult<bool> {
    is_thinking(block, BLOCKS)
}

/// Whether a message of these holds thinking that was signed as Claude's is.
#[pyfunction]
pub fn has_claudes_thinking(entries: &Bound<'_, PyAny>) -> PyResult<bool> {
    let _running = Running::begin();
    let py = entries.py();
    for entry in entries.try_iter()? {
        let entry = entry?;
        // Gateways put Claude's thinking next to the content.
        for key in [interned!(py, "content"), interned!(py, "parts"), interned!(py, "thinking_blocks")] {
            let blocks = match Fields::of(&entry) {
                Some(fields) => fields.get(key)?,
                None => entry.getattr_opt(key)?,
            };
            for block in listed(blocks.as_ref())? {
                if is_signed_thinking(&block)? {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

fn is_signed_thinking(block: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (py, Some(fields)) = (block.py(), Fields::of(block)) else { return Ok(false) };
    if fields.kind()?.name() == "reasoning" {
        // The AI SDK's.
        for key in [interned!(py, "providerOptions"), interned!(py, "providerMetadata")] {
            let options = fields.get(key)?.filter(|options| options.is_truthy().unwrap_or(false));
            if let Some(options) = options {
                let Some(names) = Fields::of(&options) else { break };
                return Ok(names.has(interned!(py, "anthropic"))? || names.has(interned!(py, "bedrock"))?);
            }
        }
    }
    if !is_claudes_thinking(block)? {
        return Ok(false);
    }
    let converses = fields.get(interned!(py, "reasoningContent"))?.filter(|of| of.is_truthy().unwrap_or(false));
    let thought = match converses.as_ref().and_then(Fields::of) {
        Some(of) if of.has(interned!(py, "reasoningText"))? => of.get(interned!(py, "reasoningText"))?,
        _ => Some(converses.clone().filter(|of| Fields::of(of).is_some()).unwrap_or_else(|| block.clone())),
    };
    let Some(thought) = thought.as_ref().and_then(Fields::of) else { return Ok(false) };
    for key in [interned!(py, "signature"), interned!(py, "data"), interned!(py, "redactedContent")] {
        if thought.is_set(key)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_thinking(block: &Bound<'_, PyAny>, kinds: &[&str]) -> PyResult<bool> {
    let Some(fields) = Fields::of(block) else { return Ok(false) };
    Ok(kinds.contains(&fields.kind()?.name().as_ref()) || fields.has(interned!(block.py(), "reasoningContent"))?)
}

fn is_blank_block(block: &Bound<'_, PyAny>) -> PyResult<bool> {
    let text = match Fields::of(block) {
        Some(fields) if matches!(fields.kind()?.name().as_ref(), "text" | "") => {
            fields.text(interned!(block.py(), "text"))?
        }
        Some(_) => None,
        None => block.cast::<PyString>().ok().cloned(),
    };
    Ok(text.is_some_and(|text| is_blank(&text_of(&text))))
}

/// A content that says that there was nothing else.
fn thought_only<'py>(py: Python<'py>, has_type: bool) -> PyResult<Bound<'py, PyAny>> {
    let block = PyDict::new(py);
    if has_type {
        block.set_item(interned!(py, "type"), interned!(py, "text"))?;
    }
    block.set_item(interned!(py, "text"), THOUGHT_ONLY)?;
    Ok(PyList::new(py, [block])?.into_any())
}

/// Messages of Anthropic's. A system message must precede the assistant's. So a message of only thinking stays there,
/// with a text that says so.
fn of_messages<'py>(entries: &[Bound<'py, PyAny>]) -> PyResult<Shown<'py>> {
    let content = |entry: Fields<'_, 'py>| entry.get(interned!(entry.as_any().py(), "content"));
    let mut shown: Shown<'py> = Vec::with_capacity(entries.len());
    for (index, raw) in entries.iter().enumerate() {
        let entry = Fields::needed(raw, index, String::new)?;
        let rest = rest_of(content(entry)?.as_ref(), BLOCKS)?;
        shown.push(match rest {
            Rest::Same => Some(raw.clone()),
            _ if speaker_of(entry, index)?.role != Role::Assistant => Some(raw.clone()),
            Rest::Nothing => None,
            Rest::Left(rest) => Some(entry.with("content", &rest)?),
        });
    }
    let is_by = |index: usize, role: Role| {
        PyResult::Ok(speaker_of(Fields::needed(&entries[index], index, String::new)?, index)?.role == role)
    };
    let mut followers = vec![None; shown.len()];
    let mut after = None;
    for (index, entry) in shown.iter().enumerate().rev() {
        followers[index] = after;
        after = if entry.is_some() { Some(index) } else { after };
    }
    let mut before: Option<usize> = None;
    for (index, after) in followers.into_iter().enumerate() {
        if shown[index].is_none()
            && before.map_or(Ok(false), |before| is_by(before, Role::System))?
            && !after.map_or(Ok(false), |after| is_by(after, Role::Assistant))?
        {
            let entry = Fields::needed(&entries[index], index, String::new)?;
            shown[index] = Some(entry.with("content", &thought_only(entry.as_any().py(), true)?)?);
        }
        before = if shown[index].is_some() { Some(index) } else { before };
    }
    Ok(shown)
}

/// A message of Converse's. None is left out, since user and assistant alternate: a message of nothing else says so.
fn of_bedrocks<'py>(entry: Fields<'_, 'py>, _index: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = entry.as_any().py();
    let rest = match rest_of(entry.get(interned!(py, "content"))?.as_ref(), BLOCKS)? {
        Rest::Same => return Ok(Some(entry.as_any().clone())),
        Rest::Nothing => thought_only(py, false)?,
        Rest::Left(rest) => rest,
    };
    entry.with("content", &rest).map(Some)
}

/// A content of Gemini's. A thought with a signature stays, since the API wants it back.
fn of_geminis<'py>(entry: Fields<'_, 'py>, _index: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = entry.as_any().py();
    let parts = listed(entry.get(interned!(py, "parts"))?.as_ref())?;
    let mut kept = Vec::with_capacity(parts.len());
    for raw in &parts {
        let is_thought = match Fields::of(raw) {
            Some(part) => gemini::is_thought(part)? && gemini::SIGNATURE.value(part)?.is_none(),
            None => false,
        };
        if !is_thought {
            kept.push(raw);
        }
    }
    if kept.len() == parts.len() {
        return Ok(Some(entry.as_any().clone()));
    }
    if kept.is_empty() { Ok(None) } else { entry.with("parts", PyList::new(py, kept)?).map(Some) }
}

/// A message of the AI SDK's. One whose parts name items of the Responses API's stays whole: the API refuses these without
/// the reasoning that led to them.
fn of_ai_sdk<'py>(entry: Fields<'_, 'py>, index: usize, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    const THOUGHTS: [&str; 3] = ["reasoning", "redacted-reasoning", "reasoning-file"];
    let py = entry.as_any().py();
    let content = entry.get(&PyString::new(py, key))?;
    let rest = match rest_of(content.as_ref(), &THOUGHTS)? {
        Rest::Same => return Ok(Some(entry.as_any().clone())),
        rest => rest,
    };
    let mut is_whole = speaker_of(entry, index)?.role != Role::Assistant;
    for part in listed(content.as_ref())?.iter().filter_map(Fields::of) {
        for options in [interned!(py, "providerOptions"), interned!(py, "providerMetadata")] {
            let options = part.get(options)?;
            for (_, of) in options.as_ref().and_then(Fields::of).map_or(Ok(Vec::new()), Fields::items)? {
                is_whole |= Fields::of(&of).map_or(Ok(false), |of| of.is_set(interned!(py, "itemId")))?;
            }
        }
    }
    match rest {
        Rest::Left(rest) if !is_whole => entry.with(key, &rest).map(Some),
        Rest::Nothing if !is_whole => Ok(None),
        _ => Ok(Some(entry.as_any().clone())),
    }
}

/// A line of Claude Code's.
fn of_line<'py>(entry: Fields<'_, 'py>, _index: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = entry.as_any().py();
    let message = entry.get(interned!(py, "message"))?;
    let Some(message) = message.as_ref().and_then(Fields::of) else {
        return Ok(Some(entry.as_any().clone()));
    };
    if entry.kind()?.name() != "assistant" {
        return Ok(Some(entry.as_any().clone()));
    }
    match rest_of(message.get(interned!(py, "content"))?.as_ref(), BLOCKS)? {
        Rest::Same => Ok(Some(entry.as_any().clone())),
        Rest::Nothing => Ok(None),
        Rest::Left(rest) => entry.with("message", &message.with("content", &rest)?).map(Some),
    }
}

/// A message of OpenAI chat's.
fn of_chats<'py>(entry: Fields<'_, 'py>, index: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = entry.as_any().py();
    if speaker_of(entry, index)?.role != Role::Assistant {
        return Ok(Some(entry.as_any().clone()));
    }
    let content = entry.get(interned!(py, "content"))?;
    let rest = rest_of(content.as_ref(), CHAT_PARTS)?;
    let mut thinks = false;
    for key in &CHAT_KEYS {
        thinks |= entry.is_set(key.get(py))?;
    }
    if matches!(rest, Rest::Same) && !thinks {
        return Ok(Some(entry.as_any().clone()));
    }
    let says_nothing = matches!(rest, Rest::Nothing) || !content.map_or(Ok(false), |content| content.is_truthy())?;
    let acts = !calls_of(entry, index)?.is_empty()
        || entry.is_set(interned!(py, "refusal"))?
        || entry.is_set(interned!(py, "audio"))?;
    if says_nothing && !acts {
        return Ok(None);
    }
    let kept = PyDict::new(py);
    for (key, value) in entry.items()? {
        let is_thought = match key.cast::<PyString>() {
            Ok(key) => CHAT_KEYS.iter().any(|thought| thought.text() == text_of(key)),
            Err(_) => false,
        };
        if !is_thought {
            kept.set_item(key, value)?;
        }
    }
    match rest {
        Rest::Same => {}
        Rest::Nothing => kept.set_item(interned!(py, "content"), py.None())?,
        Rest::Left(rest) => kept.set_item(interned!(py, "content"), rest)?,
    }
    Ok(Some(kept.into_any()))
}

/// Items of Responses: None for reasoning, and a copy without its id for an item that reasoning led to, since the API refuses
/// that id without the reasoning. Reasoning stays if it led to an item that needs its id (a server tool's call, a reference).
fn of_items<'py>(entries: &[Bound<'py, PyAny>]) -> PyResult<Shown<'py>> {
    let mut shown: Shown<'py> = entries.iter().cloned().map(Some).collect();
    let mut row = Vec::new(); // the items of one model turn
    for (index, raw) in entries.iter().enumerate() {
        let item = Item::of(raw, index)?;
        if item.speaker.role == Role::Assistant {
            row.push(item);
        } else {
            strip(&row, &mut shown)?;
            row.clear();
        }
    }
    strip(&row, &mut shown)?;
    Ok(shown)
}

fn strip<'py>(row: &[Item<'py>], shown: &mut Shown<'py>) -> PyResult<()> {
    let is_reasoning = |item: &Item<'_>| text_of(&item.kind) == "reasoning";
    let needs_id = |item: &Item<'_>| !is_reasoning(item) && !MAY_LOSE_ID.contains(&text_of(&item.kind).as_ref());
    let first = row.iter().rposition(needs_id).map_or(0, |last| last + 1);
    let mut is_stripped = false;
    for item in &row[first..] {
        if is_reasoning(item) {
            shown[item.index] = None;
            is_stripped = true;
        } else if is_stripped {
            let id = interned!(item.entry.py(), "id");
            let entry = Fields::needed(&item.entry, item.index, String::new)?;
            if entry.has(id)? {
                let copy = PyDict::new(item.entry.py());
                copy.update(item.entry.cast()?)?;
                copy.del_item(id)?;
                shown[item.index] = Some(copy.into_any());
            }
        }
    }
    Ok(())
}

/// Lines of a rollout.
fn of_rollout<'py>(entries: &[Bound<'py, PyAny>]) -> PyResult<Shown<'py>> {
    let mut shown: Shown<'py> = entries.iter().cloned().map(Some).collect();
    let mut lines = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        lines.extend(codex_line(entry, index)?);
    }
    let items: Vec<_> = lines.iter().map(|(_, item, ..)| item.clone()).collect();
    for ((index, item, path, _), now) in lines.iter().zip(of_items(&items)?) {
        match now {
            None => shown[*index] = None,
            Some(now) if now.is(item) => {}
            Some(now) if path.is_empty() => shown[*index] = Some(now),
            Some(now) => {
                let line = Fields::needed(&entries[*index], *index, String::new)?;
                shown[*index] = Some(line.with("payload", &now)?);
            }
        }
    }
    Ok(shown)
}
