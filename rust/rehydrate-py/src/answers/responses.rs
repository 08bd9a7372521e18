//! Answers of OpenAI's Responses API, and of servers that speak it.
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Any, Joins, Said, get, is_type, items, joined, listed, name, nothing, set};
use crate::reading::json_value;
use crate::writing::dict;

/// A response, found in the events of its stream: the last one has it.
#[derive(Default)]
pub struct Response {
    items: Vec<Py<PyAny>>,
    response: Option<Py<PyAny>>,
}

impl Joins for Response {
    fn add<'py>(&mut self, event: &Any<'py>) -> PyResult<Any<'py>> {
        match name(event, "type")?.as_str() {
            "response.output_text.delta" => return Ok(event.get_item("delta")?.str()?.into_any()),
            "response.output_item.done" => self.items.push(event.get_item("item")?.unbind()),
            "error" => {
                let error = set(event, "error")?.unwrap_or_else(|| event.clone());
                self.response = Some(dict!(event.py(), "error": error).into_any().unbind());
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.response = Some(event.get_item("response")?.unbind());
            }
            _ => {}
        }
        Ok(nothing(event.py()))
    }

    fn body<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(response) = &self.response else { return Ok(None) };
        let body = super::copied(response.bind(py))?;
        if set(&body, "output")?.is_none() {
            body.set_item("output", &self.items)?; // some servers send items only as events
        }
        Ok(Some(body))
    }
}

pub fn read<'py>(body: &Any<'py>) -> PyResult<Said<'py>> {
    let output: Vec<_> = body.get_item("output")?.try_iter()?.collect::<PyResult<_>>()?;
    let (mut texts, mut refusals) = (Vec::new(), Vec::new());
    for item in &output {
        if is_type(item, "message")? {
            for part in listed(item, "content")? {
                texts.extend(set(&part, "text")?);
                refusals.extend(set(&part, "refusal")?);
            }
        }
    }
    let mut stop = if name(body, "status")? == "incomplete" { "length" } else { "answer" };
    let is_filtered = match set(body, "incomplete_details")? {
        Some(details) => name(&details, "reason")? == "content_filter",
        None => false,
    };
    if !refusals.is_empty() || (stop == "length" && is_filtered) {
        stop = "refusal";
    }
    let text = joined(body.py(), if texts.is_empty() { refusals } else { texts })?;
    let (mut entries, mut calls) = (Vec::new(), Vec::new());
    for item in resendable(output, stop)? {
        if is_type(&item, "function_call")? {
            calls.push(item.clone());
        }
        entries.push(item);
    }
    let (usage, model, id) = (get(body, "usage")?, get(body, "model")?, get(body, "id")?);
    Ok(Said { entries, text, calls, stop, usage, model, id })
}

/// The output items that the API accepts as input.
///
/// It drops fields that only answers have, calls that were cut off or refused, messages without content, and reasoning
/// at the end, which no item follows.
pub fn resendable<'py>(received: Vec<Any<'py>>, stop: &str) -> PyResult<Vec<Any<'py>>> {
    let mut kept: Vec<Any<'py>> = Vec::new();
    for item in received {
        let is_call = is_type(&item, "function_call")?;
        if is_call && (stop == "refusal" || (stop == "length" && !is_complete(&item)?)) {
            continue;
        }
        if is_type(&item, "message")? && set(&item, "content")?.is_none() {
            continue;
        }
        let fields = PyDict::new(item.py());
        for (key, value) in items(&item)? {
            if !value.is_none() && !key.eq("created_by")? {
                fields.set_item(key, value)?;
            }
        }
        if is_call && set(&fields, "arguments")?.is_none() {
            fields.set_item("arguments", "{}")?;
        }
        kept.push(fields.into_any());
    }
    while let Some(last) = kept.last() {
        if !is_type(last, "reasoning")? {
            break;
        }
        kept.pop();
    }
    Ok(kept)
}

/// Whether all of a call came.
fn is_complete(call: &Any<'_>) -> PyResult<bool> {
    if name(call, "status")? == "incomplete" {
        return Ok(false);
    }
    let arguments = set(call, "arguments")?.unwrap_or_else(|| nothing(call.py()));
    Ok(json_value(&arguments)?.is_some())
}
