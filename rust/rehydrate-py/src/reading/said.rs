//! The texts of a unit's messages, and conversations without the calls of some tools.
use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use rehydrate_core::analysis::memory_kinds::memory_kind;
use rehydrate_core::conversation::{PieceKind, Role};
use rustc_hash::FxHashSet;

use super::columns::{Columns, is_blank, is_space};
use super::conversation::Conversation;
use super::draft::Draft;
use super::strings::{Id, Source};
use crate::convert::{bytes_of, string_of};
use crate::errors::detached;
use crate::exit::Running;

type Piece = (Source, PieceKind);

/// The conversation without the calls of these tools and their results, and the indices of the messages of units that hold
/// nothing else. A call or a result goes only if it is a piece of its own.
#[pyfunction]
pub fn without_calls(
    py: Python<'_>,
    conversation: &Conversation,
    tools: HashSet<String>,
) -> (Conversation, Vec<usize>) {
    let of = &conversation.columns;
    let size = conversation.all().len();
    let mut gone: Vec<FxHashSet<&[u8]>> = vec![FxHashSet::default(); of.unit_len()];
    for at in 0..size {
        for (piece, id) in own_pieces(of, at, PieceKind::ToolInput, of.calls(at)) {
            let text = of.pieces(at)[piece].0.as_str();
            if tools.contains(text.split(' ').next().unwrap_or_default()) {
                gone[conversation.unit(at)].insert(id.as_bytes());
            }
        }
    }
    if gone.iter().all(FxHashSet::is_empty) {
        return (Conversation::of(of.clone(), conversation.facts.clone_ref(py)), Vec::new());
    }
    let (mut draft, mut says) = (Draft::with_capacity(size), vec![false; of.unit_len()]);
    for at in 0..size {
        let ids = &gone[conversation.unit(at)];
        let own = own_pieces(of, at, PieceKind::ToolInput, of.calls(at)).chain(own_pieces(
            of,
            at,
            PieceKind::ToolResult,
            of.answers(at),
        ));
        let left_out: FxHashSet<usize> =
            own.filter(|(_, id)| ids.contains(id.as_bytes())).map(|(piece, _)| piece).collect();
        let kept = of.pieces(at).iter().enumerate().filter(|(number, _)| !left_out.contains(number));
        let kept: Vec<Piece> = kept.map(|(_, (text, kind))| (text.clone_ref(py), *kind)).collect();
        says[conversation.unit(at)] |= of.of.rows[at].images > 0 || kept.iter().any(is_said);
        draft.copy_with(py, &of.of, at, kept);
    }
    let is_empty = |at: &usize| !gone[conversation.unit(*at)].is_empty() && !says[conversation.unit(*at)];
    let empty = (0..size).filter(is_empty).map(|at| conversation.index(at)).collect();
    let columns = Columns { of: draft, units: of.units.clone() };
    (Conversation::of(columns, conversation.facts.clone_ref(py)), empty)
}

/// The role, the texts and the calls of each message of a unit. Thinking is left out.
#[pyfunction]
pub fn unit_text<'py>(py: Python<'py>, conversation: &Conversation, unit: usize) -> PyResult<Bound<'py, PyString>> {
    let _running = Running::begin();
    let of = &conversation.columns;
    let mut out: Vec<u8> = Vec::new();
    for &at in of.units.members(unit) {
        let row = &of.of.rows[at];
        let mut texts: Vec<Vec<u8>> = Vec::new();
        for (text, kind) in of.pieces(at).iter().filter(|piece| is_said(piece)) {
            let text = text.to_py(py);
            let text = bytes_of(&text)?;
            texts.push(match kind {
                PieceKind::ToolInput => [b"[calls ", &*text, b"]"].concat(),
                _ => text.into_owned(),
            });
        }
        if row.images > 0 {
            // The shown text holds no media, but its reader must know that there were some.
            let many = if row.images > 1 { "s" } else { "" };
            texts.push(format!("[{} image{many} or document{many} stood here]", row.images).into_bytes());
        }
        if !texts.is_empty() {
            let role = of.of.roles[row.role].shown.bind(py);
            let before: &[u8] = if out.is_empty() { b"" } else { b"\n\n" };
            out.extend([before, &*bytes_of(role)?, b": ", &*texts.join(&b'\n')].concat());
        }
    }
    string_of(py, &out)
}

/// The text of a unit, with calls and results but without thinking, and the kind of memory that it is. The kind comes
/// from the first `most_bytes` of the unit's own words: calls and results are nobody's wish, habit or wisdom.
#[pyfunction]
pub fn unit_memory(
    py: Python<'_>,
    conversation: &Conversation,
    unit: usize,
    most_bytes: usize,
) -> PyResult<(String, &'static str)> {
    let _running = Running::begin();
    let of = &conversation.columns;
    let members = of.units.members(unit);
    let (mut texts, mut words) = (Vec::new(), Vec::new());
    for &at in members {
        let said = of.pieces(at).iter().filter(|(_, kind)| *kind != PieceKind::Thinking);
        let text = said.map(|(text, _)| text.as_str()).collect::<Vec<_>>().join("\n");
        if !text.is_empty() {
            texts.push(text);
        }
        let own = of.pieces(at).iter().filter(|(_, kind)| *kind == PieceKind::Text);
        words.extend(own.map(|(text, _)| text.as_str()));
    }
    let (text, words) = (texts.join("\n"), words.join("\n"));
    let words = words.trim_matches(is_space);
    let end = (0..=most_bytes.min(words.len())).rfind(|&end| words.is_char_boundary(end)).unwrap_or_default();
    let is_assistant = members.first().is_some_and(|&at| of.role(at) == Role::Assistant);
    let kind = detached(py, || Ok(memory_kind(&words[..end], is_assistant)))?;
    Ok((text.trim_matches(is_space).to_owned(), kind))
}

/// The texts that another form of the same entries does not show as they are, each with its replacement there.
#[pyfunction]
pub fn differing_texts<'py>(
    py: Python<'py>,
    original: &Conversation,
    shown: &Conversation,
) -> PyResult<Vec<(Bound<'py, PyString>, Bound<'py, PyString>)>> {
    let _running = Running::begin();
    let texts = |of: &Columns| -> Vec<Bound<'py, PyString>> {
        let said = of.of.pieces.iter().filter(|(_, kind)| *kind != PieceKind::Thinking);
        said.map(|(text, _)| text.to_py(py)).collect()
    };
    let (was, now) = (texts(&original.columns), texts(&shown.columns));
    let all = PyString::new(py, "\n").call_method1("join", (&now,))?.cast_into::<PyString>()?;
    let is_apiece = was.len() == now.len();
    let parts = PyList::new(py, &now)?;
    let mut found = Vec::new();
    for (number, text) in was.into_iter().enumerate() {
        let part = if is_apiece { &now[number] } else { &all };
        let is_shown = PyAnyMethods::eq(text.as_any(), part)? || (!is_apiece && parts.contains(&text)?);
        if !is_shown {
            found.push((text, part.clone()));
        }
    }
    Ok(found)
}

/// Whether a piece has a text that is not thinking.
fn is_said((text, kind): &Piece) -> bool {
    *kind != PieceKind::Thinking && !is_blank(text.as_str())
}

/// The number of the piece of each call or result; None if they don't have one each.
fn own_pieces<'a>(of: &'a Columns, at: usize, kind: PieceKind, ids: &'a [Id]) -> impl Iterator<Item = (usize, &'a Id)> {
    let pieces = of.pieces(at).iter().enumerate().filter(move |(_, piece)| piece.1 == kind).map(|(number, _)| number);
    let ids = if pieces.clone().count() == ids.len() { ids } else { &[] };
    pieces.zip(ids)
}
