//! What a reader in Python fills: Responses and LangChain know an item's fields, and where a message object has its calls.
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::blocks::{At, Body};
use super::draft::kind_of;
use super::fields::Fields;

/// What was read of one entry so far, for a reader in Python: the pieces, the media, the calls and the answers.
#[pyclass(name = "Draft", module = "rehydrate._native")]
pub struct EntryDraft {
    pub body: Body,
}

#[pymethods]
impl EntryDraft {
    #[new]
    #[pyo3(signature = (index=0))]
    fn begin(index: usize) -> Self {
        Self { body: Body::new(index, true) }
    }

    /// Add a text, unless it is empty or no string.
    #[pyo3(signature = (text, kind, path=None))]
    fn add<'py>(
        &mut self,
        text: Option<Bound<'py, PyAny>>,
        kind: u8,
        path: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<()> {
        self.body.add(text, kind_of(kind)?, path.map(|path| At::Root(Some(path), "")))
    }

    /// Add a tool call as text.
    fn add_input<'py>(
        &mut self,
        py: Python<'py>,
        name: Option<Bound<'py, PyAny>>,
        input: Option<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        self.body.add_input(py, name.as_ref(), input.as_ref())
    }

    /// Add every text in a value that a model would read, and every medium.
    fn add_readable(&mut self, value: &Bound<'_, PyAny>, kind: u8) -> PyResult<()> {
        self.body.add_readable(value, kind_of(kind)?)
    }

    /// Add a content: a string, or a list of strings and blocks; raises InvalidMessageError.
    #[pyo3(signature = (content, kind, path, part="content"))]
    fn add_content<'py>(
        &mut self,
        content: Option<Bound<'py, PyAny>>,
        kind: u8,
        path: &Bound<'py, PyTuple>,
        part: &str,
    ) -> PyResult<()> {
        self.body.add_content(content.as_ref(), kind_of(kind)?, At::Root(Some(path), part))
    }

    /// Add a block; raises UnknownBlockError for a call or a result of a foreign format.
    #[pyo3(signature = (block, kind, path, part=""))]
    fn add_block<'py>(
        &mut self,
        block: &Bound<'py, PyAny>,
        kind: u8,
        path: &Bound<'py, PyTuple>,
        part: &str,
    ) -> PyResult<()> {
        let block = Fields::needed(block, self.body.index, || part.to_owned())?;
        self.body.add_block(block, kind_of(kind)?, At::Root(Some(path), part))
    }

    /// Add a block of a type that no format knows, and note it.
    fn add_unknown(&mut self, block: &Bound<'_, PyAny>, kind: u8) -> PyResult<()> {
        self.body.add_unknown(Fields::needed(block, self.body.index, String::new)?, kind_of(kind)?)
    }

    /// Note a summary that the provider itself wrote.
    fn add_state(&mut self) {
        self.body.has_state = true;
    }

    /// Count a picture or a file.
    fn add_medium(&mut self) {
        self.body.images += 1;
    }

    /// Whether a block is one of Anthropic's calls or results, with an id or without.
    #[getter]
    fn has_pair(&self) -> bool {
        self.body.has_pair
    }

    /// The path of each piece's text; None where it must not change.
    #[getter]
    fn places(&self, py: Python<'_>) -> Vec<Option<Py<PyTuple>>> {
        let places = self.body.places.iter().flatten();
        places.map(|place| place.as_ref().map(|place| place.clone_ref(py))).collect()
    }
}
