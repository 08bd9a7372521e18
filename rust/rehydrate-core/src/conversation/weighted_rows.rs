//! A conversation's vectors of the built-in model, weighted by rarity within it.
use crate::embed::builtin::{Bag, StaticModel};
use crate::embed::centred_rows::CentredRows;

/// One row per message, each token weighted by its IDF in this conversation. The same for every query.
pub(crate) struct WeightedRows {
    /// By token of the vocabulary, in how many messages it occurs.
    pub document_frequency: Vec<u32>,
    /// By document frequency, the weight of a token.
    pub weight_of: Vec<f32>,
    pub rows: CentredRows,
}

impl WeightedRows {
    /// Cosine of each message with the query, the mean vector subtracted; -1 if a vector is missing.
    pub fn cosines(&self, model: &StaticModel, query: &Bag) -> Vec<f64> {
        let weight = |token: u16| self.weight_of[self.document_frequency[token as usize] as usize];
        let asked = model.vector(query.iter().copied(), weight);
        let as_unlike_as_can_be = |cosine: f64| if cosine.is_nan() { -1.0 } else { cosine };
        self.rows.cosines(asked).into_iter().map(as_unlike_as_can_be).collect()
    }
}
