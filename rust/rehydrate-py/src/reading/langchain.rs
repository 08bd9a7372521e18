//! LangChain's message objects, known by their attributes.
//!
//! One call may be in `tool_calls`, in a content block and in `additional_kwargs`. It is read once. A ToolMessage's
//! artifact is for the program and a RemoveMessage is an order to a graph's state: neither is read.
//!
//! LangChain sends one list to any provider. The rules are those of OpenAI chat, the model of its messages. A list that begins
//! with the user still does after parts are dropped, since some providers require it.
use std::collections::{HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rehydrate_core::conversation::{PieceKind, Role};

use super::blocks::{At, Body};
use super::call_inputs::Input;
use super::chat::function_id;
use super::columns::Columns;
use super::conversation::Conversation;
use super::draft::{Draft, Speaker};
use super::facts::{Facts, Notes};
use super::fields::{Fields, is_list, listed, text_of, wrong_content};
use super::pairs::program_of;
use super::strings::Id;
use super::thinking::{Rest, rest_of};
use super::usual_speaker;
use crate::errors::raise;
use crate::exit::Running;
use crate::interned::{Interned, interned};

/// Types of blocks that are calls, with the keys of id and input.
static CALL_BLOCKS: [(&str, Interned, Interned); 8] = [
    ("tool_use", Interned::new("id"), Interned::new("input")),
    ("tool_call", Interned::new("id"), Interned::new("args")),
    ("invalid_tool_call", Interned::new("id"), Interned::new("args")),
    ("function_call", Interned::new("call_id"), Interned::new("arguments")),
    ("custom_tool_call", Interned::new("call_id"), Interned::new("input")),
    ("server_tool_use", Interned::new("id"), Interned::new("input")),
    ("server_tool_call", Interned::new("id"), Interned::new("args")),
    ("mcp_tool_use", Interned::new("id"), Interned::new("input")),
];
const SERVER_BLOCKS: &[&str] = &["server_tool_use", "server_tool_call", "mcp_tool_use"];
const THINKING_BLOCKS: &[&str] = &["thinking", "reasoning", "reasoning_content", "redacted_thinking"];
const PARTIAL_BLOCKS: &[&str] = &["input_json_delta", "tool_call_chunk"];
/// Keys of the input of a call whose type is in no table, as OpenAI's computer or shell.
static ITEM_INPUTS: [Interned; 6] = [
    Interned::new("arguments"),
    Interned::new("input"),
    Interned::new("action"),
    Interned::new("actions"),
    Interned::new("operation"),
    Interned::new("code"),
];
/// Keys of the id in a result, written so by Anthropic, or by LangChain itself for a server's tools.
static RESULT_IDS: [Interned; 3] =
    [Interned::new("tool_use_id"), Interned::new("tool_call_id"), Interned::new("call_id")];
static THOUGHTS: [Interned; 4] = [
    Interned::new("thinking"),
    Interned::new("reasoning"),
    Interned::new("summary"),
    Interned::new("reasoning_content"),
];

/// Whether it is a LangChain message object, by the attributes that all of them have.
#[pyfunction]
pub fn is_langchain_message(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let _running = Running::begin();
    let py = value.py();
    for name in [interned!(py, "additional_kwargs"), interned!(py, "response_metadata"), interned!(py, "content")] {
        if !value.hasattr(name)? {
            return Ok(false);
        }
    }
    Ok(value.getattr_opt(interned!(py, "type"))?.is_some_and(|kind| kind.is_instance_of::<PyString>()))
}

/// The object. Raises InvalidMessageError unless it is a LangChain message.
pub fn as_message<'py>(value: &Bound<'py, PyAny>, index: usize) -> PyResult<Bound<'py, PyAny>> {
    if is_langchain_message(value)? {
        return Ok(value.clone());
    }
    let remedy = "convert it with rehydrate.formats.openai_to_langchain, or all others to dicts";
    Err(raise(value.py(), "InvalidMessageError", (index, "", value, "a LangChain message", remedy)))
}

/// A message, and the data read from all of it.
pub struct Message<'py> {
    entry: Bound<'py, PyAny>,
    pub speaker: Speaker<'py>,
    pub content: Option<Bound<'py, PyAny>>,
    extras: Option<Bound<'py, PyAny>>,
    pub calls: Vec<Call<'py>>,
    pub answers: Vec<Bound<'py, PyString>>,
}

/// A tool call; its input is a string if it isn't JSON, or was not parsed.
pub struct Call<'py> {
    pub id: Option<Bound<'py, PyString>>,
    pub name: Option<Bound<'py, PyAny>>,
    pub input: Option<Bound<'py, PyAny>>,
    pub by_server: bool,
}

impl<'py> Message<'py> {
    /// Read an object. None for an order to a graph's state. Raises InvalidMessageError unless it is a message.
    pub fn of(raw: &Bound<'py, PyAny>, index: usize) -> PyResult<Option<Self>> {
        let py = raw.py();
        let entry = as_message(raw, index)?;
        let kind = entry.getattr(interned!(py, "type"))?.cast_into::<PyString>()?;
        if text_of(&kind) == "remove" {
            return Ok(None);
        }
        let speaker = Speaker::of(langchain_role(&entry)?);
        let content = Some(entry.getattr(interned!(py, "content"))?).filter(|content| !content.is_none());
        let extras = Some(entry.getattr(interned!(py, "additional_kwargs"))?).filter(|of| Fields::of(of).is_some());
        let mut message = Self { entry, speaker, content, extras, calls: Vec::new(), answers: Vec::new() };
        if ["ai", "AI"].iter().any(|begin| text_of(&kind).starts_with(begin)) {
            for calls in [message.listed()?, message.among_blocks()?, message.as_openai_sent()?] {
                // By id. A call without an id is in every field too, or in none.
                let known = message.calls.iter().map(|call| call.key()).collect::<PyResult<HashSet<_>>>()?;
                for call in calls {
                    if !known.contains(&call.key()?) {
                        message.calls.push(call);
                    }
                }
            }
        }
        message.answers = message.read_answers()?;
        Ok(Some(message))
    }

    fn py(&self) -> Python<'py> {
        self.entry.py()
    }

    fn extra(&self, key: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.extras.as_ref().and_then(Fields::of).map_or(Ok(None), |extras| extras.get(key))
    }

    fn blocks(&self) -> PyResult<Vec<Bound<'py, PyAny>>> {
        mappings(self.content.as_ref())
    }

    fn listed(&self) -> PyResult<Vec<Call<'py>>> {
        let py = self.py();
        let mut made = Vec::new();
        for key in [interned!(py, "tool_calls"), interned!(py, "invalid_tool_calls")] {
            for call in mappings(self.entry.getattr_opt(key)?.as_ref())? {
                let Some(call) = Fields::of(&call) else { continue };
                let id = call.text(interned!(py, "id"))?;
                let (name, input) = (call.get(interned!(py, "name"))?, call.get(interned!(py, "args"))?);
                made.push(Call { id, name, input, by_server: false });
            }
        }
        Ok(made)
    }

    fn among_blocks(&self) -> PyResult<Vec<Call<'py>>> {
        let py = self.py();
        let blocks = self.blocks()?;
        let mut answered = HashSet::new();
        for block in blocks.iter().filter_map(Fields::of) {
            if is_result(&block.kind()?.name()) {
                answered.extend(block.text(interned!(py, "call_id"))?.map(bytes).transpose()?);
            }
        }
        let mut made = Vec::new();
        for block in blocks.iter().filter_map(Fields::of) {
            let Some((id, input)) = call_keys(block)? else { continue };
            let kind = block.kind()?;
            let id = block.text(id.get(py))?;
            let mut name = block.get(interned!(py, "name"))?;
            if !name.as_ref().map_or(Ok(false), |name| name.is_truthy())? {
                let item =
                    if is_known(&kind.name()) { None } else { kind.name().strip_suffix("_call").map(str::to_owned) };
                name = item.map(|item| PyString::new(py, &item).into_any());
            }
            let is_answered = id.clone().map(bytes).transpose()?.is_some_and(|id| answered.contains(&id));
            let by_server = SERVER_BLOCKS.contains(&kind.name().as_ref()) || is_answered;
            made.push(Call { id, name, input: block.get(input.get(py))?, by_server });
        }
        Ok(made)
    }

    /// The ids of the calls whose code made calls among its blocks.
    fn programs(&self) -> PyResult<Vec<Id>> {
        let blocks = if self.calls.is_empty() { Vec::new() } else { self.blocks()? };
        let programs = blocks.iter().filter_map(Fields::of).map(program_of).collect::<PyResult<Vec<_>>>()?;
        programs.into_iter().flatten().map(Id::of).collect()
    }

    fn as_openai_sent(&self) -> PyResult<Vec<Call<'py>>> {
        let py = self.py();
        let (name, arguments) = (interned!(py, "name"), interned!(py, "arguments"));
        let mut made = Vec::new();
        for call in mappings(self.extra(interned!(py, "tool_calls"))?.as_ref())? {
            let Some(call) = Fields::of(&call) else { continue };
            let function = call.get(interned!(py, "function"))?;
            if let Some(function) = function.as_ref().and_then(Fields::of) {
                let id = call.text(interned!(py, "id"))?;
                made.push(Call { id, name: function.get(name)?, input: function.get(arguments)?, by_server: false });
            }
        }
        let function = self.extra(interned!(py, "function_call"))?;
        if let Some(function) = function.as_ref().and_then(Fields::of)
            && let Some(of) = function.text(name)?
        {
            let input = function.get(arguments)?;
            made.push(Call { id: Some(function_id(&of)?), name: Some(of.into_any()), input, by_server: false });
        }
        Ok(made)
    }

    fn read_answers(&self) -> PyResult<Vec<Bound<'py, PyString>>> {
        let py = self.py();
        if self.speaker.role == Role::Tool {
            let answer = self.entry.getattr_opt(interned!(py, "tool_call_id"))?;
            if let Some(Ok(answer)) = answer.map(|answer| answer.cast_into::<PyString>()) {
                return Ok(vec![answer]);
            }
            let name = self.entry.getattr_opt(interned!(py, "name"))?;
            let name = name.and_then(|name| name.cast_into::<PyString>().ok());
            return name.iter().map(function_id).collect();
        }
        let mut answers = Vec::new();
        for block in self.blocks()?.iter().filter_map(Fields::of) {
            if !is_result(&block.kind()?.name()) {
                continue;
            }
            for key in &RESULT_IDS {
                if let Some(id) = block.get(key.get(py))?
                    && id.is_truthy()?
                {
                    answers.extend(id.cast_into::<PyString>().ok());
                    break;
                }
            }
        }
        Ok(answers)
    }

    /// Whether it only holds results.
    pub fn only_results(&self) -> PyResult<bool> {
        let length = self.content.as_ref().map_or(Ok(0), |content| content.len())?;
        Ok(!self.answers.is_empty() && self.answers.len() == length)
    }

    /// Read its texts and media into a body; raises InvalidMessageError.
    pub fn read(&self, body: &mut Body) -> PyResult<()> {
        let py = self.py();
        body.add(self.extra(interned!(py, "reasoning_content"))?, PieceKind::Thinking, None)?;
        let kind = if self.speaker.role == Role::Tool { PieceKind::ToolResult } else { PieceKind::Text };
        self.read_content(body, kind)?;
        body.add(self.extra(interned!(py, "refusal"))?, PieceKind::Text, None)?;
        // The outputs of a server's tools, and speech, of OpenAI's.
        if let Some(outputs) = self.extra(interned!(py, "tool_outputs"))? {
            body.add_readable(&outputs, PieceKind::ToolResult)?;
        }
        let audio = self.extra(interned!(py, "audio"))?;
        if let Some(speech) = audio.as_ref().and_then(Fields::of) {
            let transcript = interned!(py, "transcript");
            let said = if speech.has(transcript)? { speech.get(transcript)? } else { audio.clone() };
            said.map_or(Ok(()), |said| body.add_readable(&said, PieceKind::Text))?;
        }
        self.calls.iter().try_for_each(|call| body.add_input(py, call.name.as_ref(), call.input.as_ref()))
    }

    fn read_content(&self, body: &mut Body, kind: PieceKind) -> PyResult<()> {
        let py = self.py();
        let Some(content) = &self.content else { return Ok(()) };
        let path = PyTuple::new(py, ["content"])?;
        let at = At::Root(Some(&path), "content");
        if content.is_instance_of::<PyString>() {
            return body.add(Some(content.clone()), kind, Some(at));
        }
        if !is_list(content) {
            return Err(wrong_content(content, body.index, "content"));
        }
        for (number, part) in content.try_iter()?.enumerate() {
            let (part, here) = (part?, At::Number(&at, number));
            if part.is_instance_of::<PyString>() {
                body.add(Some(part), kind, Some(here))?;
            } else {
                let block = Fields::needed(&part, body.index, || here.words())?;
                read_block(body, block, kind, here, number)?;
            }
        }
        Ok(())
    }
}

impl Call<'_> {
    fn key(&self) -> PyResult<Option<Vec<u8>>> {
        self.id.clone().map(bytes).transpose()
    }
}

fn read_block<'py>(
    body: &mut Body,
    block: Fields<'_, 'py>,
    kind: PieceKind,
    at: At<'_, 'py>,
    number: usize,
) -> PyResult<()> {
    let py = block.as_any().py();
    let of = block.kind()?;
    let name = of.name();
    let content = interned!(py, "content");
    if matches!(name.as_ref(), "thinking" | "reasoning" | "reasoning_content") {
        for key in &THOUGHTS {
            let said = PyList::new(py, block.get(key.get(py))?)?;
            body.add_readable(&said, PieceKind::Thinking)?;
        }
        return Ok(());
    }
    if call_keys(block)?.is_some() || PARTIAL_BLOCKS.contains(&name.as_ref()) {
        return Ok(()); // read with the other calls of the message
    }
    let inner = block.get(content)?;
    if name == "tool_result" && inner.as_ref().and_then(Fields::of).is_none() {
        let path = (content, number, content).into_pyobject(py)?;
        return body.add_content(inner.as_ref(), PieceKind::ToolResult, At::Root(Some(&path), &at.words()));
    }
    if is_result(&name) {
        let said = if block.has(content)? { inner } else { block.get(interned!(py, "output"))? };
        return said.map_or(Ok(()), |said| body.add_readable(&said, PieceKind::ToolResult));
    }
    if name == "redacted_thinking" { Ok(()) } else { body.add_block(block, kind, at) }
}

fn is_result(kind: &str) -> bool {
    kind.ends_with("tool_result") || kind.ends_with("_output")
}

fn is_known(kind: &str) -> bool {
    CALL_BLOCKS.iter().any(|(name, ..)| *name == kind)
}

/// The keys of a call's id and input; None for a block that isn't a call. One of a type that is not in the table has a
/// `call_id`.
fn call_keys(block: Fields<'_, '_>) -> PyResult<Option<(&'static Interned, &'static Interned)>> {
    static CALL_ID: Interned = Interned::new("call_id");
    let kind = block.kind()?;
    if let Some((_, id, input)) = CALL_BLOCKS.iter().find(|(name, ..)| *name == kind.name()) {
        return Ok(Some((id, input)));
    }
    let py = block.as_any().py();
    if !kind.name().ends_with("_call") || block.text(CALL_ID.get(py))?.is_none() {
        return Ok(None);
    }
    for key in &ITEM_INPUTS {
        if block.has(key.get(py))? {
            return Ok(Some((&CALL_ID, key)));
        }
    }
    Ok(Some((&CALL_ID, &ITEM_INPUTS[0])))
}

fn mappings<'py>(value: Option<&Bound<'py, PyAny>>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    Ok(listed(value)?.into_iter().filter(|item| Fields::of(item).is_some()).collect())
}

fn bytes(id: Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    Ok(Id::of(id)?.as_bytes().to_vec())
}

/// A message without thinking blocks: itself, a copy, or None if nothing is left.
///
/// A message from OpenAI's Responses API stays as it is: its reasoning has an id, and other ids in it, also LangChain's own,
/// refer to that id.
pub fn without_thinking<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = entry.py();
    let (content, reasoning) = (interned!(py, "content"), interned!(py, "reasoning_content"));
    if text_of(&langchain_role(entry)?) != "assistant" {
        return Ok(Some(entry.clone()));
    }
    let said = entry.getattr(content)?;
    let rest = rest_of(Some(&said), THINKING_BLOCKS)?;
    for block in mappings(Some(&said))?.iter().filter_map(Fields::of) {
        if block.kind()?.name() == "reasoning" && block.text(interned!(py, "id"))?.is_some() {
            return Ok(Some(entry.clone()));
        }
    }
    let key = interned!(py, "additional_kwargs");
    let extras = entry.getattr(key)?;
    let extras = Fields::of(&extras);
    let is_set = |key| extras.map_or(Ok(false), |extras| extras.is_set(key));
    if matches!(rest, Rest::Same) && !is_set(reasoning)? {
        return Ok(Some(entry.clone()));
    }
    let says_nothing = matches!(rest, Rest::Nothing) || !said.is_truthy()?;
    let calls = Message::of(entry, 0)?.map(|message| message.calls).unwrap_or_default();
    if says_nothing && calls.is_empty() && !is_set(interned!(py, "refusal"))? {
        return Ok(None);
    }
    let (kept, update) = (PyDict::new(py), PyDict::new(py));
    for (name, value) in extras.map_or_else(|| Ok(Vec::new()), Fields::items)? {
        if !name.eq(reasoning)? {
            kept.set_item(name, value)?;
        }
    }
    match rest {
        Rest::Same => update.set_item(content, said)?,
        Rest::Nothing => update.set_item(content, PyList::empty(py))?,
        Rest::Left(left) => update.set_item(content, left)?,
    }
    update.set_item(key, kept)?;
    let options = PyDict::new(py);
    options.set_item("update", update)?;
    entry.call_method(interned!(py, "model_copy"), (), Some(&options)).map(Some)
}

/// The role of a message or chunk; a ChatMessage has its own.
pub fn langchain_role<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    let py = entry.py();
    let kind = entry.getattr(interned!(py, "type"))?;
    let kind = kind.call_method1("removesuffix", ("MessageChunk",))?.call_method0("lower")?.cast_into::<PyString>()?;
    let role = match text_of(&kind).as_ref() {
        "human" => interned!(py, "user").clone(),
        "ai" => interned!(py, "assistant").clone(),
        "chat" => {
            let role = entry.getattr_opt(interned!(py, "role"))?.and_then(|role| role.cast_into::<PyString>().ok());
            match role {
                Some(role) if !role.is_empty()? => usual_speaker(role).shown,
                _ => kind.clone(),
            }
        }
        _ => usual_speaker(kind.clone()).shown,
    };
    Ok(role)
}

/// Read a list of messages.
pub fn read_messages(entries: &Bound<'_, PyAny>) -> PyResult<Conversation> {
    let py = entries.py();
    let (mut draft, mut notes) = (Draft::with_capacity(entries.len()?), Notes::default());
    let (mut links, mut ignored) = (Vec::new(), Vec::new());
    let mut body = Body::default();
    let mut caller = None; // the calls that tool messages without an id answer
    for (index, raw) in entries.try_iter()?.enumerate() {
        let Some(message) = Message::of(&raw?, index)? else {
            ignored.push(index);
            continue;
        };
        body.begin(index);
        message.read(&mut body)?;
        let number = draft.len();
        if message.speaker.role != Role::Tool {
            caller = (!message.calls.is_empty()).then_some(number);
        } else if message.answers.is_empty() {
            links.extend(caller.map(|caller| (caller, number)));
        }
        let is_results = message.speaker.role == Role::User && message.only_results()?;
        body.owners = message.programs()?;
        let Message { speaker, calls, answers, .. } = message;
        let speaker = if is_results { Speaker::known(Role::Tool, interned!(py, "tool")) } else { speaker };
        (body.is_thoughtful, body.is_uncommon) = (true, true);
        body.calls = calls.into_iter().filter_map(|call| call.id).map(Id::of).collect::<PyResult<_>>()?;
        body.answers = answers.into_iter().map(Id::of).collect::<PyResult<_>>()?;
        notes.take(py, &mut body)?;
        draft.close(&mut body, &speaker, speaker.role == Role::User)?;
    }
    let facts = Facts { ignored, ..notes.facts("langchain") };
    let mut read = Conversation::of(Columns::group(draft, &links), facts);
    read.facts.user_first = read.begins_with_user();
    Ok(read)
}

/// Each call's id, name and input, with all paths of the input in the message, and whether it is free text; None for a
/// server's call, and for a call without an id.
pub fn langchain_inputs<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Vec<Option<Input<'py>>>> {
    let py = entry.py();
    let Some(message) = Message::of(entry, 0)? else { return Ok(Vec::new()) };
    let mut paths: HashMap<Vec<u8>, Vec<Bound<'py, PyTuple>>> = HashMap::new();
    let mut add = |id: Option<Bound<'py, PyString>>, path: PyResult<Bound<'py, PyTuple>>| {
        if let Some(id) = id {
            paths.entry(bytes(id)?).or_default().push(path?);
        }
        PyResult::Ok(())
    };
    let (tool_calls, id) = (interned!(py, "tool_calls"), interned!(py, "id"));
    for (number, call) in listed(message.entry.getattr_opt(tool_calls)?.as_ref())?.iter().enumerate() {
        if let Some(call) = Fields::of(call) {
            add(call.text(id)?, (tool_calls, number, "args").into_pyobject(py))?;
        }
    }
    let mut customs = HashSet::new();
    for (number, block) in listed(message.content.as_ref())?.iter().enumerate() {
        let Some(block) = Fields::of(block) else { continue };
        let kind = block.kind()?;
        if kind.name() == "custom_tool_call" {
            customs.extend(block.text(interned!(py, "call_id"))?.map(bytes).transpose()?);
        }
        if is_known(&kind.name())
            && !SERVER_BLOCKS.contains(&kind.name().as_ref())
            && let Some((id, input)) = call_keys(block)?
        {
            add(block.text(id.get(py))?, ("content", number, input.text()).into_pyobject(py))?;
        }
    }
    for (number, call) in listed(message.extra(tool_calls)?.as_ref())?.iter().enumerate() {
        let Some(call) = Fields::of(call) else { continue };
        let function = call.get(interned!(py, "function"))?;
        if function.as_ref().and_then(Fields::of).is_some() {
            let path = ("additional_kwargs", "tool_calls", number, "function", "arguments");
            add(call.text(id)?, path.into_pyobject(py))?;
        }
    }
    let shown = |call: Call<'py>| {
        let Some(id) = call.id.filter(|_| !call.by_server) else { return Ok(None) };
        let key = bytes(id.clone())?;
        let Some(paths) = paths.get(&key) else { return Ok(None) };
        let is_text = call.input.as_ref().is_some_and(|input| input.is_instance_of::<PyString>());
        let is_custom = is_text && customs.contains(&key);
        Ok(Some((Some(id), call.name, call.input, PyTuple::new(py, paths)?, is_custom)))
    };
    message.calls.into_iter().map(shown).collect()
}
