//! Claude Code's transcripts: JSONL lines around Anthropic messages, one content block a line.
//!
//! The model saw only the `user` and `assistant` lines, and what was queued while it worked (`queued_command` attachments). All
//! others (progress, file history, queue operations, system notes such as `compact_boundary`) are ignored, and so are subagents'
//! lines (isSidechain), unless the whole transcript is a subagent's; lines whose uuid came before, which a resumed session
//! repeats; API errors, which Claude Code shows but never sends; and branches that the user took back (`branch`).
//!
//! One assistant message is several lines with one `message.id`, and results of its first calls may come before the lines of
//! its last calls. So all lines of one id, and all results of their calls, are one unit. Lines that Claude Code writes as the
//! user (isMeta, isCompactSummary, a task's notification) are user messages that the model sees, but no turns of the user.
use std::collections::{HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use rehydrate_core::conversation::{PieceKind, Role};

use super::blocks::{At, Body};
use super::branch::branch_of;
use super::columns::{Columns, is_blank};
use super::conversation::Conversation;
use super::draft::{Draft, Speaker};
use super::facts::{Facts, Notes};
use super::fields::{Fields, text_of as lossy};
use super::strings::Id;
use crate::errors::raise;
use crate::interned::interned;

/// A line that the model saw.
pub struct Line<'py> {
    pub index: usize,
    kind: Kind,
    pub entry: Bound<'py, PyAny>,
    pub content: Option<Bound<'py, PyAny>>,
    /// Of the assistant's message; its lines have the same.
    pub message: Option<Bound<'py, PyString>>,
}

impl Line<'_> {
    pub fn is_assistant(&self) -> bool {
        self.kind == Kind::Assistant
    }
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

/// Read the lines of a transcript.
pub fn read_transcript(entries: &Bound<'_, PyAny>) -> PyResult<Conversation> {
    let py = entries.py();
    let Lines { lines, ignored, .. } = Lines::of(entries)?;
    let mut draft = Draft::with_capacity(lines.len());
    let (mut body, mut notes) = (Body::default(), Notes::default());
    let mut links = Vec::new();
    let mut first_lines: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut callers: HashMap<Vec<u8>, usize> = HashMap::new();
    for (number, line) in lines.into_iter().enumerate() {
        let (entry, content) = (Fields::needed(&line.entry, line.index, String::new)?, line.content.as_ref());
        body.begin(line.index);
        body.add_content(content, PieceKind::Text, At::Root(None, "content"))?;
        let mut is_user_turn = false;
        let speaker = if line.kind == Kind::Assistant {
            if let Some(id) = line.message {
                let first = *first_lines.entry(Id::of(id)?.as_bytes().to_vec()).or_insert(number);
                if first != number {
                    links.push((first, number));
                }
            }
            for call in &body.calls {
                callers.insert(call.as_bytes().to_vec(), number);
            }
            Speaker::known(Role::Assistant, interned!(py, "assistant"))
        } else if body.only_results() {
            Speaker::known(Role::Tool, interned!(py, "tool"))
        } else {
            is_user_turn = is_of_the_user(entry, line.kind)?;
            Speaker::known(Role::User, interned!(py, "user"))
        };
        // Text that a tool adds to its result (as a skill) means nothing without the call.
        if let Some(source) = entry.text(interned!(py, "sourceToolUseID"))? {
            links.extend(callers.get(Id::of(source)?.as_bytes()).map(|&caller| (caller, number)));
        }
        notes.take(py, &mut body)?;
        draft.close(&mut body, &speaker, is_user_turn)?;
    }
    let facts = Facts { ignored, user_first: true, ..notes.facts("claude_code") };
    Ok(Conversation::of(Columns::group(draft, &links), facts))
}

/// Return whether the model may have seen a line: by its type, on whatever branch it is.
#[pyfunction]
pub fn line_is_seen(entry: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(kind_of(Fields::needed(entry, 0, String::new)?)? != Kind::Unseen)
}

/// Return the content of a line that the model saw.
#[pyfunction]
pub fn line_content<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let entry = Fields::needed(entry, 0, String::new)?;
    let is_queued = entry.kind()?.name() == "attachment";
    content_of(entry, if is_queued { Kind::Queued } else { Kind::User })
}

/// Return whether the user wrote a line of the user's role, and not the harness.
#[pyfunction]
pub fn line_is_users(entry: &Bound<'_, PyAny>) -> PyResult<bool> {
    let entry = Fields::needed(entry, 0, String::new)?;
    let is_queued = entry.kind()?.name() == "attachment";
    is_of_the_user(entry, if is_queued { Kind::Queued } else { Kind::User })
}

/// Whether the user wrote it, and not the harness in the user's name.
fn is_of_the_user(entry: Fields<'_, '_>, kind: Kind) -> PyResult<bool> {
    let py = entry.as_any().py();
    let attachment = if kind == Kind::Queued { entry.get(interned!(py, "attachment"))? } else { None };
    let source = attachment.as_ref().and_then(Fields::of).unwrap_or(entry);
    if kind == Kind::Queued
        && let Some(mode) = source.get(interned!(py, "commandMode"))?
        && !mode.cast::<PyString>().is_ok_and(|mode| lossy(mode) == "prompt")
    {
        return Ok(false);
    }
    if let Some(origin) = source.get(interned!(py, "origin"))?
        && let Some(origin) = Fields::of(&origin)
        && let Some(kind) = origin.text(interned!(py, "kind"))?
        && lossy(&kind) != "human"
    {
        return Ok(false);
    }
    Ok(!entry.is_set(interned!(py, "isMeta"))? && !entry.is_set(interned!(py, "isCompactSummary"))?)
}

/// The lines of a conversation.
pub struct Lines<'py> {
    /// In the order of the file.
    pub lines: Vec<Line<'py>>,
    /// The indices of lines in the order of the conversation; None where no line names another.
    pub branch: Option<Vec<usize>>,
    /// The indices of all other lines, ascending.
    ignored: Vec<usize>,
}

impl<'py> Lines<'py> {
    pub fn of(entries: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = entries.py();
        let (mut lines, mut sidechain, mut ignored) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen: HashSet<Vec<u8>> = HashSet::new();
        let mut all: Vec<Bound<'py, PyAny>> = Vec::new();
        for (index, raw) in entries.try_iter()?.enumerate() {
            all.push(raw?);
            let entry = Fields::needed(&all[index], index, String::new)?;
            let kind = kind_of(entry)?;
            if kind == Kind::Unseen {
                if entry.kind()?.0.is_none() {
                    let named = entry.get(interned!(py, "type"))?;
                    let remedy = "pass only the lines of one transcript";
                    let said = (index, "type", named, "a transcript line's type", remedy);
                    return Err(raise(py, "InvalidMessageError", said));
                }
                ignored.push(index);
                continue;
            }
            if let Some(uuid) = entry.text(interned!(py, "uuid"))?
                && !seen.insert(Id::of(uuid)?.as_bytes().to_vec())
            {
                ignored.push(index);
                continue;
            }
            let message = entry.get(interned!(py, "message"))?;
            let of = message.as_ref().and_then(Fields::of);
            if kind != Kind::Queued && of.is_none() {
                let remedy = format!("a '{}' line needs its message; leave the line out", entry.kind()?.name());
                let said = (index, "message", &message, "a mapping", remedy);
                return Err(raise(py, "InvalidMessageError", said));
            }
            let content = content_of(entry, kind)?;
            if is_empty(content.as_ref())? {
                ignored.push(index);
                continue;
            }
            let message = match of.filter(|_| kind == Kind::Assistant) {
                Some(of) => of.text(interned!(py, "id"))?,
                None => None,
            };
            // The SDK's stream names the subagent's call where the file has isSidechain.
            let is_sidechain = is_of_subagent(entry)?;
            let line = Line { index, kind, entry: all[index].clone(), content, message };
            if is_sidechain { sidechain.push(line) } else { lines.push(line) }
        }
        if lines.is_empty() {
            lines = std::mem::take(&mut sidechain);
        }
        ignored.extend(sidechain.iter().map(|line| line.index));
        let branch = branch_of(&all)?;
        if let Some(branch) = &branch {
            let on_branch: HashSet<usize> = branch.iter().copied().collect();
            let (kept, left): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| on_branch.contains(&line.index));
            ignored.extend(left.iter().map(|line| line.index));
            lines = kept;
        }
        ignored.sort_unstable();
        Ok(Self { lines, branch, ignored })
    }
}

/// Whether a subagent wrote it.
pub fn is_of_subagent(entry: Fields<'_, '_>) -> PyResult<bool> {
    let py = entry.as_any().py();
    Ok(entry.is_set(interned!(py, "isSidechain"))? || entry.is_set(interned!(py, "parent_tool_use_id"))?)
}

/// Who wrote a line.
pub fn kind_of(entry: Fields<'_, '_>) -> PyResult<Kind> {
    let py = entry.as_any().py();
    let kind = match entry.kind()?.name().as_ref() {
        "assistant" => Kind::Assistant,
        "user" => Kind::User,
        "attachment" if is_queued(entry)? => Kind::Queued,
        _ => return Ok(Kind::Unseen),
    };
    Ok(if entry.is_set(interned!(py, "isApiErrorMessage"))? { Kind::Unseen } else { kind })
}

fn is_queued(entry: Fields<'_, '_>) -> PyResult<bool> {
    let attachment = entry.get(interned!(entry.as_any().py(), "attachment"))?;
    match attachment.as_ref().and_then(Fields::of) {
        Some(attachment) => Ok(attachment.kind()?.name() == "queued_command"),
        None => Ok(false),
    }
}

/// The content of a line; None where it has none, or no message around it.
pub fn content_of<'py>(entry: Fields<'_, 'py>, kind: Kind) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = entry.as_any().py();
    let (around, key) = match kind {
        Kind::Unseen => return Ok(None),
        Kind::Queued => (interned!(py, "attachment"), interned!(py, "prompt")),
        _ => (interned!(py, "message"), interned!(py, "content")),
    };
    let around = entry.get(around)?;
    around.as_ref().and_then(Fields::of).map_or(Ok(None), |around| around.get(key))
}

/// Where the content of a line is.
pub fn path_of<'py>(entry: Fields<'_, 'py>) -> PyResult<Bound<'py, PyTuple>> {
    let is_queued = entry.kind()?.name() == "attachment";
    PyTuple::new(entry.as_any().py(), if is_queued { ["attachment", "prompt"] } else { ["message", "content"] })
}

/// Whether Claude Code leaves such a content out when it sends.
pub fn is_empty(content: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    let Some(content) = content else { return Ok(true) };
    if let Ok(text) = content.cast::<PyString>() {
        return Ok(is_blank(&lossy(text)));
    }
    let Ok(blocks) = content.cast::<PyList>() else { return Ok(false) };
    for block in blocks {
        let Some(block) = Fields::of(&block) else { return Ok(false) };
        let text = block.text(interned!(content.py(), "text"))?;
        let is_white = text.is_some_and(|text| !lossy(&text).is_empty() && is_blank(&lossy(&text)));
        if block.kind()?.name() != "text" || !is_white {
            return Ok(false);
        }
    }
    Ok(true)
}
