//! The result of a format's finder of parallel calls, and the tests that all finders make of entries and blocks.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::interned::interned;
use crate::reading::{Fields, Id, program_of};

/// An entry of the parted list.
pub struct Part<'py> {
    /// The index of its message in the caller's list.
    pub origin: usize,
    pub entry: Bound<'py, PyAny>,
    /// The positions, in the whole message, of its blocks or calls. Empty for all.
    pub blocks: Vec<usize>,
}

impl<'py> Part<'py> {
    pub fn whole(origin: usize, entry: Bound<'py, PyAny>) -> Self {
        Self { origin, entry, blocks: Vec::new() }
    }
}

/// The parts that are put in place of the entries from `start` up to `end`.
pub struct Group<'py> {
    pub start: usize,
    pub end: usize,
    pub parts: Vec<Part<'py>>,
}

/// The ids of calls, as they are compared.
pub type Ids = Vec<Vec<u8>>;

/// The positions that go with each call: the text before it, and after the last.
pub fn by_call(has_call: impl IntoIterator<Item = bool>) -> Vec<Vec<usize>> {
    let mut runs = vec![Vec::new()];
    for (position, is_call) in has_call.into_iter().enumerate() {
        if let Some(run) = runs.last_mut() {
            run.push(position);
        }
        if is_call {
            runs.push(Vec::new());
        }
    }
    let rest = runs.pop().unwrap_or_default();
    if let Some(run) = runs.last_mut() {
        run.extend(rest);
    }
    runs
}

/// A copy of a mapping, as a dict, with another value in a field.
pub fn with_field<'py>(
    entry: &Bound<'py, PyAny>,
    key: &Bound<'py, PyString>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let copy = match entry.cast_exact::<PyDict>() {
        Ok(dict) => dict.copy()?,
        Err(_) => {
            let copy = PyDict::new(entry.py());
            copy.call_method1("update", (entry,))?;
            copy
        }
    };
    copy.set_item(key, value)?;
    Ok(copy)
}

/// The id under a key, for comparisons. None for anything but a string.
pub fn id_in<'py>(block: &Bound<'py, PyAny>, key: &Bound<'py, PyString>) -> PyResult<Option<Vec<u8>>> {
    let id = Fields::of(block).map_or(Ok(None), |fields| fields.text(key))?;
    id.map(|id| Ok(Id::of(id)?.as_bytes().to_vec())).transpose()
}

/// Whether the string under a key is this one.
pub fn says(entry: &Bound<'_, PyAny>, key: &Bound<'_, PyString>, text: &str) -> PyResult<bool> {
    let found = Fields::of(entry).map_or(Ok(None), |fields| fields.text(key))?;
    Ok(found.is_some_and(|found| found.to_str().is_ok_and(|found| found == text)))
}

/// Whether an entry's role is this one.
pub fn is_by(entry: &Bound<'_, PyAny>, role: &str) -> PyResult<bool> {
    says(entry, interned!(entry.py(), "role"), role)
}

/// Whether a block is of one of these types.
pub fn is_block(block: &Bound<'_, PyAny>, kinds: &[&str]) -> PyResult<bool> {
    Ok(match Fields::of(block) {
        Some(fields) => kinds.contains(&&*fields.kind()?.name()),
        None => false,
    })
}

/// Whether all blocks are of these types.
pub fn all_are(blocks: &[Bound<'_, PyAny>], kinds: &[&str]) -> PyResult<bool> {
    blocks.iter().try_fold(true, |all, block| Ok(all && is_block(block, kinds)?))
}

/// The ids of Anthropic's calls among these blocks, all of which the client runs. None if one is not, or has no id of
/// its own.
pub fn own_calls(blocks: &[Bound<'_, PyAny>]) -> PyResult<Option<Ids>> {
    let mut calls = Ids::new();
    for block in blocks {
        let Some(fields) = Fields::of(block) else { continue };
        let kind = fields.kind()?;
        let kind = kind.name();
        if kind != "tool_use" {
            if kind.ends_with("_tool_use") {
                return Ok(None);
            }
            continue;
        }
        match id_in(block, interned!(block.py(), "id"))? {
            Some(id) if program_of(fields)?.is_none() => calls.push(id),
            _ => return Ok(None),
        }
    }
    Ok(distinct(calls))
}

/// The ids, if there are no two alike.
pub fn distinct(ids: Ids) -> Option<Ids> {
    let different: FxHashSet<&Vec<u8>> = ids.iter().collect();
    (different.len() == ids.len()).then_some(ids)
}

/// The position of each id, if these are the ids of the calls, one each.
pub fn pairs(
    calls: &Ids,
    answers: impl Iterator<Item = PyResult<(Option<Vec<u8>>, usize)>>,
) -> PyResult<Option<Vec<usize>>> {
    let (mut place, mut count) = (FxHashMap::default(), 0);
    for answer in answers {
        let (id, at) = answer?;
        count += 1;
        let Some(id) = id else { return Ok(None) };
        place.insert(id, at);
    }
    if count != calls.len() || place.len() != count {
        return Ok(None);
    }
    Ok(calls.iter().map(|call| place.get(call).copied()).collect())
}
