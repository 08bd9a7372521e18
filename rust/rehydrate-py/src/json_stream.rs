//! JSON values in a stream of bytes; `rehydrate.rpc.server` reads them.
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use rehydrate_core::json_stream::{Found, Splitter};

/// Takes a stream in pieces, and gives its values as soon as they are complete.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct JsonStream(Mutex<Splitter>);

impl JsonStream {
    fn core(&self) -> MutexGuard<'_, Splitter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl JsonStream {
    #[new]
    fn new(max_bytes: usize) -> Self {
        Self(Mutex::new(Splitter::new(max_bytes)))
    }

    /// Whether the sender puts `Content-Length` headers before its values.
    #[getter]
    fn has_headers(&self) -> bool {
        self.core().has_headers()
    }

    fn feed(&self, data: &[u8]) {
        self.core().feed(data);
    }

    /// The next part: its kind, and its bytes, or the reason if it is broken. None if more of the stream is needed.
    #[pyo3(name = "next")]
    fn next_part<'py>(&self, py: Python<'py>, ended: bool) -> Option<(&'static str, Bound<'py, PyAny>)> {
        let found = self.core().next(ended)?;
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).into_any();
        Some(match found {
            Found::Value(value) => ("value", bytes(&value)),
            Found::Word(word) => ("word", bytes(&word)),
            Found::Line(line) => ("line", bytes(&line)),
            Found::Broken(reason) => ("broken", PyString::new(py, &reason).into_any()),
        })
    }

    /// Skips the rest of a line whose word wasn't JSON.
    fn skip_line(&self) {
        self.core().skip_line();
    }
}
