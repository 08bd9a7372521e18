//! The texts in a line of either agent: the user's own words, the assistant's, and the values that tools were called
//! with.
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::sessions::{Speaker, one_line, own_words, stripped};

use super::utf8;
use crate::checks::is_number;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{Fields, json_object, line_content, line_is_seen, line_is_users, listed, string_of, text_of};

/// The types of Codex' items in which something is said.
const CODEX_ITEMS: &[&str] = &["message", "function_call", "custom_tool_call", "local_shell_call"];
/// Values of tools are read to this depth.
const MAX_DEPTH: usize = 500;

/// The texts of a line, each after its speaker: "user", "assistant", or "call" of a tool.
#[pyfunction]
pub fn said_in(line: &Bound<'_, PyAny>) -> PyResult<Vec<(&'static str, String)>> {
    let _running = Running::begin();
    let said = said_by(Fields::needed(line, 0, String::new)?)?;
    Ok(said.into_iter().map(|(speaker, text)| (speaker.name(), text)).collect())
}

pub fn said_by(line: Fields<'_, '_>) -> PyResult<Vec<(Speaker, String)>> {
    let py = line.as_any().py();
    let mut said = Vec::new();
    if line.is_set(interned!(py, "isSidechain"))? || line.is_set(interned!(py, "isApiErrorMessage"))? {
        return Ok(said);
    }
    let Some(message) = message_of(line)? else { return Ok(said) };
    let Some(message) = Fields::of(&message) else { return Ok(said) };
    let body = Body::of(message)?;
    let mut add = |speaker, text: &str| {
        if !text.is_empty() {
            said.push((speaker, text.to_owned()));
        }
    };
    add(Speaker::User, &body.words_of_user(message)?);
    if body.is_by("assistant") {
        add(Speaker::Assistant, stripped(&body.texts()?.join("\n")));
    }
    for (name, values) in body.calls()? {
        said.push((Speaker::Call, stripped(&format!("{name} {}", one_line(&values))).to_owned()));
    }
    Ok(said)
}

/// The user's own words in a message or a line, without those that either agent adds.
#[pyfunction]
pub fn words_of_user(message: &Bound<'_, PyAny>) -> PyResult<String> {
    let _running = Running::begin();
    let message = Fields::needed(message, 0, String::new)?;
    Body::of(message)?.words_of_user(message)
}

/// The message or the item in a line of either agent, in the form of its API. A line of Claude Code stays around it.
/// None for any other line.
pub fn message_of<'py>(line: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, whole) = (line.as_any().py(), line.as_any());
    if line_is_seen(whole)? {
        return Ok(line_content(whole)?.map(|_| whole.clone()));
    }
    let is_item = line.kind()?.name() == "response_item";
    let item = if is_item { line.get(interned!(py, "payload"))? } else { Some(whole.clone()) };
    let Some(item) = item else { return Ok(None) };
    let is_said = match Fields::of(&item) {
        Some(item) => CODEX_ITEMS.contains(&item.kind()?.name().as_ref()),
        None => false,
    };
    Ok(is_said.then_some(item))
}

/// The message of the API in a line of either agent, or the message itself.
struct Body<'py> {
    role: Option<Bound<'py, PyString>>,
    content: Option<Bound<'py, PyAny>>,
    /// The item of Responses that it may be.
    item: Option<Bound<'py, PyAny>>,
}

impl<'py> Body<'py> {
    fn of(message: Fields<'_, 'py>) -> PyResult<Self> {
        let py = message.as_any().py();
        if !message.has(interned!(py, "role"))? {
            for key in [interned!(py, "message"), interned!(py, "payload")] {
                if let Some(inner) = message.get(key)?
                    && let Some(fields) = Fields::of(&inner)
                {
                    return Self::inside(fields);
                }
            }
            if let Some(queued) = message.get(interned!(py, "attachment"))?
                && let Some(queued) = Fields::of(&queued)
            {
                let content = queued.get(interned!(py, "prompt"))?;
                return Ok(Self { role: Some(interned!(py, "user").clone()), content, item: None });
            }
        }
        Self::inside(message)
    }

    fn inside(message: Fields<'_, 'py>) -> PyResult<Self> {
        let py = message.as_any().py();
        Ok(Self {
            role: message.text(interned!(py, "role"))?,
            content: message.get(interned!(py, "content"))?,
            item: Some(message.as_any().clone()),
        })
    }

    fn is_by(&self, role: &str) -> bool {
        self.role.as_ref().is_some_and(|own| text_of(own) == role)
    }

    /// The user's own words, in the message around it.
    fn words_of_user(&self, message: Fields<'_, '_>) -> PyResult<String> {
        if !self.is_by("user") || !line_is_users(message.as_any())? {
            return Ok(String::new());
        }
        let texts = match &self.content {
            Some(content) if content.is_instance_of::<PyString>() => vec![utf8(content.cast()?)?],
            _ => self.block_texts(|_| true)?,
        };
        Ok(own_words(&texts.join("\n")))
    }

    /// The texts of the assistant's content.
    fn texts(&self) -> PyResult<Vec<String>> {
        match &self.content {
            Some(content) if content.is_instance_of::<PyString>() => Ok(vec![utf8(content.cast()?)?]),
            _ => self.block_texts(|kind| matches!(kind, "text" | "output_text")),
        }
    }

    /// The texts of blocks of some types.
    fn block_texts(&self, is_read: fn(&str) -> bool) -> PyResult<Vec<String>> {
        let mut texts = Vec::new();
        for block in listed(self.content.as_ref())? {
            let Some(block) = Fields::of(&block) else { continue };
            if is_read(&block.kind()?.name())
                && let Some(text) = block.text(interned!(block.as_any().py(), "text"))?
            {
                texts.push(utf8(&text)?);
            }
        }
        Ok(texts)
    }

    /// The name of each tool that is called, and the values that it is called with.
    fn calls(&self) -> PyResult<Vec<(String, String)>> {
        let mut calls = Vec::new();
        if let Some(item) = self.item.as_ref().and_then(Fields::of) {
            let py = item.as_any().py();
            let name = || shown(item.get(interned!(py, "name"))?.as_ref());
            match item.kind()?.name().as_ref() {
                "function_call" => calls.push((name()?, self.arguments(item)?)),
                "custom_tool_call" => calls.push((name()?, shown(item.get(interned!(py, "input"))?.as_ref())?)),
                "local_shell_call" => calls.push(("shell".to_owned(), shell_command(item)?)),
                _ => {}
            }
        }
        for block in listed(self.content.as_ref())? {
            let Some(block) = Fields::of(&block) else { continue };
            let py = block.as_any().py();
            if block.kind()?.name() == "tool_use" {
                let name = shown(block.get(interned!(py, "name"))?.as_ref())?;
                let input = block.get(interned!(py, "input"))?;
                calls.push((name, input.map_or_else(|| Ok(String::new()), |input| values(&input, MAX_DEPTH))?));
            }
        }
        Ok(calls)
    }

    fn arguments(&self, item: Fields<'_, 'py>) -> PyResult<String> {
        let py = item.as_any().py();
        let Some(given) = item.get(interned!(py, "arguments"))? else { return Ok(String::new()) };
        let read = json_object(&given)?;
        values(read.as_ref().map_or(&given, |read| read.as_any()), MAX_DEPTH)
    }
}

fn shell_command(item: Fields<'_, '_>) -> PyResult<String> {
    let py = item.as_any().py();
    let action = item.get(interned!(py, "action"))?;
    let Some(action) = action.as_ref().and_then(Fields::of) else { return Ok(String::new()) };
    let words = listed(action.get(interned!(py, "command"))?.as_ref())?;
    Ok(words.iter().map(|word| shown(Some(word))).collect::<PyResult<Vec<_>>>()?.join(" "))
}

fn shown(value: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
    value.map_or_else(|| Ok(String::new()), |value| utf8(&string_of(value)?))
}

/// The texts and numbers in a JSON value, without the keys.
fn values(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<String> {
    if let Ok(text) = value.cast::<PyString>() {
        return utf8(text);
    }
    if is_number(value) {
        return shown(Some(value));
    }
    let inner = match Fields::of(value) {
        _ if depth == 0 => Vec::new(),
        Some(fields) => fields.items()?.into_iter().map(|(_, value)| value).collect(),
        None => listed(Some(value))?,
    };
    let texts = inner.iter().map(|value| values(value, depth - 1)).collect::<PyResult<Vec<_>>>()?;
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" "))
}
