//! A prompt's history as the layout reads it, and the ids of its entries.
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rehydrate_core::excerpts::grouped;
use rustc_hash::FxHashMap;

use crate::checks::{SHOWN, refused, shown};
use crate::errors::{is_no_message, raise};
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{Conversation, text_of};

/// Counts of a report: those of a stored prompt may be of any size.
pub type Tokens = i128;

/// The history of a prompt, and its columns.
pub struct History<'py> {
    of: Bound<'py, PyAny>,
    pub entries: Bound<'py, PyTuple>,
    pub format: String,
    pub tokens: Bound<'py, PyTuple>,
    /// The index of each entry in the caller's list. Empty if none was left out.
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
        if self.indices.is_empty() {
            return Ok(row);
        }
        let py = self.of.py();
        let Ok(index) = self.indices.get_item(row) else {
            return Err(refused(py, format!("history: entry_indices {}; {COUNT_REMEDY}", self.counts(&self.indices))));
        };
        index_of(&index).ok_or_else(|| {
            let problem = format!("history: entry_indices[{row}] is {}", shown(&index, SHOWN));
            refused(py, format!("{problem}; {INDEX_REMEDY}"))
        })
    }

    /// The number of values that a column has, and the number that it should have.
    fn counts(&self, column: &Bound<'py, PyTuple>) -> String {
        let [has, needs] = [column.len(), self.entries.len()].map(|count| grouped(count as u64));
        format!("has {has} numbers for {needs} entries")
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
        for row in rows.start..rows.end.min(self.tokens.len()) {
            let tokens = self.tokens.get_item(row)?;
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

    /// Its entries, parsed; None if one isn't a message.
    pub fn conversation(&self) -> PyResult<Option<Bound<'py, Conversation>>> {
        let py = self.of.py();
        match self.of.getattr(interned!(py, "conversation")) {
            Ok(found) => Ok(Some(found.cast_into()?)),
            Err(error) if is_no_message(py, &error)? => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Facts about its single messages. It may hold nothing about units.
    pub fn rows(&self) -> PyResult<Bound<'py, Conversation>> {
        Ok(self.of.getattr(interned!(self.of.py(), "rows"))?.cast_into()?)
    }

    /// The index of the entry that begins the last turn among the first `known`; 0 if it is not certain.
    pub fn last_turn_within(&self, known: usize) -> PyResult<usize> {
        Ok(self.rows()?.get().turn_within(known).unwrap_or(0))
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
        Ok(self.rows()?.get().first_said(self.of.py()))
    }

    /// Whether its first message is the caller's first message.
    pub fn begins_as_given(&self) -> PyResult<bool> {
        let first = self.first_said()?.map_or(0, |(first, _)| first);
        Ok(self.entry_index(first)? == first)
    }
}

/// The largest index that an id such as `history[12]` has.
const MAX_INDEX: u64 = 9_999_999_999_999_999;
const INDEX_REMEDY: &str = "pass the entry's index in your list, a whole number from 0 to 9999999999999999";
const COUNT_REMEDY: &str = "give each entry one, or leave out";

/// An entry's index in the caller's list; None for anything else.
fn index_of(value: &Bound<'_, PyAny>) -> Option<usize> {
    value.extract::<u64>().ok().filter(|&index| index <= MAX_INDEX).and_then(|index| index.try_into().ok())
}

/// Refuse a history whose entries have no index each; raises InvalidArgumentError.
#[pyfunction]
pub fn check_indices(history: &Bound<'_, PyAny>) -> PyResult<()> {
    let _running = Running::begin();
    let history = History::of(history.clone())?;
    let rows = if history.indices.is_empty() { 0 } else { history.entries.len() };
    (0..rows).try_for_each(|row| history.entry_index(row).map(|_| ()))
}

/// Refuse a history from JSON whose columns do not fit its entries. Raises UnreadableIRError.
#[pyfunction]
pub fn check_columns(history: &Bound<'_, PyAny>) -> PyResult<()> {
    let _running = Running::begin();
    let (py, of) = (history.py(), History::of(history.clone())?);
    let refuse = |path: String, problem: String, remedy| raise(py, "UnreadableIRError", (path, problem, remedy));
    let size = of.entries.len();
    for (name, column) in [("tokens", &of.tokens), ("entry_indices", &of.indices)] {
        if !column.is_empty() && column.len() != size {
            return Err(refuse(format!("history.{name}"), of.counts(column), COUNT_REMEDY));
        }
    }
    for (row, index) in of.indices.iter().enumerate() {
        if index_of(&index).is_none() {
            let path = format!("history.entry_indices[{row}]");
            return Err(refuse(path, format!("is {}", shown(&index, SHOWN)), INDEX_REMEDY));
        }
    }
    Ok(())
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
