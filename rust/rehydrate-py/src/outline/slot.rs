//! The place of an outline among the kept messages.
use pyo3::prelude::*;
use rehydrate_core::conversation::PieceKind;
use rustc_hash::FxHashSet;

use crate::convert::indices_in;
use crate::exit::Running;
use crate::reading::{Columns, Conversation, Row};

/// The index of the first gap where a message may go, and the index that the outline is put before. None if there is
/// none.
///
/// `removed` are indices of messages that were removed from the conversation before. A slot is never inside a unit, and
/// never after a thought. Some models (a `ThinkingModel`) refuse a tool loop without the thinking at its beginning, and
/// would take the outline for a new beginning. Then the slot is before the last user turn, or nowhere if that thinking
/// is bound to the messages before it.
#[pyfunction]
pub fn outline_slot(
    conversation: &Conversation,
    kept: &Bound<'_, PyAny>,
    mut removed: Vec<f64>,
    model: &Bound<'_, PyAny>,
) -> PyResult<Option<(f64, f64)>> {
    let _running = Running::begin();
    let any_opening = model.getattr("open_loop")?.eq("any")?;
    let binds_prefix = model.getattr("binds_prefix")?.is_truthy()?;
    let (of, kept) = (&*conversation.columns, indices_in(kept)?);
    let rows: Vec<&Row> = of.rows().map(|(_, row, _)| row).collect();
    removed.sort_unstable_by(f64::total_cmp);
    let mut removed = removed.into_iter().peekable();
    let (mut open_until, mut may_end) = (-1.0, true);
    let mut found = None;
    for (at, row) in rows.iter().enumerate() {
        let index = as_float(row.index);
        while let Some(gone) = removed.next_if(|&gone| gone <= index) {
            if found.is_none() && gone < index && gone > open_until && may_end {
                found = Some(gone);
            }
        }
        if found.is_some() {
            break;
        }
        if kept.contains(&row.index) {
            open_until = f64::max(open_until, as_float(of.last_of_unit(at)));
            may_end = !of.pieces(at).last().is_some_and(|(_, kind)| *kind == PieceKind::Thinking);
        } else if index > open_until && may_end {
            found = Some(index);
            break;
        }
    }
    let found = found.or_else(|| removed.find(|&gone| gone > open_until && may_end));
    let Some(index) = found else { return Ok(None) };
    let turn = rows.iter().rev().find(|row| row.is_user_turn).map(|row| row.index);
    if any_opening || turn.is_some_and(|turn| index < as_float(turn)) || !loop_has_thinking(of, &kept, turn) {
        return Ok(Some((index, index)));
    }
    Ok(turn.filter(|_| !binds_prefix).map(|turn| (index, as_float(before_units(of, &rows, turn)))))
}

/// This index, or that of the first message of the units that it is inside: the turn may hold the results of calls too.
fn before_units(of: &Columns, rows: &[&Row], mut index: usize) -> usize {
    for (at, row) in rows.iter().enumerate().rev() {
        if row.index < index && of.last_of_unit(at) >= index {
            index = row.index;
        }
    }
    index
}

/// Whether a kept message after the last user turn has a thought.
fn loop_has_thinking(of: &Columns, kept: &FxHashSet<usize>, turn: Option<usize>) -> bool {
    of.rows().enumerate().any(|(at, (_, row, _))| {
        turn.is_none_or(|turn| row.index > turn)
            && kept.contains(&row.index)
            && of.pieces(at).iter().any(|(_, kind)| *kind == PieceKind::Thinking)
    })
}

/// Indices are places in a list: all of them are exact.
#[expect(clippy::cast_precision_loss, reason = "no list has that many messages")]
pub(super) fn as_float(index: usize) -> f64 {
    index as f64
}
