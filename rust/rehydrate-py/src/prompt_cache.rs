//! A provider's cache of prompts, for simulated bills.
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use rehydrate_core::caps::grouped;
use rehydrate_core::error::Error;
use rehydrate_core::prompt_cache::{self as core, Rules, SUMMARY_TOKENS, Shortened};

use crate::checks::{SHOWN, refused, shown};
use crate::convert::{NamedTuple, Text};
use crate::errors::to_py;
use crate::exit::Running;

/// More tokens than anything is billed for; money is exact up to it.
pub const MAX_COUNT: i64 = 1 << 53;

/// A whole number from 0 up. One that is too large becomes more tokens than any prompt has.
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
    /// Only prefixes that end at a mark are kept, and found.
    is_explicit: bool,
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
        let is_explicit = policy.getattr("cache_breakpoints")?.is_truthy()?;
        Ok(Self { shortening, is_explicit, has_content: policy.getattr("cached_content")?.is_truthy()? })
    }
}

/// `rehydrate.prompt.Segment`: id, kind, tokens, digest, stability, blocks, and whether a cache mark is at its end.
type Segment = (Text, Text, Whole, Text, Text, i64, bool);

struct State {
    cache: core::PromptCache,
    /// The provider sets a mark itself: at the end of the newest message.
    is_implicit: bool,
    shortened: Shortened,
    /// The provider holds tools and system text.
    has_content: bool,
}

/// The tokens of a prompt: read, written, and all.
type Use = (i64, i64, i64);

impl State {
    /// The tokens used to write a summary of the prompt, if the provider does, and to answer.
    fn send(
        &mut self,
        segments: Vec<core::Segment<'_>>,
        results: &[usize],
        mut after: f64,
    ) -> Result<(Option<Use>, Use), Error> {
        let mut sent = self.shortened.sent(segments, results);
        if self.is_implicit {
            for prompt in [Some(&mut sent.answered), sent.summarized.as_mut()].into_iter().flatten() {
                let last = prompt.len();
                for (number, segment) in (1..).zip(prompt) {
                    segment.marked = number == last;
                }
            }
        }
        let mut used = |segments: &[core::Segment<'_>]| -> Result<Use, Error> {
            let (read, written) = self.cache.send(segments, after)?;
            after = 0.0;
            Ok((read, written, core::Segment::total(segments)))
        };
        if self.has_content {
            let held: Vec<_> = sent.answered.iter().filter(|segment| !segment.is_message).cloned().collect();
            used(&held)?; // it was written before, and is kept
        }
        let summarized = sent.summarized.as_deref().map(&mut used).transpose()?;
        Ok((summarized, used(&sent.answered)?))
    }
}

/// A provider's cache of the prompts that it was sent, which it shortens by its policy.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct PromptCache {
    state: Mutex<State>,
    /// Writes are billed at the price for an hour.
    is_for_an_hour: bool,
}

#[pymethods]
impl PromptCache {
    /// Takes the rules of a `Price`, the time to live, and the shortest prefix that the cache keeps.
    #[new]
    fn new(price: &Bound<'_, PyAny>, ttl: &str, minimum: Whole, policy: Policy) -> PyResult<Self> {
        let _running = Running::begin();
        /// Blocks before a mark in which Anthropic looks for a prefix.
        const LOOKBACK: i64 = 20;
        /// Marks of a prompt that OpenAI looks at.
        const READ_MARKS: usize = 80;
        let lifetimes = price.py().import("rehydrate.cost.prices")?.getattr("TTL_SECONDS")?;
        let automatic: bool = price.getattr("automatic")?.extract()?;
        let is_explicit = automatic && policy.is_explicit;
        // Where a write has a fee (OpenAI from GPT-5.6), one prefix is written: up to the newest message.
        let has_fee = price.call_method1("write_share", (ttl,))?.extract::<f64>()? != 1.0;
        let is_implicit = automatic && has_fee && !is_explicit;
        let rules = Rules {
            automatic: automatic && !is_explicit && !is_implicit,
            read_marks: if is_explicit { READ_MARKS } else { core::MAX_MARKS },
            lookback: if is_implicit {
                MAX_COUNT
            } else if is_explicit {
                1
            } else {
                LOOKBACK
            },
            lifetime: lifetimes.get_item(ttl)?.extract()?,
            minimum: minimum.0,
            step: price.getattr("step_tokens")?.extract::<Whole>()?.0,
        };
        let (cache, shortened) = (core::PromptCache::new(rules), Shortened::new(policy.shortening));
        let state = Mutex::new(State { cache, is_implicit, shortened, has_content: policy.has_content });
        Ok(Self { state, is_for_an_hour: ttl == "1h" })
    }

    /// The `Usage` of a summary of a prompt that is sent after `after` seconds, all 0 without one, and that of the
    /// prompt. `results` are the segments with results of tool calls.
    #[pyo3(signature = (segments, after, results = Vec::new()))]
    fn send<'py>(
        &self,
        segments: &Bound<'py, PyAny>,
        after: f64,
        results: Vec<usize>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let _running = Running::begin();
        let py = segments.py();
        let read: Vec<Segment> = segments.extract()?;
        if read.iter().fold(0, |total: i64, segment| total.saturating_add(segment.2.0)) > MAX_COUNT {
            let tokens = py.import("rehydrate.prompt.ir")?.call_method1("tokens_of", (segments,))?;
            let shown = shown(&tokens, SHOWN);
            let message = format!("a prompt has {shown} tokens; pass one of up to {}", grouped(MAX_COUNT));
            return Err(refused(py, message));
        }
        let parts = read.iter().map(|(_, kind, tokens, digest, _, blocks, marked)| core::Segment {
            digest: digest.as_str().into(),
            tokens: tokens.0,
            blocks: *blocks,
            marked: *marked,
            is_message: kind.as_str() == "message",
        });
        let parts = parts.collect();
        let found = self.state.lock().unwrap_or_else(PoisonError::into_inner).send(parts, &results, after);
        let (summarized, answered) = found.map_err(|error| to_py(py, &error))?;
        let class = NamedTuple::of(py, "rehydrate.cost.prices", "Usage")?;
        let usage = |(read, written, total): Use, output: i64| {
            let (for_minutes, for_an_hour) = if self.is_for_an_hour { (0, written) } else { (written, 0) };
            let counts = [read, for_minutes, for_an_hour, total - read - written, output];
            class.make(counts.map(|count| {
                let Ok(count) = count.into_pyobject(py);
                count.into_any()
            }))
        };
        let summary = summarized.map_or_else(|| usage((0, 0, 0), 0), |found| usage(found, SUMMARY_TOKENS))?;
        Ok((summary, usage(answered, 0)?))
    }
}
