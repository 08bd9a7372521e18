//! The index of items that a server keeps: what ranks them, their handles and snippets, and which go beyond limits.
use pyo3::prelude::*;
use rehydrate_core::error::Error;
use rehydrate_core::index::{Filter, Fusion, InMemoryIndex, KnnTarget, Meta, OwnedEntry, Query, Recall};
use rehydrate_core::store;

use crate::convert::{Text, floats};
use crate::errors::detached;
use crate::store::values::dim_of;
use crate::store::values::{FusionArgument, RawText};

/// Id, text, time, source, kind, thread (numbers for names), tier, trust in 255 steps, when it expires.
type EntryRow = (u64, Text, i64, u32, u32, u32, u8, u8, Option<i64>);

/// Id, score, text, trigram and cosine.
type ItemHit = (u64, f32, f32, f32, f32);

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

    /// The same with more entries, which replace those with their ids, and fewer.
    #[pyo3(signature = (entries, deleted, *, vectors = None))]
    fn grown(
        &self,
        py: Python<'_>,
        entries: Vec<EntryRow>,
        deleted: Vec<u64>,
        vectors: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let rows = vectors.map(|vectors| floats(py, &vectors)).transpose()?;
        detached(py, || {
            let dim = rows.as_ref().map_or(Ok(0), |rows| dim_of(rows, entries.len()))?;
            let vector = |at: usize| rows.as_ref().filter(|_| dim > 0).map(|rows| rows[at * dim..][..dim].to_vec());
            let owned = |(at, entry): (usize, &EntryRow)| {
                let &(id, ref text, time_ms, source, kind, session, tier, trust, expires) = entry;
                let expires_ms = expires.unwrap_or(i64::MAX);
                let meta = Meta { time_ms, source, kind, session, tier, trust, expires_ms };
                OwnedEntry { id, meta, text: text.as_str().to_owned(), vector: vector(at) }
            };
            let owned = entries.iter().enumerate().map(owned).collect();
            Ok(Self { core: self.core.with(owned, deleted) })
        })
    }

    /// The best entries for a query, best first; `allowed`: these ids alone.
    #[pyo3(signature = (query, *, limit, now_ms, vector = None, fusion = None, allowed = None, tiers = None, kinds = None, sources = None, sessions = None, after_ms = None, before_ms = None, min_trust = 0))]
    #[expect(clippy::too_many_arguments, reason = "keywords cross the boundary one by one")]
    fn search(
        &self,
        py: Python<'_>,
        query: Text,
        limit: usize,
        now_ms: i64,
        vector: Option<Bound<'_, PyAny>>,
        fusion: Option<FusionArgument>,
        allowed: Option<Vec<u64>>,
        tiers: Option<u8>,
        kinds: Option<Vec<u32>>,
        sources: Option<Vec<u32>>,
        sessions: Option<Vec<u32>>,
        after_ms: Option<i64>,
        before_ms: Option<i64>,
        min_trust: u8,
    ) -> PyResult<Vec<ItemHit>> {
        let vector = vector.map(|vector| floats(py, &vector)).transpose()?;
        detached(py, || {
            let allowed = ascending(allowed);
            let filter = Filter {
                sources: sources.as_deref(),
                kinds: kinds.as_deref(),
                sessions: sessions.as_deref(),
                tiers,
                after_ms,
                before_ms,
                min_trust,
                allowed: allowed.as_deref(),
            };
            let fusion = fusion.map_or_else(Fusion::default, |fusion| fusion.0);
            let query = Query { text: query.as_str(), vector: vector.as_deref(), limit, fusion, filter, now_ms };
            let hits = self.core.view().search(&query);
            Ok(hits.iter().map(|hit| (hit.id, hit.score, hit.text, hit.trigram, hit.cosine)).collect())
        })
    }

    /// Per text, or per row of `vectors`, the ids of the entries most like it and their cosines, nearest first.
    #[pyo3(signature = (texts, *, k, now_ms, vectors = None, centred = false, allowed = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords cross the boundary one by one")]
    fn recall(
        &self,
        py: Python<'_>,
        texts: Vec<Text>,
        k: usize,
        now_ms: i64,
        vectors: Option<Bound<'_, PyAny>>,
        centred: bool,
        allowed: Option<Vec<u64>>,
    ) -> PyResult<Vec<Vec<(u64, f32)>>> {
        let rows = vectors.map(|vectors| floats(py, &vectors)).transpose()?;
        detached(py, || {
            let allowed = ascending(allowed);
            let filter = Filter { allowed: allowed.as_deref(), ..Filter::default() };
            let texts: Vec<&str> = texts.iter().map(Text::as_str).collect();
            let rows: Option<Vec<&[f32]>> = rows
                .as_ref()
                .map(|rows| Ok::<_, Error>(rows.chunks_exact(dim_of(rows, texts.len())?.max(1)).collect()))
                .transpose()?;
            let of = rows.as_deref().map_or(KnnTarget::Texts(&texts), KnnTarget::Vectors);
            Ok(self.core.view().recall(&Recall { of, k, centred, filter, now_ms }))
        })
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

/// Where the part of each text that a query is about begins and ends, in characters.
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

/// Id, tier, bytes, when it was last said or found, trust, and how often it was found.
type CandidateRow = (i64, u8, i64, i64, f64, i64);

/// The ids of warm items that become cold, and of cold ones that go, where a namespace holds so many items and bytes.
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
