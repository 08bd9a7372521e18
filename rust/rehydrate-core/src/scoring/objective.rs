//! The objective of a packing: scores, what the query asks for, and what is mentioned, on one scale.
//!
//! ```text
//! value(S) = 0.05 * scores of S  +  3 c^2 w * relevance of S  +  n w * names of the query in S  +  F / (F + 100) * features in S
//! ```
//!
//! Each of the four sums is 1 for the whole conversation, and the value too is divided by the value of all. `c` says how
//! far the query asks for something that stands out here (relevance.rs), `w` is its weight, `n` is the share of its words
//! that are names which others than it mention, and `F` is the sum of the features' weights: a chat that names little is
//! kept for its answers, a working session for its names. So a vague query takes little from what the work needs, and a
//! question takes what it needs. Choice of the constants: DESIGN.md.
use crate::analysis::features::{Class, mentions};
use crate::analysis::words;
use crate::conversation::prepared::Prepared;
use crate::scoring::coverage::Features;
use crate::scoring::signals::{NEUTRAL_SIMILARITY, Signals, Weights};

/// The scores' part of the whole.
const SCORE_SHARE: f64 = 0.05;
/// The query's part under full confidence.
const QUERY_SHARE: f64 = 3.0;
/// The part of a query's names where it is nothing but names.
const NAMES_SHARE: f64 = 1.0;
/// Weights of features that amount to half of what coverage may be worth: a few screens of names.
const HALF_COVERAGE: f64 = 100.0;
/// Lets the most relevant messages outweigh many that are somewhat relevant.
const CONTRAST: i32 = 4;

/// The query's share in the objective.
pub(crate) struct QueryGoal {
    /// 0 to 1: how far it asks for something that stands out here, times its weight.
    standing_out: f64,
    weight: f64,
    /// Hashes of the names in it: identifiers, paths, ids, numbers.
    names: Vec<u32>,
    /// Its distinct content words.
    words: usize,
}

impl QueryGoal {
    pub fn new(query: &str, standing_out: f64, weight: f64) -> Self {
        let names = mentions(query).iter().filter(|name| name.class != Class::Word).map(|name| name.hash).collect();
        let mut words = words::words(query);
        words.sort_unstable();
        words.dedup();
        Self { standing_out, weight, names, words: words.len() }
    }
}

/// One packing's worths.
pub(crate) struct Objective {
    /// Per item, what its score and its relevance are worth.
    pub item_worth: Vec<f64>,
    pub features: Features,
    /// The query's part of the whole value, 0 to 1, that of its names aside.
    pub query_share: f64,
    pub naming_share: f64,
    /// The features' part of it.
    pub feature_share: f64,
}

impl Prepared {
    /// The objective with coverage; `asked` is None without a query whose relevance was calibrated. `pinned` items,
    /// which are there anyway, are worth nothing to the query.
    pub(crate) fn objective(
        &self,
        signals: &[Signals],
        weights: &Weights,
        asked: Option<&QueryGoal>,
        item_tokens: &[u32],
        pinned: &[bool],
    ) -> Objective {
        let plain = |s: &Signals| match asked {
            Some(_) => Signals { odds: 1.0, semantic: NEUTRAL_SIMILARITY, ..*s }.score(weights),
            None => s.score(weights),
        };
        let mut item_worth = self.item_scores(&signals.iter().map(plain).collect::<Vec<_>>());
        let mut features = self.features(signals, asked.map_or(&[], |asked| &asked.names));
        let mut relevance = asked.map_or_else(Vec::new, |_| self.worth_to_query(signals, weights, item_tokens, pinned));
        let (mut naming, found) = worth_of_names(&features, pinned);

        let named: f64 = features.weight.iter().sum();
        let feature_share = named / (named + HALF_COVERAGE);
        let relevance_share = asked.map_or(0.0, |asked| QUERY_SHARE * asked.standing_out.powi(2) * asked.weight);
        let naming_share = asked.map_or(0.0, |asked| {
            NAMES_SHARE * asked.weight * found as f64 / asked.words.max(asked.names.len()).max(1) as f64
        });
        let whole = SCORE_SHARE + relevance_share + naming_share + feature_share;
        scale(&mut item_worth, SCORE_SHARE / whole);
        scale_sum(&mut features.weight, named, feature_share / whole);
        for (part, share) in [(&mut relevance, relevance_share), (&mut naming, naming_share)] {
            scale(part, share / whole);
            item_worth.iter_mut().zip(part).for_each(|(worth, more)| *worth += *more);
        }
        let [query_share, naming_share, feature_share] =
            [relevance_share, naming_share, feature_share].map(|share| share / whole);
        Objective { item_worth, features, query_share, naming_share, feature_share }
    }

    /// Per item, how relevant it is to the query.
    fn worth_to_query(&self, signals: &[Signals], weights: &Weights, item_tokens: &[u32], pinned: &[bool]) -> Vec<f64> {
        // As the score weighs them: of what memory holds, the novelty's part is lost.
        let novelty = weights.novelty / (weights.semantic + weights.novelty);
        let relevant = |s: &Signals| s.semantic.max(0.0).powi(CONTRAST) * (1.0 - novelty * s.coverage);
        let mut relevance = self.item_scores(&signals.iter().map(relevant).collect::<Vec<_>>());
        for ((worth, &tokens), &pinned) in relevance.iter_mut().zip(item_tokens).zip(pinned) {
            // Half way from worth a message to worth a token: an answer may be long.
            *worth *= if pinned { 0.0 } else { f64::from(tokens).sqrt() };
        }
        relevance
    }
}

/// Per item that is not pinned, what the names of the query in it are worth, each spread over the items that mention it;
/// and how many of the names such an item mentions.
fn worth_of_names(features: &Features, pinned: &[bool]) -> (Vec<f64>, usize) {
    let mut worth = vec![0.0; pinned.len()];
    let mut found = 0;
    if features.named.is_empty() {
        return (worth, found);
    }
    let mut position = vec![usize::MAX; features.weight.len()];
    features.named.iter().enumerate().for_each(|(at, &id)| position[id as usize] = at);
    let mut items = vec![Vec::new(); features.named.len()];
    for item in (0..pinned.len()).filter(|&item| !pinned[item]) {
        for &id in features.of_item.of(item) {
            if let Some(items) = items.get_mut(position[id as usize]) {
                items.push(item);
            }
        }
    }
    for items in items.iter().filter(|items| !items.is_empty()) {
        found += 1;
        items.iter().for_each(|&item| worth[item] += 1.0 / items.len() as f64);
    }
    (worth, found)
}

/// Bring the sum of `worths` to `whole`.
fn scale(worths: &mut [f64], whole: f64) {
    let sum = worths.iter().sum();
    scale_sum(worths, sum, whole);
}

/// The same where the sum is known.
fn scale_sum(worths: &mut [f64], sum: f64, whole: f64) {
    let factor = whole / sum.max(f64::MIN_POSITIVE);
    worths.iter_mut().for_each(|worth| *worth *= factor);
}
