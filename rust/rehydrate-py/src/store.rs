//! The store for Python: items as tuples in, as tuples out.
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rehydrate_core::error::Error;
use rehydrate_core::index::{Fusion, VectorIndex};
use rehydrate_core::store::{
    self, DEFAULT_INDEX_BYTES, Filter, Limits, NewItem, Options, Paging, Purge, Record, SearchRequest, ThreadInfo, Tier,
};

pub(crate) mod rows;

use self::rows::{FilterArguments, FusionArgument, HitRow, NewItemRow, hit_row, item_row};
use crate::convert::{Text, floats};
use crate::errors::{detached, to_py};

/// Handle and whether it is new per item; how many the limits demoted and dropped.
type Additions = (Vec<(String, bool)>, usize, usize);

/// Name, when it was made and last changed (milliseconds since 1970), records, bytes.
type ThreadRow = (String, i64, i64, u64, u64);

fn thread_row(info: ThreadInfo) -> ThreadRow {
    (info.name, info.created_ms, info.changed_ms, info.records, info.bytes)
}

/// An open store.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Store {
    core: store::Store,
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path, *, read_only = false, busy_seconds = 30.0, max_items = None, max_bytes = None, max_age_ms = None, index_bytes = DEFAULT_INDEX_BYTES, vectors = "auto"))]
    #[expect(clippy::too_many_arguments, reason = "keywords cross the boundary one by one")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        read_only: bool,
        busy_seconds: f64,
        max_items: Option<u64>,
        max_bytes: Option<u64>,
        max_age_ms: Option<i64>,
        index_bytes: u64,
        vectors: &str,
    ) -> PyResult<Self> {
        let vectors = match vectors {
            "auto" => VectorIndex::Auto,
            "lists" => VectorIndex::Lists,
            "usearch" => VectorIndex::Usearch,
            other => {
                let message = format!("vectors is {other:?}; pass \"auto\", \"lists\" or \"usearch\"");
                return Err(to_py(py, &Error::Argument(message)));
            }
        };
        let options = Options {
            is_read_only: read_only,
            // A duration too long to say is a year.
            busy: Duration::try_from_secs_f64(busy_seconds.clamp(0.0, 3.2e7)).unwrap_or(Duration::from_secs(30)),
            limits: Limits { items: max_items, bytes: max_bytes, age_ms: max_age_ms },
            index_bytes,
            vectors,
            ..Options::default()
        };
        Ok(Self { core: detached(py, || store::Store::open(&path, options))? })
    }

    /// The file, as an absolute path.
    #[getter]
    fn path(&self) -> OsString {
        self.core.path().as_os_str().to_owned()
    }

    /// Whether nothing can be written through it.
    #[getter]
    fn read_only(&self) -> bool {
        self.core.is_read_only()
    }

    /// Add items: handle and whether it is new per item, then how many the limits demoted and dropped.
    #[pyo3(signature = (namespace, items, *, vectors = None, space = None))]
    fn add(
        &self,
        py: Python<'_>,
        namespace: &str,
        items: Vec<NewItemRow>,
        vectors: Option<Bound<'_, PyAny>>,
        space: Option<&str>,
    ) -> PyResult<Additions> {
        let rows = vectors.map(|vectors| floats(py, &vectors)).transpose()?;
        let report = detached(py, || {
            let mut items: Vec<NewItem> = items.into_iter().map(|NewItemRow(item)| item).collect();
            if let Some(rows) = rows {
                let dim = dim_of(&rows, items.len())?;
                for (item, vector) in items.iter_mut().zip(rows.chunks_exact(dim.max(1))) {
                    item.vector = Some(vector.to_vec());
                }
            }
            self.core.add(namespace, &items, space)
        })?;
        let added = report.added.into_iter().map(|added| (added.handle, added.is_new)).collect();
        Ok((added, report.demoted, report.dropped))
    }

    /// The items that handles name, None where there is none.
    fn get<'py>(
        &self,
        py: Python<'py>,
        namespace: &str,
        handles: Vec<String>,
    ) -> PyResult<Vec<Option<Bound<'py, PyTuple>>>> {
        let found = detached(py, || self.core.get(namespace, &handles))?;
        found.iter().map(|item| item.as_ref().map(|item| item_row(py, item)).transpose()).collect()
    }

    /// A page of items, and the cursor of the next one.
    #[pyo3(signature = (namespace, *, cursor = None, limit = 100, newest_first = true, tiers = None, kinds = None, sources = None, sessions = None, after_ms = None, before_ms = None, min_trust = 0.0))]
    #[expect(clippy::too_many_arguments, reason = "keywords cross the boundary one by one")]
    fn list<'py>(
        &self,
        py: Python<'py>,
        namespace: &str,
        cursor: Option<i64>,
        limit: usize,
        newest_first: bool,
        tiers: Option<Vec<u8>>,
        kinds: Option<Vec<String>>,
        sources: Option<Vec<String>>,
        sessions: Option<Vec<String>>,
        after_ms: Option<i64>,
        before_ms: Option<i64>,
        min_trust: f64,
    ) -> PyResult<(Vec<Bound<'py, PyTuple>>, Option<i64>)> {
        let arguments = FilterArguments { tiers, kinds, sources, sessions, after_ms, before_ms, min_trust };
        let page = detached(py, || {
            self.core.list(namespace, &Filter::try_from(arguments)?, Paging { cursor, limit, newest_first })
        })?;
        Ok((page.items.iter().map(|item| item_row(py, item)).collect::<PyResult<_>>()?, page.cursor))
    }

    /// The items most relevant to a query, best first.
    #[pyo3(signature = (namespace, query, *, limit = 5, vector = None, space = None, fusion = None, tiers = None, kinds = None, sources = None, sessions = None, after_ms = None, before_ms = None, min_trust = 0.0))]
    #[expect(clippy::too_many_arguments, reason = "keywords cross the boundary one by one")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        namespace: &str,
        query: Text,
        limit: usize,
        vector: Option<Bound<'py, PyAny>>,
        space: Option<&str>,
        fusion: Option<FusionArgument>,
        tiers: Option<Vec<u8>>,
        kinds: Option<Vec<String>>,
        sources: Option<Vec<String>>,
        sessions: Option<Vec<String>>,
        after_ms: Option<i64>,
        before_ms: Option<i64>,
        min_trust: f64,
    ) -> PyResult<Vec<HitRow<'py>>> {
        let arguments = FilterArguments { tiers, kinds, sources, sessions, after_ms, before_ms, min_trust };
        let vector = vector.map(|vector| floats(py, &vector)).transpose()?;
        let hits = detached(py, || {
            let request = SearchRequest {
                query: query.as_str(),
                vector: vector.as_deref().map(|vector| Ok((vector, named(space)?))).transpose()?,
                limit,
                fusion: fusion.map_or(Ok(Fusion::default()), Fusion::try_from)?,
                filter: Filter::try_from(arguments)?,
            };
            self.core.search(namespace, &request)
        })?;
        hits.iter().map(|hit| hit_row(py, hit)).collect()
    }

    /// Per text, or per row of `vectors`, the items most like it and their cosines, nearest first.
    #[pyo3(signature = (namespace, texts, *, k = 3, vectors = None, space = None, centred = false))]
    #[expect(clippy::too_many_arguments, reason = "keywords cross the boundary one by one")]
    fn recall(
        &self,
        py: Python<'_>,
        namespace: &str,
        texts: Vec<Text>,
        k: usize,
        vectors: Option<Bound<'_, PyAny>>,
        space: Option<&str>,
        centred: bool,
    ) -> PyResult<Vec<Vec<store::Near>>> {
        let rows = vectors.map(|vectors| floats(py, &vectors)).transpose()?;
        detached(py, || match rows {
            None => {
                let texts: Vec<&str> = texts.iter().map(Text::as_str).collect();
                self.core.recall(namespace, &texts, k, centred)
            }
            Some(rows) => {
                let rows: Vec<&[f32]> = rows.chunks_exact(dim_of(&rows, texts.len())?.max(1)).collect();
                self.core.recall_vectors(namespace, &rows, named(space)?, k, centred)
            }
        })
    }

    /// Delete items; how many were there.
    fn forget(&self, py: Python<'_>, namespace: &str, handles: Vec<String>) -> PyResult<usize> {
        detached(py, || self.core.forget(namespace, &handles))
    }

    /// Delete a source, a session or a namespace, to the last byte; how many items that were.
    #[pyo3(signature = (namespace, what, name = None))]
    fn purge(&self, py: Python<'_>, namespace: &str, what: &str, name: Option<String>) -> PyResult<usize> {
        let what = match (what, name) {
            ("source", Some(name)) => Purge::Source(name),
            ("session", Some(name)) => Purge::Session(name),
            ("namespace", None) => Purge::Namespace,
            (what, _) => {
                let problem =
                    format!("what is {what:?}; choose \"source\" or \"session\" and a name, or \"namespace\"");
                return Err(to_py(py, &Error::Argument(problem)));
            }
        };
        detached(py, || self.core.purge(namespace, &what))
    }

    /// Give items a tier; how many had another one.
    fn set_tier(&self, py: Python<'_>, namespace: &str, handles: Vec<String>, tier: u8) -> PyResult<usize> {
        detached(py, || self.core.set_tier(namespace, &handles, Tier::try_from(tier)?))
    }

    /// Give items vectors of the model `space`; how many of the items are there.
    fn set_vectors(
        &self,
        py: Python<'_>,
        namespace: &str,
        handles: Vec<String>,
        vectors: Bound<'_, PyAny>,
        space: &str,
    ) -> PyResult<usize> {
        let rows = floats(py, &vectors)?;
        detached(py, || self.core.set_vectors(namespace, &handles, &rows, space))
    }

    /// Take away the vectors of a namespace and its model; how many items had one.
    fn drop_vectors(&self, py: Python<'_>, namespace: &str) -> PyResult<usize> {
        detached(py, || self.core.drop_vectors(namespace))
    }

    /// Link two items; whether the link is new.
    fn link(&self, py: Python<'_>, namespace: &str, source: &str, target: &str, relation: &str) -> PyResult<bool> {
        detached(py, || self.core.link(namespace, source, target, relation))
    }

    /// Counts of a namespace.
    fn stats<'py>(&self, py: Python<'py>, namespace: &str) -> PyResult<Bound<'py, PyDict>> {
        let stats = detached(py, || self.core.stats(namespace))?;
        let limits = self.core.limits();
        let found = PyDict::new(py);
        for (key, number) in [
            ("items", stats.items),
            ("bytes", stats.bytes),
            ("hot", stats.hot),
            ("warm", stats.warm),
            ("cold", stats.cold),
            ("links", stats.links),
            ("demoted", stats.demoted),
            ("dropped", stats.dropped),
            ("indexed", stats.indexed),
            ("pending", stats.pending),
            ("segments", stats.segments),
            ("index_bytes", stats.index_bytes),
            ("vectors", stats.vectors),
            ("dim", stats.dim),
            ("file_bytes", stats.file_bytes),
        ] {
            found.set_item(key, number)?;
        }
        found.set_item("space", stats.space)?;
        found.set_item("max_items", limits.items)?;
        found.set_item("max_bytes", limits.bytes)?;
        found.set_item("max_age_ms", limits.age_ms)?;
        Ok(found)
    }

    /// Items checked, what is wrong with the truth, and how many index files were damaged.
    fn verify(&self, py: Python<'_>) -> PyResult<(u64, Vec<String>, u64)> {
        let report = detached(py, || self.core.verify())?;
        Ok((report.items, report.problems, report.damaged))
    }

    /// Make the indexes anew, of one namespace or of all; how many items they hold.
    #[pyo3(signature = (namespace = None))]
    fn rebuild(&self, py: Python<'_>, namespace: Option<&str>) -> PyResult<u64> {
        detached(py, || self.core.rebuild(namespace))
    }

    /// Write index files of all that no file holds yet.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.flush())
    }

    /// All namespaces, by name.
    fn namespaces(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        detached(py, || self.core.namespaces())
    }

    /// What a thread of a namespace is; None where there is none of that name.
    fn thread(&self, py: Python<'_>, namespace: &str, name: &str) -> PyResult<Option<ThreadRow>> {
        Ok(detached(py, || self.core.thread(namespace, name))?.map(thread_row))
    }

    /// The threads of a namespace, the last changed first.
    fn threads(&self, py: Python<'_>, namespace: &str) -> PyResult<Vec<ThreadRow>> {
        Ok(detached(py, || self.core.threads(namespace))?.into_iter().map(thread_row).collect())
    }

    /// Append records to a thread that has `expected` of them; with 0 it is made. What it is then.
    fn append_records(
        &self,
        py: Python<'_>,
        namespace: &str,
        name: &str,
        expected: u64,
        records: Vec<(u8, f64, String)>,
    ) -> PyResult<ThreadRow> {
        let records: Vec<Record> = records.into_iter().map(|(kind, time, body)| Record { kind, time, body }).collect();
        Ok(thread_row(detached(py, || self.core.append_records(namespace, name, expected, &records))?))
    }

    /// At most `limit` records of a thread from a number on.
    #[pyo3(signature = (namespace, name, *, start = 0, limit = usize::MAX))]
    fn records(
        &self,
        py: Python<'_>,
        namespace: &str,
        name: &str,
        start: u64,
        limit: usize,
    ) -> PyResult<Vec<(u8, f64, String)>> {
        let found = detached(py, || self.core.records(namespace, name, start, limit))?;
        Ok(found.into_iter().map(|record| (record.kind, record.time, record.body)).collect())
    }

    /// Put other bodies in the place of some records of a thread that has `expected` of them.
    fn replace_records(
        &self,
        py: Python<'_>,
        namespace: &str,
        name: &str,
        expected: u64,
        bodies: Vec<(u64, String)>,
    ) -> PyResult<()> {
        detached(py, || self.core.replace_records(namespace, name, expected, &bodies))
    }

    /// Delete a thread, to the last byte; how many records it had.
    fn purge_thread(&self, py: Python<'_>, namespace: &str, name: &str) -> PyResult<u64> {
        detached(py, || self.core.purge_thread(namespace, name))
    }

    /// Copy SQLite's log into the file and empty it.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.checkpoint())
    }

    /// Close it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.close())
    }
}

impl Drop for Store {
    /// Wherever the last reference goes, also amid a garbage collection: the interpreter goes on meanwhile.
    fn drop(&mut self) {
        // While the interpreter exits there is nobody else.
        Python::try_attach(|py| py.detach(|| self.core.abandon())).unwrap_or_else(|| self.core.abandon());
    }
}

fn named(space: Option<&str>) -> Result<&str, Error> {
    space.ok_or_else(|| Error::Argument("vectors without a space; name the model that they come from".into()))
}

/// Components of a row where `rows` has one for each of `count` items.
pub(crate) fn dim_of(rows: &[f32], count: usize) -> Result<usize, Error> {
    let dim = rows.len().checked_div(count).unwrap_or(0);
    if dim * count == rows.len() && (dim > 0 || rows.is_empty()) {
        return Ok(dim);
    }
    Err(Error::Argument(format!("vectors hold {} numbers for {count} texts; give a row for each", rows.len())))
}
