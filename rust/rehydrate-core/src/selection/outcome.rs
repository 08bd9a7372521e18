//! The outcome of a compaction: the selection, and every signal that decided it.
use crate::packing::pack::Packing;
use crate::scoring::signals::Signals;

/// The outcome of one block of a divided text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockChoice {
    /// The number of the divided text.
    pub text: usize,
    /// Its position in that text.
    pub position: usize,
    /// Its tokens.
    pub tokens: u32,
    /// The gain it added, or would still add.
    pub gain: f64,
    /// Whether it is kept.
    pub kept: bool,
}

/// The outcome of one compaction: the selection, and every signal that decided it.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The kept units, what each added, the tokens used.
    pub packing: Packing,
    /// The blocks of the divided texts, by unit.
    pub blocks: Vec<BlockChoice>,
    /// Per message, its signals.
    pub signals: Vec<Signals>,
    /// Per message, its score.
    pub message_scores: Vec<f64>,
    /// Per unit, its best message, whose score is the unit's.
    pub best_message: Vec<usize>,
    /// Per unit, its tokens when it is whole.
    pub unit_tokens: Vec<u32>,
    /// Per unit, the share of its mentions that are in nothing kept. 1 if it mentions nothing.
    pub unsaid: Vec<f64>,
    /// Per unit, whether a user's directive is in its kept part.
    pub has_directive: Vec<bool>,
    /// The query's part of the objective, 0 to 1.
    pub query_share: f64,
    /// Tokens of the pinned units, system included.
    pub pinned_tokens: u64,
    /// The unit pulled in so that a user turn comes first, if that was needed.
    pub leader: Option<usize>,
    /// Whether vectors were really computed. Without a query only the newest text is embedded.
    pub embedding: bool,
}
