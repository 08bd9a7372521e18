//! The parts of a value of any shape that a model reads: its strings, without ids and base64, and its media.
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};

use super::fields::{Fields, is_list, python, text_of};

/// Pictures and files of any provider or gateway.
pub const MEDIA: &[&str] = &[
    "image",
    "image_url",
    "input_image",
    "input_audio",
    "audio",
    "video",
    "video_url",
    "file",
    "container_upload",
    "input_file",
    "computer_screenshot",
    "media",
    "document_url",
];
const UNREAD_KEYS: &[&str] = &[
    "type",
    "id",
    "tool_use_id",
    "file_id",
    "caller",
    "cache_control",
    "signature",
    "encrypted_content",
    "encrypted_index",
    "encrypted_stdout",
    "call_id",
    "tool_call_id",
    "approval_request_id",
    "container_id",
    "media_type",
    "mime_type",
    "mimeType",
];
const PAYLOAD_KEYS: &[&str] = &["data", "blob", "base64", "b64_json", "file_data", "bytes"];
const TEXT_KEYS: &[&str] = &["text", "content", "stdout", "stderr", "logs", "thinking", "reasoning"];
pub const DEEPEST: usize = 8;
const LONGEST_DATA_URL_HEADER: usize = 4_096;
/// Characters. A shorter string is read as text: it may be an id or a hash.
const SHORTEST_BASE64: usize = 512;
/// Characters of `data`, which names many things. A shorter one isn't a file.
const SHORTEST_DATA: usize = 64;

/// A string that a model would read, or a medium: its block, or its bytes.
pub enum Seen<'a, 'py> {
    Text(&'a Bound<'py, PyString>),
    Medium(&'a Bound<'py, PyAny>),
}

pub type Found<'f, 'py> = dyn FnMut(Seen<'_, 'py>) -> PyResult<()> + 'f;

/// Call `found` with each string in a value that a model would read, and with each medium.
pub fn readable<'py>(value: &Bound<'py, PyAny>, depth: usize, key: &str, found: &mut Found<'_, 'py>) -> PyResult<()> {
    if let Ok(text) = value.cast::<PyString>() {
        if is_binary(text, key)? {
            if key != "data" || text.len()? >= SHORTEST_DATA {
                found(Seen::Medium(value))?;
            }
        } else if !text.is_empty()? {
            found(Seen::Text(text))?;
        }
    } else if value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || value.is_instance_of::<PyMemoryView>()
    {
        found(Seen::Medium(value))?;
    } else if let Some(fields) = Fields::of(value) {
        if depth > 0 && MEDIA.contains(&fields.kind()?.name().as_ref()) {
            return found(Seen::Medium(value));
        }
        if depth == DEEPEST {
            return deepest(value, found);
        }
        for (name, item) in fields.items()? {
            let name = name.cast::<PyString>().map(|name| text_of(name).into_owned()).unwrap_or_default();
            if !UNREAD_KEYS.contains(&name.as_str()) {
                readable(&item, depth + 1, &name, found)?;
            }
        }
    } else if is_list(value) {
        if depth == DEEPEST {
            return deepest(value, found);
        }
        for item in value.try_iter()? {
            readable(&item?, depth + 1, key, found)?;
        }
    }
    Ok(())
}

/// Deeper values become one string of JSON. It counts, whatever it is.
fn deepest<'py>(value: &Bound<'py, PyAny>, found: &mut Found<'_, 'py>) -> PyResult<()> {
    found(Seen::Text(python(value.py(), "compact_json", (value,))?.cast::<PyString>()?))
}

/// Whether a string under this key is a data URL, or only base64.
fn is_binary(text: &Bound<'_, PyString>, key: &str) -> PyResult<bool> {
    let length = text.len()?;
    let text = text_of(text);
    if is_base64_url(&text) {
        return Ok(true);
    }
    let is_text = TEXT_KEYS.contains(&key) || (!PAYLOAD_KEYS.contains(&key) && length < SHORTEST_BASE64);
    Ok(!is_text && is_base64(&text))
}

fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let padding = bytes.iter().rev().take_while(|&&byte| byte == b'=').count();
    let digits = &bytes[..bytes.len() - padding];
    padding <= 2
        && !digits.is_empty()
        && digits.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/_-".contains(byte))
}

/// Whether it is a base64 data URL, in any spelling and with any parameters.
fn is_base64_url(text: &str) -> bool {
    let ends_so = |text: &str, end: &str| {
        text.len() >= end.len() && text.as_bytes()[text.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
    };
    if !text.get(..5).is_some_and(|beginning| beginning.eq_ignore_ascii_case("data:")) {
        return false;
    }
    let header = text.char_indices().take(LONGEST_DATA_URL_HEADER).find(|&(_, c)| c == ',');
    header.is_some_and(|(comma, _)| ends_so(&text[..comma], ";base64"))
}

/// The strings in a value that a model would read: no ids, no base64.
pub fn readable_texts<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyString>>> {
    let mut texts = Vec::new();
    readable(value, 0, "", &mut |seen| {
        if let Seen::Text(text) = seen {
            texts.push(text.clone());
        }
        Ok(())
    })?;
    Ok(texts)
}
