//! Cache marks: the ends of cached prefixes in a request.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::bedrock;
use super::neutral::dict;
use crate::interned::interned;
use crate::reading::{Fields, is_blank, is_claudes_thinking, is_list, listed, mark_in_options, string_of, text_of};

type Marked<'py> = PyResult<Option<Bound<'py, PyAny>>>;

/// A shallow copy of a tool, a system block or a message with a mark on its last block that can have one, or itself if
/// the caller marked that already, maybe for a longer time. None if there can be none.
///
/// For Converse's tools and system blocks it is a list: the block, and the cache point after it.
#[pyfunction]
pub fn marked<'py>(provider: &str, value: &Bound<'py, PyAny>) -> Marked<'py> {
    let Some(fields) = Fields::of(value) else { return Ok(None) };
    match provider {
        "anthropic" => of_anthropic(fields),
        "bedrock" => of_bedrock(fields),
        "openai_chat" => of_chat(fields),
        "openai_responses" => of_responses(fields),
        "ai_sdk" => of_ai_sdk(fields),
        // Gemini caches prefixes without marks.
        _ => Ok(None),
    }
}

/// Thinking and empty texts can have no mark.
fn of_anthropic<'py>(message: Fields<'_, 'py>) -> Marked<'py> {
    let py = message.as_any().py();
    let mark = |block: Fields<'_, 'py>| {
        let name = interned!(py, "cache_control");
        if block.get(name)?.is_some() {
            return Ok(block.as_any().clone());
        }
        block.with(name, dict!(py, "type": "ephemeral"))
    };
    if !message.has(interned!(py, "role"))? {
        return mark(message).map(Some);
    }
    let name = interned!(py, "content");
    let Some(content) = message.get(name)? else { return Ok(None) };
    if let Ok(text) = content.cast::<PyString>() {
        return on_text(message, name, text, "text", mark);
    }
    let is_fit = |block: Fields<'_, 'py>| -> PyResult<bool> {
        if is_claudes_thinking(block.as_any()).unwrap_or(false) {
            return Ok(false);
        }
        let text = block.get(interned!(py, "text"))?.filter(|text| text.is_truthy().unwrap_or(false));
        let is_empty = || text.map_or(Ok(true), |text| PyResult::Ok(is_blank(&text_of(&string_of(&text)?))));
        Ok(block.kind()?.name() != "text" || !is_empty()?)
    };
    on_last_fit(message, name, &content, Some("text"), is_fit, mark)
}

/// "Cache point cannot be inserted after reasoning block" (2026-07,
/// <https://github.com/anomalyco/opencode/issues/36517>), and not after a document other than a PDF (2026-03,
/// <https://github.com/strands-agents/harness-sdk/issues/1966>).
fn of_bedrock<'py>(message: Fields<'_, 'py>) -> Marked<'py> {
    let py = message.as_any().py();
    let (point, name) = (interned!(py, "cachePoint"), interned!(py, "content"));
    let after = dict!(py, "cachePoint": dict!(py, "type": "default"));
    if !message.has(interned!(py, "role"))? {
        if message.has(point)? {
            return Ok(Some(message.as_any().clone()));
        }
        return Ok(Some(PyList::new(py, [message.as_any(), after.as_any()])?.into_any()));
    }
    let mut blocks = bedrock::blocks_of(py, message.get(name)?.as_ref())?;
    for at in (0..blocks.len()).rev() {
        let Some(block) = Fields::of(&blocks[at]) else { continue };
        if block.has(point)? {
            return Ok(Some(message.as_any().clone()));
        }
        let document = block.get(interned!(py, "document"))?;
        let is_pdf = match document.as_ref().and_then(Fields::of) {
            Some(document) => document.get(interned!(py, "format"))?.map_or(Ok(false), |format| format.eq("pdf"))?,
            None => true,
        };
        if is_pdf && !is_claudes_thinking(&blocks[at])? {
            blocks.insert(at + 1, after.into_any());
            return message.with(name, PyList::new(py, blocks)?).map(Some);
        }
    }
    Ok(None)
}

/// The AI SDK passes options on to the provider that they name, and every other one ignores them. A message's own hold for
/// its last part; a thought can have none (`@ai-sdk/anthropic` 3, 2026-11,
/// <https://ai-sdk.dev/providers/ai-sdk-providers/anthropic>).
fn of_ai_sdk<'py>(message: Fields<'_, 'py>) -> Marked<'py> {
    const FIT: [&str; 5] = ["text", "image", "file", "tool-call", "tool-result"];
    let py = message.as_any().py();
    let mark = |of: Fields<'_, 'py>| {
        if mark_in_options(of)?.is_some() {
            return Ok(of.as_any().clone());
        }
        let (options, anthropic) = (interned!(py, "providerOptions"), interned!(py, "anthropic"));
        let (known, own) = (of.get(options)?, dict!(py));
        let known = known.as_ref().and_then(Fields::of);
        if let Some(known) = known.map(|known| known.get(anthropic)).transpose()?.flatten()
            && Fields::of(&known).is_some()
        {
            own.update(known.cast()?)?;
        }
        own.set_item(interned!(py, "cacheControl"), dict!(py, "type": "ephemeral"))?;
        let made = match known {
            Some(known) => known.with(anthropic, own)?,
            None => dict!(py, "anthropic": own).into_any(),
        };
        of.with(options, made)
    };
    let name = interned!(py, "content");
    let content = message.get(name)?;
    let Some(content) = content.as_ref().filter(|content| is_list(content)) else {
        let text = content.as_ref().and_then(|content| content.cast::<PyString>().ok());
        let is_fit = text
            .map_or_else(|| message.has(interned!(py, "role")).map(|has| !has), |text| Ok(!is_blank(&text_of(text))))?;
        return if is_fit { mark(message).map(Some) } else { Ok(None) };
    };
    if mark_in_options(message)?.is_some() {
        return Ok(Some(message.as_any().clone()));
    }
    let is_fit = |part: Fields<'_, 'py>| -> PyResult<bool> {
        let text = part.text(interned!(py, "text"))?;
        Ok(FIT.contains(&part.kind()?.name().as_ref()) && !text.is_some_and(|text| is_blank(&text_of(&text))))
    };
    on_last_fit(message, name, content, None, is_fit, mark)
}

/// The roles whose parts can have a breakpoint of OpenAI's: the SDK's types for an assistant's parts have none.
fn may_have_breakpoint(message: Fields<'_, '_>) -> PyResult<bool> {
    let role = message.text(interned!(message.as_any().py(), "role"))?;
    Ok(role.is_some_and(|role| matches!(text_of(&role).as_ref(), "system" | "developer" | "user" | "tool")))
}

fn of_chat<'py>(message: Fields<'_, 'py>) -> Marked<'py> {
    if !may_have_breakpoint(message)? {
        return Ok(None);
    }
    let name = interned!(message.as_any().py(), "content");
    with_breakpoint(message, name, "text", &["text", "image_url", "input_audio"])
}

fn of_responses<'py>(item: Fields<'_, 'py>) -> Marked<'py> {
    let py = item.as_any().py();
    let is_output = item.kind()?.name() == "function_call_output";
    if !is_output && !may_have_breakpoint(item)? {
        return Ok(None);
    }
    let name = if is_output { interned!(py, "output") } else { interned!(py, "content") };
    with_breakpoint(item, name, "input_text", &["input_text", "input_image", "input_file"])
}

/// A message with a breakpoint of OpenAI's on the last part under this key.
fn with_breakpoint<'py>(
    message: Fields<'_, 'py>,
    name: &Bound<'py, PyString>,
    text_type: &str,
    fit: &[&str],
) -> Marked<'py> {
    let py = message.as_any().py();
    let mark =
        |part: Fields<'_, 'py>| part.with(interned!(py, "prompt_cache_breakpoint"), dict!(py, "mode": "explicit"));
    let Some(content) = message.get(name)? else { return Ok(None) };
    if let Ok(text) = content.cast::<PyString>() {
        return on_text(message, name, text, text_type, mark);
    }
    let mut parts = listed(Some(&content))?;
    let Some(last) = parts.pop() else { return Ok(None) };
    let Some(part) = Fields::of(&last) else { return Ok(None) };
    if !fit.contains(&part.kind()?.name().as_ref()) {
        return Ok(None);
    }
    if part.has(interned!(py, "prompt_cache_breakpoint"))? {
        return Ok(Some(message.as_any().clone()));
    }
    parts.push(mark(part)?);
    message.with(name, PyList::new(py, parts)?).map(Some)
}

/// A message with a mark on the last block of its content that can have one: itself if that has one already. A string
/// among the blocks is a text block if there is a type for it.
fn on_last_fit<'py>(
    message: Fields<'_, 'py>,
    name: &Bound<'py, PyString>,
    content: &Bound<'py, PyAny>,
    text_type: Option<&str>,
    is_fit: impl Fn(Fields<'_, 'py>) -> PyResult<bool>,
    mark: impl Fn(Fields<'_, 'py>) -> PyResult<Bound<'py, PyAny>>,
) -> Marked<'py> {
    let py = content.py();
    let mut blocks = listed(Some(content))?;
    for at in (0..blocks.len()).rev() {
        let block = match (text_type, blocks[at].cast::<PyString>()) {
            (Some(kind), Ok(text)) => dict!(py, "type": kind, "text": text).into_any(),
            _ => blocks[at].clone(),
        };
        let Some(fields) = Fields::of(&block) else { continue };
        if is_fit(fields)? {
            let made = mark(fields)?;
            if made.is(&block) {
                return Ok(Some(message.as_any().clone()));
            }
            blocks[at] = made;
            return message.with(name, PyList::new(py, blocks)?).map(Some);
        }
    }
    Ok(None)
}

/// A message whose content is one text, as a block with a mark. None for a blank one.
fn on_text<'py>(
    message: Fields<'_, 'py>,
    name: &Bound<'py, PyString>,
    text: &Bound<'py, PyString>,
    text_type: &str,
    mark: impl FnOnce(Fields<'_, 'py>) -> PyResult<Bound<'py, PyAny>>,
) -> Marked<'py> {
    if is_blank(&text_of(text)) {
        return Ok(None);
    }
    let py = text.py();
    let block: Bound<'py, PyDict> = dict!(py, "type": text_type, "text": text);
    let block = block.into_any();
    let made = Fields::of(&block).map(mark).transpose()?;
    message.with(name, PyList::new(py, made)?).map(Some)
}
