//! Similarity of each message to the query.
use crate::embed::{Embedder, dot, is_present, normalize};
use crate::prepared::Prepared;
use crate::score::NEUTRAL_SIMILARITY;
use crate::select::Request;

/// Similarities, and whether vectors were behind them.
pub(crate) struct Measured {
    pub similarity: Vec<f64>,
    pub embedding: bool,
}

impl Prepared {
    pub(crate) fn similarity(&self, request: &Request<'_>) -> Measured {
        let n = self.messages.len();
        let neutral = |embedding| Measured { similarity: vec![NEUTRAL_SIMILARITY; n], embedding };
        let owned;
        let (rows, dim): (&[f32], usize) = match (request.vectors, self.model()) {
            (Some(v), _) => (v.messages, v.dim),
            (None, Some(model)) => { owned = self.message_vectors(); (&owned, model.dim()) }
            (None, None) => return neutral(false),
        };
        let embedding = rows.chunks_exact(dim.max(1)).any(is_present);
        let Some(query) = request.query else { return neutral(embedding) };
        let mut q = vec![0.0; dim];
        match request.vectors {
            Some(v) => match v.query { Some(x) => q.copy_from_slice(x), None => return neutral(embedding) },
            None => self.model().unwrap().embed(&[query], &mut q).unwrap(),
        }
        normalize(&mut q);
        if !is_present(&q) { return neutral(embedding) }
        let similarity = rows.chunks_exact(dim).map(|r| {
            let mut r = r.to_vec(); normalize(&mut r);
            if is_present(&r) { f64::from(dot(&r, &q)) } else { NEUTRAL_SIMILARITY }
        }).collect();
        Measured { similarity, embedding }
    }
}
