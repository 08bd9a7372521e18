//! One entry as far as it has been read, for a reader in Python.
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::blocks::{At, Body};
use super::draft::kind_of;
use crate::exit::Running;

/// One entry as far as it has been read, for a reader in Python: its pieces, media, calls and answers.
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
        let _running = Running::begin();
        self.body.add(text, kind_of(kind)?, path.map(|path| At::Root(Some(path), "")))
    }

    /// Count a picture or a file.
    fn add_medium(&mut self) {
        self.body.images += 1;
    }
}
