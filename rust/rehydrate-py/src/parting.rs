//! Parallel calls, parted: an assistant message with several calls becomes several messages with one call each, every
//! one before its own result. That is a valid conversation, so the whole compaction works on it as on any other. At the
//! end the kept parts are joined again.
//!
//! Some messages are never parted, as they must stay together: those with thinking (also if it is stripped) or a
//! signature, calls without results, calls of which some were made after the results of others, results with the user's
//! own text, server tools, and those that the model has not answered yet. LangChain's messages are not parted: they
//! hold each call up to three times.
mod anthropic;
mod chat;
mod claude_code;
mod groups;
mod responses;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::convert::indices_in;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{Conversation, Draft, part_key};
use groups::{Group, Part, with_field};

/// A conversation's entries with parallel calls parted. A place is an index of this list, an origin one of the caller.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Parted {
    #[pyo3(get)]
    format: String,
    /// The caller's list.
    #[pyo3(get)]
    originals: Py<PyAny>,
    #[pyo3(get)]
    entries: Py<PyTuple>,
    /// Place -> origin.
    origins: Vec<usize>,
    /// Place of a message's part -> the positions of its blocks in the whole.
    blocks: FxHashMap<usize, Vec<usize>>,
    /// The origins that were parted: of a message and its results.
    #[pyo3(get)]
    spans: Vec<(usize, usize)>,
    /// The origins that the caller pinned: they are whole.
    pinned: FxHashSet<usize>,
    /// The number of parts of each origin.
    part_counts: FxHashMap<usize, usize>,
}

/// Origins, their entries, and the place of an outline: its position, and the origin that it replaces.
type Merged<'py> = (Vec<usize>, Vec<Bound<'py, PyAny>>, Option<(usize, usize)>);

#[pymethods]
impl Parted {
    /// Part the parallel calls of a conversation. None if it has none that may be parted.
    #[staticmethod]
    fn of(
        conversation: &Conversation,
        entries: &Bound<'_, PyAny>,
        pinned: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Self>> {
        let _running = Running::begin();
        Self::part(conversation, entries, indices_in(pinned)?)
    }

    /// Part the same messages once more, read again.
    fn again(&self, conversation: &Conversation, entries: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let _running = Running::begin();
        Self::part(conversation, entries, self.pinned.clone())
    }

    /// The parted conversation.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _running = Running::begin();
        let format = py.import("rehydrate.formats")?.getattr("FORMATS")?.get_item(&self.format)?;
        format.call_method1("parse", (&self.entries,))
    }

    /// Place -> origin.
    #[getter]
    fn origins<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.origins)
    }

    /// The places of messages of which only a part is there.
    #[getter]
    fn blocks(&self) -> Vec<usize> {
        self.blocks.keys().copied().collect()
    }

    /// The places of these messages.
    fn places(&self, origins: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        let _running = Running::begin();
        let origins = indices_in(origins)?;
        Ok((0..self.origins.len()).filter(|&place| origins.contains(&self.origins[place])).collect())
    }

    /// For each place, the whole message as it came in.
    fn whole_entries<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let _running = Running::begin();
        self.origins.iter().map(|&origin| self.originals.bind(py).get_item(origin)).collect()
    }

    /// The kept messages of which only a part is there, and their number; after them the same messages joined. Some
    /// counters round up, so parts may cost more.
    fn both_ways(&self, py: Python<'_>, conversation: &Conversation, kept: Vec<bool>) -> (Conversation, usize) {
        let of = &conversation.columns;
        let mut of_origin: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut number: FxHashMap<usize, usize> = FxHashMap::default();
        for (at, row) in of.of.rows.iter().enumerate() {
            if kept.get(at) == Some(&true) && self.blocks.contains_key(&row.index) {
                let origin = self.origins[row.index];
                let group = *number.entry(origin).or_insert(of_origin.len());
                if group == of_origin.len() {
                    of_origin.push((origin, Vec::new()));
                }
                of_origin[group].1.push(at);
            }
        }
        let mut draft = Draft::default();
        for &at in of_origin.iter().flat_map(|(_, group)| group) {
            draft.copy(py, &of.of, at);
        }
        let parts = draft.len();
        for (_, group) in &of_origin {
            group.iter().for_each(|&at| draft.copy(py, &of.of, at));
            draft.join_last(group.len());
        }
        (Conversation::alone(draft), parts)
    }

    /// The number of messages that are gone, and of those that are kept in part.
    fn counts(&self, conversation: &Conversation, kept: Vec<bool>) -> (usize, usize) {
        let (mut all, mut left) = (FxHashMap::default(), FxHashMap::default());
        for (row, is_kept) in conversation.columns.of.rows.iter().zip(kept) {
            let origin = self.origins[row.index];
            *all.entry(origin).or_insert(0) += 1;
            if is_kept {
                *left.entry(origin).or_insert(0) += 1;
            }
        }
        let partial = left.iter().filter(|&(origin, count)| *count < all[origin]).count();
        (all.len() - left.len(), partial)
    }

    /// The origins and the entries, with the kept parts put together.
    ///
    /// `outline` is the position of an outline, and its place. One between two parts of a message goes after its
    /// results.
    fn merged<'py>(
        &self,
        py: Python<'py>,
        places: Vec<usize>,
        entries: Vec<Bound<'py, PyAny>>,
        outline: Option<(usize, usize)>,
    ) -> PyResult<Merged<'py>> {
        let _running = Running::begin();
        if places.iter().any(|&place| place >= self.origins.len()) {
            return Err(PyIndexError::new_err("a place that is not in the list"));
        }
        let mut row: Vec<_> = places.into_iter().zip(entries).collect();
        let written = outline.filter(|&(position, _)| position < row.len()).map(|(position, _)| row.remove(position).1);
        let mut kept: FxHashMap<usize, Vec<(usize, Bound<'py, PyAny>)>> = FxHashMap::default();
        for (place, entry) in &row {
            kept.entry(self.origins[*place]).or_default().push((*place, entry.clone()));
        }
        let mut origins: Vec<usize> = kept.keys().copied().collect();
        origins.sort_unstable();
        let mut found = Vec::with_capacity(origins.len() + 1);
        for origin in &origins {
            found.push(self.whole(py, *origin, &kept[origin])?);
        }
        let (Some((position, place)), Some(written)) = (outline, written) else { return Ok((origins, found, None)) };
        let before: FxHashSet<usize> = row[..position].iter().map(|(place, _)| self.origins[*place]).collect();
        let mut position = origins.iter().rposition(|origin| before.contains(origin)).map_or(0, |last| last + 1);
        for &(start, end) in &self.spans {
            if 0 < position && position < origins.len() && (start..end).contains(&origins[position - 1]) {
                position = origins.partition_point(|&origin| origin < end);
            }
        }
        let origin =
            self.origins.get(place).copied().ok_or_else(|| PyIndexError::new_err("no place for an outline"))?;
        origins.insert(position, origin);
        found.insert(position, written);
        Ok((origins, found, Some((position, origin))))
    }
}

impl Parted {
    fn part(
        conversation: &Conversation,
        entries: &Bound<'_, PyAny>,
        pinned: FxHashSet<usize>,
    ) -> PyResult<Option<Self>> {
        let py = entries.py();
        let find = match conversation.format_name() {
            "anthropic" => anthropic::groups,
            "openai_chat" => chat::groups,
            "claude_code" => claude_code::groups,
            "openai_responses" => responses::groups,
            _ => return Ok(None),
        };
        let all: Vec<Bound<'_, PyAny>> = entries.try_iter()?.collect::<PyResult<_>>()?;
        let mut groups = find(&all, &conversation.columns)?;
        groups.retain(|group| (group.start..group.end).all(|origin| !pinned.contains(&origin)));
        if groups.is_empty() {
            return Ok(None);
        }
        let spans = groups.iter().map(|group| (group.start, group.end)).collect();
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(all.len() + groups.len());
        let mut end = 0;
        let rest = |from: usize, to: usize| (from..to).map(|index| Part::whole(index, all[index].clone()));
        for Group { start, end: after, parts: of_it } in groups {
            parts.extend(rest(end, start));
            parts.extend(of_it);
            end = after;
        }
        parts.extend(rest(end, all.len()));
        let blocks = parts.iter_mut().enumerate().filter(|(_, part)| !part.blocks.is_empty());
        let blocks = blocks.map(|(place, part)| (place, std::mem::take(&mut part.blocks))).collect();
        let origins: Vec<usize> = parts.iter().map(|part| part.origin).collect();
        let mut part_counts = FxHashMap::default();
        origins.iter().for_each(|&origin| *part_counts.entry(origin).or_insert(0) += 1);
        let entries_of = PyTuple::new(py, parts.into_iter().map(|part| part.entry))?;
        Ok(Some(Self {
            format: conversation.format_name().to_owned(),
            originals: entries.clone().unbind(),
            entries: entries_of.unbind(),
            origins,
            blocks,
            spans,
            pinned,
            part_counts,
        }))
    }

    /// The message of these kept parts, each with its place.
    fn whole<'py>(
        &self,
        py: Python<'py>,
        origin: usize,
        parts: &[(usize, Bound<'py, PyAny>)],
    ) -> PyResult<Bound<'py, PyAny>> {
        let (original, entries) = (self.originals.bind(py).get_item(origin)?, self.entries.bind(py));
        let is_unchanged =
            |(place, entry): &(usize, Bound<'py, PyAny>)| entries.get_item(*place).is_ok_and(|part| part.is(entry));
        if Some(&parts.len()) == self.part_counts.get(&origin) && parts.iter().all(is_unchanged) {
            return Ok(original);
        }
        let Some((place, first)) = parts.first() else { return Ok(original) };
        if self.blocks.contains_key(place) {
            let is_chat = self.format == "openai_chat";
            let key = if is_chat { interned!(py, "tool_calls") } else { interned!(py, "content") };
            let mut kept = Vec::new();
            for (place, entry) in parts {
                let (positions, blocks) = (&self.blocks[place], entry.get_item(key)?);
                if blocks.len()? != positions.len() {
                    return Err(PyValueError::new_err("a part with another number of blocks"));
                }
                for (position, block) in positions.iter().zip(blocks.try_iter()?) {
                    kept.push((*position, block?));
                }
            }
            kept.sort_by_key(|(position, _)| *position);
            let blocks = PyList::new(py, kept.into_iter().map(|(_, block)| block))?;
            return Ok(with_field(first, key, blocks.as_any())?.into_any());
        }
        if self.format == "claude_code" && !entries.get_item(*place)?.is(&original) {
            let line = first.cast::<PyDict>()?.copy()?;
            line.del_item(part_key(py))?;
            return Ok(line.into_any());
        }
        Ok(first.clone())
    }
}
