//! The fields of entries that each API's rules read. `rehydrate_core::rules` finds the violations.
mod ai_sdk;
mod anthropic;
mod bedrock;
mod chat;
mod gemini;
mod prefix;
mod responses;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::rules::{self, Name, Role, Violation};

use super::draft::Speaker;
use super::fields::Fields;
use super::strings::{Id, of_bytes};
use super::{codex, numbered, read_entries};
use crate::exit::Running;
use crate::interned::interned;

pub use anthropic::{blocks_of, is_of_type, text_state};
pub use prefix::{entries_of, stale_thinking};

/// Every rule of the format's provider that a list of entries breaks, ordered by index.
#[pyfunction]
pub fn broken_rules<'py>(format: &str, entries: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let _running = Running::begin();
    let found = match format {
        "anthropic" => rules::anthropic::violations(&anthropic::messages(entries)?),
        "claude_code" => rules::anthropic::violations(&anthropic::merged(entries)?),
        "bedrock" => {
            read_entries(format, entries)?; // raises what the reader raises
            rules::bedrock::violations(&bedrock::messages(entries)?)
        }
        "gemini" => {
            read_entries(format, entries)?;
            rules::gemini::violations(&gemini::messages(entries)?)
        }
        "ai_sdk" | "ai_sdk_ui" => {
            read_entries(format, entries)?;
            rules::ai_sdk::violations(&ai_sdk::messages(entries, format == "ai_sdk_ui")?)
        }
        "openai_chat" => rules::openai_chat::violations(&chat::messages(entries)?),
        "openai_responses" => rules::openai_responses::violations(&responses::items(&numbered(entries)?)?),
        "codex" => rules::openai_responses::violations(&responses::items(&codex::items(entries)?.0)?),
        "langchain" => {
            let (sent, indices) = chat::sent_of_langchain(entries)?;
            let found = rules::openai_chat::violations(&sent).into_iter();
            found.map(|each| Violation { index: indices[each.index], ..each }).collect()
        }
        "plain" => rules::plain::violations(&chat::plain_messages(entries)?),
        _ => return Err(PyValueError::new_err(format!("no rules of {format}"))),
    };
    shown(entries.py(), &found)
}

fn shown<'py>(py: Python<'py>, found: &[Violation]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let class = py.import("rehydrate.errors")?.getattr("Violation")?;
    let show = |each: &Violation| class.call1((each.index, each.rule, of_bytes(py, &each.message)?));
    found.iter().map(show).collect()
}

/// A string as a name.
fn name_of(text: Bound<'_, PyString>) -> PyResult<Name> {
    Ok(Id::of(text)?.as_bytes().to_vec())
}

/// The string under a key, as a name.
fn named(entry: Fields<'_, '_>, key: &Bound<'_, PyString>) -> PyResult<Option<Name>> {
    entry.text(key)?.map(name_of).transpose()
}

/// A value as Python writes it into a text.
fn written(value: &Bound<'_, PyAny>) -> PyResult<Name> {
    name_of(value.call_method1("__format__", ("",))?.cast_into()?)
}

fn role_of(speaker: &Speaker<'_>) -> PyResult<Role> {
    Ok(match speaker.role {
        rehydrate_core::conversation::Role::System => Role::System,
        rehydrate_core::conversation::Role::User => Role::User,
        rehydrate_core::conversation::Role::Assistant => Role::Assistant,
        _ => Role::Other(name_of(speaker.shown.clone())?),
    })
}

/// The role of an entry as it is written.
fn written_role(entry: Fields<'_, '_>) -> PyResult<Name> {
    let role = entry.get(interned!(entry.as_any().py(), "role"))?;
    role.as_ref().map_or_else(|| Ok(Name::new()), written)
}
