//! The strings in inputs of tools, and the signatures of a message.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::fields::{Fields, is_list, listed, string_of, text_of};
use super::json::json_value;
use super::strings::{Id, of_bytes};
use crate::interned::interned;

const MAX_DEPTH: usize = 12;
/// Parts of the types and keys of content that only the provider's model writes.
const PROOFS: [&str; 5] = ["signature", "encrypted", "thought", "thinking", "reasoning"];
/// Keys of content that the user or the tool writes.
const UNREAD: [&str; 5] = ["input", "arguments", "args", "text", "usage"];

/// Whether a message or a content holds a thought, or a signature for its calls.
pub fn is_signed(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    is_signed_at(value, 0)
}

fn is_signed_at(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<bool> {
    if value.is_exact_instance_of::<PyString>() && depth <= MAX_DEPTH {
        return Ok(false);
    }
    if depth > MAX_DEPTH {
        return Ok(true);
    }
    if is_list(value) {
        for item in value.try_iter()? {
            if is_signed_at(&item?, depth + 1)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let Some(fields) = Fields::of(value) else { return Ok(false) };
    let proves = |name: &str| PROOFS.iter().any(|proof| name.contains(proof));
    if proves(&fields.kind()?.name()) {
        return Ok(true);
    }
    for (key, item) in fields.items()? {
        let key = string_of(&key)?;
        let key = text_of(&key);
        if !UNREAD.contains(&key.as_ref()) && item.is_truthy()? && (proves(&key) || is_signed_at(&item, depth + 1)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Every string in an input that isn't a key, in reading order. `is_text` says that a string is free text, not JSON.
pub fn input_texts<'py>(value: &Bound<'py, PyAny>, is_text: bool) -> PyResult<Vec<Bound<'py, PyString>>> {
    let mut found = Vec::new();
    match value.cast::<PyString>() {
        Err(_) => strings(value, 0, &mut found)?,
        Ok(text) if is_text => found.push(text.clone()),
        Ok(source) => {
            let source = Id::of(source.clone())?;
            for (_, token) in tokens(value, source.as_bytes())? {
                found.push(parsed(value.py(), token)?);
            }
        }
    }
    Ok(found)
}

/// The input with the strings that are keys of `texts` replaced. Unchanged parts are the same objects, or keep their
/// spelling.
pub fn with_texts<'py>(value: &Bound<'py, PyAny>, texts: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let Ok(source) = value.cast::<PyString>() else { return with_strings(value, texts, 0) };
    if let Some(text) = texts.get_item(source)? {
        return Ok(text);
    }
    let source = Id::of(source.clone())?;
    let source = source.as_bytes();
    let (mut out, mut copied) = (Vec::new(), 0);
    for (start, token) in tokens(value, source)? {
        let Some(text) = texts.get_item(parsed(py, token)?)? else { continue };
        out.extend_from_slice(&source[copied..start]);
        out.extend_from_slice(as_token(&text, token)?.as_bytes());
        copied = start + token.len();
    }
    if copied == 0 {
        return Ok(value.clone());
    }
    out.extend_from_slice(&source[copied..]);
    of_bytes(py, &out)
}

fn strings<'py>(value: &Bound<'py, PyAny>, depth: usize, found: &mut Vec<Bound<'py, PyString>>) -> PyResult<()> {
    if let Ok(text) = value.cast::<PyString>() {
        found.push(text.clone());
    } else if depth == MAX_DEPTH {
    } else if let Some(fields) = Fields::of(value) {
        for (_, item) in fields.items()? {
            strings(&item, depth + 1, found)?;
        }
    } else {
        for item in listed(Some(value))? {
            strings(&item, depth + 1, found)?;
        }
    }
    Ok(())
}

fn with_strings<'py>(
    value: &Bound<'py, PyAny>,
    texts: &Bound<'py, PyDict>,
    depth: usize,
) -> PyResult<Bound<'py, PyAny>> {
    if value.is_instance_of::<PyString>() {
        return Ok(texts.get_item(value)?.unwrap_or_else(|| value.clone()));
    }
    if depth == MAX_DEPTH {
        return Ok(value.clone());
    }
    let mut is_changed = false;
    let mut made = |item: &Bound<'py, PyAny>| {
        let new = with_strings(item, texts, depth + 1)?;
        is_changed |= !new.is(item);
        PyResult::Ok(new)
    };
    let changed = if let Some(fields) = Fields::of(value) {
        let rest = PyDict::new(value.py());
        for (key, item) in fields.items()? {
            rest.set_item(key, made(&item)?)?;
        }
        rest.into_any()
    } else if is_list(value) {
        let items = listed(Some(value))?.iter().map(made).collect::<PyResult<Vec<_>>>()?;
        if value.is_instance_of::<PyTuple>() {
            PyTuple::new(value.py(), items)?.into_any()
        } else {
            PyList::new(value.py(), items)?.into_any()
        }
    } else {
        return Ok(value.clone());
    };
    Ok(if is_changed { changed } else { value.clone() })
}

/// The strings of a JSON text that aren't keys, with their beginnings. None if it isn't an object or list.
fn tokens<'a>(value: &Bound<'_, PyAny>, source: &'a [u8]) -> PyResult<Vec<(usize, &'a [u8])>> {
    let is_read = |read: Bound<'_, PyAny>| read.is_instance_of::<PyDict>() || read.is_instance_of::<PyList>();
    if !json_value(value)?.is_some_and(is_read) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(begin) = source[at..].iter().position(|byte| *byte == b'"').map(|place| at + place) {
        at = begin + 1;
        while source.get(at).is_some_and(|byte| *byte != b'"') {
            at += if source[at] == b'\\' { 2 } else { 1 };
        }
        at = (at + 1).min(source.len());
        let next = source[at..].iter().find(|byte| !b" \t\n\r".contains(byte));
        if next != Some(&b':') {
            found.push((begin, &source[begin..at]));
        }
    }
    Ok(found)
}

/// The text of a token.
fn parsed<'py>(py: Python<'py>, token: &[u8]) -> PyResult<Bound<'py, PyString>> {
    let text = if token.contains(&b'\\') {
        py.import("json")?.call_method1(interned!(py, "loads"), (of_bytes(py, token)?,))?
    } else {
        of_bytes(py, token.get(1..token.len().saturating_sub(1)).unwrap_or_default())?
    };
    Ok(text.cast_into()?)
}

/// A string as JSON, in ASCII if the token it replaces is ASCII.
fn as_token(text: &Bound<'_, PyAny>, token: &[u8]) -> PyResult<Id> {
    let py = text.py();
    let options = PyDict::new(py);
    options.set_item(interned!(py, "ensure_ascii"), token.is_ascii())?;
    let written = py.import("json")?.call_method(interned!(py, "dumps"), (text,), Some(&options))?;
    Id::of(written.cast_into()?)
}
