//! The lines that a prompt has already, for Python.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use rehydrate_core::caps::{self, Repeat};

use crate::convert::Text;
use crate::errors::detached;

/// A text, and what it is from.
#[derive(Clone)]
struct Seen(Arc<(Text, Py<PyAny>)>);

impl AsRef<str> for Seen {
    fn as_ref(&self) -> &str {
        self.0.0.as_str()
    }
}

/// Where a run of lines begins and ends, what they are from, the number of the first there, whether they are all lines of
/// it, and whether the numbers before them may differ.
type Found = (usize, usize, Py<PyAny>, usize, bool, bool);

/// The lines of a history, and the runs of them in a new text.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct SeenLines {
    core: Mutex<caps::SeenLines<Seen>>,
}

impl SeenLines {
    /// A stopped call has changed nothing, so what it held is whole.
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
    fn add(&self, py: Python<'_>, text: Text, source: Py<PyAny>, without: Vec<(usize, usize)>) -> PyResult<()> {
        let seen = Seen(Arc::new((text, source)));
        detached(py, || Ok(self.core().add(&seen, &without)))
    }

    /// Add the long strings of a tool's input; those that are among the entry's `own` are held as such.
    fn add_input(&self, py: Python<'_>, text: Text, own: Vec<Text>, source: Py<PyAny>) -> PyResult<()> {
        let seen = |text| Seen(Arc::new((text, source.clone_ref(py))));
        let (input, own) = (seen(text), own.into_iter().map(seen).collect::<Vec<_>>());
        detached(py, || Ok(self.core().add_input(&input, &own)))
    }

    /// The runs of lines of a text that were seen, each as long as possible, in order.
    fn repeats(&self, py: Python<'_>, text: Text) -> PyResult<Vec<Found>> {
        let owned = |Repeat { lines, source, first, is_whole, is_numbered }: Repeat<'_, Seen>| {
            (lines, source.clone(), first, is_whole, is_numbered)
        };
        let found = detached(py, || Ok(self.core().repeats(text.as_str()).into_iter().map(owned).collect::<Vec<_>>()))?;
        let found = found.into_iter().map(|(lines, source, first, is_whole, is_numbered)| {
            (lines.start, lines.end, source.0.1.clone_ref(py), first, is_whole, is_numbered)
        });
        Ok(found.collect())
    }
}
