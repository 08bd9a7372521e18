//! The lines that a prompt has already, of texts of Python's.
use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;
use rehydrate_core::caps;

use super::strings::Source;
use crate::errors::detached;

/// A text, and its source.
#[derive(Clone)]
pub struct Seen(Arc<(Source, Py<PyAny>)>);

impl AsRef<str> for Seen {
    fn as_ref(&self) -> &str {
        self.0.0.as_str()
    }
}

impl Seen {
    pub fn new(text: Source, source: Py<PyAny>) -> Self {
        Self(Arc::new((text, source)))
    }
}

/// Lines of a text that an earlier text has too.
pub struct Repeat {
    pub lines: Range<usize>,
    /// The entry or text that the lines were seen in first.
    pub source: Py<PyAny>,
    /// The number of the first of these lines in the source, counted from 1.
    pub first: usize,
    /// Whether they are all lines of the source.
    pub is_whole: bool,
    /// Whether the numbers before the lines may differ.
    pub is_numbered: bool,
}

impl Repeat {
    /// The runs of lines of a text that were seen, each as long as possible, in order.
    pub fn all(py: Python<'_>, seen: &caps::SeenLines<Seen>, text: &str) -> PyResult<Vec<Self>> {
        let owned = |caps::Repeat { lines, source, first, is_whole, is_numbered }: caps::Repeat<'_, Seen>| {
            (source.clone(), lines, first, is_whole, is_numbered)
        };
        let found = detached(py, || Ok(seen.repeats(text).into_iter().map(owned).collect::<Vec<_>>()))?;
        let repeat = |(source, lines, first, is_whole, is_numbered): (Seen, _, _, _, _)| {
            let source = source.0.1.clone_ref(py);
            Self { lines, source, first, is_whole, is_numbered }
        };
        Ok(found.into_iter().map(repeat).collect())
    }
}
