//! Messages of Anthropic's.
//!
//! A `system` entry is always kept. At the beginning of the list the rules skip it: the caller moves it out when sending. In
//! the middle, where newer models accept it, it belongs to the message before it and to the assistant's that follows. Blocks
//! that a client cannot pair or read (server tools, compaction, unknown ones) are counted as text, pass through unchanged and
//! never fail. A server tool's result is usually in the assistant's own message. If it follows in a later one, both are
//! one unit.
use pyo3::prelude::*;
use rehydrate_core::conversation::PieceKind;

use super::blocks::{At, Body};
use super::draft::Speaker;
use super::fields::{Fields, is_list};
use super::pairs::{check_content, is_thought};
use super::{Link, Read, speaker_of};
use crate::errors::raise;
use crate::interned::interned;

/// Read one message.
pub fn read_message<'py>(body: &mut Body, raw: &Bound<'py, PyAny>) -> PyResult<Read<'py>> {
    let (speaker, content) = speaker_and_content(body, raw)?;
    body.add_content(content.as_ref(), PieceKind::Text, At::Root(None, "content"))?;
    // A thought at the end of a message belongs to the assistant's next message: the API joins the two, and refuses a
    // message that ends in a thought.
    let link = if body.ends_in_thought { Link::Thought } else { Link::None };
    Ok(Read { speaker, link })
}

/// The speaker and the content of a message of blocks, Converse's too.
pub fn speaker_and_content<'py>(body: &Body, raw: &Bound<'py, PyAny>) -> PyResult<(Speaker<'py>, Content<'py>)> {
    let entry = Fields::needed(raw, body.index, String::new)?;
    let speaker = speaker_of(entry, body.index)?;
    let content = entry.get(interned!(raw.py(), "content"))?;
    if content.is_none() || !entry.is_small(2) {
        check_content(entry, body.index, content.as_ref())?;
        check_calls(entry, body.index)?;
    }
    Ok((speaker, content))
}

type Content<'py> = Option<Bound<'py, PyAny>>;

/// Whether a content begins with a thought.
pub fn begins_with_thought(content: &Bound<'_, PyAny>) -> PyResult<bool> {
    if !is_list(content) || content.is_empty()? {
        return Ok(false);
    }
    let block = content.get_item(0)?;
    let Some(block) = Fields::of(&block) else { return Ok(false) };
    let is_bedrocks = block.has(interned!(block.as_any().py(), "reasoningContent"))?;
    Ok(is_bedrocks || is_thought(&block.kind()?.name()))
}

/// Raise InvalidMessageError for a message with chat's calls and results, which no block pairs.
pub fn check_calls(entry: Fields<'_, '_>, index: usize) -> PyResult<()> {
    let py = entry.as_any().py();
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
