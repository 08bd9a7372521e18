//! The units of a conversation that are always kept, and why.
use std::collections::BTreeSet;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rehydrate_core::conversation::{PieceKind, Role};

use super::conversation::Conversation;
use crate::interned::interned;

impl Conversation {
    /// The units that are always kept, each with the first reason. Without `thoughts`, but for those kept only for the thinking
    /// that begins a loop.
    pub(super) fn pinned<'py>(&self, py: Python<'py>, thoughts: bool) -> PyResult<Bound<'py, PyDict>> {
        let pins = PyDict::new(py);
        let pin = |unit: usize, why: &Bound<'_, PyString>| {
            if pins.contains(unit)? { Ok(()) } else { pins.set_item(unit, why) }
        };
        let (turn, open) = (interned!(py, "last user turn"), interned!(py, "open tool loop"));
        let opening = self.thoughts_of_open_loop().filter(|_| thoughts);
        let of_system = self.system_units().into_iter().map(|unit| (unit, interned!(py, "system")));
        let of_turns = [self.last_user_turn(), self.turn_of_open_loop()].into_iter().flatten().map(|unit| (unit, turn));
        let of_loop = [self.open_tool_loop(), opening].into_iter().flatten().map(|unit| (unit, open));
        of_system.chain(of_turns).chain(of_loop).try_for_each(|(unit, why)| pin(unit, why))?;
        let bound = self.facts.bound.iter().filter(|index| thoughts || !self.facts.opening.contains(index));
        for unit in self.units_of(&bound.copied().collect()) {
            pin(unit, interned!(py, "bound to what the provider holds"))?;
        }
        Ok(pins)
    }

    /// Those of them that are kept only for their text, although they may hold tool results.
    pub(super) fn pinned_for_words(&self) -> BTreeSet<usize> {
        let mut units: BTreeSet<usize> = self.system_units().into_iter().collect();
        units.extend(self.last_user_turn().into_iter().chain(self.turn_of_open_loop()));
        for unit in self.open_tool_loop().into_iter().chain(self.thoughts_of_open_loop()) {
            units.remove(&unit);
        }
        for unit in self.units_of(&self.facts.bound.iter().copied().collect()) {
            units.remove(&unit);
        }
        units
    }

    /// The unit with the last user turn.
    pub fn last_user_turn(&self) -> Option<usize> {
        self.last_turn().map(|at| self.unit(at))
    }

    /// The unit whose tool calls or results no assistant message has reacted to yet.
    ///
    /// It is the unit of the last assistant message, if that unit calls tools and the message says nothing after all
    /// results. Results may be missing, or all there, or followed by text of the user. A thought alone answers nothing:
    /// the model is still working. A message that holds the results of its own calls is open if nothing follows them in
    /// it.
    fn open_tool_loop(&self) -> Option<usize> {
        let speaks = |&at: &usize| self.columns.role(at) == Role::Assistant && !self.columns.only_thinks(at);
        let last = (0..self.all().len()).rev().find(speaks)?;
        let of = &self.columns;
        let is_open = of.calls_tools(self.unit(last)) && !of.reacts_to_all(last) || of.ends_with_tool(last);
        is_open.then(|| self.unit(last))
    }

    /// The index from which on the model speaks in the open tool loop, after the user's last turn before it, and the
    /// index of its first message there. None without a loop.
    pub(super) fn loop_start(&self) -> Option<(usize, Option<usize>)> {
        let first = self.index(*self.columns.units.members(self.open_tool_loop()?).first()?);
        let turns = self.all().iter().rev().filter(|row| row.is_user_turn);
        let start = turns.map(|row| row.index).find(|&index| index < first).map_or(0, |turn| turn + 1);
        let said = self.all().iter().filter(|row| self.columns.role_of(row) == Role::Assistant);
        Some((start, said.map(|row| row.index).find(|&index| index >= start)))
    }

    /// The unit in which the model began the turn of an open tool loop, if with thinking.
    ///
    /// With thinking enabled, Anthropic refuses a turn that does not begin with it. OpenAI has no such rule.
    fn thoughts_of_open_loop(&self) -> Option<usize> {
        if self.facts.format == "openai_responses" {
            return None;
        }
        let (_, opening) = self.loop_start()?;
        let at = self.all().iter().position(|row| Some(row.index) == opening)?;
        let thinks = self.columns.pieces(at).iter().any(|(_, kind)| *kind == PieceKind::Thinking);
        thinks.then(|| self.unit(at))
    }

    /// The unit with the user turn that an open tool loop works on: the last one before it. It is not the last user turn if
    /// the user also writes next to a result.
    fn turn_of_open_loop(&self) -> Option<usize> {
        let (start, _) = self.loop_start()?;
        let at = self.all().iter().position(|row| row.index + 1 == start)?;
        Some(self.unit(at))
    }
}
