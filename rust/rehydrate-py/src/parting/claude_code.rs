//! Claude Code's parallel calls. Each call is a line already. The lines of all calls but the first get the number of
//! their part. Their ids stay: the tree needs to know that they are of one message.
use pyo3::prelude::*;
use pyo3::types::PyString;
use rustc_hash::FxHashMap;

use super::groups::{Group, Part, all_are, by_call, is_block, own_calls, says, with_field};
use crate::interned::interned;
use crate::reading::{Columns, Fields, Id, Numbers, is_list, is_signed, listed, part_key};

/// The groups of lines whose calls may be parted: a line each.
pub fn groups<'py>(entries: &[Bound<'py, PyAny>], of: &Columns) -> PyResult<Vec<Group<'py>>> {
    let Some(py) = entries.first().map(Bound::py) else { return Ok(Vec::new()) };
    let indices: Vec<usize> = of.of.rows.iter().map(|row| row.index).collect();
    // The lines of each of the model's messages, in the order of their first lines.
    let (mut ids, mut messages) = (Numbers::default(), Vec::<Vec<usize>>::new());
    for &index in &indices {
        if is_by_model(&entries[index])?
            && let Some(id) = message_of(&entries[index])?.map_or(Ok(None), |message| id_of(&message))?
        {
            let place = ids.of(id)?;
            messages.resize_with(messages.len().max(place + 1), Vec::new);
            messages[place].push(index);
        }
    }
    let last = indices.iter().rev().find(|&&index| is_by_model(&entries[index]).unwrap_or(false));
    let mut answers: Option<Answers> = None;
    let mut found = Vec::new();
    for lines in &messages {
        let calls = lines.iter().map(|&index| {
            let blocks = blocks_of(&entries[index])?;
            blocks.iter().try_fold(false, |any, block| Ok(any || is_block(block, &["tool_use"])?))
        });
        let runs = by_call(calls.collect::<PyResult<Vec<_>>>()?);
        if runs.len() < 2 || last.is_some_and(|last| lines.contains(last)) {
            continue;
        }
        let answers = match &mut answers {
            Some(answers) => answers,
            none => none.insert(Answers::of(entries, &indices)?),
        };
        let all_may: PyResult<bool> =
            lines.iter().try_fold(true, |all, &index| Ok(all && may_part(&entries[index], index, answers)?));
        if !all_may? {
            continue;
        }
        for (number, run) in runs.iter().enumerate().skip(1) {
            for &at in run {
                found.push((lines[at], number));
            }
        }
    }
    found.sort_by_key(|(index, _)| *index);
    let group = |(index, part): (usize, usize)| {
        let entry = with_field(&entries[index], part_key(py), part.into_pyobject(py)?.as_any())?.into_any();
        Ok(Group { start: index, end: index + 1, parts: vec![Part::whole(index, entry)] })
    };
    found.into_iter().map(group).collect()
}

/// The turns of lines, and in which of them each call is answered.
struct Answers {
    /// The number of each line's turn: the model's lines, and the client's after them.
    turn_of: FxHashMap<usize, usize>,
    /// The turn of each call's result, if its line only holds results.
    turn_of_answer: FxHashMap<Vec<u8>, usize>,
}

impl Answers {
    fn of(entries: &[Bound<'_, PyAny>], indices: &[usize]) -> PyResult<Self> {
        let (mut turn_of, mut turn_of_answer) = (FxHashMap::default(), FxHashMap::default());
        let (mut turn, mut was_client) = (0, false);
        for &index in indices {
            let is_client = !is_by_model(&entries[index])?;
            turn += usize::from(was_client && !is_client);
            was_client = is_client;
            turn_of.insert(index, turn);
            let blocks = blocks_of(&entries[index])?;
            if all_are(&blocks, &["tool_result"])? {
                for block in &blocks {
                    let id = block.call_method1("get", (interned!(block.py(), "tool_use_id"),))?;
                    turn_of_answer.insert(Id::of(id.str()?)?.as_bytes().to_vec(), turn);
                }
            }
        }
        Ok(Self { turn_of, turn_of_answer })
    }
}

/// Whether a line of the model only has texts, and calls that the client answers in the same turn.
fn may_part(entry: &Bound<'_, PyAny>, index: usize, answers: &Answers) -> PyResult<bool> {
    let blocks = blocks_of(entry)?;
    let turn = answers.turn_of.get(&index);
    let Some(calls) = own_calls(&blocks)? else { return Ok(false) };
    let is_answered = calls.iter().all(|call| turn.is_some() && answers.turn_of_answer.get(call) == turn);
    Ok(is_answered
        && all_are(&blocks, &["tool_use", "text"])?
        && !content_of(entry)?.map_or(Ok(false), |it| is_signed(&it))?)
}

fn is_by_model(entry: &Bound<'_, PyAny>) -> PyResult<bool> {
    says(entry, interned!(entry.py(), "type"), "assistant")
}

fn message_of<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    Fields::of(entry).map_or(Ok(None), |fields| fields.get(interned!(entry.py(), "message")))
}

fn id_of<'py>(message: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyString>>> {
    Fields::of(message).map_or(Ok(None), |fields| fields.text(interned!(message.py(), "id")))
}

fn content_of<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(message) = message_of(entry)? else { return Ok(None) };
    Fields::of(&message).map_or(Ok(None), |fields| fields.get(interned!(entry.py(), "content")))
}

/// The blocks of a line's message. None if its content isn't a list.
fn blocks_of<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    listed(content_of(entry)?.filter(is_list).as_ref())
}
