//! A conversation in columns: what the readers fill, and what is asked of all its messages at once.
//!
//! The methods of `rehydrate.messages.Conversation` that walk named tuples are their slow twins, and
//! `tests/formats/test_columns.py` holds the law that both say the same.
use std::collections::HashMap;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};
use rehydrate_core::conversation::{PieceKind, Role};

use super::draft::{Draft, Row};
use super::grouping::{self, Units};
use super::strings::{Id, Source};

/// A conversation, read: messages over texts and ids, in units.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Columns {
    of: Draft,
    units: Units,
}

impl Columns {
    /// Group the messages of a draft: calls with their answers, and what `links` joins besides, by position.
    pub fn group(draft: Draft, links: &[(usize, usize)]) -> Self {
        let (mut calls, mut answers) = (0, 0);
        let ids = draft.rows.iter().map(|row| {
            let of = (&draft.calls[calls..row.calls_end], &draft.answers[answers..row.answers_end]);
            (calls, answers) = (row.calls_end, row.answers_end);
            of
        });
        let units = grouping::group(draft.rows.len(), ids, links);
        Self { of: draft, units }
    }
}

/// The classes of the named tuples: of a piece, a message and a unit, and the kinds of pieces in order.
type Shapes<'py> = (Bound<'py, PyType>, Bound<'py, PyType>, Bound<'py, PyType>, Bound<'py, PyTuple>);

#[pymethods]
impl Columns {
    /// These `Message`s in columns, grouped by their calls and answers, and by `links` of positions.
    #[staticmethod]
    fn grouped(messages: &Bound<'_, PyTuple>, links: Vec<(usize, usize)>) -> PyResult<Self> {
        let draft = drafted(messages)?;
        if links.iter().any(|&(one, other)| one.max(other) >= draft.len()) {
            return Err(PyIndexError::new_err("a link to no message"));
        }
        Ok(Columns::group(draft, &links))
    }

    /// These `Message`s in columns, in units of these indices; without them each is a unit.
    #[staticmethod]
    fn in_units(messages: &Bound<'_, PyTuple>, units: Option<Vec<Vec<usize>>>) -> PyResult<Self> {
        let of = drafted(messages)?;
        let Some(units) = units else {
            let units = Units::single(of.len());
            return Ok(Self { of, units });
        };
        let unit_of: HashMap<usize, usize> =
            units.iter().enumerate().flat_map(|(unit, members)| members.iter().map(move |&m| (m, unit))).collect();
        let unit = |row: &Row| unit_of.get(&row.index).copied();
        let found: Option<Vec<usize>> = of.rows.iter().map(unit).collect();
        let found = found.ok_or_else(|| PyIndexError::new_err("a message of no unit"))?;
        let units = Units::new(found, units.len());
        Ok(Self { of, units })
    }

    /// How many messages there are.
    fn __len__(&self) -> usize {
        self.of.rows.len()
    }

    /// How many units there are.
    #[getter]
    fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// The roles that occur.
    #[getter]
    fn roles(&self, py: Python<'_>) -> Vec<Py<PyString>> {
        self.of.roles.iter().map(|(_, role)| role.clone_ref(py)).collect()
    }

    /// Per message its index in the caller's list.
    #[getter]
    fn indices(&self) -> Vec<usize> {
        self.of.rows.iter().map(|row| row.index).collect()
    }

    /// All texts, message after message.
    fn texts<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyString>> {
        self.of.pieces.iter().map(|(text, _)| text.to_py(py)).collect()
    }

    /// All messages, as named tuples.
    fn messages<'py>(&self, py: Python<'py>, shapes: Shapes<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let make = Make::new(py, shapes)?;
        let messages: Vec<_> = (0..self.of.rows.len()).map(|at| self.made(&make, at)).collect::<PyResult<_>>()?;
        PyTuple::new(py, messages)
    }

    /// The message at a position.
    fn message<'py>(&self, py: Python<'py>, at: usize, shapes: Shapes<'py>) -> PyResult<Bound<'py, PyAny>> {
        if at >= self.of.rows.len() {
            return Err(PyIndexError::new_err(format!("message {at} of {}", self.of.rows.len())));
        }
        self.made(&Make::new(py, shapes)?, at)
    }

    /// All units of these messages, as named tuples.
    fn units<'py>(
        &self,
        py: Python<'py>,
        messages: &Bound<'py, PyTuple>,
        shapes: Shapes<'py>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let make = Make::new(py, shapes)?;
        let unit = |unit: usize| {
            let members = PyTuple::new(py, self.units.members(unit).iter().map(|&at| self.of.rows[at].index))?;
            let of = self.units.members(unit).iter().map(|&at| messages.get_item(at)).collect::<PyResult<Vec<_>>>()?;
            make.new.call1((&make.shapes.2, (members, PyTuple::new(py, of)?)))
        };
        PyTuple::new(py, (0..self.units.len()).map(unit).collect::<PyResult<Vec<_>>>()?)
    }

    /// Per message, whether its unit is kept.
    fn kept_messages(&self, kept_units: Vec<bool>) -> PyResult<Vec<bool>> {
        self.check(kept_units.len())?;
        Ok(self.units.unit_of().iter().map(|&unit| kept_units[unit]).collect())
    }

    /// The indices of the messages in units that are not kept, unit after unit.
    fn dropped_indices(&self, kept_units: Vec<bool>) -> PyResult<Vec<usize>> {
        self.check(kept_units.len())?;
        let dropped = (0..self.units.len()).filter(|&unit| !kept_units[unit]);
        Ok(dropped.flat_map(|unit| self.units.members(unit)).map(|&at| self.of.rows[at].index).collect())
    }

    /// The indices of the messages that were read in no common shape.
    fn uncommon(&self) -> Vec<usize> {
        self.of.rows.iter().filter(|row| !row.is_common).map(|row| row.index).collect()
    }

    /// The indices of the messages that may hold a thought.
    fn thoughtful(&self) -> Vec<usize> {
        self.of.rows.iter().filter(|row| !row.is_thoughtless).map(|row| row.index).collect()
    }

    /// The indices and texts of what a user says in a message of one text that is a unit by itself, where the text
    /// begins so.
    fn lone_texts<'py>(&self, py: Python<'py>, beginning: &str) -> Vec<(usize, Bound<'py, PyString>)> {
        let lone = (0..self.units.len()).filter_map(|unit| match *self.units.members(unit) {
            [only] if self.role(only) == Role::User && self.pieces(only).len() == 1 => Some(only),
            _ => None,
        });
        let found = lone.map(|at| (at, &self.pieces(at)[0].0)).filter(|(_, text)| text.as_str().starts_with(beginning));
        found.map(|(at, text)| (self.of.rows[at].index, text.to_py(py))).collect()
    }

    /// The units that hold a message of the system's.
    fn system_units(&self) -> Vec<usize> {
        let is_system = |&unit: &usize| self.units.members(unit).iter().any(|&at| self.role(at) == Role::System);
        (0..self.units.len()).filter(is_system).collect()
    }

    /// The position of the message in which the user spoke last, and its unit.
    fn last_user_turn(&self) -> Option<(usize, usize)> {
        let turns = (0..self.of.rows.len()).rev().filter(|&at| self.of.rows[at].is_user_turn);
        turns.max_by_key(|&at| self.of.rows[at].index).map(|at| (at, self.units.unit_of()[at]))
    }

    /// The unit whose tool calls or results no assistant message has reacted to yet.
    fn open_tool_loop(&self) -> Option<usize> {
        // A thought alone answers nothing: the model is still at it.
        let last =
            (0..self.of.rows.len()).rev().find(|&at| self.role(at) == Role::Assistant && !self.only_thinks(at))?;
        Some(self.units.unit_of()[last]).filter(|&unit| self.calls_tools(unit))
    }

    /// The unit in which the model began the turn of an open tool loop, if with thinking.
    fn thoughts_of_open_loop(&self) -> Option<usize> {
        let (_, opening) = self.loop_start()?;
        let at = self.of.rows.iter().position(|row| Some(row.index) == opening)?;
        let thinks = self.pieces(at).iter().any(|(_, kind)| *kind == PieceKind::Thinking);
        thinks.then(|| self.units.unit_of()[at])
    }

    /// The unit with the last assistant message before the last user turn.
    fn answered_reply(&self) -> Option<usize> {
        let mut before = (0..self.of.rows.len()).rev().skip_while(|&at| !self.of.rows[at].is_user_turn).skip(1);
        let says = |(text, kind): &(Source, PieceKind)| *kind == PieceKind::Text && !is_blank(text.as_str());
        let reply = before.find(|&at| self.role(at) == Role::Assistant && self.pieces(at).iter().any(says))?;
        Some(self.units.unit_of()[reply])
    }

    /// The units of these indices, ascending.
    fn units_holding(&self, indices: Vec<usize>) -> Vec<usize> {
        let held = |&unit: &usize| self.units.members(unit).iter().any(|&at| indices.contains(&self.of.rows[at].index));
        if indices.is_empty() { Vec::new() } else { (0..self.units.len()).filter(held).collect() }
    }

    /// Where what the model says under the open tool loop begins, behind the user's last turn before it, and the index of
    /// the first message from there on that the assistant says.
    fn loop_start(&self) -> Option<(usize, Option<usize>)> {
        let first = self.of.rows[*self.units.members(self.open_tool_loop()?).first()?].index;
        let turns = self.of.rows.iter().rev().filter(|row| row.is_user_turn);
        let start = turns.map(|row| row.index).find(|&index| index < first).map_or(0, |turn| turn + 1);
        let said = self.of.rows.iter().filter(|row| self.role_of(row) == Role::Assistant);
        Some((start, said.map(|row| row.index).find(|&index| index >= start)))
    }

    /// The position of the message that begins the open tool loop: the first assistant message behind the last that is
    /// neither the assistant's nor an answer.
    fn loop_opening(&self) -> Option<usize> {
        let mut first = None;
        for at in (0..self.of.rows.len()).rev() {
            if self.role(at) == Role::Assistant {
                first = Some(at);
            } else if self.answers(at).is_empty() && self.role(at) != Role::System {
                break;
            }
        }
        first
    }

    /// Whether the first message that is not the system's is the user's.
    fn begins_with_user(&self) -> bool {
        let first = (0..self.of.rows.len()).map(|at| self.role(at)).find(|&role| role != Role::System);
        first == Some(Role::User)
    }
}

impl Columns {
    /// Messages, as the engine sees them.
    pub fn rows(&self) -> impl Iterator<Item = (std::ops::Range<usize>, &Row, usize)> {
        let starts = std::iter::once(0).chain(self.of.rows.iter().map(|row| row.pieces_end));
        let rows = starts.zip(&self.of.rows).zip(self.units.unit_of());
        rows.map(|((start, row), &unit)| (start..row.pieces_end, row, unit))
    }

    pub fn all_pieces(&self) -> &[(Source, PieceKind)] {
        &self.of.pieces
    }

    pub fn unit_len(&self) -> usize {
        self.units.len()
    }

    /// How many roles there are.
    pub fn role_len(&self) -> usize {
        self.of.roles.len()
    }

    pub fn role_of(&self, row: &Row) -> Role {
        match self.of.roles[row.role].0.as_str() {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            _ => Role::Other,
        }
    }

    /// Whether a conversation may begin with a unit, for a provider that wants the user first.
    pub fn opens_with_user(&self, unit: usize) -> bool {
        let Some(&first) = self.units.members(unit).first() else { return false };
        if self.role(first) != Role::User || !self.answers(first).is_empty() {
            return false;
        }
        let says = |(text, _): &(Source, PieceKind)| text.as_str().is_empty() || !is_blank(text.as_str());
        self.of.rows[first].images > 0 || self.pieces(first).iter().any(says)
    }

    fn check(&self, units: usize) -> PyResult<()> {
        if units == self.units.len() {
            return Ok(());
        }
        Err(PyIndexError::new_err(format!("{units} flags for {} units", self.units.len())))
    }

    fn role(&self, at: usize) -> Role {
        self.role_of(&self.of.rows[at])
    }

    fn pieces(&self, at: usize) -> &[(Source, PieceKind)] {
        let start = if at == 0 { 0 } else { self.of.rows[at - 1].pieces_end };
        &self.of.pieces[start..self.of.rows[at].pieces_end]
    }

    fn calls(&self, at: usize) -> &[Id] {
        let start = if at == 0 { 0 } else { self.of.rows[at - 1].calls_end };
        &self.of.calls[start..self.of.rows[at].calls_end]
    }

    fn answers(&self, at: usize) -> &[Id] {
        let start = if at == 0 { 0 } else { self.of.rows[at - 1].answers_end };
        &self.of.answers[start..self.of.rows[at].answers_end]
    }

    /// Whether a message holds nothing but thinking, which may have no text.
    fn only_thinks(&self, at: usize) -> bool {
        let thinks = self.pieces(at).iter().all(|(_, kind)| *kind == PieceKind::Thinking);
        thinks && self.calls(at).is_empty() && self.answers(at).is_empty() && self.of.rows[at].images == 0
    }

    /// Whether a unit holds a call that no assistant message answers.
    fn calls_tools(&self, unit: usize) -> bool {
        let members = self.units.members(unit);
        let own: Vec<&[u8]> = members
            .iter()
            .filter(|&&at| self.role(at) == Role::Assistant)
            .flat_map(|&at| self.answers(at))
            .map(Id::as_bytes)
            .collect();
        members.iter().flat_map(|&at| self.calls(at)).any(|call| !own.contains(&call.as_bytes()))
    }

    fn made<'py>(&self, make: &Make<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        let (py, row) = (make.new.py(), &self.of.rows[at]);
        let piece = |(text, kind): &(Source, PieceKind)| {
            make.new.call1((&make.shapes.0, (text.to_py(py), make.kinds[*kind as usize].clone())))
        };
        let pieces = PyTuple::new(py, self.pieces(at).iter().map(piece).collect::<PyResult<Vec<_>>>()?)?;
        let ids = |ids: &[Id]| PyTuple::new(py, ids.iter().map(|id| id.to_py(py)));
        let (calls, answers) = (ids(self.calls(at))?, ids(self.answers(at))?);
        let role = self.of.roles[row.role].1.bind(py);
        make.new.call1((&make.shapes.1, (row.index, role, pieces, row.images, calls, answers, row.is_user_turn)))
    }
}

/// Makes named tuples by `tuple.__new__`, without the detour over their own constructors, which are written in Python.
struct Make<'py> {
    new: Bound<'py, PyAny>,
    shapes: Shapes<'py>,
    kinds: Vec<Bound<'py, PyAny>>,
}

impl<'py> Make<'py> {
    fn new(py: Python<'py>, shapes: Shapes<'py>) -> PyResult<Self> {
        let kinds: Vec<_> = shapes.3.iter().collect();
        if kinds.len() <= PieceKind::Thinking as usize {
            return Err(PyValueError::new_err("a kind of piece is missing"));
        }
        Ok(Self { new: py.get_type::<PyTuple>().getattr("__new__")?, shapes, kinds })
    }
}

fn drafted(messages: &Bound<'_, PyTuple>) -> PyResult<Draft> {
    let mut draft = Draft::with_capacity(messages.len());
    for message in messages {
        draft.take(message.cast::<PyTuple>()?)?;
    }
    Ok(draft)
}

/// Whether nothing is left of a text once Python strips it. Four separators are white space to Python alone.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c))
}
