//! Embedders: texts to unit vectors. Each tier is one implementation of [`Embedder`].
pub mod builtin;
pub(crate) mod centred_rows;
pub(crate) mod int_products;
pub(crate) mod nearness;
pub mod onnx;
pub mod wordpiece;

use std::sync::Arc;

use crate::cache::{Cached, ContentHash, bytes_hash};
use crate::error::{Error, Result};

/// Anything that turns texts into vectors of one space.
///
/// The built-in static model is one; a transformer or a user's own model are others. A row of zeros means "no
/// vector": a text the model knows nothing of.
pub trait Embedder: Send + Sync {
    /// Name of the vector space; vectors of two spaces are never compared.
    fn space(&self) -> &str;
    /// Components of a vector.
    fn dim(&self) -> usize;
    /// Write the L2-normalised vectors of `texts`, row after row, into `out` (`texts.len() * dim` values).
    ///
    /// # Errors
    /// Errors of its model; the caller goes on without vectors.
    fn embed(&self, texts: &[&str], out: &mut [f32]) -> Result<()>;
}

/// A vector of a text, as the cache of a process holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedVector(pub Arc<[f32]>);

impl CachedVector {
    /// Texts of two spaces never meet.
    #[must_use]
    pub fn key(space: &[u8], text: &[u8]) -> ContentHash {
        bytes_hash(text, bytes_hash(space, 0) as u64)
    }
}

impl Cached for CachedVector {
    fn held_bytes(&self) -> usize {
        size_of_val(&*self.0) + 2 * size_of::<usize>()
    }
}

/// Components that a vector may have: rows are compared in whole numbers, whose sums stay below 2^31 up to here.
pub const MAX_DIM: usize = 8_192;

/// # Errors
/// Vectors of more components than can be compared.
pub fn verify_dim(dim: usize) -> Result<()> {
    if dim <= MAX_DIM {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "a vector has {dim} components, the limit is {MAX_DIM}; ask the model for fewer, or cut and normalise its vectors"
    )))
}

/// Scale `vector` to length 1; a vector that is zero or not finite becomes all zeros, the mark of "no vector".
pub fn normalize(vector: &mut [f32]) {
    let norm = dot(vector, vector).sqrt();
    if norm.is_finite() && norm > 0.0 {
        let scale = 1.0 / norm;
        vector.iter_mut().for_each(|x| *x *= scale);
    } else {
        vector.fill(0.0);
    }
}

/// Whether `vector` is of a text that was really embedded.
#[must_use]
pub fn is_present(vector: &[f32]) -> bool {
    vector.iter().any(|&x| x != 0.0) && vector.iter().all(|x| x.is_finite())
}

/// Inner product. Eight partial sums let the compiler use whole vector registers without changing the order of
/// additions from one machine to the next.
#[must_use]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    let (a_chunks, b_chunks) = (a.chunks_exact(8), b.chunks_exact(8));
    let tail: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_chunks.zip(b_chunks) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalising_gives_length_one_or_nothing() {
        let mut vector = [3.0, 4.0];
        normalize(&mut vector);
        assert_eq!(vector, [0.6, 0.8]);
        for mut broken in [[0.0, 0.0], [f32::NAN, 1.0], [f32::INFINITY, 1.0]] {
            normalize(&mut broken);
            assert!(!is_present(&broken));
        }
    }

    #[test]
    fn dot_equals_the_plain_sum_at_every_length() {
        for n in 0..40_u16 {
            let a: Vec<f32> = (0..n).map(f32::from).collect();
            let b: Vec<f32> = (0..n).map(|i| f32::from(i % 5)).collect();
            let plain: f32 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            assert_eq!(dot(&a, &b), plain);
        }
    }
}
