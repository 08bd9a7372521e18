//! Times as people write them, for Python.
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::times::{self, Meaning, Unreadable};

use crate::convert::Text;

/// What a text means as of a time of the zone's clock: "clock" or "moments" and both ends, in microseconds since the year 1
/// began, or "since" or "around", a count and its unit. Of a text that is not a time, the reason in two parts; the first may
/// be the text itself, and is to be quoted.
#[pyfunction]
pub fn read_time<'py>(text: Bound<'py, PyString>, now: i64) -> PyResult<Bound<'py, PyAny>> {
    let py = text.py();
    let read: Text = text.extract()?;
    let found = match times::read_time(read.as_str(), now) {
        Ok(Meaning::Clock(range)) => ("clock", range.start, range.end).into_pyobject(py)?,
        Ok(Meaning::Moments(range)) => ("moments", range.start, range.end).into_pyobject(py)?,
        Ok(Meaning::Since(count, unit)) => ("since", count, unit.name()).into_pyobject(py)?,
        Ok(Meaning::Around(count, unit)) => ("around", count, unit.name()).into_pyobject(py)?,
        Err(Unreadable { subject, why }) if subject == read.as_str() => (text, why).into_pyobject(py)?,
        Err(Unreadable { subject, why }) => (subject, why).into_pyobject(py)?,
    };
    Ok(found.into_any())
}
