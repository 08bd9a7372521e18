//! Messages of Anthropic's, and lines of Claude Code's, as the rules of the Messages API read them.
use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::rules::Role;
use rehydrate_core::rules::anthropic::{Block, Kind, Message, Part, Text};

use super::super::anthropic::check_calls;
use super::super::columns::is_blank;
use super::super::fields::{Fields, is_list, listed, text_of, wrong_content};
use super::super::merged::lines_in_order;
use super::super::pairs::{check_content, check_no_pair, is_anthropic, is_thought};
use super::super::speaker_of;
use super::super::strings::Id;
use super::{name_of, named, role_of};
use crate::interned::interned;

/// The messages of a list.
pub fn messages(entries: &Bound<'_, PyAny>) -> PyResult<Vec<Message>> {
    let read = |(index, raw): (usize, PyResult<Bound<'_, PyAny>>)| {
        let raw = raw?;
        let entry = Fields::needed(&raw, index, String::new)?;
        let role = role_of(&speaker_of(entry, index)?)?;
        let content = entry.get(interned!(raw.py(), "content"))?;
        check_content(entry, index, content.as_ref())?;
        check_calls(entry, index)?;
        let blocks = blocks_of(content.as_ref(), index)?;
        let blocks = blocks.iter().map(|block| block_of(block, index)).collect::<PyResult<Vec<_>>>()?;
        // One that only sets the effort may be anywhere.
        let only_sets =
            role == Role::System && blocks.is_empty() && entry.is_set(interned!(raw.py(), "output_config"))?;
        Ok((!only_sets).then(|| Message { index, role, blocks, is_null: content.is_none() }))
    };
    entries.try_iter()?.enumerate().filter_map(|each| read(each).transpose()).collect()
}

/// The lines of a transcript as Claude Code merges them when it sends: blocks of one message id together, consecutive lines
/// of the user's together with their results first, texts of only white space left out.
pub fn merged(entries: &Bound<'_, PyAny>) -> PyResult<Vec<Message>> {
    let mut messages: Vec<Message> = Vec::new();
    let mut by_id: HashMap<Vec<u8>, usize> = HashMap::new();
    for line in lines_in_order(entries)? {
        let role = if line.is_assistant() { Role::Assistant } else { Role::User };
        let id = line.message.map(|id| PyResult::Ok(Id::of(id)?.as_bytes().to_vec())).transpose()?;
        let known = if role == Role::User {
            messages.len().checked_sub(1).filter(|last| messages[*last].role == Role::User)
        } else {
            id.as_ref().and_then(|id| by_id.get(id)).copied()
        };
        let at = known.unwrap_or_else(|| {
            messages.push(Message { index: line.index, role, blocks: Vec::new(), is_null: false });
            if let Some(id) = id {
                by_id.insert(id, messages.len() - 1);
            }
            messages.len() - 1
        });
        for block in blocks_of(Some(&line.content), line.index)? {
            let block = block_of(&block, line.index)?;
            if block.part.text != Some(Text::Blank) {
                messages[at].blocks.push(block);
            }
        }
    }
    messages.retain(|message| !message.blocks.is_empty());
    for message in messages.iter_mut().filter(|message| message.role == Role::User) {
        message.blocks.sort_by_key(|block| block.kind != Kind::ToolResult);
    }
    Ok(messages)
}

/// The blocks of a content. A string is a text block, an empty content has none. Raises for a block that no format can
/// pair.
pub fn blocks_of<'py>(content: Option<&Bound<'py, PyAny>>, index: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let Some(content) = content else { return Ok(Vec::new()) };
    if let Ok(text) = content.cast::<PyString>() {
        return Ok(if text.is_empty()? { Vec::new() } else { vec![content.clone()] });
    }
    if !is_list(content) {
        return Err(wrong_content(content, index, "content"));
    }
    let blocks = listed(Some(content))?;
    for (number, value) in blocks.iter().enumerate() {
        if value.is_instance_of::<PyString>() {
            continue;
        }
        let part = || format!("content[{number}]");
        let block = Fields::needed(value, index, part)?;
        let kind = block.kind()?;
        let name = kind.name();
        let is_text = name == "text" && block.is_small(2) && block.has(interned!(value.py(), "text"))?;
        if !is_text && !is_anthropic(block, &name)? {
            check_no_pair(block, index, part, false, "another format's")?;
        }
    }
    Ok(blocks)
}

/// Whether a block is of this type.
pub fn is_of_type(block: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    Fields::of(block).map_or(Ok(name == "text"), |block| Ok(block.kind()?.name() == name))
}

/// The state of a text block's text. None for other blocks.
pub fn text_state(block: &Bound<'_, PyAny>) -> PyResult<Option<Text>> {
    let Some(of) = Fields::of(block) else { return state_of(Some(block)).map(Some) };
    if of.kind()?.name() != "text" {
        return Ok(None);
    }
    state_of(of.get(interned!(block.py(), "text"))?.as_ref()).map(Some)
}

pub fn state_of(text: Option<&Bound<'_, PyAny>>) -> PyResult<Text> {
    let Some(value) = text else { return Ok(Text::Empty) };
    Ok(match value.cast::<PyString>() {
        Ok(text) if text.is_empty()? => Text::Empty,
        Ok(text) if is_blank(&text_of(text)) => Text::Blank,
        Err(_) if !value.is_truthy()? => Text::Empty,
        _ => Text::Said,
    })
}

/// A block, or a string that is one, of the entry of this index.
pub fn block_of(value: &Bound<'_, PyAny>, index: usize) -> PyResult<Block> {
    let py = value.py();
    let mut made = Block { part: part_of(value)?, ..nothing(index, Kind::Other) };
    let Some(block) = Fields::of(value) else { return Ok(made) };
    let Some(kind) = block.kind()?.0 else { return Ok(made) };
    let is_search_result = text_of(&kind) == "search_result";
    made.kind = Kind::of(&name_of(kind)?);
    match made.kind {
        Kind::ToolUse | Kind::ServerToolUse | Kind::McpToolUse => made.id = named(block, interned!(py, "id"))?,
        Kind::ToolResult | Kind::ServerResult(_) => made.id = named(block, interned!(py, "tool_use_id"))?,
        Kind::Thinking => made.is_signed = block.text(interned!(py, "signature"))?.is_some(),
        _ => {}
    }
    if made.kind == Kind::ToolResult || is_search_result {
        let content = interned!(py, "content");
        let value = block.get(content)?;
        made.has_null_content = value.is_none() && block.has(content)?;
        let inner = listed(value.as_ref())?;
        let parts = inner.iter().filter(|inner| Fields::of(inner).is_some()).map(part_of);
        made.inner = parts.collect::<PyResult<_>>()?;
    }
    Ok(made)
}

/// A block of which only the kind is known.
pub fn nothing(index: usize, kind: Kind) -> Block {
    let part = Part::default();
    Block { index, kind, part, id: None, has_null_content: false, is_signed: false, inner: Vec::new() }
}

fn part_of(value: &Bound<'_, PyAny>) -> PyResult<Part> {
    let text = text_state(value)?;
    let Some(block) = Fields::of(value) else { return Ok(Part { text, ..Part::default() }) };
    let py = value.py();
    Ok(Part {
        text,
        is_thought: is_thought(&block.kind()?.name()),
        is_cited: text.is_some() && block.is_set(interned!(py, "citations"))?,
        is_marked: block.get(interned!(py, "cache_control"))?.is_some(),
    })
}
