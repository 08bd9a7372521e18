//! Writing Gemini's contents: from neutral messages, and from its own as they are sent.
use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyString};
use rehydrate_core::conversation::Role;

use super::bedrock::EMPTY;
use super::neutral::{Answer, Call, Key, Media, Message, Part, Sent, after, dict, joined, key_of, texts_of};
use super::system_apart::{Placed, placed_in};
use super::{Lost, Rendered};
use crate::interned::interned;
use crate::reading::gemini::parts_of;
use crate::reading::{Fields, is_blank, is_list, readable_texts, text_of};

/// The signature of a call that another model made. The API does not check it
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>, 2026-11), and from Gemini 3 on refuses a first call
/// without one.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// Media types by the end of an address.
const TYPES: [(&str, &str); 8] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("webp", "image/webp"),
    ("gif", "image/gif"),
    ("pdf", "application/pdf"),
    ("mp4", "video/mp4"),
    ("txt", "text/plain"),
];

/// A content with role and parts only; bytes are base64, as in JSON.
pub fn own<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = entry.py();
    let of = Fields::needed(entry, 0, String::new)?;
    let parts = of.get(interned!(py, "parts"))?;
    let (mut sent, mut is_same) = (Vec::new(), of.len()? == 2 && parts.as_ref().is_some_and(is_list));
    for part in parts_of(of, 0)? {
        let now =
            if part.is_instance_of::<PyString>() { dict!(py, "text": &part).into_any() } else { in_json(&part, 0)? };
        is_same &= now.is(&part);
        sent.push(now);
    }
    let role = of.get(interned!(py, "role"))?;
    if is_same && role.is_some() {
        return Ok(entry.clone());
    }
    let written = role.unwrap_or_else(|| interned!(py, "user").clone().into_any());
    let is_assistants = written.eq(interned!(py, "assistant"))?;
    let role = if is_assistants { interned!(py, "model").clone().into_any() } else { written };
    Ok(dict!(py, "role": role, "parts": PyList::new(py, sent)?).into_any())
}

/// A value with base64 for bytes, or the same one if it holds none.
fn in_json<'py>(value: &Bound<'py, PyAny>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
    const DEEPEST: usize = 5; // the data of a medium in a function's response
    let py = value.py();
    if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        let encoded = py.import("base64")?.call_method1("b64encode", (value,))?;
        return encoded.call_method1("decode", ("ascii",));
    }
    if depth == DEEPEST {
        return Ok(value.clone());
    }
    let mut is_same = true;
    let mut changed = |inner: &Bound<'py, PyAny>| {
        let now = in_json(inner, depth + 1)?;
        is_same &= now.is(inner);
        PyResult::Ok(now)
    };
    let made = if let Some(fields) = Fields::of(value) {
        let copy = PyDict::new(py);
        for (key, inner) in fields.items()? {
            copy.set_item(key, changed(&inner)?)?;
        }
        copy.into_any()
    } else if is_list(value) {
        let items = value.try_iter()?.map(|inner| changed(&inner?)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, items)?.into_any()
    } else {
        return Ok(value.clone());
    };
    Ok(if is_same { value.clone() } else { made })
}

/// A part of a text.
pub fn text_part<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(text.py(), "text": text))
}

/// Move the system contents out: those at the beginning become parts of `systemInstruction`, and each later one the user's,
/// never between calls and their responses.
pub fn without_system<'py>(py: Python<'py>, sent: Vec<Sent<'py>>) -> PyResult<Rendered<'py>> {
    let Placed { leading, rest } = placed_in(py, "gemini", &sent)?;
    let mut system = Vec::new();
    for each in &sent[..leading] {
        for part in parts_of(Fields::needed(&each.message, 0, String::new)?, 0)? {
            let text = Fields::of(&part).map(|part| part.text(interned!(py, "text"))).transpose()?.flatten();
            if text.is_none_or(|text| !is_blank(&text_of(&text))) {
                system.push(Sent { message: part, sources: each.sources.clone() });
            }
        }
    }
    let mut messages = Vec::with_capacity(sent.len());
    for (at, is_system) in rest {
        if !is_system {
            messages.push(sent[at].clone());
            continue;
        }
        let parts = parts_of(Fields::needed(&sent[at].message, 0, String::new)?, 0)?;
        let text = joined(interned!(py, "\n\n"), readable_texts(PyList::new(py, parts)?.as_any())?)?;
        if !is_blank(&text_of(&text)) {
            messages.push(Sent::new(user(&after("[system]\n", &text)?)?, &sent[at].sources));
        }
    }
    Ok(Rendered { system, messages, lost: Lost::default() })
}

/// A user's message of one text.
pub fn user<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyDict>> {
    content(text.py(), false, vec![text_part(text)?])
}

fn content<'py>(py: Python<'py>, is_models: bool, parts: Vec<Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(py, "role": if is_models { "model" } else { "user" }, "parts": PyList::new(py, parts)?))
}

/// Contents of Gemini's. A content with responses holds nothing else (2026-08,
/// <https://github.com/anomalyco/opencode/pull/43479>), so the user's other words follow in a content of their own, and
/// so do media in a result. A system entry among them becomes a user message that says it is one.
pub fn write<'py>(py: Python<'py>, messages: &[Message<'py>]) -> PyResult<Vec<Sent<'py>>> {
    let mut sent: Vec<Sent<'py>> = Vec::new();
    let mut tools: HashMap<Key, Bound<'py, PyAny>> = HashMap::new();
    for each in messages {
        if each.role == Role::System {
            sent.extend(each.as_users(py, user)?);
            continue;
        }
        let is_models = each.role == Role::Assistant;
        let (mut responses, mut parts, mut has_calls) = (Vec::new(), Vec::new(), false);
        for part in &each.parts {
            match part {
                Part::Text(text) => parts.push(text_part(text)?),
                Part::Media(of) => parts.push(medium(of)?),
                Part::Call(of) => {
                    tools.insert(key_of(of.id.as_ref())?, of.name.clone());
                    parts.push(call(py, of, !has_calls)?);
                    has_calls = true;
                }
                Part::Result(answer) => {
                    let name = tools.get(&key_of(answer.id.as_ref())?);
                    responses.push(response(py, answer, name)?);
                }
            }
        }
        let media = each.answers().flat_map(|answer| &answer.parts);
        let media: Vec<_> = media.filter_map(|part| if let Part::Media(of) = part { Some(of) } else { None }).collect();
        for of in media.into_iter().rev() {
            parts.insert(0, medium(of)?);
        }
        if each.role == Role::User && responses.is_empty() && parts.is_empty() {
            // No text is empty here, and without a user's content the model's calls may follow another content of the
            // model.
            parts.push(dict!(py, "text": EMPTY));
        }
        for (is_models, parts) in [(false, responses), (is_models, parts)] {
            if !parts.is_empty() {
                sent.push(Sent::new(content(py, is_models, parts)?, &each.sources));
            }
        }
    }
    Ok(sent)
}

fn call<'py>(py: Python<'py>, of: &Call<'py>, is_first: bool) -> PyResult<Bound<'py, PyDict>> {
    let call = dict!(py, "id": &of.id, "name": &of.name, "args": super::object(&of.input)?);
    let part = dict!(py, "functionCall": call);
    if is_first {
        part.set_item(interned!(py, "thoughtSignature"), NO_SIGNATURE)?;
    }
    Ok(part)
}

fn response<'py>(
    py: Python<'py>,
    answer: &Answer<'py>,
    name: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let text = texts_of(py, &answer.parts)?;
    let said = if answer.is_error { dict!(py, "error": text) } else { dict!(py, "output": text) };
    let unknown = PyString::new(py, "tool").into_any(); // its call is not there
    let response = dict!(py, "id": &answer.id, "name": name.unwrap_or(&unknown), "response": said);
    Ok(dict!(py, "functionResponse": response))
}

fn medium<'py>(media: &Media<'py>) -> PyResult<Bound<'py, PyDict>> {
    let py = media.url.py();
    let url = text_of(&media.url);
    if let Some((kind, data)) = Media::base64_in(&url) {
        return Ok(dict!(py, "inlineData": dict!(py, "mimeType": kind, "data": data)));
    }
    Ok(dict!(py, "fileData": dict!(py, "mimeType": media_type(media), "fileUri": &media.url)))
}

/// The media type of a medium: that of a data URL, or that of the ending of an address.
pub fn media_type(media: &Media<'_>) -> String {
    let url = text_of(&media.url);
    if let Some(kind) = Media::type_in(&url).filter(|kind| kind.contains('/')) {
        return kind.to_owned();
    }
    let path = url.split(['?', '#']).next().unwrap_or_default().to_lowercase();
    let known = TYPES.iter().find(|(end, _)| path.rsplit_once('.').is_some_and(|(_, of)| of == *end));
    known.map_or(if media.is_image { "image/jpeg" } else { "application/pdf" }, |(_, kind)| kind).to_owned()
}
