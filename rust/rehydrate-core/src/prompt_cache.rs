//! A provider's cache of the prompts that it was sent: the tokens of each that it reads and writes.
//!
//! A cache with marks keeps the prefixes that end at one, and looks for one from each mark back over some blocks. An
//! automatic one keeps every prefix, in steps, and writes for free. Both keep nothing shorter than a minimum, and drop a prefix
//! that was not used for its time to live; reading it restarts that time.
mod shortened;

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
pub use shortened::{Policy, SUMMARY_TOKENS, Sent, Shortened};

/// Marks of a prompt that a provider writes.
pub const MAX_MARKS: usize = 4;

/// The rules of a provider's cache.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Every prefix is kept, not only those that end at a mark.
    pub automatic: bool,
    /// Marks, the latest of a prompt, at which a kept prefix is found. A provider that looks at no more than it writes refuses
    /// more; another writes the latest.
    pub read_marks: usize,
    /// Blocks before a mark in which a kept prefix is found.
    pub lookback: i64,
    /// Seconds that a prefix is kept after its last use.
    pub lifetime: f64,
    /// Tokens of the shortest prefix that is kept.
    pub minimum: i64,
    /// The step in tokens in which an automatic cache is read.
    pub step: i64,
}

/// A part of a prompt.
#[derive(Clone, Debug)]
pub struct Segment<'a> {
    /// Equal for equal contents.
    pub digest: Cow<'a, str>,
    /// The tokens that it adds to the prompt.
    pub tokens: i64,
    /// Its content blocks.
    pub blocks: i64,
    /// Whether a mark is at its end.
    pub marked: bool,
    /// A message, or else a tool or a system block.
    pub is_message: bool,
}

impl Segment<'_> {
    /// The tokens of all of these.
    #[must_use]
    pub fn total(segments: &[Self]) -> i64 {
        segments.iter().map(|segment| segment.tokens).sum()
    }
}

/// A prompt up to the end of one of its segments.
#[derive(Clone, Copy, Default)]
struct Prefix {
    /// Its number, from 1; 0 is the empty prefix.
    node: usize,
    tokens: i64,
    blocks: i64,
}

/// The cache of one model.
pub struct PromptCache {
    rules: Rules,
    now: f64,
    /// A prefix is the prefix before it and a digest. They are numbered as they come, so that equal ones have equal numbers.
    nodes: FxHashMap<(usize, String), usize>,
    /// The time at which each is dropped, by number.
    expires: Vec<f64>,
}

impl PromptCache {
    /// A cache that knows no prompt.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, now: 0.0, nodes: FxHashMap::default(), expires: vec![-1.0] }
    }

    /// The tokens of a prompt that are read and written, if it comes `after` seconds later. It is kept from now on.
    ///
    /// # Errors
    /// [`Error::Argument`] for more marks than a provider takes, where marks count.
    pub fn send(&mut self, segments: &[Segment<'_>], after: f64) -> Result<(i64, i64)> {
        let marks = segments.iter().filter(|segment| segment.marked).count();
        if marks > MAX_MARKS && !self.rules.automatic && self.rules.read_marks <= MAX_MARKS {
            return Err(Error::Argument(format!(
                "a prompt has {marks} breakpoints and the provider takes {MAX_MARKS}; leave out all but {MAX_MARKS}, the \
                 last ones first of all"
            )));
        }
        self.now += after;
        let mut prefix = Prefix::default();
        let mut prefixes = Vec::with_capacity(segments.len());
        for segment in segments {
            let next = self.expires.len();
            prefix.node = *self.nodes.entry((prefix.node, segment.digest.clone().into_owned())).or_insert(next);
            if prefix.node == next {
                self.expires.push(-1.0);
            }
            prefix.tokens += segment.tokens;
            prefix.blocks += segment.blocks;
            prefixes.push(prefix);
        }
        Ok(if self.rules.automatic { self.send_whole(&prefixes) } else { self.send_marked(&prefixes, segments) })
    }

    fn send_marked(&mut self, prefixes: &[Prefix], segments: &[Segment<'_>]) -> (i64, i64) {
        let is_kept = |index: &usize| segments[*index].marked && prefixes[*index].tokens >= self.rules.minimum;
        let marked: Vec<usize> = (0..segments.len()).filter(is_kept).collect();
        let latest = |count: usize| &marked[marked.len().saturating_sub(count)..];
        let found = latest(self.rules.read_marks).iter().filter_map(|&index| self.found_from(prefixes, index)).max();
        for &index in latest(MAX_MARKS).iter().chain(&found) {
            self.keep(prefixes[index]);
        }
        let read = found.map_or(0, |index| prefixes[index].tokens);
        let written = marked.last().map_or(0, |&index| (prefixes[index].tokens - read).max(0));
        (read, written)
    }

    /// The end of the longest kept prefix within reach of a mark.
    fn found_from(&self, prefixes: &[Prefix], mark: usize) -> Option<usize> {
        let reach = |index: &usize| prefixes[*index].blocks + self.rules.lookback > prefixes[mark].blocks;
        (0..=mark).rev().take_while(reach).find(|&index| self.has(prefixes[index]))
    }

    fn send_whole(&mut self, prefixes: &[Prefix]) -> (i64, i64) {
        let shared = prefixes.iter().take_while(|prefix| self.has(**prefix)).last();
        let read = self.kept_of(shared.map_or(0, |prefix| prefix.tokens));
        for &prefix in prefixes {
            self.keep(prefix);
        }
        (read, 0)
    }

    fn kept_of(&self, tokens: i64) -> i64 {
        let whole = tokens - tokens % self.rules.step;
        if whole >= self.rules.minimum { whole } else { 0 }
    }

    fn has(&self, prefix: Prefix) -> bool {
        self.expires[prefix.node] >= self.now
    }

    fn keep(&mut self, prefix: Prefix) {
        self.expires[prefix.node] = self.now + self.rules.lifetime;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKED: Rules =
        Rules { automatic: false, read_marks: 4, lookback: 20, lifetime: 300.0, minimum: 1_000, step: 1 };

    fn segment(digest: &str, tokens: i64, marked: bool) -> Segment<'_> {
        Segment { digest: digest.into(), tokens, blocks: 1, marked, is_message: true }
    }

    #[test]
    fn what_ends_at_a_mark_is_read_until_its_time_is_over() {
        let mut cache = PromptCache::new(MARKED);
        let first = [segment("a", 3_000, true), segment("b", 50, false)];
        assert_eq!(cache.send(&first, 0.0).unwrap(), (0, 3_000));
        assert_eq!(cache.send(&[first[0].clone(), segment("c", 9, true)], 299.0).unwrap(), (3_000, 9));
        assert_eq!(cache.send(&first, 301.0).unwrap(), (0, 3_000));
        assert_eq!(cache.send(&[segment("d", 999, true)], 0.0).unwrap(), (0, 0));
        let marks = vec![segment("a", 3_000, true); 5];
        assert!(cache.send(&marks, 0.0).is_err());
    }

    #[test]
    fn of_many_marks_the_latest_are_written_and_older_ones_are_read() {
        let mut cache = PromptCache::new(Rules { read_marks: 5, lookback: 1, ..MARKED });
        let long: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|digest| segment(digest, 1_000, true)).into();
        assert_eq!(cache.send(&long[..2], 0.0).unwrap(), (0, 2_000));
        assert_eq!(cache.send(&long, 0.0).unwrap(), (2_000, 4_000));
        let mut other = long[..2].to_vec();
        other.extend(["x", "y", "z", "u"].map(|digest| segment(digest, 1_000, true)));
        assert_eq!(cache.send(&other, 0.0).unwrap(), (2_000, 4_000));
        assert_eq!(cache.send(&long[..1], 301.0).unwrap(), (0, 1_000));
        assert_eq!(cache.send(&long, 0.0).unwrap(), (0, 6_000)); // "a" is the sixth from the end
    }

    #[test]
    fn an_automatic_cache_reads_in_steps() {
        let mut cache = PromptCache::new(Rules { automatic: true, step: 128, ..MARKED });
        let first = [segment("a", 1_500, false), segment("b", 100, false)];
        assert_eq!(cache.send(&first, 0.0).unwrap(), (0, 0));
        assert_eq!(cache.send(&[first[0].clone(), segment("c", 100, false)], 1.0).unwrap(), (1_408, 0));
    }
}
