//! The checks that every entry point makes of a caller's list: that it is one, the name of its format, its entries and
//! their roles.
//!
//! Reading is lenient, so that a compaction never fails on a detail it can skip. The checks of entries and roles are
//! for entry points at which a wrong list would go on silently, and be refused or lost later.
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PySequence, PyString};
use rehydrate_core::conversation::Role;

use super::conversation::Conversation;
use super::detect::{NAMES, format_of, other_format};
use super::dicts::as_dicts;
use super::draft::role_named;
use super::fields::{Fields, is_list, listed, text_of};
use super::langchain::is_langchain_message;
use super::pairs::check_content;
use super::rules::broken_rules;
use super::{read_entries, usual_role};
use crate::errors::{is_no_message, raise};
use crate::exit::Running;
use crate::interned::interned;

const SPEAK_BY_NAME: &str = "name who speaks by one of these";

/// The format that a caller names. It may be any value, for the error that names it.
pub enum Wanted<'py> {
    Detected,
    Named(Bound<'py, PyAny>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Wanted<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let is_auto = value.cast::<PyString>().is_ok_and(|name| text_of(&name) == "auto");
        Ok(if is_auto { Self::Detected } else { Self::Named(value.to_owned()) })
    }
}

impl Wanted<'_> {
    /// The name of the format; raises UnknownFormatError.
    fn name_for(&self, entries: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        let Self::Named(value) = self else { return Ok(format_of(entries)?.0) };
        let known = value.cast::<PyString>().ok();
        let known = known.and_then(|name| NAMES.into_iter().find(|known| text_of(name) == *known));
        known.ok_or_else(|| raise(value.py(), "UnknownFormatError", (value, NAMES)))
    }
}

/// A list of messages, read, and its entries as dicts: the same sequence if it has no SDK object.
#[pyfunction]
#[pyo3(signature = (messages, format=Wanted::Detected))]
pub fn read<'py>(messages: &Bound<'py, PyAny>, format: Wanted<'py>) -> PyResult<(Conversation, Bound<'py, PyAny>)> {
    let _running = Running::begin();
    let py = messages.py();
    let entries = as_sequence(messages)?;
    let found = format.name_for(&entries).and_then(|name| read_entries(name, &entries));
    let error = match found {
        Ok(conversation) => return Ok((conversation, entries)),
        Err(error) => error,
    };
    if !is_no_message(py, &error)? {
        return Err(error);
    }
    // Without searching for objects first: most lists have none, and the search costs time.
    let dicts = as_dicts(&entries)?;
    if dicts.is(&entries) {
        return Err(error);
    }
    Ok((read_entries(format.name_for(&dicts)?, &dicts)?, dicts))
}

/// The name of the format that a caller names for entries. Raises UnknownFormatError.
#[pyfunction]
pub fn named_format(entries: &Bound<'_, PyAny>, format: Wanted<'_>) -> PyResult<&'static str> {
    let _running = Running::begin();
    format.name_for(entries)
}

/// The format of these messages. Raises InvalidMessageError for a plain list with an unknown role, or with calls that
/// no format can pair.
#[pyfunction]
pub fn detect_format(messages: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    let _running = Running::begin();
    let entries = as_dicts(&as_sequence(messages)?)?;
    let (found, _) = format_of(&entries)?;
    if found == "plain" {
        check_roles(&entries)?;
        broken_rules(found, &entries)?;
    }
    Ok(found)
}

/// The list of entries; raises InvalidMessageError for anything else.
#[pyfunction]
pub fn as_sequence<'py>(messages: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    let py = messages.py();
    if is_list(messages) {
        return Ok(messages.clone());
    }
    let is_text = messages.is_instance_of::<PyString>()
        || messages.is_instance_of::<PyBytes>()
        || messages.is_instance_of::<PyByteArray>();
    if !is_text && messages.cast::<PySequence>().is_ok() {
        return py.get_type::<PyList>().call1((messages,));
    }
    let remedy = match Fields::of(messages) {
        Some(request) if request.has(interned!(py, "messages"))? => "pass its 'messages'",
        Some(_) => "wrap it in a list",
        None if is_text => "parse it first, with json.loads for JSON, line by line for JSONL",
        None => "pass list(messages)",
    };
    Err(raise(py, "InvalidMessageError", (py.None(), "", messages, "a list of messages", remedy)))
}

/// The error of a value that isn't a mapping: it says how to convert it.
pub fn no_mapping(value: &Bound<'_, PyAny>, index: usize, part: &str) -> PyErr {
    let py = value.py();
    let remedy = match is_langchain_message(value) {
        Err(error) => return error,
        Ok(true) => "convert all with rehydrate.formats.langchain_to_openai, or none",
        Ok(false) if value.hasattr(interned!(py, "__dataclass_fields__")).unwrap_or(false) => {
            "convert it with dataclasses.asdict()"
        }
        Ok(false) if part.is_empty() && value.is_instance_of::<PyString>() => {
            "wrap it as {'role': 'user', 'content': ...}"
        }
        Ok(false) => "convert it to a dict or leave it out",
    };
    raise(py, "InvalidMessageError", (index, part, value, "a mapping", remedy))
}

/// The error of a value inside an entry that isn't a list.
pub fn no_list(value: &Bound<'_, PyAny>, index: usize, part: &str) -> PyErr {
    raise(value.py(), "InvalidMessageError", (index, part, value, "a list", "wrap it in a list or leave it out"))
}

/// The error of an entry without a role.
pub fn no_role(entry: Fields<'_, '_>, index: usize) -> PyErr {
    let py = entry.as_any().py();
    let raised = || {
        let has_role = entry.has(interned!(py, "role"))?;
        let is_stored = || PyResult::Ok(entry.get(interned!(py, "data"))?.as_ref().and_then(Fields::of).is_some());
        let remedy = if entry.has(interned!(py, "lc"))? || (!has_role && is_stored()?) {
            "LangChain's stored form? load it with langchain_core's load() or messages_from_dict(), and pass the messages \
             or their langchain_to_openai()"
        } else if !has_role && entry.has(interned!(py, "type"))? {
            "a transcript line or a Responses item among messages? pass nothing but such entries, or only messages"
        } else {
            "add the role of whoever speaks"
        };
        let expected = "a role: 'system', 'user', 'assistant' or 'tool'";
        let role = entry.get(interned!(py, "role"))?;
        PyResult::Ok(raise(py, "InvalidMessageError", (index, "role", role, expected, remedy)))
    };
    raised().unwrap_or_else(|error| error)
}

/// Raise InvalidMessageError for the first entry that only another format can hold, or with a role that the provider does not
/// know: it would be sent unchanged.
#[pyfunction]
pub fn check_own<'py>(entries: &Bound<'py, PyAny>, format: Wanted<'py>) -> PyResult<()> {
    let _running = Running::begin();
    let py = entries.py();
    let entries = as_dicts(entries)?;
    let name = format.name_for(&entries)?;
    for (index, entry) in entries.try_iter()?.enumerate() {
        let entry = entry?;
        if let Some(other) = other_format(&entry, name)? {
            let remedy = format!(
                "it is one of {other}: make the Context with format='{other}', which is converted for its provider, or add \
                 it in the provider's own shape"
            );
            let expected = format!("an entry of the format {name}");
            return Err(raise(py, "InvalidMessageError", (index, "", entry, expected, remedy)));
        }
        let Some(fields) = Fields::of(&entry) else { continue }; // its reader refuses it
        // The blocks of the others have no type, or are parts.
        if !matches!(name, "bedrock" | "gemini" | "ai_sdk_ui") {
            check_parts(fields, index)?;
        }
        let Some(role) = fields.get(interned!(py, "role"))? else { continue };
        let is_common = role
            .cast::<PyString>()
            .is_ok_and(|role| matches!(role_named(&text_of(role)), Role::System | Role::User | Role::Assistant));
        if is_common {
            continue;
        }
        for violation in broken_rules(name, PyList::new(py, [&entry])?.as_any())? {
            if violation.getattr(interned!(py, "rule"))?.eq("unknown_role")? {
                return Err(unknown_role(&role, index, SPEAK_BY_NAME));
            }
        }
    }
    Ok(())
}

/// Raise InvalidMessageError for the first entry with an unknown role.
fn check_roles(entries: &Bound<'_, PyAny>) -> PyResult<()> {
    for (index, entry) in entries.try_iter()?.enumerate() {
        let entry = entry?;
        let Some(fields) = Fields::of(&entry) else { continue };
        let Some(role) = fields.text(interned!(entry.py(), "role"))? else { continue };
        if role_named(&text_of(&usual_role(role.clone()))) == Role::Other {
            return Err(unknown_role(&role, index, SPEAK_BY_NAME));
        }
    }
    Ok(())
}

impl Conversation {
    /// Raise InvalidMessageError for the first message with an unknown role: it would belong to no turn and be dropped first.
    /// `weighted` holds the roles that a scoring adds to the usual ones.
    pub fn check_roles(&self, py: Python<'_>, weighted: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let is_unknown = |of: &super::draft::Named| {
            let is_weighted = |weighted: &Bound<'_, PyAny>| weighted.contains(&of.shown);
            PyResult::Ok(of.role == Role::Other && !weighted.map_or(Ok(false), is_weighted)?)
        };
        let unknown = self.columns.of.roles.iter().map(is_unknown).collect::<PyResult<Vec<_>>>()?;
        let Some(row) = self.all().iter().find(|row| unknown[row.role]) else { return Ok(()) };
        let remedy = match weighted {
            Some(_) => format!("{SPEAK_BY_NAME}, or give the role a weight in Scoring(structural={{...}})"),
            None => SPEAK_BY_NAME.into(),
        };
        Err(unknown_role(self.columns.of.roles[row.role].shown.bind(py), row.index, &remedy))
    }
}

/// The error of a role that no provider knows.
fn unknown_role(role: &Bound<'_, PyAny>, index: usize, remedy: &str) -> PyErr {
    let py = role.py();
    let name = role.cast::<PyString>().map(|role| text_of(role).to_lowercase()).unwrap_or_default();
    let meant = match name.as_str() {
        "system" | "user" | "assistant" | "tool" => name.as_str(),
        "human" => "user",
        "ai" | "bot" | "model" => "assistant",
        _ => "",
    };
    let remedy = if meant.is_empty() { remedy.to_owned() } else { format!("did you mean '{meant}'?") };
    // Long enough for a word that names a speaker. Anything longer is not repeated in a log.
    let shown = || {
        let shortened = py.import("reprlib")?.getattr("Repr")?.call0()?;
        shortened.setattr("maxstring", 14)?;
        shortened.call_method1("repr", (role,))?.extract::<String>()
    };
    match shown() {
        Ok(shown) => {
            let expected = format!("'system', 'user', 'assistant' or 'tool', not {shown}");
            raise(py, "InvalidMessageError", (index, "role", role, expected, remedy))
        }
        Err(error) => error,
    }
}

/// Raise InvalidMessageError for a part without a type.
fn check_parts(entry: Fields<'_, '_>, index: usize) -> PyResult<()> {
    let py = entry.as_any().py();
    let content = entry.get(interned!(py, "content"))?;
    check_content(entry, index, content.as_ref())?;
    let parts = listed(content.as_ref())?;
    for (number, part) in parts.iter().filter_map(Fields::of).enumerate() {
        if part.kind()?.name().is_empty() {
            let remedy = "name its type, as in {'type': 'text', 'text': ...}";
            let place = format!("content[{number}]");
            let values = (index, place, part.as_any(), "a part of a type", remedy);
            return Err(raise(py, "InvalidMessageError", values));
        }
    }
    Ok(())
}
