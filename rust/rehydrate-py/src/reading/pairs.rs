//! Calls and results of formats that cannot be paired: a compaction would drop one half of the pair, so they are
//! refused.
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::detect::NAMES;
use super::fields::{Fields, listed, string_of, text_of};
use crate::errors::raise;
use crate::interned::{Interned, interned};

const TOOL_ENDS: &[&str] =
    &["call", "use", "result", "return", "invocation", "response", "output", "error", "approval"];
const FUNCTION_ENDS: &[&str] = &["call", "result", "response", "output"];
/// Keys of a block, without case and punctuation, that hold a call, a result, or the id of one.
const PAIR_KEYS: &[&str] = &[
    "tooluse",
    "toolresult",
    "toolcall",
    "toolcalls",
    "toolcallresult",
    "toolinvocation",
    "functioncall",
    "functionresponse",
    "functionresult",
    "toolcallid",
    "tooluseid",
    "callid",
    "functioncallid",
];
static TYPE_KEYS: [Interned; 7] = [
    Interned::new("type"),
    Interned::new("part_kind"),
    Interned::new("block_type"),
    Interned::new("$type"),
    Interned::new("__type__"),
    Interned::new("content_type"),
    Interned::new("kind"),
];
/// Types of blocks inside a result, which is paired already, have this ending.
const OUTPUT_END: &str = "_call_output";
const REMEDY: &str = "convert the messages to one of these formats, or to LangChain's message objects";
/// Whose blocks these are, by type or key.
const DIALECTS: [(&str, &str); 6] = [
    ("toolUse", "Bedrock Converse's"),
    ("toolResult", "Bedrock Converse's"),
    ("functionCall", "Gemini's"),
    ("functionResponse", "Gemini's"),
    ("tool-call", "the AI SDK's"),
    ("tool-result", "the AI SDK's"),
];
/// Fields of a message, next to `content`, in which other formats keep its text.
static OTHER_FIELDS: [(Interned, &str); 6] = [
    (Interned::new("parts"), "Gemini's, or the AI SDK's UIMessage"),
    (Interned::new("contents"), "Agent Framework's"),
    (Interned::new("blocks"), "LlamaIndex'"),
    (Interned::new("items"), "Semantic Kernel's"),
    (Interned::new("toolInvocations"), "the AI SDK's UIMessage"),
    (Interned::new("_content"), "Haystack's"),
];

/// Whether a block of this type has its pair in the same message: the provider makes the call and answers it.
pub fn is_of_server(name: &str) -> bool {
    let begins = ["server_", "mcp_"].iter().any(|beginning| name.starts_with(beginning));
    begins || ["_tool_result", "_approval_request", "_approval_response"].iter().any(|end| name.ends_with(end))
}

/// Whether a block of this type is a call of Anthropic's. A new server tool's may have its own name.
pub fn is_call(name: &str) -> bool {
    name == "tool_use" || name.ends_with("_tool_use")
}

/// The id of the call whose code made this one: Claude's or a program's of OpenAI's; "" if it is not named. None for a
/// call that the model made itself.
pub fn program_of<'py>(call: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyString>>> {
    let py = call.as_any().py();
    let caller = call.get(interned!(py, "caller"))?;
    let Some(caller) = caller.as_ref().and_then(Fields::of) else { return Ok(None) };
    if caller.kind()?.name() == "direct" {
        return Ok(None);
    }
    let id = match caller.text(interned!(py, "tool_id"))? {
        None => caller.text(interned!(py, "caller_id"))?,
        id => id,
    };
    Ok(Some(id.unwrap_or_else(|| interned!(py, "").clone())))
}

/// Whether a block of this type is a thought of Anthropic's.
pub fn is_thought(name: &str) -> bool {
    matches!(name, "thinking" | "redacted_thinking")
}

/// Whether it is a call, a result or a thought in Anthropic's form.
pub fn is_anthropic(block: Fields<'_, '_>, name: &str) -> PyResult<bool> {
    Ok(is_call(name)
        || is_thought(name)
        || name == "tool_result"
        || name.ends_with("_tool_result")
        || block.text(interned!(block.as_any().py(), "tool_use_id"))?.is_some())
}

/// Raise UnknownBlockError for a block that looks like a call or a result of a foreign format. `part` is its place.
pub fn check_no_pair(
    block: Fields<'_, '_>,
    index: usize,
    part: impl FnOnce() -> String,
    in_result: bool,
    whose: &str,
) -> PyResult<()> {
    let py = block.as_any().py();
    let mut names = Vec::new();
    for key in &TYPE_KEYS {
        names.extend(block.text(key.get(py))?);
    }
    if names.iter().map(text_of).any(|name| is_of_server(&name) || (in_result && name.ends_with(OUTPUT_END))) {
        return Ok(());
    }
    let mark = match names.into_iter().find(|name| names_pair(&letters(&text_of(name)))) {
        Some(mark) => Some(mark),
        None => block
            .keys()?
            .into_iter()
            .filter_map(|key| key.cast_into::<PyString>().ok())
            .find(|key| PAIR_KEYS.contains(&letters(&text_of(key)).as_str())),
    };
    let Some(mark) = mark else { return Ok(()) };
    let dialect = DIALECTS.iter().find(|(name, _)| *name == text_of(&mark));
    Err(unknown(&mark, index, &part(), dialect.map_or(whose, |(_, whose)| whose)))
}

fn names_pair(letters: &str) -> bool {
    let ends_so = |word: &str, ends: &[&str]| {
        let mut rest = letters.match_indices(word).map(|(at, _)| &letters[at + word.len()..]);
        rest.any(|rest| ends.iter().any(|end| rest.starts_with(end)))
    };
    ends_so("tool", TOOL_ENDS) || ends_so("function", FUNCTION_ENDS)
}

fn letters(name: &str) -> String {
    name.to_lowercase().chars().filter(char::is_ascii_lowercase).collect()
}

fn unknown(name: &Bound<'_, PyString>, index: usize, part: &str, whose: &str) -> PyErr {
    raise(name.py(), "UnknownBlockError", (index, part, name, NAMES, format!("it is {whose}: {REMEDY}")))
}

/// The type of a block, or its first key if it has none.
pub fn name_of<'py>(block: Fields<'_, 'py>) -> PyResult<Bound<'py, PyString>> {
    let py = block.as_any().py();
    match block.kind()?.0 {
        Some(name) if !name.is_empty()? => Ok(name),
        _ => block.keys()?.first().map_or_else(|| Ok(PyString::new(py, "")), string_of),
    }
}

/// Raise UnknownBlockError for an entry that keeps its content, or a part of it, elsewhere.
pub fn check_content(entry: Fields<'_, '_>, index: usize, content: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let py = entry.as_any().py();
    for (key, whose) in &OTHER_FIELDS {
        let key = key.get(py);
        let Some(parts) = entry.get(key)? else { continue };
        let parts = listed(Some(&parts))?;
        let mut first = None;
        for (number, part) in parts.iter().enumerate() {
            if let Some(part) = Fields::of(part) {
                check_no_pair(part, index, || format!("{key}[{number}]"), false, whose)?;
                first.get_or_insert((number, part));
            }
        }
        if let Some((number, part)) = first
            && !content.map_or(Ok(false), |content| content.is_truthy())?
        {
            return Err(unknown(&name_of(part)?, index, &format!("{key}[{number}]"), whose));
        }
    }
    Ok(())
}
