//! Claude Code's transcripts.
use std::collections::{HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::conversation::PieceKind;

use super::blocks::{At, Body, has_only_results};
use super::branch::branch_of;
use super::columns::{Columns, is_blank};
use super::conversation::{Conversation, Facts};
use super::draft::Draft;
use super::strings::Id;
use super::{Notes, text_of, value_of};
use crate::interned::interned;

/// A line that the model saw.
struct Line<'py> {
    index: usize,
    kind: Kind,
    entry: Bound<'py, PyDict>,
    content: Option<Bound<'py, PyAny>>,
}

/// Who wrote a line.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    User,
    Assistant,
    /// The user, or the harness, while the agent worked.
    Queued,
    /// Nobody: the model never saw it.
    Unseen,
}

/// What is read of a line: index, whether it is the assistant's, content, id of its message, the call that it was added
/// to, and whether the user wrote it.
type Fact<'py> =
    (usize, bool, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyString>>, Option<Bound<'py, PyString>>, bool);

/// Read the lines of a transcript; None where a line has no common shape.
#[pyfunction]
pub fn read_transcript(entries: &Bound<'_, PyAny>) -> PyResult<Option<Conversation>> {
    let Some((lines, ignored)) = spoken_lines(entries)? else { return Ok(None) };
    let py = entries.py();
    let facts = lines.into_iter().map(|Line { index, kind, entry, content }| {
        let is_assistant = kind == Kind::Assistant;
        let message = if is_assistant { message_id(&entry)? } else { None };
        let is_users = !is_assistant && is_of_the_user(&entry, kind)?;
        Ok((index, is_assistant, content, message, text_of(&entry, interned!(py, "sourceToolUseID"))?, is_users))
    });
    read_lines(py, facts.collect::<PyResult<_>>()?, ignored).map(Some)
}

/// Read these lines of a transcript, in the order of the file.
#[pyfunction]
pub fn read_lines<'py>(py: Python<'py>, lines: Vec<Fact<'py>>, ignored: Vec<usize>) -> PyResult<Conversation> {
    let mut draft = Draft::with_capacity(lines.len());
    let (mut body, mut notes) = (Body::default(), Notes::default());
    let mut links = Vec::new();
    let mut first_lines: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut callers: HashMap<Vec<u8>, usize> = HashMap::new();
    for (number, (index, is_assistant, content, message, source, is_users)) in lines.into_iter().enumerate() {
        body.begin(index);
        body.add_content(content.as_ref(), PieceKind::Text, At::Root(None, "content"))?;
        let role = if is_assistant {
            if let Some(id) = message {
                let first = *first_lines.entry(Id::of(id)?.as_bytes().to_vec()).or_insert(number);
                if first != number {
                    links.push((first, number));
                }
            }
            for call in &body.calls {
                callers.insert(call.as_bytes().to_vec(), number);
            }
            interned!(py, "assistant")
        } else if has_only_results(content.as_ref())? {
            interned!(py, "tool")
        } else {
            interned!(py, "user")
        };
        // Text that a tool adds to its result (as a skill) means nothing without the call.
        if let Some(source) = source {
            links.extend(callers.get(Id::of(source)?.as_bytes()).map(|&caller| (caller, number)));
        }
        notes.take(py, &mut body)?;
        draft.close(&mut body, role, is_users && role.to_str()? == "user")?;
    }
    let facts = Facts { ignored, user_first: true, ..notes.facts("claude_code") };
    Ok(Conversation::of(Columns::group(draft, &links), facts))
}

fn message_id<'py>(entry: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyString>>> {
    let py = entry.py();
    let Some(message) = value_of(entry, interned!(py, "message"))? else { return Ok(None) };
    match message.cast_into_exact::<PyDict>() {
        Ok(message) => text_of(&message, interned!(py, "id")),
        Err(_) => Ok(None),
    }
}

/// Whether the user wrote it, and not the harness in the user's name.
fn is_of_the_user(entry: &Bound<'_, PyDict>, kind: Kind) -> PyResult<bool> {
    let py = entry.py();
    let mut source = entry.clone();
    if kind == Kind::Queued {
        let Some(attachment) = value_of(entry, interned!(py, "attachment"))? else { return Ok(false) };
        let Ok(attachment) = attachment.cast_into_exact::<PyDict>() else { return Ok(false) };
        let mode = text_of(&attachment, interned!(py, "commandMode"))?;
        if mode.is_some_and(|mode| mode.to_str().is_ok_and(|mode| mode != "prompt")) {
            return Ok(false);
        }
        source = attachment;
    }
    if let Some(origin) = value_of(&source, interned!(py, "origin"))?
        && let Ok(origin) = origin.cast_into_exact::<PyDict>()
        && let Some(kind) = text_of(&origin, interned!(py, "kind"))?
        && kind.to_str().is_ok_and(|kind| kind != "human")
    {
        return Ok(false);
    }
    Ok(!is_set(entry, interned!(py, "isMeta"))? && !is_set(entry, interned!(py, "isCompactSummary"))?)
}

/// The lines of the conversation in the order of the file, and the indices of all others.
fn spoken_lines<'py>(entries: &Bound<'py, PyAny>) -> PyResult<Option<(Vec<Line<'py>>, Vec<usize>)>> {
    let py = entries.py();
    let (mut lines, mut sidechain, mut ignored) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    let mut all: Vec<Bound<'py, PyDict>> = Vec::new();
    for (index, entry) in entries.try_iter()?.enumerate() {
        let Ok(entry) = entry?.cast_into_exact::<PyDict>() else { return Ok(None) };
        all.push(entry.clone());
        if text_of(&entry, interned!(py, "type"))?.is_none() {
            return Ok(None);
        }
        let kind = kind_of(&entry)?;
        if kind == Kind::Unseen {
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
        if !has_common_ids(&entry, kind)? {
            return Ok(None);
        }
        let content = content_of(&entry, kind)?;
        match is_empty(content.clone())? {
            Some(true) => {
                ignored.push(index);
                continue;
            }
            Some(false) => {}
            None => return Ok(None),
        }
        let is_sidechain =
            is_set(&entry, interned!(py, "isSidechain"))? || is_set(&entry, interned!(py, "parent_tool_use_id"))?;
        let line = Line { index, kind, entry, content };
        if is_sidechain { sidechain.push(line) } else { lines.push(line) }
    }
    if lines.is_empty() {
        lines = std::mem::take(&mut sidechain);
    }
    ignored.extend(sidechain.iter().map(|line| line.index));
    if let Some(branch) = branch_of(&all)? {
        let on_branch: HashSet<usize> = branch.into_iter().collect();
        let (kept, left): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| on_branch.contains(&line.index));
        ignored.extend(left.iter().map(|line| line.index));
        lines = kept;
    }
    ignored.sort_unstable();
    Ok(Some((lines, ignored)))
}

/// Whether what a line is named by has the common shape.
fn has_common_ids(entry: &Bound<'_, PyDict>, kind: Kind) -> PyResult<bool> {
    let py = entry.py();
    if value_of(entry, interned!(py, "sourceToolUseID"))?.is_some_and(|id| !id.is_exact_instance_of::<PyString>()) {
        return Ok(false);
    }
    if kind == Kind::Queued {
        return Ok(true);
    }
    let Some(message) = value_of(entry, interned!(py, "message"))? else { return Ok(false) };
    let Ok(message) = message.cast_into_exact::<PyDict>() else { return Ok(false) };
    Ok(value_of(&message, interned!(py, "id"))?.is_none_or(|id| id.is_exact_instance_of::<PyString>()))
}

/// Who wrote a line.
pub fn kind_of(entry: &Bound<'_, PyDict>) -> PyResult<Kind> {
    let py = entry.py();
    let Some(kind) = text_of(entry, interned!(py, "type"))? else { return Ok(Kind::Unseen) };
    let kind = match kind.to_str() {
        Ok("assistant") => Kind::Assistant,
        Ok("user") => Kind::User,
        Ok("attachment") if is_queued(entry)? => Kind::Queued,
        _ => Kind::Unseen,
    };
    Ok(if is_set(entry, interned!(py, "isApiErrorMessage"))? { Kind::Unseen } else { kind })
}

fn is_queued(entry: &Bound<'_, PyDict>) -> PyResult<bool> {
    let py = entry.py();
    let Some(attachment) = value_of(entry, interned!(py, "attachment"))? else { return Ok(false) };
    let Ok(attachment) = attachment.cast_into_exact::<PyDict>() else { return Ok(false) };
    let kind = text_of(&attachment, interned!(py, "type"))?;
    Ok(kind.is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind == "queued_command")))
}

/// The content of a line; None where it has none, or no message of the common shape around it.
pub fn content_of<'py>(entry: &Bound<'py, PyDict>, kind: Kind) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = entry.py();
    let (around, key) = match kind {
        Kind::Unseen => return Ok(None),
        Kind::Queued => (interned!(py, "attachment"), interned!(py, "prompt")),
        _ => (interned!(py, "message"), interned!(py, "content")),
    };
    let Some(around) = value_of(entry, around)? else { return Ok(None) };
    match around.cast_into::<PyDict>() {
        Ok(around) => value_of(&around, key),
        Err(_) => Ok(None),
    }
}

/// Whether something that Python takes for true stands under `key`.
pub fn is_set(entry: &Bound<'_, PyDict>, key: &Bound<'_, PyString>) -> PyResult<bool> {
    value_of(entry, key)?.map_or(Ok(false), |value| value.is_truthy())
}

/// Whether Claude Code leaves such a content out when it sends; None where it has no common shape.
pub fn is_empty(content: Option<Bound<'_, PyAny>>) -> PyResult<Option<bool>> {
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
