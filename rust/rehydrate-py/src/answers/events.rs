//! Server-sent events of an answer, for Python.
use pyo3::prelude::*;
use rehydrate_core::event_stream::Decoder;

/// Decodes server-sent events from bytes that may be cut anywhere.
#[pyclass(module = "rehydrate._native")]
pub struct EventDecoder(Decoder);

#[pymethods]
impl EventDecoder {
    #[new]
    fn begin() -> Self {
        Self(Decoder::default())
    }

    /// The data of each event that these bytes complete.
    fn feed(&mut self, chunk: &[u8]) -> Vec<String> {
        self.0.feed(chunk)
    }
}
