//! What is read of a prompt's history, and the ids of its entries.
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rustc_hash::FxHashMap;

use crate::errors::is_no_message;
use crate::interned::interned;
use crate::reading::{Conversation, text_of};

/// Counts as a report has them: those of a stored prompt may be of any size.
pub type Tokens = i128;

/// The history of a prompt, and its columns.
pub struct History<'py> {
    of: Bound<'py, PyAny>,
    pub entries: Bound<'py, PyTuple>,
    pub format: String,
    pub tokens: Bound<'py, PyTuple>,
    /// The index of each entry in the caller's list; empty where none was left out.
    pub indices: Bound<'py, PyTuple>,
    /// `EntryId.of`
    named: Bound<'py, PyAny>,
}

impl<'py> History<'py> {
    pub fn of(of: Bound<'py, PyAny>) -> PyResult<Self> {
        let py = of.py();
        let named = py.import("rehydrate.entry_id")?.getattr("EntryId")?.getattr("of")?;
        Ok(Self {
            entries: of.getattr(interned!(py, "entries"))?.cast_into()?,
            format: text_of(of.getattr(interned!(py, "format"))?.cast()?).into_owned(),
            tokens: tuple_of(&of.getattr(interned!(py, "tokens"))?)?,
            indices: tuple_of(&of.getattr(interned!(py, "entry_indices"))?)?,
            of,
            named,
        })
    }

    /// The index in the caller's list of the entry of a row.
    pub fn entry_index(&self, row: usize) -> PyResult<usize> {
        if self.indices.is_empty() { Ok(row) } else { self.indices.get_item(row)?.extract() }
    }

    pub fn entry_id(&self, row: usize) -> PyResult<Bound<'py, PyAny>> {
        self.id_of(self.entry_index(row)?)
    }

    /// The id of the entry with this index in the caller's list.
    pub fn id_of(&self, index: usize) -> PyResult<Bound<'py, PyAny>> {
        self.named.call1((index,))
    }

    pub fn tokens(&self, row: usize) -> PyResult<i64> {
        self.tokens.get_item(row)?.extract()
    }

    /// The tokens of these rows together, as far as they were counted.
    pub fn tokens_of(&self, rows: Range<usize>) -> PyResult<Tokens> {
        let mut sum = 0;
        for tokens in self.tokens.iter().skip(rows.start).take(rows.len()) {
            sum += match tokens.extract::<i64>() {
                Ok(tokens) => tokens.into(),
                Err(_) => tokens.extract::<Tokens>()?,
            };
        }
        Ok(sum)
    }

    /// The row of the first entry whose index in the caller's list is at least this one.
    pub fn row_from(&self, index: i64) -> PyResult<Option<usize>> {
        let index = usize::try_from(index).unwrap_or_default();
        if self.indices.is_empty() {
            return Ok((index < self.entries.len()).then_some(index));
        }
        for row in 0..self.entries.len() {
            if self.entry_index(row)? >= index {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// The row of each entry, by its index in the caller's list.
    pub fn row_of_index(&self) -> PyResult<FxHashMap<usize, usize>> {
        (0..self.entries.len()).map(|row| Ok((self.entry_index(row)?, row))).collect()
    }

    /// Its entries, parsed; None where one is no message.
    pub fn conversation(&self) -> PyResult<Option<Bound<'py, Conversation>>> {
        let py = self.of.py();
        match self.of.getattr(interned!(py, "conversation")) {
            Ok(found) => Ok(Some(found.cast_into()?)),
            Err(error) if is_no_message(py, &error)? => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Facts about its single messages; of units they may hold nothing.
    pub fn rows(&self) -> PyResult<Bound<'py, Conversation>> {
        Ok(self.of.getattr(interned!(self.of.py(), "rows"))?.cast_into()?)
    }

    pub fn last_turn_within(&self, known: usize) -> PyResult<usize> {
        self.rows()?.call_method1("last_turn_within", (known,))?.extract()
    }

    /// The index in the caller's list of the last user turn.
    pub fn last_user_turn(&self) -> PyResult<Option<usize>> {
        self.last_user_row()?.map(|row| self.entry_index(row)).transpose()
    }

    /// The row of the last user turn.
    pub fn last_user_row(&self) -> PyResult<Option<usize>> {
        Ok(self.rows()?.get().last_user_index())
    }

    /// Row and role of the first message that is not the system's.
    pub fn first_said(&self) -> PyResult<Option<(usize, Bound<'py, PyString>)>> {
        self.rows()?.call_method0("first_said")?.extract()
    }

    /// Whether what is said first is what the caller said first.
    pub fn begins_as_given(&self) -> PyResult<bool> {
        let first = self.first_said()?.map_or(0, |(first, _)| first);
        Ok(self.entry_index(first)? == first)
    }
}

/// The entry's index in an id such as `history[12]`.
pub fn index_in(id: &Bound<'_, PyString>) -> Option<usize> {
    let digits = id.to_str().ok()?.strip_prefix("history[")?.strip_suffix(']')?;
    let is_number = (1..=16).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && (digits == "0" || !digits.starts_with('0')) { digits.parse().ok() } else { None }
}

/// The same tuple, or one of a caller's list.
fn tuple_of<'py>(of: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    Ok(of.py().get_type::<PyTuple>().call1((of,))?.cast_into()?)
}
