//! Conversations made of another one: with other messages, with more, with fewer, with other indices.
use std::collections::{HashMap, HashSet};

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rehydrate_core::conversation::PieceKind;

use super::columns::Columns;
use super::conversation::Conversation;
use super::draft::Draft;
use super::facts::Facts;
use super::gemini;
use super::grouping::Units;

/// Bytes. Longer inputs of tools are read again rather than held between two prompts.
const LONG_INPUT: usize = 500;

/// The same units, with other messages in place of those of these indices.
pub fn with_messages(
    of: &Conversation,
    py: Python<'_>,
    messages: &HashMap<usize, Bound<'_, PyTuple>>,
) -> PyResult<Conversation> {
    let rows = of.all().len();
    let first = (0..rows).find(|&at| messages.contains_key(&of.index(at))).unwrap_or(rows);
    let mut draft = of.columns.of.beginning(py, first);
    for at in first..rows {
        match messages.get(&of.index(at)) {
            Some(message) => draft.take(message)?,
            None => draft.copy(py, &of.columns.of, at),
        }
    }
    Ok(of.with_columns(py, Columns { of: draft, units: of.columns.units.clone() }))
}

/// The messages with those of another list after them: see `Conversation.followed_by`.
pub fn followed_by(of: &Conversation, py: Python<'_>, other: &Conversation, start: usize) -> Option<Conversation> {
    if of.facts.format == "gemini" && gemini::answers_by_name(&of.columns, &other.columns) {
        return None;
    }
    let mut draft = of.columns.of.beginning(py, of.all().len());
    for (at, row) in other.all().iter().enumerate() {
        draft.copy(py, &other.columns.of, at);
        draft.end_at(row.index + start);
    }
    Some(by_themselves(of, draft))
}

/// The messages without the texts of those that call tools with long inputs: see `Conversation.light`.
pub fn light(of: &Conversation, py: Python<'_>) -> Conversation {
    let columns = &of.columns;
    let is_long = |at: &usize| {
        let inputs = columns.pieces(*at).iter().filter(|(_, kind)| *kind == PieceKind::ToolInput);
        !columns.calls(*at).is_empty() && inputs.map(|(text, _)| text.as_str().len()).sum::<usize>() > LONG_INPUT
    };
    let Some(first) = (0..of.all().len()).find(is_long) else {
        return Conversation::of(columns.clone(), of.facts.clone_ref(py));
    };
    let mut draft = columns.of.beginning(py, first);
    for at in first..of.all().len() {
        draft.copy(py, &columns.of, at);
        if is_long(&at) {
            draft.leave_out_texts();
        }
    }
    by_themselves(of, draft)
}

/// The messages with other indices: by each that they have, the one that they get.
pub fn renumbered(of: &Conversation, py: Python<'_>, indices: &[usize]) -> PyResult<Conversation> {
    let place = |at: &usize| indices.get(*at).copied().ok_or_else(|| PyIndexError::new_err(format!("no index {at}")));
    let places = |of: &[usize]| of.iter().map(place).collect::<PyResult<Vec<_>>>();
    let mut draft = of.columns.of.beginning(py, of.all().len());
    for row in &mut draft.rows {
        row.index = place(&row.index)?;
    }
    let mut facts = of.facts.clone_ref(py);
    (facts.bound, facts.opening) = (places(&facts.bound)?, places(&facts.opening)?);
    facts.ignored = places(&facts.ignored)?;
    Ok(Conversation::of(Columns { of: draft, units: of.columns.units.clone() }, facts))
}

/// The messages except those of these indices. What is left of a unit is one unit.
pub fn without(of: &Conversation, py: Python<'_>, gone: &HashSet<usize>) -> Conversation {
    let mut draft = Draft::with_capacity(of.all().len());
    let (mut numbers, mut unit_of) = (HashMap::new(), Vec::new());
    for at in (0..of.all().len()).filter(|&at| !gone.contains(&of.index(at))) {
        draft.copy(py, &of.columns.of, at);
        let next = numbers.len();
        unit_of.push(*numbers.entry(of.unit(at)).or_insert(next));
    }
    let units = Units::new(unit_of, numbers.len());
    of.with_columns(py, Columns { of: draft, units })
}

/// Messages of which no more is known than their format: each is a unit by itself.
fn by_themselves(of: &Conversation, draft: Draft) -> Conversation {
    let units = Units::single(draft.len());
    let format = of.facts.format.clone();
    Conversation::of(Columns { of: draft, units }, Facts { format, ..Facts::default() })
}
