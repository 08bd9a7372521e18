//! OpenAI chat's parallel calls. The text goes with the first call. Each tool message is an entry already.
use pyo3::prelude::*;
use pyo3::types::PyList;
use rehydrate_core::conversation::Role;

use super::groups::{Group, Ids, Part, distinct, id_in, is_by, pairs, with_field};
use crate::interned::interned;
use crate::reading::{Columns, Fields, is_list, is_signed, listed, program_of};

/// The keys of a chat message that is parted; any other must be empty.
const KEYS: [&str; 4] = ["role", "content", "name", "tool_calls"];

/// The groups of messages whose calls may be parted.
pub fn groups<'py>(entries: &[Bound<'py, PyAny>], of: &Columns) -> PyResult<Vec<Group<'py>>> {
    let Some(last) = of.last_by(Role::Assistant) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for index in of.indices_with_calls(2).filter(|&index| index < last) {
        found.extend(group(entries, index, last)?);
    }
    Ok(found)
}

fn group<'py>(entries: &[Bound<'py, PyAny>], index: usize, last: usize) -> PyResult<Option<Group<'py>>> {
    let entry = &entries[index];
    let (py, key) = (entry.py(), interned!(entry.py(), "tool_calls"));
    let Some(fields) = Fields::of(entry).filter(|_| is_by(entry, "assistant").unwrap_or(false)) else {
        return Ok(None);
    };
    let made = listed(fields.get(key)?.filter(is_list).as_ref())?;
    let end = index + 1 + made.len();
    if made.len() < 2 || end > last || has_more(fields)? {
        return Ok(None);
    }
    let Some(calls) = own_calls(fields, &made)? else { return Ok(None) };
    if is_signed(entry)? || is_by(&entries[end], "tool")? {
        return Ok(None);
    }
    let answers = (index + 1..end).map(|at| {
        let id = id_in(&entries[at], interned!(py, "tool_call_id"))?;
        Ok((id.filter(|_| is_by(&entries[at], "tool").unwrap_or(false)), at))
    });
    let Some(places) = pairs(&calls, answers)? else { return Ok(None) };
    let mut parts = Vec::with_capacity(2 * made.len());
    for (number, (call, place)) in made.iter().zip(places).enumerate() {
        let said = with_field(entry, key, PyList::new(py, [call])?.as_any())?;
        if number > 0 {
            said.set_item(interned!(py, "content"), py.None())?;
        }
        parts.push(Part { origin: index, entry: said.into_any(), blocks: vec![number] });
        parts.push(Part::whole(place, entries[place].clone()));
    }
    Ok(Some(Group { start: index, end, parts }))
}

/// Whether a message has more than the parts that can be separated.
fn has_more(fields: Fields<'_, '_>) -> PyResult<bool> {
    for (key, value) in fields.items()? {
        let is_known = key.extract::<&str>().is_ok_and(|key| KEYS.contains(&key));
        if !is_known && value.is_truthy()? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The ids of the calls, of functions and of custom tools. None if a call has no id of its own.
fn own_calls<'py>(fields: Fields<'_, 'py>, made: &[Bound<'py, PyAny>]) -> PyResult<Option<Ids>> {
    let py = fields.as_any().py();
    let content = listed(fields.get(interned!(py, "content"))?.as_ref())?;
    for block in content.iter().filter_map(Fields::of) {
        let kind = block.kind()?;
        if kind.name() == "tool_use" || kind.name().ends_with("_tool_use") {
            return Ok(None); // a call of Anthropic's
        }
    }
    if fields.get(interned!(py, "function_call"))?.is_some() {
        return Ok(None);
    }
    let mut calls = Ids::new();
    for call in made {
        let Some(of) = Fields::of(call) else { return Ok(None) };
        let is_mapping = |value: Option<Bound<'py, PyAny>>| value.filter(|value| Fields::of(value).is_some());
        let function = is_mapping(of.get(interned!(py, "function"))?);
        let custom = is_mapping(of.get(interned!(py, "custom"))?);
        let has_input = match (&function, &custom) {
            (Some(_), _) => true,
            (None, Some(custom)) => match Fields::of(custom) {
                Some(custom) => custom.text(interned!(py, "input"))?.is_some(),
                None => false,
            },
            (None, None) => false,
        };
        match id_in(call, interned!(py, "id"))? {
            Some(id) if has_input && program_of(of)?.is_none() => calls.push(id),
            _ => return Ok(None),
        }
    }
    Ok(distinct(calls))
}
