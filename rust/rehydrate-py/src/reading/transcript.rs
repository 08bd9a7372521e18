//! Claude Code's transcripts: JSONL lines around Anthropic messages, one content block per line.
//!
//! The model only saw the `user` and `assistant` lines, and the messages queued while it worked (`queued_command`
//! attachments). All others (progress, file history, queue operations, system notes such as `compact_boundary`) are
//! ignored, and so are subagents' lines (isSidechain), unless the whole transcript is a subagent's; lines with the uuid
//! of an earlier one, which a resumed session repeats; API errors, which Claude Code shows but never sends; and
//! branches that the user took back (`branch`).
//!
//! One assistant message is several lines with one `message.id`, and results of its first calls may come before the
//! lines of its last calls. So all lines of one id, and all results of their calls, are one unit. Lines that Claude
//! Code writes as the user (isMeta, isCompactSummary, a task's notification) are user messages that the model sees, but
//! not turns of the user.
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use rehydrate_core::conversation::{PieceKind, Role};
use rustc_hash::{FxHashMap, FxHashSet};

use super::blocks::{At, Body};
use super::branch::Nodes;
use super::columns::{Columns, is_blank};
use super::conversation::Conversation;
use super::draft::{Draft, Speaker};
use super::facts::{Facts, Notes};
use super::fields::{Fields, text_of as lossy};
use super::strings::{Id, Numbers};
use crate::errors::raise;
use crate::exit::Running;
use crate::interned::interned;

/// A line that the model saw.
pub struct Line<'py> {
    pub index: usize,
    /// Its number in the tree.
    pub node: usize,
    pub kind: Kind,
    pub entry: Bound<'py, PyAny>,
    pub content: Bound<'py, PyAny>,
    /// The id of the assistant's message; its lines have the same.
    pub message: Option<Bound<'py, PyString>>,
    /// The part of that message that it is in, if its calls were parted.
    part: usize,
    /// The id of the call whose tool added it.
    pub source: Option<Bound<'py, PyString>>,
}

impl<'py> Line<'py> {
    /// An entry, if the model may have seen it: Claude Code leaves out empty ones.
    fn of(entry: &Bound<'py, PyAny>, kind: Kind, index: usize, node: usize) -> PyResult<Option<Self>> {
        let (py, of) = (entry.py(), Fields::needed(entry, index, String::new)?);
        let Some(around) = around_content(of, kind)? else { return Ok(None) };
        let Some(around) = Fields::of(&around) else { return Ok(None) };
        let Some(content) = around.get(content_key(py, kind))? else { return Ok(None) };
        if is_empty(&content)? {
            return Ok(None);
        }
        let (mut message, mut part) = (None, 0);
        if kind == Kind::Assistant {
            message = around.text(interned!(py, "id"))?;
            part = of.get(part_key(py))?.and_then(|part| part.extract().ok()).unwrap_or(0);
        }
        let source = of.text(interned!(py, "sourceToolUseID"))?;
        Ok(Some(Self { index, node, kind, entry: entry.clone(), content, message, part, source }))
    }

    pub fn is_assistant(&self) -> bool {
        self.kind == Kind::Assistant
    }
}

/// The key under which a line of a message with parted calls has the number of its part.
pub fn part_key(py: Python<'_>) -> &Bound<'_, PyString> {
    interned!(py, "rehydrate_part")
}

/// The writer of a line.
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
    let (mut messages, mut first_lines) = (Numbers::default(), FxHashMap::default());
    for (number, line) in lines.into_iter().enumerate() {
        let entry = Fields::needed(&line.entry, line.index, String::new)?;
        body.begin(line.index);
        body.add_content(Some(&line.content), PieceKind::Text, At::Root(None, "content"))?;
        let mut is_user_turn = false;
        let speaker = if line.kind == Kind::Assistant {
            if let Some(id) = line.message {
                let first = *first_lines.entry((messages.of(id)?, line.part)).or_insert(number);
                if first != number {
                    links.push((first, number));
                }
            }
            Speaker::known(Role::Assistant, interned!(py, "assistant"))
        } else if body.only_results() {
            Speaker::known(Role::Tool, interned!(py, "tool"))
        } else {
            is_user_turn = is_of_the_user(entry, line.kind)?;
            Speaker::known(Role::User, interned!(py, "user"))
        };
        // Text that a tool adds to its result (as a skill) means nothing without the call.
        body.owners.extend(line.source.map(Id::of).transpose()?);
        notes.take(py, &mut body)?;
        draft.close(&mut body, &speaker, is_user_turn)?;
    }
    let facts = Facts { ignored, user_first: true, ..notes.facts("claude_code") };
    Ok(Conversation::of(Columns::group(draft, &links), facts))
}

/// Whether the model may have seen a line: by its type, on whatever branch it is.
pub fn line_is_seen(entry: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(kind_of(Fields::needed(entry, 0, String::new)?)? != Kind::Unseen)
}

/// The content of a line that the model saw.
pub fn line_content<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let entry = Fields::needed(entry, 0, String::new)?;
    let is_queued = entry.kind()?.name() == "attachment";
    content_of(entry, if is_queued { Kind::Queued } else { Kind::User })
}

/// Return whether the user wrote a line of the user's role, and not the harness.
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
    /// The indices of lines in the order of the conversation; None if no line names another.
    pub branch: Option<Vec<usize>>,
    /// The indices of all other lines, ascending.
    ignored: Vec<usize>,
}

impl<'py> Lines<'py> {
    /// The lines that the model saw. Raises InvalidMessageError for what isn't a line of a transcript.
    pub fn of(entries: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::read(entries, true)
    }

    fn read(entries: &Bound<'py, PyAny>, is_strict: bool) -> PyResult<Self> {
        let (mut nodes, mut lines, mut ignored) = (Nodes::default(), Vec::new(), Vec::new());
        for (index, raw) in entries.try_iter()?.enumerate() {
            let raw = raw?;
            let entry = Fields::needed(&raw, index, String::new)?;
            let kind = kind_of(entry)?;
            if is_strict && kind == Kind::Unseen {
                check_type(entry, index)?;
            }
            let Some(node) = nodes.add(entry)? else {
                ignored.push(index);
                continue;
            };
            if let Some(line) = Line::of(&raw, kind, index, node)? {
                lines.push(line);
                continue;
            }
            if is_strict && matches!(kind, Kind::User | Kind::Assistant) {
                check_message(entry, index)?;
            }
            ignored.push(index);
        }
        let mut leave_out = |lines: &mut Vec<Line<'py>>, is_out: &dyn Fn(&Line<'py>) -> bool| {
            ignored.extend(lines.iter().filter(|line| is_out(line)).map(|line| line.index));
            lines.retain(|line| !is_out(line));
        };
        if lines.iter().any(|line| !nodes.is_sidechain(line.node)) {
            leave_out(&mut lines, &|line| nodes.is_sidechain(line.node));
            nodes.leave_out_sidechains();
        }
        let branch = nodes.branch(&lines)?;
        let branch = branch.map(|places| places.into_iter().map(|at| lines[at].index).collect::<Vec<_>>());
        if let Some(branch) = &branch {
            let on_branch: FxHashSet<usize> = branch.iter().copied().collect();
            leave_out(&mut lines, &|line| !on_branch.contains(&line.index));
        }
        ignored.sort_unstable();
        Ok(Self { lines, branch, ignored })
    }
}

/// The indices of a transcript's lines that the conversation went on from, in its order; None if no line names
/// another.
#[pyfunction]
pub fn transcript_branch(entries: &Bound<'_, PyAny>) -> PyResult<Option<Vec<usize>>> {
    let _running = Running::begin();
    Ok(Lines::read(entries, false)?.branch)
}

/// Refuse an entry without a type.
fn check_type(entry: Fields<'_, '_>, index: usize) -> PyResult<()> {
    let py = entry.as_any().py();
    if entry.kind()?.0.is_some() {
        return Ok(());
    }
    let named = entry.get(interned!(py, "type"))?;
    let remedy = "pass only the lines of one transcript";
    Err(raise(py, "InvalidMessageError", (index, "type", named, "a transcript line's type", remedy)))
}

/// Refuse a line without its message.
fn check_message(entry: Fields<'_, '_>, index: usize) -> PyResult<()> {
    let py = entry.as_any().py();
    let message = entry.get(interned!(py, "message"))?;
    if message.as_ref().and_then(Fields::of).is_some() {
        return Ok(());
    }
    let remedy = format!("a '{}' line needs its message; leave the line out", entry.kind()?.name());
    Err(raise(py, "InvalidMessageError", (index, "message", &message, "a mapping", remedy)))
}

/// Whether a subagent wrote it.
pub fn is_of_subagent(entry: Fields<'_, '_>) -> PyResult<bool> {
    let py = entry.as_any().py();
    Ok(entry.is_set(interned!(py, "isSidechain"))? || entry.is_set(interned!(py, "parent_tool_use_id"))?)
}

/// The writer of a line.
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

/// The content of a line. None if it has none, or no message around it.
pub fn content_of<'py>(entry: Fields<'_, 'py>, kind: Kind) -> PyResult<Option<Bound<'py, PyAny>>> {
    let around = around_content(entry, kind)?;
    let key = content_key(entry.as_any().py(), kind);
    around.as_ref().and_then(Fields::of).map_or(Ok(None), |around| around.get(key))
}

/// The object that holds the content of a line.
fn around_content<'py>(entry: Fields<'_, 'py>, kind: Kind) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = entry.as_any().py();
    match kind {
        Kind::Unseen => Ok(None),
        Kind::Queued => entry.get(interned!(py, "attachment")),
        Kind::User | Kind::Assistant => entry.get(interned!(py, "message")),
    }
}

fn content_key<'py>(py: Python<'py>, kind: Kind) -> &'py Bound<'py, PyString> {
    if kind == Kind::Queued { interned!(py, "prompt") } else { interned!(py, "content") }
}

/// The place of the content of a line.
pub fn path_of<'py>(entry: Fields<'_, 'py>) -> PyResult<Bound<'py, PyTuple>> {
    let is_queued = entry.kind()?.name() == "attachment";
    PyTuple::new(entry.as_any().py(), if is_queued { ["attachment", "prompt"] } else { ["message", "content"] })
}

/// Whether Claude Code leaves such a content out when it sends.
fn is_empty(content: &Bound<'_, PyAny>) -> PyResult<bool> {
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

/// The index of the last summary in a transcript that its agent wrote when the window was full. None without one. Its
/// next prompt began there, and earlier messages are only kept.
#[pyfunction]
pub fn last_compaction(conversation: &Conversation, entries: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let _running = Running::begin();
    let py = entries.py();
    if !matches!(conversation.format_name(), "claude_code" | "codex") {
        return Ok(None);
    }
    for row in conversation.all().iter().rev() {
        let entry = entries.get_item(row.index)?;
        let Some(line) = Fields::of(&entry) else { continue };
        if line.is_set(interned!(py, "isCompactSummary"))? || line.kind()?.name() == "compacted" {
            return Ok(Some(row.index));
        }
    }
    // The summary may be missing.
    for &index in conversation.facts.ignored.iter().rev() {
        let entry = entries.get_item(index)?;
        let Some(line) = Fields::of(&entry) else { continue };
        if line.text(interned!(py, "subtype"))?.is_some_and(|subtype| subtype == "compact_boundary") {
            return Ok(Some(index));
        }
    }
    Ok(None)
}
