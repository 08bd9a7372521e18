//! What a layout reads of a prompt's history.
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::interned::interned;
use crate::reading::text_of;

/// The history of a prompt, and the columns of it that a layout needs.
pub struct History<'py> {
    of: Bound<'py, PyAny>,
    pub entries: Bound<'py, PyTuple>,
    pub format: String,
    tokens: Bound<'py, PyTuple>,
    /// The index of each entry in the caller's list; empty where none was left out.
    indices: Bound<'py, PyTuple>,
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
            tokens: of.getattr(interned!(py, "tokens"))?.cast_into()?,
            indices: of.getattr(interned!(py, "entry_indices"))?.cast_into()?,
            of,
            named,
        })
    }

    /// The index in the caller's list of the entry of a row.
    pub fn entry_index(&self, row: usize) -> PyResult<usize> {
        if self.indices.is_empty() { Ok(row) } else { self.indices.get_item(row)?.extract() }
    }

    pub fn entry_id(&self, row: usize) -> PyResult<Bound<'py, PyAny>> {
        self.named.call1((self.entry_index(row)?,))
    }

    pub fn tokens(&self, row: usize) -> PyResult<i64> {
        self.tokens.get_item(row)?.extract()
    }

    fn rows(&self) -> PyResult<Bound<'py, PyAny>> {
        self.of.getattr(interned!(self.of.py(), "rows"))
    }

    pub fn last_turn_within(&self, known: usize) -> PyResult<usize> {
        self.rows()?.call_method1("last_turn_within", (known,))?.extract()
    }

    /// The index in the caller's list of the last user turn.
    pub fn last_user_turn(&self) -> PyResult<Option<usize>> {
        let found = self.rows()?.call_method0("last_user_message")?;
        if found.is_none() {
            return Ok(None);
        }
        self.entry_index(found.getattr("index")?.extract()?).map(Some)
    }

    /// Whether what is said first is what the caller said first.
    pub fn begins_as_given(&self) -> PyResult<bool> {
        let said: Option<(usize, Bound<'py, PyAny>)> = self.rows()?.call_method0("first_said")?.extract()?;
        let first = said.map_or(0, |(first, _)| first);
        Ok(self.entry_index(first)? == first)
    }
}
