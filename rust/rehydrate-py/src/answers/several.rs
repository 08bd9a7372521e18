//! Several replies of a provider as one answer to a client, without the calls that the proxy answers.
//!
//! Events of a stream pass as they come. An event that names a part by its place in the answer gets the place that the
//! part has in this answer. The end of a reply waits until it is known whether another follows.
mod events;
mod sums;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use super::{Any, Joins, anthropic, as_json, chat, copied, get, is_type, joiner_of, listed, name, responses, set};
use crate::exit::Running;
use sums::{added, contents, joined_contents};

use crate::reading::{json_value, text_of};
use crate::writing::{dict, read_call};

const BETWEEN_TEXTS: &str = "\n\n";
const MAX_QUOTED: usize = 500;

#[derive(Clone, Copy, PartialEq)]
enum Wire {
    Messages,
    Chat,
    Responses,
}

/// One answer to a client. `begin` each reply, then `feed` its events or `take` it whole.
#[pyclass(module = "rehydrate._native")]
pub struct Replies {
    wire: Wire,
    /// The names of the tools whose calls the proxy answers.
    names: Vec<String>,
    joiner: Box<dyn Joins>,
    bodies: Vec<Py<PyDict>>,
    replies: usize,
    /// The events that end the reply.
    held: Vec<Py<PyDict>>,
    /// The place of each part of the reply in the answer. None if it is not there.
    places: Py<PyDict>,
    shown_parts: usize,
    /// For Chat Completions: the fields that each event of the answer has from the first.
    head: Py<PyDict>,
    /// For Chat Completions: whether an earlier reply had a text, after which the next one has not begun yet.
    has_text_before: bool,
    /// For Responses: the events of reasoning, which goes with the item that follows it, and so with our calls too.
    waiting: Vec<Py<PyDict>>,
    /// For Responses: the number of the next event.
    sequence: usize,
}

type Shown<'py> = Vec<Bound<'py, PyDict>>;

#[pymethods]
impl Replies {
    #[new]
    fn new(py: Python<'_>, provider: &str, names: Vec<String>) -> PyResult<Self> {
        let _running = Running::begin();
        let wire = match provider {
            "anthropic" => Wire::Messages,
            "openai_chat" => Wire::Chat,
            "openai_responses" => Wire::Responses,
            _ => return Err(PyValueError::new_err(format!("no replies of {provider}"))),
        };
        let empty = || PyDict::new(py).unbind();
        Ok(Self {
            wire,
            names,
            joiner: joiner_of(py, provider)?,
            bodies: Vec::new(),
            replies: 0,
            held: Vec::new(),
            places: empty(),
            shown_parts: 0,
            head: empty(),
            has_text_before: false,
            waiting: Vec::new(),
            sequence: 0,
        })
    }

    /// Begin the next reply.
    fn begin(&mut self, py: Python<'_>) -> PyResult<()> {
        let _running = Running::begin();
        self.joiner = joiner_of(py, self.provider())?;
        self.has_text_before = self.wire == Wire::Chat && !contents(&self.bodies_of(py))?.is_empty();
        self.replies += 1;
        self.held.clear();
        self.waiting.clear();
        self.places = PyDict::new(py).unbind();
        Ok(())
    }

    /// The bytes for the client of an event, which is JSON.
    fn feed<'py>(&mut self, data: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyBytes>> {
        let _running = Running::begin();
        let py = data.py();
        let mut out = Vec::new();
        if let Some(event) = json_value(data.as_any())? {
            let Ok(event) = event.cast_into::<PyDict>() else {
                return Ok(PyBytes::new(py, &as_it_came(&text_of(data)))); // no event of the API
            };
            let shown = match self.wire {
                Wire::Messages => self.messages_event(&event),
                Wire::Chat => self.chat_event(&event),
                Wire::Responses => self.responses_event(&event),
            }?;
            for each in shown {
                frame(&mut out, &each)?;
            }
            self.joiner.add(&event)?;
        } // else [DONE], which `end` says
        Ok(PyBytes::new(py, &out))
    }

    /// Take a reply that is whole.
    fn take(&mut self, body: Bound<'_, PyDict>) {
        self.bodies.push(body.unbind());
    }

    /// Take the reply whose events were fed, if it is whole.
    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        let _running = Running::begin();
        self.bodies.extend(self.joiner.body(py)?.map(Bound::unbind));
        Ok(())
    }

    /// The end of the stream.
    fn end<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let _running = Running::begin();
        let mut out = Vec::new();
        let answer = if self.is_whole() { Some(self.joined(py)?) } else { None };
        for event in std::mem::take(&mut self.held) {
            let event = event.into_bound(py);
            if let Some(answer) = &answer {
                self.end_as(&event, answer)?;
            }
            frame(&mut out, &event)?;
        }
        if self.wire == Wire::Chat {
            out.extend_from_slice(b"data: [DONE]\n\n");
        }
        Ok(PyBytes::new(py, &out))
    }

    /// The answer, of all replies.
    fn joined<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let _running = Running::begin();
        self.joined_of(&self.bodies_of(py))
    }

    /// Whether the reply that was begun last has ended.
    #[getter]
    fn is_whole(&self) -> bool {
        self.bodies.len() == self.replies
    }

    /// The calls of the last reply that the proxy answers.
    #[getter]
    fn calls<'py>(&self, py: Python<'py>) -> PyResult<Vec<Any<'py>>> {
        let mut calls = Vec::new();
        if self.is_whole() {
            for call in self.calls_in(&self.last(py)?)? {
                if self.is_ours(&call)? && read_call(&call)?.is_some() {
                    calls.push(call);
                }
            }
        }
        Ok(calls)
    }

    /// Whether the last reply has calls for the client too.
    #[getter]
    fn has_others(&self, py: Python<'_>) -> PyResult<bool> {
        for call in self.calls_in(&self.last(py)?)? {
            if !self.is_ours(&call)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The last reply as messages of the next request. A call of ours that was cut off is left out, since nothing
    /// answers it.
    #[getter]
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Vec<Any<'py>>> {
        if !self.is_whole() {
            return Ok(Vec::new());
        }
        let last = self.last(py)?;
        if self.calls(py)?.is_empty() { self.entries_in(&self.joined_of(&[last])?) } else { self.entries_in(&last) }
    }

    /// The answer as the client has it in its next request.
    #[getter]
    fn shown<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.entries_in(&self.joined(py)?)?)
    }
}

impl Replies {
    fn provider(&self) -> &'static str {
        match self.wire {
            Wire::Messages => "anthropic",
            Wire::Chat => "openai_chat",
            Wire::Responses => "openai_responses",
        }
    }

    fn bodies_of<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyDict>> {
        self.bodies.iter().map(|body| body.bind(py).clone()).collect()
    }

    fn last<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let last = self.bodies.last().ok_or_else(|| PyValueError::new_err("there is no reply"))?;
        Ok(last.bind(py).clone())
    }

    /// Whether the proxy answers a call. The provider answers calls of a server's tools. Pieces of a call have no type.
    fn is_ours(&self, call: &Any<'_>) -> PyResult<bool> {
        let is_call = match get(call, "type")? {
            Some(_) => ["tool_use", "function_call", "function"].contains(&name(call, "type")?.as_str()),
            None => true,
        };
        let is_named = |of: &Any<'_>| PyResult::Ok(self.names.contains(&name(of, "name")?));
        Ok(is_call && (is_named(call)? || set(call, "function")?.map_or(Ok(false), |function| is_named(&function))?))
    }

    /// Change an event that was held back so that it ends this answer.
    fn end_as(&mut self, event: &Bound<'_, PyDict>, answer: &Bound<'_, PyDict>) -> PyResult<()> {
        if self.wire == Wire::Responses {
            // Clients check that all events are of one response.
            let response = answer.copy()?;
            response.set_item("id", self.bodies[0].bind(event.py()).get_item("id")?)?;
            event.set_item("response", response)?;
            event.set_item("sequence_number", self.sequence)?;
            self.sequence += 1;
        } else if is_type(event, "message_delta")? || (self.wire == Wire::Chat && set(event, "usage")?.is_some()) {
            event.set_item("usage", answer.get_item("usage")?)?;
        }
        Ok(())
    }

    /// One answer of replies, without calls of ours.
    fn joined_of<'py>(&self, bodies: &[Bound<'py, PyDict>]) -> PyResult<Bound<'py, PyDict>> {
        let last = bodies.last().ok_or_else(|| PyValueError::new_err("there is no reply"))?;
        let answer = last.copy()?;
        match self.wire {
            Wire::Messages => {
                let mut blocks = Vec::new();
                for body in bodies {
                    self.add_others(&mut blocks, body.as_any().get_item("content")?)?;
                }
                answer.set_item("content", blocks)?;
            }
            Wire::Chat => {
                let choice = copied(&last.as_any().get_item("choices")?.get_item(0)?)?;
                let message = copied(&choice.as_any().get_item("message")?)?;
                let contents = contents(bodies)?;
                if !contents.is_empty() {
                    message.set_item("content", joined_contents(answer.py(), contents, BETWEEN_TEXTS)?)?;
                }
                let mut calls = Vec::new();
                if let Some(received) = set(&message, "tool_calls")? {
                    self.add_others(&mut calls, received)?;
                }
                if message.contains("tool_calls")? {
                    message.del_item("tool_calls")?;
                }
                if !calls.is_empty() {
                    message.set_item("tool_calls", calls)?;
                }
                choice.set_item("message", message)?;
                answer.set_item("choices", [choice])?;
            }
            Wire::Responses => {
                let mut output = Vec::new();
                for body in bodies {
                    self.add_others(&mut output, body.as_any().get_item("output")?)?;
                }
                answer.set_item("output", output)?;
            }
        }
        let usages = bodies.iter().map(|body| get(body, "usage")).collect::<PyResult<Vec<_>>>()?;
        answer.set_item("usage", added(usages)?)?;
        Ok(answer)
    }

    /// Add everything except our calls. Reasoning right before such a call belongs to it.
    fn add_others<'py>(&self, kept: &mut Vec<Any<'py>>, of: Any<'py>) -> PyResult<()> {
        let mut is_after_reasoning = false;
        for part in of.try_iter()? {
            let part = part?;
            if !self.is_ours(&part)? {
                is_after_reasoning = is_type(&part, "reasoning")?;
                kept.push(part);
            } else if std::mem::take(&mut is_after_reasoning) {
                kept.pop();
            }
        }
        Ok(())
    }

    /// The calls of a reply that is complete.
    fn calls_in<'py>(&self, body: &Bound<'py, PyDict>) -> PyResult<Vec<Any<'py>>> {
        let (key, kind) = match self.wire {
            Wire::Chat => {
                let choice = body.as_any().get_item("choices")?.get_item(0)?;
                let is_cut = ["length", "content_filter"].contains(&name(&choice, "finish_reason")?.as_str());
                return if is_cut { Ok(Vec::new()) } else { listed(&choice.get_item("message")?, "tool_calls") };
            }
            Wire::Messages if name(body, "stop_reason")? == "tool_use" => ("content", "tool_use"),
            Wire::Responses if !body.contains("status")? || name(body, "status")? == "completed" => {
                ("output", "function_call")
            }
            _ => return Ok(Vec::new()),
        };
        let mut calls = Vec::new();
        for part in body.as_any().get_item(key)?.try_iter()? {
            let part = part?;
            if is_type(&part, kind)? {
                calls.push(part);
            }
        }
        Ok(calls)
    }

    /// A reply as messages of the next request.
    fn entries_in<'py>(&self, body: &Bound<'py, PyDict>) -> PyResult<Vec<Any<'py>>> {
        let listed_in = |key: &str| body.as_any().get_item(key)?.try_iter()?.collect::<PyResult<Vec<_>>>();
        match self.wire {
            Wire::Messages => anthropic::entries(body.py(), anthropic::resendable(listed_in("content")?, "answer")?),
            Wire::Chat => {
                let message = body.as_any().get_item("choices")?.get_item(0)?.get_item("message")?;
                Ok(vec![chat::resendable(&message, &listed(&message, "tool_calls")?)?.into_any()])
            }
            Wire::Responses => responses::resendable(listed_in("output")?, "answer"),
        }
    }
}

/// Add an event in the form of a stream. Those of Chat Completions have no type.
fn frame(out: &mut Vec<u8>, event: &Bound<'_, PyDict>) -> PyResult<()> {
    if let Some(kind) = event.get_item("type")? {
        out.extend_from_slice(format!("event: {}\n", text_of(&kind.str()?)).as_bytes());
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(text_of(as_json(event.as_any(), true)?.cast::<PyString>()?).as_bytes());
    out.extend_from_slice(b"\n\n");
    Ok(())
}

/// The data of an event as a stream has it.
fn as_it_came(data: &str) -> Vec<u8> {
    let lines: String = data.split('\n').map(|line| format!("data: {line}\n")).collect();
    format!("{lines}\n").into_bytes()
}

/// An error of the provider as the event that ends a stream.
#[pyfunction]
pub fn error_event<'py>(py: Python<'py>, raw: &[u8], provider: Option<&str>) -> PyResult<Bound<'py, PyBytes>> {
    let _running = Running::begin();
    let text = String::from_utf8_lossy(raw);
    let read = json_value(&PyString::new(py, &text).into_any())?.and_then(|error| error.cast_into::<PyDict>().ok());
    let error = match read {
        Some(error) => error,
        None => {
            let message: String = text.chars().take(MAX_QUOTED).collect();
            dict!(py, "error": dict!(py, "type": "api_error", "message": message))
        }
    };
    let event = if provider == Some("openai_chat") { PyDict::new(py) } else { dict!(py, "type": "error") };
    event.update(error.as_mapping())?;
    let mut out = Vec::new();
    frame(&mut out, &event)?;
    Ok(PyBytes::new(py, &out))
}
