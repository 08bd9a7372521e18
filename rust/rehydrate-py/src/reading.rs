//! Conversations read into columns without the interpreter, as far as their messages have the common shapes; any other
//! message is left to its format's reader in Python.
//!
//! Those readers are the slow twins: `tests/formats/test_fast_reading.py` holds the law that both read alike.
mod blocks;
mod branch;
mod chat;
mod columns;
mod conversation;
mod draft;
mod grouping;
mod json;
mod strings;
mod transcript;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rehydrate_core::conversation::PieceKind;

use crate::interned::interned;

pub use branch::transcript_branch;
use columns::Columns;
pub use conversation::Conversation;
pub use draft::Row;
use draft::{Draft, Traits};
pub use transcript::read_transcript;

/// Reads one entry: a message in an open draft, and what links it to others. None where its shape is none of the common.
type ReadEntry = fn(&mut Draft, &Bound<'_, PyAny>) -> PyResult<Option<Read>>;

/// The result of reading one entry.
struct Read {
    role: Py<PyString>,
    of: Traits,
    link: Link,
}

/// How a message hangs together with others, beside its calls and answers.
#[derive(Clone, Copy, PartialEq)]
enum Link {
    None,
    /// It ends in a thought (Anthropic): the assistant's next message belongs to it.
    Thought,
    /// It calls (chat): answers without an id belong to the calls before them.
    Calls,
}

/// What came before a message of Anthropic's. A system message in the middle belongs to the message before it and to the
/// assistant's that follows: the API takes it nowhere else.
#[derive(Default)]
struct Before {
    has_spoken: bool,
    is_system: bool,
}

impl Before {
    /// Take the next message; whether it belongs to the one before it.
    fn joins(&mut self, role: &str) -> bool {
        let is_system = role == "system";
        let joins = self.has_spoken && (is_system || (self.is_system && role == "assistant"));
        self.has_spoken |= !is_system;
        self.is_system = is_system;
        joins
    }
}

/// Read a list of entries in the format `anthropic`, `openai_chat` or `plain`. `slow(entry, index)` reads what has no
/// common shape: a `Message`, and whether it ends in a thought (Anthropic) or makes calls (chat).
#[pyfunction]
pub fn read_entries(format: &str, entries: &Bound<'_, PyAny>, slow: &Bound<'_, PyAny>) -> PyResult<Conversation> {
    let (read, linked): (ReadEntry, Link) = match format {
        "anthropic" => (blocks::read_message, Link::Thought),
        "openai_chat" => (chat::read_message, Link::Calls),
        "plain" => (chat::read_plain, Link::None),
        _ => return Err(PyValueError::new_err(format!("no reader of {format}"))),
    };
    let py = entries.py();
    let mut draft = Draft::with_capacity(entries.len().unwrap_or(0));
    let mut links = Vec::new();
    let mut open: Option<usize> = None; // the thought, or the calls, that the next message may belong to
    let mut before = Before::default();
    for (index, entry) in entries.try_iter()?.enumerate() {
        let entry = entry?;
        let (role, link) = if let Some(Read { role, of, link }) = read(&mut draft, &entry)? {
            let role = role.into_bound(py);
            draft.end(index, &role, of)?;
            (role, link)
        } else {
            draft.forget_open();
            let (message, is_linked): (Bound<'_, PyTuple>, bool) = slow.call1((&entry, index))?.extract()?;
            draft.take(&message)?;
            let role = message.get_item(1)?.cast_into::<PyString>()?;
            (role, if is_linked { linked } else { Link::None })
        };
        let role = role.to_str().unwrap_or_default();
        if linked == Link::Thought && before.joins(role) {
            links.push((index - 1, index));
        }
        match linked {
            Link::Thought if role == "assistant" => {
                links.extend(open.map(|thought| (thought, index)));
                open = (link == Link::Thought).then_some(index);
            }
            Link::Thought if role != "system" => open = None,
            Link::Calls if role == "tool" => {
                let caller = open.filter(|_| !draft.last_answers());
                links.extend(caller.map(|caller| (caller, index)));
            }
            Link::Calls => open = (link == Link::Calls).then_some(index),
            _ => {}
        }
    }
    Ok(Conversation::new(Columns::group(draft, &links), format))
}

/// The index of the first entry from `start` on that may show a format: all before it have a role that every provider
/// knows, a text, and nothing else.
#[pyfunction]
pub fn first_telling(entries: &Bound<'_, PyAny>, start: usize) -> PyResult<usize> {
    let py = entries.py();
    let tells_nothing = |entry: &Bound<'_, PyAny>| -> PyResult<bool> {
        let Ok(entry) = entry.cast_exact::<PyDict>() else { return Ok(false) };
        if entry.len() != 2 {
            return Ok(false);
        }
        let Some(role) = text_of(entry, interned!(py, "role"))? else { return Ok(false) };
        let is_common = matches!(role.to_str(), Ok("user" | "assistant" | "system"));
        Ok(is_common && text_of(entry, interned!(py, "content"))?.is_some())
    };
    let end = entries.len()?;
    if let Ok(list) = entries.cast_exact::<PyList>() {
        for (at, entry) in list.iter().enumerate().skip(start) {
            if !tells_nothing(&entry)? {
                return Ok(at);
            }
        }
    } else if let Ok(tuple) = entries.cast_exact::<PyTuple>() {
        for at in start..end {
            if !tells_nothing(&*tuple.get_borrowed_item(at)?)? {
                return Ok(at);
            }
        }
    } else {
        return Ok(start);
    }
    Ok(end)
}

/// The string under `key`, if it is exactly one.
fn text_of<'py>(block: &Bound<'py, PyDict>, key: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyString>>> {
    Ok(block.get_item(key)?.and_then(|value| value.cast_into_exact::<PyString>().ok()))
}

/// The value under `key`; None where it is not there, or null.
fn value_of<'py>(block: &Bound<'py, PyDict>, key: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(block.get_item(key)?.filter(|value| !value.is_none()))
}

/// Append a text block; whether it is one: exactly `type` and `text`, and no data URL in place of a text.
fn read_text_part(draft: &mut Draft, part: &Bound<'_, PyDict>, kind: PieceKind) -> PyResult<bool> {
    let py = part.py();
    if part.len() != 2 {
        return Ok(false);
    }
    let Some(text) = text_of(part, interned!(py, "text"))? else { return Ok(false) };
    draft.push(text, kind)?;
    Ok(true)
}

/// Whether an entry has a field beside its role and its content in which a call, a picture or the content itself may
/// be: the format's own reader looks at it.
fn has_other_content(entry: &Bound<'_, PyDict>) -> PyResult<bool> {
    let py = entry.py();
    if entry.len() <= 2 {
        return Ok(false);
    }
    for key in [
        interned!(py, "parts"),
        interned!(py, "contents"),
        interned!(py, "blocks"),
        interned!(py, "items"),
        interned!(py, "toolInvocations"),
        interned!(py, "_content"),
        interned!(py, "images"),
    ] {
        if entry.contains(key)? {
            return Ok(true);
        }
    }
    Ok(false)
}
