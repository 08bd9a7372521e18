//! Messages of Converse, as its rules read them: its own facts, and the same message as one of Anthropic's.
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use rehydrate_core::rules::anthropic::{self, Kind, Part, Text};
use rehydrate_core::rules::bedrock::{Block, Is, Message};
use rehydrate_core::rules::{Name, Role};

use super::super::bedrock::{Is as Key, KEYS};
use super::super::columns::is_blank;
use super::super::fields::{Fields, listed, string_of, text_of};
use super::super::readable::readable_texts;
use super::super::speaker_of;
use super::anthropic::{block_of, nothing, state_of};
use super::{name_of, named, role_of, written};
use crate::interned::interned;

/// The messages of a list, which was read without an error.
pub fn messages(entries: &Bound<'_, PyAny>) -> PyResult<Vec<Message>> {
    let read = |(index, raw): (usize, PyResult<Bound<'_, PyAny>>)| {
        let raw = raw?;
        let entry = Fields::needed(&raw, index, String::new)?;
        let role = role_of(&speaker_of(entry, index)?)?;
        let content = entry.get(interned!(raw.py(), "content"))?;
        let is_null = content.is_none();
        let is_text = content.as_ref().is_some_and(|content| content.is_instance_of::<PyString>());
        let blocks = blocks_of(content)?;
        let spoken = as_anthropics(&blocks, role == Role::Assistant, index)?;
        Ok(Message {
            has_text_block: blocks.iter().any(|block| block.is_instance_of::<PyString>()),
            blocks: blocks.iter().map(own_block).collect::<PyResult<_>>()?,
            of: anthropic::Message { index, role, blocks: spoken, is_null },
            is_text,
        })
    };
    entries.try_iter()?.enumerate().map(read).collect()
}

/// The blocks of a content; a string is one text.
fn blocks_of(content: Option<Bound<'_, PyAny>>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    match content {
        Some(text) if text.is_instance_of::<PyString>() => Ok(if text.is_truthy()? { vec![text] } else { Vec::new() }),
        content => listed(content.as_ref()),
    }
}

/// The key for the kind of a block, with its value. None if Converse doesn't have the kind.
fn key_of<'py>(block: Fields<'_, 'py>) -> PyResult<Option<(&'static str, Key, Bound<'py, PyAny>)>> {
    if !block.kind()?.name().is_empty() {
        return Ok(None);
    }
    for (key, is) in &KEYS {
        if let Some(value) = block.get(key.get(block.as_any().py()))? {
            return Ok(Some((key.text(), *is, value)));
        }
    }
    Ok(None)
}

fn own_block(value: &Bound<'_, PyAny>) -> PyResult<Block> {
    let py = value.py();
    let Some(block) = Fields::of(value) else { return Ok(Block { is: Is::Text, ..Block::default() }) };
    let found = key_of(block)?;
    let is_keyed = found.as_ref().is_some_and(|(_, is, _)| *is != Key::Json);
    let is_known = block.kind()?.name().is_empty() && (is_keyed || block.has(interned!(py, "cachePoint"))?);
    let unknown_keys = if block.len()? == 1 && is_known { None } else { Some(keys_of(block)?) };
    let is = match found {
        Some((_, Key::Text, _)) => Is::Text,
        Some((key, Key::Medium, _)) => Is::Medium(key),
        Some((_, Key::Document, document)) => Is::Document(match Fields::of(&document) {
            Some(document) => named(document, interned!(py, "name"))?,
            None => None,
        }),
        Some((key, is @ (Key::Call | Key::Result), value)) => match Fields::of(&value) {
            Some(of) => Is::Pair {
                key,
                id: named(of, interned!(py, "toolUseId"))?,
                tool: if is == Key::Call { named(of, interned!(py, "name"))? } else { None },
                empty_error: if is == Key::Result { empty_error(of)? } else { None },
            },
            None => Is::Other,
        },
        _ => Is::Other,
    };
    Ok(Block { unknown_keys, is })
}

/// The first keys of a block, as Python shows a list of them.
fn keys_of(block: Fields<'_, '_>) -> PyResult<Name> {
    let py = block.as_any().py();
    let keys = PyList::new(py, block.keys()?.iter().map(string_of).collect::<PyResult<Vec<_>>>()?)?;
    keys.sort()?;
    name_of(keys.get_slice(0, 5).repr()?)
}

/// The id of a result that is an error without a content.
fn empty_error(result: Fields<'_, '_>) -> PyResult<Option<Name>> {
    let py = result.as_any().py();
    let status = result.text(interned!(py, "status"))?;
    if status.is_none_or(|status| text_of(&status) != "error") || result.is_set(interned!(py, "content"))? {
        return Ok(None);
    }
    let call = result.get(interned!(py, "toolUseId"))?;
    call.map_or_else(|| Ok(Some(b"None".to_vec())), |call| written(&call).map(Some))
}

/// Blocks as Anthropic's. A blank text is empty: "text content blocks must contain non-whitespace text" (2026-07,
/// <https://github.com/NousResearch/hermes-agent/pull/61318>).
fn as_anthropics(blocks: &[Bound<'_, PyAny>], is_assistant: bool, index: usize) -> PyResult<Vec<anthropic::Block>> {
    let mut made: Vec<anthropic::Block> = Vec::new();
    for value in blocks {
        let Some(block) = Fields::of(value) else {
            made.push(text_block(index, Some(value))?);
            continue;
        };
        if block.kind()?.name().is_empty() && block.get(interned!(value.py(), "cachePoint"))?.is_some() {
            let mut before = made.pop().unwrap_or_else(|| nothing(index, Kind::Other));
            before.part.is_marked = true;
            made.push(before);
            continue;
        }
        made.push(match key_of(block)? {
            Some((_, Key::Text, text)) => text_block(index, Some(&text))?,
            Some((_, Key::Json, _)) => said(index, Text::Said),
            Some((key, is, value)) => match Fields::of(&value) {
                Some(of) => as_anthropic(key, is, of, is_assistant, index)?,
                None => nothing(index, Kind::of(key.as_bytes())),
            },
            None => block_of(value, index)?,
        });
    }
    Ok(made)
}

fn as_anthropic(
    key: &'static str,
    is: Key,
    value: Fields<'_, '_>,
    is_assistant: bool,
    index: usize,
) -> PyResult<anthropic::Block> {
    let py = value.as_any().py();
    let (kind, id) = (interned!(py, "type"), interned!(py, "toolUseId"));
    Ok(match is {
        Key::Call => {
            let is_servers = value.kind()?.name() == "server_tool_use";
            let kind = if is_servers { Kind::ServerToolUse } else { Kind::ToolUse };
            anthropic::Block { id: named(value, id)?, ..nothing(index, kind) }
        }
        Key::Result if is_assistant && value.has(kind)? => {
            let kind = Kind::ServerResult(b"server_tool_result".to_vec());
            anthropic::Block { id: named(value, id)?, ..nothing(index, kind) }
        }
        Key::Result => {
            let content = value.get(interned!(py, "content"))?;
            let has_null_content = content.is_none();
            let inner = as_anthropics(&blocks_of(content)?, is_assistant, index)?;
            let inner = inner.into_iter().map(|block| block.part).collect();
            anthropic::Block { id: named(value, id)?, has_null_content, inner, ..nothing(index, Kind::ToolResult) }
        }
        Key::Thought => {
            let part = Part { is_thought: true, ..Part::default() };
            anthropic::Block { part, ..nothing(index, Kind::Other) }
        }
        Key::Medium | Key::Document => nothing(index, Kind::of(key.as_bytes())),
        _ => {
            let texts = readable_texts(value.as_any())?;
            if texts.is_empty() {
                nothing(index, Kind::Other)
            } else {
                let is_white = texts.iter().all(|text| is_blank(&text_of(text)));
                said(index, if is_white { Text::Blank } else { Text::Said })
            }
        }
    })
}

fn text_block(index: usize, text: Option<&Bound<'_, PyAny>>) -> PyResult<anthropic::Block> {
    let state = state_of(text)?;
    Ok(said(index, if state == Text::Blank { Text::Empty } else { state }))
}

fn said(index: usize, text: Text) -> anthropic::Block {
    let part = Part { text: Some(text), ..Part::default() };
    anthropic::Block { part, ..nothing(index, Kind::Other) }
}
