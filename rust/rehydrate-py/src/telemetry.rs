//! The attributes of OpenTelemetry's spans, made from the events of a turn: those of the conventions for generative AI,
//! and our own, which begin with `rehydrate.`.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::exit::Running;
use crate::reading::text_of;
use crate::writing::dict;

type Any<'py> = Bound<'py, PyAny>;
/// Attributes, each with the field of an event that it is.
type Table = [(&'static str, &'static str)];

const CONVERSATION: &Table = &[("gen_ai.request.model", "model"), ("gen_ai.conversation.id", "thread")];
const PROMPT: &Table = &[
    ("rehydrate.step", "step"),
    ("rehydrate.prompt.tokens", "tokens"),
    ("rehydrate.prompt.upper_bound_tokens", "upper_bound_tokens"),
    ("rehydrate.prompt.shared_tokens", "shared_tokens"),
    ("rehydrate.prompt.sections", "sections"),
    ("rehydrate.prefix.kept", "is_prefix_kept"),
];
const REPLY: &Table = &[
    ("gen_ai.response.model", "model"),
    ("gen_ai.response.id", "response_id"),
    ("rehydrate.calls", "calls"),
    ("rehydrate.dollars", "dollars"),
];
const CALL: &Table = &[("gen_ai.tool.name", "tool"), ("gen_ai.tool.call.id", "call_id")];
const CONTEXT: &Table = &[
    ("gen_ai.tool.name", "tool"),
    ("gen_ai.tool.call.id", "call_id"),
    ("rehydrate.request.scope", "scope"),
    ("rehydrate.request.sections", "found"),
    ("rehydrate.request.tokens", "tokens"),
    ("rehydrate.request.remaining", "remaining"),
];
const TURN: &Table =
    &[("rehydrate.stopped", "stopped"), ("rehydrate.steps", "steps"), ("rehydrate.dollars", "dollars")];

/// The attributes that an event gives a span. No texts of the user, the model or a tool are in them.
#[pyfunction]
pub fn span_attributes<'py>(event: &Any<'py>) -> PyResult<Bound<'py, PyDict>> {
    let _running = Running::begin();
    let of = |table| fields(event, table);
    let made = match name(event)?.as_ref() {
        "turn_started" => {
            let made = of(CONVERSATION)?;
            made.set_item("gen_ai.provider.name", provider_name(event.getattr("provider")?.cast()?))?;
            made
        }
        "prompt_built" => {
            let made = of(PROMPT)?;
            made.set_item("rehydrate.prompt.seconds", event.getattr("elapsed_ms")?.extract::<f64>()? / 1e3)?;
            made
        }
        "model_replied" => {
            let made = of(REPLY)?;
            made.set_item("gen_ai.response.finish_reasons", [finish_reason(event)?])?;
            made
        }
        "tool_started" => {
            let made = of(CALL)?;
            made.set_item("gen_ai.tool.type", "function")?;
            made
        }
        "tool_ended" => of(&[("rehydrate.result.chars", "chars")])?,
        "context_requested" => {
            let made = of(CONTEXT)?;
            made.set_item("gen_ai.tool.type", "datastore")?;
            made
        }
        "turn_ended" => {
            let turn = event.getattr("turn")?;
            let made = fields(&turn, TURN)?;
            // Without the cache's: those of a turn would be sums over models.
            let usage = turn.getattr("usage")?;
            made.set_item("gen_ai.usage.input_tokens", usage.getattr("input")?)?;
            made.set_item("gen_ai.usage.output_tokens", usage.getattr("output")?)?;
            made
        }
        _ => PyDict::new(event.py()),
    };
    Ok(made)
}

/// The texts that an event gives a span, as the conventions have them.
#[pyfunction]
pub fn span_texts<'py>(event: &Any<'py>) -> PyResult<Bound<'py, PyDict>> {
    let _running = Running::begin();
    let py = event.py();
    let text_part = |text: Any<'py>| PyResult::Ok(dict!(py, "type": "text", "content": text));
    let summaries = |field: &str| {
        let texts = event.getattr(field)?.extract::<Vec<Any<'py>>>()?;
        let parts = texts.into_iter().map(|text| match text.is_truthy()? {
            true => PyResult::Ok(dict!(py, "type": "compaction", "content": text)),
            false => Ok(dict!(py, "type": "compaction")), // encrypted
        });
        parts.collect::<PyResult<Vec<_>>>()
    };
    let message = |role: &str, parts: Vec<Bound<'py, PyDict>>| PyResult::Ok(dict!(py, "role": role, "parts": parts));
    let texts = PyDict::new(py);
    let add = |name: &str, value: Any<'py>| {
        texts.set_item(name, py.import("rehydrate._text")?.getattr("result_text")?.call1((value,))?)
    };
    let list = |messages: Vec<Bound<'py, PyDict>>| messages.into_pyobject(py);
    match name(event)?.as_ref() {
        "turn_started" => {
            let query = event.getattr("query")?;
            if !query.is_none() {
                add("gen_ai.input.messages", list(vec![message("user", vec![text_part(query)?])?])?)?;
            }
        }
        "prompt_built" => {
            let mut messages = Vec::new();
            for (role, field) in [("assistant", "provider_summaries"), ("user", "summaries")] {
                let parts = summaries(field)?;
                if !parts.is_empty() {
                    messages.push(message(role, parts)?);
                }
            }
            if !messages.is_empty() {
                add("gen_ai.input.messages", list(messages)?)?;
            }
        }
        "model_replied" => {
            let mut parts = summaries("provider_summaries")?;
            parts.push(text_part(event.getattr("text")?)?);
            let message = message("assistant", parts)?;
            message.set_item("finish_reason", finish_reason(event)?)?;
            add("gen_ai.output.messages", list(vec![message])?)?;
        }
        "turn_ended" => {
            let parts = vec![text_part(event.getattr("turn")?.getattr("answer")?)?];
            add("gen_ai.output.messages", list(vec![message("assistant", parts)?])?)?;
        }
        "tool_started" => add("gen_ai.tool.call.arguments", event.getattr("arguments")?)?,
        "tool_ended" => add("gen_ai.tool.call.result", event.getattr("result")?)?,
        "context_requested" => add("gen_ai.retrieval.query.text", event.getattr("query")?)?,
        _ => {}
    }
    Ok(texts)
}

/// The attributes for the usage of a request or a turn.
#[pyfunction]
pub fn usage_attributes<'py>(usage: &Any<'py>) -> PyResult<Bound<'py, PyDict>> {
    let _running = Running::begin();
    let written = usage.getattr("written")?.add(usage.getattr("written_1h")?)?;
    Ok(dict!(usage.py(),
        "gen_ai.usage.input_tokens": usage.getattr("input")?,
        "gen_ai.usage.output_tokens": usage.getattr("output")?,
        "gen_ai.usage.cache_read.input_tokens": usage.getattr("read")?,
        "gen_ai.usage.cache_write.input_tokens": written,
    ))
}

/// A provider's name in the conventions.
#[pyfunction]
pub fn provider_name<'py>(provider: &Bound<'py, PyString>) -> Bound<'py, PyString> {
    let name = match text_of(provider).as_ref() {
        "openai_chat" | "openai_responses" => "openai",
        "gemini" => "gcp.gemini",
        "bedrock" => "aws.bedrock",
        _ => return provider.clone(),
    };
    PyString::new(provider.py(), name)
}

fn name(event: &Any<'_>) -> PyResult<String> {
    event.getattr("name")?.extract()
}

fn finish_reason<'py>(reply: &Any<'py>) -> PyResult<Any<'py>> {
    let stop = reply.getattr("stop")?;
    let reason = match text_of(stop.cast()?).as_ref() {
        "answer" => "stop",
        "calls" => "tool_call",
        "refusal" => "content_filter",
        _ => return Ok(stop.clone()),
    };
    Ok(PyString::new(reply.py(), reason).into_any())
}

/// The fields of a record as attributes, without None and empty texts.
fn fields<'py>(record: &Any<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let made = PyDict::new(record.py());
    for (attribute, field) in table {
        let value = record.getattr(*field)?;
        if !value.is_none() && !value.eq("")? {
            made.set_item(attribute, value)?;
        }
    }
    Ok(made)
}
