//! Messages of Anthropic's.
use pyo3::prelude::*;
use rehydrate_core::conversation::PieceKind;

use super::blocks::{At, Body, content_of, has_only_results};
use super::fields::{Fields, is_list};
use super::{Link, Read, role_of};
use crate::errors::raise;
use crate::interned::interned;

/// Read one message.
pub fn read_message<'py>(body: &mut Body, raw: &Bound<'py, PyAny>) -> PyResult<Read<'py>> {
    let entry = Fields::needed(raw, body.index, String::new)?;
    let role = role_of(entry, body.index)?;
    let content = content_of(entry, body.index)?;
    check_calls(entry, body.index)?;
    body.add_content(content.as_ref(), PieceKind::Text, At::Root(None, "content"))?;
    // A thought at the end of a message belongs to the assistant's next message: the API joins the two, and refuses a
    // message that ends in a thought.
    let ends_in_thought = body.is_thoughtful && is_thought(content.as_ref(), |blocks| blocks.checked_sub(1))?;
    let link = if ends_in_thought { Link::Thought } else { Link::None };
    Ok(Read { role, only_results: has_only_results(content.as_ref())?, link })
}

/// Whether the block of a content at a place is a thought.
pub fn is_thought(content: Option<&Bound<'_, PyAny>>, place: impl FnOnce(usize) -> Option<usize>) -> PyResult<bool> {
    let Some(content) = content.filter(|content| is_list(content)) else { return Ok(false) };
    let Some(place) = place(content.len()?) else { return Ok(false) };
    let block = content.get_item(place)?;
    let Some(block) = Fields::of(&block) else { return Ok(false) };
    let is_bedrocks = block.has(interned!(block.as_any().py(), "reasoningContent"))?;
    Ok(is_bedrocks || matches!(block.kind()?.name().as_ref(), "thinking" | "redacted_thinking"))
}

/// Raise InvalidMessageError for a message with chat's calls and results, which pair with no block.
pub fn check_calls(entry: Fields<'_, '_>, index: usize) -> PyResult<()> {
    let py = entry.as_any().py();
    if entry.is_exactly_dict() && entry.len()? <= 2 && entry.has(interned!(py, "content"))? {
        return Ok(());
    }
    for key in [interned!(py, "tool_calls"), interned!(py, "tool_call_id"), interned!(py, "function_call")] {
        if let Some(value) = entry.get(key)?
            && value.is_truthy()?
        {
            let remedy = "pass format='openai_chat', or convert it to blocks";
            let expected = "no call of OpenAI chat's";
            return Err(raise(py, "InvalidMessageError", (index, key, value, expected, remedy)));
        }
    }
    Ok(())
}

/// Raise InvalidMessageError for a message with OpenAI chat's calls or results, which pair with no block.
#[pyfunction]
pub fn check_no_chat_calls(entry: &Bound<'_, PyAny>, index: usize) -> PyResult<()> {
    check_calls(Fields::needed(entry, index, String::new)?, index)
}
