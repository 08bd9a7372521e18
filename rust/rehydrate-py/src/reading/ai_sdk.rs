//! The AI SDK's messages: a `ModelMessage`, whose parts are in `content`, and a `UIMessage`, whose parts are in `parts`.
//!
//! The types are those of `ai` 6 and 7 (2026-11, <https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message>). A tool
//! message of approvals alone names no call, so it belongs to the calls that it follows.
//!
//! A tool part of a UI message is a call and, once it has an output, its result too, so each UI message is a unit of
//! its own. Parts that `convertToModelMessages` does not send are not read: sources, steps, data, and an input that
//! still streams.
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};
use rehydrate_core::conversation::{PieceKind, Role};

use super::anthropic::check_calls;
use super::blocks::{At, Body};
use super::fields::{Fields, is_list, listed, python, text_of};
use super::inputs::is_signed;
use super::pairs::check_content;
use super::strings::Id;
use super::{Link, Read, speaker_of};
use crate::interned::interned;

/// The kind of a part.
#[derive(Clone, Copy, PartialEq)]
pub enum Is {
    Text,
    Thought,
    Medium,
    Call,
    Result,
    /// A tool part of a UI message.
    Tool,
    /// The question whether a call may be run, or the answer to it: the model gets neither.
    Approval,
    /// A provider's own, which no one else can read.
    Custom,
    /// Parts of a UI message that only the user sees.
    Unsent,
    Other,
}

/// The kind of a part, by its type.
pub fn part_is(kind: &str, is_ui: bool) -> Is {
    match kind {
        "text" => Is::Text,
        "reasoning" | "redacted-reasoning" => Is::Thought, // the second is version 4's
        "file" | "reasoning-file" => Is::Medium,
        "custom" => Is::Custom,
        "dynamic-tool" if is_ui => Is::Tool,
        "step-start" | "source-url" | "source-document" if is_ui => Is::Unsent,
        "tool-invocation" => Is::Other, // version 4
        _ if is_ui && kind.starts_with("tool-") => Is::Tool,
        _ if is_ui && kind.starts_with("data-") => Is::Unsent,
        _ if is_ui => Is::Other,
        "image" => Is::Medium,
        "tool-call" => Is::Call,
        "tool-result" => Is::Result,
        "tool-approval-request" | "tool-approval-response" => Is::Approval,
        _ => Is::Other,
    }
}

/// The state of a tool part of a UI message.
#[derive(Clone, Copy, PartialEq)]
pub enum State {
    /// Its input is not complete: it is not sent.
    Streaming,
    Open,
    /// The user has said whether it may be run.
    Responded,
    Output,
    Error,
    Denied,
    Unknown,
}

/// A call: of a part `tool-call`, or of a tool part of a UI message.
pub struct Call<'py> {
    pub id: Option<Bound<'py, PyString>>,
    pub name: Option<Bound<'py, PyAny>>,
    pub input: Option<Bound<'py, PyAny>>,
    /// The name of the field of the input.
    pub key: Bound<'py, PyString>,
    pub state: State,
    /// Whether the provider runs it.
    pub by_provider: bool,
}

impl<'py> Call<'py> {
    pub fn of(part: Fields<'_, 'py>, is_ui: bool) -> PyResult<Self> {
        let py = part.as_any().py();
        let kind = part.kind()?;
        let name = match kind.name().strip_prefix("tool-") {
            Some(name) if is_ui => Some(PyString::new(py, name).into_any()),
            _ => part.get(interned!(py, "toolName"))?,
        };
        let state = match part.text(interned!(py, "state"))?.as_ref().map(text_of).as_deref() {
            Some("input-streaming") => State::Streaming,
            Some("input-available" | "approval-requested") => State::Open,
            Some("approval-responded") if is_denied(part)? => State::Denied, // it gets no other result
            Some("approval-responded") => State::Responded,
            Some("output-available") => State::Output,
            Some("output-error") => State::Error,
            Some("output-denied") => State::Denied,
            _ => State::Unknown,
        };
        let (mut input, mut key) = (None, interned!(py, "input"));
        for name in [key, interned!(py, "rawInput"), interned!(py, "args")] {
            input = part.get(name)?; // `args` is version 4's
            if input.is_some() {
                key = name;
                break;
            }
        }
        let by_provider = part.is_set(interned!(py, "providerExecuted"))?;
        let id = part.text(interned!(py, "toolCallId"))?;
        Ok(Self { id, name, input, key: key.clone(), state, by_provider })
    }

    pub fn is_answered(&self) -> bool {
        matches!(self.state, State::Output | State::Error | State::Denied)
    }

    fn read(&self, body: &mut Body, py: Python<'py>) -> PyResult<()> {
        if let Some(id) = &self.id {
            body.calls.push(Id::of(id.clone())?);
        }
        let none = PyDict::new(py).into_any();
        body.add_input(py, self.name.as_ref(), Some(self.input.as_ref().unwrap_or(&none)))
    }
}

/// Read one message.
pub(super) fn read_message<'py>(body: &mut Body, raw: &Bound<'py, PyAny>) -> PyResult<Read<'py>> {
    let py = raw.py();
    let entry = Fields::needed(raw, body.index, String::new)?;
    let speaker = speaker_of(entry, body.index)?;
    let content = entry.get(interned!(py, "content"))?;
    if content.is_none() || !entry.is_small(2) {
        check_content(entry, body.index, content.as_ref())?;
        check_calls(entry, body.index)?;
    }
    let path = body.places.is_some().then(|| PyTuple::new(py, ["content"])).transpose()?;
    let at = At::Root(path.as_ref(), "content");
    let Some(parts) = content.as_ref().filter(|content| is_list(content)) else {
        let kind = if speaker.role == Role::Tool { PieceKind::ToolResult } else { PieceKind::Text };
        body.add_content(content.as_ref(), kind, at)?;
        return Ok(Read { speaker, link: Link::None });
    };
    let mut link = Link::None;
    for (number, part) in parts.try_iter()?.enumerate() {
        let (part, here) = (part?, At::Number(&at, number));
        if part.is_instance_of::<PyString>() {
            body.add(Some(part), PieceKind::Text, Some(here))?;
            continue;
        }
        let part = Fields::needed(&part, body.index, || here.words())?;
        match part_is(&part.kind()?.name(), false) {
            Is::Call => {
                link = Link::Calls;
                body.owners.extend(program_of(part)?.map(Id::of).transpose()?);
                Call::of(part, false)?.read(body, py)?;
            }
            Is::Result => read_result(body, part, here)?,
            Is::Approval => body.is_uncommon = true,
            is => read_said(body, part, is, here)?,
        }
    }
    Ok(Read { speaker, link })
}

/// The id of the call whose code made this one, as Anthropic's provider has it.
fn program_of<'py>(call: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyString>>> {
    let (py, mut value) = (call.as_any().py(), Some(call.as_any().clone()));
    let (options, provider) = (interned!(py, "providerOptions"), interned!(py, "anthropic"));
    for key in [options, provider, interned!(py, "caller"), interned!(py, "toolId")] {
        value = value.as_ref().and_then(Fields::of).map_or(Ok(None), |of| of.get(key))?;
    }
    Ok(value.and_then(|id| id.cast_into().ok()))
}

/// Read one UI message.
pub(super) fn read_ui_message<'py>(body: &mut Body, raw: &Bound<'py, PyAny>) -> PyResult<Read<'py>> {
    let py = raw.py();
    let entry = Fields::needed(raw, body.index, String::new)?;
    let speaker = speaker_of(entry, body.index)?;
    check_calls(entry, body.index)?;
    let parts = entry.get(interned!(py, "parts"))?;
    let content = entry.get(interned!(py, "content"))?;
    let path = body.places.is_some().then(|| PyTuple::new(py, ["parts"])).transpose()?;
    let at = At::Root(path.as_ref(), "parts");
    match parts.as_ref() {
        Some(parts) if is_list(parts) => {
            for (number, part) in parts.try_iter()?.enumerate() {
                let (part, here) = (part?, At::Number(&at, number));
                let part = Fields::needed(&part, body.index, || here.words())?;
                match part_is(&part.kind()?.name(), true) {
                    Is::Tool => read_tool(body, part, here)?,
                    is => read_said(body, part, is, here)?,
                }
            }
        }
        Some(text) => body.add_content(Some(text), PieceKind::Text, at)?,
        None => {
            // A message of a role and a text, as every provider takes it.
            let path = body.places.is_some().then(|| PyTuple::new(py, ["content"])).transpose()?;
            body.add_content(content.as_ref(), PieceKind::Text, At::Root(path.as_ref(), "content"))?;
        }
    }
    Ok(Read { speaker, link: Link::None })
}

/// Read a part that isn't a call or a result.
fn read_said<'py>(body: &mut Body, part: Fields<'_, 'py>, is: Is, at: At<'_, 'py>) -> PyResult<()> {
    let py = part.as_any().py();
    let text = || part.get(interned!(py, "text"));
    match is {
        Is::Text => {
            let is_free = body.places.is_some() && !is_signed(part.as_any())?;
            body.add(text()?, PieceKind::Text, is_free.then_some(At::Key(&at, "text")))
        }
        Is::Thought => {
            body.is_thoughtful = true;
            body.add(text()?, PieceKind::Thinking, None)
        }
        Is::Medium => match text_data(part)? {
            Some(text) => body.add(Some(text.into_any()), PieceKind::Text, None),
            None => body.add_medium(part.as_any()),
        },
        Is::Custom => {
            // It may be state of the provider, as a summary of its own.
            let kind = part.text(interned!(py, "kind"))?;
            (body.is_uncommon, body.has_unread) = (true, true);
            body.has_state |= kind.is_some_and(|kind| text_of(&kind).ends_with("compaction"));
            Ok(())
        }
        Is::Unsent => {
            body.is_uncommon = true;
            Ok(())
        }
        _ => body.add_block(part, PieceKind::Text, at),
    }
}

/// The text of a file whose data is one, as version 7 has it.
pub fn text_data<'py>(part: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyString>>> {
    let py = part.as_any().py();
    let data = part.get(interned!(py, "data"))?;
    match data.as_ref().and_then(Fields::of) {
        Some(data) if data.kind()?.name() == "text" => data.text(interned!(py, "text")),
        _ => Ok(None),
    }
}

fn read_result<'py>(body: &mut Body, part: Fields<'_, 'py>, at: At<'_, 'py>) -> PyResult<()> {
    let py = part.as_any().py();
    if let Some(id) = part.text(interned!(py, "toolCallId"))? {
        body.answers.push(Id::of(id)?);
    }
    let Some(output) = part.get(interned!(py, "output"))? else {
        // Version 4's.
        return match parts_of_result(part)? {
            Some(items) => read_items(body, Some(&items), At::Key(&at, "experimental_content")),
            None => read_value(body, part.get(interned!(py, "result"))?, At::Key(&at, "result")),
        };
    };
    let Some(of) = Fields::of(&output) else { return read_value(body, Some(output), At::Key(&at, "output")) };
    let value = of.get(interned!(py, "value"))?;
    let here = At::Key(&at, "output");
    let here = At::Key(&here, "value");
    match of.kind()?.name().as_ref() {
        "text" | "error-text" => body.add(value, PieceKind::ToolResult, Some(here)),
        "content" => read_items(body, value.as_ref(), here),
        "execution-denied" => body.add(of.get(interned!(py, "reason"))?, PieceKind::ToolResult, None),
        "json" | "error-json" => read_json(body, value, here),
        _ => read_json(body, Some(output.clone()), At::Key(&at, "output")),
    }
}

/// The parts of a result of version 4, which Anthropic's models get in place of its value; None where it has none.
pub fn parts_of_result<'py>(part: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let parts = part.get(interned!(part.as_any().py(), "experimental_content"))?;
    Ok(parts.filter(|parts| is_list(parts) && parts.len().is_ok_and(|count| count > 0)))
}

/// Read the texts and media of a result.
fn read_items<'py>(body: &mut Body, items: Option<&Bound<'py, PyAny>>, at: At<'_, 'py>) -> PyResult<()> {
    for (number, item) in listed(items)?.into_iter().enumerate() {
        let Some(item) = Fields::of(&item) else { continue };
        let (py, at) = (item.as_any().py(), At::Number(&at, number));
        match item.kind()?.name().as_ref() {
            "text" => {
                let text = item.get(interned!(py, "text"))?;
                body.add(text, PieceKind::ToolResult, Some(At::Key(&at, "text")))?;
            }
            "custom" => body.is_uncommon = true,
            _ => body.add_medium(item.as_any())?,
        }
    }
    Ok(())
}

fn read_tool<'py>(body: &mut Body, part: Fields<'_, 'py>, at: At<'_, 'py>) -> PyResult<()> {
    let py = part.as_any().py();
    let call = Call::of(part, true)?;
    if call.state == State::Streaming {
        body.is_uncommon = true;
        return Ok(());
    }
    call.read(body, py)?;
    if let Some(id) = call.id.clone().filter(|_| call.is_answered()) {
        body.answers.push(Id::of(id)?);
    }
    match call.state {
        State::Output => read_value(body, part.get(interned!(py, "output"))?, At::Key(&at, "output")),
        State::Error => {
            body.add(part.get(interned!(py, "errorText"))?, PieceKind::ToolResult, Some(At::Key(&at, "errorText")))
        }
        State::Denied => body.add(denial(part)?, PieceKind::ToolResult, None),
        _ => Ok(()),
    }
}

/// Whether the user did not let a call of a UI message be run.
fn is_denied(part: Fields<'_, '_>) -> PyResult<bool> {
    let py = part.as_any().py();
    let approval = part.get(interned!(py, "approval"))?;
    let approved = approval.as_ref().and_then(Fields::of).map_or(Ok(None), |of| of.get(interned!(py, "approved")))?;
    Ok(approved.is_some_and(|approved| approved.is(PyBool::new(py, false))))
}

/// Why the user did not let a call be run.
pub fn denial<'py>(part: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = part.as_any().py();
    let approval = part.get(interned!(py, "approval"))?;
    approval.as_ref().and_then(Fields::of).map_or(Ok(None), |approval| approval.get(interned!(py, "reason")))
}

/// Read a tool's result: a text as it is, anything else as JSON.
fn read_value<'py>(body: &mut Body, value: Option<Bound<'py, PyAny>>, at: At<'_, 'py>) -> PyResult<()> {
    match value {
        Some(value) if value.is_instance_of::<PyString>() => body.add(Some(value), PieceKind::ToolResult, Some(at)),
        value => read_json(body, value, at),
    }
}

fn read_json<'py>(body: &mut Body, value: Option<Bound<'py, PyAny>>, at: At<'_, 'py>) -> PyResult<()> {
    let Some(value) = value else { return Ok(()) };
    if let Some(items) = mcp_items(&value)? {
        let content = At::Key(&at, "content");
        for (number, item) in items.into_iter().enumerate() {
            let at = At::Number(&content, number);
            match item {
                McpItem::Image(image) => body.add_medium(&image)?,
                McpItem::Text(text) => body.add(Some(text), PieceKind::ToolResult, Some(At::Key(&at, "text")))?,
                McpItem::Json(text) => body.add(Some(text), PieceKind::ToolResult, None)?,
            }
        }
        return Ok(());
    }
    let text = python(value.py(), "compact_json", (value,))?;
    body.add(Some(text), PieceKind::ToolResult, None)
}

/// A part of the result of an MCP server's tool.
pub enum McpItem<'py> {
    Image(Bound<'py, PyAny>),
    Text(Bound<'py, PyAny>),
    /// The JSON of anything else.
    Json(Bound<'py, PyAny>),
}

/// The result of an MCP server's tool if it has an image: `@ai-sdk/mcp` (2026-11) sends it as one. None for every other
/// result, which is sent as JSON.
pub fn mcp_items<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Vec<McpItem<'py>>>> {
    let (py, mut has_image) = (value.py(), false);
    let Some(of) = Fields::of(value) else { return Ok(None) };
    let mut items = Vec::new();
    for item in listed(of.get(interned!(py, "content"))?.as_ref())? {
        let Some(of) = Fields::of(&item) else { return Ok(None) };
        let kind = of.kind()?;
        items.push(match kind.name().as_ref() {
            "image" if of.text(interned!(py, "data"))?.is_some() => {
                has_image = true;
                McpItem::Image(item)
            }
            "text" => match of.text(interned!(py, "text"))? {
                Some(text) => McpItem::Text(text.into_any()),
                None => McpItem::Json(python(py, "compact_json", (item,))?),
            },
            _ => McpItem::Json(python(py, "compact_json", (item,))?),
        });
    }
    Ok(has_image.then_some(items))
}
