//! The beginnings of a conversation's turns, the part that its prompts share, and the message that an open tool loop
//! needs.
use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::conversation::{PieceKind, Role};
use rustc_hash::FxHashSet;

use super::anthropic::begins_with_thought;
use super::conversation::Conversation;
use super::strings::{Id, Source};
use crate::convert::bytes_of;
use crate::interned::interned;

impl Conversation {
    /// Keep the message that begins the open tool loop, if it begins with a thought without text (redacted, or not
    /// displayed), which no piece shows. Also keep the message before it: without the user's turn an earlier reply
    /// would begin the loop. With thinking enabled Anthropic refuses a loop that does not begin with a thought.
    pub fn bind_opening_thought(&mut self, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some(first) = self.loop_opening().filter(|&first| first + 1 < self.all().len()) else { return Ok(()) };
        if self.columns.pieces(first).iter().any(|(_, kind)| *kind == PieceKind::Thinking) {
            return Ok(());
        }
        let entry = entries.get_item(first)?;
        let content = entry.call_method1(interned!(entries.py(), "get"), (interned!(entries.py(), "content"),))?;
        if begins_with_thought(&content)? {
            self.facts.opening = (first.saturating_sub(1)..=first).collect();
            self.facts.bound.extend(&self.facts.opening);
            self.facts.bound.sort_unstable();
            self.facts.bound.dedup();
        }
        Ok(())
    }

    /// The position of the message that begins the open tool loop: the first assistant message after the last that is
    /// neither the assistant's nor an answer.
    fn loop_opening(&self) -> Option<usize> {
        let (of, mut first) = (&self.columns, None);
        for at in (0..self.all().len()).rev() {
            if of.role(at) == Role::Assistant {
                first = Some(at);
            } else if of.answers(at).is_empty() && of.role(at) != Role::System {
                break;
            }
        }
        first
    }

    /// The index of the entry that begins the last turn among the first `known` entries; None if it is not certain that
    /// the entries before it are converted the same.
    ///
    /// A turn begins where the assistant speaks after others, or the user after the assistant, and all calls before it are
    /// answered before it.
    pub fn turn_within(&self, known: usize) -> Option<usize> {
        let of = &self.columns;
        let count = self.all().len();
        let all: FxHashSet<&[u8]> = of.of.calls.iter().map(Id::as_bytes).collect();
        let is_plain = |id: &Id| id.as_bytes().iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if all.len() < of.of.calls.len() || !of.of.calls.iter().chain(&of.of.answers).all(is_plain) {
            return None; // ids are changed
        }
        let answered = |at: usize| of.answers(at).iter().map(Id::as_bytes).filter(|id| all.contains(id));
        let mut pending = FxHashSet::default(); // calls before a turn that are not answered before it
        for at in 0..count {
            pending.extend(of.calls(at).iter().map(Id::as_bytes));
            if !answered(at).all(|id| pending.contains(id)) {
                return None; // answered twice, or before it was made
            }
            answered(at).for_each(|id| _ = pending.remove(id));
        }
        let mut start = None;
        for at in (1..count).rev() {
            pending.extend(answered(at));
            of.calls(at).iter().for_each(|id| _ = pending.remove(id.as_bytes()));
            let (before, role) = (of.role(at - 1), of.role(at));
            if role == Role::System && before != Role::System {
                return None; // one that comes late may be moved
            }
            let begins = match role {
                Role::Assistant => matches!(before, Role::User | Role::Tool),
                Role::User => of.answers(at).is_empty() && before == Role::Assistant,
                _ => false,
            };
            if start.is_none() && self.index(at) <= known && pending.is_empty() && begins {
                start = Some(self.index(at));
            }
        }
        start
    }

    /// Index and role of the first message that is not the system's.
    pub fn first_said<'py>(&self, py: Python<'py>) -> Option<(usize, Bound<'py, PyString>)> {
        let first = (0..self.all().len()).find(|&at| self.columns.role(at) != Role::System)?;
        Some((self.index(first), self.columns.of.roles[self.all()[first].role].shown.bind(py).clone()))
    }

    /// The index of the first message that holds a text word for word.
    pub fn quoting(&self, text: &Bound<'_, PyString>) -> PyResult<Option<usize>> {
        let (py, text) = (text.py(), bytes_of(text)?);
        let quote = memchr::memmem::Finder::new(&text);
        for at in 0..self.all().len() {
            for (piece, _) in self.columns.pieces(at) {
                let holds = match piece {
                    Source::Replaced(_, original) => quote.find(&bytes_of(original.bind(py))?).is_some(),
                    _ => quote.find(piece.as_str().as_bytes()).is_some(),
                };
                if holds {
                    return Ok(Some(self.index(at)));
                }
            }
        }
        Ok(None)
    }

    /// The index of the message in which the user spoke last.
    pub fn last_user_index(&self) -> Option<usize> {
        self.last_turn().map(|at| self.index(at))
    }

    /// Whether a message is the system's.
    pub fn has_system(&self) -> bool {
        (0..self.all().len()).any(|at| self.columns.role(at) == Role::System)
    }

    /// The position of the message in which the user spoke last.
    pub(super) fn last_turn(&self) -> Option<usize> {
        let turns = (0..self.all().len()).rev().filter(|&at| self.all()[at].is_user_turn);
        turns.max_by_key(|&at| self.index(at))
    }

    /// The indices of the last entries that a prompt has in the same place as the next prompt, and as the one before.
    ///
    /// If something is put before the last user turn, the messages after it move: a turn of the user's begins with
    /// several messages in a row. Otherwise everything stays, and the prompt before ended where the assistant began its
    /// last turn.
    pub fn shared_ends(&self, floats: bool) -> (Option<usize>, Option<usize>) {
        let (of, count) = (&self.columns, self.all().len());
        if floats {
            let begins = |&at: &usize| self.all()[at].is_user_turn && (at == 0 || of.role(at - 1) != Role::User);
            let mut turns = (0..count).rev().filter(begins).map(|at| self.index(at).checked_sub(1));
            return (turns.next().flatten(), turns.next().flatten());
        }
        let spoke = |&at: &usize| of.role(at) == Role::Assistant;
        let last_spoken = (0..count).rev().find(spoke);
        let before = last_spoken.and_then(|last| (0..last).rev().find(|at| !spoke(at)));
        (count.checked_sub(1).map(|at| self.index(at)), before.map(|at| self.index(at)))
    }

    /// The number of system entries at the beginning of the list.
    pub fn leading_system(&self) -> usize {
        let is_one = |&at: &usize| self.columns.role(at) == Role::System && self.index(at) == at;
        (0..self.all().len()).take_while(is_one).count()
    }

    pub(super) fn system_units(&self) -> Vec<usize> {
        let of = &self.columns;
        let is_system = |&unit: &usize| of.units.members(unit).iter().any(|&at| of.role(at) == Role::System);
        (0..of.unit_len()).filter(is_system).collect()
    }

    pub(super) fn units_of(&self, indices: &HashSet<usize>) -> Vec<usize> {
        let held = |&unit: &usize| self.columns.units.members(unit).iter().any(|&at| indices.contains(&self.index(at)));
        if indices.is_empty() { Vec::new() } else { (0..self.columns.unit_len()).filter(held).collect() }
    }
}
