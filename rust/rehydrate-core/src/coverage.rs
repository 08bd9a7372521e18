//! Which features each unit mentions, and what mentioning each is worth to an agent that goes on working.
//!
//! `w(f) = class * (4 if f ever stood in a tool input) / (1 + d / 10) * (1 - c)`, where `d` is how many units ago `f` was
//! last mentioned and `c` is the most that memory covers of any message that mentions it. Chosen by what agents went on
//! to use in real sessions (DESIGN.md, coverage); a regression on 28 attributes of a feature did no better.
use rustc_hash::FxHashMap;

use crate::features::Class;
use crate::pack::FeatureLists;
use crate::prepared::Prepared;
use crate::score::Signals;
use crate::unit::PieceKind;

/// How much more a feature is worth when the agent acted on it.
const ACTED_ON: f64 = 4.0;
/// A mention this many units ago is worth half.
const HALF_WORTH_UNITS: f64 = 10.0;

fn worth_of_class(class: Class) -> f64 {
    match class {
        Class::Name => 1.0,
        Class::Number => 0.1,
        Class::Word => 0.03,
    }
}

/// Features of a conversation: lists by item to be packed, weights by feature.
pub(crate) struct Features {
    pub of_item: FeatureLists,
    pub weight: Vec<f64>,
}

/// The unit scores' share of the whole objective, against the features' 1.
const SCORE_SHARE: f64 = 0.05;

/// What is known of one feature.
#[derive(Clone, Copy)]
struct Feature {
    class: Class,
    acted_on: bool,
    /// The item whose list it was put on last.
    listed: Option<usize>,
    last_unit: usize,
    memory_coverage: f64,
}

impl Features {
    pub fn none(items: usize) -> Self {
        Self { of_item: FeatureLists::none(items), weight: Vec::new() }
    }

    /// Bring scores and feature weights onto one scale, on which everything together is worth 1. `feature_share` is how
    /// much the features count, from 1 without a query towards 0 where the query decides.
    pub fn balance(&mut self, item_scores: &mut [f64], feature_share: f64) {
        let total_of = |worths: &[f64]| worths.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let whole = if self.weight.is_empty() { SCORE_SHARE } else { SCORE_SHARE + feature_share };
        let (scores, features) = (total_of(item_scores), total_of(&self.weight));
        item_scores.iter_mut().for_each(|score| *score *= SCORE_SHARE / whole / scores);
        self.weight.iter_mut().for_each(|weight| *weight *= feature_share / whole / features);
    }

    /// Per item, the summed weights of its features, whoever else mentions them.
    pub fn worth_of_items(&self, items: usize) -> Vec<f64> {
        (0..items).map(|item| self.of_item.of(item).iter().map(|&f| self.weight[f as usize]).sum()).collect()
    }
}

impl Prepared {
    /// The features of all items but the system's, which are there anyway.
    pub(crate) fn features(&self, signals: &[Signals]) -> Features {
        let mentions_in_all: usize = self.analyses.iter().filter_map(|a| a.mentions()).map(|m| m.len()).sum();
        let mut id_of_hash: FxHashMap<u32, u32> = FxHashMap::default();
        id_of_hash.reserve(mentions_in_all / 2);
        let mut features: Vec<Feature> = Vec::with_capacity(mentions_in_all / 2);
        let mut of_item = FeatureLists::with_capacity(self.units.len(), mentions_in_all);
        let skeletons = self.messages_of_units().into_iter().enumerate();
        let blocks = self.parts.iter().flat_map(|parts| &parts.blocks);
        let blocks = blocks.map(|block| (self.messages[block.part].unit, vec![block.part]));
        for (item, (unit, messages)) in skeletons.chain(blocks).enumerate() {
            for (message, piece) in messages.iter().flat_map(|&m| self.messages[m].pieces.clone().map(move |p| (m, p)))
            {
                let kind = self.kinds[piece];
                if kind == PieceKind::Thinking || self.messages[message].is_system() {
                    continue;
                }
                let acted_on = kind == PieceKind::ToolInput;
                for mention in self.analyses[piece].mentions().into_iter().flatten() {
                    let id = *id_of_hash.entry(mention.hash).or_insert_with(|| {
                        features.push(Feature {
                            class: mention.class,
                            acted_on,
                            listed: None,
                            last_unit: unit,
                            memory_coverage: 0.0,
                        });
                        u32::try_from(features.len() - 1).expect("fewer features than hashes")
                    });
                    let feature = &mut features[id as usize];
                    if feature.listed.replace(item) != Some(item) {
                        of_item.mention(id);
                    }
                    feature.last_unit = feature.last_unit.max(unit);
                    feature.class = feature.class.min(mention.class);
                    feature.acted_on |= acted_on;
                    feature.memory_coverage = feature.memory_coverage.max(signals[message].coverage);
                }
            }
            of_item.end_unit();
        }
        let newest = self.units.len().saturating_sub(1);
        Features { of_item, weight: features.iter().map(|feature| feature.worth(newest)).collect() }
    }
}

impl Feature {
    fn worth(&self, newest_unit: usize) -> f64 {
        let age_units = (newest_unit - self.last_unit) as f64;
        worth_of_class(self.class) * if self.acted_on { ACTED_ON } else { 1.0 } / (1.0 + age_units / HALF_WORTH_UNITS)
            * (1.0 - self.memory_coverage)
    }
}
