//! The messages of a proxy's request, and the parts of answers among them that a client did not see.
use std::collections::VecDeque;

use once_cell::race::OnceBox;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::answers::as_json;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{CACHE_MARKS, Fields, is_space, string_of, text_of, unmarked};
use crate::writing::dict;

/// One message of a request: its text as the client wrote it, and its value, which is only read if it is needed. Most
/// are not, since the facts of a known text are known.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct RequestItem {
    #[pyo3(get)]
    text: Py<PyString>,
    value: OnceBox<Py<PyAny>>,
}

#[pymethods]
impl RequestItem {
    #[new]
    pub fn new(text: Bound<'_, PyString>) -> Self {
        Self { text: text.unbind(), value: OnceBox::new() }
    }

    /// The message; raises ValueError if the text isn't JSON.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _running = Running::begin();
        let read = || Ok(Box::new(py.import("json")?.call_method1(interned!(py, "loads"), (&self.text,))?.unbind()));
        self.value.get_or_try_init(read).map(|value| value.bind(py).clone())
    }

    /// The message without the marks of a cache.
    #[getter]
    fn plain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _running = Running::begin();
        let (text, value) = (self.text.bind(py), self.value(py)?);
        let text = text_of(text);
        if CACHE_MARKS.iter().any(|mark| text.contains(mark)) { unmarked(&value) } else { Ok(value) }
    }
}

impl RequestItem {
    /// A message of ours, as JSON.
    fn written<'py>(message: Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let py = message.py();
        let text = as_json(&message, true)?;
        let item = Self::new(text.cast_into()?);
        let _ = item.value.set(Box::new(message.unbind()));
        Bound::new(py, item)
    }
}

type Items<'py> = Vec<Bound<'py, RequestItem>>;
/// The true messages of an answer: as the client has them, as the provider sent and got them, and the answers to our
/// calls in the last reply.
type Exchange<'py> = (Bound<'py, PyTuple>, Bound<'py, PyTuple>, Bound<'py, PyTuple>);

/// A client's messages with the parts of their answers that it did not see. `known` returns the answers to the first
/// messages.
#[pyfunction]
pub fn with_exchanges<'py>(items: Items<'py>, known: &Bound<'py, PyAny>) -> PyResult<Items<'py>> {
    let _running = Running::begin();
    let (mut found, mut at) = (Vec::with_capacity(items.len()), 0);
    while at < items.len() {
        let Some(((_, entries, results), length)) = exchange_at(&items[at..], &known.call1((at,))?)? else {
            found.push(items[at].clone());
            at += 1;
            continue;
        };
        for entry in entries {
            found.push(RequestItem::written(entry)?);
        }
        at += length;
        if !results.is_empty()
            && let Some(next) = items.get(at)
        {
            // They come before the results of the client, in one message.
            let message = in_blocks(&next.get().value(next.py())?)?;
            let content = PyList::new(next.py(), results)?;
            for block in message.get_item(interned!(next.py(), "content"))?.try_iter()? {
                content.append(block?)?;
            }
            let message = Fields::needed(&message, at, String::new)?;
            found.push(RequestItem::written(message.with(interned!(next.py(), "content"), content)?)?);
            at += 1;
        }
    }
    Ok(found)
}

/// The first of the answers at the beginning of these messages, and the number of its messages.
fn exchange_at<'py>(
    items: &[Bound<'py, RequestItem>],
    answers: &Bound<'py, PyAny>,
) -> PyResult<Option<(Exchange<'py>, usize)>> {
    for exchange in answers.try_iter()? {
        let exchange: Exchange<'py> = exchange?.extract()?;
        let shown = exchange.0.iter().map(|entry| outline(&entry)).collect::<PyResult<Vec<_>>>()?;
        let mut wanted: VecDeque<Vec<String>> = shown.into_iter().flatten().collect();
        for (index, item) in items.iter().enumerate() {
            if wanted.is_empty() {
                break;
            }
            let outline = outline(&item.get().value(item.py())?)?;
            if outline.is_some() && outline != wanted.pop_front() {
                break;
            }
            if wanted.is_empty() {
                return Ok(Some((exchange, index + 1)));
            }
        }
    }
    Ok(None)
}

/// The part of an answer that stays the same when a client sends it again: its text without blanks, and its ids. None
/// for reasoning, which the client may leave out.
fn outline(entry: &Bound<'_, PyAny>) -> PyResult<Option<Vec<String>>> {
    let py = entry.py();
    let Some(fields) = Fields::of(entry) else { return Ok(Some(vec![shown(entry)?])) };
    if fields.kind()?.name() == "reasoning" {
        return Ok(None);
    }
    let (mut text, mut blocks) = (String::new(), Vec::new());
    match truthy(fields.get(interned!(py, "content"))?)? {
        Some(content) if content.is_instance_of::<PyString>() => text = shown(&content)?,
        Some(content) => blocks = content.try_iter()?.collect::<PyResult<_>>()?,
        None => {}
    }
    if fields.has(interned!(py, "call_id"))? {
        blocks.push(entry.clone());
    } else if let Some(calls) = truthy(fields.get(interned!(py, "tool_calls"))?)? {
        blocks.extend(calls.try_iter()?.collect::<PyResult<Vec<_>>>()?);
    }
    let mut ids = Vec::new();
    for block in &blocks {
        let Some(block) = Fields::of(block) else { continue };
        if let Some(said) = truthy(block.get(interned!(py, "text"))?)? {
            text += &shown(&said)?;
        }
        let mut id = truthy(block.get(interned!(py, "call_id"))?)?;
        if id.is_none() {
            id = truthy(block.get(interned!(py, "id"))?)?;
        }
        ids.extend(id.map(|id| shown(&id)).transpose()?);
    }
    text.retain(|c| !is_space(c));
    ids.insert(0, text);
    Ok(Some(ids))
}

fn truthy(value: Option<Bound<'_, PyAny>>) -> PyResult<Option<Bound<'_, PyAny>>> {
    Ok(match value {
        Some(value) if value.is_truthy()? => Some(value),
        _ => None,
    })
}

fn shown(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(text_of(&string_of(value)?).into_owned())
}

/// A message with its text as a block: clients change to blocks where a mark goes.
#[pyfunction]
pub fn in_blocks<'py>(message: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    let py = message.py();
    let Some(fields) = Fields::of(message) else { return Ok(message.clone()) };
    let Some(content) = fields.text(interned!(py, "content"))? else { return Ok(message.clone()) };
    let block = dict!(py, "type": "text", "text": content);
    fields.with(interned!(py, "content"), PyList::new(py, [block])?)
}
