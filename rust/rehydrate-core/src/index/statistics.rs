//! Statistics of a namespace's entries: their number, the frequency of each token of the built-in model, the sum of
//! their vectors.
use crate::embed::builtin::StaticModel;
use crate::scoring::bm25::idf;

/// Counts that add up from segment to segment.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    pub(super) entries: u32,
    /// By token of the built-in model; empty if there is none.
    pub(super) token_count: Vec<u32>,
    pub(super) builtin_sum: Vec<f32>,
    pub(super) builtin_present: u32,
    pub(super) own_sum: Vec<f32>,
    pub(super) own_present: u32,
}

/// The step of stored weights.
const WEIGHT_STEPS: f64 = 16.0;

impl Statistics {
    /// The weight of each token in vectors: its IDF, in steps.
    pub(super) fn token_weights(&self, model: &StaticModel) -> Vec<u8> {
        let step =
            |count: u32| (idf(self.entries as usize, f64::from(count)) * WEIGHT_STEPS).round().clamp(1.0, 255.0) as u8;
        let mut known = rustc_hash::FxHashMap::default();
        let mut weight = |count: u32| *known.entry(count).or_insert_with(|| step(count));
        if self.token_count.is_empty() {
            return vec![weight(0); model.vocab_size()];
        }
        self.token_count.iter().map(|&count| weight(count)).collect()
    }
}

/// The weight of a step.
pub(super) fn weight_of_step(step: u8) -> f32 {
    f32::from(step) / WEIGHT_STEPS as f32
}
