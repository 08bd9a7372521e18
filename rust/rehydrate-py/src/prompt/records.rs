//! Whether a prompt shows an entry or a section, and why: read once for all questions.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rustc_hash::FxHashMap;

use super::rows::{changing_passes, passes_by_id};
use super::{Dropped, Prompt, Source, joined, say};
use crate::convert::NamedTuple;
use crate::exit::Running;
use crate::interned::interned;
use crate::layout::history::{History, Tokens, index_in};

/// The records that a `PromptIR` has of each entry, section and source.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct PromptRecords {
    #[pyo3(get)]
    ir: Py<PyAny>,
    /// By the index of an entry in the caller's list, its position in the history.
    positions: FxHashMap<usize, usize>,
    /// By an id, the tokens of all sections that have it.
    sections: Py<PyDict>,
    /// By an id, the names of the passes that changed it, as a list.
    passes: Py<PyDict>,
    /// By an id, the last `DroppedSection`.
    dropped: Py<PyDict>,
}

#[pymethods]
impl PromptRecords {
    #[new]
    fn new(ir: Bound<'_, PyAny>) -> PyResult<Self> {
        let _running = Running::begin();
        let py = ir.py();
        let mut prompt: Prompt<'_> = ir.extract()?;
        let (sections, dropped) = (PyDict::new(py), PyDict::new(py));
        for section in prompt.sections.iter().chain(&prompt.late_bound) {
            let others: Option<Tokens> = sections.get_item(&section.id)?.map(|tokens| tokens.extract()).transpose()?;
            sections.set_item(&section.id, others.unwrap_or_default() + section.tokens.unwrap_or_default())?;
        }
        for each in ir.getattr(interned!(py, "meta"))?.getattr(interned!(py, "dropped"))?.try_iter()? {
            let each = each?;
            dropped.set_item(each.getattr(interned!(py, "section"))?, each)?;
        }
        let passes = passes_by_id(py, &changing_passes(py, &mut prompt)?)?;
        let positions = History::of(ir.getattr(interned!(py, "history"))?)?.row_of_index()?;
        Ok(Self {
            ir: ir.unbind(),
            positions,
            sections: sections.unbind(),
            passes: passes.unbind(),
            dropped: dropped.unbind(),
        })
    }

    /// The place in the history of the entry with this index in the caller's list.
    fn position(&self, index: usize) -> Option<usize> {
        self.positions.get(&index).copied()
    }

    /// The record under an id, as a `Why`. None if there is none.
    fn why<'py>(&self, id: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _running = Running::begin();
        let py = id.py();
        let of = NamedTuple::of(py, "rehydrate.prompt.reports", "Why")?;
        let made = |shown: &str, reason: Bound<'py, PyString>, tokens: Tokens, omitted: Tokens, handle| {
            of.make([
                id.clone().into_any(),
                PyString::new(py, shown).into_any(),
                reason.into_any(),
                tokens.into_pyobject(py)?.into_any(),
                omitted.into_pyobject(py)?.into_any(),
                handle,
            ])
        };
        let none = py.None().into_bound(py);
        let shown = self.shown_tokens(id)?;
        if let Some(dropped) = self.dropped.bind(py).get_item(id)? {
            let dropped: Dropped<'py> = dropped.extract()?;
            let reason = dropped.why()?;
            let part = if shown.is_some() { "in part" } else { "not" };
            return made(part, reason, shown.unwrap_or_default(), dropped.tokens, dropped.handle).map(Some);
        }
        if let Some(tokens) = shown {
            let mut words = Vec::new();
            if let Some(passes) = self.passes.bind(py).get_item(id)? {
                for name in passes.try_iter()? {
                    words.push(say(py, "changed by {}", (name?,))?);
                }
            }
            let part = if words.is_empty() { "whole" } else { "in part" };
            return made(part, joined(py, "; ", words)?, tokens, 0, none).map(Some);
        }
        let meta = self.ir.bind(py).getattr(interned!(py, "meta"))?;
        for source in meta.getattr(interned!(py, "sources"))?.try_iter()? {
            let source: Source<'py> = source?.extract()?;
            if !source.name.as_any().eq(id)? {
                continue;
            }
            let detail = if source.detail.is_empty()? {
                say(py, "it brought {} sections", (&source.sections,))?
            } else {
                source.detail
            };
            let part = if source.sections.is_truthy()? { "whole" } else { "not" };
            let reason = say(py, "{}: {}", (source.status, detail))?;
            return made(part, reason, source.tokens, 0, none).map(Some);
        }
        Ok(None)
    }
}

impl PromptRecords {
    /// The tokens that the prompt shows under an id. None if it shows nothing.
    fn shown_tokens(&self, id: &Bound<'_, PyString>) -> PyResult<Option<Tokens>> {
        let py = id.py();
        let Some(index) = index_in(id) else {
            return self.sections.bind(py).get_item(id)?.map(|tokens| tokens.extract()).transpose();
        };
        let Some(&position) = self.positions.get(&index) else { return Ok(None) };
        let history = self.ir.bind(py).getattr(interned!(py, "history"))?;
        let tokens = history.getattr(interned!(py, "tokens"))?;
        if position >= tokens.len()? { Ok(None) } else { tokens.get_item(position)?.extract().map(Some) }
    }
}
