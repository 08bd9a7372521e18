//! Contents of Gemini's, as the rules read them.
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use rehydrate_core::rules::Name;
use rehydrate_core::rules::gemini::{Is, Message, Pair, Part};

use super::super::fields::{Fields, string_of};
use super::super::gemini::{Data, Is as Holds, SIGNATURE, all_data, parts_of, speaker};
use super::{name_of, named, role_of};
use crate::interned::interned;

/// The contents of a list, which was read without an error.
pub fn messages(entries: &Bound<'_, PyAny>) -> PyResult<Vec<Message>> {
    let read = |(index, raw): (usize, PyResult<Bound<'_, PyAny>>)| {
        let raw = raw?;
        let entry = Fields::needed(&raw, index, String::new)?;
        let parts = parts_of(entry, index)?;
        Ok(Message {
            index,
            role: role_of(&speaker(entry, index)?)?,
            unknown_role: unknown_role(entry)?,
            has_string: parts.iter().any(|part| part.is_instance_of::<PyString>()),
            parts: parts.iter().map(part_of).collect::<PyResult<_>>()?,
        })
    };
    entries.try_iter()?.enumerate().map(read).collect()
}

/// The role, if Gemini doesn't have it.
fn unknown_role(entry: Fields<'_, '_>) -> PyResult<Option<Name>> {
    let role = named(entry, interned!(entry.as_any().py(), "role"))?;
    Ok(role.filter(|role| !matches!(&**role, b"user" | b"model" | b"function" | b"system")))
}

fn part_of(value: &Bound<'_, PyAny>) -> PyResult<Part> {
    let Some(part) = Fields::of(value) else { return Ok(Part::default()) };
    let data = all_data(part)?;
    // A transcript may be next to the speech.
    let others = data.iter().filter(|each| each.is != Holds::Transcript).count();
    let unknown_keys = if others == 1 || (others == 0 && data.len() == 1) { None } else { Some(keys_of(part)?) };
    let is = match data.first() {
        Some(Data { is: Holds::Text, value, .. }) => {
            let is_said = value.cast::<PyString>().is_ok_and(|text| !text.is_empty().unwrap_or(false));
            if is_said { Is::Other } else { Is::Empty }
        }
        Some(Data { is: is @ (Holds::Call | Holds::Response), value, .. }) => match Fields::of(value) {
            Some(of) => {
                let id = named(of, interned!(value.py(), "id"))?.filter(|id| !id.is_empty());
                let pair = Pair { id, name: named(of, interned!(value.py(), "name"))? };
                if *is == Holds::Call { Is::Call(pair) } else { Is::Response(pair) }
            }
            None => Is::Other,
        },
        _ => Is::Other,
    };
    Ok(Part { is, is_signed: SIGNATURE.value(part)?.is_some(), unknown_keys })
}

/// The first keys of a part, as Python shows a list of them.
fn keys_of(part: Fields<'_, '_>) -> PyResult<Name> {
    let keys = part.items()?.into_iter().filter(|(_, value)| !value.is_none()).map(|(key, _)| string_of(&key));
    let keys = PyList::new(part.as_any().py(), keys.collect::<PyResult<Vec<_>>>()?)?;
    keys.sort()?;
    name_of(keys.get_slice(0, 5).repr()?)
}
