//! The lines of a transcript as entries, without ballast: no thinking, no pictures, nothing that only the harness
//! needs.
use pyo3::exceptions::{PyRecursionError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::sessions::{stripped, without_elements};
use rustc_hash::{FxHashMap, FxHashSet};

use super::said::{message_of, words_of_user};
use super::{copied, id_of};
use crate::convert::{bytes_of, string_of};
use crate::exit::Running;
use crate::interned::{Interned, interned};
use crate::reading::{
    Fields, codex_turns_taken_back, is_list, is_thought, line_content, line_is_seen, line_is_users, text_of,
    transcript_branch,
};

static LINK_KEYS: [Interned; 6] = [
    Interned::new("type"),
    Interned::new("subtype"),
    Interned::new("uuid"),
    Interned::new("parentUuid"),
    Interned::new("logicalParentUuid"),
    Interned::new("timestamp"),
];
static KEPT_KEYS: [Interned; 5] = [
    Interned::new("type"),
    Interned::new("uuid"),
    Interned::new("parentUuid"),
    Interned::new("timestamp"),
    Interned::new("sessionId"),
];
static CODEX_KEYS: [Interned; 3] = [Interned::new("type"), Interned::new("timestamp"), Interned::new("payload")];
/// Keys of lines of a subagent or a harness, of summaries of earlier lines, and of errors.
static UNSEEN: [Interned; 4] = [
    Interned::new("isSidechain"),
    Interned::new("isMeta"),
    Interned::new("isCompactSummary"),
    Interned::new("isApiErrorMessage"),
];
const CODEX_ITEMS: &[&str] =
    &["function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "local_shell_call"];
const HARNESS: &[&str] = &["<task-notification>", "[Request interrupted", "Caveat: The messages below"];
/// Results in results, of which none has been seen.
const DEEPEST_RESULT: usize = 16;
/// From a line to the last one before it that was said.
pub const MAX_STEPS: usize = 10_000;

type Entry<'py> = Bound<'py, PyAny>;
/// The parents of lines, by the lines' ids. None for an entry, at which a path ends.
type Here<'py> = FxHashMap<String, Option<Option<Entry<'py>>>>;

/// The entries in these lines, in the agent's format, without what the user took back as far as the lines show it.
///
/// Each line of Claude Code names the last spoken one before it. `ancestor` finds that one for a line that is not among
/// these. For Codex the events stay by which turns were taken back, with these turns.
#[pyfunction]
pub fn said_entries<'py>(
    lines: &Bound<'py, PyAny>,
    agent: &str,
    ancestor: &Bound<'py, PyAny>,
) -> PyResult<Vec<Entry<'py>>> {
    let _running = Running::begin();
    let py = lines.py();
    let (mut read, mut is_entry) = (Vec::new(), Vec::new());
    for line in lines.try_iter()? {
        let line = line?;
        let line = Fields::needed(&line, 0, String::new)?;
        let entry = if agent == "claude_code" { claude_entry(line) } else { codex_entry(line) };
        let entry = entry.or_else(|error| if is_of_the_line(&error, py) { Ok(None) } else { Err(error) })?;
        is_entry.push(entry.is_some());
        match entry {
            Some(entry) => read.push(entry),
            None if agent == "claude_code" => read.push(copied(line, &LINK_KEYS)?.into_any()),
            None => {}
        }
    }
    if agent != "claude_code" {
        return Ok(read);
    }
    let branch = transcript_branch(PyList::new(py, &read)?.as_any())?;
    let mut here: Here<'py> = FxHashMap::default();
    for (line, is_entry) in read.iter().zip(&is_entry) {
        let line = Fields::needed(line, 0, String::new)?;
        if let Some(uuid) = line.text(interned!(py, "uuid"))? {
            let uuid = text_of(&uuid).into_owned();
            if *is_entry {
                here.entry(uuid).or_insert(None);
            } else {
                here.insert(uuid, Some(parent_of(line)?));
            }
        }
    }
    let mut said = Vec::new();
    for index in branch.unwrap_or_else(|| (0..read.len()).collect()) {
        if is_entry[index] {
            let entry = Fields::needed(&read[index], 0, String::new)?;
            said.push(with_ancestor(entry, &here, ancestor)?);
        }
    }
    Ok(said)
}

/// Whether an error says that a line is of no shape that we know.
fn is_of_the_line(error: &PyErr, py: Python<'_>) -> bool {
    error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyRecursionError>(py)
}

/// The id of the line that a line follows; None for the first.
pub fn parent_of<'py>(line: Fields<'_, 'py>) -> PyResult<Option<Entry<'py>>> {
    let py = line.as_any().py();
    for key in [interned!(py, "parentUuid"), interned!(py, "logicalParentUuid")] {
        if line.is_set(key)? {
            return line.get(key);
        }
    }
    Ok(None)
}

/// The entry with the last line before it that was said, by its id.
fn with_ancestor<'py>(entry: Fields<'_, 'py>, here: &Here<'py>, ancestor: &Bound<'py, PyAny>) -> PyResult<Entry<'py>> {
    let key = interned!(entry.as_any().py(), "parentUuid");
    if !entry.has(key)? {
        return Ok(entry.as_any().clone());
    }
    let mut parent = entry.get(key)?;
    for _ in 0..MAX_STEPS {
        let Some(name) = parent.as_ref().and_then(|parent| parent.cast::<PyString>().ok()) else { break };
        match here.get(text_of(name).as_ref()) {
            Some(Some(before)) => parent = before.clone(),
            Some(None) => break,
            None => {
                // Only there the user can have gone back.
                if line_is_users(entry.as_any())? {
                    parent = Some(ancestor.call1((name,))?);
                }
                break;
            }
        }
    }
    entry.with(key, parent)
}

/// The entries without results whose calls are missing, and without calls that were never answered, if others were made
/// after them.
pub fn paired_entries<'py>(entries: Vec<Entry<'py>>, agent: &str) -> PyResult<Vec<Entry<'py>>> {
    let is_claudes = agent == "claude_code";
    let mut asked = FxHashSet::default();
    for entry in &entries {
        let entry = Fields::needed(entry, 0, String::new)?;
        if is_claudes {
            for block in blocks_of(line_content(entry.as_any())?.as_ref(), "tool_use")? {
                asked.extend(id_of(&block, "id")?);
            }
        } else if let Some(item) = item_of(entry)?
            && !is_output(&item)?
        {
            asked.extend(id_of(&item, "call_id")?);
        }
    }
    let is_asked = |id: Option<String>| id.is_some_and(|id| asked.contains(&id));
    let mut kept = Vec::with_capacity(entries.len());
    for entry in entries {
        if is_claudes {
            kept.extend(with_blocks(entry, |block, kind| {
                Ok(kind != "tool_result" || is_asked(id_of(block, "tool_use_id")?))
            })?);
            continue;
        }
        let item = item_of(Fields::needed(&entry, 0, String::new)?)?;
        let is_kept = match item {
            Some(item) => !is_output(&item)? || is_asked(id_of(&item, "call_id")?),
            None => true,
        };
        kept.extend(is_kept.then_some(entry));
    }
    Ok(kept)
}

/// The entry in a line of Claude Code, which keeps a whole result a second time next to it.
fn claude_entry<'py>(line: Fields<'_, 'py>) -> PyResult<Option<Entry<'py>>> {
    let py = line.as_any().py();
    if !line_is_seen(line.as_any())? {
        return Ok(None);
    }
    for key in &UNSEEN {
        if line.is_set(key.get(py))? {
            return Ok(None);
        }
    }
    let Some(content) = line_content(line.as_any())? else { return Ok(None) };
    if !(content.is_instance_of::<PyString>() || content.is_instance_of::<PyList>()) {
        return Ok(None);
    }
    let entry = PyDict::new(py);
    for key in &KEPT_KEYS {
        let (name, key) = (key.text(), key.get(py));
        if name == "parentUuid" && line.has(key)? {
            entry.set_item(key, line.get(key)?)?; // null too: the first line
        } else if let Some(text) = line.text(key)? {
            entry.set_item(key, text)?;
        }
    }
    let kind = line.kind()?;
    let is_users = kind.name() == "user";
    let around = PyDict::new(py);
    if kind.name() == "attachment" {
        if !line_is_users(line.as_any())? {
            return Ok(None);
        }
        around.set_item("type", "queued_command")?;
        around.set_item("prompt", content)?;
        around.set_item("commandMode", "prompt")?;
        entry.set_item("attachment", around)?;
    } else {
        // A line without its role is not a message; the type says the same.
        around.set_item(interned!(py, "role"), kind.name())?;
        around.set_item(interned!(py, "content"), if is_users { own_content(&content)? } else { content })?;
        let message = line.get(interned!(py, "message"))?;
        if let Some(message) = message.as_ref().and_then(Fields::of)
            && let Some(id) = message.text(interned!(py, "id"))?
        {
            around.set_item(interned!(py, "id"), id)?;
        }
        entry.set_item(interned!(py, "message"), around)?;
    }
    let Some(light) = with_blocks(entry.into_any(), |_, kind| Ok(!is_thought(kind)))? else { return Ok(None) };
    Ok(if is_users && is_harness(line, &light)? { None } else { Some(light) })
}

/// The content of a user's line without the harness's additions: those are not the user's words, and nothing to
/// remember as such.
fn own_content<'py>(content: &Entry<'py>) -> PyResult<Entry<'py>> {
    let py = content.py();
    if let Ok(text) = content.cast::<PyString>() {
        return Ok(own_text(text)?.into_any());
    }
    let own = PyList::empty(py);
    for block in content.try_iter()? {
        let block = block?;
        let key = interned!(py, "text");
        let text = match Fields::of(&block) {
            Some(block) if block.kind()?.name() == "text" => block.text(key)?,
            _ => None,
        };
        match (text, Fields::of(&block)) {
            (Some(text), Some(fields)) => own.append(fields.with(key, own_text(&text)?)?)?,
            _ => own.append(&block)?,
        }
    }
    Ok(own.into_any())
}

fn own_text<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    let whole = bytes_of(text)?;
    let own = without_elements(&whole, |name| name == b"system-reminder");
    if own.len() == whole.len() { Ok(text.clone()) } else { string_of(text.py(), &own) }
}

fn codex_entry<'py>(line: Fields<'_, 'py>) -> PyResult<Option<Entry<'py>>> {
    let py = line.as_any().py();
    let Some(item) = item_of(line)? else { return Ok(None) };
    let Some(item) = Fields::of(&item) else { return Ok(None) };
    let is_kept = if codex_turns_taken_back(line.as_any())? > 0 {
        true
    } else if line.kind()?.name() != "response_item" {
        false
    } else if item.kind()?.name() != "message" {
        CODEX_ITEMS.contains(&item.kind()?.name().as_ref()) && item.text(interned!(py, "call_id"))?.is_some()
    } else {
        let content = item.get(interned!(py, "content"))?;
        let has_content = content.is_some_and(|it| it.is_instance_of::<PyString>() || it.is_instance_of::<PyList>());
        has_content
            && match item.text(interned!(py, "role"))?.as_ref().map(text_of).as_deref() {
                Some("assistant") => true,
                Some("user") => !words_of_user(item.as_any())?.is_empty(),
                _ => false,
            }
    };
    Ok(if is_kept { Some(copied(line, &CODEX_KEYS)?.into_any()) } else { None })
}

/// Whether a line of the user's role holds no words of a user and no result of a tool.
fn is_harness(line: Fields<'_, '_>, entry: &Entry<'_>) -> PyResult<bool> {
    let content = line_content(entry)?;
    if !blocks_of(content.as_ref(), "tool_result")?.is_empty() {
        return Ok(false);
    }
    for block in blocks_of(content.as_ref(), "text")? {
        let text = block.get_item(interned!(entry.py(), "text"));
        if text.is_ok_and(|text| text.cast::<PyString>().is_ok_and(|text| text_of(text) == "[image]")) {
            return Ok(false);
        }
    }
    let message = message_of(Fields::needed(entry, 0, String::new)?)?;
    let words = match message {
        Some(message) if line_is_users(line.as_any())? => words_of_user(&message)?,
        _ => String::new(),
    };
    Ok(words.is_empty() || HARNESS.iter().any(|begin| words.starts_with(begin)))
}

/// The blocks of one type in a content that is a list.
fn blocks_of<'py>(content: Option<&Entry<'py>>, kind: &str) -> PyResult<Vec<Entry<'py>>> {
    let mut found = Vec::new();
    let Some(list) = content.and_then(|content| content.cast::<PyList>().ok()) else { return Ok(found) };
    for block in list {
        if let Some(fields) = Fields::of(&block)
            && fields.kind()?.name() == kind
        {
            found.push(block);
        }
    }
    Ok(found)
}

/// The entry with the kept blocks, chosen one by one and by their types. None if nothing is left.
fn with_blocks<'py>(
    entry: Entry<'py>,
    is_kept: impl Fn(&Entry<'py>, &str) -> PyResult<bool>,
) -> PyResult<Option<Entry<'py>>> {
    let py = entry.py();
    let Some(content) = line_content(&entry)? else { return Ok(None) };
    if let Ok(text) = content.cast::<PyString>() {
        return Ok((!stripped(&text_of(text)).is_empty()).then_some(entry));
    }
    let kept = PyList::empty(py);
    for block in content.try_iter()? {
        let block = block?;
        let Some(fields) = Fields::of(&block) else { continue };
        if is_kept(&block, &fields.kind()?.name())? {
            kept.append(light(fields, DEEPEST_RESULT)?)?;
        }
    }
    if kept.is_empty() {
        return Ok(None);
    }
    let fields = Fields::needed(&entry, 0, String::new)?;
    let is_queued = fields.has(interned!(py, "attachment"))?;
    let (around, key) = if is_queued {
        (interned!(py, "attachment"), interned!(py, "prompt"))
    } else {
        (interned!(py, "message"), interned!(py, "content"))
    };
    let inner = fields.as_any().get_item(around)?;
    fields.with(around, Fields::needed(&inner, 0, String::new)?.with(key, kept)?).map(Some)
}

/// A block with a word in the place of binary data. Raises TypeError for one of no shape that we know, or too many results in one
/// another.
fn light<'py>(block: Fields<'_, 'py>, depth: usize) -> PyResult<Entry<'py>> {
    let (py, kind) = (block.as_any().py(), block.kind()?);
    let odd = |what: &str| PyTypeError::new_err(what.to_owned());
    let of = block.get(interned!(py, "type"))?;
    if of.is_some_and(|of| Fields::of(&of).is_some() || is_list(&of)) {
        return Err(odd("a block's type isn't a string"));
    }
    if matches!(kind.name().as_ref(), "image" | "document") {
        let made = PyDict::new(py);
        made.set_item(interned!(py, "type"), interned!(py, "text"))?;
        made.set_item(interned!(py, "text"), format!("[{}]", kind.name()))?;
        return Ok(made.into_any());
    }
    let key = interned!(py, "content");
    let content = if kind.name() == "tool_result" { block.get(key)? } else { None };
    let Some(content) = content.filter(|content| !content.is_instance_of::<PyString>()) else {
        return Ok(block.as_any().clone());
    };
    let depth = depth.checked_sub(1).ok_or_else(|| odd("results are nested too deep"))?;
    let inner = PyList::empty(py);
    for each in content.cast::<PyList>().map_err(|_| odd("a result is neither a text nor blocks"))? {
        if let Some(each) = Fields::of(&each) {
            inner.append(light(each, depth)?)?;
        }
    }
    block.with(key, inner)
}

/// The payload of a line of Codex'.
fn item_of<'py>(line: Fields<'_, 'py>) -> PyResult<Option<Entry<'py>>> {
    let item = line.get(interned!(line.as_any().py(), "payload"))?;
    Ok(item.filter(|item| Fields::of(item).is_some()))
}

fn is_output(item: &Entry<'_>) -> PyResult<bool> {
    Ok(Fields::needed(item, 0, String::new)?.kind()?.name().ends_with("_output"))
}
