//! The parallel calls of OpenAI's Responses. Calls and outputs are items already. Each output is moved to its call.
//!
//! The API wants a reasoning item before the items that it led to, which it knows by their ids, and after it the item
//! that it led to (<https://community.openai.com/t/1236046>, /1355347). So a call after reasoning is only parted if no
//! item has an id, and the first call stays with the reasoning. Without reasoning there is no such rule.
use pyo3::prelude::*;

use super::groups::{Group, Ids, Part, by_call, distinct, id_in, pairs, says};
use crate::interned::interned;
use crate::reading::{Columns, Fields, program_of};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Call,
    Output,
    Said,
    Reasoning,
    /// A message of the client.
    Client,
    Other,
}

impl Kind {
    fn is_by_model(self) -> bool {
        matches!(self, Self::Call | Self::Said | Self::Reasoning)
    }

    fn of(item: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Some(fields) = Fields::of(item) else { return Ok(Self::Other) };
        let kind = fields.kind()?;
        Ok(match &*kind.name() {
            "function_call" | "custom_tool_call" if program_of(fields)?.is_none() => Self::Call,
            "function_call_output" | "custom_tool_call_output" => Self::Output,
            "reasoning" => Self::Reasoning,
            "" | "message" if fields.has(interned!(item.py(), "role"))? => {
                if says(item, interned!(item.py(), "role"), "assistant")? { Self::Said } else { Self::Client }
            }
            _ => Self::Other,
        })
    }
}

/// The groups of items whose calls may be parted.
pub fn groups<'py>(entries: &[Bound<'py, PyAny>], of: &Columns) -> PyResult<Vec<Group<'py>>> {
    let kinds = entries.iter().map(Kind::of).collect::<PyResult<Vec<_>>>()?;
    let by_model = |index: &usize| kinds.get(*index).is_some_and(|kind| kind.is_by_model());
    let last = of.of.rows.iter().rev().map(|row| row.index).find(by_model).unwrap_or(0);
    let (mut found, mut start) = (Vec::new(), 0);
    while start < last {
        let end = (start..last).find(|&at| !kinds[at].is_by_model()).unwrap_or(last);
        let until = (end..last).find(|&at| kinds[at] != Kind::Output).unwrap_or(last);
        let follows = start > 0 && !matches!(kinds[start - 1], Kind::Client | Kind::Output);
        if !follows {
            found.extend(group(entries, &kinds, start, end, until)?);
        }
        start = until.max(start + 1);
    }
    Ok(found)
}

/// The group of the model's items from `start` on and of the outputs from `end` on, up to `until`.
fn group<'py>(
    entries: &[Bound<'py, PyAny>],
    kinds: &[Kind],
    start: usize,
    end: usize,
    until: usize,
) -> PyResult<Option<Group<'py>>> {
    let Some(py) = entries.first().map(Bound::py) else { return Ok(None) };
    let key = interned!(py, "call_id");
    let mut calls = Ids::new();
    for at in (start..end).filter(|&at| kinds[at] == Kind::Call) {
        match id_in(&entries[at], key)? {
            Some(id) => calls.push(id),
            None => return Ok(None),
        }
    }
    let Some(calls) = distinct(calls).filter(|calls| calls.len() > 1) else { return Ok(None) };
    let outputs = (end..until).map(|at| Ok((id_in(&entries[at], key)?, at)));
    let Some(places) = pairs(&calls, outputs)? else { return Ok(None) };
    if kinds[start..end].contains(&Kind::Reasoning) {
        for at in (start..end).filter(|&at| kinds[at] != Kind::Reasoning) {
            if Fields::of(&entries[at]).map_or(Ok(false), |item| item.is_set(interned!(py, "id")))? {
                return Ok(None);
            }
        }
    }
    let runs = by_call(kinds[start..end].iter().map(|&kind| kind == Kind::Call));
    let mut parts = Vec::with_capacity(until - start);
    for (run, place) in runs.into_iter().zip(places) {
        let order = run.into_iter().map(|at| start + at).chain([place]);
        parts.extend(order.map(|index| Part::whole(index, entries[index].clone())));
    }
    Ok(Some(Group { start, end: until, parts }))
}
