//! Caps of tool results, for Python.
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::caps::{self, Options, decoded, encoded};
use rehydrate_core::engine::Engine;

use crate::convert::{Text, bytes_of, string_of};
use crate::errors::detached;
use crate::exit::Running;
use crate::tokens::named;

/// The code points of a Python string, halves of surrogate pairs included.
pub struct CodePoints(pub Vec<u32>);

impl<'a, 'py> FromPyObject<'a, 'py> for CodePoints {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let text = value.cast::<PyString>()?.to_owned();
        Ok(Self(decoded(&bytes_of(&text)?)))
    }
}

/// The Python string of these code points.
pub fn string<'py>(py: Python<'py>, points: &[u32]) -> PyResult<Bound<'py, PyAny>> {
    Ok(string_of(py, &encoded(points))?.into_any())
}

/// The shown part of a text, its kind, and the tokens that are left out. None if it fits whole.
#[expect(clippy::too_many_arguments, reason = "how a text is capped")]
#[pyfunction]
pub fn cap_text<'py>(
    py: Python<'py>,
    text: Bound<'py, PyString>,
    limit: i64,
    notice: i64,
    counter: &str,
    tool: Text,
    rows: usize,
    log_lines: usize,
) -> PyResult<Option<(Bound<'py, PyString>, &'static str, i64)>> {
    let _running = Running::begin();
    let text = bytes_of(&text)?;
    let bytes: &[u8] = &text;
    let shown = detached(py, || {
        let options = Options { counter: named(counter)?, limit, notice, tool: tool.as_str(), rows, log_lines };
        Ok(Engine::shared().cap(bytes, &options))
    })?;
    shown.map(|shown| Ok((string_of(py, &shown.body)?, shown.kind.name(), shown.omitted))).transpose()
}

/// The size to which the largest must be cut so that all fit.
#[pyfunction]
pub fn fair_share(sizes: Vec<i64>, room: i64) -> i64 {
    caps::fair_share(&sizes, room)
}
