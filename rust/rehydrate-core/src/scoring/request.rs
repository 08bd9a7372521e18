//! One compaction as it is asked for.
use crate::scoring::relevance::USUAL_SEMANTIC_WEIGHT;
use crate::scoring::signals::Weights;

/// The way to measure the signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalMode {
    /// Plain cosine, linear recency: chitta's formula to the letter.
    Raw,
    /// Spread within the conversation, with BM25 and neighbours.
    Calibrated,
}

/// The way to fill the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackMode {
    /// By score alone.
    Greedy,
    /// By score, and by mentions that are nowhere else.
    Coverage,
}

/// Vectors of one space for messages and the query, from an embedder of the caller.
#[derive(Clone, Copy, Debug)]
pub struct Vectors<'a> {
    /// Components of a vector.
    pub dim: usize,
    /// One row each for the messages that `positions` names; zeros or NaN mean "no vector".
    pub messages: &'a [f32],
    /// Whose rows these are. None: every message's, in order.
    pub positions: Option<&'a [usize]>,
    /// The query's, if there is a query.
    pub query: Option<&'a [f32]>,
}

/// One compaction asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The subject of the next turn.
    pub query: Option<&'a str>,
    /// The weight of the query, 0 to 1. It is less if the query comes from a turn that is no longer the last.
    pub query_weight: f64,
    /// Whether it asks for information. Other queries (a topic, an order) count by how far they stand out.
    pub asks: bool,
    /// The caller's vectors; without them the built-in model's, if the conversation was prepared for it.
    pub vectors: Option<Vectors<'a>>,
    /// Per message the largest cosine against memory. None: nothing is covered.
    pub memory_coverage: Option<&'a [f64]>,
    /// Weights of the three signals.
    pub weights: Weights,
    /// The way to measure the signals.
    pub signals: SignalMode,
    /// The way to fill the budget.
    pub packing: PackMode,
    /// The unit with the reply that the last user turn answers, if it may be kept for that.
    pub reply: Option<usize>,
    /// Tokens that the whole result may have, system messages included.
    pub target_tokens: u64,
}

/// The share of a question that nothing has followed.
const QUESTION_SHARE: f64 = 0.9;

impl Request<'_> {
    /// The query's share in the objective, 0 to 1; `standing_out` says how far it stands out (relevance.rs).
    pub(crate) fn query_share(&self, standing_out: f64) -> f64 {
        if self.query.is_none() || self.packing == PackMode::Greedy {
            return 0.0;
        }
        let topical = if self.asks && standing_out > 0.0 { 1.0 } else { standing_out };
        // A weight of 0 of the semantic signal switches the query off.
        let weight = self.query_weight * self.weights.semantic / USUAL_SEMANTIC_WEIGHT;
        (QUESTION_SHARE * weight * topical).min(1.0)
    }
}
