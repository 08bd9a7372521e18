//! Transformers through ONNX Runtime: `model.onnx` and `tokenizer.json`.
//!
//! ```text
//! texts -> tokens (cut, ids) -> batch (who runs with whom) -> work (threads) -> session (ONNX Runtime) -> rows
//! ```
//!
//! A session computes on the thread that calls it and starts none of its own. Several sessions in parallel are faster
//! than one session of several threads, and a forked process inherits no thread to wait for.
mod batch;
mod growth;
mod runtime;
mod session;
mod tokens;
mod work;

use std::path::Path;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;

pub use self::batch::Grouping;
pub use self::runtime::{isa, open_library};
pub use self::session::Pooling;
use self::session::Sessions;
use self::tokens::Tokenizer;
pub use self::work::Limits;
use self::work::Worker;
use crate::embed::normalize;
use crate::error::Result;

/// Options for running a model.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Texts embedded in parallel, one session each.
    pub threads: usize,
    /// Tokens of a text that count, special ones included. Further ones are cut off.
    pub max_tokens: usize,
    /// The pooling of token vectors, if the graph does not do it itself.
    pub pooling: Pooling,
    /// The texts that may share a run.
    pub grouping: Grouping,
}

/// A transformer and its tokenizer, ready to embed.
#[derive(Debug)]
pub struct OnnxModel {
    tokenizer: Tokenizer,
    sessions: Sessions,
    options: Options,
    dim: usize,
}

impl OnnxModel {
    /// Load a model through the library that [`open_library`] opened, and try every session on one text. So a broken
    /// model is known here, and the first real text needs no warm-up.
    ///
    /// # Errors
    /// [`crate::error::Error::ModelFile`] where a file cannot be used.
    pub fn load(model: &Path, tokenizer: &Path, options: Options) -> Result<Self> {
        let tokenizer = Tokenizer::load(tokenizer, options.max_tokens)?;
        let (sessions, dim) = Sessions::load(model, options.threads, options.pooling, &tokenizer.ids("warm")?)?;
        Ok(Self { tokenizer, sessions, options, dim })
    }

    /// Components of a vector.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// The vectors of `texts`, row after row: of length 1, or zero for a text without a token of its own, one that was
    /// not reached by the deadline, and one whose vector is not finite.
    ///
    /// # Errors
    /// Errors of the model, or of the limits' check.
    pub fn embed(&self, texts: &[&str], mut limits: Limits<'_>) -> Result<Vec<f32>> {
        let mut rows = vec![0.0; texts.len() * self.dim];
        let mut first: FxHashMap<&str, usize> = FxHashMap::default();
        let repeats: Vec<usize> = (0..texts.len()).map(|i| *first.entry(texts[i]).or_insert(i)).collect();
        let distinct: Vec<usize> = (0..texts.len()).filter(|&i| repeats[i] == i).collect();
        if self.options.grouping == Grouping::ByLength && limits.deadline.is_none() {
            let mut read = Vec::with_capacity(distinct.len());
            let ids = |&row: &usize, _: &Worker| Ok((row, self.tokenizer.ids(texts[row])?));
            work::each(self.options.threads, &distinct, &mut limits, ids, |found| read.push(found))?;
            let batches = batch::by_length(read);
            let run = |batch: &batch::Batch, worker: &Worker| self.run(batch, worker);
            work::each(self.options.threads, &batches, &mut limits, run, |found| self.write(&found, &mut rows))?;
        } else {
            let mut order = distinct;
            if limits.deadline.is_none() {
                // The longest first, so that no thread is left alone with one at the end. With a deadline the caller's
                // order counts.
                order.sort_by_key(|&row| std::cmp::Reverse(texts[row].len()));
            }
            let run = |&row: &usize, worker: &Worker| self.run(&[(row, self.tokenizer.ids(texts[row])?)], worker);
            work::each(self.options.threads, &order, &mut limits, run, |found| self.write(&found, &mut rows))?;
        }
        for (row, &original) in repeats.iter().enumerate().filter(|&(row, &original)| row != original) {
            rows.copy_within(original * self.dim..(original + 1) * self.dim, row * self.dim);
        }
        Ok(rows)
    }

    /// The rows of one batch and their values; nothing if the work was stopped meanwhile.
    fn run(&self, batch: &[(usize, Vec<i64>)], worker: &Worker) -> Result<(Vec<usize>, Vec<f32>)> {
        let (rows, ids): (Vec<usize>, Vec<&[i64]>) =
            batch.iter().filter(|(_, ids)| !ids.is_empty()).map(|(row, ids)| (*row, ids.as_slice())).unzip();
        if ids.is_empty() {
            return Ok(Default::default());
        }
        let Some(mut session) = self.sessions.lease(&worker.stop) else {
            return Ok(Default::default());
        };
        match session.run(&ids, &worker.run) {
            Ok(values) => Ok((rows, values)),
            Err(_) if worker.stop.load(Ordering::Relaxed) => Ok(Default::default()),
            Err(error) => Err(error),
        }
    }

    fn write(&self, (found, values): &(Vec<usize>, Vec<f32>), rows: &mut [f32]) {
        for (&row, vector) in found.iter().zip(values.chunks_exact(self.dim)) {
            let target = &mut rows[row * self.dim..(row + 1) * self.dim];
            target.copy_from_slice(vector);
            normalize(target);
        }
    }
}
