//! Lines of transcripts that are no longer in the conversation: taken back by the user, or repeated.
use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PyList};
use rustc_hash::FxHashSet;

use super::codex::{codex_line, codex_lines, codex_turns_taken_back};
use super::fields::{Fields, listed};
use super::strings::Id;
use super::transcript::{line_is_seen, transcript_branch};
use crate::exit::Running;
use crate::interned::interned;

/// The indices of lines that the model may have seen before the user took them back, and of Codex's events by which the
/// user did so: both go together. None in other formats.
#[pyfunction]
pub fn taken_back<'py>(entries: &Bound<'py, PyAny>, format: &str) -> PyResult<Bound<'py, PyFrozenSet>> {
    let _running = Running::begin();
    let (py, mut gone) = (entries.py(), Vec::new());
    if format == "codex" {
        let there: FxHashSet<usize> = codex_lines(entries)?.into_iter().map(|(index, ..)| index).collect();
        for (index, entry) in entries.try_iter()?.enumerate() {
            let entry = entry?;
            let was_seen = codex_line(&entry, index)?.is_some() && !there.contains(&index);
            if was_seen || codex_turns_taken_back(&entry)? > 0 {
                gone.push(index);
            }
        }
    } else if format == "claude_code" {
        let lines = listed(Some(entries))?.into_iter().enumerate();
        let (places, lines): (Vec<usize>, Vec<_>) = lines.filter(|(_, line)| Fields::of(line).is_some()).unzip();
        if let Some(branch) = transcript_branch(PyList::new(entries.py(), &lines)?.as_any())? {
            let there: FxHashSet<usize> = branch.into_iter().collect();
            for (number, line) in lines.iter().enumerate() {
                if !there.contains(&number) && line_is_seen(line)? {
                    gone.push(places[number]);
                }
            }
        }
    }
    PyFrozenSet::new(py, gone)
}

/// The indices of Claude Code's lines that have the uuid of an earlier line. None in other formats.
#[pyfunction]
pub fn repeated<'py>(entries: &Bound<'py, PyAny>, format: &str) -> PyResult<Bound<'py, PyFrozenSet>> {
    let _running = Running::begin();
    let (py, mut seen, mut found) = (entries.py(), FxHashSet::default(), Vec::new());
    let lines = if format == "claude_code" { listed(Some(entries))? } else { Vec::new() };
    for (index, line) in lines.iter().enumerate() {
        let Some(fields) = Fields::of(line) else { continue };
        if line_is_seen(line)?
            && let Some(uuid) = fields.text(interned!(py, "uuid"))?
            && !seen.insert(Id::of(uuid)?.as_bytes().to_vec())
        {
            found.push(index);
        }
    }
    PyFrozenSet::new(py, found)
}
