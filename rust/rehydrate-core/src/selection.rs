//! One compaction: what is asked for, and what comes out with every signal behind it.
use crate::pack::Packing;
use crate::score::{Signals, Weights};

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
    /// What the next turn is about.
    pub query: Option<&'a str>,
    /// How much the query counts, 0 to 1: less where it was read from a turn that much has followed.
    pub query_weight: f64,
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
    /// Tokens that the whole result may have, system messages included.
    pub target_tokens: u64,
}

/// What became of one block of a divided text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockChoice {
    /// Which of the divided texts it is of.
    pub text: usize,
    /// Its position in that text.
    pub position: usize,
    /// Its tokens.
    pub tokens: u32,
    /// What it added, or would still add.
    pub gain: f64,
    /// Whether it is kept.
    pub kept: bool,
}

/// The outcome of one compaction: what is kept, and every signal behind it.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Which units are kept, what each added, the tokens used.
    pub packing: Packing,
    /// What is kept of the texts that are divided, by unit.
    pub blocks: Vec<BlockChoice>,
    /// Per message, its signals.
    pub signals: Vec<Signals>,
    /// Per message, its score.
    pub message_scores: Vec<f64>,
    /// Per unit, its best message, whose score is the unit's.
    pub best_message: Vec<usize>,
    /// Per unit, its tokens when it is whole.
    pub unit_tokens: Vec<u32>,
    /// Per unit, what its score alone is worth in the objective that was packed.
    pub unit_worth: Vec<f64>,
    /// Per unit, the summed weights of the features it mentions, whoever else mentions them.
    pub feature_worth: Vec<f64>,
    /// Per unit, whether a user's directive stands in what is kept of it.
    pub has_directive: Vec<bool>,
    /// What the query's part of the objective is, 0 to 1.
    pub query_share: f64,
    /// Tokens of the pinned units, system included.
    pub pinned_tokens: u64,
    /// The unit pulled in so that a user turn comes first, if that was needed.
    pub leader: Option<usize>,
    /// Whether vectors were really computed; without a query the newest text alone is embedded.
    pub embedding: bool,
}
