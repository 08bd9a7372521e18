//! The lines that a prompt has already, for Python.
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::caps;

use super::strings::Source;
use crate::errors::detached;
use crate::exit::Running;

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
    /// The runs of lines of a text that were seen, each as long as possible, in order. `seen` is called without the
    /// interpreter's lock, so it may wait for another.
    pub fn all<'a, S: Deref<Target = caps::SeenLines<Seen>> + 'a>(
        py: Python<'_>,
        seen: impl FnOnce() -> S + Send,
        text: &str,
    ) -> PyResult<Vec<Self>> {
        let owned = |caps::Repeat { lines, source, first, is_whole, is_numbered }: caps::Repeat<'_, Seen>| {
            (source.clone(), lines, first, is_whole, is_numbered)
        };
        let found = detached(py, || Ok(seen().repeats(text).into_iter().map(owned).collect::<Vec<_>>()))?;
        let repeat = |(source, lines, first, is_whole, is_numbered): (Seen, _, _, _, _)| {
            let source = source.0.1.clone_ref(py);
            Self { lines, source, first, is_whole, is_numbered }
        };
        Ok(found.into_iter().map(repeat).collect())
    }
}

/// The beginning and the end of a run of lines, their source, the number of the first line there, whether they are all
/// its lines, and whether the numbers before them may differ.
type Found = (usize, usize, Py<PyAny>, usize, bool, bool);

/// The lines of a history, and the runs of them in a new text.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct SeenLines {
    core: Mutex<caps::SeenLines<Seen>>,
}

impl SeenLines {
    /// A stopped call has changed nothing, so its contents are whole.
    fn core(&self) -> MutexGuard<'_, caps::SeenLines<Seen>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl SeenLines {
    #[new]
    fn new(least_characters: usize) -> Self {
        Self { core: Mutex::new(caps::SeenLines::new(least_characters)) }
    }

    fn __len__(&self) -> usize {
        self.core().count() as usize
    }

    /// The first `count` lines; the last of them must be the last of a text.
    fn beginning(&self, count: u32) -> Self {
        Self { core: Mutex::new(self.core().beginning(count)) }
    }

    /// Add the lines of a text, but for these.
    #[pyo3(signature = (text, source, without = Vec::new()))]
    fn add(&self, text: Bound<'_, PyString>, source: Py<PyAny>, without: Vec<(usize, usize)>) -> PyResult<()> {
        let _running = Running::begin();
        let (py, seen) = (text.py(), Seen::new(Source::of(text.clone())?, source));
        detached(py, || {
            self.core().add(&seen, &without);
            Ok(())
        })
    }

    /// Add the long strings of a tool's input. Those that are among the entry's `own` are held as such.
    fn add_input(&self, text: Bound<'_, PyString>, own: Vec<Bound<'_, PyString>>, source: Py<PyAny>) -> PyResult<()> {
        let _running = Running::begin();
        let py = text.py();
        let seen = |text| PyResult::Ok(Seen::new(Source::of(text)?, source.clone_ref(py)));
        let (input, own) = (seen(text)?, own.into_iter().map(seen).collect::<PyResult<Vec<_>>>()?);
        detached(py, || {
            self.core().add_input(&input, &own);
            Ok(())
        })
    }

    /// The runs of lines of a text that were seen, each as long as possible, in order.
    fn repeats(&self, text: Bound<'_, PyString>) -> PyResult<Vec<Found>> {
        let _running = Running::begin();
        let (py, source) = (text.py(), Source::of(text.clone())?);
        let found = Repeat::all(py, || self.core(), source.as_str())?;
        let found = found.into_iter().map(|Repeat { lines, source, first, is_whole, is_numbered }| {
            (lines.start, lines.end, source, first, is_whole, is_numbered)
        });
        Ok(found.collect())
    }
}
