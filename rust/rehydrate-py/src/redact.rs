//! Secrets in texts, for Python.
use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString, PyTuple};
use rehydrate_core::caps::encoded;
use rehydrate_core::redact::{self, Label, Secret};

use crate::caps::CodePoints;
use crate::convert::{Places, bytes_of, string_of};
use crate::errors::detached;
use crate::exit::Running;

/// Texts up to this length are searched without releasing the interpreter: that would take as long.
const SHORT_BYTES: usize = 4 << 10;

/// Values are searched to this depth.
const MAX_DEPTH: usize = 500;

/// An argument in a list is part of a command up to this length.
const LONGEST_ARGUMENT: usize = 256;

/// A label: name, start and end.
type Given = (String, i64, i64);

/// A text, and the labels in it.
type Redacted<'py> = (Bound<'py, PyString>, Vec<(String, usize, usize)>);

/// The names of all kinds of secrets.
#[pyfunction]
pub fn secret_kinds() -> Vec<&'static str> {
    redact::kinds().collect()
}

/// The beginning and the end of each secret, in characters, and its kind's place among all kinds, without the kinds
/// that are `off`.
#[pyfunction]
pub fn secrets(py: Python<'_>, text: Places, off: Vec<usize>) -> PyResult<Vec<(usize, usize, usize)>> {
    let _running = Running::begin();
    Ok(found(py, text.as_str(), &off)?.iter().map(|it| (it.start, it.end, it.kind)).collect())
}

/// A text without secrets, except those of the kinds that are `off`, and the labels in their place: name, start and
/// end. `known` are labels that it already has.
#[pyfunction]
pub fn redacted_text<'py>(text: Bound<'py, PyString>, off: Vec<usize>, known: Vec<Given>) -> PyResult<Redacted<'py>> {
    let _running = Running::begin();
    let py = text.py();
    let secrets = found(py, text.extract::<Places>()?.as_str(), &off)?;
    if secrets.is_empty() && known.is_empty() {
        return Ok((text, Vec::new()));
    }
    let points = text.extract::<CodePoints>()?.0;
    let place = |place: i64| usize::try_from(place).unwrap_or(usize::MAX).min(points.len());
    let known = known.into_iter().map(|(name, start, end)| Label { start: place(start), end: place(end), name });
    let known: Vec<Label> = known.filter(|label| label.is_in(&points)).collect();
    if secrets.is_empty() && known.is_empty() {
        return Ok((text, Vec::new()));
    }
    let (points, labels) = redact::labelled(&points, secrets, known);
    Ok((string_of(py, &encoded(&points))?, labels.into_iter().map(|it| (it.name, it.start, it.end)).collect()))
}

/// A JSON value without secrets in its strings and keys.
#[pyfunction]
pub fn redact_inside<'py>(value: &Bound<'py, PyAny>, off: Vec<usize>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    inside(value, None, &off, MAX_DEPTH)
}

/// `name` is the key of the object that the value is in, or of the one that its list is in.
fn inside<'py>(
    value: &Bound<'py, PyAny>,
    name: Option<&Bound<'py, PyString>>,
    off: &[usize],
    depth: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if depth == 0 {
        return Err(PyRecursionError::new_err("it is nested too deep"));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(match name {
            Some(name) => after(&[&*bytes_of(name)?, b"=".as_slice()].concat(), text, off)?,
            None => without(text, off)?,
        }
        .into_any());
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        // {"name": "DB_PASSWORD", "value": "..."}: the value's name is next to it.
        let named = |key: &str| if mapping.contains(key)? { mapping.get_item(key).map(Some) } else { Ok(None) };
        let has_name = mapping.contains("value")?;
        let called = if has_name { named("name")?.map_or_else(|| named("key"), |name| Ok(Some(name)))? } else { None };
        let called = called.and_then(|called| called.cast_into::<PyString>().ok());
        let redacted = PyDict::new(py);
        for key in mapping.keys()? {
            let one = mapping.get_item(&key)?;
            let key = key.cast_into::<PyString>()?;
            let name = called.as_ref().or(name).filter(|_| key == "value").unwrap_or(&key);
            redacted.set_item(without(&key, off)?, inside(&one, Some(name), off, depth - 1)?)?;
        }
        return Ok(redacted.into_any());
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let mut made = Vec::new();
        let mut said = Vec::new(); // the command, and its last argument
        for item in value.try_iter()? {
            let item = item?;
            let redacted = inside(&item, name, off, depth - 1)?;
            let argument = item.cast::<PyString>().ok().filter(|_| redacted.is(&item)).map(bytes_of).transpose()?;
            let Some(argument) = argument.filter(|argument| argument.len() <= LONGEST_ARGUMENT) else {
                made.push(redacted);
                continue;
            };
            let before: Vec<u8> = said.concat();
            made.push(after(&before, item.cast()?, off)?.into_any());
            said.truncate(1);
            said.push([b"\"".as_slice(), &argument, b"\", "].concat());
        }
        return Ok(PyList::new(py, made)?.into_any());
    }
    Ok(value.clone())
}

/// A value without its secrets, after what it is assigned to, or the arguments before it: {"password": "..."} is an
/// assignment too.
fn after<'py>(before: &[u8], value: &Bound<'py, PyString>, off: &[usize]) -> PyResult<Bound<'py, PyString>> {
    let text = bytes_of(value)?;
    let quote = [b'"', b'\'', b'`'].into_iter().find(|mark| !text.contains(mark));
    let quote = quote.as_slice();
    let before = [before, quote].concat();
    let whole = string_of(value.py(), &[&before, &*text, quote].concat())?;
    let redacted = without(&whole, off)?;
    let redacted = bytes_of(&redacted)?;
    match redacted.strip_prefix(&*before) {
        Some(value_and_quote) => {
            let redacted = &value_and_quote[..value_and_quote.len().saturating_sub(quote.len())];
            if *redacted == *text { Ok(value.clone()) } else { string_of(value.py(), redacted) }
        }
        None => without(value, off),
    }
}

fn without<'py>(text: &Bound<'py, PyString>, off: &[usize]) -> PyResult<Bound<'py, PyString>> {
    Ok(redacted_text(text.clone(), off.to_vec(), Vec::new())?.0)
}

/// The secrets of a text, without the kinds that are `off`.
pub fn found(py: Python<'_>, text: &str, off: &[usize]) -> PyResult<Vec<Secret>> {
    if text.len() <= SHORT_BYTES {
        Ok(redact::secrets(text, off))
    } else {
        detached(py, || Ok(redact::secrets(text, off)))
    }
}
