//! The usage of an answer, read from its bytes while they pass.
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rehydrate_core::event_stream::Decoder;

use super::{get, items};
use crate::exit::Running;
use crate::reading::json_value;

/// The most bytes of a whole answer, or of one event. A longer one is an image or a sound.
const MAX_READ_BYTES: usize = 1 << 20;

/// Reads the usage of one answer.
#[pyclass(module = "rehydrate._native")]
pub struct Bill {
    /// None if the answer isn't a stream.
    events: Option<Decoder>,
    whole: Vec<u8>,
    /// The size of the answer, or of what came since the last event.
    size: usize,
    found: Py<PyDict>,
}

#[pymethods]
impl Bill {
    #[new]
    #[pyo3(signature = (*, is_streamed))]
    fn begin(py: Python<'_>, is_streamed: bool) -> Self {
        let events = is_streamed.then(Decoder::default);
        Self { events, whole: Vec::new(), size: 0, found: PyDict::new(py).unbind() }
    }

    /// Read on.
    fn feed(&mut self, py: Python<'_>, part: &[u8]) -> PyResult<()> {
        let _running = Running::begin();
        self.size += part.len();
        let mut part = part;
        let Some(events) = &mut self.events else {
            if self.size > MAX_READ_BYTES {
                self.whole.clear();
            } else {
                self.whole.extend_from_slice(part);
            }
            return Ok(());
        };
        if self.size > MAX_READ_BYTES {
            *events = Decoder::default();
            let Some(end) = part.iter().position(|byte| *byte == b'\n') else { return Ok(()) };
            (self.size, part) = (0, &part[end..]); // the next event begins after this line
        }
        for data in events.feed(part) {
            self.size = 0;
            if data.contains("\"usage\"") {
                self.take(py, data.as_bytes())?;
            }
        }
        Ok(())
    }

    /// The usage as far as it was read; empty if nothing can be read.
    fn usage<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let _running = Running::begin();
        if self.events.is_none() {
            self.take(py, &self.whole)?;
        }
        Ok(self.found.bind(py).clone())
    }
}

impl Bill {
    fn take(&self, py: Python<'_>, text: &[u8]) -> PyResult<()> {
        let Some(body) = json_value(PyBytes::new(py, text).as_any())? else { return Ok(()) };
        if !body.is_instance_of::<PyDict>() {
            return Ok(());
        }
        for place in [Some(body.clone()), get(&body, "message")?, get(&body, "response")?].into_iter().flatten() {
            let usage = if place.is_instance_of::<PyDict>() { get(&place, "usage")? } else { None };
            if let Some(usage) = usage.filter(|usage| usage.is_instance_of::<PyDict>()) {
                for (name, count) in items(&usage)? {
                    if count.is_truthy()? {
                        self.found.bind(py).set_item(name, count)?; // a later event says what is new, and 0 for the rest
                    }
                }
            }
        }
        Ok(())
    }
}
