//! A message and its entry with other texts.
use pyo3::exceptions::{PyAttributeError, PyLookupError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::divisible::{DivisibleTexts, Place};
use super::inputs::{Pieces, by_call, pieces_of};
use crate::errors::raise;
use crate::reading::{Fields, Source, is_list, replace_texts, with_texts};

impl DivisibleTexts {
    /// The message at a position as it came in, and whether it is among those whose inputs were divided.
    pub fn original(&self, at: usize) -> (&Py<crate::reading::Conversation>, usize) {
        match self.original_at.get(&at) {
            Some(&original) => (&self.originals, original),
            None => (&self.conversation, at),
        }
    }

    /// The pieces of the message at a position, as it came in, and its entry, both with these texts, each by the number
    /// of its piece here.
    pub fn with_texts<'py>(
        &self,
        py: Python<'py>,
        at: usize,
        texts: &[(usize, Bound<'py, PyString>)],
    ) -> PyResult<(Pieces, Bound<'py, PyAny>)> {
        let here = &self.conversation.get().columns;
        let row = &here.of.rows[at];
        let first = row.pieces_end - here.pieces(at).len();
        let (before, original) = self.original(at);
        let mut pieces = pieces_of(py, &before.get().columns, original);
        let entry = self.entries.bind(py).get_item(row.index)?;
        let made = self.with_texts_in(py, &entry, texts, first, &mut pieces);
        let made = made.map_err(|error| as_changed(py, row.index, &entry, error))?;
        Ok((pieces, made))
    }

    /// The entry with these texts. Each is put into the pieces too, the first of which has the number `first`.
    fn with_texts_in<'py>(
        &self,
        py: Python<'py>,
        entry: &Bound<'py, PyAny>,
        texts: &[(usize, Bound<'py, PyString>)],
        first: usize,
        pieces: &mut Pieces,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (values, mut in_inputs) = (PyDict::new(py), Vec::new());
        for (number, text) in texts {
            match self.places.get(&(first + number)) {
                Some(Place::At(path)) => {
                    pieces[*number].0 = Source::of(text.clone())?;
                    values.set_item(path.bind(py), text)?;
                }
                Some(Place::In(input)) => in_inputs.push((input, text.clone())),
                Some(Place::Whole) | None => {}
            }
        }
        for (input, parts) in by_call(py, in_inputs.into_iter())? {
            for path in input.paths.bind(py) {
                values.set_item(&path, with_texts(&at_path(entry.clone(), path.cast()?)?, &parts)?)?;
            }
            pieces[input.piece].0 = input.text(py, &parts)?;
        }
        replace_texts(entry, &values)
    }
}

/// The error of an entry that changed since it was read.
fn as_changed(py: Python<'_>, index: usize, entry: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if !(error.is_instance_of::<PyLookupError>(py)
        || error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyAttributeError>(py))
    {
        return error;
    }
    let remedy = "change no message before the call returns, not in a counter or an embedder either";
    let changed = raise(py, "InvalidMessageError", (index, "", entry, "what was read", remedy));
    changed.set_cause(py, Some(error));
    changed
}

/// The value at a path of an entry.
fn at_path<'py>(mut value: Bound<'py, PyAny>, path: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    for step in path {
        let has_items = is_list(&value) || Fields::of(&value).is_some();
        value = if has_items { value.get_item(step)? } else { value.getattr(step.str()?)? };
    }
    Ok(value)
}
