//! The AI SDK's messages, as the rules read them.
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::rules::Name;
use rehydrate_core::rules::ai_sdk::{Content, Message, Part};

use super::super::ai_sdk::{Call, Is, State, part_is};
use super::super::fields::{Fields, is_list, listed, text_of};
use super::super::speaker_of;
use super::{name_of, named, role_of};
use crate::interned::interned;

/// The messages of a list, which was read without an error.
pub fn messages(entries: &Bound<'_, PyAny>, is_ui: bool) -> PyResult<Vec<Message>> {
    let read = |(index, raw): (usize, PyResult<Bound<'_, PyAny>>)| {
        let raw = raw?;
        let (entry, py) = (Fields::needed(&raw, index, String::new)?, raw.py());
        let parts = entry.get(if is_ui { interned!(py, "parts") } else { interned!(py, "content") })?;
        let content = match parts {
            Some(parts) if is_list(&parts) => {
                let mut found = Vec::new();
                for part in listed(Some(&parts))? {
                    add_part(&part, is_ui, &mut found)?;
                }
                Content::Parts(found)
            }
            Some(_) => Content::Text,
            None if is_ui && entry.get(interned!(py, "content"))?.is_some() => Content::Text,
            None => Content::Null,
        };
        Ok(Message { index, role: role_of(&speaker_of(entry, index)?)?, content, is_ui })
    };
    entries.try_iter()?.enumerate().map(read).collect()
}

fn add_part(value: &Bound<'_, PyAny>, is_ui: bool, found: &mut Vec<Part>) -> PyResult<()> {
    let Some(part) = Fields::of(value) else {
        found.push(Part::Text);
        return Ok(());
    };
    let py = value.py();
    let kind = part.kind()?;
    let shown = |kind: &str| -> Name { kind.as_bytes().to_vec() };
    let (id, approval) = (named(part, interned!(py, "toolCallId"))?, named(part, interned!(py, "approvalId"))?);
    let has_name = part.text(interned!(py, "toolName"))?.is_some_and(|name| !name.is_empty().unwrap_or(true));
    let last = match part_is(&kind.name(), is_ui) {
        Is::Call => Part::Call { id, has_name, is_settled: Call::of(part, false)?.by_provider },
        Is::Result => {
            if let Some(what) = unknown_output(part)? {
                found.push(Part::Unknown(what));
            }
            Part::Result { id, has_name }
        }
        Is::Tool => {
            let call = Call::of(part, true)?;
            let is_answered = call.is_answered();
            if call.state == State::Unknown {
                found.push(Part::Unknown(named(part, interned!(py, "state"))?.unwrap_or_else(|| shown("state"))));
            }
            if call.state == State::Streaming {
                return Ok(());
            }
            let is_settled = is_answered || call.by_provider || call.state == State::Responded;
            let has_name = kind.name() != "dynamic-tool" || has_name;
            found.push(Part::Call { id: id.clone(), has_name, is_settled });
            if !is_answered || id.is_none() {
                return Ok(());
            }
            Part::Result { id, has_name: true }
        }
        Is::Approval if kind.name().ends_with("request") => Part::Request { approval, call: id },
        Is::Approval => Part::Response { approval },
        Is::Other => Part::Unknown(shown(&kind.name())),
        _ => Part::Of(shown(&kind.name())),
    };
    found.push(last);
    Ok(())
}

/// The type of an AI SDK output, if it is unknown.
fn unknown_output(part: Fields<'_, '_>) -> PyResult<Option<Name>> {
    const KNOWN: [&str; 6] = ["text", "json", "error-text", "error-json", "content", "execution-denied"];
    let py = part.as_any().py();
    let output = part.get(interned!(py, "output"))?;
    let kind = match output.as_ref().and_then(Fields::of) {
        Some(output) => output.kind()?.0,
        None => None,
    };
    match kind {
        Some(kind) if KNOWN.contains(&text_of(&kind).as_ref()) => Ok(None),
        Some(kind) => name_of(kind).map(Some),
        None => name_of(PyString::new(py, "output without a type")).map(Some),
    }
}
