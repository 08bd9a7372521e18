//! The objective of a packing: the mentions and the answers to the query, on one scale.
//!
//! ```text
//! value(S) = (1 - s) * F(S) / F*  +  s * R(S) / R*
//! ```
//!
//! `F(S)` is the sum of the weights of the features that `S` mentions (coverage.rs), `R(S)` the sum of `relevance^2 *
//! sqrt(tokens)` over its items: an answer may be long. `F*` and `R*` are what the budget buys of either alone, so `s`,
//! the query's share, means the same in a chat that names little and in a session full of names. Choice of the
//! constants: DESIGN.md.
use crate::analysis::features::{Class, mentions};
use crate::analysis::words;
use crate::conversation::prepared::Prepared;
use crate::packing::pack::{Blocks, FeatureLists, Problem, pack_coverage_with_blocks};
use crate::scoring::signals::Signals;

/// The part of the scores that is not about names: it decides among items that mention nothing and answer nothing.
const SCORE_SHARE: f64 = 0.01;
/// Lets the most relevant outweigh many that are somewhat relevant.
const POWER: i32 = 2;

/// The names in a query (identifiers, paths, ids) by hash, and its number of words.
pub(crate) fn names_of_query(query: &str) -> (Vec<u32>, usize) {
    let names: Vec<u32> =
        mentions(query).iter().filter(|name| name.class == Class::Name).map(|name| name.hash).collect();
    let mut words = words::words(query);
    words.sort_unstable();
    words.dedup();
    let words = words.len().max(names.len()).max(1);
    (names, words)
}

/// Per item that is not pinned, the worth of the query's names in it: 1 each, spread over the items that mention it.
pub(crate) fn worth_of_names(features: &FeatureLists, named: &[u32], pinned: &[bool]) -> Vec<f64> {
    let mut worth = vec![0.0; pinned.len()];
    for &name in named {
        let mentions = |item: &usize| !pinned[*item] && features.of(*item).contains(&name);
        let items: Vec<usize> = (0..pinned.len()).filter(mentions).collect();
        items.iter().for_each(|&item| worth[item] += 1.0 / items.len() as f64);
    }
    worth
}

impl Prepared {
    /// Per item, its worth to the query. `pinned` items are kept anyway.
    pub(crate) fn worth_to_query(&self, signals: &[Signals], item_tokens: &[u32], pinned: &[bool]) -> Vec<f64> {
        // What a memory holds can be found there.
        let relevant = |s: &Signals| s.semantic.max(0.0).powi(POWER) * (1.0 - s.coverage);
        let mut worth = self.item_scores(&signals.iter().map(relevant).collect::<Vec<_>>());
        // An answer may be long: a message is worth the square root of its tokens, and each of its blocks its share of
        // that.
        let unit_tokens = self.unit_tokens();
        for (item, unit) in self.units_of_items().enumerate() {
            let long = 1.0 / f64::from(unit_tokens[unit].max(1)).sqrt();
            worth[item] *= if pinned[item] { 0.0 } else { f64::from(item_tokens[item]) * long };
        }
        worth
    }
}

/// The worth of the items and the weights of the features on one scale. `problem` has each item's worth to the query,
/// whose share is `share`; `score` is the three-signal score of each item.
pub(crate) fn on_one_scale(
    problem: &Problem<'_>,
    blocks: &Blocks<'_>,
    share: f64,
    mut score: Vec<f64>,
    names: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let no_features = FeatureLists::none(score.len());
    let no_score = vec![0.0; score.len()];
    let bought = |alone: &Problem<'_>| pack_coverage_with_blocks(alone, blocks).value;
    let factor = |share: f64, most: f64| if most > 0.0 { share / most } else { 0.0 };
    let asked_for = problem.score.iter().any(|&worth| worth > 0.0);
    let (of_features, of_query) = if share > 0.0 && asked_for {
        let features_alone = bought(&Problem { score: &no_score, ..*problem });
        let query_alone = bought(&Problem { features: &no_features, feature_weight: &[], ..*problem });
        (factor(1.0 - share, features_alone), factor(share, query_alone))
    } else {
        (factor(1.0, problem.feature_weight.iter().sum()), 0.0)
    };
    let of_scores = factor(SCORE_SHARE, score.iter().sum());
    for ((worth, to_query), of_names) in score.iter_mut().zip(problem.score).zip(names) {
        *worth = *worth * of_scores + to_query * of_query + of_names * share;
    }
    (score, problem.feature_weight.iter().map(|weight| weight * of_features).collect())
}
