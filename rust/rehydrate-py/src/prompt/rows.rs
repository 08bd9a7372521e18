//! The rows of a prompt's table, in the order in which a provider reads them, then the omitted ones.
use std::collections::{BTreeMap, BTreeSet};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyString};
use rustc_hash::FxHashSet;

use super::{Dropped, Prompt, Section, Trace, joined, say};
use crate::errors::is_no_message;
use crate::exit::Running;
use crate::interned::interned;
use crate::layout::history::{History, Tokens, index_in};
use crate::writing::dict;

/// The rows of a prompt, as `PromptRow`s.
#[pyfunction]
pub fn prompt_rows<'py>(ir: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let _running = Running::begin();
    let py = ir.py();
    let mut prompt: Prompt<'py> = ir.extract()?;
    let changing = changing_passes(py, &mut prompt)?;
    let history = History::of(ir.getattr(interned!(py, "history"))?)?;
    let rows = 0..history.entries.len();
    let mut table = Table {
        py,
        prompt,
        passes: passes_by_id(py, &changing)?,
        changing,
        indices: rows.map(|row| history.entry_index(row)).collect::<PyResult<_>>()?,
        history,
        row: py.import("rehydrate.prompt.reports")?.getattr("PromptRow")?,
        rows: Vec::new(),
    };
    table.add_tools()?;
    table.add_sections_and_history()?;
    table.add_late_bound()?;
    table.add_dropped()?;
    Ok(table.rows)
}

/// Something that was left out, and the index of its entry.
type Gone<'a, 'py> = (usize, &'a Dropped<'py>);

/// Take the passes out of the prompt. Returns those that changed more than the parts with a breakpoint.
pub fn changing_passes<'py>(py: Python<'py>, prompt: &mut Prompt<'py>) -> PyResult<Vec<Trace<'py>>> {
    let marks = PySet::new(py, &prompt.breakpoints)?;
    let mut passes = Vec::new();
    for trace in std::mem::take(&mut prompt.meta.trace) {
        let others = trace.changed.iter().map(|id| marks.contains(id).map(|is_mark| !is_mark));
        if others.collect::<PyResult<Vec<_>>>()?.contains(&true) {
            passes.push(trace);
        }
    }
    Ok(passes)
}

/// By the id of a changed part, a list of the names of passes.
pub fn passes_by_id<'py>(py: Python<'py>, passes: &[Trace<'py>]) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    for trace in passes {
        let ids = PyDict::new(py); // each once
        trace.changed.iter().try_for_each(|id| ids.set_item(id, ()))?;
        for id in ids.keys() {
            match found.get_item(&id)? {
                Some(names) => names.cast::<PyList>()?.append(&trace.name)?,
                None => found.set_item(id, PyList::new(py, [&trace.name])?)?,
            }
        }
    }
    Ok(found)
}

struct Table<'py> {
    py: Python<'py>,
    prompt: Prompt<'py>,
    /// The passes that did more than set breakpoints: those have a column of their own.
    changing: Vec<Trace<'py>>,
    /// By the id of a changed part, a list of their names.
    passes: Bound<'py, PyDict>,
    history: History<'py>,
    /// By row, the index of its entry in the caller's list.
    indices: Vec<usize>,
    /// `PromptRow`
    row: Bound<'py, PyAny>,
    rows: Vec<Bound<'py, PyAny>>,
}

impl<'py> Table<'py> {
    fn add(&mut self, fields: &Bound<'py, PyDict>) -> PyResult<()> {
        self.rows.push(self.row.call((), Some(fields))?);
        Ok(())
    }

    fn is_marked(&self, id: &Bound<'py, PyAny>) -> PyResult<bool> {
        for mark in &self.prompt.breakpoints {
            if mark.as_any().eq(id)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn add_tools(&mut self) -> PyResult<()> {
        let (py, marked) = (self.py, self.is_marked(PyString::new(self.py, "tools").as_any())?);
        let last = self.prompt.tools.len();
        let mut rows = Vec::new();
        for (number, tool) in self.prompt.tools.iter().enumerate() {
            rows.push(dict!(
                py,
                "kind": "tool",
                "id": say(py, "tools.{}", (&tool.name,))?,
                "source": &tool.provenance.source,
                "tokens": tool.tokens.unwrap_or_default(),
                "reason": if tool.is_hosted { "run by the provider" } else { "" },
                "stability": "static",
                "trust": &tool.provenance.trust,
                "breakpoint": marked && number + 1 == last,
                "first": number,
                "last": number,
            ));
        }
        rows.iter().try_for_each(|row| self.add(row))
    }

    /// Add static sections, the system's first; then the history with the dynamic sections.
    fn add_sections_and_history(&mut self) -> PyResult<()> {
        let mut highest = self.indices.clone(); // of this entry and those before it
        for row in 1..highest.len() {
            highest[row] = highest[row].max(highest[row - 1]);
        }
        let (mut system, mut others) = (Vec::new(), Vec::new());
        let mut inserted: BTreeMap<usize, Vec<Bound<'py, PyDict>>> = BTreeMap::new();
        let mut default = None;
        for (number, section) in self.prompt.sections.iter().enumerate() {
            let row = self.section(section, number)?;
            if section.is_static {
                let layer = if section.is_system { &mut system } else { &mut others };
                layer.push(row);
                continue;
            }
            let before = match section.anchor {
                Some(anchor) => highest.partition_point(|&index| (index as i128) < anchor),
                None => match default {
                    Some(known) => known,
                    None => *default.insert(self.last_user_turn()?),
                },
            };
            inserted.entry(before).or_default().push(row);
        }
        system.iter().chain(&others).try_for_each(|row| self.add(row))?;
        self.add_history(&inserted)
    }

    /// The row of the last user turn; without one, that after the last.
    fn last_user_turn(&self) -> PyResult<usize> {
        let last = match self.history.last_user_row() {
            Err(error) if is_no_message(self.py, &error)? => None,
            last => last?,
        };
        Ok(last.unwrap_or(self.history.entries.len()))
    }

    fn section(&self, section: &Section<'py>, number: usize) -> PyResult<Bound<'py, PyDict>> {
        let py = self.py;
        let passes = PyDict::new(py); // each once, in order
        if let Some(names) = self.passes.get_item(&section.id)? {
            names.try_iter()?.try_for_each(|name| passes.set_item(name?, ()))?;
        }
        let mut reasons = Vec::new();
        if !passes.is_empty() {
            let names = passes.keys().iter().map(|name| Ok(name.cast_into()?)).collect::<PyResult<_>>()?;
            reasons.push(say(py, "passes: {}", (joined(py, ", ", names)?,))?);
        }
        let value = |of: &Bound<'py, PyAny>| of.getattr(interned!(py, "value"));
        if section.must_stay_whole {
            let is_critical = section.priority.ge(4)?;
            let why = if is_critical { PyString::new(py, "critical").into_any() } else { value(&section.mode)? };
            reasons.push(say(py, "always whole: {}", (why,))?);
        }
        Ok(dict!(
            py,
            "kind": "section",
            "id": &section.id,
            "source": &section.provenance.source,
            "tokens": section.tokens.unwrap_or_default(),
            "reason": joined(py, "; ", reasons)?,
            "priority": section.priority.getattr("name")?.call_method0("lower")?,
            "mode": value(&section.mode)?,
            "stability": value(&section.stability)?,
            "position": value(&section.position)?,
            "trust": &section.provenance.trust,
            "relevance": &section.relevance,
            "min_tokens": section.min_tokens,
            "breakpoint": self.is_marked(&section.id)?,
            "handle": &section.handle,
            "first": number,
            "last": number,
        ))
    }

    /// Add runs of entries. A run ends before an inserted section and after a breakpoint.
    fn add_history(&mut self, inserted: &BTreeMap<usize, Vec<Bound<'py, PyDict>>>) -> PyResult<()> {
        let (py, size) = (self.py, self.history.entries.len());
        let marks: FxHashSet<usize> = self.prompt.breakpoints.iter().filter_map(index_in).collect();
        let indices = self.indices.clone();
        let mut edges = BTreeSet::from([0, size]);
        edges.extend(inserted.keys().copied());
        edges.extend((0..size).filter(|&row| marks.contains(&indices[row])).map(|row| row + 1));
        let ids = self.changing.iter().flat_map(|trace| &trace.changed);
        let changed_ids: FxHashSet<usize> = ids.filter_map(index_in).collect();
        let edges: Vec<usize> = edges.into_iter().collect();
        for (number, &begin) in edges.iter().enumerate() {
            inserted.get(&begin).into_iter().flatten().try_for_each(|row| self.add(row))?;
            let Some(&end) = edges.get(number + 1) else { break };
            let (first, last, count) = (indices[begin], indices[end - 1], end - begin);
            let changed = indices[begin..end].iter().filter(|index| changed_ids.contains(index)).count();
            let mut words = Vec::new();
            if count > 1 {
                words.push(say(py, "{:,} entries", (count,))?);
            }
            if changed > 0 {
                words.push(say(py, "{:,} changed by passes", (changed,))?);
            }
            let row = dict!(
                py,
                "kind": "history",
                "id": self.run(first, last, count)?,
                "source": "history",
                "tokens": self.history.tokens_of(begin..end)?,
                "reason": joined(py, ", ", words)?,
                "stability": "static",
                "breakpoint": marks.contains(&last),
                "first": begin,
                "last": end - 1,
                "entries": count,
            );
            self.add(&row)?;
        }
        Ok(())
    }

    /// One name for this many entries: `history[4-17]`, or with gaps `history[4..17]`.
    fn run(&self, first: usize, last: usize, count: usize) -> PyResult<Bound<'py, PyAny>> {
        if first == last {
            return self.history.id_of(first);
        }
        let between = if last - first >= count { ".." } else { "-" };
        Ok(PyString::new(self.py, &format!("history[{first}{between}{last}]")).into_any())
    }

    fn add_late_bound(&mut self) -> PyResult<()> {
        let mut rows = Vec::new();
        for (number, section) in self.prompt.late_bound.iter().enumerate() {
            let row = self.section(section, number)?;
            let reason = "asked for by the model, in the result of {}";
            row.set_item("kind", "late_bound")?;
            row.set_item("reason", say(self.py, reason, (&section.tool_call_id,))?)?;
            rows.push(row);
        }
        rows.iter().try_for_each(|row| self.add(row))
    }

    /// Add the omitted ones. Entries that went for one reason are one run.
    fn add_dropped(&mut self) -> PyResult<()> {
        let py = self.py;
        let sections = PySet::new(py, self.prompt.sections.iter().map(|section| &section.id))?;
        let kept: BTreeSet<usize> = self.indices.iter().copied().collect();
        let mut made = Vec::new();
        let mut run: Vec<Gone<'_, 'py>> = Vec::new();
        for dropped in &self.prompt.meta.dropped {
            let index = index_in(&dropped.section);
            let is_cut = sections.contains(&dropped.section)? || index.is_some_and(|index| kept.contains(&index));
            let entry = index.filter(|_| !is_cut);
            if let Some(last) = run.last() {
                let continues = match entry {
                    Some(index) => goes_on(last, index, dropped, &kept)?,
                    None => false,
                };
                if !continues {
                    made.push(self.dropped_run(&run)?);
                    run.clear();
                }
            }
            if let Some(index) = entry {
                run.push((index, dropped));
                continue;
            }
            made.push(dict!(
                py,
                "kind": if is_cut { "cut" } else { "dropped" },
                "id": &dropped.section,
                "source": &dropped.by,
                "tokens": dropped.tokens,
                "reason": &dropped.reason,
                "priority": &dropped.priority,
                "handle": &dropped.handle,
            ));
        }
        if !run.is_empty() {
            made.push(self.dropped_run(&run)?);
        }
        made.iter().try_for_each(|row| self.add(row))
    }

    fn dropped_run(&self, run: &[Gone<'_, 'py>]) -> PyResult<Bound<'py, PyDict>> {
        let py = self.py;
        let ((first, dropped), (last, _)) = (run[0], run[run.len() - 1]);
        let mut words = Vec::new();
        if run.len() > 1 {
            words.push(say(py, "{:,} entries", (run.len(),))?);
        }
        words.push(dropped.why()?);
        Ok(dict!(
            py,
            "kind": "dropped",
            "id": self.run(first, last, run.len())?,
            "source": "history",
            "tokens": run.iter().map(|(_, each)| each.tokens).sum::<Tokens>(),
            "reason": joined(py, "; ", words)?,
            "priority": &dropped.priority,
            "handle": (run.len() == 1).then_some(&dropped.handle),
            "first": first,
            "last": last,
            "entries": run.len(),
        ))
    }
}

/// Whether an entry went for the same reason as the last one of a run, with no kept entry between.
fn goes_on(last: &Gone<'_, '_>, index: usize, dropped: &Dropped<'_>, kept: &BTreeSet<usize>) -> PyResult<bool> {
    let (before, one) = *last;
    let pairs = [(&one.reason, &dropped.reason), (&one.by, &dropped.by), (&one.priority, &dropped.priority)];
    for (was, is) in pairs {
        if was.as_any().ne(is)? {
            return Ok(false);
        }
    }
    Ok(index > before && kept.range(before..index).next().is_none())
}
