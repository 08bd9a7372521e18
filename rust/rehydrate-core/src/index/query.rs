//! A search and what it finds.
use super::filter::Filter;
use crate::scoring::rank_fusion::Fusion;

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
