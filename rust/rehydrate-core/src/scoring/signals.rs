//! The three-signal score: structural weight x (recency, similarity to the query, novelty against memory).
use crate::conversation::unit::Message;

/// Weights of the three signals.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// Weight of recency.
    pub recency: f64,
    /// Weight of the similarity to the query.
    pub semantic: f64,
    /// Weight of `1 - memory coverage`.
    pub novelty: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { recency: 0.3, semantic: 0.4, novelty: 0.3 }
    }
}

/// The signals of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Signals {
    /// Weight of its role.
    pub structural: f64,
    /// 0.1 (oldest) to 1.0 (newest).
    pub recency: f64,
    /// Similarity to the query; 0.5 if there is none.
    pub semantic: f64,
    /// Share of it that memory already covers, 0 to 1.
    pub coverage: f64,
    /// Factor that calibrates the whole score by how far the message is below the most relevant one. 1 under the raw
    /// formula and without a query.
    pub odds: f64,
}

impl Signals {
    /// `structural x (w_r * recency + w_s * semantic + w_n * (1 - coverage)) x odds`.
    #[must_use]
    pub fn score(&self, weights: &Weights) -> f64 {
        self.structural
            * (weights.recency * self.recency
                + weights.semantic * self.semantic
                + weights.novelty * (1.0 - self.coverage))
            * self.odds
    }
}

/// Similarity if there is nothing to compare with.
pub const NEUTRAL_SIMILARITY: f64 = 0.5;

/// Recency of each message: linear from 0.1 (oldest) to 1.0 (newest) over the messages that are not system. A single
/// one has 1.0, and so have system messages, which nothing ever drops.
#[must_use]
pub fn recency(messages: &[Message]) -> Vec<f64> {
    let last = messages.iter().filter(|message| !message.is_system()).count().saturating_sub(1);
    let mut position = 0;
    messages
        .iter()
        .map(|message| {
            if message.is_system() || last == 0 {
                return 1.0;
            }
            position += 1;
            0.1 + 0.9 * (position - 1) as f64 / last as f64
        })
        .collect()
}

/// Coverage for the formula: the largest cosine, clamped to 0..1. NaN covers nothing.
#[must_use]
pub fn clamp_coverage(similarity: f64) -> f64 {
    if similarity.is_nan() { 0.0 } else { similarity.clamp(0.0, 1.0) }
}
