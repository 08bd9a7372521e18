//! Messages as the context store reads them, and as lines for a model.
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rehydrate_core::context_store::{self as core, About, Said, SaidPiece, byte_of};
use rehydrate_core::conversation::{PieceKind, Role};

use super::subjects::Tools;
use crate::convert::bytes_of;
use crate::reading::{Id, kind_of, role_named};

/// A `Message`, as it is read.
pub struct Message {
    pub entry: i64,
    role: Role,
    pieces: Vec<(Id, PieceKind, Vec<About>)>,
    calls: Vec<Id>,
    answers: Vec<Id>,
    is_user_turn: bool,
}

impl Message {
    /// With `tools`, the subjects of their calls are read too.
    pub fn all<'py>(messages: &Bound<'py, PyAny>, tools: Option<&Tools<'py>>) -> PyResult<Vec<Self>> {
        messages.try_iter()?.map(|message| Self::of(message?.cast::<PyTuple>()?, tools)).collect()
    }

    fn of<'py>(message: &Bound<'py, PyTuple>, tools: Option<&Tools<'py>>) -> PyResult<Self> {
        let mut pieces = Vec::new();
        for piece in message.get_item(2)?.cast::<PyTuple>()? {
            let piece = piece.cast::<PyTuple>()?;
            let text = piece.get_item(0)?.cast_into::<PyString>()?;
            let kind = kind_of(piece.get_item(1)?.extract()?)?;
            let about = match tools.filter(|_| kind == PieceKind::ToolInput) {
                Some(tools) => tools.subjects(&text)?,
                None => Vec::new(),
            };
            pieces.push((Id::of(text)?, kind, about));
        }
        let ids = |field| -> PyResult<Vec<Id>> {
            let ids = message.get_item(field)?;
            ids.cast::<PyTuple>()?.iter().map(|id| Id::of(id.cast_into::<PyString>()?)).collect()
        };
        let role = message.get_item(1)?;
        Ok(Self {
            entry: message.get_item(0)?.extract()?,
            role: role.cast::<PyString>()?.to_str().map_or(Role::Other, role_named),
            pieces,
            calls: ids(4)?,
            answers: ids(5)?,
            is_user_turn: message.get_item(6)?.is_truthy()?,
        })
    }

    /// The text of a span; None if the message has another text there.
    pub fn text_at(&self, span: &core::Span) -> Option<&[u8]> {
        let (text, ..) = self.pieces.get(usize::try_from(span.piece).ok()?)?;
        let text = text.as_bytes();
        let [start, end] =
            [span.start, span.end].map(|place| byte_of(text, usize::try_from(place).unwrap_or_default()));
        let text = text.get(start..end)?;
        (core::digest(text) == span.digest).then_some(text)
    }

    /// It in the core's form, with the subjects of calls.
    pub fn said(&mut self) -> Said<'_> {
        let Self { entry, role, pieces, calls, answers, is_user_turn } = self;
        let pieces = pieces.iter_mut().map(|(text, kind, about)| SaidPiece {
            text: text.as_bytes(),
            kind: *kind,
            about: std::mem::take(about),
        });
        Said {
            entry: *entry,
            role: *role,
            pieces: pieces.collect(),
            calls: calls.iter().map(Id::as_bytes).collect(),
            answers: answers.iter().map(Id::as_bytes).collect(),
            is_user_turn: *is_user_turn,
        }
    }
}

/// The texts of messages, a line each, with the speaker, and if `numbered` with the number of the entry.
pub fn lines_of(messages: &Bound<'_, PyAny>, numbered: bool) -> PyResult<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    for message in messages.try_iter()? {
        let message = message?;
        let number = if numbered { format!("#{} ", message.get_item(0)?) } else { String::new() };
        for piece in message.get_item(2)?.try_iter()? {
            let (text, kind): (Bound<'_, PyString>, Bound<'_, PyAny>) = piece?.extract()?;
            let text = bytes_of(&text)?;
            let (who, said) = match kind_of(kind.extract()?)? {
                PieceKind::Text => (bytes_of(message.get_item(1)?.cast()?)?.into_owned(), core::quoted(&text)),
                PieceKind::ToolInput => (b"call".to_vec(), core::quoted(&core::shortened(&text))),
                PieceKind::ToolResult => (b"result".to_vec(), core::quoted(&core::shortened(&text))),
                PieceKind::Thinking => continue,
            };
            lines.push([number.as_bytes(), &who, b": ", &said].concat());
        }
    }
    Ok(lines)
}
