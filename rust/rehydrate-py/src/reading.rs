//! Conversations read into columns, in every format. What only a format's own module in Python knows (the fields of an item,
//! a message object's calls) comes as `Draft`s, which the same reader of blocks fills.
//!
//! `tests/formats/reading_twin.py` has the slow twins: `tests/formats/test_fast_reading.py` holds the law that both read
//! alike.
mod anthropic;
mod bedrock;
mod blocks;
mod branch;
mod chat;
mod columns;
mod conversation;
mod draft;
mod fields;
mod grouping;
mod json;
mod strings;
mod transcript;

use std::collections::BTreeSet;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::interned::interned;

pub use anthropic::check_no_chat_calls;
use blocks::Body;
pub use blocks::{Draft as EntryDraft, as_content, check_pair, readable_texts};
pub use branch::transcript_branch;
pub use chat::{chat_answer, chat_calls};
use columns::Columns;
pub use conversation::Conversation;
use conversation::Facts;
use draft::Draft;
pub use draft::Row;
use fields::{Fields, python, text_of as lossy};
pub use transcript::{line_content, line_is_seen, line_is_users, read_transcript, spoken_lines};

/// Reads one entry into an empty body.
type ReadEntry = for<'py> fn(&mut Body, &Bound<'py, PyAny>) -> PyResult<Read<'py>>;

/// The result of reading one entry.
struct Read<'py> {
    role: Bound<'py, PyString>,
    only_results: bool,
    link: Link,
}

/// How a message hangs together with others, other than by its calls and answers.
#[derive(Clone, Copy, PartialEq)]
enum Link {
    None,
    /// It ends in a thought (Anthropic): the assistant's next message belongs to it.
    Thought,
    /// It calls (chat): answers without an id belong to the calls before them.
    Calls,
    /// The next message belongs to it (Bedrock), if it is the assistant's: user and assistant must alternate, and do so still
    /// when both go.
    Reply,
}

/// What was found out about a list in addition to its messages.
#[derive(Default)]
struct Notes {
    /// The index of the last entry with a summary that the provider itself wrote.
    state: Option<usize>,
    /// The indices of entries that always stay.
    bound: BTreeSet<usize>,
    unknown: Option<Py<PyDict>>,
}

impl Notes {
    /// Note what was found in an entry. What nobody can read may be state too.
    fn take(&mut self, py: Python<'_>, body: &mut Body) -> PyResult<()> {
        if body.has_state {
            self.state = Some(body.index);
        }
        if body.has_unread {
            self.bound.insert(body.index);
        }
        for name in body.unknown.drain(..) {
            let unknown = self.unknown.get_or_insert_with(|| PyDict::new(py).unbind()).bind(py);
            let count: usize = unknown.get_item(&name)?.map_or(Ok(0), |count| count.extract())?;
            unknown.set_item(name, count + 1)?;
        }
        Ok(())
    }

    /// The facts of the list; the provider ignores all before its last summary.
    fn facts(mut self, format: &str) -> Facts {
        self.bound.extend(self.state);
        let bound = self.bound.into_iter().collect();
        Facts { format: format.to_owned(), bound, unknown: self.unknown, ..Facts::default() }
    }
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

/// Read a list of entries in the format `anthropic`, `bedrock`, `openai_chat` or `plain`.
#[pyfunction]
pub fn read_entries(format: &str, entries: &Bound<'_, PyAny>) -> PyResult<Conversation> {
    let (read, linked): (ReadEntry, Link) = match format {
        "anthropic" => (anthropic::read_message, Link::Thought),
        "bedrock" => (bedrock::read_message, Link::Reply),
        "openai_chat" => (chat::read_message, Link::Calls),
        "plain" => (chat::read_plain, Link::None),
        _ => return Err(PyValueError::new_err(format!("no reader of {format}"))),
    };
    let py = entries.py();
    let mut draft = Draft::with_capacity(entries.len().unwrap_or(0));
    let (mut body, mut notes) = (Body::default(), Notes::default());
    let mut links = Vec::new();
    let mut open: Option<usize> = None; // the thought, or the calls, that the next message may belong to
    let mut before = Before::default();
    for (index, entry) in entries.try_iter()?.enumerate() {
        body.begin(index);
        let Read { mut role, only_results, link } = read(&mut body, &entry?)?;
        let is_users = lossy(&role) == "user";
        if only_results && is_users {
            role = interned!(py, "tool").clone();
        }
        notes.take(py, &mut body)?;
        draft.close(&mut body, &role, is_users && !only_results)?;
        let role = lossy(&role);
        if matches!(linked, Link::Thought | Link::Reply) && before.joins(&role) {
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
            Link::Reply => {
                links.extend(open.map(|reply| (reply, index)));
                open = (role == "assistant").then_some(index);
            }
            Link::Thought | Link::None => {}
        }
    }
    let mut read = Conversation::of(Columns::group(draft, &links), notes.facts(format));
    let is_claudes = matches!(format, "anthropic" | "bedrock");
    read.facts.user_first = is_claudes || (format == "plain" && read.begins_with_user());
    if is_claudes {
        read.bind_opening_thought(entries)?;
    }
    Ok(read)
}

/// The path of each text of an entry in the format `bedrock`, `openai_chat` or `plain`; None where it must not change.
#[pyfunction]
pub fn read_places(format: &str, entry: &Bound<'_, PyAny>, index: usize) -> PyResult<Vec<Option<Py<PyTuple>>>> {
    let mut body = Body::new(index, true);
    match format {
        "bedrock" => bedrock::read_message(&mut body, entry)?,
        "openai_chat" => chat::read_message(&mut body, entry)?,
        "plain" => chat::read_plain(&mut body, entry)?,
        _ => return Err(PyValueError::new_err(format!("no reader of places in {format}"))),
    };
    Ok(body.places.unwrap_or_default())
}

/// The role of an entry, by its usual name.
fn role_of<'py>(entry: Fields<'_, 'py>, index: usize) -> PyResult<Bound<'py, PyString>> {
    let py = entry.as_any().py();
    if let Some(role) = entry.text(interned!(py, "role"))?
        && role.is_exact_instance_of::<PyString>()
        && !role.is_empty()?
    {
        return Ok(match role.to_str() {
            Ok("developer") => interned!(py, "system").clone(),
            Ok("function" | "tool_result") => interned!(py, "tool").clone(),
            _ => role,
        });
    }
    Ok(python(py, "as_role", (entry.as_any(), index))?.cast_into()?)
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
