//! Gemini's contents as Anthropic's messages, from which they are converted.
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyString};
use rehydrate_core::conversation::Role;

use super::neutral::{dict, joined};
use crate::interned::interned;
use crate::reading::gemini::{
    DISPLAY_NAME, Data, FILE_URI, Is, MIME_TYPE, Waiting, data_of, is_response, is_thought, parts_of, speaker,
};
use crate::reading::{Fields, listed, python, text_of};

/// A content as one of Anthropic's. `waiting` are the calls so far.
pub fn as_anthropic<'py>(
    entry: &Bound<'py, PyAny>,
    index: usize,
    waiting: &mut Waiting,
) -> PyResult<Bound<'py, PyDict>> {
    let py = entry.py();
    let entry = Fields::needed(entry, index, String::new)?;
    let speaker = speaker(entry, index)?;
    let parts = parts_of(entry, index)?;
    let mut has_responses = false;
    for part in &parts {
        has_responses |= is_response(part)?;
    }
    waiting.begin(speaker.role == Role::Assistant, has_responses);
    let made = PyList::empty(py);
    for raw in &parts {
        match Fields::of(raw) {
            Some(part) => made.append(read_part(part, waiting)?)?,
            None => made.append(raw)?,
        }
    }
    Ok(dict!(py, "role": speaker.shown, "content": made))
}

fn read_part<'py>(part: Fields<'_, 'py>, waiting: &mut Waiting) -> PyResult<Bound<'py, PyDict>> {
    let py = part.as_any().py();
    if is_thought(part)? {
        return Ok(dict!(py, "type": "thinking"));
    }
    let Some(Data { is, key, value }) = data_of(part)? else {
        let copy = PyDict::new(py);
        copy.update(part.as_any().cast()?)?;
        return Ok(copy);
    };
    match (is, Fields::of(&value)) {
        (Is::Text, _) => Ok(dict!(py, "type": "text", "text": value)),
        (Is::Call, Some(call)) => {
            let name = call.text(interned!(py, "name"))?.unwrap_or_else(|| PyString::new(py, ""));
            let args = call.get(interned!(py, "args"))?.unwrap_or_else(|| PyDict::new(py).into_any());
            Ok(dict!(py, "type": "tool_use", "id": waiting.call(call)?, "name": name, "input": args))
        }
        (Is::Response, Some(response)) => read_response(py, response, waiting),
        (Is::Inline | Is::File, Some(media)) => medium(py, media),
        (Is::Transcript, Some(said)) => Ok(dict!(py, "type": "text", "text": said.get(interned!(py, "text"))?)),
        _ => Ok(dict!(py, "type": key, "content": PyList::new(py, [value])?)),
    }
}

fn read_response<'py>(
    py: Python<'py>,
    response: Fields<'_, 'py>,
    waiting: &mut Waiting,
) -> PyResult<Bound<'py, PyDict>> {
    let content = PyList::empty(py);
    let mut is_error = false;
    if let Some(value) = response.get(interned!(py, "response"))? {
        let items = Fields::of(&value).map(Fields::items).transpose()?.unwrap_or_default();
        is_error = matches!(items.as_slice(), [(key, _)] if key.eq("error")?);
        let text = match items.as_slice() {
            [(key, text)] if text.is_instance_of::<PyString>() && is_only_name(key) => text.clone(),
            _ => python(py, "compact_json", (value,))?,
        };
        content.append(dict!(py, "type": "text", "text": text))?;
    }
    for part in listed(response.get(interned!(py, "parts"))?.as_ref())? {
        if let Some(part) = Fields::of(&part)
            && let Some(Data { value, .. }) = data_of(part)?
            && let Some(media) = Fields::of(&value)
        {
            content.append(medium(py, media)?)?;
        }
    }
    let made = dict!(py, "type": "tool_result", "tool_use_id": waiting.answer(response)?, "content": content);
    if is_error {
        made.set_item(interned!(py, "is_error"), true)?;
    }
    Ok(made)
}

/// Whether a key only says that its value is what the tool answered.
fn is_only_name(key: &Bound<'_, PyAny>) -> bool {
    key.cast::<PyString>().is_ok_and(|key| matches!(text_of(key).as_ref(), "output" | "result" | "error"))
}

fn medium<'py>(py: Python<'py>, media: Fields<'_, 'py>) -> PyResult<Bound<'py, PyDict>> {
    let kind = MIME_TYPE.text(media)?.unwrap_or_else(|| PyString::new(py, "application/octet-stream"));
    let source = match media.get(interned!(py, "data"))? {
        Some(data) => dict!(py, "type": "base64", "media_type": &kind, "data": base64(&data)?),
        None => dict!(py, "type": "url", "url": FILE_URI.value(media)?),
    };
    let block = if text_of(&kind).starts_with("image/") { "image" } else { "document" };
    let made = dict!(py, "type": block, "source": source);
    if let Some(name) = DISPLAY_NAME.text(media)? {
        made.set_item(interned!(py, "title"), name)?;
    }
    Ok(made)
}

/// Data as base64 in the usual alphabet, padded: google-genai uses the alphabet for URLs, others leave out the padding.
fn base64<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = data.py();
    if data.is_instance_of::<PyBytes>() || data.is_instance_of::<PyByteArray>() {
        return py.import("base64")?.call_method1("b64encode", (data,))?.call_method1("decode", ("ascii",));
    }
    match data.cast::<PyString>() {
        Ok(text) if text_of(text).contains(['-', '_']) || !text_of(text).len().is_multiple_of(4) => {
            let mut usual = text_of(text).replace('-', "+").replace('_', "/");
            usual.extend(std::iter::repeat_n('=', usual.len().wrapping_neg() % 4));
            Ok(PyString::new(py, &usual).into_any())
        }
        Ok(text) => Ok(text.clone().into_any()),
        Err(_) => joined(&PyString::new(py, ""), Vec::new()).map(Bound::into_any),
    }
}
