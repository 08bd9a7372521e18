//! Anthropic's parallel calls. The results are divided too: all results of a message are in the user's next one.
use pyo3::prelude::*;
use pyo3::types::PyList;
use rehydrate_core::conversation::Role;

use super::groups::{Group, Part, all_are, by_call, id_in, is_block, is_by, own_calls, pairs, with_field};
use crate::interned::interned;
use crate::reading::{Columns, Fields, is_list, is_signed};

/// The groups of messages whose calls may be parted.
pub fn groups<'py>(entries: &[Bound<'py, PyAny>], of: &Columns) -> PyResult<Vec<Group<'py>>> {
    let Some(last) = of.last_by(Role::Assistant) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for index in of.indices_with_calls(2).filter(|index| index + 1 < last) {
        found.extend(group(entries, index)?);
    }
    Ok(found)
}

fn group<'py>(entries: &[Bound<'py, PyAny>], index: usize) -> PyResult<Option<Group<'py>>> {
    let (entry, answer) = (&entries[index], &entries[index + 1]);
    let key = interned!(entry.py(), "content");
    let follows = index > 0 && is_by(&entries[index - 1], "assistant")?;
    if follows || !is_by(entry, "assistant")? || !is_by(answer, "user")? {
        return Ok(None);
    }
    let (Some(content), Some(blocks)) = (content_of(entry)?, blocks_of(entry)?) else { return Ok(None) };
    let (Some(calls), Some(results)) = (own_calls(&blocks)?, blocks_of(answer)?) else { return Ok(None) };
    let is_call = blocks.iter().map(|block| is_block(block, &["tool_use"])).collect::<PyResult<Vec<_>>>()?;
    let runs = by_call(is_call);
    let is_plain = all_are(&blocks, &["tool_use", "text"])? && all_are(&results, &["tool_result"])?;
    if runs.len() < 2 || !is_plain || is_signed(&content)? {
        return Ok(None);
    }
    let answers =
        results.iter().enumerate().map(|(at, block)| Ok((id_in(block, interned!(entry.py(), "tool_use_id"))?, at)));
    let Some(places) = pairs(&calls, answers)? else { return Ok(None) };
    let mut parts = Vec::with_capacity(2 * calls.len());
    for (run, place) in runs.into_iter().zip(places) {
        let own = PyList::new(entry.py(), run.iter().map(|&at| &blocks[at]))?;
        let result = PyList::new(entry.py(), [&results[place]])?;
        let said = with_field(entry, key, own.as_any())?.into_any();
        let result = with_field(answer, key, result.as_any())?.into_any();
        parts.push(Part { origin: index, entry: said, blocks: run });
        parts.push(Part { origin: index + 1, entry: result, blocks: vec![place] });
    }
    Ok(Some(Group { start: index, end: index + 2, parts }))
}

fn content_of<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    Fields::of(entry).map_or(Ok(None), |fields| fields.get(interned!(entry.py(), "content")))
}

/// The blocks of a message's content; None if it isn't a list.
fn blocks_of<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    let content = content_of(entry)?.filter(is_list);
    content.map(|content| content.try_iter()?.collect()).transpose()
}
