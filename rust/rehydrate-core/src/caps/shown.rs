//! The shown part of a capped text, as a cache holds it: each turn caps the results of a history again.
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::code_points::{decoded, encoded};
use super::cut::{Capped, Options, cap};
use super::kinds::Kind;
use crate::cache::{Cached, ContentHash, bytes_hash};

/// The shown part of a text.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    /// UTF-8, as [`encoded`](super::encoded) writes it.
    pub body: Vec<u8>,
    pub kind: Kind,
    /// Tokens that are left out.
    pub omitted: i64,
}

/// The notice that `omitted` tokens are missing, and the handle of the whole. Nothing ever reads a notice: one that is in a
/// content is content like any other.
#[must_use]
pub fn notice(omitted: i64, handle: &[u8]) -> Vec<u8> {
    let text =
        format!("\n\n[truncated: {omitted} tokens omitted. call again with stricter filters to see specific parts.]");
    let kept = if handle.is_empty() { Vec::new() } else { [b"\n[kept whole as ".as_slice(), handle, b"]"].concat() };
    [text.into_bytes(), kept].concat()
}

/// The shown part of a text. None if the text fits whole.
#[derive(Debug, Clone)]
pub(crate) struct CachedShown(pub Option<Arc<Shown>>);

impl Cached for CachedShown {
    fn held_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |shown| size_of::<Shown>() + shown.body.len())
    }
}

impl CachedShown {
    /// The cache key of a text capped with these options.
    pub(crate) fn key(text: &[u8], options: &Options<'_>) -> ContentHash {
        let mut hasher = rustc_hash::FxHasher::default();
        (options.counter, options.limit, options.notice, options.rows, options.log_lines).hash(&mut hasher);
        options.tool.hash(&mut hasher);
        bytes_hash(text, hasher.finish())
    }

    pub(crate) fn of(text: &[u8], options: &Options<'_>) -> Self {
        let shown = |Capped { body, kind, omitted }| Arc::new(Shown { body: encoded(&body), kind, omitted });
        Self(cap(&decoded(text), options).map(shown))
    }
}
