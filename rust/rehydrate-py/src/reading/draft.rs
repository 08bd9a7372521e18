//! Messages as a reader appends them, one after the other.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rehydrate_core::conversation::{PieceKind, Role};
use rehydrate_core::media::UNSIZED_TOKENS;

use super::blocks::Body;
use super::strings::{Id, Source};

/// Messages for which there is room from the start: a list may say any length of itself.
const MOST_FORESEEN: usize = 1 << 16;

/// One message; its pieces, calls and answers end where it says, and begin where those of the one before end.
#[derive(Clone, Copy, Default)]
pub struct Row {
    pub index: usize,
    /// Its number among the roles.
    pub role: usize,
    pub images: u32,
    /// The tokens of these; 0 if they are unknown.
    pub media_tokens: u32,
    pub is_user_turn: bool,
    /// Whether it holds no thought: nothing can be stripped from it.
    pub is_thoughtless: bool,
    /// Whether it only has texts, calls, results, thoughts and media.
    pub is_common: bool,
    /// Whether its texts were left out, to be read again when they are needed.
    pub is_light: bool,
    pub pieces_end: usize,
    pub calls_end: usize,
    pub answers_end: usize,
}

impl Row {
    /// The tokens of its media.
    pub fn tokens_of_media(&self) -> u32 {
        if self.media_tokens == 0 { self.images.saturating_mul(UNSIZED_TOKENS) } else { self.media_tokens }
    }
}

/// Messages as they are read, one after the other.
#[derive(Default)]
pub struct Draft {
    pub pieces: Vec<(Source, PieceKind)>,
    pub calls: Vec<Id>,
    pub answers: Vec<Id>,
    /// The place of each message that belongs to a call, and the id of that call.
    pub owners: Vec<(usize, Id)>,
    pub rows: Vec<Row>,
    pub roles: Vec<Named>,
}

/// A role of a conversation, by the name that its entries give it.
pub struct Named {
    pub role: Role,
    name: String,
    pub shown: Py<PyString>,
}

impl Named {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { role: self.role, name: self.name.clone(), shown: self.shown.clone_ref(py) }
    }
}

/// The speaker of a message.
pub struct Speaker<'py> {
    pub role: Role,
    pub shown: Bound<'py, PyString>,
}

impl<'py> Speaker<'py> {
    /// The speaker of this name.
    pub fn of(shown: Bound<'py, PyString>) -> Self {
        Self { role: shown.to_str().map_or(Role::Other, role_named), shown }
    }

    /// One of the roles that every provider knows, as it is named.
    pub fn known(role: Role, shown: &Bound<'py, PyString>) -> Self {
        Self { role, shown: shown.clone() }
    }
}

/// The role of this name.
pub fn role_named(name: &str) -> Role {
    match name {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        _ => Role::Other,
    }
}

impl Draft {
    pub fn with_capacity(messages: usize) -> Self {
        let messages = messages.min(MOST_FORESEEN);
        Self { rows: Vec::with_capacity(messages), pieces: Vec::with_capacity(messages * 2), ..Self::default() }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the message that ended last answers a call.
    pub fn last_answers(&self) -> bool {
        let before = self.rows.len().checked_sub(2).map_or(0, |at| self.rows[at].answers_end);
        self.answers.len() > before
    }

    /// Append the data of an entry, as a message of this speaker.
    pub fn close(&mut self, body: &mut Body, speaker: &Speaker<'_>, is_user_turn: bool) -> PyResult<()> {
        self.pieces.append(&mut body.pieces);
        if !body.calls.is_empty() {
            self.calls.append(&mut body.calls);
        }
        if !body.answers.is_empty() {
            self.answers.append(&mut body.answers);
        }
        self.owners.extend(body.owners.drain(..).map(|owner| (self.rows.len(), owner)));
        let role = self.role(speaker)?;
        self.end(Row {
            index: body.index,
            role,
            images: body.images,
            media_tokens: body.media_tokens,
            is_user_turn,
            is_thoughtless: !body.is_thoughtful,
            is_common: !body.is_uncommon,
            ..Row::default()
        });
        Ok(())
    }

    /// Append a row for a message of everything that was appended since the last.
    fn end(&mut self, row: Row) {
        let (pieces_end, calls_end, answers_end) = (self.pieces.len(), self.calls.len(), self.answers.len());
        self.rows.push(Row { pieces_end, calls_end, answers_end, ..row });
    }

    /// The number of a speaker's role.
    fn role(&mut self, speaker: &Speaker<'_>) -> PyResult<usize> {
        let Speaker { role, shown } = speaker;
        let is_it = |known: &Named| known.role == *role && (*role != Role::Other || known.shown.is(shown));
        if let Some(known) = self.roles.iter().position(is_it) {
            return Ok(known);
        }
        let name = match shown.to_str() {
            Ok(name) => name.to_owned(),
            Err(_) => shown.repr()?.to_string(), // no two roles with lone surrogates become one
        };
        Ok(self.number(shown.py(), &Named { role: *role, name, shown: shown.clone().unbind() }))
    }

    fn number(&mut self, py: Python<'_>, of: &Named) -> usize {
        // Nearly always the same few.
        if let Some(known) = self.roles.iter().position(|known| known.name == of.name) {
            return known;
        }
        self.roles.push(of.clone_ref(py));
        self.roles.len() - 1
    }

    /// The first `messages` of a draft.
    pub fn beginning(&self, py: Python<'_>, messages: usize) -> Self {
        let (pieces, calls, answers) = self.ends_before(messages);
        let mut rows = Vec::with_capacity(self.rows.len() + 8);
        rows.extend_from_slice(&self.rows[..messages]);
        Self {
            pieces: self.pieces[..pieces].iter().map(|(text, kind)| (text.clone_ref(py), *kind)).collect(),
            calls: self.calls[..calls].iter().map(|id| id.clone_ref(py)).collect(),
            answers: self.answers[..answers].iter().map(|id| id.clone_ref(py)).collect(),
            rows,
            roles: self.roles.iter().map(|known| known.clone_ref(py)).collect(),
            owners: Vec::new(),
        }
    }

    /// The beginnings of the pieces, the calls and the answers of the message at a position.
    fn ends_before(&self, at: usize) -> (usize, usize, usize) {
        let before = at.checked_sub(1).map(|before| &self.rows[before]);
        before.map_or((0, 0, 0), |row| (row.pieces_end, row.calls_end, row.answers_end))
    }

    /// Append the message at a position of another draft.
    pub fn copy(&mut self, py: Python<'_>, other: &Self, at: usize) {
        let pieces = &other.pieces[other.ends_before(at).0..other.rows[at].pieces_end];
        self.copy_with(py, other, at, pieces.iter().map(|(text, kind)| (text.clone_ref(py), *kind)));
    }

    /// Append the message at a position of another draft, with other pieces.
    pub fn copy_with(
        &mut self,
        py: Python<'_>,
        other: &Self,
        at: usize,
        pieces: impl IntoIterator<Item = (Source, PieceKind)>,
    ) {
        let (row, (_, calls, answers)) = (&other.rows[at], other.ends_before(at));
        self.calls.extend(other.calls[calls..row.calls_end].iter().map(|id| id.clone_ref(py)));
        self.answers.extend(other.answers[answers..row.answers_end].iter().map(|id| id.clone_ref(py)));
        self.copy_part(py, other, at, pieces);
    }

    /// Append a part of the message at a position of another draft: these pieces, without its calls and answers.
    pub fn copy_part(
        &mut self,
        py: Python<'_>,
        other: &Self,
        at: usize,
        pieces: impl IntoIterator<Item = (Source, PieceKind)>,
    ) {
        self.pieces.extend(pieces);
        let (row, role) = (other.rows[at], self.number(py, &other.roles[other.rows[at].role]));
        self.end(Row { role, ..row });
    }

    /// Make one message of the last `messages`.
    pub fn join_last(&mut self, messages: usize) {
        let first = self.rows.len().saturating_sub(messages);
        let joined = &self.rows[first..];
        let images = joined.iter().fold(0, |sum: u32, row| sum.saturating_add(row.images));
        let media_tokens = joined.iter().fold(0, |sum: u32, row| sum.saturating_add(row.tokens_of_media()));
        let Some(row) = self.rows.get(first).copied() else { return };
        self.rows.truncate(first);
        self.end(Row { images, media_tokens, ..row });
    }

    /// Give the last message this index.
    pub fn end_at(&mut self, index: usize) {
        if let Some(row) = self.rows.last_mut() {
            row.index = index;
        }
    }

    /// Leave out the texts of the last message.
    pub fn leave_out_texts(&mut self) {
        let before = self.rows.len().checked_sub(2).map_or(0, |at| self.rows[at].pieces_end);
        self.pieces.truncate(before);
        if let Some(row) = self.rows.last_mut() {
            (row.is_light, row.pieces_end) = (true, before);
        }
    }

    /// Read a `Message`, a named tuple.
    pub fn take(&mut self, message: &Bound<'_, PyTuple>) -> PyResult<()> {
        for piece in message.get_item(2)?.cast::<PyTuple>()? {
            let piece = piece.cast::<PyTuple>()?;
            let kind = kind_of(piece.get_item(1)?.extract()?)?;
            self.pieces.push((Source::of(piece.get_item(0)?.cast_into::<PyString>()?)?, kind));
        }
        for (field, ids) in [(4, &mut self.calls), (5, &mut self.answers)] {
            for id in message.get_item(field)?.cast::<PyTuple>()? {
                ids.push(Id::of(id.cast_into::<PyString>()?)?);
            }
        }
        let row = Row {
            index: message.get_item(0)?.extract()?,
            role: self.role(&Speaker::of(message.get_item(1)?.cast_into::<PyString>()?))?,
            images: message.get_item(3)?.extract()?,
            media_tokens: message.get_item(7)?.extract()?,
            is_user_turn: message.get_item(6)?.is_truthy()?,
            ..Row::default()
        };
        self.end(row);
        Ok(())
    }
}

/// The kind of a piece, by its number.
pub fn kind_of(code: u8) -> PyResult<PieceKind> {
    PieceKind::try_from(code).map_err(|error| PyValueError::new_err(error.to_string()))
}
