//! Times of lines, as Python has them.
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::interned::interned;
use crate::reading::Fields;

/// Reads times.
pub struct Clock<'py> {
    class: Bound<'py, PyAny>,
    utc: Bound<'py, PyAny>,
}

impl<'py> Clock<'py> {
    pub fn new(py: Python<'py>) -> PyResult<Self> {
        let module = py.import("datetime")?;
        Ok(Self { class: module.getattr("datetime")?, utc: module.getattr("timezone")?.getattr("utc")? })
    }

    /// The time in ISO 8601, UTC if it names no zone; None if it isn't one.
    pub fn time(&self, stamp: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = self.class.py();
        match self.in_utc(stamp) {
            Err(error) if error.is_instance_of::<PyValueError>(py) || error.is_instance_of::<PyOverflowError>(py) => {
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// The time of a line. None if it names none.
    pub fn of_line(&self, line: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let stamp = line.text(interned!(self.class.py(), "timestamp"))?;
        Ok(stamp.map(|stamp| self.time(&stamp)).transpose()?.flatten())
    }

    fn in_utc(&self, stamp: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let py = self.class.py();
        let mut time = self.class.call_method1(interned!(py, "fromisoformat"), (stamp,))?;
        if time.getattr(interned!(py, "tzinfo"))?.is_none() {
            let zone = PyDict::new(py);
            zone.set_item(interned!(py, "tzinfo"), &self.utc)?;
            time = time.call_method(interned!(py, "replace"), (), Some(&zone))?;
        }
        time.call_method1(interned!(py, "astimezone"), (&self.utc,))
    }

    /// The time from nanoseconds after 1970.
    pub fn after_epoch(&self, nanoseconds: i64) -> PyResult<Bound<'py, PyAny>> {
        self.class.call_method1(interned!(self.class.py(), "fromtimestamp"), (nanoseconds as f64 / 1e9, &self.utc))
    }
}

/// A time as it is written.
pub fn written(time: &Bound<'_, PyAny>) -> PyResult<String> {
    time.call_method0(interned!(time.py(), "isoformat"))?.extract()
}
