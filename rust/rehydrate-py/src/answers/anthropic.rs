//! Answers of Anthropic Messages.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::{
    Any, Blocks, Joins, Said, copied, get, grown, is_blank, is_type, items, joined, name, nothing, set, shown,
};
use crate::writing::dict;

/// A message, joined of events.
#[derive(Default)]
pub struct Message {
    message: Option<Py<PyDict>>,
    blocks: Blocks,
}

impl Message {
    fn message<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyDict> {
        self.message.get_or_insert_with(|| PyDict::new(py).unbind()).bind(py).clone()
    }

    /// The end of a message: the stop reason, and the usage. A count of 0 changes nothing.
    fn end(&mut self, event: &Any<'_>) -> PyResult<()> {
        let message = self.message(event.py());
        message.update(event.get_item("delta")?.cast()?)?;
        if let Some(changed) = get(event, "input_transformations")? {
            message.set_item("input_transformations", changed)?;
        }
        let usage = match set(&message, "usage")? {
            Some(usage) => copied(&usage)?,
            None => PyDict::new(event.py()),
        };
        for (key, value) in set(event, "usage")?.map_or_else(|| Ok(Vec::new()), |usage| items(&usage))? {
            if value.is_truthy()? {
                usage.set_item(key, value)?;
            }
        }
        message.set_item("usage", usage)
    }
}

impl Joins for Message {
    fn add<'py>(&mut self, event: &Any<'py>) -> PyResult<Any<'py>> {
        match name(event, "type")?.as_str() {
            "message_start" => self.message = Some(copied(&event.get_item("message")?)?.unbind()),
            "content_block_start" => {
                let block = copied(&event.get_item("content_block")?)?;
                if let Some(citations) = get(&block, "citations")? {
                    block.set_item("citations", citations.try_iter()?.collect::<PyResult<Vec<_>>>()?)?; // `append` adds to it
                }
                let text = text_in(&block);
                self.blocks.begin(&event.get_item("index")?, block)?;
                return text;
            }
            "content_block_delta" => {
                let (index, delta) = (event.get_item("index")?, event.get_item("delta")?);
                if is_type(&delta, "input_json_delta")? {
                    self.blocks.at(&index)?;
                    self.blocks.write(&index, &delta.get_item("partial_json")?)?;
                } else {
                    append(&self.blocks.at(&index)?, &delta)?;
                    return shown(&delta, "text");
                }
            }
            "message_delta" => self.end(event)?,
            _ => {}
        }
        Ok(nothing(event.py()))
    }

    fn body<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(message) = &self.message else { return Ok(None) };
        let message = message.bind(py);
        if get(message, "stop_reason")?.is_none() {
            return Ok(None);
        }
        let mut content = Vec::new();
        for (index, block) in &self.blocks.by_index {
            let block = block.bind(py).copy()?;
            if let Some(input) = self.blocks.input(py, *index)? {
                block.set_item("input", input)?;
            }
            content.push(block);
        }
        let body = message.copy()?;
        body.set_item("content", content)?;
        Ok(Some(body))
    }
}

/// Append a delta to a block: texts grow, a citation joins the list of citations.
fn append(block: &Bound<'_, PyDict>, delta: &Any<'_>) -> PyResult<()> {
    for (key, value) in items(delta)? {
        if key.eq("type")? {
            continue;
        }
        if key.eq("citation")? {
            match get(block, "citations")? {
                Some(citations) => citations.cast::<PyList>()?.append(value)?,
                None => block.set_item("citations", [value])?,
            }
        } else if value.is_instance_of::<PyString>() {
            block.set_item(&key, grown(block.get_item(&key)?, value)?)?;
        } else if !value.is_none() {
            block.set_item(&key, value)?;
        }
    }
    Ok(())
}

pub fn read<'py>(body: &Any<'py>) -> PyResult<Said<'py>> {
    let py = body.py();
    let stop = match name(body, "stop_reason")?.as_str() {
        "max_tokens" | "model_context_window_exceeded" => "length",
        "refusal" => "refusal",
        // The second is that of pause_after_compaction: the next request goes on from the block. Read on 2026-11-27 in
        // anthropic's lib/tools/_beta_runner.py.
        "pause_turn" | "compaction" => "pause",
        _ => "answer",
    };
    let content: Vec<_> = body.get_item("content")?.try_iter()?.collect::<PyResult<_>>()?;
    let texts = content.iter().map(text_in).collect::<PyResult<_>>()?;
    let blocks = resendable(content, stop)?;
    let mut calls = Vec::new();
    for block in &blocks {
        if is_type(block, "tool_use")? {
            calls.push(block.clone());
        }
    }
    let entries = entries(py, blocks)?;
    let (usage, model, id) = (get(body, "usage")?, get(body, "model")?, get(body, "id")?);
    Ok(Said { entries, text: joined(py, texts)?, calls, stop, usage, model, id })
}

/// Blocks as an entry. None if there are no blocks.
pub fn entries<'py>(py: Python<'py>, blocks: Vec<Any<'py>>) -> PyResult<Vec<Any<'py>>> {
    if blocks.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![dict!(py, "role": "assistant", "content": blocks).into_any()])
}

/// The blocks of an answer that the API accepts in a request.
///
/// It drops empty texts, calls that were cut off or refused, and thinking at the end, which no block follows.
pub fn resendable<'py>(blocks: Vec<Any<'py>>, stop: &str) -> PyResult<Vec<Any<'py>>> {
    let mut kept = Vec::new();
    for block in blocks {
        let is_text = is_type(&block, "text")?;
        if (is_text && set(&block, "text")?.is_some()) || (!is_text && stop != "refusal") {
            kept.push(block);
        }
    }
    if let Some(last) = kept.last()
        && stop == "length"
        && name(last, "type")?.ends_with("tool_use")
    {
        kept.pop();
    }
    while let Some(last) = kept.last().filter(|_| stop != "pause") {
        if !["thinking", "redacted_thinking"].contains(&name(last, "type")?.as_str()) {
            break;
        }
        kept.pop();
    }
    for block in &kept {
        if !is_type(block, "text")? || !is_blank(&text_in(block)?)? {
            return Ok(kept);
        }
    }
    Ok(Vec::new())
}

fn text_in<'py>(block: &Any<'py>) -> PyResult<Any<'py>> {
    if is_type(block, "text")? { shown(block, "text") } else { Ok(nothing(block.py())) }
}
