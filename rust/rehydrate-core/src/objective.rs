//! What a packing is to maximise: scores, what the query asks for, and what is mentioned, on one scale.
//!
//! ```text
//! value(S) = 0.05 * scores of S  +  2 c^2 w * relevance of S  +  F / (F + 100) * features mentioned in S
//! ```
//!
//! Each of the three sums is 1 for the whole conversation, and the value too is divided by the value of all. `c` says how
//! far the query asks for something that stands out here (relevance.rs), `w` is its weight, and `F` is the sum of the
//! features' weights: a chat that names little is kept for its answers, a working session for its names. So a vague query
//! takes little from what the work needs, and a question takes what it needs. Choice of the constants: DESIGN.md.
use crate::coverage::Features;
use crate::prepared::Prepared;
use crate::score::{NEUTRAL_SIMILARITY, Signals, Weights};

/// The scores' part of the whole.
const SCORE_SHARE: f64 = 0.05;
/// The query's part under full confidence.
const QUERY_SHARE: f64 = 2.0;
/// Weights of features that amount to half of what coverage may be worth: a few screens of names.
const HALF_COVERAGE: f64 = 100.0;
/// Lets the most relevant messages outweigh many that are somewhat relevant.
const CONTRAST: i32 = 4;

/// What the query asks for.
pub(crate) struct Asked {
    /// 0 to 1: how far it asks for something that stands out here, times its weight.
    pub standing_out: f64,
    pub weight: f64,
}

/// One packing's worths.
pub(crate) struct Objective {
    /// Per item, what its score and its relevance are worth.
    pub item_worth: Vec<f64>,
    pub features: Features,
    /// The query's part of the whole value, 0 to 1.
    pub query_share: f64,
    /// The features' part of it.
    pub feature_share: f64,
}

impl Prepared {
    /// The objective with coverage; `asked` is None without a query whose relevance was calibrated. `pinned` items, which are there anyway, are worth
    /// nothing to the query.
    pub(crate) fn objective(
        &self,
        signals: &[Signals],
        weights: &Weights,
        asked: Option<&Asked>,
        item_tokens: &[u32],
        pinned: &[bool],
    ) -> Objective {
        let plain = |s: &Signals| match asked {
            Some(_) => Signals { odds: 1.0, semantic: NEUTRAL_SIMILARITY, ..*s }.score(weights),
            None => s.score(weights),
        };
        let mut item_worth = self.item_scores(&signals.iter().map(plain).collect::<Vec<_>>());
        let mut features = self.features(signals);
        let named: f64 = features.weight.iter().sum();
        let feature_share = named / (named + HALF_COVERAGE);
        let query_share = asked.map_or(0.0, |asked| QUERY_SHARE * asked.standing_out.powi(2) * asked.weight);
        let whole = SCORE_SHARE + query_share + feature_share;
        scale(&mut item_worth, SCORE_SHARE / whole);
        scale(&mut features.weight, feature_share / whole);
        if query_share > 0.0 {
            // As the score weighs them: of what memory holds, the novelty's part is lost.
            let novelty = weights.novelty / (weights.semantic + weights.novelty);
            let relevant = |s: &Signals| s.semantic.max(0.0).powi(CONTRAST) * (1.0 - novelty * s.coverage);
            let mut relevance = self.item_scores(&signals.iter().map(relevant).collect::<Vec<_>>());
            for ((worth, &tokens), &pinned) in relevance.iter_mut().zip(item_tokens).zip(pinned) {
                // Half way from worth a message to worth a token: an answer may be long.
                *worth *= if pinned { 0.0 } else { f64::from(tokens).sqrt() };
            }
            scale(&mut relevance, query_share / whole);
            item_worth.iter_mut().zip(relevance).for_each(|(worth, relevance)| *worth += relevance);
        }
        Objective { item_worth, features, query_share: query_share / whole, feature_share: feature_share / whole }
    }
}

/// Bring the sum of `worths` to `whole`.
fn scale(worths: &mut [f64], whole: f64) {
    let factor = whole / worths.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    worths.iter_mut().for_each(|worth| *worth *= factor);
}
