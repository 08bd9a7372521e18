//! The threads in a store's file, for Python: append-only logs of records.
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use pyo3::prelude::*;
use rehydrate_core::store::{self, Record, ThreadInfo};

use super::Open;
use super::values::Name;
use crate::convert::Text;
use crate::errors::{detached, to_py};
use crate::exit::Running;

/// Name, when it was made and last changed (milliseconds since 1970), records, bytes.
type ThreadRow = (String, i64, i64, u64, u64);

fn thread_row(info: ThreadInfo) -> ThreadRow {
    (info.name, info.created_ms, info.changed_ms, info.records, info.bytes)
}

/// The threads of an open store.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct LocalThreads {
    pub(super) open: Arc<Open>,
}

#[pymethods]
impl LocalThreads {
    /// The file, as an absolute path.
    #[getter]
    fn path(&self) -> OsString {
        self.open.core.path().as_os_str().to_owned()
    }

    /// A thread of a namespace. None if there is none of that name.
    fn thread(&self, py: Python<'_>, namespace: Name, name: Name) -> PyResult<Option<ThreadRow>> {
        Ok(detached(py, || self.open.core.thread(&namespace.0, &name.0))?.map(thread_row))
    }

    /// The threads of a namespace, the last changed first.
    fn threads(&self, py: Python<'_>, namespace: Name) -> PyResult<Vec<ThreadRow>> {
        Ok(detached(py, || self.open.core.threads(&namespace.0))?.into_iter().map(thread_row).collect())
    }

    /// Add records to a thread that has `expected` of them. With 0 it is made. Returns its new row.
    fn append_records(
        &self,
        py: Python<'_>,
        namespace: Name,
        name: Name,
        expected: u64,
        records: Vec<(u8, f64, Name)>,
    ) -> PyResult<ThreadRow> {
        let records = records_of(records);
        detached(py, || self.open.core.append_records(&namespace.0, &name.0, expected, &records)).map(thread_row)
    }

    /// At most `limit` records of a thread from a number on.
    #[pyo3(signature = (namespace, name, *, start = 0, limit = usize::MAX))]
    fn records(
        &self,
        py: Python<'_>,
        namespace: Name,
        name: Name,
        start: u64,
        limit: usize,
    ) -> PyResult<Vec<(u8, f64, String)>> {
        let found = detached(py, || self.open.core.records(&namespace.0, &name.0, start, limit))?;
        Ok(found.into_iter().map(|record| (record.kind, record.time, record.body)).collect())
    }

    /// Put other bodies in place of some records of a thread that has `expected` of them, and add records.
    #[pyo3(signature = (namespace, name, expected, bodies, added = Vec::new()))]
    fn replace_records(
        &self,
        py: Python<'_>,
        namespace: Name,
        name: Name,
        expected: u64,
        bodies: Vec<(u64, Name)>,
        added: Vec<(u8, f64, Name)>,
    ) -> PyResult<()> {
        let added = records_of(added);
        let bodies: Vec<(u64, String)> = bodies.into_iter().map(|(number, body)| (number, body.0)).collect();
        detached(py, || self.open.core.replace_records(&namespace.0, &name.0, expected, &bodies, &added))
    }

    /// Delete a thread, to the last byte; how many records it had.
    fn purge_thread(&self, py: Python<'_>, namespace: Name, name: Name) -> PyResult<u64> {
        detached(py, || self.open.core.purge_thread(&namespace.0, &name.0))
    }
}

fn records_of(records: Vec<(u8, f64, Name)>) -> Vec<Record> {
    records.into_iter().map(|(kind, time, body)| Record { kind, time, body: body.0 }).collect()
}

/// Refuse a time of a record that no reader could show.
#[pyfunction]
pub fn check_record_time(py: Python<'_>, time: f64) -> PyResult<()> {
    let _running = Running::begin();
    store::verify_time(time).map_err(|error| to_py(py, &error))
}

/// Refuse to write to a thread that has another number of records than the caller read. None: there is none.
#[pyfunction]
#[pyo3(signature = (server, name, expected, has))]
pub fn check_thread_records(py: Python<'_>, server: &str, name: Text, expected: u64, has: Option<u64>) -> PyResult<()> {
    let _running = Running::begin();
    if has == Some(expected) {
        return Ok(());
    }
    Err(to_py(py, &store::thread_conflict(Path::new(server), name.as_str(), expected, has)))
}
