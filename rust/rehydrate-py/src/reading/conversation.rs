//! A caller's list, read: its messages and units, and questions about all of them at once.
//!
//! `tests/formats/test_conversation.py` has the laws, and `tests/golden/readings.jsonl` the results of the methods for
//! many lists.
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use once_cell::race::OnceBox;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyString, PyTuple, PyType};
use rehydrate_core::conversation::{PieceKind, Role};
use rustc_hash::FxHashSet;

use super::columns::{Columns, is_blank};
use super::derived;
use super::draft::{Draft, Row};
use super::facts::Facts;
use super::grouping::Units;
use super::strings::Source;
use super::tuples::Make;
use crate::exit::Running;
use crate::interned::interned;

/// A caller's list, read: `messages` in order, partitioned into `units` by first member.
///
/// `ignored` are the indices of entries that are not messages (progress lines of a transcript). Every index of the list
/// is in exactly one unit or in `ignored`. `user_first` says whether the provider wants the first message to be the
/// user's. `bound` are the indices of messages that are always kept: they refer to data of the provider (an earlier
/// response, a compaction), or the provider refuses the rest without them (a thought without text that begins an open
/// tool loop).
///
/// `opening` are those of the bound ones that are only kept for the thought that begins an open tool loop. `unknown`
/// are the unknown types of blocks, with their numbers. They are counted by their readable parts.
///
/// It holds columns, as the engine takes them. Named tuples are made of them on demand: making thousands of them in
/// every call would take longer than the engine does.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Conversation {
    pub columns: Arc<Columns>,
    pub(super) facts: Facts,
    messages: OnceBox<Py<PyTuple>>,
    units: OnceBox<Py<PyTuple>>,
}

impl Conversation {
    /// Whether the first message that is not the system's is the user's.
    pub fn begins_with_user(&self) -> bool {
        let first = (0..self.all().len()).map(|at| self.columns.role(at)).find(|&role| role != Role::System);
        first == Some(Role::User)
    }

    pub fn of(columns: impl Into<Arc<Columns>>, facts: Facts) -> Self {
        Self { columns: columns.into(), facts, messages: OnceBox::new(), units: OnceBox::new() }
    }

    pub fn user_first(&self) -> bool {
        self.facts.user_first
    }

    /// Whether the prompt may begin with a unit. If an assistant's message is one unit with the user's after it, only
    /// the first message can lead, so a blank one may.
    pub fn may_lead(&self, unit: usize) -> bool {
        let of = &self.columns;
        let is_first = || of.units.members(unit).first().is_some_and(|&at| of.is_users(at));
        let is_coupled = matches!(self.facts.format.as_str(), "bedrock" | "gemini");
        !self.facts.user_first || of.opens_with_user(unit) || (is_coupled && is_first())
    }

    pub(super) fn all(&self) -> &[Row] {
        &self.columns.of.rows
    }

    pub(super) fn index(&self, at: usize) -> usize {
        self.all()[at].index
    }

    pub(super) fn unit(&self, at: usize) -> usize {
        self.columns.units.unit_of()[at]
    }

    /// The position of the first message with an index from `start` on.
    pub(super) fn place_of(&self, start: usize) -> usize {
        self.all().partition_point(|row| row.index < start)
    }

    pub fn format_name(&self) -> &str {
        &self.facts.format
    }

    /// Whether the message with this index calls tools, or has their results.
    pub fn uses_tools(&self, index: usize) -> bool {
        let at = self.place_of(index);
        !(self.columns.calls(at).is_empty() && self.columns.answers(at).is_empty())
    }

    /// Messages to count: each is a unit by itself, without other facts.
    pub fn alone(draft: Draft) -> Self {
        let units = Units::single(draft.len());
        Self::of(Columns { of: draft, units }, Facts::default())
    }

    /// `Message`s of Python's to count.
    pub fn of_messages(messages: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut draft = Draft::default();
        for message in messages.try_iter()? {
            draft.take(message?.cast()?)?;
        }
        Ok(Self::alone(draft))
    }

    /// Messages in units, without other facts.
    pub fn in_units(columns: Columns) -> Self {
        Self::of(columns, Facts::default())
    }

    /// The same conversation with other texts.
    pub fn with_columns(&self, py: Python<'_>, columns: Columns) -> Self {
        Self::of(columns, self.facts.clone_ref(py))
    }

    /// The indices of the messages in units that are not kept, unit after unit.
    pub(super) fn dropped_indices(&self, kept_units: &[bool]) -> PyResult<Vec<usize>> {
        self.check(kept_units.len())?;
        let dropped = (0..kept_units.len()).filter(|&unit| !kept_units[unit]);
        Ok(dropped.flat_map(|unit| self.columns.units.members(unit)).map(|&at| self.index(at)).collect())
    }

    fn check(&self, units: usize) -> PyResult<()> {
        if units == self.columns.unit_len() {
            return Ok(());
        }
        Err(PyIndexError::new_err(format!("{units} flags for {} units", self.columns.unit_len())))
    }
}

#[pymethods]
impl Conversation {
    /// Hold these `Message`s, in these `Unit`s. Without units each message is one by itself.
    #[new]
    #[pyo3(signature = (format, messages, units=None, ignored=Vec::new(), user_first=false, bound=Vec::new()))]
    fn made_of(
        format: String,
        messages: Bound<'_, PyTuple>,
        units: Option<Bound<'_, PyTuple>>,
        ignored: Vec<usize>,
        user_first: bool,
        bound: Vec<usize>,
    ) -> PyResult<Self> {
        let _running = Running::begin();
        let of = drafted(&messages)?;
        let facts = Facts { format, ignored, user_first, bound, ..Facts::default() };
        let members = |unit: Bound<'_, PyAny>| unit.cast::<PyTuple>()?.get_item(0)?.extract::<Vec<usize>>();
        let grouped = if let Some(units) = &units {
            let members = units.iter().map(members).collect::<PyResult<Vec<_>>>()?;
            let numbered = members.iter().enumerate();
            let unit_of: HashMap<usize, usize> =
                numbered.flat_map(|(n, of)| of.iter().map(move |&at| (at, n))).collect();
            let found: Option<Vec<usize>> = of.rows.iter().map(|row| unit_of.get(&row.index).copied()).collect();
            let found = found.ok_or_else(|| PyIndexError::new_err("a message of no unit"))?;
            Units::new(found, members.len())
        } else {
            Units::single(of.len())
        };
        let made = Self::of(Arc::new(Columns { of, units: grouped }), facts);
        let _ = made.messages.set(Box::new(messages.unbind()));
        if let Some(units) = units {
            let _ = made.units.set(Box::new(units.unbind()));
        }
        Ok(made)
    }

    /// The same messages with other facts.
    #[pyo3(signature = (*, ignored=None, user_first=None, bound=None, opening=None, unknown=None))]
    fn replace(
        &self,
        py: Python<'_>,
        ignored: Option<Vec<usize>>,
        user_first: Option<bool>,
        bound: Option<Vec<usize>>,
        opening: Option<Vec<usize>>,
        unknown: Option<Py<PyDict>>,
    ) -> Self {
        let old = self.facts.clone_ref(py);
        let facts = Facts {
            format: old.format,
            ignored: ignored.unwrap_or(old.ignored),
            user_first: user_first.unwrap_or(old.user_first),
            bound: bound.unwrap_or(old.bound),
            opening: opening.unwrap_or(old.opening),
            unknown: unknown.or(old.unknown),
        };
        Self::of(self.columns.clone(), facts)
    }

    /// The same conversation with other messages in place of those with these indices. Its units stay.
    fn with_messages(&self, py: Python<'_>, messages: HashMap<usize, Bound<'_, PyTuple>>) -> PyResult<Self> {
        let _running = Running::begin();
        derived::with_messages(self, py, &messages)
    }

    /// These messages with those of another list after them, whose indices go on from `start`. Their units are unknown:
    /// each message is one by itself. None if the others, read alone, are not the same as after these.
    fn followed_by(&self, py: Python<'_>, other: &Self, start: usize) -> Option<Self> {
        derived::followed_by(self, py, other, start)
    }

    /// These messages without the texts of those that call tools with long inputs: these texts aren't Python strings,
    /// so nothing else holds them. Units are unknown.
    fn light(&self, py: Python<'_>) -> Self {
        derived::light(self, py)
    }

    /// The indices of the messages without their texts, from an index on.
    fn light_indices(&self, start: usize) -> Vec<usize> {
        self.all()[self.place_of(start)..].iter().filter(|row| row.is_light).map(|row| row.index).collect()
    }

    /// The messages from an index on.
    fn messages_from<'py>(&self, py: Python<'py>, start: usize) -> PyResult<Bound<'py, PyTuple>> {
        let _running = Running::begin();
        let first = self.place_of(start);
        if first == 0 {
            return self.messages(py);
        }
        let make = Make::new(py)?;
        PyTuple::new(py, (first..self.all().len()).map(|at| self.made(&make, at)).collect::<PyResult<Vec<_>>>()?)
    }

    /// Whether the entry of this index is a message.
    pub fn __contains__(&self, index: usize) -> bool {
        self.all().get(self.place_of(index)).is_some_and(|row| row.index == index)
    }

    /// Whether two calls have one id.
    fn repeats_calls(&self) -> bool {
        let mut seen = FxHashSet::default();
        !self.columns.of.calls.iter().all(|id| seen.insert(id.as_bytes()))
    }

    /// The ids of the answers, each with the index of its message.
    fn answers<'py>(&self, py: Python<'py>) -> Vec<(Bound<'py, PyString>, usize)> {
        let ids = |at| self.columns.answers(at).iter().map(move |id| (id.to_py(py), self.index(at)));
        (0..self.all().len()).flat_map(ids).collect()
    }

    /// The same conversation, read from a part of a list. `indices` are those of the part's entries in the list.
    pub(super) fn renumbered(&self, py: Python<'_>, indices: Vec<usize>) -> PyResult<Self> {
        let _running = Running::begin();
        derived::renumbered(self, py, &indices)
    }

    /// The same conversation without the messages of these indices.
    fn without(&self, py: Python<'_>, indices: &Bound<'_, PyAny>) -> PyResult<Self> {
        let _running = Running::begin();
        let gone: HashSet<usize> = indices.try_iter()?.map(|index| index?.extract()).collect::<PyResult<_>>()?;
        Ok(derived::without(self, py, &gone))
    }

    #[getter]
    fn format(&self) -> &str {
        &self.facts.format
    }

    #[getter]
    fn ignored<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.facts.ignored)
    }

    #[getter(user_first)]
    fn wants_user_first(&self) -> bool {
        self.facts.user_first
    }

    #[getter]
    fn bound<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.facts.bound)
    }

    #[getter]
    fn opening<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.facts.opening)
    }

    #[getter]
    fn unknown<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        self.facts.unknown.as_ref().map_or_else(|| PyDict::new(py), |unknown| unknown.bind(py).clone())
    }

    /// All messages, in order.
    #[getter]
    pub fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let found = self.messages.get_or_try_init(|| {
            let make = Make::new(py)?;
            let messages = (0..self.all().len()).map(|at| self.made(&make, at)).collect::<PyResult<Vec<_>>>()?;
            PyResult::Ok(Box::new(PyTuple::new(py, messages)?.unbind()))
        })?;
        Ok(found.bind(py).clone())
    }

    /// All units, in the order of their first messages.
    #[getter]
    pub fn units<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let found = self.units.get_or_try_init(|| {
            let (make, messages) = (Make::new(py)?, self.messages(py)?);
            let unit = |unit: usize| {
                let members = self.columns.units.members(unit);
                let indices = PyTuple::new(py, members.iter().map(|&at| self.index(at)))?;
                let of = members.iter().map(|&at| messages.get_item(at)).collect::<PyResult<Vec<_>>>()?;
                make.new.call1((&make.unit, (indices, PyTuple::new(py, of)?)))
            };
            let units = (0..self.columns.unit_len()).map(unit).collect::<PyResult<Vec<_>>>()?;
            PyResult::Ok(Box::new(PyTuple::new(py, units)?.unbind()))
        })?;
        Ok(found.bind(py).clone())
    }

    /// The message at a position.
    fn message<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        let _running = Running::begin();
        if at >= self.all().len() {
            return Err(PyIndexError::new_err(format!("message {at} of {}", self.all().len())));
        }
        self.made(&Make::new(py)?, at)
    }

    /// The number of messages.
    #[getter]
    fn message_count(&self) -> usize {
        self.all().len()
    }

    /// The number of units.
    #[getter]
    fn unit_count(&self) -> usize {
        self.columns.unit_len()
    }

    /// The index of each message.
    #[getter]
    pub fn indices(&self) -> Vec<usize> {
        self.all().iter().map(|row| row.index).collect()
    }

    /// The roles that occur.
    #[getter]
    fn roles(&self, py: Python<'_>) -> Vec<Py<PyString>> {
        self.columns.of.roles.iter().map(|known| known.shown.clone_ref(py)).collect()
    }

    /// All texts, message after message.
    pub fn texts<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyString>> {
        self.columns.of.pieces.iter().map(|(text, _)| text.to_py(py)).collect()
    }

    /// For each message, whether its unit is kept.
    fn kept_messages(&self, kept_units: Vec<bool>) -> PyResult<Vec<bool>> {
        let _running = Running::begin();
        self.check(kept_units.len())?;
        Ok(self.columns.units.unit_of().iter().map(|&unit| kept_units[unit]).collect())
    }

    /// Index and text of each message of the user with one text that is a unit by itself, if the text begins like this.
    fn lone_texts<'py>(&self, py: Python<'py>, beginning: &str) -> Vec<(usize, Bound<'py, PyString>)> {
        let of = &self.columns;
        let lone = (0..of.unit_len()).filter_map(|unit| match *of.units.members(unit) {
            [only] if of.role(only) == Role::User && of.pieces(only).len() == 1 => Some(only),
            _ => None,
        });
        let found = lone.map(|at| (at, &of.pieces(at)[0].0)).filter(|(_, text)| text.as_str().starts_with(beginning));
        found.map(|(at, text)| (self.index(at), text.to_py(py))).collect()
    }

    /// The indices of messages with more than texts, images, calls and their results.
    fn uncommon_indices(&self) -> Vec<usize> {
        self.all().iter().filter(|row| !row.is_common).map(|row| row.index).collect()
    }

    /// The indices of all messages that may hold a thought.
    fn thoughtful_indices(&self) -> Vec<usize> {
        self.all().iter().filter(|row| !row.is_thoughtless).map(|row| row.index).collect()
    }

    /// The message in which the user spoke last.
    fn last_user_message<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _running = Running::begin();
        self.last_turn().map(|at| self.message(py, at)).transpose()
    }

    /// The text of the last user turn. "" if there is none.
    pub fn last_user_text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let Some(message) = self.last_user_message(py)? else { return Ok(PyString::new(py, "")) };
        let text = message.getattr(interned!(py, "text"))?;
        Ok(text.call_method0(interned!(py, "strip"))?.cast_into()?)
    }

    /// The unit with the last assistant message before the last user turn: the reply that the user answers, as in "yes, the
    /// second one".
    fn answered_reply(&self) -> Option<usize> {
        let of = &self.columns;
        let mut before = (0..self.all().len()).rev().skip_while(|&at| !self.all()[at].is_user_turn).skip(1);
        let says = |(text, kind): &(Source, PieceKind)| *kind == PieceKind::Text && !is_blank(text.as_str());
        let reply = before.find(|&at| of.role(at) == Role::Assistant && of.pieces(at).iter().any(says))?;
        Some(self.unit(reply))
    }

    /// The units that are always kept, with the reason: system, last user turn, open tool loop and its user turn, bound
    /// ones.
    ///
    /// `thoughts=False` leaves out those kept only for the thinking that begins a loop.
    #[pyo3(signature = (*, thoughts=true))]
    fn pins<'py>(&self, py: Python<'py>, thoughts: bool) -> PyResult<Bound<'py, PyDict>> {
        let _running = Running::begin();
        self.pinned(py, thoughts)
    }

    /// The units always kept only for their text, although they may hold tool results: a user may write in the message that
    /// answers a call, and a system message be bound to one.
    fn kept_for_words<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyFrozenSet>> {
        let _running = Running::begin();
        PyFrozenSet::new(py, self.pinned_for_words())
    }

    /// Message index -> unit, unit after unit.
    fn unit_of<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let _running = Running::begin();
        let unit_of = PyDict::new(py);
        for unit in 0..self.columns.unit_len() {
            for &at in self.columns.units.members(unit) {
                unit_of.set_item(self.index(at), unit)?;
            }
        }
        Ok(unit_of)
    }

    /// The units of these indices, ascending. Ignored entries have none.
    fn units_holding(&self, indices: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        let _running = Running::begin();
        Ok(self.units_of(&indices.try_iter()?.map(|index| index?.extract()).collect::<PyResult<_>>()?))
    }

    /// Raise InvalidMessageError for the first message with a role that is neither a usual one nor `weighted`.
    #[pyo3(signature = (weighted=None))]
    fn check_speakers(&self, py: Python<'_>, weighted: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _running = Running::begin();
        self.check_roles(py, weighted)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let _running = Running::begin();
        match other.cast_exact::<Self>() {
            Ok(other) => {
                Ok(self.values(py)?.eq(other.get().values(py)?)?.into_pyobject(py)?.to_owned().into_any().unbind())
            }
            Err(_) => Ok(py.NotImplemented()),
        }
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        let _running = Running::begin();
        self.values(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let _running = Running::begin();
        Ok(format!("Conversation{}", self.values(py)?.repr()?))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        let _running = Running::begin();
        Ok((py.get_type::<Self>(), self.values(py)?))
    }
}

fn drafted(messages: &Bound<'_, PyTuple>) -> PyResult<Draft> {
    let mut draft = Draft::with_capacity(messages.len());
    for message in messages {
        draft.take(message.cast::<PyTuple>()?)?;
    }
    Ok(draft)
}
