//! A session's steps: which of its messages belong together.
use std::collections::HashSet;
use std::ops::Range;

use pyo3::prelude::*;

use super::message::{Body, Value, payload};
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{Fields, string_of, text_of};

/// Group the indices of the messages into steps, so that no tool call is separate from its results.
///
/// A step starts at a message that answers no tool call and continues no earlier assistant message: transcripts write
/// one message as several entries with one id, results in between. Responses items stay together from a reasoning, or
/// the first of parallel calls, to the last result.
///
/// >>> from rehydrate.retention import steps
/// >>> call = {"role": "assistant", "tool_calls": []}
/// >>> steps([{"role": "user", "content": "Hi"}, call, {"role": "tool", "content": "42"}])
/// [range(0, 1), range(1, 3)]
#[pyfunction]
pub fn steps<'py>(messages: &Value<'py>) -> PyResult<Vec<Value<'py>>> {
    let _running = Running::begin();
    let range = messages.py().import("builtins")?.getattr("range")?;
    let messages: Vec<_> = messages.try_iter()?.collect::<PyResult<_>>()?;
    steps_of(&messages)?.into_iter().map(|step| range.call1((step.start, step.end))).collect()
}

pub fn steps_of(messages: &[Value<'_>]) -> PyResult<Vec<Range<usize>>> {
    let mut starts = Vec::new();
    let mut seen = HashSet::new();
    let mut open_items = HashSet::new(); // calls of Responses items without a result yet
    let mut follows_reasoning = false;
    for (index, message) in messages.iter().enumerate() {
        let body = Body::of(message)?;
        let is_call = body.is_call_item()?;
        let identity = if body.role()? == "assistant" { body.id("id")? } else { None };
        let continues = follows_reasoning
            || (is_call && !open_items.is_empty())
            || identity.as_ref().is_some_and(|identity| seen.contains(identity));
        if starts.is_empty() || !(continues || body.is_result()?) {
            starts.push(index);
            open_items.clear();
        }
        seen.extend(identity);
        follows_reasoning = body.is_reasoning()?;
        if is_call {
            open_items.insert(body.id("call_id")?);
        } else if body.is_result_item()? {
            open_items.remove(&body.id("call_id")?);
        }
    }
    let ends = starts.iter().skip(1).copied().chain([messages.len()]);
    Ok(starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect())
}

/// The number of messages. A transcript's entries with one id count once.
#[pyfunction]
pub fn count_messages(messages: &Value<'_>) -> PyResult<usize> {
    let _running = Running::begin();
    let mut ids = HashSet::new();
    for (index, message) in messages.try_iter()?.enumerate() {
        let body = payload(&message?)?;
        let id = Fields::needed(&body, index, String::new)?.get(interned!(body.py(), "id"))?;
        ids.insert(match id.filter(|id| id.is_truthy().unwrap_or(true)) {
            Some(id) => text_of(&string_of(&id)?).into_owned(),
            None => format!("#{index}"),
        });
    }
    Ok(ids.len())
}
