//! The AI SDK's messages as Anthropic's, of which the conversion is.
use std::collections::{HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyString};

use super::neutral::{dict, joined};
use crate::interned::interned;
use crate::reading::ai_sdk::{Call, Is, McpItem, State, denial, mcp_items, part_is, parts_of_result, text_data};
use crate::reading::{Fields, Id, is_list, listed, python, text_of};

/// The SDK's words to the model for a call that the user did not allow.
const DENIED: &str = "Tool execution denied.";
/// The result of a call that needs none in the AI SDK, and has none with it: every other provider wants one.
const NO_RESULT: &str = "(Its result is not here.)";

/// Anthropic's messages, each with the index of its entry.
type Written<'py> = Vec<(Bound<'py, PyAny>, Vec<usize>)>;

/// The entries as Anthropic's messages. The first has the index `first`. A step of a UI message is one message with its
/// calls, and one with their results.
pub fn as_anthropic<'py>(entries: &Bound<'py, PyAny>, first: usize, is_ui: bool) -> PyResult<Written<'py>> {
    let (answered, asked) = (answered(entries)?, HashMap::new());
    let mut writer = Writer { is_ui, answered, asked, allowed: Vec::new(), lacking: HashSet::new(), made: Vec::new() };
    for (at, raw) in entries.try_iter()?.enumerate() {
        let (raw, index) = (raw?, first + at);
        let entry = Fields::needed(&raw, index, String::new)?;
        let key = if is_ui { interned!(raw.py(), "parts") } else { interned!(raw.py(), "content") };
        let role = entry.get(interned!(raw.py(), "role"))?;
        if is_ui || !is(role.as_ref(), "tool")? {
            writer.end_allowed()?;
        }
        match entry.get(key)? {
            Some(parts) if is_list(&parts) => writer.add(role.as_ref(), &parts, index)?,
            Some(text) => {
                writer.made.push((dict!(raw.py(), "role": role, "content": text).into_any(), vec![index]));
            }
            None => writer.made.push((raw.clone(), vec![index])),
        }
    }
    Ok(writer.made)
}

fn is(role: Option<&Bound<'_, PyAny>>, name: &str) -> PyResult<bool> {
    role.map_or(Ok(false), |role| role.eq(name))
}

/// The ids of the calls that have a result.
fn answered(entries: &Bound<'_, PyAny>) -> PyResult<HashSet<Vec<u8>>> {
    let (py, mut found) = (entries.py(), HashSet::new());
    for entry in entries.try_iter()? {
        let entry = entry?;
        let Some(entry) = Fields::of(&entry) else { continue };
        if let Some(parts) = entry.get(interned!(py, "content"))? {
            found.extend(answered_in(&parts)?);
        }
    }
    Ok(found)
}

/// The ids of the calls that have a result among these parts.
fn answered_in(parts: &Bound<'_, PyAny>) -> PyResult<HashSet<Vec<u8>>> {
    let (py, mut found) = (parts.py(), HashSet::new());
    for part in listed(Some(parts))?.iter().filter_map(Fields::of) {
        if part.kind()?.name() == "tool-result" {
            found.extend(key_of(part, interned!(py, "toolCallId"))?);
        }
    }
    Ok(found)
}

fn key_of(part: Fields<'_, '_>, key: &Bound<'_, PyString>) -> PyResult<Option<Vec<u8>>> {
    part.text(key)?.map(|id| Ok(Id::of(id)?.as_bytes().to_vec())).transpose()
}

struct Writer<'py> {
    is_ui: bool,
    /// The calls that have a result.
    answered: HashSet<Vec<u8>>,
    /// The calls of which the user was asked, by the id of the request.
    asked: HashMap<Vec<u8>, Bound<'py, PyString>>,
    /// The calls that the user allowed and that have no result, each with the index of the entry that says so.
    allowed: Vec<(Option<Bound<'py, PyString>>, usize)>,
    /// The calls that their providers run and that have no result in their message: it may come in a later one.
    lacking: HashSet<Vec<u8>>,
    made: Written<'py>,
}

impl<'py> Writer<'py> {
    fn add(&mut self, role: Option<&Bound<'py, PyAny>>, parts: &Bound<'py, PyAny>, index: usize) -> PyResult<()> {
        let (py, is_models) = (parts.py(), is(role, "assistant")?);
        let (mut said, mut results, mut has_own) = (PyList::empty(py), PyList::empty(py), false);
        let here = if self.is_ui { HashSet::new() } else { answered_in(parts)? };
        for raw in parts.try_iter()? {
            let raw = raw?;
            let Some(part) = Fields::of(&raw) else {
                said.append(raw)?;
                continue;
            };
            let kind = part.kind()?;
            let what = part_is(&kind.name(), self.is_ui);
            if is_models && !has_own && !results.is_empty() && what != Is::Result {
                // The model's text after a result from its provider.
                self.end(role, &said, &results, index)?;
                (said, results) = (PyList::empty(py), PyList::empty(py));
            }
            match what {
                Is::Tool | Is::Call => {
                    let call = Call::of(part, self.is_ui)?;
                    let state = if self.is_ui { call.state } else { State::Open };
                    if state == State::Streaming {
                        continue;
                    }
                    has_own |= !call.by_provider;
                    said.append(tool_use(py, &call)?)?;
                    let key = key_of(part, interned!(py, "toolCallId"))?;
                    if let Some(key) = &key {
                        self.lacking.remove(key);
                    }
                    if matches!(state, State::Output | State::Error | State::Denied) {
                        results.append(tool_result(py, call.id, said_by(part, state)?)?)?;
                    } else if call.by_provider && !key.as_ref().is_some_and(|key| here.contains(key)) {
                        // It is answered, whatever is decided about it later.
                        self.answered.extend(key.clone());
                        self.lacking.extend(key);
                        results.append(no_result(py, call.id)?)?;
                    } else if state == State::Responded {
                        self.allowed.push((call.id, index));
                    }
                }
                Is::Result => {
                    let (id, output) = (part.text(interned!(py, "toolCallId"))?, output_of(part)?);
                    if key_of(part, interned!(py, "toolCallId"))?.is_some_and(|key| self.lacking.contains(&key)) {
                        self.made.push((late_result(part, output)?.into_any(), vec![index]));
                    } else {
                        results.append(tool_result(py, id, output)?)?;
                    }
                }
                Is::Approval => {
                    said.append(dict!(py, "type": kind.0))?; // the reader notes that it is not sent
                    if let Some(result) = self.denied(part, index)? {
                        results.append(result)?;
                    }
                }
                Is::Unsent if kind.name() == "step-start" => {
                    self.end(role, &said, &results, index)?;
                    (said, results, has_own) = (PyList::empty(py), PyList::empty(py), false);
                }
                Is::Unsent => {}
                Is::Thought => said.append(dict!(py, "type": "thinking"))?,
                Is::Medium => match text_data(part)? {
                    Some(text) => said.append(dict!(py, "type": "text", "text": text))?,
                    None => said.append(medium(part)?)?,
                },
                Is::Custom => said.append(dict!(py, "type": part.get(interned!(py, "kind"))?))?,
                Is::Text | Is::Other => said.append(raw)?,
            }
        }
        self.end(role, &said, &results, index)
    }

    fn is_answered(&self, id: Option<&Bound<'py, PyString>>) -> PyResult<bool> {
        id.map_or(Ok(false), |id| Ok(self.answered.contains(Id::of(id.clone())?.as_bytes())))
    }

    /// Give the calls that the user allowed a result, if others follow: they were never run.
    fn end_allowed(&mut self) -> PyResult<()> {
        for (id, index) in std::mem::take(&mut self.allowed) {
            let Some(py) = id.as_ref().map(Bound::py) else { continue };
            let content = PyList::new(py, [no_result(py, id)?])?;
            self.made.push((dict!(py, "role": "user", "content": content).into_any(), vec![index]));
        }
        Ok(())
    }

    fn end(
        &mut self,
        role: Option<&Bound<'py, PyAny>>,
        said: &Bound<'py, PyList>,
        results: &Bound<'py, PyList>,
        index: usize,
    ) -> PyResult<()> {
        let py = said.py();
        if !said.is_empty() {
            self.made.push((dict!(py, "role": role, "content": said).into_any(), vec![index]));
        }
        if !results.is_empty() {
            self.made.push((dict!(py, "role": "user", "content": results).into_any(), vec![index]));
        }
        Ok(())
    }

    /// Note a request, or the result of a call that was denied: the SDK only writes it when it runs again.
    fn denied(&mut self, part: Fields<'_, 'py>, index: usize) -> PyResult<Option<Bound<'py, PyDict>>> {
        let py = part.as_any().py();
        let Some(approval) = key_of(part, interned!(py, "approvalId"))? else { return Ok(None) };
        if let Some(call) = part.text(interned!(py, "toolCallId"))? {
            self.asked.insert(approval, call);
            return Ok(None);
        }
        let Some(call) = self.asked.remove(&approval) else { return Ok(None) };
        if self.is_answered(Some(&call))? {
            return Ok(None);
        }
        if part.is_set(interned!(py, "approved"))? {
            self.allowed.push((Some(call), index));
            return Ok(None);
        }
        let reason = part.get(interned!(py, "reason"))?;
        tool_result(py, Some(call), (as_texts(py, reason, DENIED)?, true)).map(Some)
    }
}

fn tool_use<'py>(py: Python<'py>, call: &Call<'py>) -> PyResult<Bound<'py, PyDict>> {
    let input = call.input.clone().unwrap_or_else(|| PyDict::new(py).into_any());
    let name = call.name.clone().unwrap_or_else(|| PyString::new(py, "").into_any());
    Ok(dict!(py, "type": "tool_use", "id": &call.id, "name": name, "input": input))
}

/// A tool's output, and whether it is an error.
type Output<'py> = (Bound<'py, PyList>, bool);

fn tool_result<'py>(
    py: Python<'py>,
    id: Option<Bound<'py, PyString>>,
    (content, is_error): Output<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let made = dict!(py, "type": "tool_result", "tool_use_id": id, "content": content);
    if is_error {
        made.set_item(interned!(py, "is_error"), true)?;
    }
    Ok(made)
}

fn no_result<'py>(py: Python<'py>, id: Option<Bound<'py, PyString>>) -> PyResult<Bound<'py, PyDict>> {
    tool_result(py, id, (as_texts(py, None, NO_RESULT)?, false))
}

/// A result that comes in a later message than its call, as a text of the user's: its call has `NO_RESULT` already, and what
/// was sent before must stay as it was.
fn late_result<'py>(part: Fields<'_, 'py>, (content, is_error): Output<'py>) -> PyResult<Bound<'py, PyDict>> {
    let py = part.as_any().py();
    let what = if is_error { "[error of " } else { "[result of " };
    let name = part.text(interned!(py, "toolName"))?.unwrap_or_else(|| PyString::new(py, "tool"));
    let said = joined(interned!(py, ""), vec![PyString::new(py, what), name, PyString::new(py, "]")])?;
    content.insert(0, dict!(py, "type": "text", "text": said))?;
    Ok(dict!(py, "role": "user", "content": content))
}

/// A value as a content: a text as it is, images of an MCP server as images, anything else as JSON.
fn as_texts<'py>(py: Python<'py>, value: Option<Bound<'py, PyAny>>, default: &str) -> PyResult<Bound<'py, PyList>> {
    let block = |text| Ok(dict!(py, "type": "text", "text": text));
    let text = match value {
        None => PyString::new(py, default).into_any(),
        Some(value) if value.is_instance_of::<PyString>() => value,
        Some(value) => match mcp_items(&value)? {
            Some(items) => {
                let block = |item| match item {
                    McpItem::Image(image) => medium(Fields::needed(&image, 0, String::new)?),
                    McpItem::Text(text) | McpItem::Json(text) => block(text),
                };
                return PyList::new(py, items.into_iter().map(block).collect::<PyResult<Vec<_>>>()?);
            }
            None => python(py, "compact_json", (value,))?,
        },
    };
    PyList::new(py, [block(text)?])
}

fn output_of<'py>(part: Fields<'_, 'py>) -> PyResult<Output<'py>> {
    let py = part.as_any().py();
    let output = part.get(interned!(py, "output"))?;
    if output.is_none() {
        // Version 4's.
        let content = match parts_of_result(part)? {
            Some(items) => items_as_content(py, Some(&items))?,
            None => as_texts(py, part.get(interned!(py, "result"))?, "")?,
        };
        return Ok((content, part.is_set(interned!(py, "isError"))?));
    }
    let Some(of) = output.as_ref().and_then(Fields::of) else { return Ok((as_texts(py, output, "")?, false)) };
    let value = of.get(interned!(py, "value"))?;
    match of.kind()?.name().as_ref() {
        "text" | "json" => Ok((as_texts(py, value, "null")?, false)),
        "error-text" | "error-json" => Ok((as_texts(py, value, "null")?, true)),
        "execution-denied" => Ok((as_texts(py, of.get(interned!(py, "reason"))?, DENIED)?, true)),
        "content" => Ok((items_as_content(py, value.as_ref())?, false)),
        _ => Ok((as_texts(py, output, "")?, false)),
    }
}

/// The texts and media of a result.
fn items_as_content<'py>(py: Python<'py>, items: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
    let content = PyList::empty(py);
    for item in listed(items)? {
        match Fields::of(&item) {
            Some(of) if !matches!(of.kind()?.name().as_ref(), "text" | "custom") => content.append(medium(of)?)?,
            _ => content.append(item)?,
        }
    }
    Ok(content)
}

fn said_by<'py>(part: Fields<'_, 'py>, state: State) -> PyResult<Output<'py>> {
    let py = part.as_any().py();
    Ok(match state {
        State::Error => (as_texts(py, part.get(interned!(py, "errorText"))?, "")?, true),
        State::Denied => (as_texts(py, denial(part)?, DENIED)?, true),
        _ => (as_texts(py, part.get(interned!(py, "output"))?, "null")?, false),
    })
}

/// A medium. One that only a provider has isn't a block that any other accepts.
fn medium<'py>(part: Fields<'_, 'py>) -> PyResult<Bound<'py, PyDict>> {
    let py = part.as_any().py();
    let mut data = None;
    for key in [interned!(py, "image"), interned!(py, "data"), interned!(py, "url")] {
        data = data.or(part.get(key)?);
    }
    if let Some(of) = data.as_ref().and_then(Fields::of) {
        let key = if of.kind()?.name() == "url" { interned!(py, "url") } else { interned!(py, "data") };
        data = of.get(key)?;
    }
    let kind = part.kind()?;
    let Some(data) = data else { return Ok(dict!(py, "type": kind.0)) };
    let is_image = kind.name().starts_with("image");
    let default = if is_image { "image/png" } else { "application/octet-stream" };
    let media_type = match part.text(interned!(py, "mediaType"))? {
        None => part.text(interned!(py, "mimeType"))?, // MCP's
        known => known,
    };
    let media_type = media_type.unwrap_or_else(|| PyString::new(py, default));
    let is_image = is_image || text_of(&media_type).starts_with("image/");
    let source = match data.cast::<PyString>() {
        Ok(url) if text_of(url).contains(':') => dict!(py, "type": "url", "url": url),
        Ok(data) => dict!(py, "type": "base64", "media_type": media_type, "data": data),
        Err(_) if data.is_instance_of::<PyBytes>() || data.is_instance_of::<PyByteArray>() => {
            let data = py.import("base64")?.call_method1("b64encode", (data,))?.call_method1("decode", ("ascii",))?;
            dict!(py, "type": "base64", "media_type": media_type, "data": data)
        }
        Err(_) => return Ok(dict!(py, "type": kind.0)),
    };
    let block = dict!(py, "type": if is_image { "image" } else { "document" }, "source": source);
    if let Some(name) = part.text(interned!(py, "filename"))? {
        block.set_item(interned!(py, "title"), name)?;
    }
    Ok(block)
}
