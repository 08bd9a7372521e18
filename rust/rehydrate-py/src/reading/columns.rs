//! The messages of a conversation in columns, over texts and ids, in units.
use rehydrate_core::conversation::{PieceKind, Role};
use rustc_hash::FxHashSet;

use super::draft::{Draft, Row};
use super::grouping::{self, Units};
use super::strings::{Id, Source};

/// Messages, read and grouped.
pub struct Columns {
    pub of: Draft,
    pub units: Units,
}

impl Columns {
    /// Group the messages of a draft: calls with their answers, messages with their owners, and those that `links` joins
    /// by position.
    pub fn group(draft: Draft, links: &[(usize, usize)]) -> Self {
        let (mut calls, mut answers) = (0, 0);
        let ids = draft.rows.iter().map(|row| {
            let of = (&draft.calls[calls..row.calls_end], &draft.answers[answers..row.answers_end]);
            (calls, answers) = (row.calls_end, row.answers_end);
            of
        });
        let units = grouping::group(draft.rows.len(), ids, &draft.owners, links);
        Self { of: draft, units }
    }

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

    /// The number of roles.
    pub fn role_len(&self) -> usize {
        self.of.roles.len()
    }

    pub fn role_of(&self, row: &Row) -> Role {
        self.of.roles[row.role].role
    }

    /// Whether a conversation may begin with a unit, for a provider that wants the user first.
    pub fn opens_with_user(&self, unit: usize) -> bool {
        let Some(&first) = self.units.members(unit).first() else { return false };
        if !self.is_users(first) {
            return false;
        }
        let says = |(text, _): &(Source, PieceKind)| text.as_str().is_empty() || !is_blank(text.as_str());
        self.of.rows[first].images > 0 || self.pieces(first).iter().any(says)
    }

    /// Whether a message is the user's, and answers no call.
    pub fn is_users(&self, at: usize) -> bool {
        self.role(at) == Role::User && self.answers(at).is_empty()
    }

    /// The index of the last message of a role.
    pub fn last_by(&self, role: Role) -> Option<usize> {
        self.of.rows.iter().rev().find(|row| self.role_of(row) == role).map(|row| row.index)
    }

    /// The indices of messages with at least this many calls.
    pub fn indices_with_calls(&self, least: usize) -> impl Iterator<Item = usize> {
        (0..self.of.rows.len()).filter(move |&at| self.calls(at).len() >= least).map(|at| self.of.rows[at].index)
    }

    /// The index of the last message of the unit that a message is in.
    pub fn last_of_unit(&self, at: usize) -> usize {
        let members = self.units.members(self.units.unit_of()[at]);
        self.of.rows[members.last().copied().unwrap_or(at)].index
    }

    pub fn role(&self, at: usize) -> Role {
        self.role_of(&self.of.rows[at])
    }

    pub fn pieces(&self, at: usize) -> &[(Source, PieceKind)] {
        let start = if at == 0 { 0 } else { self.of.rows[at - 1].pieces_end };
        &self.of.pieces[start..self.of.rows[at].pieces_end]
    }

    pub fn calls(&self, at: usize) -> &[Id] {
        let start = if at == 0 { 0 } else { self.of.rows[at - 1].calls_end };
        &self.of.calls[start..self.of.rows[at].calls_end]
    }

    pub fn answers(&self, at: usize) -> &[Id] {
        let start = if at == 0 { 0 } else { self.of.rows[at - 1].answers_end };
        &self.of.answers[start..self.of.rows[at].answers_end]
    }

    /// Whether a message only holds thinking, which may have no text.
    pub fn only_thinks(&self, at: usize) -> bool {
        let thinks = self.pieces(at).iter().all(|(_, kind)| *kind == PieceKind::Thinking);
        thinks && self.calls(at).is_empty() && self.answers(at).is_empty() && self.of.rows[at].images == 0
    }

    /// Whether a message calls a tool, and ends with a call or a result.
    pub fn ends_with_tool(&self, at: usize) -> bool {
        let last = self.pieces(at).iter().map(|(_, kind)| *kind).rfind(|kind| *kind != PieceKind::Thinking);
        !self.calls(at).is_empty() && matches!(last, Some(PieceKind::ToolInput | PieceKind::ToolResult))
    }

    /// Whether a message ends with words, after the results of all calls of its unit: the model goes on after its code.
    pub fn reacts_to_all(&self, at: usize) -> bool {
        let members = self.units.members(self.units.unit_of()[at]);
        let before = members.iter().take_while(|&&member| member <= at);
        let answered: FxHashSet<&[u8]> = before.flat_map(|&member| self.answers(member)).map(Id::as_bytes).collect();
        let last = self.pieces(at).iter().map(|(_, kind)| *kind).rfind(|kind| *kind != PieceKind::Thinking);
        let mut calls = members.iter().flat_map(|&member| self.calls(member));
        last == Some(PieceKind::Text) && calls.all(|call| answered.contains(call.as_bytes()))
    }

    /// Whether a unit holds a call that no assistant message answers.
    pub fn calls_tools(&self, unit: usize) -> bool {
        let members = self.units.members(unit);
        let own: FxHashSet<&[u8]> = members
            .iter()
            .filter(|&&at| self.role(at) == Role::Assistant)
            .flat_map(|&at| self.answers(at))
            .map(Id::as_bytes)
            .collect();
        members.iter().flat_map(|&at| self.calls(at)).any(|call| !own.contains(call.as_bytes()))
    }
}

/// Whether nothing is left of a text once Python strips it. Four separators are white space only to Python.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

/// Whether a character is white space to Python.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}
