//! One compaction as it is asked for.
use crate::scoring::relevance::USUAL_SEMANTIC_WEIGHT;
use crate::scoring::signals::Weights;

/// How the signals are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalMode {
    /// Plain cosine, linear recency: chitta's formula to the letter.
    Raw,
    /// Spread within the conversation, with BM25 and neighbours.
    Calibrated,
}

/// How the budget is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackMode {
    /// By score alone.
    Greedy,
    /// By score and by what is mentioned nowhere else.
    Coverage,
}

/// Vectors of one space for messages and the query, from an embedder of the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Vectors<'a> {
    /// Components of a vector.
    pub dim: usize,
    /// One row each for the messages that `positions` names; zeros or NaN stand for "no vector".
    pub messages: &'a [f32],
    /// Whose rows these are. None: every message's, in order.
    pub positions: Option<&'a [usize]>,
    /// The query's, where there is a query.
    pub query: Option<&'a [f32]>,
}

/// One compaction asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The subject of the next turn.
    pub query: Option<&'a str>,
    /// How much the query counts, 0 to 1: less where it was read from a turn that something has followed.
    pub query_weight: f64,
    /// Whether it asks for information. What does not ask (a topic, an order) counts by how far it stands out.
    pub asks: bool,
    /// The caller's vectors; without them the built-in model's, if the conversation was prepared for it.
    pub vectors: Option<Vectors<'a>>,
    /// Per message the largest cosine against memory; none: nothing is covered.
    pub memory_coverage: Option<&'a [f64]>,
    /// Weights of the three signals.
    pub weights: Weights,
    /// How the signals are measured.
    pub signals: SignalMode,
    /// How the budget is filled.
    pub packing: PackMode,
    /// The unit with the reply that the last user turn answers, if it has a claim to be kept.
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
