//! The store in a file, for Python: the methods of the protocol `MemoryStore`.
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyTuple};
use rehydrate_core::error::Error;
use rehydrate_core::index::{Fusion, VectorIndex};
use rehydrate_core::store::{self, DEFAULT_INDEX_BYTES, Limits, Options, Paging, Purge, SearchRequest};

pub(crate) mod checks;
pub(crate) mod server;
pub(crate) mod threads;
pub(crate) mod values;

use self::threads::LocalThreads;
use self::values::{FusionArgument, Handles, Limit, Matrix, Name, Query, Truth, Values, tier_of, unknown};
use crate::checks::{check_choice, check_path, check_timeout, check_whole, wrong_type};
use crate::errors::{detached, to_py};
use crate::exit::running_python;

/// Items that are read in one transaction.
const PAGE: usize = 1_000;
const MS_A_DAY: f64 = 86_400_000.0;

/// A store, as long as anything of Python's goes to it.
pub struct Open {
    core: store::Store,
}

impl Drop for Open {
    /// The last reference may go anywhere, also during a garbage collection: the interpreter goes on meanwhile.
    fn drop(&mut self) {
        // While the interpreter exits there is no other thread.
        Python::try_attach(|py| py.detach(|| self.core.abandon())).unwrap_or_else(|| self.core.abandon());
    }
}

/// The store of one file, for any number of threads and processes.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct LocalStore {
    open: Arc<Open>,
    /// `MemoryLimits`, as they were given.
    limits: Py<PyAny>,
}

impl LocalStore {
    fn core(&self) -> &store::Store {
        &self.open.core
    }
}

/// The name of an index of vectors.
fn vectors_named(name: &Bound<'_, PyAny>) -> PyResult<String> {
    check_choice("vectors", name, PyTuple::new(name.py(), ["auto", "lists", "usearch"])?.as_any())?;
    name.extract()
}

#[pymethods]
impl LocalStore {
    #[new]
    #[pyo3(signature = (path, *, limits, read_only = Truth(false), index_bytes = None, vectors = None, busy_seconds = None))]
    fn new(
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        limits: Bound<'_, PyAny>,
        read_only: Truth,
        index_bytes: Option<&Bound<'_, PyAny>>,
        vectors: Option<&Bound<'_, PyAny>>,
        busy_seconds: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        check_path("path", path, "pass the path of a file")?;
        let path: PathBuf = path.extract()?;
        if !limits.is_instance(&Values::of(py)?.class("MemoryLimits")?)? {
            return Err(wrong_type("limits", &limits, "pass rehydrate.memory.MemoryLimits(...)"));
        }
        let vectors = match vectors.map(vectors_named).transpose()?.as_deref() {
            Some("lists") => VectorIndex::Lists,
            Some("usearch") => VectorIndex::Usearch,
            _ => VectorIndex::Auto,
        };
        let index_bytes = match index_bytes {
            None => DEFAULT_INDEX_BYTES,
            Some(bytes) => {
                check_whole("index_bytes", bytes, 1, None, false)?;
                bytes.extract().unwrap_or(u64::MAX)
            }
        };
        let busy_seconds = check_timeout("busy_seconds", busy_seconds.unwrap_or(py.None().bind(py)))?.unwrap_or(30.0);
        let whole = |name: &str| {
            let limit = limits.getattr(name)?;
            // More than a number of the file's says is more than it can hold.
            Ok::<_, PyErr>((!limit.is_none()).then(|| limit.extract::<u64>().unwrap_or(i64::MAX as u64)))
        };
        let age: Option<f64> = limits.getattr("max_age_days")?.extract()?;
        let options = Options {
            is_read_only: read_only.0,
            // A duration too long to say is a year.
            busy: Duration::try_from_secs_f64(busy_seconds.clamp(0.0, 3.2e7)).unwrap_or(Duration::from_secs(30)),
            limits: Limits {
                items: whole("max_items")?,
                bytes: whole("max_bytes")?,
                age_ms: age.map(|days| (days * MS_A_DAY).ceil() as i64),
            },
            index_bytes,
            vectors,
            ..Options::default()
        };
        let core = detached(py, || store::Store::open(&path, options))?;
        Ok(Self { open: Arc::new(Open { core }), limits: limits.unbind() })
    }

    /// The file, as an absolute path.
    #[getter]
    fn path(&self) -> OsString {
        self.core().path().as_os_str().to_owned()
    }

    /// The threads in the same file; closing the store closes them.
    #[getter]
    fn threads(&self) -> LocalThreads {
        LocalThreads { open: Arc::clone(&self.open) }
    }

    /// Add all of the items or none, in one transaction.
    #[pyo3(signature = (items, /, *, namespace, vectors = None))]
    fn add<'py>(
        &self,
        py: Python<'py>,
        items: Vec<Bound<'py, PyAny>>,
        namespace: Name,
        vectors: Option<Matrix>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let values = Values::of(py)?;
        let now_ms = self.core().now_ms();
        let mut rows =
            running_python(|| items.iter().map(|item| values.new_item(item, now_ms)).collect::<PyResult<Vec<_>>>())?;
        let count = rows.len();
        let mut has_vector = vec![true; count];
        let report = detached(py, || {
            if let Some(vectors) = &vectors {
                for ((item, has), vector) in rows.iter_mut().zip(&mut has_vector).zip(vectors.rows(Some(count))?) {
                    *has = vector.iter().any(|x| *x != 0.0);
                    item.vector = Some(vector.to_vec());
                }
            }
            self.core().add(&namespace.0, &rows, vectors.as_ref().map(|vectors| vectors.space.as_str()))
        })?;
        running_python(|| {
            if report.dropped > 0 {
                py.import("rehydrate.memory.items")?.call_method1("warn_dropped", (&namespace.0,))?;
            }
            let class = values.class("Added")?;
            let added = items.iter().zip(report.added).zip(has_vector);
            let one = |((item, added), has): ((&Bound<'py, PyAny>, store::Added), bool)| {
                class.call1((added.handle, added.is_new, item.getattr("redactions")?, has))
            };
            added.map(one).collect()
        })
    }

    /// The item. UnknownHandleError if there is none.
    #[pyo3(signature = (handle, *, namespace))]
    fn get<'py>(&self, py: Python<'py>, handle: Name, namespace: Name) -> PyResult<Bound<'py, PyAny>> {
        let handles = [handle.0];
        let found = detached(py, || self.core().get(&namespace.0, &handles))?;
        let Some(Some(item)) = found.first() else { return Err(unknown(py, &handles[0], &namespace.0)) };
        running_python(|| Values::of(py)?.item(item, self.core().path()))
    }

    /// Items in the order in which they were added.
    #[pyo3(signature = (*, namespace, limit = Some(Limit(100)), newest_first = true, **filters))]
    fn list<'py>(
        &self,
        py: Python<'py>,
        namespace: Name,
        limit: Option<Limit>,
        newest_first: bool,
        filters: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let values = Values::of(py)?;
        let filter = values.filter("list", filters)?;
        let mut left = limit.map_or(usize::MAX, |limit| limit.0);
        let (mut listed, mut cursor) = (Vec::new(), None);
        while left > 0 {
            let paging = Paging { cursor, limit: left.min(PAGE), newest_first };
            let page = detached(py, || self.core().list(&namespace.0, &filter, paging))?;
            let items = page.items.iter().map(|item| values.item(item, self.core().path()));
            listed.extend(running_python(|| items.collect::<PyResult<Vec<_>>>())?);
            cursor = page.cursor;
            left = if cursor.is_some() { left - page.items.len() } else { 0 };
        }
        Ok(listed)
    }

    /// The best matches, best first.
    #[pyo3(signature = (query, limit = Limit(5), *, namespace, fusion = None, vectors = None, **filters))]
    #[expect(clippy::too_many_arguments, reason = "keywords cross the boundary one by one")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        query: Query,
        limit: Limit,
        namespace: Name,
        fusion: Option<FusionArgument>,
        vectors: Option<Matrix>,
        filters: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let values = Values::of(py)?;
        let filter = values.filter("search", filters)?;
        let fusion = fusion.map_or_else(Fusion::default, |fusion| fusion.0);
        let hits = detached(py, || {
            let vector = match &vectors {
                Some(vectors) => Some((vectors.rows(Some(1))?[0], vectors.space.as_str())),
                None => None,
            };
            let request = SearchRequest { query: query.0.as_str(), vector, limit: limit.0, fusion, filter };
            self.core().search(&namespace.0, &request)
        })?;
        running_python(|| hits.iter().map(|hit| values.hit(hit, self.core().path())).collect())
    }

    /// The k nearest items of each text or row, nearest first.
    ///
    /// Any two texts have a cosine above 0.5 in the built-in model. The part common to all of the namespace's vectors is
    /// removed, so that 0 means unrelated and 1 means the same.
    #[pyo3(signature = (texts, k = Limit(3), *, namespace, vectors = None))]
    fn recall<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<Query>,
        k: Limit,
        namespace: Name,
        vectors: Option<Matrix>,
    ) -> PyResult<Vec<Vec<Bound<'py, PyAny>>>> {
        let k = k.0;
        let found = detached(py, || {
            let as_is = |(handle, cosine)| (handle, f64::from(cosine));
            // A single item has no common part with others.
            let alone = |(handle, cosine)| (handle, 2.0 * f64::from(cosine) - 1.0);
            let each = |rows: Vec<Vec<store::Near>>, one: fn(store::Near) -> (String, f64)| {
                Ok(rows.into_iter().map(|row| row.into_iter().map(one).collect()).collect())
            };
            if let Some(vectors) = vectors {
                // With rows only, the texts may be left out.
                let rows = vectors.rows((!texts.is_empty()).then_some(texts.len()))?;
                return each(self.core().recall_vectors(&namespace.0, &rows, &vectors.space, k, false)?, as_is);
            }
            let texts: Vec<&str> = texts.iter().map(|text| text.0.as_str()).collect();
            let found = self.core().recall(&namespace.0, &texts, k.max(2), true)?;
            if found.iter().any(|row| row.len() >= 2) {
                return each(found, as_is);
            }
            each(self.core().recall(&namespace.0, &texts, 1, false)?, alone)
        })?;
        Values::of(py)?.recalled(found, k)
    }

    /// Remove items; how many there were.
    #[pyo3(signature = (handles, *, namespace))]
    fn forget(&self, py: Python<'_>, handles: Handles, namespace: Name) -> PyResult<usize> {
        detached(py, || self.core().forget(&namespace.0, &handles.0))
    }

    /// Remove everything of a source, of a thread, or of the namespace, to the last byte. Returns the number of items.
    #[pyo3(signature = (*, namespace, source = None, thread = None, everything = false))]
    fn purge(
        &self,
        py: Python<'_>,
        namespace: Name,
        source: Option<Name>,
        thread: Option<Name>,
        everything: bool,
    ) -> PyResult<usize> {
        let what = match (source, thread) {
            _ if everything => Purge::Namespace,
            (Some(source), _) => Purge::Source(source.0),
            (None, Some(thread)) => Purge::Thread(thread.0),
            (None, None) => {
                let problem = "purge removes one thing; pass source=, thread=, or everything=True for the namespace";
                return Err(to_py(py, &Error::Argument(problem.into())));
            }
        };
        detached(py, || self.core().purge(&namespace.0, &what))
    }

    /// Move items to a tier; how many moved.
    #[pyo3(signature = (handles, tier, *, namespace))]
    fn set_tier(&self, py: Python<'_>, handles: Handles, tier: &Bound<'_, PyAny>, namespace: Name) -> PyResult<usize> {
        let tier = tier_of(tier)?;
        detached(py, || self.core().set_tier(&namespace.0, &handles.0, tier))
    }

    /// Link an item to another. Returns whether the link is new. UnknownHandleError if one of them is not there.
    #[pyo3(signature = (handle, relation, other, *, namespace))]
    fn link(&self, py: Python<'_>, handle: Name, relation: Name, other: Name, namespace: Name) -> PyResult<bool> {
        let ends = [handle.0, other.0];
        let found = detached(py, || self.core().get(&namespace.0, &ends))?;
        if let Some(missing) = found.iter().position(Option::is_none) {
            return Err(unknown(py, &ends[missing], &namespace.0));
        }
        detached(py, || self.core().link(&namespace.0, &ends[0], &ends[1], &relation.0))
    }

    /// Figures of the namespace.
    #[pyo3(signature = (*, namespace))]
    fn stats<'py>(&self, py: Python<'py>, namespace: Name) -> PyResult<Bound<'py, PyAny>> {
        let stats = detached(py, || self.core().stats(&namespace.0))?;
        let figures = [
            ("items", stats.items),
            ("hot", stats.hot),
            ("warm", stats.warm),
            ("cold", stats.cold),
            ("held_bytes", stats.bytes),
            ("links", stats.links),
            ("demoted", stats.demoted),
            ("dropped", stats.dropped),
            ("vectors", stats.vectors),
            ("indexed", stats.indexed),
            ("pending", stats.pending),
            ("index_bytes", stats.index_bytes),
            ("store_bytes", stats.file_bytes),
        ]
        .into_py_dict(py)?;
        figures.set_item("namespace", namespace.0)?;
        figures.set_item("vector_space", stats.space)?;
        figures.set_item("limits", &self.limits)?;
        running_python(|| Values::of(py)?.class("MemoryStats")?.call((), Some(&figures)))
    }

    /// The namespaces that were added to and not purged, in alphabetical order.
    fn namespaces(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let mut names = detached(py, || self.core().namespaces())?;
        names.sort();
        Ok(names)
    }

    /// The sources of the namespace's items, in alphabetical order.
    #[pyo3(signature = (*, namespace))]
    fn sources(&self, py: Python<'_>, namespace: Name) -> PyResult<Vec<String>> {
        detached(py, || self.core().sources(&namespace.0))
    }

    /// Check everything that is stored.
    fn verify<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = detached(py, || self.core().verify())?;
        let problems = PyTuple::new(py, report.problems)?;
        running_python(|| Values::of(py)?.class("VerifyReport")?.call1((report.items, problems, report.damaged)))
    }

    /// Make the indexes again, of one namespace or of all. Returns the number of items in them.
    #[pyo3(signature = (*, namespace = None))]
    fn rebuild(&self, py: Python<'_>, namespace: Option<Name>) -> PyResult<u64> {
        detached(py, || self.core().rebuild(namespace.as_ref().map(|name| name.0.as_str())))
    }

    /// Set vectors of another model on items. Returns how many of the items are there.
    #[pyo3(signature = (handles, vectors, *, namespace))]
    fn set_vectors(&self, py: Python<'_>, handles: Handles, vectors: Matrix, namespace: Name) -> PyResult<usize> {
        detached(py, || {
            vectors.rows(Some(handles.0.len()))?;
            self.core().set_vectors(&namespace.0, &handles.0, &vectors.numbers, &vectors.space)
        })
    }

    /// Remove all vectors and the name of their model. Returns how many items had one.
    #[pyo3(signature = (*, namespace))]
    fn drop_vectors(&self, py: Python<'_>, namespace: Name) -> PyResult<usize> {
        detached(py, || self.core().drop_vectors(&namespace.0))
    }

    /// Write index files of all that no file holds yet, and wait for that.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core().flush())
    }

    /// Wait for running writes, then close the file.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core().close())
    }
}
