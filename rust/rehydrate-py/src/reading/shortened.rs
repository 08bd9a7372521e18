//! The texts of tool results that a prompt shows in part, for Python.
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rehydrate_core::caps::{self, Reference, Shown, grouped, with_references};

use super::results::ResultText;
use super::seen_lines::Repeat;
use crate::convert::{bytes_of, string_of};
use crate::exit::Running;

/// A text of a tool result that is shown in part.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct ShortenedText {
    /// The place of the text in its entry.
    #[pyo3(get)]
    path: Py<PyTuple>,
    #[pyo3(get)]
    text: Py<PyString>,
    /// The id of the call that it answers; "" if unknown.
    #[pyo3(get)]
    call: Py<PyString>,
    /// The name of the tool; "" if unknown.
    #[pyo3(get)]
    tool: Py<PyString>,
    how: How,
}

/// The way a text is shortened.
pub enum How {
    /// It has too many tokens.
    Capped(Arc<Shown>),
    /// Earlier texts have these runs of its lines.
    Repeats(Vec<Repeat>),
}

impl ShortenedText {
    pub fn of(result: &ResultText<'_>, how: How) -> Self {
        let ResultText { path, text, call, tool, .. } = result;
        let (path, text) = (path.clone().unbind(), text.clone().unbind());
        Self { path, text, call: call.clone().unbind(), tool: tool.clone().unbind(), how }
    }
}

#[pymethods]
impl ShortenedText {
    /// The shown text. The whole is kept under this handle, or nowhere.
    fn shown<'py>(&self, handle: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
        let _running = Running::begin();
        let (py, handle) = (handle.py(), bytes_of(handle)?);
        let repeats = match &self.how {
            How::Capped(shown) => {
                return string_of(py, &[&*shown.body, &caps::notice(shown.omitted, &handle)].concat());
            }
            How::Repeats(repeats) => repeats,
        };
        let sources = repeats.iter().map(|repeat| Ok(repeat.source.bind(py).cast::<PyString>()?));
        let sources = sources.collect::<PyResult<Vec<_>>>()?;
        let sources = sources.into_iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
        let reference = |(repeat, source)| {
            let Repeat { lines, first, is_whole, is_numbered, .. }: &Repeat = repeat;
            Reference { lines: lines.clone(), source, first: *first, is_whole: *is_whole, is_numbered: *is_numbered }
        };
        let references: Vec<_> = repeats.iter().zip(sources.iter().map(|source| &**source)).map(reference).collect();
        string_of(py, &with_references(&bytes_of(self.text.bind(py))?, &references, &handle))
    }

    /// A description of the change.
    fn note(&self) -> String {
        match &self.how {
            How::Capped(shown) => {
                format!("{}, {} tokens left out", shown.kind.name(), grouped(shown.omitted))
            }
            How::Repeats(repeats) => {
                let lines = repeats.iter().map(|repeat| repeat.lines.len() as i64).sum();
                format!("{} lines stand above", grouped(lines))
            }
        }
    }
}

/// The notice that `omitted` tokens are missing, and the handle of the whole.
#[pyfunction]
pub fn notice<'py>(omitted: i64, handle: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    let _running = Running::begin();
    string_of(handle.py(), &caps::notice(omitted, &bytes_of(handle)?))
}
