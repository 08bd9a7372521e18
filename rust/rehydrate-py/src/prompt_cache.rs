//! A provider's cache of prompts, for simulated bills.
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use rehydrate_core::prompt_cache::{self as core, Rules, Segment};

use crate::convert::Text;

/// What of each prompt a provider's cache reads and writes.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct PromptCache(Mutex<core::PromptCache>);

#[pymethods]
impl PromptCache {
    #[new]
    fn new(automatic: bool, lookback: i64, lifetime: f64, minimum: i64, step: i64, has_fee: bool) -> Self {
        let rules = Rules { automatic, lookback, lifetime, minimum, step, has_fee };
        Self(Mutex::new(core::PromptCache::new(rules)))
    }

    /// The tokens that are read and written of segments: digest, tokens, blocks, and whether a mark is at the end.
    fn send(&self, segments: Vec<(Text, i64, i64, bool)>, after: f64) -> (i64, i64) {
        let segments: Vec<Segment<'_>> = segments
            .iter()
            .map(|&(ref digest, tokens, blocks, marked)| Segment { digest: digest.as_str(), tokens, blocks, marked })
            .collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).send(&segments, after)
    }
}
