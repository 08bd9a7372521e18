//! The law of breakpoints: at most four, each once, in the order of the prompt, each on a static end.
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::prompt_cache::MAX_MARKS;

use super::{Found, Laws, TOOLS};
use crate::interned::interned;

impl<'py> Laws<'py> {
    pub(super) fn breakpoints(&self, found: &mut Found<'py>) -> PyResult<()> {
        let marks = &self.prompt.breakpoints;
        if marks.len() > MAX_MARKS {
            let message = "{} breakpoints, {} are allowed";
            found.add("breakpoints", &marks[marks.len() - 1], message, (marks.len(), MAX_MARKS))?;
        }
        let mut before = None;
        for mark in marks {
            let end = self.end_of(mark)?;
            let problem = match end {
                None => "names nothing in the prompt",
                Some(_) if end == before => "is there twice",
                Some(_) if end < before => "is before the one that precedes it in the list",
                Some(_) if self.is_static_end(mark)? => "",
                Some(_) => "isn't a static end",
            };
            if !problem.is_empty() {
                found.add("breakpoints", mark, "breakpoint {!r} {}", (mark, problem))?;
            }
            before = before.max(end);
        }
        Ok(())
    }

    /// The layer of a breakpoint and the position in it, in the order of the prompt: the tools, the system, the other static
    /// sections, the history, dynamic sections.
    fn end_of(&self, mark: &Bound<'py, PyString>) -> PyResult<Option<(u8, usize)>> {
        if mark == TOOLS {
            return Ok((!self.prompt.tools.is_empty()).then_some((0, 0)));
        }
        if let Some(row) = self.row_of(mark) {
            return Ok(Some((3, row)));
        }
        let Some(position) = self.position(mark)? else { return Ok(None) };
        let layer = match &self.prompt.sections[position] {
            section if section.is_system => 1,
            section if section.is_static => 2,
            _ => 4,
        };
        let sections = self.ir.getattr(interned!(self.ir.py(), "sections"))?;
        let itself = sections.get_item(position)?;
        Ok(Some((layer, sections.call_method1("index", (itself,))?.extract()?)))
    }

    /// Whether everything up to the breakpoint is the same in the next turn.
    ///
    /// A dynamic section without an anchor is before the last user turn, so it moves in the next prompt. Nothing from there on
    /// is static.
    fn is_static_end(&self, mark: &Bound<'py, PyString>) -> PyResult<bool> {
        if let Some(section) = self.section(mark)? {
            return Ok(section.is_static);
        }
        let floats = self.prompt.sections.iter().any(|section| !section.is_static && section.anchor.is_none());
        let (Some(row), true) = (self.row_of(mark), floats) else { return Ok(true) };
        Ok(self.last_user_turn().is_none_or(|last| row < last))
    }
}
