//! Tool inputs kept in part: the long strings of finished calls.
//!
//! The engine divides texts, and a file that a call wrote is a string inside the call's input. So each long string
//! moves out: the call keeps an empty string in its place, and the string becomes a new piece after all others of its
//! message. Two kinds of input stay as the model wrote them: those of a call without its result, and those in a unit
//! with thinking.
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use rehydrate_core::conversation::PieceKind;
use rehydrate_core::excerpts::divide;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::reading::{
    Columns, Conversation, Id, Source, entry_inputs, entry_is_signed, input_text, input_texts, with_texts,
};

/// A shorter string stays: its call would say less, and little is saved.
const MIN_CHARACTERS: usize = 600;

/// The pieces of a message, as they are read.
pub type Pieces = Vec<(Source, PieceKind)>;

/// The input of a call.
pub struct CallInput {
    /// The number of the call's piece in its message.
    pub piece: usize,
    name: Option<Py<PyAny>>,
    value: Option<Py<PyAny>>,
    /// Its place in the entry.
    pub paths: Py<PyTuple>,
}

impl CallInput {
    /// The call as text, with other strings in its input.
    pub fn text(&self, py: Python<'_>, texts: &Bound<'_, PyDict>) -> PyResult<Source> {
        let value = self.value.as_ref().map(|value| with_texts(value.bind(py), texts)).transpose()?;
        input_text(py, self.name.as_ref().map(|name| name.bind(py)), value.as_ref())
    }
}

/// A long string, and the call whose input it is in.
#[derive(Clone)]
pub struct InputText {
    pub input: Arc<CallInput>,
    pub text: Arc<Py<PyString>>,
}

/// The long strings in the inputs of finished calls, by the position of their message. Messages with these indices, and
/// units with thinking, have none.
pub fn long_inputs(
    conversation: &Conversation,
    entries: &Bound<'_, PyAny>,
    whole: &FxHashSet<usize>,
) -> PyResult<FxHashMap<usize, Vec<InputText>>> {
    let (of, mut moved) = (&conversation.columns, FxHashMap::default());
    let entry = |at: usize| entries.get_item(of.of.rows[at].index);
    for unit in 0..of.unit_len() {
        let members = of.units.members(unit);
        let answered: FxHashSet<&[u8]> = members.iter().flat_map(|&at| of.answers(at)).map(Id::as_bytes).collect();
        let mut found = Vec::new();
        for &at in members {
            if !of.calls(at).is_empty() && !whole.contains(&of.of.rows[at].index) && has_long_input(of, at) {
                let texts = long_texts(of, at, conversation.format_name(), &entry(at)?, &answered)?;
                found.extend((!texts.is_empty()).then_some((at, texts)));
            }
        }
        let mut has_thought = found.is_empty();
        for &at in members {
            let thinks = || of.pieces(at).iter().any(|(_, kind)| *kind == PieceKind::Thinking);
            has_thought = has_thought || thinks() || entry_is_signed(conversation.format_name(), &entry(at)?)?;
        }
        if !has_thought {
            moved.extend(found);
        }
    }
    Ok(moved)
}

fn has_long_input(of: &Columns, at: usize) -> bool {
    of.pieces(at).iter().any(|(text, kind)| *kind == PieceKind::ToolInput && is_long(text.as_str()))
}

fn is_long(text: &str) -> bool {
    text.len() >= MIN_CHARACTERS && text.chars().nth(MIN_CHARACTERS - 1).is_some()
}

fn long_texts(
    of: &Columns,
    at: usize,
    format: &str,
    entry: &Bound<'_, PyAny>,
    answered: &FxHashSet<&[u8]>,
) -> PyResult<Vec<InputText>> {
    let inputs = entry_inputs(format, entry)?;
    let is_input = |(_, (_, kind)): &(usize, &(Source, PieceKind))| *kind == PieceKind::ToolInput;
    let numbers: Vec<usize> = of.pieces(at).iter().enumerate().filter(is_input).map(|(number, _)| number).collect();
    let mut found = Vec::new();
    if numbers.len() != inputs.len() {
        return Ok(found); // these pieces are not of these calls
    }
    for (piece, input) in numbers.into_iter().zip(inputs) {
        let Some((Some(call), name, value, paths, is_text)) = input else { continue };
        if !answered.contains(Id::of(call)?.as_bytes()) {
            continue;
        }
        let texts = value.as_ref().map_or_else(|| Ok(Vec::new()), |value| input_texts(value, is_text))?;
        let (name, value) = (name.map(Bound::unbind), value.map(Bound::unbind));
        let input = Arc::new(CallInput { piece, name, value, paths: paths.unbind() });
        let mut seen = FxHashSet::default();
        for text in texts {
            // The engine takes no half of a surrogate pair.
            let Ok(read) = text.to_str() else { continue };
            if is_long(read) && seen.insert(read.to_owned()) && divide(read).is_some() {
                found.push(InputText { input: input.clone(), text: Arc::new(text.unbind()) });
            }
        }
    }
    Ok(found)
}

/// The pieces of a message with empty strings in its calls, and the strings after all pieces.
pub fn split(py: Python<'_>, of: &Columns, at: usize, texts: &[InputText]) -> PyResult<Pieces> {
    let mut pieces = pieces_of(py, of, at);
    for each in texts {
        pieces.push((Source::of(each.text.bind(py).clone())?, PieceKind::ToolInput));
    }
    let empty = PyString::new(py, "");
    for (input, parts) in by_call(py, texts.iter().map(|each| (each, empty.clone())))? {
        pieces[input.piece].0 = input.text(py, &parts)?;
    }
    Ok(pieces)
}

/// The pieces of a message.
pub fn pieces_of(py: Python<'_>, of: &Columns, at: usize) -> Pieces {
    of.pieces(at).iter().map(|(text, kind)| (text.clone_ref(py), *kind)).collect()
}

/// Each call, and the fate of the strings in its input.
pub fn by_call<'a, 'py>(
    py: Python<'py>,
    parts: impl Iterator<Item = (&'a InputText, Bound<'py, PyString>)>,
) -> PyResult<Vec<(&'a CallInput, Bound<'py, PyDict>)>> {
    let mut calls: Vec<(&CallInput, Bound<'py, PyDict>)> = Vec::new();
    for (each, part) in parts {
        let known = calls.iter().position(|(input, _)| input.piece == each.input.piece);
        let at = known.unwrap_or_else(|| {
            calls.push((&each.input, PyDict::new(py)));
            calls.len() - 1
        });
        calls[at].1.set_item(each.text.bind(py), part)?;
    }
    Ok(calls)
}
