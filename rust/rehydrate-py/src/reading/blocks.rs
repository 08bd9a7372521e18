//! Anthropic's messages and contents: `rehydrate.formats.anthropic.read_content` is the slow twin.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::conversation::PieceKind;

use super::draft::{Draft, Traits};
use super::json::{MAX_DEPTH, write_json};
use super::strings::{Id, Source};
use super::{Link, Read, has_other_content, text_of, value_of};
use crate::interned::interned;

/// The result of reading a content.
pub struct Content {
    pub images: u32,
    pub only_results: bool,
    pub is_thoughtless: bool,
    pub ends_in_thought: bool,
}

/// One message.
pub fn read_message(draft: &mut Draft, entry: &Bound<'_, PyAny>) -> PyResult<Option<Read>> {
    let py = entry.py();
    let Ok(entry) = entry.cast_exact::<PyDict>() else { return Ok(None) };
    let Some(mut role) = text_of(entry, interned!(py, "role"))? else { return Ok(None) };
    let is_user = match role.to_str() {
        Ok("user") => true,
        Ok("assistant") => false,
        _ => return Ok(None),
    };
    if has_other_content(entry)? || calls_as_chat_does(entry)? {
        return Ok(None);
    }
    let content = entry.get_item(interned!(py, "content"))?;
    let Some(content) = read_content(draft, content.as_ref())? else { return Ok(None) };
    let is_user_turn = is_user && !content.only_results;
    if is_user && content.only_results {
        role = interned!(py, "tool").clone();
    }
    let of = Traits { images: content.images, is_user_turn, is_thoughtless: content.is_thoughtless, is_common: true };
    let link = if content.ends_in_thought { Link::Thought } else { Link::None };
    Ok(Some(Read { role: role.unbind(), of, link }))
}

/// Whether a message has a field in which chat completions call a tool, or answer.
fn calls_as_chat_does(entry: &Bound<'_, PyDict>) -> PyResult<bool> {
    let py = entry.py();
    if entry.len() <= 2 && entry.contains(interned!(py, "content"))? {
        return Ok(false);
    }
    for key in [interned!(py, "tool_calls"), interned!(py, "tool_call_id"), interned!(py, "function_call")] {
        if value_of(entry, key)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A content: a text, blocks, or nothing.
pub fn read_content(draft: &mut Draft, content: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Content>> {
    let mut found = Content { images: 0, only_results: false, is_thoughtless: true, ends_in_thought: false };
    let Some(content) = content.filter(|content| !content.is_none()) else { return Ok(Some(found)) };
    if let Ok(text) = content.cast_exact::<PyString>() {
        draft.push(text.clone(), PieceKind::Text)?;
        return Ok(Some(found));
    }
    let Ok(blocks) = content.cast_exact::<PyList>() else { return Ok(None) };
    let py = content.py();
    let (mut results, mut read) = (0, 0);
    for block in blocks {
        read += 1;
        found.ends_in_thought = false;
        let block = match block.cast_into_exact::<PyDict>() {
            Ok(block) => block,
            Err(other) => match other.into_inner().cast_into_exact::<PyString>() {
                Ok(text) => {
                    draft.push(text, PieceKind::Text)?;
                    continue;
                }
                Err(_) => return Ok(None),
            },
        };
        let Some(kind) = text_of(&block, interned!(py, "type"))? else { return Ok(None) };
        let is_read = match kind.to_str().unwrap_or_default() {
            "text" => read_text(draft, &block, interned!(py, "text"), PieceKind::Text)?,
            "tool_use" => read_call(draft, &block)?,
            "tool_result" => {
                results += 1;
                read_result(draft, &block, &mut found.images)?
            }
            "thinking" => {
                (found.is_thoughtless, found.ends_in_thought) = (false, true);
                read_text(draft, &block, interned!(py, "thinking"), PieceKind::Thinking)?
            }
            "redacted_thinking" => {
                (found.is_thoughtless, found.ends_in_thought) = (false, true);
                true
            }
            "image" if !block.contains(interned!(py, "source_type"))? => {
                found.images += 1;
                true
            }
            _ => false,
        };
        if !is_read {
            return Ok(None);
        }
    }
    found.only_results = results > 0 && results == read;
    Ok(Some(found))
}

fn read_text<'py>(
    draft: &mut Draft,
    block: &Bound<'py, PyDict>,
    key: &Bound<'py, PyString>,
    kind: PieceKind,
) -> PyResult<bool> {
    let Some(text) = text_of(block, key)? else { return Ok(false) };
    draft.push(text, kind)?;
    Ok(true)
}

fn read_call(draft: &mut Draft, block: &Bound<'_, PyDict>) -> PyResult<bool> {
    let py = block.py();
    let (Some(id), Some(name), Some(input)) = (
        text_of(block, interned!(py, "id"))?,
        text_of(block, interned!(py, "name"))?,
        block.get_item(interned!(py, "input"))?,
    ) else {
        return Ok(false);
    };
    let Ok(name) = name.to_str() else { return Ok(false) };
    let mut text = format!("{name} ");
    // A string as input is JSON already and stays as it is: Python's reader knows.
    if !input.is_exact_instance_of::<PyDict>() || write_json(&mut text, &input, MAX_DEPTH)?.is_none() {
        return Ok(false);
    }
    draft.calls.push(Id::of(id)?);
    draft.pieces.push((Source::Written(text.into()), PieceKind::ToolInput));
    Ok(true)
}

fn read_result(draft: &mut Draft, block: &Bound<'_, PyDict>, images: &mut u32) -> PyResult<bool> {
    let py = block.py();
    let Some(answer) = text_of(block, interned!(py, "tool_use_id"))? else { return Ok(false) };
    draft.answers.push(Id::of(answer)?);
    let Some(content) = value_of(block, interned!(py, "content"))? else { return Ok(true) };
    if let Ok(text) = content.cast_exact::<PyString>() {
        draft.push(text.clone(), PieceKind::ToolResult)?;
        return Ok(true);
    }
    let Ok(parts) = content.cast_into_exact::<PyList>() else { return Ok(false) };
    for part in parts {
        let Ok(part) = part.cast_into_exact::<PyDict>() else { return Ok(false) };
        let Some(kind) = text_of(&part, interned!(py, "type"))? else { return Ok(false) };
        let is_read = match kind.to_str().unwrap_or_default() {
            "text" => read_text(draft, &part, interned!(py, "text"), PieceKind::ToolResult)?,
            "image" if !part.contains(interned!(py, "source_type"))? => {
                *images += 1;
                true
            }
            _ => false,
        };
        if !is_read {
            return Ok(false);
        }
    }
    Ok(true)
}
