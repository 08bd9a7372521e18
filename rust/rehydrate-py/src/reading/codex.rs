//! Codex' rollouts: lines around items of Responses.
//!
//! The model saw the `response_item` lines. All others (`session_meta`, `turn_context`, `event_msg`) are ignored, and
//! so are snapshots of files, and the turns that the user took back (an event `thread_rolled_back`). A `compacted` line
//! is a message that Codex writes in the user's name: its summary, with the state that the provider keeps of earlier
//! messages.
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyString, PyTuple};

use super::blocks::STATE;
use super::fields::{Fields, is_list, listed, text_of};
use super::read_places;
use super::responses::Numbered;
use crate::errors::raise;
use crate::interned::interned;

/// The types of lines.
pub const LINES: &[&str] = &["session_meta", "response_item", "event_msg", "turn_context", "compacted"];
const UNSEEN: &[&str] = &["ghost_snapshot", "other"];
/// Beginnings of texts that Codex writes in the user's name.
const WRITTEN: &[&str] = &[
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<turn_aborted>",
    "<skill>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<permissions instructions>",
    "<collaboration_mode>",
];

/// A line that the model saw, as Python takes it: its index, its item, the path of the item in it, and whether it is a turn
/// of the user.
type Shown<'py> = (usize, Bound<'py, PyAny>, Bound<'py, PyTuple>, bool);

const ITEM: &[&str] = &["payload"];
const SUMMARY: &[&str] = &["payload", "message"];

/// A line that the model saw, on any branch. None for any other. Raises InvalidMessageError for an entry that isn't a
/// line of a rollout.
pub fn codex_line<'py>(entry: &Bound<'py, PyAny>, index: usize) -> PyResult<Option<Shown<'py>>> {
    let py = entry.py();
    let line = Fields::needed(entry, index, String::new)?;
    let of = line.kind()?;
    let kind = of.name();
    let payload = line.get(interned!(py, "payload"))?;
    let Some(inner) = payload.as_ref().and_then(Fields::of) else {
        if LINES.contains(&kind.as_ref()) {
            let remedy = format!("a '{kind}' line needs its payload; leave the line out");
            return Err(raise(py, "InvalidMessageError", (index, "payload", &payload, "a mapping", remedy)));
        }
        // Without a role it is the first line of an old rollout, or a note on its state.
        let is_note = kind.is_empty() && !line.has(interned!(py, "role"))?;
        if is_note || UNSEEN.contains(&kind.as_ref()) {
            return Ok(None);
        }
        return Ok(Some((index, entry.clone(), PyTuple::empty(py), is_turn(line)?)));
    };
    match kind.as_ref() {
        "response_item" if UNSEEN.contains(&inner.kind()?.name().as_ref()) => Ok(None),
        "response_item" => Ok(Some((index, inner.as_any().clone(), PyTuple::new(py, ITEM)?, is_turn(inner)?))),
        "compacted" => {
            let item = PyDict::new(py);
            item.set_item(interned!(py, "role"), interned!(py, "user"))?;
            item.set_item(interned!(py, "content"), summary(inner)?)?;
            Ok(Some((index, item.into_any(), PyTuple::new(py, SUMMARY)?, false)))
        }
        _ => Ok(None),
    }
}

/// Whether the user wrote an item, and not Codex in the user's name.
fn is_turn(item: Fields<'_, '_>) -> PyResult<bool> {
    let py = item.as_any().py();
    if item.text(interned!(py, "role"))?.is_none_or(|role| text_of(&role) != "user") {
        return Ok(false);
    }
    let Some(content) = item.get(interned!(py, "content"))? else { return Ok(false) };
    for part in if is_list(&content) { listed(Some(&content))? } else { vec![content] } {
        let text = match Fields::of(&part) {
            Some(part) => part.text(interned!(py, "text"))?,
            None => part.cast_into::<PyString>().ok(),
        };
        let is_users = |text: &str| !text.is_empty() && !WRITTEN.iter().any(|begin| text.starts_with(begin));
        if text.is_some_and(|text| is_users(&text_of(&text))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The content of Codex's summary: its words, and the state that the provider keeps.
fn summary<'py>(payload: Fields<'_, 'py>) -> PyResult<Bound<'py, PyList>> {
    let py = payload.as_any().py();
    let content = PyList::empty(py);
    if let Some(text) = payload.text(interned!(py, "message"))?
        && !text.is_empty()?
    {
        let part = PyDict::new(py);
        part.set_item(interned!(py, "type"), interned!(py, "input_text"))?;
        part.set_item(interned!(py, "text"), text)?;
        content.append(part)?;
    }
    for item in listed(payload.get(interned!(py, "replacement_history"))?.as_ref())? {
        let is_state = match Fields::of(&item) {
            Some(item) => STATE.contains(&item.kind()?.name().as_ref()),
            None => false,
        };
        if is_state {
            content.append(item)?;
        }
    }
    Ok(content)
}

/// The lines of the conversation: those that the model saw, without those taken back. Raises InvalidMessageError for an
/// entry that isn't a line of a rollout.
pub fn codex_lines<'py>(entries: &Bound<'py, PyAny>) -> PyResult<Vec<Shown<'py>>> {
    let entries = entries.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    for (index, entry) in entries.iter().enumerate() {
        Fields::needed(entry, index, String::new)?;
    }
    let lines =
        entries.iter().enumerate().map(|(index, entry)| codex_line(entry, index)).collect::<PyResult<Vec<_>>>()?;
    let turns = lines.iter().map(|line| line.as_ref().is_some_and(|(.., is_turn)| *is_turn)).collect();
    let kept = codex_kept(turns, entries.iter().map(codex_turns_taken_back).collect::<PyResult<_>>()?);
    Ok(lines.into_iter().zip(kept).filter_map(|(line, is_kept)| line.filter(|_| is_kept)).collect())
}

/// The items of the conversation as they were sent, each with the index of its line.
pub fn codex_items<'py>(entries: &Bound<'py, PyAny>) -> PyResult<Vec<(usize, Bound<'py, PyAny>)>> {
    let py = entries.py();
    let mut items = Vec::new();
    for (index, item, path, _) in codex_lines(entries)? {
        if path.len() != SUMMARY.len() {
            items.push((index, item));
            continue;
        }
        for part in item.get_item(interned!(py, "content"))?.try_iter()? {
            let part = part?;
            if STATE.contains(&Fields::needed(&part, index, String::new)?.kind()?.name().as_ref()) {
                items.push((index, part));
                continue;
            }
            let said = PyDict::new(py);
            said.set_item(interned!(py, "role"), interned!(py, "user"))?;
            said.set_item(interned!(py, "content"), part.get_item(interned!(py, "text"))?)?;
            items.push((index, said.into_any()));
        }
    }
    Ok(items)
}

/// The items of a rollout, and the indices of all other lines.
pub fn items<'py>(entries: &Bound<'py, PyAny>) -> PyResult<(Vec<Numbered<'py>>, Vec<usize>)> {
    // The caller's list may change meanwhile.
    let entries = PyList::new(entries.py(), entries.try_iter()?.collect::<PyResult<Vec<_>>>()?)?;
    let lines = codex_lines(&entries)?;
    let mut is_ignored = vec![true; entries.len()];
    for (index, ..) in &lines {
        is_ignored[*index] = false;
    }
    let ignored = is_ignored.iter().enumerate().filter_map(|(index, is_ignored)| is_ignored.then_some(index)).collect();
    Ok((lines.into_iter().map(|(index, item, _, is_turn)| (index, item, is_turn)).collect(), ignored))
}

/// The path of each text of a line's item; None if it must not change.
pub fn places<'py>(entry: &Bound<'py, PyAny>, index: usize) -> PyResult<Vec<Option<Bound<'py, PyTuple>>>> {
    let Some((_, item, path, _)) = codex_line(entry, index)? else { return Ok(Vec::new()) };
    if path.len() == SUMMARY.len() {
        let content = Fields::needed(&item, index, String::new)?.get(interned!(entry.py(), "content"))?;
        for part in listed(content.as_ref())? {
            if let Some(part) = Fields::of(&part)
                && part.text(interned!(entry.py(), "text"))?.is_some()
            {
                return Ok(vec![Some(path)]);
            }
        }
        return Ok(Vec::new());
    }
    let found = read_places("openai_responses", &item, index)?.into_iter();
    let whole =
        |place: Bound<'py, PyTuple>| PyTuple::new(entry.py(), path.iter().chain(place.iter()).collect::<Vec<_>>());
    found.map(|place| place.map(whole).transpose()).collect()
}

/// Whether each line is still there: some are turns of the user, others take back a number of turns with all after
/// them.
pub fn codex_kept(turns: Vec<bool>, taken_back: Vec<usize>) -> Vec<bool> {
    let mut is_kept = vec![true; turns.len()];
    let mut open_turns = Vec::new();
    for (index, (is_turn, taken)) in turns.into_iter().zip(taken_back).enumerate() {
        if is_turn {
            open_turns.push(index);
        } else if taken > 0 && !open_turns.is_empty() {
            let first = open_turns.len().saturating_sub(taken);
            is_kept[open_turns[first]..index].fill(false);
            open_turns.truncate(first);
        }
    }
    is_kept
}

/// The number of user turns that a line takes back.
pub fn codex_turns_taken_back(entry: &Bound<'_, PyAny>) -> PyResult<usize> {
    let py = entry.py();
    let line = Fields::needed(entry, 0, String::new)?;
    if line.kind()?.name() != "event_msg" {
        return Ok(0);
    }
    let payload = line.get(interned!(py, "payload"))?;
    let Some(payload) = payload.as_ref().and_then(Fields::of) else { return Ok(0) };
    if payload.kind()?.name() != "thread_rolled_back" {
        return Ok(0);
    }
    let count = payload.get(interned!(py, "num_turns"))?;
    let count = count.filter(|count| count.is_instance_of::<PyInt>() && !count.is_instance_of::<PyBool>());
    let Some(count) = count else { return Ok(0) };
    // More than a machine's word is all of them.
    Ok(if count.gt(0)? { count.extract().unwrap_or(usize::MAX) } else { 0 })
}
