//! The index of items that a server keeps: their ranking, handles and snippets, and the items beyond limits.
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyDict, PyString};
use rehydrate_core::index::{Filter, Fusion, InMemoryIndex, KnnTarget, Meta, OwnedEntry, Query, Recall};
use rehydrate_core::store;

use crate::convert::{Text, floats};
use crate::errors::detached;
use crate::exit::Running;
use crate::server_text::{read_server_text, server_text};
use crate::store::values::{FusionArgument, RawText, Values, dim_of, tier_of};

/// Id, text, time, source, kind, thread, tier, trust, expiry, and the bytes of its vector.
type EntryRow<'py> = (
    u64,
    Bound<'py, PyString>,
    i64,
    PyBackedStr,
    PyBackedStr,
    PyBackedStr,
    u8,
    f64,
    Option<i64>,
    Option<PyBackedBytes>,
);

/// Id, score, text, trigram and cosine.
type ItemHit = (u64, f32, f32, f32, Option<f32>);

/// An index keeps trust in this many steps.
const TRUST_STEPS: f64 = 255.0;

fn steps_of(trust: f64) -> u8 {
    (trust * TRUST_STEPS).round_ties_even() as u8
}

/// An index in memory; it never changes.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct ItemIndex {
    core: InMemoryIndex,
}

#[pymethods]
impl ItemIndex {
    #[new]
    fn new() -> Self {
        Self { core: InMemoryIndex::default() }
    }

    fn __len__(&self) -> usize {
        self.core.view().len()
    }

    /// Bytes of memory, about.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.core.held_bytes()
    }

    /// The same with more rows of the server's table, which replace those with their ids, and without deleted ones.
    ///
    /// A row without a vector of `dim` numbers has zeros, if any row has one. Otherwise the built-in model makes the
    /// vectors.
    #[pyo3(signature = (rows, deleted, dim))]
    fn grown(&self, py: Python<'_>, rows: Vec<EntryRow<'_>>, deleted: Vec<u64>, dim: Option<usize>) -> PyResult<Self> {
        let _running = Running::begin();
        let has_vectors = dim.is_some() && rows.iter().any(|row| row.9.is_some());
        let owned = |(id, text, time_ms, source, kind, thread, tier, trust, expires, vector): EntryRow<'_>| {
            let [source, kind, thread] = [source, kind, thread].map(|name| store::name_number(&name));
            let expires_ms = expires.unwrap_or(i64::MAX);
            let meta = Meta { time_ms, source, kind, thread, tier, trust: steps_of(trust), expires_ms };
            let text = read_server_text(&text)?.extract::<Text>()?.as_str().to_owned();
            let vector =
                has_vectors.then(|| numbers_of(vector.as_deref().unwrap_or_default(), dim.unwrap_or_default()));
            Ok(OwnedEntry { id, meta, text, vector })
        };
        let owned = rows.into_iter().map(owned).collect::<PyResult<_>>()?;
        detached(py, || Ok(Self { core: self.core.with(owned, deleted) }))
    }

    /// The best entries for a query, best first; `allowed`: these ids alone.
    #[pyo3(signature = (query, filters, *, limit, now_ms, vector, fusion, allowed = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords cross the boundary one by one")]
    fn search(
        &self,
        py: Python<'_>,
        query: Text,
        filters: &Bound<'_, PyDict>,
        limit: usize,
        now_ms: i64,
        vector: Option<Bound<'_, PyAny>>,
        fusion: Option<FusionArgument>,
        allowed: Option<Vec<u64>>,
    ) -> PyResult<Vec<ItemHit>> {
        let _running = Running::begin();
        let vector = vector.map(|vector| floats(py, &vector)).transpose()?;
        let numbers = Numbers::of(filters)?;
        detached(py, || {
            let allowed = ascending(allowed);
            let filter = Filter { allowed: allowed.as_deref(), ..numbers.filter() };
            let fusion = fusion.map_or_else(Fusion::default, |fusion| fusion.0);
            let query = Query { text: query.as_str(), vector: vector.as_deref(), limit, fusion, filter, now_ms };
            let hits = self.core.view().search(&query);
            let cosine = |cosine: f32| Some(cosine).filter(|cosine| !cosine.is_nan());
            Ok(hits.iter().map(|hit| (hit.id, hit.score, hit.text, hit.trigram, cosine(hit.cosine))).collect())
        })
    }

    /// Per text, or per row of `vectors`, the ids of the most similar entries and their cosines, nearest first.
    ///
    /// Without `vectors` the common part of all entries is removed: 0 means unrelated, as in a store in a file.
    #[pyo3(signature = (texts, *, k, now_ms, vectors, allowed = None))]
    fn recall(
        &self,
        py: Python<'_>,
        texts: Vec<Text>,
        k: usize,
        now_ms: i64,
        vectors: Option<Bound<'_, PyAny>>,
        allowed: Option<Vec<u64>>,
    ) -> PyResult<Vec<Vec<(u64, f64)>>> {
        let rows = vectors.map(|vectors| floats(py, &vectors)).transpose()?;
        detached(py, || {
            let allowed = ascending(allowed);
            let filter = Filter { allowed: allowed.as_deref(), ..Filter::default() };
            let recall = |of: KnnTarget<'_>, k, centred, as_cosine: fn(f32) -> f64| {
                let found = self.core.view().recall(&Recall { of, k, centred, filter, now_ms });
                let near = |row: Vec<(u64, f32)>| row.into_iter().map(|(id, cosine)| (id, as_cosine(cosine))).collect();
                found.into_iter().map(near).collect::<Vec<Vec<_>>>()
            };
            let texts: Vec<&str> = texts.iter().map(Text::as_str).collect();
            if let Some(rows) = rows {
                let rows: Vec<&[f32]> = rows.chunks_exact(dim_of(&rows, texts.len())?.max(1)).collect();
                return Ok(recall(KnnTarget::Vectors(&rows), k, false, f64::from));
            }
            let found = recall(KnnTarget::Texts(&texts), k.max(2), true, f64::from);
            if found.iter().any(|row| row.len() >= 2) {
                return Ok(found);
            }
            // A single item has no common part with others.
            Ok(recall(KnnTarget::Texts(&texts), 1, false, |cosine| 2.0 * f64::from(cosine) - 1.0))
        })
    }
}

/// The numbers in the bytes of a vector; zeros if they are not as many.
fn numbers_of(bytes: &[u8], dim: usize) -> Vec<f32> {
    let numbers: Vec<f32> = bytes.chunks_exact(4).map(|x| f32::from_ne_bytes([x[0], x[1], x[2], x[3]])).collect();
    if numbers.len() == dim && bytes.len() == 4 * dim { numbers } else { vec![0.0; dim] }
}

/// `Filters` as an index has them.
#[derive(Default)]
struct Numbers {
    sources: Option<Vec<u32>>,
    kinds: Option<Vec<u32>>,
    threads: Option<Vec<u32>>,
    tiers: Option<u8>,
    after_ms: Option<i64>,
    before_ms: Option<i64>,
    min_trust: u8,
}

impl Numbers {
    fn of(filters: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut numbers = Self::default();
        let values = Values::of(filters.py())?;
        for (name, value) in filters.iter().filter(|(_, value)| !value.is_none()) {
            let names = || {
                let number = |name: PyResult<Bound<'_, PyAny>>| {
                    let name = server_text(name?.cast()?)?;
                    Ok(store::name_number(name.extract::<Text>()?.as_str()))
                };
                value.try_iter()?.map(number).collect::<PyResult<Vec<_>>>()
            };
            match name.extract::<PyBackedStr>()?.as_ref() {
                "sources" => numbers.sources = Some(names()?),
                "kinds" => numbers.kinds = Some(names()?),
                "threads" => numbers.threads = Some(names()?),
                "tiers" => {
                    let tiers = value.try_iter()?.map(|name| Ok(1 << tier_of(&name?)? as u8));
                    numbers.tiers =
                        Some(tiers.collect::<PyResult<Vec<u8>>>()?.into_iter().fold(0, |all, one| all | one));
                }
                "after" => numbers.after_ms = Some(values.milliseconds(&value)?),
                "before" => numbers.before_ms = Some(values.milliseconds(&value)?),
                _ => numbers.min_trust = steps_of(value.extract()?),
            }
        }
        Ok(numbers)
    }

    fn filter(&self) -> Filter<'_> {
        Filter {
            sources: self.sources.as_deref(),
            kinds: self.kinds.as_deref(),
            threads: self.threads.as_deref(),
            tiers: self.tiers,
            after_ms: self.after_ms,
            before_ms: self.before_ms,
            min_trust: self.min_trust,
            allowed: None,
        }
    }
}

fn ascending(ids: Option<Vec<u64>>) -> Option<Vec<u64>> {
    ids.map(|mut ids| {
        ids.sort_unstable();
        ids
    })
}

/// The handles of sources and texts within a namespace.
#[pyfunction]
pub fn handles(py: Python<'_>, namespace: &str, items: Vec<(String, RawText)>) -> PyResult<Vec<String>> {
    detached(py, || Ok(items.iter().map(|(source, text)| store::handle_for(namespace, source, &text.0)).collect()))
}

/// The beginning and the end of the part of each text that a query is about, in characters.
#[pyfunction]
pub fn snippets(py: Python<'_>, texts: Vec<Text>, query: Text) -> PyResult<Vec<(usize, usize)>> {
    detached(py, || {
        let place = |text: &Text| {
            let text = text.as_str();
            let shown = store::snippet(text, query.as_str());
            let start = text[..shown.start].chars().count();
            (start, start + text[shown].chars().count())
        };
        Ok(texts.iter().map(place).collect())
    })
}

/// Id, tier, bytes, when it was last said or found, trust, and its number of uses.
type CandidateRow = (i64, u8, i64, i64, f64, i64);

/// The ids of warm items that become cold, and of cold ones that go, if a namespace holds this many items and bytes.
#[pyfunction]
pub fn beyond_limits(
    rows: Vec<CandidateRow>,
    items: i64,
    bytes: i64,
    max_items: Option<u64>,
    max_bytes: Option<u64>,
) -> (Vec<i64>, Vec<i64>) {
    let limits = store::Limits { items: max_items, bytes: max_bytes, age_ms: None };
    let candidate =
        |(id, tier, bytes, newest, trust, uses)| store::Candidate::new(id, tier, bytes, newest, trust, uses);
    store::beyond(rows.into_iter().map(candidate).collect(), items, bytes, &limits)
}
