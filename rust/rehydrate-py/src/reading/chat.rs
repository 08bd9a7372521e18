//! OpenAI chat messages, and plain ones: the readers of `rehydrate.formats.openai_chat` and `plain` are the slow twins.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::conversation::PieceKind;

use super::draft::{Draft, Traits};
use super::json::{MAX_DEPTH, write_json};
use super::strings::{Id, Source};
use super::{Link, Read, has_other_content, read_text_part, text_of, value_of};
use crate::interned::interned;

/// The role of an entry, by its usual name.
fn role_of<'py>(entry: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyString>>> {
    let py = entry.py();
    let Some(role) = text_of(entry, interned!(py, "role"))? else { return Ok(None) };
    Ok(match role.to_str() {
        Ok("system" | "user" | "assistant" | "tool") => Some(role),
        Ok("developer") => Some(interned!(py, "system").clone()),
        // "function" names its answer in another way, and an unknown role may be refused.
        _ => None,
    })
}

/// One message of a role and a text.
pub fn read_plain(draft: &mut Draft, entry: &Bound<'_, PyAny>) -> PyResult<Option<Read>> {
    let py = entry.py();
    let Ok(entry) = entry.cast_exact::<PyDict>() else { return Ok(None) };
    let Some(role) = role_of(entry)? else { return Ok(None) };
    if has_other_content(entry)? {
        return Ok(None);
    }
    let kind = if role.to_str()? == "tool" { PieceKind::ToolResult } else { PieceKind::Text };
    let Some(content) = value_of(entry, interned!(py, "content"))? else { return Ok(None) };
    if let Ok(text) = content.cast_exact::<PyString>() {
        draft.push(text.clone(), kind)?;
    } else {
        let Ok(parts) = content.cast_into_exact::<PyList>() else { return Ok(None) };
        for part in parts {
            let Ok(part) = part.cast_into_exact::<PyDict>() else { return Ok(None) };
            if !is_text(&part)? || !read_text_part(draft, &part, kind)? {
                return Ok(None);
            }
        }
    }
    let of = Traits { is_user_turn: role.to_str()? == "user", is_thoughtless: true, is_common: true, images: 0 };
    Ok(Some(Read { role: role.unbind(), of, link: Link::None }))
}

fn is_text(part: &Bound<'_, PyDict>) -> PyResult<bool> {
    Ok(text_of(part, interned!(part.py(), "type"))?.is_some_and(|kind| kind.to_str().is_ok_and(|k| k == "text")))
}

/// One message of chat completions.
pub fn read_message(draft: &mut Draft, entry: &Bound<'_, PyAny>) -> PyResult<Option<Read>> {
    let py = entry.py();
    let Ok(entry) = entry.cast_exact::<PyDict>() else { return Ok(None) };
    let Some(role) = role_of(entry)? else { return Ok(None) };
    if has_other_content(entry)? {
        return Ok(None);
    }
    let (is_tool, is_assistant, is_user) = match role.to_str()? {
        "tool" => (true, false, false),
        "assistant" => (false, true, false),
        role => (false, false, role == "user"),
    };
    let mut of = Traits { is_user_turn: is_user, is_thoughtless: true, is_common: true, images: 0 };
    let content = entry.get_item(interned!(py, "content"))?;
    let has_more = entry.len() > 2 || content.is_none();
    if is_assistant && has_more {
        for key in [interned!(py, "reasoning_content"), interned!(py, "reasoning")] {
            if let Some(reasoning) = value_of(entry, key)? {
                let Ok(reasoning) = reasoning.cast_into_exact::<PyString>() else { return Ok(None) };
                of.is_thoughtless = false;
                if !reasoning.is_empty()? {
                    draft.push(reasoning, PieceKind::Thinking)?;
                    break;
                }
            }
        }
        for key in [interned!(py, "reasoning_details"), interned!(py, "thinking_blocks")] {
            of.is_thoughtless &= !entry.contains(key)?;
        }
    }
    let kind = if is_tool { PieceKind::ToolResult } else { PieceKind::Text };
    if let Some(content) = content.filter(|content| !content.is_none())
        && !read_content(draft, content, kind, &mut of.images)?
    {
        return Ok(None);
    }
    if is_tool {
        let Some(answer) = text_of(entry, interned!(py, "tool_call_id"))? else { return Ok(None) };
        draft.answers.push(Id::of(answer)?);
        return Ok(Some(Read { role: role.unbind(), of, link: Link::None }));
    }
    let mut makes_calls = false;
    if has_more {
        if value_of(entry, interned!(py, "function_call"))?.is_some()
            || value_of(entry, interned!(py, "audio"))?.is_some()
            || holds_state(entry)?
        {
            return Ok(None);
        }
        if let Some(refusal) = value_of(entry, interned!(py, "refusal"))? {
            let Ok(refusal) = refusal.cast_into_exact::<PyString>() else { return Ok(None) };
            draft.push(refusal, PieceKind::Text)?;
        }
        if let Some(calls) = value_of(entry, interned!(py, "tool_calls"))? {
            let Ok(calls) = calls.cast_into_exact::<PyList>() else { return Ok(None) };
            for call in calls {
                makes_calls = true;
                if !read_call(draft, &call)? {
                    return Ok(None);
                }
            }
        }
    }
    Ok(Some(Read { role: role.unbind(), of, link: if makes_calls { Link::Calls } else { Link::None } }))
}

/// Whether a field holds summaries that the provider itself wrote.
fn holds_state(entry: &Bound<'_, PyDict>) -> PyResult<bool> {
    let py = entry.py();
    let Some(fields) = value_of(entry, interned!(py, "provider_specific_fields"))? else { return Ok(false) };
    fields.cast_exact::<PyDict>().map_or(Ok(true), |fields| fields.contains(interned!(py, "compaction_blocks")))
}

/// A content; whether it has a common shape.
fn read_content(draft: &mut Draft, content: Bound<'_, PyAny>, kind: PieceKind, images: &mut u32) -> PyResult<bool> {
    let py = content.py();
    let content = match content.cast_into_exact::<PyString>() {
        Ok(text) => {
            draft.push(text, kind)?;
            return Ok(true);
        }
        Err(other) => other.into_inner(),
    };
    let Ok(parts) = content.cast_into_exact::<PyList>() else { return Ok(false) };
    for part in parts {
        let Ok(part) = part.cast_into_exact::<PyDict>() else { return Ok(false) };
        let Some(of) = text_of(&part, interned!(py, "type"))? else { return Ok(false) };
        match of.to_str().unwrap_or_default() {
            "image_url" | "input_audio" | "file" if !part.contains(interned!(py, "source_type"))? => *images += 1,
            "text" if read_text_part(draft, &part, kind)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// A function's call; whether it has the common shape.
fn read_call(draft: &mut Draft, call: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = call.py();
    let Ok(call) = call.cast_exact::<PyDict>() else { return Ok(false) };
    let (Some(id), Some(function)) = (text_of(call, interned!(py, "id"))?, call.get_item(interned!(py, "function"))?)
    else {
        return Ok(false);
    };
    let Ok(function) = function.cast_into_exact::<PyDict>() else { return Ok(false) };
    let (Some(name), Some(arguments)) =
        (text_of(&function, interned!(py, "name"))?, function.get_item(interned!(py, "arguments"))?)
    else {
        return Ok(false);
    };
    let Ok(name) = name.to_str() else { return Ok(false) };
    let mut text = format!("{name} ");
    if let Ok(arguments) = arguments.cast_exact::<PyString>() {
        let Ok(arguments) = arguments.to_str() else { return Ok(false) };
        text.push_str(arguments);
    } else if !arguments.is_exact_instance_of::<PyDict>() || write_json(&mut text, &arguments, MAX_DEPTH)?.is_none() {
        return Ok(false);
    }
    draft.calls.push(Id::of(id)?);
    draft.pieces.push((Source::Written(text.into()), PieceKind::ToolInput));
    Ok(true)
}
