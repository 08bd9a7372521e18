//! Claude Code's transcripts: `rehydrate.formats.claude_code` is the slow twin.
use std::collections::{HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::blocks::read_content;
use super::columns::{Columns, is_blank};
use super::draft::{Draft, Traits};
use super::strings::Id;
use super::{text_of, value_of};
use crate::interned::interned;

/// A line that the model saw.
struct Line<'py> {
    index: usize,
    is_assistant: bool,
    entry: Bound<'py, PyDict>,
    message: Bound<'py, PyDict>,
}

/// Read the lines of a transcript: the columns, and the indices of what is no message. `slow(content, index)` reads a
/// content of no common shape. None where a line itself has none.
#[pyfunction]
pub fn read_transcript(entries: &Bound<'_, PyAny>, slow: &Bound<'_, PyAny>) -> PyResult<Option<(Columns, Vec<usize>)>> {
    let py = entries.py();
    let Some((lines, ignored)) = spoken_lines(entries)? else { return Ok(None) };
    let mut draft = Draft::with_capacity(lines.len());
    let mut links = Vec::new();
    let mut first_lines: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut callers: HashMap<Vec<u8>, usize> = HashMap::new();
    for (number, Line { index, is_assistant, entry, message }) in lines.into_iter().enumerate() {
        let content = message.get_item(interned!(py, "content"))?;
        let mut of = Traits::default();
        let only_results;
        if let Some(read) = read_content(&mut draft, content.as_ref())? {
            of = Traits { images: read.images, is_thoughtless: read.is_thoughtless, is_common: true, ..of };
            only_results = read.only_results;
        } else {
            draft.forget_open();
            let body: Bound<'_, PyTuple> = slow.call1((content, index))?.cast_into()?;
            of.images = body.get_item(1)?.extract()?;
            only_results = body.get_item(4)?.is_truthy()?;
            draft.take_body(&body)?;
        }
        let role = if is_assistant {
            if let Some(id) = text_of(&message, interned!(py, "id"))? {
                let first = *first_lines.entry(Id::of(id)?.as_bytes().to_vec()).or_insert(number);
                if first != number {
                    links.push((first, number));
                }
            }
            for call in draft.calls_now() {
                callers.insert(call.as_bytes().to_vec(), number);
            }
            interned!(py, "assistant")
        } else if only_results {
            interned!(py, "tool")
        } else {
            let is_harness =
                is_set(&entry, interned!(py, "isMeta"))? || is_set(&entry, interned!(py, "isCompactSummary"))?;
            of.is_user_turn = !is_harness;
            interned!(py, "user")
        };
        // Text that a tool adds to its result (as a skill) means nothing without the call.
        if let Some(source) = text_of(&entry, interned!(py, "sourceToolUseID"))? {
            links.extend(callers.get(Id::of(source)?.as_bytes()).map(|&caller| (caller, number)));
        }
        draft.end(index, role, of)?;
    }
    Ok(Some((Columns::group(draft, &links), ignored)))
}

/// The lines that the model saw, and the indices of all others.
fn spoken_lines<'py>(entries: &Bound<'py, PyAny>) -> PyResult<Option<(Vec<Line<'py>>, Vec<usize>)>> {
    let py = entries.py();
    let (mut lines, mut sidechain, mut ignored) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    for (index, entry) in entries.try_iter()?.enumerate() {
        let Ok(entry) = entry?.cast_into_exact::<PyDict>() else { return Ok(None) };
        let Some(kind) = text_of(&entry, interned!(py, "type"))? else { return Ok(None) };
        let is_assistant = match kind.to_str() {
            Ok("assistant") => true,
            Ok("user") => false,
            _ => {
                ignored.push(index);
                continue;
            }
        };
        if is_set(&entry, interned!(py, "isApiErrorMessage"))? {
            ignored.push(index);
            continue;
        }
        if let Some(uuid) = value_of(&entry, interned!(py, "uuid"))? {
            let Ok(uuid) = uuid.cast_into_exact::<PyString>() else { return Ok(None) };
            if !seen.insert(Id::of(uuid)?.as_bytes().to_vec()) {
                ignored.push(index);
                continue;
            }
        }
        let Some(message) = value_of(&entry, interned!(py, "message"))? else { return Ok(None) };
        let Ok(message) = message.cast_into_exact::<PyDict>() else { return Ok(None) };
        if value_of(&message, interned!(py, "id"))?.is_some_and(|id| !id.is_exact_instance_of::<PyString>())
            || value_of(&entry, interned!(py, "sourceToolUseID"))?
                .is_some_and(|id| !id.is_exact_instance_of::<PyString>())
        {
            return Ok(None);
        }
        match is_empty(value_of(&message, interned!(py, "content"))?)? {
            Some(true) => {
                ignored.push(index);
                continue;
            }
            Some(false) => {}
            None => return Ok(None),
        }
        let is_sidechain =
            is_set(&entry, interned!(py, "isSidechain"))? || is_set(&entry, interned!(py, "parent_tool_use_id"))?;
        let line = Line { index, is_assistant, entry, message };
        if is_sidechain { sidechain.push(line) } else { lines.push(line) }
    }
    if lines.is_empty() {
        return Ok(Some((sidechain, ignored)));
    }
    if !sidechain.is_empty() {
        ignored.extend(sidechain.iter().map(|line| line.index));
        ignored.sort_unstable();
    }
    Ok(Some((lines, ignored)))
}

/// Whether something that Python takes for true stands under `key`.
fn is_set(entry: &Bound<'_, PyDict>, key: &Bound<'_, PyString>) -> PyResult<bool> {
    value_of(entry, key)?.map_or(Ok(false), |value| value.is_truthy())
}

/// Whether Claude Code leaves such a content out when it sends; None where it has no common shape.
fn is_empty(content: Option<Bound<'_, PyAny>>) -> PyResult<Option<bool>> {
    let Some(content) = content else { return Ok(Some(true)) };
    if let Ok(text) = content.cast_exact::<PyString>() {
        let Ok(text) = text.to_str() else { return Ok(None) };
        return Ok(Some(is_blank(text)));
    }
    let Ok(blocks) = content.cast_into_exact::<PyList>() else { return Ok(None) };
    let py = blocks.py();
    for block in &blocks {
        let Ok(block) = block.cast_into_exact::<PyDict>() else { return Ok(None) };
        let Some(kind) = text_of(&block, interned!(py, "type"))? else { return Ok(None) };
        if !kind.to_str().is_ok_and(|kind| kind == "text") {
            return Ok(Some(false));
        }
        let Some(text) = text_of(&block, interned!(py, "text"))? else { return Ok(None) };
        let Ok(text) = text.to_str() else { return Ok(None) };
        if text.is_empty() || !is_blank(text) {
            return Ok(Some(false));
        }
    }
    Ok(Some(true))
}
