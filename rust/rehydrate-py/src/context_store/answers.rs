//! The proposals in a model's answer: one JSON object per line, or a list of them.
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyString};
use rehydrate_core::context_store::{OperationKind, Proposal, stripped};

use super::values::raw;
use crate::convert::{bytes_of, string_of};
use crate::reading::json_value;

/// The largest number of an item or an entry has this many digits.
const DIGITS: usize = 9;

/// The proposals in an answer, and the number of lines, or members of a list, that aren't proposals.
pub fn proposals_in(answer: &Bound<'_, PyString>) -> PyResult<(Vec<Proposal>, usize)> {
    let values = values_in(answer)?;
    let mut proposals = Vec::new();
    for value in values.iter().flatten() {
        proposals.extend(proposal(value)?);
    }
    let unreadable = values.len() - proposals.len();
    Ok((proposals, unreadable))
}

/// The JSON values of an answer; None for a line that isn't JSON.
fn values_in<'py>(answer: &Bound<'py, PyString>) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
    let (py, text) = (answer.py(), bytes_of(answer)?);
    let lines = text.split(|byte| *byte == b'\n').map(|line| &line[stripped(line)]);
    let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty() && !line.starts_with(b"```")).collect();
    if lines.first().is_some_and(|line| line.starts_with(b"["))
        && let Some(whole) = json_value(string_of(py, &lines.join(&b'\n'))?.as_any())?
        && let Ok(list) = whole.cast::<PyList>()
    {
        return Ok(list.iter().map(Some).collect());
    }
    let mut values = Vec::new();
    for line in lines.into_iter().filter(|line| ![&b"["[..], b"]"].contains(line)) {
        let end = line.iter().rposition(|byte| *byte != b',').map_or(0, |last| last + 1);
        let value = json_value(string_of(py, &line[..end])?.as_any())?;
        match value.as_ref().and_then(|value| value.cast::<PyList>().ok()) {
            Some(list) => values.extend(list.iter().map(Some)),
            None => values.push(value),
        }
    }
    Ok(values)
}

/// The proposal of an object, if it has all fields of its operation. Nothing else is checked.
fn proposal(value: &Bound<'_, PyAny>) -> PyResult<Option<Proposal>> {
    use OperationKind::{Add, Fade, Promote, Resolve, Supersede};

    let Ok(fields) = value.cast::<PyDict>() else { return Ok(None) };
    let text = |name: &str| Ok::<_, PyErr>(fields.get_item(name)?.and_then(|value| value.cast_into::<PyString>().ok()));
    let number = |name: &str| fields.get_item(name)?.map_or(Ok(None), |value| number_in(&value));
    let Some(op) = text("op")? else { return Ok(None) };
    let Some(kind) = OperationKind::ALL.into_iter().find(|kind| op == kind.name()) else { return Ok(None) };
    let mut proposal =
        Proposal { kind, item: 0, entry: -1, heading: b"".as_slice().into(), quote: b"".as_slice().into() };
    if kind != Add {
        let Some(item) = number("item")? else { return Ok(None) };
        proposal.item = item;
    }
    if matches!(kind, Add | Supersede | Resolve) {
        let Some(entry) = number("entry")? else { return Ok(None) };
        proposal.entry = entry;
    }
    if kind == Add {
        let Some(heading) = text("heading")? else { return Ok(None) };
        proposal.heading = raw(&heading)?;
    }
    if !matches!(kind, Resolve | Promote | Fade) {
        let Some(quote) = text("quote")? else { return Ok(None) };
        proposal.quote = raw(&quote)?;
    }
    Ok(Some(proposal))
}

/// A number; models write 12, "12" and "#12".
fn number_in(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        let most = 10_i64.pow(DIGITS as u32);
        return Ok(value.extract().ok().filter(|number| (0..most).contains(number)));
    }
    let Ok(text) = value.cast::<PyString>() else { return Ok(None) };
    let text = bytes_of(text)?;
    let digits = text.strip_prefix(b"#").unwrap_or(&text);
    let is_number = (1..=DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    Ok(is_number.then(|| digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))))
}
