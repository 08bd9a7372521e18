//! Lines of Claude Code's transcripts in the order of their conversation, and merged into messages.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rehydrate_core::conversation::{CallLine, calls_first};
use rehydrate_core::rules::anthropic::Text;
use rustc_hash::FxHashMap;

use super::fields::{Fields, text_of};
use super::rules::{blocks_of, is_of_type, text_state};
use super::strings::Numbers;
use super::transcript::{Line, Lines};
use crate::exit::Running;
use crate::interned::interned;

/// A message, and the indices of its lines.
type Merged<'py> = (Bound<'py, PyDict>, Bound<'py, PyTuple>);

/// The lines of a conversation in its order: that of the tree, or, if no line names another, calls before results.
pub fn lines_in_order<'py>(entries: &Bound<'py, PyAny>) -> PyResult<Vec<Line<'py>>> {
    let Lines { lines, branch, .. } = Lines::of(entries)?;
    let Some(branch) = branch else {
        let places = calls_first(&call_lines(&lines)?);
        let mut lines: Vec<Option<Line<'py>>> = lines.into_iter().map(Some).collect();
        return Ok(places.into_iter().filter_map(|place| lines[place].take()).collect());
    };
    let mut by_index: FxHashMap<usize, Line<'py>> = lines.into_iter().map(|line| (line.index, line)).collect();
    Ok(branch.iter().filter_map(|index| by_index.remove(index)).collect())
}

fn call_lines(lines: &[Line<'_>]) -> PyResult<Vec<CallLine>> {
    let (mut ids, mut messages) = (Numbers::default(), Numbers::default());
    let read = |line: &Line<'_>| {
        let mut made = CallLine { is_assistant: line.is_assistant(), ..CallLine::default() };
        made.message = match &line.message {
            Some(id) => messages.of(id.clone())?,
            None => messages.new_one(),
        };
        for block in blocks_of(Some(&line.content), line.index)? {
            let Some(block) = Fields::of(&block) else { continue };
            let py = line.entry.py();
            let (key, found) = match block.kind()?.name().as_ref() {
                "tool_use" if line.is_assistant() => (interned!(py, "id"), &mut made.calls),
                "tool_result" => (interned!(py, "tool_use_id"), &mut made.answers),
                _ => continue,
            };
            if let Some(id) = block.text(key)?
                && !id.is_empty()?
            {
                found.push(ids.of(id)?);
            }
        }
        Ok(made)
    };
    lines.iter().map(read).collect()
}

/// Merge the lines into messages. Their blocks are the same objects as in the transcript.
///
/// The lines of one message id become one assistant message. Of neighbouring user lines all results come first, in one
/// message; other user content follows line by line, so that a line added later changes no message before it.
#[pyfunction]
pub fn merged_lines<'py>(entries: &Bound<'py, PyAny>) -> PyResult<Vec<Merged<'py>>> {
    let _running = Running::begin();
    let mut turns: Vec<Vec<Line<'py>>> = Vec::new();
    let (mut ids, mut by_id) = (Numbers::default(), FxHashMap::default());
    for line in lines_in_order(entries)? {
        let id = line.message.clone().map(|id| ids.of(id)).transpose()?;
        let known = match &id {
            Some(id) => by_id.get(id).copied(),
            None => turns.len().checked_sub(1).filter(|last| !line.is_assistant() && !turns[*last][0].is_assistant()),
        };
        match known {
            Some(turn) => turns[turn].push(line),
            None => {
                by_id.extend(id.map(|id| (id, turns.len())));
                turns.push(vec![line]);
            }
        }
    }
    let py = entries.py();
    let mut messages = Vec::new();
    for turn in turns {
        if turn[0].is_assistant() {
            let mut content = Vec::new();
            for line in &turn {
                content.extend(sent_blocks(line)?);
            }
            let lines = turn.iter().map(|line| line.index).collect();
            messages.extend(merged(py, interned!(py, "assistant"), content, lines)?);
        } else {
            merge_users(py, &turn, &mut messages)?;
        }
    }
    Ok(messages)
}

/// Append one message of the results of a turn of the user, then the rest line by line.
fn merge_users<'py>(py: Python<'py>, turn: &[Line<'py>], messages: &mut Vec<Merged<'py>>) -> PyResult<()> {
    let user = interned!(py, "user");
    let (mut results, mut answering, mut spoken) = (Vec::new(), Vec::new(), Vec::new());
    for line in turn {
        if line.content.is_instance_of::<PyString>() {
            spoken.push(message(py, user, &line.content, &[line.index])?);
            continue;
        }
        let mut rest = Vec::new();
        for block in sent_blocks(line)? {
            if is_of_type(&block, "tool_result")? { &mut results } else { &mut rest }.push(block);
        }
        if results.len() > answering.last().map_or(0, |(_, end)| *end) {
            answering.push((line.index, results.len()));
        }
        spoken.extend(merged(py, user, rest, vec![line.index])?);
    }
    messages.extend(merged(py, user, results, answering.into_iter().map(|(index, _)| index).collect())?);
    messages.extend(spoken);
    Ok(())
}

/// The blocks of a line's content without blank ones, which are not sent.
fn sent_blocks<'py>(line: &Line<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut blocks = Vec::new();
    for block in blocks_of(Some(&line.content), line.index)? {
        if matches!(text_state(&block)?, Some(Text::Blank)) || is_empty_text(&block)? {
            continue;
        }
        blocks.push(if block.is_instance_of::<PyString>() { text_block(&block)? } else { block });
    }
    Ok(blocks)
}

/// Whether it is a text block, and its text an empty string.
fn is_empty_text(block: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = block.py();
    let Some(of) = Fields::of(block) else { return Ok(!block.is_truthy()?) };
    let is_empty = of.text(interned!(py, "text"))?.is_some_and(|text| text_of(&text).is_empty());
    Ok(is_empty && of.kind()?.name() == "text")
}

fn text_block<'py>(text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = text.py();
    let block = PyDict::new(py);
    block.set_item(interned!(py, "type"), interned!(py, "text"))?;
    block.set_item(interned!(py, "text"), text)?;
    Ok(block.into_any())
}

/// A message of blocks. None if there are none.
fn merged<'py>(
    py: Python<'py>,
    role: &Bound<'py, PyString>,
    blocks: Vec<Bound<'py, PyAny>>,
    lines: Vec<usize>,
) -> PyResult<Option<Merged<'py>>> {
    if blocks.is_empty() {
        return Ok(None);
    }
    message(py, role, PyList::new(py, blocks)?.as_any(), &lines).map(Some)
}

fn message<'py>(
    py: Python<'py>,
    role: &Bound<'py, PyString>,
    content: &Bound<'py, PyAny>,
    lines: &[usize],
) -> PyResult<Merged<'py>> {
    let message = PyDict::new(py);
    message.set_item(interned!(py, "role"), role)?;
    message.set_item(interned!(py, "content"), content)?;
    Ok((message, PyTuple::new(py, lines)?))
}
