//! A search: the query, the filter of what may be found, the hits.
use super::entry::Meta;
use crate::scoring::rank_fusion::Fusion;

/// A search.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    pub text: &'a str,
    /// A vector of the caller's model.
    pub vector: Option<&'a [f32]>,
    pub limit: usize,
    pub fusion: Fusion,
    pub filter: Filter<'a>,
    /// Entries that have expired by now are not found.
    pub now_ms: i64,
}

impl<'a> Query<'a> {
    /// A search for `text` alone, with the usual values for the rest. Nothing has expired.
    #[must_use]
    pub fn new(text: &'a str, limit: usize) -> Self {
        let (fusion, filter) = (Fusion::default(), Filter::default());
        Self { text, vector: None, limit, fusion, filter, now_ms: i64::MIN }
    }
}

/// Conditions on entries. An entry passes that meets every condition that is set.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    pub sources: Option<&'a [u32]>,
    pub kinds: Option<&'a [u32]>,
    pub threads: Option<&'a [u32]>,
    /// Bit `1 << tier` for each tier.
    pub tiers: Option<u8>,
    /// At this time or later.
    pub after_ms: Option<i64>,
    /// Before this time.
    pub before_ms: Option<i64>,
    pub min_trust: u8,
    /// These ids alone, ascending.
    pub allowed: Option<&'a [u64]>,
}

impl Filter<'_> {
    /// Whether everything passes.
    pub(super) fn is_open(&self) -> bool {
        let Self { sources, kinds, threads, tiers, after_ms, before_ms, min_trust, allowed } = self;
        let lists = [sources, kinds, threads].into_iter().all(|list| list.is_none());
        lists && tiers.is_none() && after_ms.is_none() && before_ms.is_none() && *min_trust == 0 && allowed.is_none()
    }

    /// Whether an entry passes.
    #[must_use]
    pub fn passes(&self, id: u64, meta: &Meta) -> bool {
        let among = |list: Option<&[u32]>, number| list.is_none_or(|list| list.contains(&number));
        meta.trust >= self.min_trust
            && self.tiers.is_none_or(|tiers| tiers.checked_shr(u32::from(meta.tier)).unwrap_or(0) & 1 == 1)
            && self.after_ms.is_none_or(|after| meta.time_ms >= after)
            && self.before_ms.is_none_or(|before| meta.time_ms < before)
            && among(self.sources, meta.source)
            && among(self.kinds, meta.kind)
            && among(self.threads, meta.thread)
            && self.allowed.is_none_or(|allowed| allowed.binary_search(&id).is_ok())
    }
}

/// A found entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    pub id: u64,
    /// Compares hits of one search only.
    pub score: f32,
    /// BM25, 1 for the best match.
    pub text: f32,
    /// Share of the query's words that are found as words or parts of words, 0 to 1.
    pub trigram: f32,
    /// Cosine less the common part of all entries: of the caller's vectors, else of the built-in model's. NaN if there
    /// is none.
    pub cosine: f32,
}
