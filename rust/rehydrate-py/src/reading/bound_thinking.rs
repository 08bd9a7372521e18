//! Thinking that a compaction takes out of a conversation: all of it, or the part that the model refuses after a
//! change.
//!
//! Providers accept a conversation without thoughts, but some refuse a tool loop that lost them. So the model's
//! messages since the user's last turn stay as they are while its tools run.
use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rehydrate_core::conversation::PieceKind;
use rustc_hash::FxHashMap;

use super::conversation::Conversation;
use super::draft::Draft;
use super::fields::{Fields, listed};
use super::read_entries;
use super::thinking::entries_without_thinking;
use super::transcript::line_content;
use crate::exit::Running;
use crate::interned::interned;

/// Whether the next model binds the thinking of a conversation to the messages before it.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct PrefixBinding {
    conversation: Py<Conversation>,
    entries: Py<PyAny>,
    /// Whether the model refuses thinking after a change.
    refuses: bool,
    /// Whether it takes an open tool loop with and without the thinking at its beginning.
    takes_any_loop: bool,
}

#[pymethods]
impl PrefixBinding {
    /// The binding under the rules of a `ThinkingModel`.
    #[new]
    fn new(conversation: Py<Conversation>, entries: Py<PyAny>, model: &Bound<'_, PyAny>) -> PyResult<Self> {
        let _running = Running::begin();
        let py = model.py();
        let refuses = model.getattr(interned!(py, "refuses_changed_prefix"))?.is_truthy()?;
        let takes_any_loop = model.getattr(interned!(py, "open_loop"))?.eq("any")?;
        Ok(Self { conversation, entries, refuses, takes_any_loop })
    }

    /// Whether the model refuses thinking after a change.
    #[getter]
    fn refuses_changed_prefix(&self) -> bool {
        self.refuses
    }

    /// Whether an open tool loop must keep the thinking at its beginning.
    #[getter]
    fn needs_thoughts(&self) -> bool {
        !self.refuses || !self.takes_any_loop
    }

    /// Whether there are changes under which a compaction must wait for the end of the turn.
    #[getter]
    fn may_wait(&self) -> bool {
        self.refuses && !self.takes_any_loop
    }

    /// The index of the first message that goes with its unit or is among the `changed`. None if there is none, and for
    /// a model that does not bind thinking.
    fn first_change(&self, py: Python<'_>, kept_units: Vec<bool>, changed: Vec<usize>) -> PyResult<Option<usize>> {
        let _running = Running::begin();
        if !self.refuses {
            return Ok(None);
        }
        let conversation = self.conversation.get();
        let dropped = conversation.dropped_indices(&kept_units)?;
        if dropped.is_empty() && changed.is_empty() {
            return Ok(None);
        }
        let start = last_summary(conversation, self.entries.bind(py))?;
        Ok(dropped.into_iter().chain(changed).filter(|&index| index >= start).min())
    }

    /// Whether a compaction that keeps these units must wait for the end of the turn.
    fn must_wait(&self, py: Python<'_>, kept_units: Vec<bool>, changed: Vec<usize>) -> PyResult<bool> {
        let _running = Running::begin();
        if !self.may_wait() {
            return Ok(false);
        }
        let first = self.first_change(py, kept_units, changed)?;
        first.map_or(Ok(false), |first| self.loop_is_at_risk(py, first))
    }

    /// Whether the model may refuse the open tool loop after this change either way: it refuses the thinking there, and
    /// a loop without the thinking at its beginning.
    fn loop_is_at_risk(&self, py: Python<'_>, first_change: usize) -> PyResult<bool> {
        let _running = Running::begin();
        let conversation = self.conversation.get();
        let Some((_, Some(beginning))) = conversation.loop_start() else { return Ok(false) };
        if beginning < first_change {
            return Ok(false);
        }
        let entry = self.entries.bind(py).get_item(beginning)?;
        let alone = PyList::new(py, [&entry])?;
        let left = entries_without_thinking(conversation.format_name(), alone.as_any())?;
        Ok(!left.first().is_some_and(|left| is_same(left.as_ref(), &entry)))
    }
}

/// The index from which on a change matters: that of the last summary that the API itself wrote.
///
/// Thinking after a `compaction` block is bound to that block, not to earlier messages.
fn last_summary(conversation: &Conversation, entries: &Bound<'_, PyAny>) -> PyResult<usize> {
    for row in conversation.all().iter().rev().filter(|row| !row.is_common) {
        let entry = entries.get_item(row.index)?;
        let content = match Fields::of(&entry) {
            _ if conversation.format_name() == "claude_code" => line_content(&entry)?,
            Some(fields) => fields.get(interned!(entry.py(), "content"))?,
            None => entry.getattr_opt(interned!(entry.py(), "content"))?,
        };
        for block in listed(content.as_ref())? {
            if Fields::of(&block).map_or(Ok(false), |block| PyResult::Ok(block.kind()?.name() == "compaction"))? {
                return Ok(row.index);
            }
        }
    }
    Ok(0)
}

/// An entry after a change, and before it.
fn is_same(left: Option<&Bound<'_, PyAny>>, entry: &Bound<'_, PyAny>) -> bool {
    left.is_some_and(|left| left.is(entry))
}

/// A conversation, its entries, and tokens by index and by unit.
type Stripped<'py> = (Bound<'py, Conversation>, Bound<'py, PyAny>, Bound<'py, PyDict>, Bound<'py, PyDict>);

/// The conversation of these entries without its thinking, except in an open tool loop, and its entries. None for one
/// of only thinking. With `count`, from a conversation to the tokens of each message, also the tokens that each message
/// lost, by index, and those of each remaining unit.
#[pyfunction]
#[pyo3(signature = (conversation, entries, count=None))]
pub fn without_thinking<'py>(
    conversation: &Bound<'py, Conversation>,
    entries: &Bound<'py, PyAny>,
    count: Option<&Bound<'py, PyAny>>,
) -> PyResult<Stripped<'py>> {
    let _running = Running::begin();
    let (py, of) = (entries.py(), conversation.get());
    let (tokens, by_unit) = (PyDict::new(py), PyDict::new(py));
    let before = entries.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let mut after = entries_without_thinking(of.format_name(), entries)?;
    let changed = |after: &[Option<Bound<'py, PyAny>>]| -> Vec<usize> {
        let positions = 0..of.all().len();
        positions.filter(|&at| !is_same(after[of.index(at)].as_ref(), &before[of.index(at)])).collect()
    };
    if changed(&after).is_empty() {
        return Ok((conversation.clone(), entries.clone(), tokens, by_unit));
    }
    // Without thoughts first: a thought that is alone after results does not answer them, and must not hide that the loop is open.
    let mut rest = read_again(py, of, &after)?;
    if let Some((start, _)) = rest.loop_start() {
        for (left, entry) in after.iter_mut().zip(&before).skip(start) {
            *left = Some(entry.clone());
        }
        rest = read_again(py, of, &after)?;
    }
    let changed = changed(&after);
    if changed.is_empty() {
        return Ok((conversation.clone(), entries.clone(), tokens, by_unit));
    }
    if let Some(count) = count {
        let place = |at: usize| {
            let place = rest.place_of(of.index(at));
            (place < rest.all().len() && rest.index(place) == of.index(at)).then_some(place)
        };
        let (mut whole, mut left) = (Draft::default(), Draft::default());
        for &at in &changed {
            whole.copy(py, &of.columns.of, at);
            if let Some(place) = place(at) {
                left.copy(py, &rest.columns.of, place);
            }
        }
        let mut left = counted(py, count, left)?.into_iter();
        for (&at, whole) in changed.iter().zip(counted(py, count, whole)?) {
            let lost = whole - place(at).and_then(|_| left.next()).unwrap_or(0);
            tokens.set_item(of.index(at), lost)?;
            // A message that is gone counts for a message of its old unit.
            let members = of.columns.units.members(of.unit(at));
            if let Some(unit) = members.iter().find_map(|&member| place(member)).map(|place| rest.unit(place)) {
                let known: i64 = by_unit.get_item(unit)?.map_or(Ok(0), |known| known.extract())?;
                by_unit.set_item(unit, known + lost)?;
            }
        }
    }
    Ok((Bound::new(py, rest)?, PyList::new(py, after)?.into_any(), tokens, by_unit))
}

/// The remaining entries of a conversation, read again. The indices stay the same.
fn read_again<'py>(
    py: Python<'py>,
    conversation: &Conversation,
    entries: &[Option<Bound<'py, PyAny>>],
) -> PyResult<Conversation> {
    let indices = conversation.all().iter().map(|row| row.index);
    let (left, kept): (Vec<usize>, Vec<_>) =
        indices.filter_map(|index| Some((index, entries.get(index)?.as_ref()?))).unzip();
    let rest = read_entries(conversation.format_name(), PyList::new(py, kept)?.as_any())?;
    let mut rest = rest.renumbered(py, left)?;
    rest.facts.ignored.clone_from(&conversation.facts.ignored);
    Ok(rest)
}

/// The tokens of messages.
fn counted(py: Python<'_>, count: &Bound<'_, PyAny>, messages: Draft) -> PyResult<Vec<i64>> {
    if messages.len() == 0 {
        return Ok(Vec::new());
    }
    count.call1((Bound::new(py, Conversation::alone(messages))?,))?.extract()
}

/// Indices, entries, and tokens by index.
type Kept<'py> = (Vec<usize>, Vec<Bound<'py, PyAny>>, Bound<'py, PyDict>);

/// The kept entries without the thinking from `first_change` on: their indices, the entries, and the tokens that each changed or
/// removed message lost, by its index. `excerpts` are the messages that are kept in part, by index.
#[pyfunction]
pub fn without_stale_thinking<'py>(
    conversation: &Conversation,
    indices: Vec<usize>,
    entries: Vec<Bound<'py, PyAny>>,
    first_change: usize,
    excerpts: HashMap<usize, Bound<'py, PyTuple>>,
    count: &Bound<'py, PyAny>,
) -> PyResult<Kept<'py>> {
    let _running = Running::begin();
    let (py, of) = (count.py(), conversation);
    let (tokens, start) = (PyDict::new(py), indices.partition_point(|&index| index < first_change));
    let thinks: FxHashMap<usize, bool> = of.all().iter().map(|row| (row.index, !row.is_thoughtless)).collect();
    if !indices[start..].iter().any(|index| thinks.get(index) == Some(&true)) {
        return Ok((indices, entries, tokens));
    }
    // How a message of only thinking is written may depend on the one before.
    let first = start.saturating_sub(1);
    let tail = PyList::new(py, &entries[first..])?;
    let after = entries_without_thinking(of.format_name(), tail.as_any())?.split_off(start - first);
    let (mut changed, mut whole) = (Vec::new(), Draft::default());
    for (at, left) in after.iter().enumerate() {
        let index = indices[start + at];
        if is_same(left.as_ref(), &entries[start + at]) {
            continue;
        }
        match excerpts.get(&index) {
            Some(message) => whole.take(message)?,
            None => whole.copy(py, &of.columns.of, of.place_of(index)),
        }
        changed.push(at);
    }
    let mut rest = Draft::default();
    for (number, &at) in changed.iter().enumerate() {
        let Some(left) = &after[at] else { continue };
        let begin = number.checked_sub(1).map_or(0, |before| whole.rows[before].pieces_end);
        let pieces = whole.pieces[begin..whole.rows[number].pieces_end].iter();
        let mut pieces: Vec<_> = pieces
            .filter(|(_, kind)| *kind != PieceKind::Thinking)
            .map(|(text, kind)| (text.clone_ref(py), *kind))
            .collect();
        if pieces.is_empty() {
            // A text that says so may replace it.
            let said = read_entries(of.format_name(), PyList::new(py, [left])?.as_any())?;
            pieces = said.columns.of.pieces.iter().map(|(text, kind)| (text.clone_ref(py), *kind)).collect();
        }
        rest.copy_with(py, &whole, number, pieces);
    }
    let mut left = counted(py, count, rest)?.into_iter();
    for (&at, whole) in changed.iter().zip(counted(py, count, whole)?) {
        let lost = whole - after[at].as_ref().and_then(|_| left.next()).unwrap_or(0);
        tokens.set_item(indices[start + at], lost)?;
    }
    let left = after.into_iter().zip(&indices[start..]).filter_map(|(entry, &index)| Some((index, entry?)));
    let kept = indices[..start].iter().copied().zip(entries[..start].iter().cloned());
    let (indices, entries) = kept.chain(left).unzip();
    Ok((indices, entries, tokens))
}
