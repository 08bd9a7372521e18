//! The objective of a packing: what is mentioned and what the query asks for, on one scale.
//!
//! ```text
//! value(S) = (1 - s) * F(S) / F*  +  s * R(S) / R*
//! ```
//!
//! `F(S)` is the sum of the weights of the features that `S` mentions (coverage.rs), `R(S)` the sum of
//! `relevance^2 * sqrt(tokens)` over its items: an answer may be long. `F*` and `R*` are what the budget buys of either
//! alone, so `s`, the query's share, means the same in a chat that names little and in a session full of names. Choice of
//! the constants: DESIGN.md.
use crate::conversation::prepared::Prepared;
use crate::packing::pack::{Blocks, FeatureLists, Problem, pack_coverage_with_blocks};
use crate::scoring::coverage::Features;
use crate::scoring::signals::{Signals, Weights};
use crate::tune::tune;

/// The share of a question that nothing has followed.
pub(crate) const QUESTION_SHARE: f64 = 0.9;

impl Prepared {
    /// Per item, how much it is worth to the query; `pinned` items are there anyway.
    pub(crate) fn worth_to_query(
        &self,
        signals: &[Signals],
        weights: &Weights,
        item_tokens: &[u32],
        pinned: &[bool],
    ) -> Vec<f64> {
        // As the score weighs them: of what memory holds, the novelty's part is lost.
        let novelty = weights.novelty / (weights.semantic + weights.novelty).max(f64::MIN_POSITIVE);
        #[expect(clippy::cast_possible_truncation)]
        let power = tune("POWER", 2.0);
        let relevant = |s: &Signals| s.semantic.max(0.0).powf(power) * (1.0 - novelty * s.coverage);
        let mut worth = self.item_scores(&signals.iter().map(relevant).collect::<Vec<_>>());
        // An answer may be long: a message is worth the root of its tokens, and each of its blocks its share of that.
        let unit_tokens = self.unit_tokens();
        let blocks = self.parts.iter().flat_map(|parts| &parts.blocks).map(|block| self.messages[block.part].unit);
        let x = tune("WEXP", 0.5);
        for (item, unit) in (0..unit_tokens.len()).chain(blocks).enumerate() {
            let long = f64::from(unit_tokens[unit].max(1)).powf(x - 1.0);
            worth[item] *= if pinned[item] { 0.0 } else { f64::from(item_tokens[item]) * long };
        }
        worth
    }
}

/// Bring the worth to the query (`problem.score`) and the weights of the features to one scale, the query's share of it
/// being `share`.
pub(crate) fn on_one_scale(problem: &Problem<'_>, blocks: &Blocks<'_>, share: f64) -> (Vec<f64>, Vec<f64>) {
    let nothing = vec![0.0; problem.score.len()];
    let features_alone = pack_coverage_with_blocks(&Problem { score: &nothing, ..*problem }, blocks).value;
    let none = FeatureLists::none(problem.score.len());
    let query_alone =
        pack_coverage_with_blocks(&Problem { features: &none, feature_weight: &[], ..*problem }, blocks).value;
    let scaled = |worths: &[f64], share: f64, whole: f64| -> Vec<f64> {
        let factor = if whole > 0.0 { share / whole } else { 0.0 };
        worths.iter().map(|worth| worth * factor).collect()
    };
    (scaled(problem.score, share, query_alone), scaled(problem.feature_weight, 1.0 - share, features_alone))
}
