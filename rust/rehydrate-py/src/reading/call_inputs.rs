//! The inputs of an entry's calls, and the signatures of an entry, in every format.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use super::ai_sdk::{Call, Is as Part, State, part_is};
use super::bedrock::{Is, KEYS};
use super::chat::function_id;
use super::codex::codex_line;
use super::fields::{Fields, listed, text_of};
use super::gemini::{Is as Holds, Waiting, data_of};
use super::inputs::is_signed;
use super::langchain::langchain_inputs;
use super::pairs::{is_call, program_of};
use super::responses::Item;
use super::transcript::{line_content, path_of};
use crate::exit::Running;
use crate::interned::interned;

/// The input of a call, as Python takes it: the call's id, the tool's name, the input, its paths in the entry (some messages
/// hold one call in several fields), and whether it is free text for the tool.
pub type Input<'py> =
    (Option<Bound<'py, PyString>>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Bound<'py, PyTuple>, bool);
type Inputs<'py> = Vec<Option<Input<'py>>>;

/// Types of Responses' calls that are neither the client's functions nor custom tools.
const OTHER_CALLS: &[&str] = &[
    "mcp_call",
    "mcp_approval_request",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "tool_search_call",
    "program",
];

/// The input of each call of an entry. None for a call of a server's tool, of code, or of another format.
#[pyfunction]
pub fn entry_inputs<'py>(format: &str, entry: &Bound<'py, PyAny>) -> PyResult<Inputs<'py>> {
    let _running = Running::begin();
    let py = entry.py();
    if format == "langchain" {
        return langchain_inputs(entry);
    }
    let fields = Fields::needed(entry, 0, String::new)?;
    let content = || fields.get(interned!(py, "content"));
    match format {
        "anthropic" => among_blocks(content()?.as_ref(), &PyTuple::new(py, ["content"])?),
        "claude_code" => among_blocks(line_content(entry)?.as_ref(), &path_of(fields)?),
        "bedrock" => of_bedrocks(content()?.as_ref()),
        "gemini" => of_geminis(fields),
        "ai_sdk" => of_ai_sdk(fields, false),
        "ai_sdk_ui" => of_ai_sdk(fields, true),
        "openai_chat" => of_chats(fields),
        "openai_responses" => of_item(entry),
        "codex" => {
            let Some((_, item, path, _)) = codex_line(entry, 0)? else { return Ok(Vec::new()) };
            let inner = |found: Option<Input<'py>>| {
                let Some((call, name, value, paths, is_text)) = found else { return Ok(None) };
                let whole =
                    |place: Bound<'py, PyAny>| path.as_sequence().concat(place.cast::<PyTuple>()?.as_sequence());
                let paths = paths.iter().map(|place| whole(place)?.to_tuple()).collect::<PyResult<Vec<_>>>()?;
                Ok(Some((call, name, value, PyTuple::new(py, paths)?, is_text)))
            };
            of_item(&item)?.into_iter().map(inner).collect()
        }
        "plain" => foreign_calls(content()?.as_ref()),
        _ => Err(PyValueError::new_err(format!("no inputs of {format}"))),
    }
}

/// Whether an entry holds a thought or a signature. These stay with its calls.
pub fn entry_is_signed(format: &str, entry: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = entry.py();
    let content = match format {
        "plain" => return Ok(false), // a text holds no signature
        "langchain" => {
            let extras = entry.getattr(interned!(py, "additional_kwargs"))?;
            let extras = Fields::of(&extras).map(Fields::as_any);
            let both = PyList::new(py, [&entry.getattr(interned!(py, "content"))?])?;
            extras.map_or(Ok(()), |extras| both.append(extras))?;
            return is_signed(&both);
        }
        "openai_chat" | "openai_responses" => return is_signed(entry),
        "codex" => codex_line(entry, 0)?.map(|(_, item, ..)| item),
        "claude_code" => line_content(entry)?,
        "gemini" | "ai_sdk_ui" => Fields::needed(entry, 0, String::new)?.get(interned!(py, "parts"))?,
        _ => Fields::needed(entry, 0, String::new)?.get(interned!(py, "content"))?,
    };
    content.map_or(Ok(false), |content| is_signed(&content))
}

/// The calls of Anthropic's among the blocks at a path.
fn among_blocks<'py>(content: Option<&Bound<'py, PyAny>>, path: &Bound<'py, PyTuple>) -> PyResult<Inputs<'py>> {
    let mut found = Vec::new();
    for (number, block) in listed(content)?.iter().enumerate() {
        let Some(block) = Fields::of(block) else { continue };
        let (py, kind) = (path.py(), block.kind()?);
        if !is_call(&kind.name()) {
            continue;
        }
        let is_own = kind.name() == "tool_use" && program_of(block)?.is_none();
        let Some(call) = block.text(interned!(py, "id"))?.filter(|_| is_own) else {
            found.push(None);
            continue;
        };
        let inside = (number, "input").into_pyobject(py)?;
        let place = path.as_sequence().concat(inside.as_sequence())?.to_tuple()?;
        let (name, input) = (block.get(interned!(py, "name"))?, block.get(interned!(py, "input"))?);
        found.push(Some((Some(call), name, input, PyTuple::new(py, [place])?, false)));
    }
    Ok(found)
}

/// None for each call of Anthropic's among the blocks of another format's content.
fn foreign_calls<'py>(content: Option<&Bound<'py, PyAny>>) -> PyResult<Inputs<'py>> {
    let mut found = Vec::new();
    for block in listed(content)? {
        if let Some(block) = Fields::of(&block)
            && is_call(&block.kind()?.name())
        {
            found.push(None);
        }
    }
    Ok(found)
}

fn of_bedrocks<'py>(content: Option<&Bound<'py, PyAny>>) -> PyResult<Inputs<'py>> {
    let mut found = Vec::new();
    for (number, block) in listed(content)?.iter().enumerate() {
        let Some(block) = Fields::of(block) else { continue };
        let (py, kind) = (block.as_any().py(), block.kind()?);
        if is_call(&kind.name()) {
            found.push(None);
            continue;
        }
        let mut is = None;
        for (key, what) in KEYS.iter().filter(|_| kind.name().is_empty()) {
            if is.is_none() && block.get(key.get(py))?.is_some() {
                is = Some(*what);
            }
        }
        let value = block.get(interned!(py, "toolUse"))?;
        let Some(of) = value.as_ref().and_then(Fields::of).filter(|_| is == Some(Is::Call)) else { continue };
        let call = of.text(interned!(py, "toolUseId"))?;
        if call.is_none() || of.has(interned!(py, "type"))? {
            found.push(None);
            continue;
        }
        let place = ("content", number, "toolUse", "input").into_pyobject(py)?;
        let (name, input) = (of.get(interned!(py, "name"))?, of.get(interned!(py, "input"))?);
        found.push(Some((call, name, input, PyTuple::new(py, [place])?, false)));
    }
    Ok(found)
}

fn of_geminis<'py>(entry: Fields<'_, 'py>) -> PyResult<Inputs<'py>> {
    let (mut found, mut waiting) = (Vec::new(), Waiting::default());
    for (number, part) in listed(entry.get(interned!(entry.as_any().py(), "parts"))?.as_ref())?.iter().enumerate() {
        let Some(part) = Fields::of(part) else { continue };
        let (py, data) = (part.as_any().py(), data_of(part)?);
        if is_call(&part.kind()?.name()) {
            found.push(None);
        }
        let Some(data) = data.filter(|data| data.is == Holds::Call) else { continue };
        let Some(call) = Fields::of(&data.value) else { continue };
        let (name, args) = (call.get(interned!(py, "name"))?, call.get(interned!(py, "args"))?);
        let place = ("parts", number, data.key, "args").into_pyobject(py)?;
        found.push(Some((Some(waiting.call(call)?), name, args, PyTuple::new(py, [place])?, false)));
    }
    Ok(found)
}

fn of_ai_sdk<'py>(entry: Fields<'_, 'py>, is_ui: bool) -> PyResult<Inputs<'py>> {
    let (py, mut found) = (entry.as_any().py(), Vec::new());
    let key = if is_ui { interned!(py, "parts") } else { interned!(py, "content") };
    for (number, part) in listed(entry.get(key)?.as_ref())?.iter().enumerate() {
        let Some(part) = Fields::of(part) else { continue };
        let kind = part.kind()?;
        let is = part_is(&kind.name(), is_ui);
        if !matches!(is, Part::Call | Part::Tool) {
            if is == Part::Other && is_call(&kind.name()) {
                found.push(None);
            }
            continue;
        }
        let call = Call::of(part, is_ui)?;
        if call.state == State::Streaming && is_ui {
            continue;
        }
        let is_own = call.id.is_some() && !call.by_provider && call.input.is_some() && text_of(&call.key) != "rawInput";
        let place = (key, number, call.key).into_pyobject(py)?;
        let read = (call.id, call.name, call.input, PyTuple::new(py, [place])?, false);
        found.push(is_own.then_some(read));
    }
    Ok(found)
}

/// Arguments of functions, texts of custom tools.
fn of_chats<'py>(entry: Fields<'_, 'py>) -> PyResult<Inputs<'py>> {
    let py = entry.as_any().py();
    let (role, name, input, arguments) =
        (interned!(py, "role"), interned!(py, "name"), interned!(py, "input"), interned!(py, "arguments"));
    if entry.get(role)?.map_or(Ok(false), |role| role.eq(interned!(py, "tool")))? {
        return Ok(Vec::new());
    }
    let mut found = foreign_calls(entry.get(interned!(py, "content"))?.as_ref())?;
    for (number, call) in listed(entry.get(interned!(py, "tool_calls"))?.as_ref())?.iter().enumerate() {
        let call = Fields::needed(call, 0, || format!("tool_calls[{number}]"))?;
        let id = call.text(interned!(py, "id"))?;
        let (function, custom) = (call.get(interned!(py, "function"))?, call.get(interned!(py, "custom"))?);
        let read = if id.is_none() || program_of(call)?.is_some() {
            None
        } else if let Some(function) = function.as_ref().and_then(Fields::of) {
            let place = ("tool_calls", number, "function", "arguments").into_pyobject(py)?;
            let (name, value) = (function.get(name)?, function.get(arguments)?);
            Some((id, name, value, PyTuple::new(py, [place])?, false))
        } else if let Some(custom) = custom.as_ref().and_then(Fields::of)
            && let Some(text) = custom.text(input)?
        {
            let place = ("tool_calls", number, "custom", "input").into_pyobject(py)?;
            Some((id, custom.get(name)?, Some(text.into_any()), PyTuple::new(py, [place])?, true))
        } else {
            None
        };
        found.push(read);
    }
    if let Some(legacy) = entry.get(interned!(py, "function_call"))? {
        let of = Fields::needed(&legacy, 0, || "function_call".to_owned())?;
        let id = of.text(name)?.as_ref().map(function_id).transpose()?;
        let place = ("function_call", "arguments").into_pyobject(py)?;
        found.push(Some((id, of.get(name)?, of.get(arguments)?, PyTuple::new(py, [place])?, false)));
    }
    Ok(found)
}

/// A call of a function or custom tool, which the caller runs. None for one that a program made.
fn of_item<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Inputs<'py>> {
    let py = entry.py();
    let item = Item::of(entry, 0)?;
    let of = Fields::needed(entry, 0, String::new)?;
    let kind = super::text_of(&item.kind);
    let (key, is_text) = match kind.as_ref() {
        "function_call" => (interned!(py, "arguments"), false),
        "custom_tool_call" => (interned!(py, "input"), true),
        other => return Ok(if OTHER_CALLS.contains(&other) { vec![None] } else { Vec::new() }),
    };
    if program_of(of)?.is_some() {
        return Ok(vec![None]);
    }
    let place = PyTuple::new(py, [key])?;
    Ok(vec![Some((item.call, of.get(interned!(py, "name"))?, of.get(key)?, PyTuple::new(py, [place])?, is_text))])
}
