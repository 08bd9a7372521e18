//! Answers of Gemini. Only the first candidate is read.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString};

use super::{
    Any, Joins, Said, copied, get, grown, is_blank, items, joined, listed, name, new_id, nothing, set, unreadable,
};
use crate::writing::dict;

/// The kinds of a value that comes in pieces, but for null.
const VALUES: [&str; 3] = ["stringValue", "numberValue", "boolValue"];

/// A response, joined of chunks.
pub struct Content {
    head: Py<PyDict>,
    candidate: Py<PyDict>,
    parts: Vec<Py<PyDict>>,
}

impl Content {
    pub fn begin(py: Python<'_>) -> Self {
        Self { head: PyDict::new(py).unbind(), candidate: PyDict::new(py).unbind(), parts: Vec::new() }
    }

    /// Texts grow. A part with a signature stays as it came, as the API demands:
    /// <https://ai.google.dev/gemini-api/docs/thought-signatures>
    fn append(&mut self, part: &Any<'_>) -> PyResult<()> {
        let py = part.py();
        let part = copied(part)?;
        let call = get(&part, "functionCall")?;
        if let Some(last) = self.parts.last() {
            let last = last.bind(py);
            if let Some(begun) = set(last, "functionCall")?
                && set(&begun, "willContinue")?.is_some()
                && part.contains("functionCall")?
            {
                last.update(part.as_mapping())?;
                return last.set_item("functionCall", grown_call(copied(&begun)?, call.as_ref())?);
            }
            let is_same = match (get(last, "thought")?, get(&part, "thought")?) {
                (Some(one), Some(other)) => one.eq(other)?,
                (one, other) => one.is_none() && other.is_none(),
            };
            if is_same && is_plain_text(last)? && is_plain_text(&part)? {
                let text = last.as_any().get_item("text")?.add(part.as_any().get_item("text")?)?;
                return last.set_item("text", text);
            }
        }
        if let Some(call) = call.as_ref().filter(|call| call.contains("partialArgs").unwrap_or(false)) {
            part.set_item("functionCall", grown_call(PyDict::new(py), Some(call))?)?;
        }
        self.parts.push(part.unbind());
        Ok(())
    }
}

/// Whether a part is a text, and nothing else but perhaps a thought.
fn is_plain_text(part: &Bound<'_, PyDict>) -> PyResult<bool> {
    Ok(part.contains("text")? && part.len() == 1 + usize::from(part.contains("thought")?))
}

impl Joins for Content {
    fn add<'py>(&mut self, chunk: &Any<'py>) -> PyResult<Any<'py>> {
        let py = chunk.py();
        let head = self.head.bind(py);
        let usage = get(head, "usageMetadata")?.map_or_else(|| Ok(PyDict::new(py)), |usage| copied(&usage))?;
        if let Some(more) = get(chunk, "usageMetadata")? {
            usage.update(more.cast()?)?;
        }
        head.update(chunk.cast()?)?;
        head.set_item("usageMetadata", usage)?;
        let mut texts = Vec::new();
        for candidate in listed(chunk, "candidates")? {
            if set(&candidate, "index")?.is_some() {
                continue; // several candidates come mixed; 0 may be left out
            }
            self.candidate.bind(py).update(candidate.cast()?)?;
            if let Some(content) = set(&candidate, "content")? {
                for part in listed(&content, "parts")? {
                    texts.push(text_in(&part)?);
                    self.append(&part)?;
                }
            }
        }
        joined(py, texts)
    }

    fn body<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let body = self.head.bind(py).copy()?;
        if get(self.candidate.bind(py), "finishReason")?.is_none() {
            if !is_blocked(&body)? {
                return Ok(None);
            }
            body.set_item("candidates", PyList::empty(py))?; // a block may come after a text
            return Ok(Some(body));
        }
        let candidate = self.candidate.bind(py).copy()?;
        candidate.set_item("content", dict!(py, "role": "model", "parts": &self.parts))?;
        body.set_item("candidates", [candidate])?;
        Ok(Some(body))
    }
}

/// A call with the additions of a later part: `streamFunctionCallArguments` of Vertex AI,
/// <https://googleapis.github.io/js-genai/release_docs/interfaces/types.PartialArg.html>, read on 2026-11-27.
fn grown_call<'py>(grown: Bound<'py, PyDict>, more: Option<&Any<'py>>) -> PyResult<Bound<'py, PyDict>> {
    let py = grown.py();
    let args = set(&grown, "args")?.map_or_else(|| Ok(PyDict::new(py)), |args| copied(&args))?;
    if grown.contains("willContinue")? {
        grown.del_item("willContinue")?;
    }
    for (key, value) in more.map_or_else(|| Ok(Vec::new()), items)? {
        if key.eq("args")? {
            if value.is_truthy()? {
                args.update(value.cast()?)?;
            }
        } else if !key.eq("partialArgs")? {
            grown.set_item(key, value)?;
        }
    }
    let partial = more.map_or_else(|| Ok(Vec::new()), |more| listed(more, "partialArgs"))?;
    for each in partial {
        let mut value = py.None().into_bound(py);
        for kind in VALUES {
            if each.contains(kind)? {
                value = each.get_item(kind)?;
                break;
            }
        }
        if each.contains("nullValue")? {
            value = py.None().into_bound(py);
        } else if let Ok(number) = value.cast::<PyFloat>()
            && number.call_method0("is_integer")?.is_truthy()?
        {
            value = py.get_type::<PyInt>().call1((number,))?;
        }
        let path: String = each.get_item("jsonPath")?.extract()?;
        put(&args, &steps_of(&path), value)?;
    }
    grown.set_item("args", args)?;
    Ok(grown)
}

/// A step of the JSON path of an argument.
enum Step {
    Name(String),
    At(usize),
}

/// The steps of a path: `.name`, `[0]`, `['name']`, `["name"]`. Anything else is skipped.
fn steps_of(path: &str) -> Vec<Step> {
    let (mut steps, mut rest) = (Vec::new(), path);
    while let Some(start) = rest.find(['.', '[']) {
        rest = &rest[start..];
        let (step, length) = step_at(rest).map_or((None, 1), |(step, length)| (Some(step), length));
        steps.extend(step);
        rest = &rest[length..];
    }
    steps
}

/// The step at the beginning of a text, and how long it is.
fn step_at(text: &str) -> Option<(Step, usize)> {
    if let Some(name) = text.strip_prefix('.') {
        let name = &name[..name.find(['.', '[', ']']).unwrap_or(name.len())];
        return (!name.is_empty()).then(|| (Step::Name(name.to_owned()), 1 + name.len()));
    }
    for (opening, closing) in [("['", '\''), ("[\"", '"')] {
        if let Some(name) = text.strip_prefix(opening) {
            let name = &name[..name.find(closing)?];
            let end = opening.len() + name.len() + 1;
            return text[end..].starts_with(']').then(|| (Step::Name(name.to_owned()), end + 1));
        }
    }
    let (number, _) = text.strip_prefix('[')?.split_once(']')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (Step::At(number.parse().unwrap_or(usize::MAX)), number.len() + 2))
}

/// Set a value, and the objects on the way to it. A text grows.
fn put<'py>(args: &Bound<'py, PyDict>, steps: &[Step], value: Any<'py>) -> PyResult<()> {
    let py = args.py();
    if steps.is_empty() {
        return Err(PyValueError::new_err("the path of an argument leads nowhere"));
    }
    let mut at = args.clone().into_any();
    for (number, step) in steps.iter().enumerate() {
        let key = match step {
            Step::Name(name) => PyString::new(py, name).into_any(),
            Step::At(index) => {
                if at.len()? == *index {
                    at.call_method1("append", (py.None(),))?;
                }
                index.into_pyobject(py)?.into_any()
            }
        };
        let known = match step {
            Step::Name(_) => at.call_method1("get", (&key,))?,
            Step::At(_) => at.get_item(&key)?,
        };
        match steps.get(number + 1) {
            None if known.is_instance_of::<PyString>() => at.set_item(&key, grown(Some(known), value.clone())?)?,
            None => at.set_item(&key, &value)?,
            Some(Step::At(_)) if known.is_none() => at.set_item(&key, PyList::empty(py))?,
            Some(Step::Name(_)) if known.is_none() => at.set_item(&key, PyDict::new(py))?,
            Some(_) => {}
        }
        at = at.get_item(&key)?;
    }
    Ok(())
}

pub fn is_answer(body: &Any<'_>) -> PyResult<bool> {
    if let Some(candidates) = set(body, "candidates")? {
        let candidate = candidates.get_item(0)?;
        if set(&candidate, "content")?.is_some() || set(&candidate, "finishReason")?.is_some() {
            return Ok(true);
        }
    }
    is_blocked(body)
}

/// Whether the prompt was blocked; then there is no candidate.
fn is_blocked(body: &Any<'_>) -> PyResult<bool> {
    match set(body, "promptFeedback")? {
        Some(feedback) => Ok(set(&feedback, "blockReason")?.is_some()),
        None => Ok(false),
    }
}

pub fn read<'py>(body: &Any<'py>) -> PyResult<Said<'py>> {
    let py = body.py();
    let (usage, model, id) = (get(body, "usageMetadata")?, get(body, "modelVersion")?, get(body, "responseId")?);
    let Some(candidates) = set(body, "candidates")? else {
        let (entries, calls) = (Vec::new(), Vec::new());
        return Ok(Said { entries, text: nothing(py), calls, stop: "refusal", usage, model, id });
    };
    let candidate = candidates.get_item(0)?;
    let reason = name(&candidate, "finishReason")?;
    let stop = match reason.as_str() {
        "MAX_TOKENS" => "length",
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "SPII" | "PROHIBITED_CONTENT" | "MODEL_ARMOR" => "refusal",
        "IMAGE_SAFETY" | "IMAGE_RECITATION" | "IMAGE_PROHIBITED_CONTENT" => "refusal",
        _ => "answer",
    };
    let received = match set(&candidate, "content")? {
        Some(content) => listed(&content, "parts")?,
        None => Vec::new(),
    };
    let text = joined(py, received.iter().map(text_in).collect::<PyResult<_>>()?)?;
    let parts = resendable(&received, stop)?;
    let mut calls = Vec::new();
    for part in &parts {
        if part.contains("functionCall")? {
            calls.push(part.clone().into_any());
        }
    }
    // The model wrote an invalid call.
    let is_malformed = ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"].contains(&&*reason);
    if is_malformed && calls.is_empty() {
        let message = set(&candidate, "finishMessage")?.map_or(Ok(reason), |message| message.extract())?;
        return Err(unreadable(py, "gemini", &message));
    }
    for call in &calls {
        if set(&call.get_item("functionCall")?, "name")?.is_none() {
            return Err(unreadable(py, "gemini", "a call without a name"));
        }
    }
    let entries =
        if parts.is_empty() { Vec::new() } else { vec![dict!(py, "role": "model", "parts": parts).into_any()] };
    Ok(Said { entries, text, calls, stop, usage, model, id })
}

/// The parts of an answer that the API accepts in a request. Calls get ids.
///
/// It drops parts without content, calls of an answer that was refused, and thoughts without a signature at the end,
/// which nothing follows. A signature alone gets an empty text: a part must have data.
fn resendable<'py>(parts: &[Any<'py>], stop: &str) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let mut kept: Vec<Bound<'py, PyDict>> = Vec::new();
    for part in parts {
        let fields = copied(part)?;
        let is_signed = fields.contains("thoughtSignature")?;
        let has_data = fields.len() > usize::from(fields.contains("thought")?) + usize::from(is_signed);
        let only_text =
            fields.len() == usize::from(fields.contains("thought")?) + usize::from(fields.contains("text")?);
        if !is_signed && only_text && set(&fields, "text")?.is_none() {
            continue;
        }
        let fields = if has_data {
            fields
        } else {
            let with_text = dict!(part.py(), "text": "");
            with_text.update(fields.as_mapping())?;
            with_text
        };
        if stop != "refusal" || fields.contains("text")? {
            kept.push(fields);
        }
    }
    while let Some(last) = kept.last() {
        if set(last, "thought")?.is_none() || last.contains("thoughtSignature")? {
            break;
        }
        kept.pop();
    }
    let mut says_nothing = true;
    for part in &kept {
        if let Some(call) = get(part, "functionCall")?
            && set(&call, "id")?.is_none()
        {
            let call = copied(&call)?;
            call.set_item("id", new_id(part.py())?)?;
            part.set_item("functionCall", call)?;
        }
        says_nothing &= part.contains("text")? && is_blank(&text_in(part)?)?;
    }
    Ok(if says_nothing { Vec::new() } else { kept })
}

fn text_in<'py>(part: &Any<'py>) -> PyResult<Any<'py>> {
    if set(part, "thought")?.is_some() { Ok(nothing(part.py())) } else { super::shown(part, "text") }
}
