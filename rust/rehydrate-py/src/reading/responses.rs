//! Items of OpenAI's Responses API: messages, reasoning, calls and outputs, each an entry of its own.
//!
//! One assistant message of other formats is several consecutive items here: the model's turn. Within a turn a
//! reasoning item and the items it led to are one unit, up to the next reasoning. From the first tool call on the rest
//! of the turn is one unit: the API refuses a reasoning item without the items that followed it, and those without
//! their reasoning. Outputs belong to the call with their `call_id`, not `id`, which names the item.
//!
//! Items that refer to data that only the provider holds are always kept: an `item_reference` and the items that
//! followed from it, the last `compaction`, and an output whose call was made in the response that
//! `previous_response_id` names.
//!
//! Server tools and items of unknown types are counted as text and pass through unchanged. An output that the provider made
//! itself (of a tool search, a program, a hosted shell) does not end the model's turn. The calls that a program makes belong
//! to it.
use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rehydrate_core::conversation::{PieceKind, Role};
use rehydrate_core::media::Vision;
use rehydrate_core::rules::openai_responses::{call_of, is_clients};

use super::blocks::{At, Body, STATE};
use super::columns::Columns;
use super::conversation::Conversation;
use super::draft::{Draft, Speaker};
use super::facts::{Facts, Notes};
use super::fields::{Fields, is_list, listed, text_of, wrong_content};
use super::model_turns::ModelTurns;
use super::pairs::{check_no_pair, program_of};
use super::readable::MEDIA;
use super::speaker_of;
use super::strings::Id;
use crate::interned::{Interned, interned};

/// Types of calls: the tool's name, if the item does not have it, and the key of its input.
static CALLS: [(&str, Option<&str>, Interned); 13] = [
    ("function_call", None, Interned::new("arguments")),
    ("custom_tool_call", None, Interned::new("input")),
    ("mcp_call", None, Interned::new("arguments")),
    ("mcp_approval_request", None, Interned::new("arguments")),
    ("computer_call", Some("computer"), Interned::new("action")),
    ("local_shell_call", Some("local_shell"), Interned::new("action")),
    ("shell_call", Some("shell"), Interned::new("action")),
    ("apply_patch_call", Some("apply_patch"), Interned::new("operation")),
    ("web_search_call", Some("web_search"), Interned::new("action")),
    ("file_search_call", Some("file_search"), Interned::new("queries")),
    ("code_interpreter_call", Some("code_interpreter"), Interned::new("code")),
    ("tool_search_call", Some("tool_search"), Interned::new("arguments")),
    ("program", Some("program"), Interned::new("code")),
];
/// Output fields of a server tool's call.
static OWN_RESULTS: [Interned; 4] =
    [Interned::new("output"), Interned::new("error"), Interned::new("results"), Interned::new("outputs")];
/// Other types of items.
const TYPES: &[&str] = &[
    "reasoning",
    "item_reference",
    "image_generation_call",
    "mcp_list_tools",
    "mcp_approval_response",
    "compaction",
    "compaction_summary",
];

/// Whether an item of this type sets what holds from there on (openai 3.54, 2026-11): it is the developer's.
pub fn is_setting(kind: &str) -> bool {
    matches!(kind, "additional_tools" | "compaction_trigger" | "configuration_update")
}

/// Whether only an item of Responses has this type.
pub fn is_type(kind: &str) -> bool {
    TYPES.contains(&kind) || is_setting(kind) || CALLS.iter().any(|(name, ..)| *name == kind)
}

/// One item.
pub struct Item<'py> {
    pub index: usize,
    pub entry: Bound<'py, PyAny>,
    /// Its type, `message` if it has none.
    pub kind: Bound<'py, PyString>,
    pub speaker: Speaker<'py>,
    /// The id of its call, or of the call that it answers.
    pub call: Option<Bound<'py, PyString>>,
    pub answer: Option<Bound<'py, PyString>>,
}

impl<'py> Item<'py> {
    /// Read the kind of an item. Raises InvalidMessageError.
    pub fn of(raw: &Bound<'py, PyAny>, index: usize) -> PyResult<Self> {
        let py = raw.py();
        let entry = Fields::needed(raw, index, String::new)?;
        let (role, type_of) = (interned!(py, "role"), entry.kind()?);
        let mut kind = type_of.0.unwrap_or_else(|| PyString::new(py, ""));
        if kind.is_empty()? && !entry.has(role)? && entry.text(interned!(py, "id"))?.is_some() {
            kind = interned!(py, "item_reference").clone(); // its type may be left out
        }
        let call_id = entry.text(interned!(py, "call_id"))?;
        let has_role = entry.has(role)?;
        let made = |kind, speaker, call, answer| Self { index, entry: raw.clone(), kind, speaker, call, answer };
        let name = text_of(&kind).into_owned();
        if matches!(name.as_str(), "" | "message") || (has_role && entry.has(interned!(py, "content"))?) {
            return Ok(made(interned!(py, "message").clone(), speaker_of(entry, index)?, None, None));
        }
        if is_setting(&name) {
            return Ok(made(kind, Speaker::known(Role::System, interned!(py, "system")), None, None));
        }
        let model = || Speaker::known(Role::Assistant, interned!(py, "assistant"));
        let tool = || Speaker::known(Role::Tool, interned!(py, "tool"));
        if name.ends_with("_output") {
            let mut answer = call_id;
            if name == "local_shell_call_output" && answer.is_none() {
                answer = entry.text(interned!(py, "id"))?;
            }
            return Ok(made(kind, if is_servers(entry)? { model() } else { tool() }, None, answer));
        }
        if name == "mcp_approval_response" {
            return Ok(made(kind, tool(), None, entry.text(interned!(py, "approval_request_id"))?));
        }
        let call = if name == "mcp_approval_request" { entry.text(interned!(py, "id"))? } else { call_id };
        Ok(made(kind, if has_role { speaker_of(entry, index)? } else { model() }, call, None))
    }

    fn fields(&self) -> PyResult<Fields<'_, 'py>> {
        Fields::needed(&self.entry, self.index, String::new)
    }
}

/// Whether the provider itself made this output, in the middle of the model's turn.
///
/// A hosted shell's output, and one of an unknown type, is the provider's if it has an `id`.
pub fn is_by_server(output: &Bound<'_, PyAny>) -> PyResult<bool> {
    is_servers(Fields::needed(output, 0, String::new)?)
}

fn is_servers(output: Fields<'_, '_>) -> PyResult<bool> {
    let py = output.as_any().py();
    let kind = output.kind()?;
    let name = kind.name();
    let kind = call_of(name.as_bytes());
    if matches!(kind, b"tool_search" | b"tool_search_call") {
        return match output.get(interned!(py, "execution"))? {
            Some(execution) => Ok(execution.cast::<PyString>().is_ok_and(|by| text_of(by) == "server")),
            None => Ok(output.get(interned!(py, "call_id"))?.is_none()),
        };
    }
    let is_known = is_clients(kind) && kind != b"shell_call";
    Ok(!is_known && output.text(interned!(py, "id"))?.is_some())
}

/// Items to read: each with its index, and whether it may be a turn of the user's own.
pub type Numbered<'py> = (usize, Bound<'py, PyAny>, bool);

/// Read items of a list in a format.
pub fn read_items<'py>(format: &str, numbered: &[Numbered<'py>], ignored: Vec<usize>) -> PyResult<Conversation> {
    let (mut draft, mut notes) = (Draft::with_capacity(numbered.len()), Notes::default());
    let mut turns = ModelTurns::default();
    let mut body = Body { vision: Vision::OpenAi, ..Body::default() };
    let items = numbered.iter().map(|(index, raw, _)| Item::of(raw, *index)).collect::<PyResult<Vec<_>>>()?;
    let bytes = |id: &Bound<'py, PyString>| PyResult::Ok(Id::of(id.clone())?.as_bytes().to_vec());
    let called = items.iter().filter_map(|item| item.call.as_ref()).map(bytes).collect::<PyResult<HashSet<_>>>()?;
    for (place, (item, (_, _, may_be_turn))) in items.iter().zip(numbered).enumerate() {
        turns.add(item, place);
        body.begin(item.index);
        read_item(&mut body, item)?;
        (body.is_thoughtful, body.is_uncommon) = (true, true);
        body.calls = item.call.iter().cloned().map(Id::of).collect::<PyResult<_>>()?;
        body.answers = item.answer.iter().cloned().map(Id::of).collect::<PyResult<_>>()?;
        // A program's call belongs to it, and an MCP server's to the request to approve it.
        let (py, entry) = (item.entry.py(), item.fields()?);
        let request = entry.text(interned!(py, "approval_request_id"))?;
        body.owners = program_of(entry)?.into_iter().chain(request).map(Id::of).collect::<PyResult<_>>()?;
        notes.take(py, &mut body)?;
        draft.close(&mut body, &item.speaker, item.speaker.role == Role::User && *may_be_turn)?;
        let refers = match &item.answer {
            Some(answer) => !called.contains(&bytes(answer)?),
            None => text_of(&item.kind) == "item_reference",
        };
        if refers {
            notes.bound.insert(item.index);
        }
    }
    let facts = Facts { ignored, ..notes.facts(format) };
    Ok(Conversation::of(Columns::group(draft, &turns.links), facts))
}

/// Read the texts and media of an item into a body. Raises InvalidMessageError.
pub fn read_item<'py>(body: &mut Body, item: &Item<'py>) -> PyResult<()> {
    let py = item.entry.py();
    let entry = item.fields()?;
    let kind = text_of(&item.kind);
    let kind = kind.as_ref();
    check_own(entry, body.index, String::new)?;
    if kind == "message" {
        return read_parts(body, entry, "content", PieceKind::Text);
    }
    if let Some((_, tool, key)) = CALLS.iter().find(|(name, ..)| *name == kind) {
        let mut input = entry.get(key.get(py))?;
        if input.is_none() && kind == "computer_call" {
            input = entry.get(interned!(py, "actions"))?;
        }
        let name = match tool {
            Some(tool) => Some(PyString::new(py, tool).into_any()),
            None => entry.get(interned!(py, "name"))?,
        };
        body.add_input(py, name.as_ref(), input.as_ref())?;
        return OWN_RESULTS.iter().try_for_each(|key| read_own_result(body, entry.get(key.get(py))?));
    }
    let (is_output, role) = (kind.ends_with("_output"), item.speaker.role);
    match kind {
        _ if is_output && role == Role::Assistant => {
            // None of it may change: its turn is the provider's.
            let said = PyDict::new(py);
            for (key, value) in entry.items()? {
                if !key.eq("status")? {
                    said.set_item(key, value)?;
                }
            }
            body.add_readable(&said, PieceKind::ToolResult)
        }
        _ if is_output && entry.has(interned!(py, "output"))? => {
            read_parts(body, entry, "output", PieceKind::ToolResult)
        }
        "reasoning" => {
            for key in [interned!(py, "summary"), interned!(py, "content")] {
                let said = PyList::new(py, entry.get(key)?)?;
                body.add_readable(&said, PieceKind::Thinking)?;
            }
            Ok(())
        }
        "image_generation_call" => {
            if let Some(picture) = entry.text(interned!(py, "result"))? {
                body.add_medium(&picture)?;
            }
            body.add(entry.get(interned!(py, "revised_prompt"))?, PieceKind::Text, None)
        }
        _ if STATE.contains(&kind) => {
            body.has_state = true;
            Ok(())
        }
        _ if is_output || is_setting(kind) || TYPES.contains(&kind) => {
            let kind = if role == Role::Tool { PieceKind::ToolResult } else { PieceKind::Text };
            body.add_readable(entry.as_any(), kind)
        }
        _ => body.add_unknown(entry, PieceKind::Text),
    }
}

/// Read a content or an output: a string, one part or a list of them.
fn read_parts(body: &mut Body, entry: Fields<'_, '_>, key: &str, kind: PieceKind) -> PyResult<()> {
    let py = entry.as_any().py();
    let Some(value) = entry.get(&PyString::new(py, key))? else { return Ok(()) };
    let path = body.places.is_some().then(|| PyTuple::new(py, [key])).transpose()?;
    let at = At::Root(path.as_ref(), key);
    if value.is_instance_of::<PyString>() {
        return body.add(Some(value), kind, Some(at));
    }
    if let Some(screenshot) = Fields::of(&value).filter(|_| key == "output") {
        return read_part(body, screenshot, kind, at);
    }
    if !is_list(&value) {
        return Err(wrong_content(&value, body.index, key));
    }
    for (number, part) in value.try_iter()?.enumerate() {
        let (part, here) = (part?, At::Number(&at, number));
        if part.is_instance_of::<PyString>() {
            body.add(Some(part), kind, Some(here))?;
        } else {
            read_part(body, Fields::needed(&part, body.index, || here.words())?, kind, here)?;
        }
    }
    Ok(())
}

fn read_part<'py>(body: &mut Body, part: Fields<'_, 'py>, kind: PieceKind, at: At<'_, 'py>) -> PyResult<()> {
    let (stdout, stderr) = (interned!(part.as_any().py(), "stdout"), interned!(part.as_any().py(), "stderr"));
    if part.kind()?.name().is_empty() && part.has(stdout)? {
        // The output of one shell command.
        body.add(part.get(stdout)?, kind, Some(At::Key(&at, "stdout")))?;
        return body.add(part.get(stderr)?, kind, Some(At::Key(&at, "stderr")));
    }
    check_own(part, body.index, || at.words())?;
    body.add_block(part, kind, at)
}

/// Raise UnknownBlockError for Anthropic's calls and results, which no item here pairs.
fn check_own(block: Fields<'_, '_>, index: usize, part: impl FnOnce() -> String) -> PyResult<()> {
    match block.kind()?.name().as_ref() {
        "tool_use" | "tool_result" => check_no_pair(block, index, part, false, "Anthropic's"),
        _ => Ok(()),
    }
}

fn read_own_result(body: &mut Body, value: Option<Bound<'_, PyAny>>) -> PyResult<()> {
    let Some(value) = value else { return Ok(()) };
    let parts = if is_list(&value) { listed(Some(&value))? } else { vec![value] };
    for part in parts {
        let is_medium = match Fields::of(&part) {
            Some(part) => MEDIA.contains(&part.kind()?.name().as_ref()),
            None => false,
        };
        if is_medium {
            body.add_medium(&part)?;
        } else {
            body.add_readable(&part, PieceKind::ToolResult)?;
        }
    }
    Ok(())
}
