//! Search and recall over a namespace's snapshot, with the found items.
use std::ops::Range;

use super::facade::Store;
use super::index_snapshot::{IndexSnapshot, step_of};
use super::item::{Filter, Item, handle_of, verify_namespace};
use super::namespace::{Namespace, ResolvedFilter, fingerprint_of};
use super::problem::Attempt;
use super::read::ReadTransaction;
use super::{scan, snippet};
use crate::embed::verify_dim;
use crate::error::{Error, Result};
use crate::index::{self, Fusion, KnnTarget, Query};
use crate::interrupt::checkpoint;

/// The most times that a search begins again because found items were deleted meanwhile.
const ATTEMPTS: usize = 3;

/// A search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest<'a> {
    pub query: &'a str,
    /// The query's vector and the model that it comes from.
    pub vector: Option<(&'a [f32], &'a str)>,
    pub limit: usize,
    pub fusion: Fusion,
    pub filter: Filter,
}

impl<'a> SearchRequest<'a> {
    /// A search for `query` alone, with the usual values for the rest.
    #[must_use]
    pub fn new(query: &'a str, limit: usize) -> Self {
        Self { query, vector: None, limit, fusion: Fusion::default(), filter: Filter::default() }
    }
}

/// An item that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub item: Item,
    /// The bytes of its text to be shown.
    pub snippet: Range<usize>,
    /// Compares hits of one search only.
    pub score: f32,
    /// The quality of the match by words, 0 to 1.
    pub text: f32,
    /// Share of the query's words that are found as words or parts of words, 0 to 1.
    pub trigram: f32,
    /// NaN if there is none.
    pub cosine: f32,
}

/// A handle and a cosine.
pub type Near = (String, f32);

impl Store {
    /// The items most relevant to a query, best first.
    ///
    /// # Errors
    /// A vector of another model than the namespace has, and what keeps a file from being read.
    pub fn search(&self, namespace: &str, request: &SearchRequest<'_>) -> Result<Vec<Hit>> {
        verify_namespace(namespace)?;
        verify_dim(request.vector.map_or(0, |(vector, _)| vector.len()))?;
        let now_ms = (self.options.clock)();
        let (mut found, mut is_done) = (Vec::new(), false);
        if scan::is_scan(request.query) {
            (found, is_done) = self.scan(namespace, request, now_ms)?;
        }
        if !is_done {
            let mut attempt = 1;
            let nearest = loop {
                let (nearest, is_whole) = self.search_once(namespace, request, now_ms)?;
                if is_whole || attempt == ATTEMPTS {
                    break nearest;
                }
                attempt += 1;
            };
            append(&mut found, nearest, request.limit);
        }
        self.note_uses(found.iter().map(|(found, _)| found.id as i64))?;
        // After the fork guard: a text may be long, and a fork waits for calls inside.
        Ok(found.into_iter().map(|(found, item)| hit(&found, item, request.query)).collect())
    }

    /// The items that contain the query, and whether no others are wanted: those near to its vector, where items have
    /// vectors of its model.
    fn scan(&self, namespace: &str, request: &SearchRequest<'_>, now_ms: i64) -> Result<(Vec<Found>, bool)> {
        self.connections.read(|transaction| {
            let Some(mut reading) = ReadTransaction::begin(transaction, namespace, now_ms)? else {
                return Ok((Vec::new(), true));
            };
            if let Some((vector, space)) = request.vector {
                verify_space(&reading.namespace, vector.len(), space)?;
            }
            let filter = ResolvedFilter::of(&request.filter, transaction, reading.namespace.id)?;
            let mut hits = Vec::new();
            for (id, score) in scan::scan(&reading, request.query, &filter, request.limit)? {
                let found = index::Hit { id: id.unsigned_abs(), score, text: score, trigram: 1.0, cosine: f32::NAN };
                hits.extend(reading.item(id)?.map(|item| (found, item)));
            }
            let has_no_vector = request.vector.is_none() || reading.namespace.space.is_none();
            let is_done = has_no_vector || hits.len() == request.limit;
            Ok((hits, is_done))
        })
    }

    /// Hits, and whether none of them was deleted before it could be read.
    fn search_once(&self, name: &str, request: &SearchRequest<'_>, now_ms: i64) -> Result<(Vec<Found>, bool)> {
        let Some(snapshot) = self.snapshot(name)? else { return Ok((Vec::new(), true)) };
        if let Some((vector, space)) = request.vector {
            verify_index_space(&snapshot, vector.len(), space)?;
        }
        let filter = self.connections.read(|transaction| {
            if let (Some((vector, space)), Some(row)) = (request.vector, Namespace::find(transaction, name)?) {
                verify_space(&row, vector.len(), space)?;
            }
            ResolvedFilter::of(&request.filter, transaction, snapshot.namespace)
        })?;
        let mut query = Query {
            text: request.query,
            vector: request.vector.map(|(vector, _)| vector),
            limit: request.limit,
            fusion: request.fusion,
            filter: index::Filter {
                sources: filter.sources.as_deref(),
                kinds: filter.kinds.as_deref(),
                threads: filter.threads.as_deref(),
                tiers: filter.tiers.as_ref().map(|tiers| tiers.iter().fold(0, |bits, &tier| bits | 1 << tier as u8)),
                after_ms: filter.after_ms,
                before_ms: filter.before_ms,
                min_trust: step_of(filter.min_trust),
                allowed: None,
            },
            now_ms,
        };
        loop {
            let found = snapshot.view.search(&query);
            let (hits, is_whole, is_false) = self.connections.read(|transaction| {
                let Some(mut reading) = ReadTransaction::begin(transaction, name, now_ms)? else {
                    return Ok((Vec::new(), true, false));
                };
                let mut hits = Vec::with_capacity(found.len());
                let (mut is_whole, mut is_false) = (true, false);
                for found in &found {
                    let id = found.id as i64;
                    let is_over = |trust| trust < filter.min_trust || hits.len() == request.limit;
                    if filter.min_trust > 0.0 && reading.trust(id)?.is_some_and(is_over) {
                        continue;
                    }
                    match reading.item(id)? {
                        Some(item) => hits.push((*found, item)),
                        // It was not deleted meanwhile: there was never such an item.
                        None => (is_whole, is_false) = (false, snapshot.is_current(&reading.namespace)),
                    }
                }
                Ok((hits, is_whole, is_false))
            })?;
            if is_false && !self.is_read_only() {
                self.discard(name)?;
            }
            // Trust is indexed in steps. Items with a little too little of it may have taken the place of others.
            let may_be_more = is_whole && hits.len() < request.limit && found.len() == query.limit;
            if !may_be_more {
                return Ok((hits, is_whole));
            }
            query.limit = query.limit.saturating_mul(4);
        }
    }

    /// For each text the `k` most similar items by the built-in model, with their cosines, nearest first. `centred`
    /// cosines leave out the common part of all items.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn recall(&self, namespace: &str, texts: &[&str], k: usize, centred: bool) -> Result<Vec<Vec<Near>>> {
        self.recall_like(namespace, KnnTarget::Texts(texts), texts.len(), k, centred, None)
    }

    /// The same by vectors of the model `space`.
    ///
    /// # Errors
    /// Vectors of another model than the namespace has, and as [`Store::recall`].
    pub fn recall_vectors(
        &self,
        namespace: &str,
        vectors: &[&[f32]],
        space: &str,
        k: usize,
        centred: bool,
    ) -> Result<Vec<Vec<Near>>> {
        verify_namespace(namespace)?;
        verify_dim(vectors.first().map_or(0, |vector| vector.len()))?;
        self.connections.read(|transaction| match (Namespace::find(transaction, namespace)?, vectors.first()) {
            (Some(row), Some(vector)) => Ok(verify_space(&row, vector.len(), space)?),
            _ => Ok(()),
        })?;
        self.recall_like(namespace, KnnTarget::Vectors(vectors), vectors.len(), k, centred, Some(space))
    }

    fn recall_like(
        &self,
        namespace: &str,
        of: KnnTarget<'_>,
        count: usize,
        k: usize,
        centred: bool,
        space: Option<&str>,
    ) -> Result<Vec<Vec<Near>>> {
        verify_namespace(namespace)?;
        let now_ms = (self.options.clock)();
        let Some(snapshot) = self.snapshot(namespace)? else { return Ok(vec![Vec::new(); count]) };
        if let (KnnTarget::Vectors([vector, ..]), Some(space)) = (of, space) {
            verify_index_space(&snapshot, vector.len(), space)?;
        }
        let recall = index::Recall { of, k, centred, filter: index::Filter::default(), now_ms };
        let found = snapshot.view.recall(&recall);
        self.connections.read(|transaction| {
            let query = "SELECT handle FROM items WHERE id = ?1 AND namespace = ?2";
            let mut statement = transaction.prepare_cached(query)?;
            let mut handle = |id: u64| -> Attempt<Option<String>> {
                let mut rows = statement.query((id as i64, snapshot.namespace))?;
                Ok(rows.next()?.map(|row| row.get(0).map(handle_of)).transpose()?)
            };
            let named = found.iter().map(|near| {
                let mut named = Vec::with_capacity(near.len());
                for &(id, cosine) in near {
                    named.extend(handle(id)?.map(|handle| (handle, cosine)));
                }
                Ok(named)
            });
            named.collect()
        })
    }

    /// The index of a namespace as it is now.
    pub(super) fn snapshot(&self, namespace: &str) -> Result<Option<std::sync::Arc<IndexSnapshot>>> {
        self.background.file(&self.build_context, namespace)?;
        let get = || self.build_context.index_cache.get(&self.connections, &self.build_context.folder, namespace);
        let mut snapshot = get()?;
        if snapshot.as_ref().is_some_and(|snapshot| snapshot.is_false) && !self.is_read_only() {
            self.discard(namespace)?;
            snapshot = get()?;
        }
        if snapshot.as_ref().is_some_and(|snapshot| snapshot.lacks_files()) {
            self.background.want(&self.build_context, namespace)?;
        }
        Ok(snapshot)
    }
}

/// A find of the index and its item.
type Found = (index::Hit, Item);

/// Put the `nearest` after the items that contain the query, which then score more.
fn append(found: &mut Vec<Found>, mut nearest: Vec<Found>, limit: usize) {
    nearest.retain(|(near, _)| found.iter().all(|(held, _)| held.id != near.id));
    let lift = nearest.first().map_or(0.0, |(best, _)| best.score.max(0.0));
    found.iter_mut().for_each(|(held, _)| held.score += lift);
    found.append(&mut nearest);
    found.truncate(limit);
}

fn hit(found: &index::Hit, item: Item, query: &str) -> Hit {
    checkpoint();
    // Text that isn't UTF-8 is shown whole: places in it are places in its replacement.
    let snippet = std::str::from_utf8(&item.text).map_or(0..item.text.len(), |text| snippet::snippet(text, query));
    let (score, text, trigram, cosine) = (found.score, found.text, found.trigram, found.cosine);
    Hit { item, snippet, score, text, trigram, cosine }
}

/// The index may be of a moment before or after the row was read.
fn verify_index_space(snapshot: &IndexSnapshot, dim: usize, space: &str) -> Result<()> {
    match snapshot.space {
        Some(held) if held != fingerprint_of(space, dim as i64) => Err(Error::Argument(format!(
            "a vector of {space:?} ({dim} components) where this namespace has those of another model; use that one"
        ))),
        _ => Ok(()),
    }
}

fn verify_space(row: &Namespace, dim: usize, space: &str) -> Result<()> {
    match &row.space {
        Some(settled) if settled != space || row.dim != dim as i64 => Err(Error::Argument(format!(
            "a vector of {space:?} ({dim} components) where this namespace has those of {settled:?} ({}); use that model",
            row.dim
        ))),
        _ => Ok(()),
    }
}
