//! Scores: a message's relevance, recency and novelty, and its mentions that are nowhere else.
pub(crate) mod bm25;
pub(crate) mod coverage;
pub(crate) mod objective;
pub(crate) mod rank_fusion;
pub mod relevance;
pub(crate) mod request;
pub(crate) mod semantic;
pub(crate) mod signals;
pub(crate) mod soft_match;
pub(crate) mod word_match;

pub use request::{PackMode, Request, SignalMode, Vectors};
pub use signals::{NEUTRAL_SIMILARITY, Signals, Weights, clamp_coverage, recency};
