//! The record of a thread's state: its changes since the state that was recorded before.
use blake2b_simd::Params;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::written;
use crate::exit::Running;
use crate::interned::interned;
use crate::layout::history::History;
use crate::plain::names_of;

type Any<'py> = Bound<'py, PyAny>;

/// Fields of a state that are numbers.
const COUNTS: [&str; 5] = ["seen", "turn", "job_tokens", "prompts", "compactions"];
/// Fields of its prompt that only grow.
const LISTS: [&str; 3] = ["sections", "tools", "late_bound"];

/// The content of the record of a state, compared with the state that was recorded before it. `entries` are those of the thread.
///
/// The trace of the passes is left out: nothing uses it later. Raises UnreadableIRError for content that JSON cannot
/// hold.
#[pyfunction]
pub fn state_content<'py>(state: &Any<'py>, before: &Any<'py>, entries: &Any<'py>) -> PyResult<Bound<'py, PyDict>> {
    let _running = Running::begin();
    let (py, content) = (state.py(), PyDict::new(state.py()));
    for name in COUNTS {
        content.set_item(name, state.getattr(name)?)?;
    }
    let mut missing = state.getattr("missing_hot")?;
    if !missing.is_none() {
        missing = py.import("builtins")?.call_method1("sorted", (missing,))?;
    }
    content.set_item("missing_hot", missing)?;
    content.set_item("has_ir", !state.getattr("ir")?.is_none())?;
    content.set_item("sent", sent(state, before)?)?;
    let (ir, old) = (state.getattr("shown")?, before.getattr("shown")?);
    content.set_item("request", request(&ir, &old)?)?;
    content.set_item("counter", ir.getattr("counter")?)?;
    content.set_item("breakpoints", ir.getattr("breakpoints")?.try_iter()?.collect::<PyResult<Vec<_>>>()?)?;
    let (meta, last) = (ir.getattr("meta")?, old.getattr("meta")?);
    let fields = PyDict::new(py);
    for name in names_of(&meta)?.unwrap_or_default() {
        let (value, path) = (meta.getattr(&name)?, format!("meta.{name}"));
        let value = match name.to_str()? {
            "dropped" => new_of(&value, &last.getattr(&name)?, &path)?.into_any(),
            "trace" => PyList::empty(py).into_any(),
            _ => written(&value, &path)?,
        };
        fields.set_item(name, value)?;
    }
    content.set_item("meta", fields)?;
    content.set_item("history", new_of_history(&ir, &old, entries)?)?;
    for name in LISTS {
        content.set_item(name, new_of(&ir.getattr(name)?, &old.getattr(name)?, name)?)?;
    }
    Ok(content)
}

/// 128 bits of all that a provider is sent of a prompt, hexadecimal.
#[pyfunction]
pub fn prompt_digest(prompt: &Any<'_>) -> PyResult<String> {
    let _running = Running::begin();
    let mut hashed = Params::new().hash_length(16).to_state();
    for segment in prompt.getattr("segments")?.try_iter()? {
        let digest = segment?.getattr(interned!(prompt.py(), "digest"))?;
        hashed.update(digest.cast::<PyString>()?.to_str()?.as_bytes());
    }
    Ok(hashed.finalize().to_hex().to_string())
}

/// The identity of the prompt that was sent. "before": it is the one sent before.
fn sent<'py>(state: &Any<'py>, before: &Any<'py>) -> PyResult<Any<'py>> {
    let (py, sent) = (state.py(), state.getattr("sent")?);
    if sent.is_none() {
        return Ok(sent);
    }
    if sent.is(&before.getattr("sent")?) {
        return Ok(PyString::new(py, "before").into_any());
    }
    let fields = PyDict::new(py);
    fields.set_item("provider", sent.getattr("provider")?)?;
    fields.set_item("model", sent.getattr("model")?)?;
    fields.set_item("digest", prompt_digest(&sent)?)?;
    Ok(fields.into_any())
}

/// The fields of a request that are other ones.
fn request<'py>(ir: &Any<'py>, old: &Any<'py>) -> PyResult<Bound<'py, PyDict>> {
    let request =
        |ir: &Any<'py>| written(&ir.getattr("request")?, "request")?.cast_into::<PyDict>().map_err(PyErr::from);
    let (now, asked) = (request(ir)?, request(old)?);
    let changed = PyDict::new(ir.py());
    for (name, value) in now {
        if !asked.get_item(&name)?.map_or(Ok(false), |before| before.eq(&value))? {
            changed.set_item(name, value)?;
        }
    }
    Ok(changed)
}

/// The number of first items that are as before, and the others as JSON.
fn new_of<'py>(now: &Any<'py>, old: &Any<'py>, path: &str) -> PyResult<Bound<'py, PyList>> {
    let (py, now, old) = (now.py(), now.extract::<Vec<Any<'py>>>()?, old.extract::<Vec<Any<'py>>>()?);
    let same = now.iter().zip(&old).take_while(|(one, other)| one.is(*other)).count();
    let new = written(PyList::new(py, &now[same..])?.as_any(), path)?;
    PyList::new(py, [same.into_pyobject(py)?.into_any(), new])
}

/// The number of first entries that are as before; for each other one the index, the tokens, and, if it is not shown as
/// it was added, the shown form.
fn new_of_history<'py>(ir: &Any<'py>, old: &Any<'py>, entries: &Any<'py>) -> PyResult<Bound<'py, PyDict>> {
    let py = ir.py();
    let (now, old) = (History::of(ir.getattr("history")?)?, History::of(old.getattr("history")?)?);
    let same = shared_rows(&now, &old)?;
    let (added, rest) = (entries.len()?, PyList::empty(py));
    for position in same..now.entries.len() {
        let (index, entry) = (now.entry_index(position)?, now.entries.get_item(position)?);
        let row = PyList::new(py, [index.into_pyobject(py)?.into_any(), now.tokens.get_item(position)?])?;
        if index >= added || !entries.call_method1(interned!(py, "at"), (index,))?.is(&entry) {
            row.append(written(&entry, &format!("history.entries[{index}]"))?)?;
        }
        rest.append(row)?;
    }
    let fields = PyDict::new(py);
    fields.set_item("same", same)?;
    fields.set_item("rest", rest)?;
    Ok(fields)
}

/// The number of first entries that both have, each with the same index.
fn shared_rows(one: &History<'_>, other: &History<'_>) -> PyResult<usize> {
    let entries = shared(&one.entries, &other.entries);
    let mut same = shared(&one.indices, &other.indices);
    while same < entries && one.entry_index(same)? == other.entry_index(same)? {
        same += 1;
    }
    Ok(same.min(entries))
}

/// The number of first objects that both have.
fn shared(one: &Bound<'_, PyTuple>, other: &Bound<'_, PyTuple>) -> usize {
    one.iter_borrowed().zip(other.iter_borrowed()).take_while(|(one, other)| one.as_ptr() == other.as_ptr()).count()
}
