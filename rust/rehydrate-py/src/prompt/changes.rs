//! The changes from one prompt to another.
use std::collections::BTreeSet;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use rehydrate_core::reports::moved;
use rustc_hash::FxHashMap;

use super::say;
use crate::convert::NamedTuple;
use crate::exit::Running;
use crate::interned::interned;
use crate::layout::history::{History, Tokens};

/// Changes of one kind of parts, as `Change`s.
type Changes<'py> = Vec<Bound<'py, PyAny>>;

/// The changes of sections, of tools and of entries, and the fields of the request that differ.
#[pyfunction]
pub fn prompt_changes<'py>(
    before: &Bound<'py, PyAny>,
    after: &Bound<'py, PyAny>,
) -> PyResult<(Changes<'py>, Changes<'py>, Changes<'py>, Vec<Bound<'py, PyAny>>)> {
    let _running = Running::begin();
    let py = before.py();
    let change = NamedTuple::of(py, "rehydrate.prompt.reports", "Change")?;
    let [was, now] = [before, after].map(Parts::sections_of);
    let sections = changes(&change, &was?, &now?)?;
    let [was, now] = [before, after].map(Parts::tools_of);
    let tools = changes(&change, &was?, &now?)?;
    let name = interned!(py, "history");
    let (was, now) = (History::of(before.getattr(name)?)?, History::of(after.getattr(name)?)?);
    let request = interned!(py, "request");
    let differing = differing(&before.getattr(request)?, &after.getattr(request)?)?;
    Ok((sections, tools, entries(&change, &was, &now)?, differing))
}

/// Sections or tools, by their ids.
struct Parts<'py>(Bound<'py, PyDict>);

impl<'py> Parts<'py> {
    fn sections_of(ir: &Bound<'py, PyAny>) -> PyResult<Self> {
        let parts = PyDict::new(ir.py());
        for name in ["sections", "late_bound"] {
            for section in ir.getattr(name)?.try_iter()? {
                let section = section?;
                parts.set_item(section.getattr(interned!(ir.py(), "id"))?, section)?;
            }
        }
        Ok(Self(parts))
    }

    fn tools_of(ir: &Bound<'py, PyAny>) -> PyResult<Self> {
        let (py, parts) = (ir.py(), PyDict::new(ir.py()));
        for tool in ir.getattr("tools")?.try_iter()? {
            let tool = tool?;
            parts.set_item(say(py, "tools.{}", (tool.getattr(interned!(py, "name"))?,))?, tool)?;
        }
        Ok(Self(parts))
    }
}

/// A change of a part: its id, the kind, the tokens before and after, and the fields that differ.
fn made<'py>(
    change: &NamedTuple<'py>,
    id: &Bound<'py, PyAny>,
    kind: &str,
    before: Tokens,
    after: Tokens,
    fields: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = id.py();
    change.make([
        id.clone(),
        PyString::new(py, kind).into_any(),
        before.into_pyobject(py)?.into_any(),
        after.into_pyobject(py)?.into_any(),
        PyTuple::new(py, fields)?.into_any(),
    ])
}

/// The changes: what was removed, then what was added, changed or moved, in its order now.
fn changes<'py>(change: &NamedTuple<'py>, was: &Parts<'py>, now: &Parts<'py>) -> PyResult<Changes<'py>> {
    let tokens_of = |part: &Bound<'py, PyAny>| -> PyResult<Tokens> {
        Ok(part.getattr(interned!(part.py(), "tokens"))?.extract::<Option<Tokens>>()?.unwrap_or_default())
    };
    let places = PyDict::new(now.0.py());
    let mut found = Vec::new();
    for (place, (id, part)) in was.0.iter().enumerate() {
        places.set_item(&id, place)?;
        if !now.0.contains(&id)? {
            found.push(made(change, &id, "removed", tokens_of(&part)?, 0, Vec::new())?);
        }
    }
    let mut common: Vec<usize> = Vec::new();
    for id in now.0.keys() {
        common.extend(places.get_item(id)?.map(|place| place.extract::<usize>()).transpose()?);
    }
    let mut has_moved = moved(&common).into_iter();
    for (id, part) in now.0.iter() {
        let tokens = tokens_of(&part)?;
        let Some(old) = was.0.get_item(&id)? else {
            found.push(made(change, &id, "added", 0, tokens, Vec::new())?);
            continue;
        };
        let before = tokens_of(&old)?;
        let fields = differing(&old, &part)?;
        if !fields.is_empty() {
            found.push(made(change, &id, "changed", before, tokens, fields)?);
        }
        if has_moved.next() == Some(true) {
            found.push(made(change, &id, "moved", before, tokens, Vec::new())?);
        }
    }
    Ok(found)
}

/// The names of the fields that differ between two values of one dataclass.
fn differing<'py>(one: &Bound<'py, PyAny>, other: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = one.py();
    let mut names = Vec::new();
    for field in one.getattr(interned!(py, "__dataclass_fields__"))?.cast::<PyDict>()?.values() {
        let name: Bound<'py, PyString> = field.getattr(interned!(py, "name"))?.cast_into()?;
        let is_compared = field.getattr(interned!(py, "compare"))?.is_truthy()?;
        if is_compared && one.getattr(&name)?.ne(other.getattr(&name)?)? {
            names.push(name.into_any());
        }
    }
    Ok(names)
}

/// Compare the entries that have one index in the caller's list.
fn entries<'py>(change: &NamedTuple<'py>, before: &History<'py>, after: &History<'py>) -> PyResult<Changes<'py>> {
    let (was, now): (FxHashMap<_, _>, FxHashMap<_, _>) = (before.row_of_index()?, after.row_of_index()?);
    let tokens_of = |history: &History<'py>, row: usize| {
        if history.tokens.len() == history.entries.len() { history.tokens_of(row..row + 1) } else { Ok(0) }
    };
    let mut found = Vec::new();
    for index in was.keys().chain(now.keys()).copied().collect::<BTreeSet<_>>() {
        let (old, new) = (was.get(&index).copied(), now.get(&index).copied());
        let tokens = |history: &History<'py>, row: Option<usize>| row.map_or(Ok(0), |row| tokens_of(history, row));
        let (tokens_before, tokens_after) = (tokens(before, old)?, tokens(after, new)?);
        let kind = match (old, new) {
            (_, None) => "removed",
            (None, _) => "added",
            (Some(old), Some(new)) => {
                let (old, new) = (before.entries.get_item(old)?, after.entries.get_item(new)?);
                if old.is(&new) || !old.ne(&new)? {
                    continue;
                }
                "changed"
            }
        };
        found.push(made(change, &before.id_of(index)?, kind, tokens_before, tokens_after, Vec::new())?);
    }
    Ok(found)
}
