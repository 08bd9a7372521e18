//! The index of a memory: immutable segments of entries, and a view over them that finds the relevant and the like.
//!
//! ```text
//! Entry, Entry, …  -> Segment::build -> bytes -> Segment::open -> View::new([oldest, …, newest]) -> search, recall
//! ```
//! No files and no database here: bytes in, bytes out. What a segment holds can be made again from the entries, so that
//! damage is no loss: [`Segment::open`] refuses it and the caller builds anew.
//!
//! ```
//! use std::sync::Arc;
//! use rehydrate_core::index::{Entry, Meta, Query, Segment, Settings, View};
//!
//! let entry = |id, text| Entry { id, text, meta: Meta::default(), vector: None };
//! let entries = [entry(1, "The invoice is due on Friday"), entry(2, "Rex barked at the postman")];
//! let bytes = Segment::build(&entries, &[], &Settings::default());
//! let view = View::new(vec![Arc::new(Segment::open(Arc::new(bytes)).unwrap())]);
//! assert_eq!(view.search(&Query::new("when is the invoice due?", 1))[0].id, 1);
//! ```
mod best;
mod build;
mod cells;
mod fusion;
mod layout;
mod likeness;
mod matching;
mod postings;
mod rows;
mod search;
mod segment;
mod sketch;
mod statistics;
mod view;
mod whole;
mod words;

pub use self::fusion::Fusion;
pub use self::layout::Damaged;
pub use self::likeness::{Likeness, Recall};
pub use self::segment::{Bytes, Segment};
pub use self::statistics::Statistics;
pub use self::view::View;

/// What is known of an entry beside its text; numbers for names are the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    pub time_ms: i64,
    /// Entries of one source, in the order of their ids, are neighbours.
    pub source: u32,
    pub kind: u32,
    pub session: u32,
    /// 0 to 7: a [`Filter`] names several by their bits.
    pub tier: u8,
    /// 0 to 255.
    pub trust: u8,
    /// `i64::MAX`: never.
    pub expires_ms: i64,
}

impl Default for Meta {
    fn default() -> Self {
        Self { time_ms: 0, source: 0, kind: 0, session: 0, tier: 0, trust: u8::MAX, expires_ms: i64::MAX }
    }
}

/// One text to be found.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub id: u64,
    pub meta: Meta,
    pub text: &'a str,
    /// Of the caller's model; of another length than [`Settings::dim`], of zeros or not finite: none. The built-in
    /// model's vector is worked out here.
    pub vector: Option<&'a [f32]>,
}

/// How a segment is built.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings<'a> {
    /// Components of the caller's vectors.
    pub dim: Option<usize>,
    /// A mark of the caller's model: [`Segment::space`] gives it back.
    pub space: u64,
    /// What the other segments of the namespace hold ([`View::statistics`]): a small segment alone would not know which
    /// words are common.
    pub older: Option<&'a Statistics>,
}

/// A search.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    pub text: &'a str,
    /// Of the caller's model.
    pub vector: Option<&'a [f32]>,
    pub limit: usize,
    pub fusion: Fusion,
    pub filter: Filter<'a>,
    /// What has expired by now is not found.
    pub now_ms: i64,
}

impl<'a> Query<'a> {
    /// A search for `text` alone, with what is usual for the rest; nothing has expired.
    #[must_use]
    pub fn new(text: &'a str, limit: usize) -> Self {
        let (fusion, filter) = (Fusion::default(), Filter::default());
        Self { text, vector: None, limit, fusion, filter, now_ms: i64::MIN }
    }
}

/// What may be found: what passes every condition that is set.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    pub sources: Option<&'a [u32]>,
    pub kinds: Option<&'a [u32]>,
    pub sessions: Option<&'a [u32]>,
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
    fn is_open(&self) -> bool {
        let Self { sources, kinds, sessions, tiers, after_ms, before_ms, min_trust, allowed } = self;
        let lists = [sources, kinds, sessions].into_iter().all(|list| list.is_none());
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
            && among(self.sessions, meta.session)
            && self.allowed.is_none_or(|allowed| allowed.binary_search(&id).is_ok())
    }
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    pub id: u64,
    /// Compares hits of one search only.
    pub score: f32,
    /// BM25, 1 for the best match.
    pub text: f32,
    /// Share of the query's words that are found as words or parts of words, 0 to 1.
    pub trigram: f32,
    /// Cosine less what all entries have in common: of the caller's vectors, else of the built-in model's; NaN where
    /// there is none.
    pub cosine: f32,
}

#[cfg(test)]
mod tests;
