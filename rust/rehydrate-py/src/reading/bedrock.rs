//! Messages of Amazon Bedrock's Converse: each block has one key, which gives its kind.
//!
//! The blocks are those of the service model of botocore 1.44.8 (2026-11). Blocks that have a type are another provider's:
//! the reader of blocks takes them.
//!
//! User and assistant alternate, so an assistant's message and the one after it are one unit: if both go, the rest
//! still alternates. A `system` entry at the beginning is for the `system` field.
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rehydrate_core::conversation::PieceKind;

use super::anthropic::speaker_and_content;
use super::blocks::{At, Body};
use super::fields::{Fields, is_list, listed, python};
use super::strings::Id;
use super::{Link, Read};
use crate::interned::{Interned, interned};

/// The keys that give the kind of a block, in the order in which they are looked for.
pub static KEYS: [(Interned, Is); 14] = [
    (Interned::new("text"), Is::Text),
    (Interned::new("toolUse"), Is::Call),
    (Interned::new("toolResult"), Is::Result),
    (Interned::new("reasoningContent"), Is::Thought),
    (Interned::new("image"), Is::Medium),
    (Interned::new("video"), Is::Medium),
    (Interned::new("audio"), Is::Medium),
    (Interned::new("json"), Is::Json),
    (Interned::new("document"), Is::Document),
    (Interned::new("guardContent"), Is::Readable),
    (Interned::new("citationsContent"), Is::Cited),
    (Interned::new("searchResult"), Is::Readable),
    (Interned::new("toolAddition"), Is::Readable),
    (Interned::new("toolRemoval"), Is::Readable),
];

/// The kind of a block.
#[derive(Clone, Copy, PartialEq)]
pub enum Is {
    Text,
    Call,
    Result,
    Thought,
    Medium,
    Json,
    Document,
    Cited,
    Readable,
}

/// Read one message.
pub fn read_message<'py>(body: &mut Body, raw: &Bound<'py, PyAny>) -> PyResult<Read<'py>> {
    let (speaker, content) = speaker_and_content(body, raw)?;
    let path = body.places.is_some().then(|| PyTuple::new(raw.py(), ["content"])).transpose()?;
    let at = At::Root(path.as_ref(), "content");
    let (results, others) = read_content(body, content.as_ref(), PieceKind::Text, at)?;
    (body.results, body.parts) = (results, results + others);
    Ok(Read { speaker, link: Link::None })
}

/// Read a content. Returns the number of blocks that are results, and of those that are neither results nor cache
/// points.
fn read_content<'py>(
    body: &mut Body,
    content: Option<&Bound<'py, PyAny>>,
    kind: PieceKind,
    at: At<'_, 'py>,
) -> PyResult<(usize, usize)> {
    let Some(content) = content.filter(|content| is_list(content)) else {
        body.add_content(content, kind, at)?;
        return Ok((0, 1));
    };
    let (mut results, mut others) = (0, 0);
    for (number, block) in content.try_iter()?.enumerate() {
        let (block, here) = (block?, At::Number(&at, number));
        if block.is_instance_of::<PyString>() {
            body.add(Some(block), kind, Some(here))?;
            others += 1;
            continue;
        }
        let block = Fields::needed(&block, body.index, || here.words())?;
        if is_cache_point(block)? {
            body.is_uncommon = true;
            continue;
        }
        match read_block(body, block, kind, here)? {
            Some(Is::Result) => results += 1,
            _ => others += 1,
        }
    }
    Ok((results, others))
}

fn is_cache_point(block: Fields<'_, '_>) -> PyResult<bool> {
    Ok(block.kind()?.0.is_none() && block.has(interned!(block.as_any().py(), "cachePoint"))?)
}

fn read_block<'py>(body: &mut Body, block: Fields<'_, 'py>, kind: PieceKind, at: At<'_, 'py>) -> PyResult<Option<Is>> {
    let py = block.as_any().py();
    let mut found = None;
    if block.kind()?.0.is_none() {
        for (key, is) in &KEYS {
            if let Some(value) = block.get(key.get(py))? {
                found = Some((key, *is, value));
                break;
            }
        }
    }
    let Some((key, is, value)) = found else {
        body.add_block(block, kind, at)?;
        return Ok(None);
    };
    let here = At::Key(&at, key.text());
    let is_inner = kind == PieceKind::ToolResult;
    body.is_uncommon |= !matches!(is, Is::Text | Is::Call | Is::Result | Is::Thought | Is::Medium | Is::Json);
    let of = Fields::of(&value);
    match (is, of) {
        (Is::Text, _) => body.add(Some(value), kind, Some(here))?,
        (Is::Medium, _) => body.add_medium(&value)?,
        (Is::Json, _) => body.add(Some(python(py, "compact_json", (value,))?), kind, None)?,
        (Is::Call | Is::Result, Some(_)) if is_inner => body.add_readable(&value, kind)?,
        (Is::Call, Some(call)) => {
            if let Some(id) = call.text(interned!(py, "toolUseId"))? {
                body.calls.push(Id::of(id)?);
            }
            let (name, input) = (call.get(interned!(py, "name"))?, call.get(interned!(py, "input"))?);
            body.add_input(py, name.as_ref(), input.as_ref())?;
        }
        (Is::Result, Some(result)) => {
            if let Some(id) = result.text(interned!(py, "toolUseId"))? {
                body.answers.push(Id::of(id)?);
            }
            let content = result.get(interned!(py, "content"))?;
            body.depth += 1;
            read_content(body, content.as_ref(), PieceKind::ToolResult, At::Key(&here, "content"))?;
            body.depth -= 1;
        }
        (Is::Thought, Some(thought)) => {
            body.is_thoughtful = true;
            if let Some(said) = thought.get(interned!(py, "reasoningText"))?
                && let Some(said) = Fields::of(&said)
            {
                body.add(said.get(interned!(py, "text"))?, PieceKind::Thinking, None)?;
            }
        }
        (Is::Document, Some(document)) => read_document(body, document, kind, here)?,
        (Is::Cited, Some(cited)) => {
            let texts = cited.get(interned!(py, "content"))?;
            read_texts(body, texts.as_ref(), kind)?;
        }
        _ => body.add_readable(&value, kind)?,
    }
    Ok(Some(is))
}

/// Read a document's name and the text around it, and its text, or the medium that it is.
fn read_document<'py>(body: &mut Body, block: Fields<'_, 'py>, kind: PieceKind, at: At<'_, 'py>) -> PyResult<()> {
    let py = block.as_any().py();
    for key in [interned!(py, "name"), interned!(py, "context")] {
        body.add(block.get(key)?, kind, None)?;
    }
    let source = block.get(interned!(py, "source"))?;
    let source = source.as_ref().and_then(Fields::of);
    let texts = source.map(|of| of.get(interned!(py, "content"))).transpose()?.flatten();
    let text = source.map(|of| of.text(interned!(py, "text"))).transpose()?.flatten();
    if let Some(text) = text {
        // Citations point into the text.
        let is_free = !block.is_set(interned!(py, "citations"))?;
        let source = At::Key(&at, "source");
        body.add(Some(text.into_any()), kind, is_free.then_some(At::Key(&source, "text")))
    } else if texts.is_some() {
        read_texts(body, texts.as_ref(), kind)
    } else {
        body.add_medium(block.as_any())
    }
}

fn read_texts<'py>(body: &mut Body, blocks: Option<&Bound<'py, PyAny>>, kind: PieceKind) -> PyResult<()> {
    for block in listed(blocks)? {
        if let Some(block) = Fields::of(&block) {
            body.add(block.get(interned!(block.as_any().py(), "text"))?, kind, None)?;
        }
    }
    Ok(())
}
