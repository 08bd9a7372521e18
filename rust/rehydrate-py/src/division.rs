//! The blocks of long texts, for Python.
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyString};
use rehydrate_core::excerpts::{self, Run, Shown};

use crate::convert::Text;
use crate::errors::detached;
use crate::exit::Running;
use crate::reading::Source;

/// The blocks of a text that is long enough to be divided.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Division {
    core: Arc<excerpts::Division>,
}

/// The beginning and the end of a block in characters, its size in the measure, and the numbers of its first and last
/// line or element.
type Block = (usize, usize, usize, usize, usize);

/// A run's text, its shown form, and whether it is kept.
type ShownRun<'py> = (Bound<'py, PyString>, Bound<'py, PyString>, bool);

#[pymethods]
impl Division {
    /// The unit in which its blocks are counted: lines, elements, members or characters.
    #[getter]
    fn measure(&self) -> &'static str {
        self.core.measure.name()
    }

    #[getter]
    fn blocks(&self) -> Vec<Block> {
        let row = |block: &excerpts::Block| (block.chars.start, block.chars.end, block.count, block.first, block.last);
        self.core.blocks.iter().map(row).collect()
    }

    /// The kept blocks of the text unchanged, with a mark on a line of its own for each gap.
    #[pyo3(signature = (text, kept, handle=""))]
    fn render<'py>(
        &self,
        text: Bound<'py, PyString>,
        kept: &Bound<'py, PyAny>,
        handle: &str,
    ) -> PyResult<Bound<'py, PyString>> {
        let _running = Running::begin();
        self.shown(&text, &self.flags(kept)?, handle)
    }

    /// Each run of neighbours that are all kept or all left out: its text, its shown form, and whether it is kept.
    fn runs<'py>(
        &self,
        py: Python<'py>,
        text: Bound<'py, PyString>,
        kept: &Bound<'py, PyAny>,
        handle: Text,
    ) -> PyResult<Vec<ShownRun<'py>>> {
        let _running = Running::begin();
        let (kept, source) = (self.flags(kept)?, self.read(&text)?);
        let row = |run: &Run| {
            let part = self.part(&text, &source, run)?;
            let shown =
                if run.is_kept { part.clone() } else { PyString::new(py, &self.core.mark(run, handle.as_str())) };
            Ok((part, shown, run.is_kept))
        };
        self.core.runs(&kept).iter().map(row).collect()
    }
}

impl Division {
    pub fn of(core: Arc<excerpts::Division>) -> Self {
        Self { core }
    }

    /// The blocks of the text that are kept, and a mark on a line of its own for each gap.
    pub fn shown<'py>(
        &self,
        text: &Bound<'py, PyString>,
        kept: &[bool],
        handle: &str,
    ) -> PyResult<Bound<'py, PyString>> {
        let (py, source) = (text.py(), self.read(text)?);
        let shown = self.core.shown(source.as_str(), kept, handle);
        let parts = shown.iter().map(|shown| match shown {
            Shown::Text(run) => self.part(text, &source, run),
            Shown::Mark(mark) => Ok(PyString::new(py, mark)),
        });
        joined(py, parts.collect::<PyResult<_>>()?)
    }

    /// Whether each block is kept: any list of one truth a block.
    fn flags(&self, kept: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let flags = kept.try_iter()?.map(|flag| flag?.is_truthy()).collect::<PyResult<Vec<_>>>()?;
        if flags.len() == self.core.blocks.len() {
            return Ok(flags);
        }
        Err(PyValueError::new_err(format!("{} flags for {} blocks", flags.len(), self.core.blocks.len())))
    }

    /// The text, which must be the one that was divided.
    fn read(&self, text: &Bound<'_, PyString>) -> PyResult<Source> {
        let source = Source::of(text.clone())?;
        let end = self.core.blocks.last().map_or(0, |block| block.bytes.end);
        if source.as_str().len() == end
            && self.core.blocks.iter().all(|block| source.as_str().is_char_boundary(block.bytes.start))
        {
            return Ok(source);
        }
        Err(PyValueError::new_err("another text than the one that was divided"))
    }

    /// The part of the text that a run is, lone surrogates included.
    fn part<'py>(&self, text: &Bound<'py, PyString>, source: &Source, run: &Run) -> PyResult<Bound<'py, PyString>> {
        let (bytes, chars) = self.core.span(run);
        match source {
            Source::Replaced(..) => sliced(text, chars.start, chars.end),
            source => Ok(PyString::new(text.py(), &source.as_str()[bytes])),
        }
    }
}

/// The characters of a string from `start` up to `end`.
pub fn sliced<'py>(text: &Bound<'py, PyString>, start: usize, end: usize) -> PyResult<Bound<'py, PyString>> {
    let (start, end) = (isize::try_from(start)?, isize::try_from(end)?);
    Ok(text.get_item(PySlice::new(text.py(), start, end, 1))?.cast_into()?)
}

fn joined<'py>(py: Python<'py>, parts: Vec<Bound<'py, PyString>>) -> PyResult<Bound<'py, PyString>> {
    Ok(PyString::new(py, "").call_method1("join", (parts,))?.cast_into()?)
}

/// The blocks of a text that is long enough to be divided.
#[pyfunction]
pub fn divide(py: Python<'_>, text: Text) -> PyResult<Option<Division>> {
    let _running = Running::begin();
    detached(py, || Ok(excerpts::divide(text.as_str()).map(|found| Division::of(Arc::new(found)))))
}

/// The mark for a gap. The handle says where a memory has the whole text.
#[pyfunction]
#[pyo3(signature = (measure, count, first, last, handle=""))]
pub fn mark(measure: &str, count: usize, first: usize, last: usize, handle: &str) -> String {
    excerpts::mark(measure, count, first, last, handle)
}
