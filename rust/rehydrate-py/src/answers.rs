//! Answers of models: joined from the events of a stream, read, and written for the next request. One module per
//! provider.
mod anthropic;
mod bedrock;
mod bill;
mod chat;
mod events;
mod failures;
mod gemini;
mod responses;
mod several;

use std::collections::BTreeMap;

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PyMapping, PyString};

use crate::errors::raise;
use crate::exit::Running;
use crate::reading::{json_value, text_of};
use crate::writing::dict;

pub use bill::Bill;
pub use events::EventDecoder;
pub use failures::{error_from_body, provider_error};
pub use several::{Replies, error_event};

type Any<'py> = Bound<'py, PyAny>;

/// An answer, read.
struct Said<'py> {
    /// As the next request takes it.
    entries: Vec<Any<'py>>,
    text: Any<'py>,
    /// As the provider has them.
    calls: Vec<Any<'py>>,
    /// A `Stop` of `rehydrate.agent.model`.
    stop: &'static str,
    usage: Option<Any<'py>>,
    model: Option<Any<'py>>,
    id: Option<Any<'py>>,
}

/// Joins the events of a stream to the body of an answer without a stream.
trait Joins: Send + Sync {
    /// Add the next event; return the text in it.
    fn add<'py>(&mut self, event: &Any<'py>) -> PyResult<Any<'py>>;

    /// The body; None if the stream ended too early.
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>>;
}

fn joiner_of(py: Python<'_>, provider: &str) -> PyResult<Box<dyn Joins>> {
    let joiner: Box<dyn Joins> = match provider {
        "anthropic" => Box::<anthropic::Message>::default(),
        "bedrock" => Box::new(bedrock::Converse::begin(py)),
        "gemini" => Box::new(gemini::Content::begin(py)),
        "openai_chat" => Box::new(chat::Completion::begin(py)),
        "openai_responses" => Box::<responses::Response>::default(),
        _ => return Err(PyValueError::new_err(format!("no answers of {provider}"))),
    };
    Ok(joiner)
}

/// Joins the events of a provider's stream.
#[pyclass(module = "rehydrate._native")]
pub struct AnswerJoiner(Box<dyn Joins>);

#[pymethods]
impl AnswerJoiner {
    #[new]
    fn begin(py: Python<'_>, provider: &str) -> PyResult<Self> {
        let _running = Running::begin();
        joiner_of(py, provider).map(Self)
    }

    fn add<'py>(&mut self, event: &Any<'py>) -> PyResult<Any<'py>> {
        let _running = Running::begin();
        self.0.add(event)
    }

    fn body<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let _running = Running::begin();
        self.0.body(py)
    }
}

/// Whether a body has the shape of an answer.
#[pyfunction]
pub fn is_answer(provider: &str, body: &Any<'_>) -> PyResult<bool> {
    let _running = Running::begin();
    let is_list = |key: &str| PyResult::Ok(get(body, key)?.is_some_and(|value| value.is_instance_of::<PyList>()));
    match provider {
        "anthropic" => is_list("content"),
        "bedrock" => match set(body, "output")? {
            Some(output) => Ok(get(&output, "message")?.is_some_and(|message| is_object(&message))),
            None => Ok(false),
        },
        "gemini" => gemini::is_answer(body),
        "openai_chat" => match set(body, "choices")? {
            Some(choices) => Ok(get(&choices.get_item(0)?, "message")?.is_some_and(|message| is_object(&message))),
            None => Ok(false),
        },
        _ => is_list("output"),
    }
}

/// The error that a body reports, in place of an answer or next to one. None if it reports none.
#[pyfunction]
pub fn reported_in<'py>(provider: &str, body: &Any<'py>) -> PyResult<Option<Any<'py>>> {
    let _running = Running::begin();
    if set(body, "error")?.is_some() {
        return Ok(Some(body.clone()));
    }
    if !is_answer(provider, body)? {
        return Ok(None);
    }
    if provider == "openai_chat" {
        let choice = body.get_item("choices")?.get_item(0)?; // OpenRouter, if the provider that it asked failed
        return Ok(set(&choice, "error")?.map(|_| choice));
    }
    let status = if provider == "openai_responses" { name(body, "status")? } else { String::new() };
    if !["failed", "cancelled"].contains(&status.as_str()) {
        return Ok(None);
    }
    let message = format!("the response is {status}");
    Ok(Some(dict!(body.py(), "message": message).into_any()))
}

/// An answer as `read_answer` returns it: the fields of `Said`, in order.
type Read<'py> =
    (Vec<Any<'py>>, Any<'py>, Vec<Any<'py>>, &'static str, Option<Any<'py>>, Option<Any<'py>>, Option<Any<'py>>);

/// An answer's entries for the next request, its text, its calls, why it stopped, its usage, the model's name and the
/// answer's id.
#[pyfunction]
pub fn read_answer<'py>(provider: &str, body: &Any<'py>) -> PyResult<Read<'py>> {
    let _running = Running::begin();
    let said = match provider {
        "anthropic" => anthropic::read(body),
        "bedrock" => bedrock::read(body),
        "gemini" => gemini::read(body),
        "openai_chat" => chat::read(body),
        _ => responses::read(body),
    }?;
    Ok((said.entries, said.text, said.calls, said.stop, said.usage, said.model, said.id))
}

/// The blocks of an answer that is joined from events, and the inputs of its calls, which come as pieces of JSON.
#[derive(Default)]
struct Blocks {
    by_index: BTreeMap<i64, Py<PyDict>>,
    inputs: BTreeMap<i64, Py<PyList>>,
}

impl Blocks {
    fn begin(&mut self, index: &Any<'_>, block: Bound<'_, PyDict>) -> PyResult<()> {
        self.by_index.insert(number_of(index)?, block.unbind());
        Ok(())
    }

    /// The block with this index; KeyError if none was begun.
    fn at<'py>(&self, index: &Any<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.by_index.get(&number_of(index)?);
        found.map(|block| block.bind(index.py()).clone()).ok_or_else(|| PyKeyError::new_err(index.clone().unbind()))
    }

    /// Add a piece of a call's input.
    fn write(&mut self, index: &Any<'_>, piece: &Any<'_>) -> PyResult<()> {
        let pieces = self.inputs.entry(number_of(index)?).or_insert_with(|| PyList::empty(index.py()).unbind());
        pieces.bind(index.py()).append(piece.cast::<PyString>()?)
    }

    /// The input of a call; None if nothing was written. The API accepts invalid JSON only under a key of its own.
    fn input<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Option<Any<'py>>> {
        let Some(pieces) = self.inputs.get(&index) else { return Ok(None) };
        let text = joined(py, pieces.bind(py).iter().collect())?;
        if !text.is_truthy()? {
            return Ok(None);
        }
        Ok(Some(match json_value(&text)? {
            Some(input) => input,
            None => dict!(py, "INVALID_JSON": text).into_any(),
        }))
    }
}

/// The number of a block, which some servers write as 1.0; KeyError for other values.
fn number_of(index: &Any<'_>) -> PyResult<i64> {
    let whole = match index.cast::<PyFloat>() {
        Ok(number) => number.call_method0("__int__").ok().filter(|whole| whole.eq(number).unwrap_or(false)),
        Err(_) => Some(index.clone()),
    };
    whole.and_then(|whole| whole.extract().ok()).ok_or_else(|| PyKeyError::new_err(index.clone().unbind()))
}

/// The error for an answer that cannot be used. If asked again, the model may write another.
fn unreadable(py: Python<'_>, provider: &str, problem: &str) -> PyErr {
    raise(py, "ProviderUnavailableError", (provider, py.None(), format!("what it sent cannot be read: {problem}")))
}

/// The value under a key of an object. None if it is null. TypeError if it isn't an object.
fn get<'py>(of: &Any<'py>, key: &str) -> PyResult<Option<Any<'py>>> {
    let found = match of.cast_exact::<PyDict>() {
        Ok(dict) => dict.get_item(key)?,
        Err(_) if of.cast::<PyMapping>()?.contains(key)? => Some(of.get_item(key)?),
        Err(_) => None,
    };
    Ok(found.filter(|value| !value.is_none()))
}

/// The value under a key, if Python takes it for true.
fn set<'py>(of: &Any<'py>, key: &str) -> PyResult<Option<Any<'py>>> {
    let Some(value) = get(of, key)? else { return Ok(None) };
    Ok(value.is_truthy()?.then_some(value))
}

/// The string under a key; "" if there is none.
fn name(of: &Any<'_>, key: &str) -> PyResult<String> {
    Ok(get(of, key)?.map_or_else(String::new, |value| match value.cast::<PyString>() {
        Ok(text) => text_of(text).into_owned(),
        Err(_) => String::new(),
    }))
}

/// Whether the type of a block or an event is this.
fn is_type(of: &Any<'_>, kind: &str) -> PyResult<bool> {
    Ok(name(of, "type")? == kind)
}

/// The values of a list under a key. None if it is empty.
fn listed<'py>(of: &Any<'py>, key: &str) -> PyResult<Vec<Any<'py>>> {
    match set(of, key)? {
        Some(values) => values.try_iter()?.collect(),
        None => Ok(Vec::new()),
    }
}

/// The value under a key as Python writes it. "" if there is none.
fn shown<'py>(of: &Any<'py>, key: &str) -> PyResult<Any<'py>> {
    match set(of, key)? {
        Some(value) => Ok(value.str()?.into_any()),
        None => Ok(nothing(of.py())),
    }
}

fn nothing(py: Python<'_>) -> Any<'_> {
    PyString::new(py, "").into_any()
}

fn is_object(value: &Any<'_>) -> bool {
    value.cast::<PyMapping>().is_ok()
}

/// Whether a text is empty or white space.
fn is_blank(text: &Any<'_>) -> PyResult<bool> {
    Ok(crate::reading::is_blank(&text_of(text.cast::<PyString>()?)))
}

/// A dict with the items of an object.
fn copied<'py>(of: &Any<'py>) -> PyResult<Bound<'py, PyDict>> {
    let copy = PyDict::new(of.py());
    copy.update(of.cast::<PyMapping>()?)?;
    Ok(copy)
}

/// The items of an object, copied first.
fn items<'py>(of: &Any<'py>) -> PyResult<Vec<(Any<'py>, Any<'py>)>> {
    Ok(copied(of)?.iter().collect())
}

/// Texts as one.
fn joined<'py>(py: Python<'py>, texts: Vec<Any<'py>>) -> PyResult<Any<'py>> {
    match texts.as_slice() {
        [text] if text.is_instance_of::<PyString>() => Ok(text.clone()),
        _ => nothing(py).call_method1("join", (PyList::new(py, texts)?,)),
    }
}

/// A text or a list with the next piece at its end. Any other value is replaced.
fn grown<'py>(before: Option<Any<'py>>, value: Any<'py>) -> PyResult<Any<'py>> {
    match before {
        Some(text) if text.is_instance_of::<PyString>() && value.is_instance_of::<PyString>() => text.add(value),
        Some(list) if list.is_instance_of::<PyList>() && value.is_instance_of::<PyList>() => list.add(value),
        _ => Ok(value),
    }
}

/// A value as compact JSON.
pub fn as_json<'py>(value: &Any<'py>, ensure_ascii: bool) -> PyResult<Any<'py>> {
    let options = dict!(value.py(), "separators": (",", ":"), "ensure_ascii": ensure_ascii);
    value.py().import("json")?.call_method("dumps", (value,), Some(&options))
}

/// An id for a call that has none.
fn new_id(py: Python<'_>) -> PyResult<Any<'_>> {
    let hex: String = py.import("uuid")?.call_method0("uuid4")?.getattr("hex")?.extract()?;
    Ok(PyString::new(py, &format!("call_{}", &hex[..24])).into_any())
}
