//! The records of a thread, for Python: which count, and what they add up to.
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use rehydrate_core::thread_log::{self as core, Row, Unreadable};

use crate::errors::{detached, raise};

/// Kind, time in seconds since 1970, and body of a record.
type Given = (i64, f64, PyBackedStr);

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

fn read<T: Send>(
    py: Python<'_>,
    rows: &[Given],
    work: impl FnOnce(&[Row<'_>]) -> Result<T, Unreadable> + Send,
) -> PyResult<T> {
    let rows: Vec<_> = rows.iter().map(|(kind, time, body)| Row { kind: *kind, time: *time, body }).collect();
    detached(py, || Ok(work(&rows)))?.map_err(|Unreadable { place, problem, field, is_newer }| {
        let remedy =
            if is_newer { "upgrade rehydrate to read it" } else { "restore the store from a copy or an export" };
        raise(py, "UnreadableIRError", (place, problem, remedy, [field]))
    })
}
