//! A provider's own messages whose system entries are sent in a field of their own (Anthropic, Bedrock).
use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::conversation::{Role, Spoken, in_place};

use super::contents::{parts_of, shown};
use super::neutral::{Key, Sent, Sources, after, dict, joined, key_of};
use super::{Lost, Rendered, anthropic, bedrock};
use crate::interned::interned;
use crate::reading::{
    Columns, Fields, Id, is_blank, is_list, known_role, listed, read_entries, readable_texts, text_of, usual_role,
};

const MOVED: &str = "a system message is sent where the API takes one, which is not its place:";
const NO_SYSTEM_TEXT: &str = "blocks other than texts, before the first message, are not sent:";

/// Move the system entries out of Converse messages: those at the beginning become blocks of the `system` field, and each
/// later one a user message, unless it adds or removes a tool.
pub fn of_bedrock<'py>(py: Python<'py>, mut sent: Vec<Sent<'py>>) -> PyResult<Rendered<'py>> {
    let rest = sent.split_off(leading(&sent)?);
    let mut system = Vec::new();
    for each in &sent {
        for block in bedrock::system_blocks(fields(each)?)? {
            let text = Fields::needed(&block, 0, String::new)?.get(interned!(py, "text"))?;
            // Converse takes no blank one.
            let is_shown = match text {
                Some(text) => !is_blank(&text_of(&text.str()?)),
                None => true,
            };
            if is_shown {
                system.push(Sent { message: block, sources: each.sources.clone() });
            }
        }
    }
    let mut messages = Vec::new();
    for each in placed(rest, bedrocks_spoken)? {
        if role_of(&each)? != Role::System {
            messages.push(each);
            continue;
        }
        let of = fields(&each)?;
        let blocks = bedrock::system_blocks(of)?;
        let content = of.get(interned!(py, "content"))?;
        let all = content.filter(|content| content.is_truthy().unwrap_or(true));
        if all.map_or(Ok(0), |content| content.len())? > blocks.len() {
            messages.push(each); // it adds or removes a tool
            continue;
        }
        let texts = readable_texts(PyList::new(py, blocks)?.as_any())?;
        let text = joined(interned!(py, "\n\n"), texts)?;
        if !is_blank(&text_of(&text)) {
            messages.push(Sent::new(bedrock::user(&after("[system]\n", &text)?)?, &each.sources));
        }
    }
    Ok(Rendered { system, messages, lost: Lost::default() })
}

/// Move the system entries out of Anthropic messages.
///
/// Those at the beginning become system blocks, but for one that is shown for a turn only or sets the effort: it goes to the
/// first turn. A later one would change the beginning of the prompt, and all that is cached.
/// So it becomes a user message in its place, or next to it where it would part a call from its results. One with more than
/// texts, as of a tool that comes or goes, or that is shown for a turn only, stays a system message: only the models that take
/// these among the others know such ones. If the API does not take it, it moves, which is noted.
pub fn of_anthropic<'py>(py: Python<'py>, mut sent: Vec<Sent<'py>>) -> PyResult<Rendered<'py>> {
    let after_leading = sent.split_off(leading(&sent)?);
    let (mut lost, mut system, mut rest) = (Lost::default(), Vec::new(), Vec::new());
    for each in &sent {
        if has_settings(fields(each)?)? {
            rest.push(each.clone());
            continue;
        }
        for block in system_blocks(fields(each)?)? {
            system.push(Sent { message: block, sources: each.sources.clone() });
        }
        if has_more_than_texts(fields(each)?)? {
            lost.add(NO_SYSTEM_TEXT, &each.sources);
        }
    }
    rest.extend(after_leading);
    let mut has_system = false;
    for each in &rest {
        has_system |= role_of(each)? == Role::System;
    }
    if !has_system {
        return Ok(Rendered { system, messages: rest, lost });
    }
    let followed = rest.windows(2).map(|pair| (pair[1].sources.clone(), pair[0].sources.clone()));
    let was: HashMap<Sources, Sources> = followed.collect();
    let mut messages = Vec::new();
    for each in placed(rest, spoken)? {
        let of = fields(&each)?;
        let has_settings = of.is_set(interned!(py, "clear_at"))? || has_settings(of)?;
        if role_of(&each)? != Role::System || has_settings || has_more_than_texts(of)? {
            messages.push(each);
            continue;
        }
        let mut texts = Vec::new();
        for block in system_blocks(fields(&each)?)? {
            texts.extend(Fields::needed(&block, 0, String::new)?.text(interned!(py, "text"))?);
        }
        if !texts.is_empty() {
            let text = after("[system]\n", &joined(interned!(py, "\n\n"), texts)?)?;
            messages.push(Sent::new(anthropic::user(&text)?, &each.sources));
        }
    }
    let messages = in_their_turn(py, messages)?;
    for pair in messages.windows(2) {
        if role_of(&pair[1])? == Role::System && was.get(&pair[1].sources) != Some(&pair[0].sources) {
            lost.add(MOVED, &pair[1].sources);
        }
    }
    Ok(Rendered { system, messages, lost })
}

/// The places of system entries that are moved out of a list.
pub struct Placed {
    /// The number of them at the beginning.
    pub leading: usize,
    /// The positions of the others in an order in which no system entry is between calls and their results, and whether each
    /// is one.
    pub rest: Vec<(usize, bool)>,
}

/// The entries of a list in this format, in order.
pub fn placed_in<'py>(py: Python<'py>, format: &str, sent: &[Sent<'py>]) -> PyResult<Placed> {
    let all = PyList::new(py, sent.iter().map(|each| &each.message))?;
    let read = read_entries(format, all.as_any())?;
    let of = &read.columns;
    let leading = (0..sent.len()).take_while(|&at| of.role(at) == Role::System).count();
    let order = in_place(&(leading..sent.len()).map(|at| spoken_at(of, at)).collect::<Vec<_>>());
    let rest = order.into_iter().map(|at| at + leading).map(|at| (at, of.role(at) == Role::System)).collect();
    Ok(Placed { leading, rest })
}

fn fields<'a, 'py>(sent: &'a Sent<'py>) -> PyResult<Fields<'a, 'py>> {
    Fields::needed(&sent.message, 0, String::new)
}

fn role_of(sent: &Sent<'_>) -> PyResult<Role> {
    let py = sent.message.py();
    let role = fields(sent)?.get(interned!(py, "role"))?;
    Ok(known_role(&usual_role(shown(py, role)?)))
}

/// The number of system entries at the beginning of the list.
fn leading(sent: &[Sent<'_>]) -> PyResult<usize> {
    for (at, each) in sent.iter().enumerate() {
        if role_of(each)? != Role::System {
            return Ok(at);
        }
    }
    Ok(sent.len())
}

/// The messages with no system message between a call and its results.
fn placed<'py>(sent: Vec<Sent<'py>>, spoken: impl Fn(&Sent<'py>) -> PyResult<Spoken<Key>>) -> PyResult<Vec<Sent<'py>>> {
    let order = in_place(&sent.iter().map(spoken).collect::<PyResult<Vec<_>>>()?);
    let mut sent: Vec<_> = sent.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|at| sent[at].take()).collect())
}

fn bedrocks_spoken(sent: &Sent<'_>) -> PyResult<Spoken<Key>> {
    let read = read_entries("bedrock", PyList::new(sent.message.py(), [&sent.message])?.as_any())?;
    Ok(spoken_at(&read.columns, 0))
}

/// The role of a message that was read, and the ids of its calls and results.
fn spoken_at(of: &Columns, at: usize) -> Spoken<Key> {
    let ids = |ids: &[Id]| ids.iter().map(|id| Some(id.as_bytes().to_vec())).collect();
    Spoken { role: of.role(at), calls: ids(of.calls(at)), answers: ids(of.answers(at)) }
}

/// The calls and results of client tools in an Anthropic message.
fn spoken(sent: &Sent<'_>) -> PyResult<Spoken<Key>> {
    let py = sent.message.py();
    let mut spoken = Spoken { role: role_of(sent)?, calls: Vec::new(), answers: Vec::new() };
    for block in listed(fields(sent)?.get(interned!(py, "content"))?.as_ref())? {
        let Some(block) = Fields::of(&block) else { continue };
        let (key, ids) = match block.kind()?.name().as_ref() {
            "tool_use" => (interned!(py, "id"), &mut spoken.calls),
            "tool_result" => (interned!(py, "tool_use_id"), &mut spoken.answers),
            _ => continue,
        };
        ids.push(key_of(Some(&shown(py, block.get(key)?)?))?);
    }
    Ok(spoken)
}

/// The messages with each system message right before the assistant's next turn, or at the end, after the user's message;
/// several there are one. One that only sets the effort stays where it is, which may be anywhere.
fn in_their_turn<'py>(py: Python<'py>, messages: Vec<Sent<'py>>) -> PyResult<Vec<Sent<'py>>> {
    let mut placed: Vec<Sent<'py>> = Vec::with_capacity(messages.len());
    let mut late: Vec<Sent<'py>> = Vec::new();
    let mut turn = 0; // the start of the assistant's turn
    for each in messages {
        let role = role_of(&each)?;
        if role == Role::System {
            if only_sets(fields(&each)?)? { &mut placed } else { &mut late }.push(each);
            continue;
        }
        if role == Role::Assistant {
            let mut is_going_on = false;
            let said = end_of_said(&placed, placed.len())?;
            if let Some(last) = placed[..said].last() {
                is_going_on = role_of(last)? == Role::Assistant;
                if !late.is_empty() && is_going_on && !takes_system(last)? {
                    // Both are one turn to the API, and the calls in it must be there before.
                    put(py, &mut late, &mut placed, turn)?;
                }
            }
            if !late.is_empty() {
                let end = placed.len();
                put(py, &mut late, &mut placed, end)?;
                is_going_on = false;
            }
            if !is_going_on {
                turn = placed.len();
            }
        }
        placed.push(each);
    }
    for position in [placed.len(), turn] {
        if !late.is_empty() {
            put(py, &mut late, &mut placed, position)?;
        }
    }
    placed.append(&mut late);
    Ok(placed)
}

/// Put the system messages in, if the API accepts them. Otherwise they are left.
fn put<'py>(
    py: Python<'py>,
    late: &mut Vec<Sent<'py>>,
    placed: &mut Vec<Sent<'py>>,
    mut position: usize,
) -> PyResult<()> {
    position = end_of_said(placed, position)?;
    let Some(before) = position.checked_sub(1) else { return Ok(()) };
    if role_of(&placed[before])? == Role::System {
        late.insert(0, placed.remove(before));
        position = before;
    } else if !takes_system(&placed[before])? {
        return Ok(());
    }
    if late.len() > 1 {
        let sources: Sources = late.iter().flat_map(|each| each.sources.iter().copied()).collect();
        *late = vec![Sent::new(as_one(py, late)?, &sources)];
    }
    placed.splice(position..position, late.drain(..));
    Ok(())
}

/// System messages as one. It is shown for a turn only where all are.
fn as_one<'py>(py: Python<'py>, messages: &[Sent<'py>]) -> PyResult<Bound<'py, PyDict>> {
    let (blocks, mut clear_at, mut output_config) = (PyList::empty(py), Vec::new(), None);
    for each in messages {
        let of = fields(each)?;
        for part in parts_of(of.get(interned!(py, "content"))?.as_ref(), 0, "content")? {
            match part.cast::<PyString>() {
                Ok(text) => blocks.append(anthropic::text_block(text)?)?,
                Err(_) => blocks.append(&part)?,
            }
        }
        clear_at.extend(of.get(interned!(py, "clear_at"))?.filter(|at| !at.eq("never").unwrap_or(false)));
        output_config = of.get(interned!(py, "output_config"))?.or(output_config);
    }
    let made = dict!(py, "role": "system", "content": blocks);
    if clear_at.len() == messages.len() {
        made.set_item(interned!(py, "clear_at"), &clear_at[0])?;
    }
    if let Some(config) = output_config {
        made.set_item(interned!(py, "output_config"), config)?;
    }
    Ok(made)
}

/// Where the messages before a position end that say something.
fn end_of_said(messages: &[Sent<'_>], mut position: usize) -> PyResult<usize> {
    while position > 0 && only_sets(fields(&messages[position - 1])?)? {
        position -= 1;
    }
    Ok(position)
}

/// Whether a system message is shown for a turn only, or sets the effort.
fn has_settings(message: Fields<'_, '_>) -> PyResult<bool> {
    let py = message.as_any().py();
    let clear_at = message.get(interned!(py, "clear_at"))?;
    let is_cleared = clear_at.is_some_and(|at| !at.eq("never").unwrap_or(false));
    Ok(is_cleared || message.is_set(interned!(py, "output_config"))?)
}

/// Whether a message says nothing, and sets the effort from the user's next turn on.
fn only_sets(message: Fields<'_, '_>) -> PyResult<bool> {
    let py = message.as_any().py();
    Ok(!message.is_set(interned!(py, "content"))? && message.is_set(interned!(py, "output_config"))?)
}

/// Whether a system message may follow: the user's message, or a server tool's result.
fn takes_system(sent: &Sent<'_>) -> PyResult<bool> {
    let role = role_of(sent)?;
    if role != Role::Assistant {
        return Ok(role == Role::User);
    }
    let mut takes = false;
    for block in listed(fields(sent)?.get(interned!(sent.message.py(), "content"))?.as_ref())? {
        if let Some(block) = Fields::of(&block) {
            takes = block.kind()?.name().ends_with("_tool_result");
        }
    }
    Ok(takes)
}

fn has_more_than_texts(message: Fields<'_, '_>) -> PyResult<bool> {
    let py = message.as_any().py();
    for block in listed(message.get(interned!(py, "content"))?.as_ref())? {
        if let Some(block) = Fields::of(&block)
            && block.kind()?.name() != "text"
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A system entry's texts as blocks. One that is a block already is the same object.
fn system_blocks<'py>(message: Fields<'_, 'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = message.as_any().py();
    let content = message.get(interned!(py, "content"))?;
    let parts = match &content {
        Some(content) if !is_list(content) => vec![content.clone()],
        content => listed(content.as_ref())?,
    };
    let mut blocks = Vec::new();
    for part in parts {
        if let Ok(text) = part.cast::<PyString>() {
            if !is_blank(&text_of(text)) {
                blocks.push(anthropic::text_block(text)?.into_any());
            }
        } else if let Some(text) = Fields::needed(&part, 0, String::new)?.text(interned!(py, "text"))?
            && !is_blank(&text_of(&text))
        {
            blocks.push(part);
        }
    }
    Ok(blocks)
}
