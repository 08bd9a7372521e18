//! A message in any format: its role, and its texts with the inputs of tools and their results.
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyString};
use rehydrate_core::sessions::{stripped, without_elements};

use crate::checks::is_number;
use crate::convert::Places;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{Fields, json_value, string_of};
use crate::writing::dict;

pub type Value<'py> = Bound<'py, PyAny>;

const CALLS: [&str; 2] = ["function_call", "custom_tool_call"];
const RESULTS: [&str; 2] = ["function_call_output", "custom_tool_call_output"];
/// Elements that a harness writes into the user's messages, and the beginnings of other elements' names.
const HARNESS: &[u8] = b"system-reminder";
const HARNESS_BEGINNINGS: [&[u8]; 3] = [b"command-", b"local-command-", b"bash-"];
/// Values are read to this depth.
const MAX_DEPTH: usize = 500;

/// The API message itself. A transcript entry holds it under `message`, and a message queued while the agent worked
/// under `attachment`. A line of Codex holds its item under `payload`, and its summary there.
#[pyfunction]
pub fn payload<'py>(message: &Value<'py>) -> PyResult<Value<'py>> {
    let _running = Running::begin();
    let (py, fields) = (message.py(), mapping(message)?);
    if !fields.has(interned!(py, "role"))?
        && let Some(item) = inner(fields, "payload")?
    {
        if !is_type(fields, "compacted")? {
            return Ok(item);
        }
        let content = mapping(&item)?.get(interned!(py, "message"))?;
        return Ok(dict!(py, "role": "user", "content": content).into_any());
    }
    if !fields.has(interned!(py, "message"))?
        && let Some(queued) = inner(fields, "attachment")?
    {
        let content = mapping(&queued)?.get(interned!(py, "prompt"))?;
        return Ok(dict!(py, "role": "user", "content": content).into_any());
    }
    Ok(inner(fields, "message")?.unwrap_or_else(|| message.clone()))
}

/// The role as it is written. For an item of OpenAI Responses, that of its type.
#[pyfunction]
pub fn role_of(message: &Value<'_>) -> PyResult<String> {
    let _running = Running::begin();
    Body::of(message)?.role()
}

/// All text of a message: text, tool calls with their inputs, tool results.
///
/// Thinking is left out, since providers drop it, and so is everything that is not text.
#[pyfunction]
pub fn text_of(message: &Value<'_>) -> PyResult<String> {
    let _running = Running::begin();
    Body::of(message)?.text()
}

/// The values that a message passes to tools, one per line, without the names of parameters.
#[pyfunction]
pub fn tool_inputs(message: &Value<'_>) -> PyResult<String> {
    let _running = Running::begin();
    Body::of(message)?.input_text()
}

/// The user's own words in a message, without tool results and a harness's additions.
#[pyfunction]
pub fn user_text(message: &Value<'_>) -> PyResult<String> {
    let _running = Running::begin();
    let body = Body::of(message)?;
    if body.role()? != "user" || !is_of_user(message)? {
        return Ok(String::new());
    }
    let py = message.py();
    let mut texts = Vec::new();
    let content = mapping(&body.0)?.get(interned!(py, "content"))?;
    match content.filter(|content| content.is_instance_of::<PyString>()) {
        Some(content) => texts.push(utf8(&content)?),
        None => {
            for block in listed(mapping(&body.0)?, "content")? {
                if let Some(text) = mapping(&block)?.text(interned!(py, "text"))? {
                    texts.push(utf8(&text)?);
                }
            }
        }
    }
    let said = texts.join("\n");
    let own = without_elements(said.as_bytes(), |name| {
        let is_word = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_lowercase);
        name == HARNESS || HARNESS_BEGINNINGS.iter().any(|begin| name.strip_prefix(*begin).is_some_and(is_word))
    });
    Ok(stripped(&String::from_utf8_lossy(&own)).to_owned())
}

/// Whether a message is an agent's summary, written when its window was full.
#[pyfunction]
pub fn is_summary(message: &Value<'_>) -> PyResult<bool> {
    let _running = Running::begin();
    let (py, fields) = (message.py(), mapping(message)?);
    let mark = fields.get(interned!(py, "isCompactSummary"))?;
    let is_marked = mark.is_some_and(|mark| mark.cast::<PyBool>().is_ok_and(|mark| mark.is_true()));
    Ok(is_marked || (is_type(fields, "compacted")? && inner(fields, "payload")?.is_some()))
}

/// Whether the user, and no harness, wrote an entry.
fn is_of_user(message: &Value<'_>) -> PyResult<bool> {
    let (py, fields) = (message.py(), mapping(message)?);
    let queued = inner(fields, "attachment")?;
    let source = mapping(queued.as_ref().unwrap_or(message))?;
    let is_said = |fields: Fields<'_, '_>, key: &str, wanted: &str| -> PyResult<bool> {
        let key = PyString::new(py, key);
        if !fields.has(&key)? {
            return Ok(true);
        }
        fields.text(&key)?.map_or(Ok(false), |text| Ok(utf8(&text)? == wanted))
    };
    let is_human = match inner(source, "origin")? {
        Some(origin) => is_said(mapping(&origin)?, "kind", "human")?,
        None => true,
    };
    let is_prompt = is_said(source, "commandMode", "prompt")?;
    Ok(is_human && is_prompt && !fields.is_set(interned!(py, "isMeta"))? && !is_summary(message)?)
}

/// A message of an API, or a block that holds texts as one does.
pub struct Body<'py>(Value<'py>);

impl<'py> Body<'py> {
    pub fn of(message: &Value<'py>) -> PyResult<Self> {
        payload(message).map(Self)
    }

    pub fn role(&self) -> PyResult<String> {
        let fields = mapping(&self.0)?;
        let kind = kind(fields)?;
        if CALLS.contains(&kind.as_str()) || kind == "reasoning" {
            return Ok("assistant".to_owned());
        }
        if RESULTS.contains(&kind.as_str()) {
            return Ok("tool".to_owned());
        }
        shown(fields, "role")
    }

    /// The id under a key, if it is a string.
    pub fn id(&self, key: &str) -> PyResult<Option<String>> {
        mapping(&self.0)?.text(&PyString::new(self.0.py(), key))?.map(|id| utf8(&id)).transpose()
    }

    /// Whether it answers a tool call.
    pub fn is_result(&self) -> PyResult<bool> {
        Ok(self.role()? == "tool" || !self.blocks_of("tool_result")?.is_empty())
    }

    pub fn is_call_item(&self) -> PyResult<bool> {
        Ok(CALLS.contains(&kind(mapping(&self.0)?)?.as_str()))
    }

    pub fn is_result_item(&self) -> PyResult<bool> {
        Ok(RESULTS.contains(&kind(mapping(&self.0)?)?.as_str()))
    }

    pub fn is_reasoning(&self) -> PyResult<bool> {
        is_type(mapping(&self.0)?, "reasoning")
    }

    pub fn texts(&self) -> PyResult<Vec<String>> {
        let mut texts = Vec::new();
        add_texts(&mut texts, mapping(&self.0)?, MAX_DEPTH)?;
        Ok(texts)
    }

    /// The values that it passes to tools.
    pub fn inputs(&self) -> PyResult<Vec<String>> {
        let (fields, mut leaves) = (mapping(&self.0)?, Vec::new());
        for block in self.blocks_of("tool_use")? {
            if let Some(input) = mapping(&block)?.get(interned!(block.py(), "input"))? {
                add_leaves(&mut leaves, &input, MAX_DEPTH)?;
            }
        }
        for function in functions(fields)? {
            add_arguments(&mut leaves, mapping(&function)?)?;
        }
        Ok(leaves)
    }

    /// All its text.
    pub fn text(&self) -> PyResult<String> {
        Ok(self.texts()?.join("\n"))
    }

    /// The values that it passes to tools, one a line.
    pub fn input_text(&self) -> PyResult<String> {
        Ok(self.inputs()?.join("\n"))
    }

    /// The values that it passes to tools, and the texts of the results in it.
    pub fn tool_texts(&self) -> PyResult<String> {
        if self.role()? == "tool" {
            return self.text();
        }
        let mut texts = self.inputs()?;
        for block in self.blocks_of("tool_result")? {
            add_texts(&mut texts, mapping(&block)?, MAX_DEPTH)?;
        }
        Ok(texts.join("\n"))
    }

    fn blocks_of(&self, wanted: &str) -> PyResult<Vec<Value<'py>>> {
        let mut blocks = Vec::new();
        for block in listed(mapping(&self.0)?, "content")? {
            if is_type(mapping(&block)?, wanted)? {
                blocks.push(block);
            }
        }
        Ok(blocks)
    }
}

fn add_texts(texts: &mut Vec<String>, body: Fields<'_, '_>, depth: usize) -> PyResult<()> {
    let py = body.as_any().py();
    let content = body.get(interned!(py, "content"))?;
    if let Some(text) = content.filter(|content| content.is_instance_of::<PyString>()) {
        texts.push(utf8(&text)?);
    }
    for block in listed(body, "content")? {
        let block = mapping(&block)?;
        match kind(block)?.as_str() {
            "tool_use" => {
                texts.push(shown(block, "name")?);
                if let Some(input) = block.get(interned!(py, "input"))? {
                    add_leaves(texts, &input, MAX_DEPTH)?;
                }
            }
            "tool_result" if depth > 0 => add_texts(texts, block, depth - 1)?,
            "thinking" | "redacted_thinking" | "tool_result" => {}
            _ => {
                if let Some(text) = block.text(interned!(py, "text"))? {
                    texts.push(utf8(&text)?);
                }
            }
        }
    }
    for function in functions(body)? {
        let function = mapping(&function)?;
        texts.push(shown(function, "name")?);
        add_arguments(texts, function)?;
    }
    match body.get(interned!(py, "output"))? {
        Some(output) if depth > 0 => add_texts(texts, mapping(&dict!(py, "content": output).into_any())?, depth - 1),
        _ => Ok(()),
    }
}

/// The functions that a message calls in addition to its content, or that it is a call of.
fn functions<'py>(body: Fields<'_, 'py>) -> PyResult<Vec<Value<'py>>> {
    let mut called = Vec::new();
    for call in listed(body, "tool_calls")? {
        called.extend(inner(mapping(&call)?, "function")?);
    }
    if CALLS.contains(&kind(body)?.as_str()) {
        called.push(body.as_any().clone());
    }
    Ok(called)
}

/// Add the arguments of a call; the raw text if it is not JSON.
fn add_arguments(leaves: &mut Vec<String>, function: Fields<'_, '_>) -> PyResult<()> {
    let py = function.as_any().py();
    let key = interned!(py, "arguments");
    let key = if function.has(key)? { key } else { interned!(py, "input") };
    let Some(raw) = function.get(key)? else { return Ok(()) };
    let decoded = if raw.is_instance_of::<PyString>() { json_value(&raw)? } else { None };
    add_leaves(leaves, decoded.as_ref().unwrap_or(&raw), MAX_DEPTH)
}

/// Add the texts and numbers in a JSON value, without its keys.
fn add_leaves(leaves: &mut Vec<String>, value: &Value<'_>, depth: usize) -> PyResult<()> {
    if value.is_instance_of::<PyString>() {
        leaves.push(utf8(value)?);
    } else if is_number(value) {
        leaves.push(utf8(string_of(value)?.as_any())?);
    } else if depth > 0 {
        let inside = match Fields::of(value) {
            Some(fields) => fields.items()?.into_iter().map(|(_, value)| value).collect(),
            None => value.cast::<PyList>().map_or_else(|_| Vec::new(), |list| list.iter().collect()),
        };
        for value in inside {
            add_leaves(leaves, &value, depth - 1)?;
        }
    }
    Ok(())
}

fn mapping<'a, 'py>(value: &'a Value<'py>) -> PyResult<Fields<'a, 'py>> {
    Fields::needed(value, 0, String::new)
}

/// The mapping under a key.
fn inner<'py>(fields: Fields<'_, 'py>, key: &str) -> PyResult<Option<Value<'py>>> {
    let found = fields.get(&PyString::new(fields.as_any().py(), key))?;
    Ok(found.filter(|value| Fields::of(value).is_some()))
}

/// The mappings in the list under a key.
fn listed<'py>(fields: Fields<'_, 'py>, key: &str) -> PyResult<Vec<Value<'py>>> {
    let found = fields.get(&PyString::new(fields.as_any().py(), key))?;
    let list = found.as_ref().and_then(|value| value.cast::<PyList>().ok());
    Ok(list.map_or_else(Vec::new, |list| list.iter().filter(|value| Fields::of(value).is_some()).collect()))
}

fn kind(fields: Fields<'_, '_>) -> PyResult<String> {
    Ok(fields.kind()?.name().into_owned())
}

fn is_type(fields: Fields<'_, '_>, wanted: &str) -> PyResult<bool> {
    Ok(fields.kind()?.name() == wanted)
}

/// The value under a key as `str` shows it; "" without one.
fn shown(fields: Fields<'_, '_>, key: &str) -> PyResult<String> {
    let value = fields.get(&PyString::new(fields.as_any().py(), key))?;
    value.map_or(Ok(String::new()), |value| utf8(string_of(&value)?.as_any()))
}

/// A string as UTF-8, with a character that belongs to nothing in place of each half of a surrogate pair.
fn utf8(text: &Value<'_>) -> PyResult<String> {
    Ok(text.extract::<Places>()?.as_str().to_owned())
}
