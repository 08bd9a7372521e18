//! Converse's messages as Anthropic's, of which the conversion is.
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyString};

use super::bedrock::{blocks_of, key_of_block, media_type};
use super::neutral::{Level, dict, joined};
use crate::interned::interned;
use crate::reading::{Fields, is_list, python, readable_texts};

/// A message as one of Anthropic's.
pub fn as_anthropic<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = entry.py();
    let entry = Fields::needed(entry, 0, String::new)?;
    let role = entry.get(interned!(py, "role"))?;
    let is_assistant = role.as_ref().map_or(Ok(false), |role| role.eq(interned!(py, "assistant")))?;
    let made = read_blocks(py, entry.get(interned!(py, "content"))?.as_ref(), is_assistant)?;
    Ok(dict!(py, "role": role, "content": made))
}

fn read_blocks<'py>(
    py: Python<'py>,
    content: Option<&Bound<'py, PyAny>>,
    is_assistant: bool,
) -> PyResult<Bound<'py, PyList>> {
    let _level = Level::down(py, 0)?;
    let made = PyList::empty(py);
    for raw in blocks_of(py, content)? {
        let block = Fields::needed(&raw, 0, String::new)?;
        if block.kind()?.name().is_empty()
            && let Some(mark) = block.get(interned!(py, "cachePoint"))?
        {
            let before = match made.len() {
                0 => dict!(py, "type": "cachePoint"),
                count => {
                    let before = made.get_item(count - 1)?.cast_into::<PyDict>()?.copy()?;
                    made.del_item(count - 1)?;
                    before
                }
            };
            before.set_item(interned!(py, "cache_control"), mark)?;
            made.append(before)?;
            continue;
        }
        made.append(read_block(block, is_assistant)?)?;
    }
    Ok(made)
}

fn read_block<'py>(block: Fields<'_, 'py>, is_assistant: bool) -> PyResult<Bound<'py, PyDict>> {
    let py = block.as_any().py();
    let Some(key) = key_of_block(block)? else {
        let copy = PyDict::new(py);
        copy.update(block.as_any().cast()?)?;
        return Ok(copy);
    };
    let Some(value) = block.get(key.get(py))? else { return Ok(dict!(py, "type": key.get(py))) };
    match key.text() {
        "text" => return Ok(dict!(py, "type": "text", "text": value)),
        "json" => return Ok(dict!(py, "type": "text", "text": python(py, "compact_json", (value,))?)),
        _ => {}
    }
    let Some(of) = Fields::of(&value) else { return Ok(dict!(py, "type": key.get(py))) };
    match key.text() {
        "toolUse" => {
            let server = interned!(py, "server_tool_use");
            let is_servers = of.get(interned!(py, "type"))?.map_or(Ok(false), |kind| kind.eq(server))?;
            let name = interned!(py, "name");
            Ok(dict!(py,
                "type": if is_servers { server } else { interned!(py, "tool_use") },
                "id": of.get(interned!(py, "toolUseId"))?,
                "name": if of.has(name)? { of.get(name)? } else { Some(PyString::new(py, "").into_any()) },
                "input": of.get(interned!(py, "input"))?,
            ))
        }
        "toolResult" => {
            let is_servers = is_assistant && of.has(interned!(py, "type"))?;
            let content = of.get(interned!(py, "content"))?;
            let content = content.map(|content| read_blocks(py, Some(&content), is_assistant)).transpose()?;
            let made = dict!(py,
                "type": if is_servers { interned!(py, "server_tool_result") } else { interned!(py, "tool_result") },
                "tool_use_id": of.get(interned!(py, "toolUseId"))?,
                "content": content,
            );
            if of.get(interned!(py, "status"))?.map_or(Ok(false), |status| status.eq(interned!(py, "error")))? {
                made.set_item(interned!(py, "is_error"), true)?;
            }
            Ok(made)
        }
        "reasoningContent" => Ok(dict!(py, "type": "redacted_thinking")),
        "image" | "video" | "audio" | "document" => {
            let made = dict!(py, "type": key.get(py));
            if let Some(name) = of.text(interned!(py, "name"))? {
                made.set_item(interned!(py, "title"), name)?;
            }
            made.set_item(interned!(py, "source"), read_source(py, key.text(), of)?)?;
            Ok(made)
        }
        _ => {
            let texts = readable_texts(&value)?;
            if texts.is_empty() {
                return Ok(dict!(py, "type": key.get(py)));
            }
            Ok(dict!(py, "type": "text", "text": joined(interned!(py, "\n"), texts)?))
        }
    }
}

fn read_source<'py>(py: Python<'py>, key: &str, of: Fields<'_, 'py>) -> PyResult<Bound<'py, PyDict>> {
    let source = of.get(interned!(py, "source"))?;
    let Some(source) = source.as_ref().and_then(Fields::of) else { return Ok(PyDict::new(py)) };
    if let Some(text) = source.text(interned!(py, "text"))? {
        return Ok(dict!(py, "type": "text", "media_type": "text/plain", "data": text));
    }
    if let Some(content) = source.get(interned!(py, "content"))?.filter(is_list) {
        return Ok(dict!(py, "type": "content", "content": read_blocks(py, Some(&content), false)?));
    }
    // If there are no bytes, it is in S3, to which other providers have no access.
    let Some(data) = source.get(interned!(py, "bytes"))? else { return Ok(PyDict::new(py)) };
    let data = if data.is_instance_of::<PyBytes>() || data.is_instance_of::<PyByteArray>() {
        py.import("base64")?.call_method1("b64encode", (data,))?.call_method1("decode", ("ascii",))?
    } else if data.is_instance_of::<PyString>() {
        data
    } else {
        return Ok(PyDict::new(py));
    };
    let kind = super::contents::shown(py, of.get(interned!(py, "format"))?)?;
    let media_type = match media_type(&crate::reading::text_of(&kind)) {
        Some(known) => PyString::new(py, known),
        None => joined(interned!(py, "/"), vec![PyString::new(py, key), kind])?,
    };
    Ok(dict!(py, "type": "base64", "media_type": media_type, "data": data))
}
