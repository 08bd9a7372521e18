//! Answers of Amazon Bedrock's Converse.
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::{
    Any, Blocks, Joins, Said, copied, get, is_blank, items, joined, listed, name, nothing, number_of, set, shown,
    unreadable,
};
use crate::writing::dict;

/// Blocks of an answer that Converse does not accept from the assistant, or that boto3 does not know.
const UNSENDABLE: [&str; 5] = ["image", "video", "audio", "document", "SDK_UNKNOWN_MEMBER"];

/// An answer, joined of events.
pub struct Converse {
    head: Py<PyDict>,
    blocks: Blocks,
}

impl Converse {
    pub fn begin(py: Python<'_>) -> Self {
        Self { head: PyDict::new(py).unbind(), blocks: Blocks::default() }
    }

    fn block<'py>(&self, py: Python<'py>, index: i64, block: &Py<PyDict>) -> PyResult<Any<'py>> {
        let block = block.bind(py).copy()?;
        if let Some(citations) = set(&block, "citations")? {
            let text = get(&block, "text")?.unwrap_or_else(|| nothing(py));
            block.del_item("citations")?;
            if block.contains("text")? {
                block.del_item("text")?;
            }
            let cited = dict!(py, "content": [dict!(py, "text": text)], "citations": citations);
            block.set_item("citationsContent", cited)?;
        } else if block.contains("toolUse")? {
            let call = copied(&block.as_any().get_item("toolUse")?)?;
            let input = self.blocks.input(py, index)?;
            call.set_item("input", input.unwrap_or_else(|| PyDict::new(py).into_any()))?;
            return Ok(dict!(py, "toolUse": call).into_any());
        }
        Ok(block.into_any())
    }
}

impl Joins for Converse {
    fn add<'py>(&mut self, event: &Any<'py>) -> PyResult<Any<'py>> {
        let py = event.py();
        if let Some(started) = set(event, "contentBlockStart")? {
            let block = PyDict::new(py);
            for (key, value) in items(&started.get_item("start")?)? {
                block.set_item(key, copied(&value)?)?;
            }
            self.blocks.begin(&started.get_item("contentBlockIndex")?, block)?;
        } else if let Some(changed) = set(event, "contentBlockDelta")? {
            let (index, delta) = (changed.get_item("contentBlockIndex")?, changed.get_item("delta")?);
            if let Some(call) = get(&delta, "toolUse")? {
                if let Some(piece) = set(&call, "input")? {
                    self.blocks.write(&index, &piece)?;
                }
            } else {
                if !self.blocks.by_index.contains_key(&number_of(&index)?) {
                    self.blocks.begin(&index, PyDict::new(py))?;
                }
                append(&self.blocks.at(&index)?, &delta)?;
            }
            return shown(&delta, "text");
        } else {
            let said = match set(event, "messageStop")? {
                Some(stopped) => Some(stopped),
                None => set(event, "metadata")?,
            };
            if let Some(said) = said {
                self.head.bind(py).update(said.cast()?)?;
            }
        }
        Ok(nothing(py))
    }

    fn body<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let body = self.head.bind(py).copy()?;
        if get(&body, "stopReason")?.is_none() {
            return Ok(None);
        }
        let blocks = self.blocks.by_index.iter();
        let blocks = blocks.map(|(index, block)| self.block(py, *index, block)).collect::<PyResult<Vec<_>>>()?;
        body.set_item("output", dict!(py, "message": dict!(py, "role": "assistant", "content": blocks)))?;
        Ok(Some(body))
    }
}

/// Append a delta to a block: texts grow, citations and results join their list.
fn append(block: &Bound<'_, PyDict>, delta: &Any<'_>) -> PyResult<()> {
    let py = block.py();
    let list_in = |of: &Bound<'_, PyDict>, key: &str| -> PyResult<Py<PyAny>> {
        if !of.contains(key)? {
            of.set_item(key, PyList::empty(py))?;
        }
        Ok(of.as_any().get_item(key)?.unbind())
    };
    for (key, value) in items(delta)? {
        match super::text_of(&key.str()?).as_ref() {
            "text" => {
                let before = get(block, "text")?.unwrap_or_else(|| nothing(py));
                block.set_item("text", before.add(value)?)?;
            }
            "citation" => {
                list_in(block, "citations")?.bind(py).call_method1("append", (value,))?;
            }
            "toolResult" => {
                let result = block.as_any().get_item("toolResult")?.cast_into::<PyDict>()?;
                list_in(&result, "content")?.bind(py).call_method1("extend", (value,))?;
            }
            "reasoningContent" if value.contains("redactedContent")? => {
                let before = match get(block, "reasoningContent")? {
                    Some(reasoning) => get(&reasoning, "redactedContent")?,
                    None => None,
                };
                let before = before.unwrap_or_else(|| PyBytes::new(py, b"").into_any());
                let redacted = before.add(value.get_item("redactedContent")?)?;
                block.set_item("reasoningContent", dict!(py, "redactedContent": redacted))?;
            }
            "reasoningContent" => {
                let reasoning = match get(block, "reasoningContent")? {
                    Some(reasoning) => copied(&reasoning)?,
                    None => PyDict::new(py),
                };
                let said = match get(&reasoning, "reasoningText")? {
                    Some(said) => copied(&said)?,
                    None => dict!(py, "text": ""),
                };
                for (name, piece) in items(&value)? {
                    let before = said.get_item(&name)?.unwrap_or_else(|| nothing(py));
                    said.set_item(&name, before.add(piece)?)?;
                }
                reasoning.set_item("reasoningText", said)?;
                block.set_item("reasoningContent", reasoning)?;
            }
            _ => block.set_item(key, value)?,
        }
    }
    Ok(())
}

pub fn read<'py>(body: &Any<'py>) -> PyResult<Said<'py>> {
    let py = body.py();
    let reason = name(body, "stopReason")?;
    let stop = match reason.as_str() {
        "max_tokens" | "model_context_window_exceeded" => "length",
        "guardrail_intervened" | "content_filtered" => "refusal",
        _ => "answer",
    };
    let content = body.get_item("output")?.get_item("message")?.get_item("content")?;
    let received: Vec<_> = content.try_iter()?.collect::<PyResult<_>>()?;
    let texts = received.iter().map(text_in).collect::<PyResult<_>>()?;
    let blocks = resendable(received, stop)?;
    let mut calls = Vec::new();
    for block in &blocks {
        let call = get(block, "toolUse")?;
        if let Some(call) = call.filter(|call| !call.contains("type").unwrap_or(true)) {
            // One with a type is of a tool that the service runs itself.
            if set(&call, "toolUseId")?.is_none() || set(&call, "name")?.is_none() {
                return Err(unreadable(py, "bedrock", "a call without an id or a name"));
            }
            calls.push(block.clone());
        }
    }
    if calls.is_empty() && ["malformed_model_output", "malformed_tool_use"].contains(&reason.as_str()) {
        return Err(unreadable(py, "bedrock", &reason));
    }
    let id = match set(body, "ResponseMetadata")? {
        Some(about) => get(&about, "RequestId")?,
        None => None,
    };
    let entries = super::anthropic::entries(py, blocks)?;
    Ok(Said { entries, text: joined(py, texts)?, calls, stop, usage: get(body, "usage")?, model: None, id })
}

/// The blocks of an answer that Converse accepts in a request.
///
/// It drops blank texts, media, calls that were cut off or refused, and reasoning at the end, which no block follows.
fn resendable<'py>(blocks: Vec<Any<'py>>, stop: &str) -> PyResult<Vec<Any<'py>>> {
    let mut kept = Vec::new();
    'blocks: for block in blocks {
        let has_text = block.contains("text")?;
        if !block.is_truthy()? || (has_text && is_blank(&text_in(&block)?)?) || (stop == "refusal" && !has_text) {
            continue;
        }
        for key in UNSENDABLE {
            if block.contains(key)? {
                continue 'blocks;
            }
        }
        kept.push(block);
    }
    if let Some(last) = kept.last()
        && stop == "length"
        && last.contains("toolUse")?
    {
        kept.pop();
    }
    while let Some(last) = kept.last() {
        if !last.contains("reasoningContent")? {
            break;
        }
        kept.pop();
    }
    Ok(kept)
}

fn text_in<'py>(block: &Any<'py>) -> PyResult<Any<'py>> {
    let mut texts = vec![shown(block, "text")?];
    if let Some(cited) = set(block, "citationsContent")? {
        for each in listed(&cited, "content")? {
            texts.push(shown(&each, "text")?);
        }
    }
    joined(block.py(), texts)
}
