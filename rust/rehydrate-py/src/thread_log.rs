//! The records of a thread, for Python: which count, and what they add up to.
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyString;
use rehydrate_core::thread_log::{self as core, Redacted, Row, Unreadable};

use crate::convert::{bytes_of, string_of};
use crate::errors::{detached, raise};

/// Kind, time in seconds since 1970, and body of a record.
type Given = (i64, f64, PyBackedStr);

/// The body of a record, by its number.
type Body = (usize, String);

/// The time of an entry, a text of it as it was, and as it is.
type Kept<'py> = (f64, Bound<'py, PyString>, Bound<'py, PyString>);

/// The numbers of the records that count; with `entries`, those of a thread that ends after so many entries.
#[pyfunction]
#[pyo3(signature = (rows, entries = None))]
pub fn counting_records(py: Python<'_>, rows: Vec<Given>, entries: Option<u64>) -> PyResult<Vec<usize>> {
    read(py, &rows, |rows| core::counting(rows, entries))
}

/// What the records that count add up to, as JSON.
#[pyfunction]
pub fn folded_records(py: Python<'_>, rows: Vec<Given>) -> PyResult<String> {
    read(py, &rows, core::folded)
}

/// The bodies that have one of these texts, without it, each by the number of its record; and the texts of entries that have
/// one, as they were and without it, each with its time. `texts_of` gives the texts of an entry as JSON.
#[pyfunction]
pub fn redacted_records<'py>(
    py: Python<'py>,
    rows: Vec<Given>,
    texts: Vec<Bound<'py, PyString>>,
    texts_of: &Bound<'py, PyAny>,
) -> PyResult<(Vec<Body>, Vec<Kept<'py>>)> {
    let raw = |text: &Bound<'py, PyString>| Ok(bytes_of(text)?.into());
    let texts = texts.iter().map(raw).collect::<PyResult<Vec<_>>>()?;
    let rows: Vec<_> = rows_of(&rows).collect();
    let texts_of = |entry: &str| {
        let texts: Vec<Bound<'py, PyString>> = texts_of.call1((entry,))?.extract()?;
        Ok::<_, Problem>(texts.iter().map(raw).collect::<PyResult<_>>()?)
    };
    let Redacted { bodies, texts } = core::redacted(&rows, &texts, texts_of).map_err(|problem| problem.raised(py))?;
    let kept = texts.iter().map(|(time, was, now)| Ok((*time, string_of(py, was)?, string_of(py, now)?)));
    Ok((bodies, kept.collect::<PyResult<_>>()?))
}

/// Why a redaction stopped.
enum Problem {
    Record(Unreadable),
    Python(PyErr),
}

impl From<Unreadable> for Problem {
    fn from(unreadable: Unreadable) -> Self {
        Self::Record(unreadable)
    }
}

impl From<PyErr> for Problem {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl Problem {
    fn raised(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Record(unreadable) => raised(py, unreadable),
            Self::Python(error) => error,
        }
    }
}

fn rows_of(rows: &[Given]) -> impl Iterator<Item = Row<'_>> {
    rows.iter().map(|(kind, time, body)| Row { kind: *kind, time: *time, body })
}

fn read<T: Send>(
    py: Python<'_>,
    rows: &[Given],
    work: impl FnOnce(&[Row<'_>]) -> Result<T, Unreadable> + Send,
) -> PyResult<T> {
    let rows: Vec<_> = rows_of(rows).collect();
    detached(py, || Ok(work(&rows)))?.map_err(|unreadable| raised(py, unreadable))
}

fn raised(py: Python<'_>, unreadable: Unreadable) -> PyErr {
    let Unreadable { place, problem, field, is_newer } = unreadable;
    let remedy = if is_newer { "upgrade rehydrate to read it" } else { "restore the store from a copy or an export" };
    raise(py, "UnreadableIRError", (place, problem, remedy, [field]))
}
