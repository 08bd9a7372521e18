//! The requests of each provider, and the texts of ours in them.
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use super::neutral::dict;
use super::{ai_sdk, anthropic, bedrock, gemini, role_and_content};
use crate::convert::bytes_of;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{Fields, is_list};

/// A system block or message of a text.
pub fn system_part<'py>(provider: &str, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let py = text.py();
    let part = match provider {
        "anthropic" => anthropic::text_block(text)?,
        "bedrock" | "gemini" => dict!(py, "text": text),
        _ => role_and_content(py, "system", text)?,
    };
    Ok(part.into_any())
}

/// A message of the user's role for one of our texts, as in a provider's requests.
pub fn user_part<'py>(provider: &str, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyDict>> {
    match provider {
        "anthropic" => anthropic::user(text),
        "bedrock" => bedrock::user(text),
        "gemini" => gemini::user(text),
        _ => ai_sdk::user(text), // and OpenAI's
    }
}

/// A user's message in a format. `is_turn=False`: text that Rehydrate adds in the user's role, marked as not a turn of
/// the user if the format has such a mark.
#[pyfunction]
#[pyo3(signature = (text, format, *, is_turn=true))]
pub fn user_message<'py>(text: &Bound<'py, PyString>, format: &str, is_turn: bool) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    let py = text.py();
    let message = dict!(py, "role": "user", "content": text);
    let made = match format {
        "langchain" => return py.import("langchain_core.messages")?.getattr("HumanMessage")?.call1((text,)),
        "bedrock" => bedrock::user(text)?,
        "gemini" => gemini::user(text)?,
        "ai_sdk_ui" => ui_message(text, "user")?,
        "codex" => {
            let payload = dict!(py, "type": "message", "role": "user", "content": text);
            dict!(py, "type": "response_item", "payload": payload)
        }
        "claude_code" => {
            let line = dict!(py, "type": "user", "message": message);
            if !is_turn {
                line.set_item(interned!(py, "isMeta"), true)?;
            }
            line
        }
        _ => message,
    };
    Ok(made.into_any())
}

/// A UI message of the AI SDK's. Its id is that of its text: the same text has the same in each list.
fn ui_message<'py>(text: &Bound<'py, PyString>, role: &str) -> PyResult<Bound<'py, PyDict>> {
    let py = text.py();
    let written = PyBytes::new(py, &bytes_of(text)?);
    let number: u32 = py.import("zlib")?.call_method1("crc32", (written,))?.extract()?;
    let parts = PyList::new(py, [dict!(py, "type": "text", "text": text)])?;
    Ok(dict!(py, "id": format!("rehydrate-{number:08x}"), "role": role, "parts": parts))
}

/// A message of a summary in a format: the user's, with its text, or the assistant's, which acknowledges it.
#[pyfunction]
pub fn summary_message<'py>(text: &Bound<'py, PyString>, format: &str, role: &str) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    let py = text.py();
    let is_user = role == "user";
    let message = dict!(py, "role": role, "content": text);
    let made = match format {
        "openai_responses" => {
            let part = dict!(py, "type": if is_user { "input_text" } else { "output_text" }, "text": text);
            if !is_user {
                part.set_item(interned!(py, "annotations"), PyList::empty(py))?;
            }
            dict!(py, "type": "message", "role": role, "content": PyList::new(py, [part])?)
        }
        _ if is_user => return user_message(text, format, true),
        "langchain" => return py.import("langchain_core.messages")?.getattr("AIMessage")?.call1((text,)),
        "bedrock" => dict!(py, "role": role, "content": PyList::new(py, [dict!(py, "text": text)])?),
        "ai_sdk_ui" => ui_message(text, role)?,
        "gemini" => dict!(py, "role": "model", "parts": PyList::new(py, [dict!(py, "text": text)])?),
        "codex" => {
            let payload = dict!(py, "type": "message", "role": role, "content": text);
            dict!(py, "type": "response_item", "payload": payload)
        }
        "claude_code" => dict!(py, "type": role, "message": message),
        _ => message,
    };
    Ok(made.into_any())
}

/// The arguments of a provider's SDK: ``client.messages.create`` of Anthropic's, ``client.chat.completions.create`` and
/// ``client.responses.create`` of OpenAI's, ``client.converse``, Gemini's ``generateContent``, ``generateText``.
pub fn request_of<'py>(
    provider: &str,
    tools: &Bound<'py, PyList>,
    system: &Bound<'py, PyList>,
    messages: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = messages.py();
    let request = PyDict::new(py);
    let set = |name: &str, value: &Bound<'py, PyAny>| {
        if value.is_truthy()? { request.set_item(name, value) } else { Ok(()) }
    };
    match provider {
        "openai_chat" | "openai_responses" => {
            set("tools", tools)?;
            let all = system.as_sequence().concat(messages.as_sequence())?;
            request.set_item(if provider == "openai_chat" { "messages" } else { "input" }, all)?;
        }
        "bedrock" => {
            if !tools.is_empty() {
                request.set_item("toolConfig", dict!(py, "tools": flat(tools)?))?;
            }
            set("system", flat(system)?.as_any())?;
            request.set_item("messages", alternating(messages)?)?;
        }
        "gemini" => {
            if !system.is_empty() {
                request.set_item("systemInstruction", dict!(py, "parts": system))?;
            }
            set("tools", grouped(tools)?.as_any())?;
            request.set_item("contents", messages)?;
        }
        "ai_sdk" => {
            set("system", system)?;
            set("tools", by_name(tools)?.as_any())?;
            request.set_item("messages", messages)?;
        }
        _ => {
            set("tools", tools)?;
            set("system", system)?;
            request.set_item("messages", messages)?;
        }
    }
    Ok(request)
}

/// Converse's blocks. One with a cache point after it is a list.
fn flat<'py>(values: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
    let made = PyList::empty(values.py());
    for value in values {
        if is_list(&value) {
            for each in value.try_iter()? {
                made.append(each?)?;
            }
        } else {
            made.append(value)?;
        }
    }
    Ok(made)
}

/// Converse's messages, with several in a row of one role joined: user and assistant alternate.
pub fn alternating<'py>(messages: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
    let py = messages.py();
    let mut runs: Vec<(Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>)> = Vec::new();
    for message in messages {
        let role = message.get_item(interned!(py, "role"))?;
        match runs.last_mut() {
            Some((known, run)) if role.eq(&*known)? => run.push(message),
            _ => runs.push((role, vec![message])),
        }
    }
    let made = PyList::empty(py);
    for (_, run) in runs {
        if run.len() == 1 {
            made.append(&run[0])?;
            continue;
        }
        // Results are first in their message.
        let (mut results, mut others) = (Vec::new(), Vec::new());
        for each in &run {
            let content = each.get_item(interned!(py, "content"))?;
            for block in bedrock::blocks_of(py, Some(&content))? {
                let is_result = block.contains(interned!(py, "toolResult"))?;
                if is_result { &mut results } else { &mut others }.push(block);
            }
        }
        results.append(&mut others);
        let joined = PyDict::new(py);
        joined.update(run[0].cast()?)?;
        joined.set_item(interned!(py, "content"), PyList::new(py, results)?)?;
        made.append(joined)?;
    }
    Ok(made)
}

/// Gemini's tools: the declared functions in one group, then those that it runs itself.
fn grouped<'py>(tools: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
    let py = tools.py();
    let (declared, groups) = (PyList::empty(py), PyList::empty(py));
    for tool in tools {
        let is_declared = tool.contains(interned!(py, "name"))?;
        if is_declared { &declared } else { &groups }.append(tool)?;
    }
    if !declared.is_empty() {
        groups.insert(0, dict!(py, "functionDeclarations": declared))?;
    }
    Ok(groups)
}

/// The AI SDK's tools by their names, of which the host makes its own.
fn by_name<'py>(tools: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyDict>> {
    let py = tools.py();
    let named = PyDict::new(py);
    for tool in tools {
        let rest = PyDict::new(py);
        for (key, value) in Fields::of(&tool).map_or(Ok(Vec::new()), Fields::items)? {
            if !key.eq("name")? {
                rest.set_item(key, value)?;
            }
        }
        named.set_item(tool.get_item(interned!(py, "name"))?, rest)?;
    }
    Ok(named)
}
