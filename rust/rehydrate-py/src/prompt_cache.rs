//! A provider's cache of prompts, for simulated bills.
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use rehydrate_core::prompt_cache::{self as core, Rules, Shortened};

use crate::convert::Text;
use crate::errors::to_py;

/// A whole number from 0 up; one that is too large is more tokens than any prompt has.
pub struct Whole(i64);

impl<'a, 'py> FromPyObject<'a, 'py> for Whole {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        const ENDLESS: i64 = 1 << 54;
        Ok(Self(value.extract().unwrap_or(ENDLESS)))
    }
}

/// `rehydrate.prompt.ProviderPolicy`.
pub struct Policy {
    shortening: core::Policy,
    /// The provider holds tools and system text.
    has_content: bool,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Policy {
    type Error = PyErr;

    fn extract(policy: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let limit = |name: &str| -> PyResult<Option<i64>> {
            Ok(policy.getattr(name)?.extract::<Option<Whole>>()?.map(|limit| limit.0))
        };
        let shortening = core::Policy {
            compact_at: limit("compact_at")?,
            clear_at: limit("clear_tool_uses_at")?,
            keep_results: limit("keep_tool_uses")?.unwrap_or_default() as usize,
            clear_at_least: limit("clear_at_least")?.unwrap_or_default(),
        };
        Ok(Self { shortening, has_content: policy.getattr("cached_content")?.is_truthy()? })
    }
}

/// `rehydrate.prompt.Segment`: id, kind, tokens, digest, stability, blocks, and whether a cache mark is at its end.
type Segment = (Text, Text, i64, Text, Text, i64, bool);

struct State {
    cache: core::PromptCache,
    shortened: Shortened,
    /// The provider holds tools and system text.
    has_content: bool,
}

/// What of each prompt a provider's cache reads and writes.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct PromptCache(Mutex<State>);

/// The tokens of a prompt: read, written, and all.
type Use = (i64, i64, i64);

#[pymethods]
impl PromptCache {
    #[new]
    fn new(
        automatic: bool,
        lookback: i64,
        lifetime: f64,
        minimum: Whole,
        step: Whole,
        has_fee: bool,
        policy: Policy,
    ) -> Self {
        let rules = Rules { automatic, lookback, lifetime, minimum: minimum.0, step: step.0, has_fee };
        let Policy { shortening, has_content } = policy;
        let (cache, shortened) = (core::PromptCache::new(rules), Shortened::new(shortening));
        Self(Mutex::new(State { cache, shortened, has_content }))
    }

    /// What is used of a prompt that comes `after` seconds, to write a summary of it, where the provider does, and to answer.
    /// `results` are the segments with results of tool calls.
    fn send(
        &self,
        py: Python<'_>,
        segments: Vec<Segment>,
        mut after: f64,
        results: Vec<usize>,
    ) -> PyResult<(Option<Use>, Use)> {
        let segments = segments.iter().map(|(_, kind, tokens, digest, _, blocks, marked)| core::Segment {
            digest: digest.as_str().into(),
            tokens: *tokens,
            blocks: *blocks,
            marked: *marked,
            is_message: kind.as_str() == "message",
        });
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State { cache, shortened, has_content } = &mut *state;
        let sent = shortened.sent(segments.collect(), &results);
        let mut used = |segments: &[core::Segment<'_>]| -> PyResult<Use> {
            let (read, written) = cache.send(segments, after).map_err(|error| to_py(py, &error))?;
            after = 0.0;
            Ok((read, written, core::Segment::total(segments)))
        };
        if *has_content {
            let held: Vec<_> = sent.answered.iter().filter(|segment| !segment.is_message).cloned().collect();
            used(&held)?; // it was written before, and is kept
        }
        let summarized = sent.summarized.as_deref().map(&mut used).transpose()?;
        Ok((summarized, used(&sent.answered)?))
    }
}
