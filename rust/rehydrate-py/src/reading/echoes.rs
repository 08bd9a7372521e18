//! Repeats in the tool results of a history, found once for each message and kept for the next prompt.
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rehydrate_core::caps::SeenLines;
use rehydrate_core::conversation::PieceKind;
use rustc_hash::FxHasher;

use super::conversation::Conversation;
use super::results::{ResultText, ToolNames, is_long, long_strings, source_of};
use super::seen_lines::{Repeat, Seen};
use super::shortened::{How, ShortenedText};
use super::strings::Source;
use crate::convert::{bytes_of, first_characters, string_of};
use crate::errors::detached;
use crate::exit::Running;
use crate::interned::interned;

/// The number of conversations that are remembered.
const MAX_CONVERSATIONS: usize = 8;
/// Characters of a role that are shown.
const LONGEST_ROLE: usize = 40;

/// The hashes of a history's messages.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct RowHashes(Vec<u64>);

/// One conversation, read message by message. Each message's echoes only depend on earlier messages.
struct Reading {
    format: String,
    seen: SeenLines<Seen>,
    tools: ToolNames,
    hashes: Vec<u64>,
    /// The number of lines that were seen before each message, and the message's echoes.
    rows: Vec<(u32, Vec<Py<ShortenedText>>)>,
}

impl Reading {
    fn new(format: String, least: usize) -> Self {
        let (tools, hashes, rows) = (ToolNames::default(), Vec::new(), Vec::new());
        Self { format, seen: SeenLines::new(least), tools, hashes, rows }
    }

    /// The number of first messages that both conversations have.
    fn shared(&self, hashes: &[u64]) -> usize {
        self.hashes.iter().zip(hashes).take_while(|(one, other)| one == other).count()
    }

    /// The first `count` messages of this conversation.
    fn beginning(&self, py: Python<'_>, count: usize) -> Self {
        let lines = self.rows.get(count).map_or(self.seen.count(), |(lines, _)| *lines);
        let row = |(lines, echoes): &(u32, Vec<Py<ShortenedText>>)| {
            (*lines, echoes.iter().map(|echo| echo.clone_ref(py)).collect())
        };
        Self {
            format: self.format.clone(),
            seen: self.seen.beginning(lines),
            tools: self.tools.beginning(py, count),
            hashes: self.hashes[..count].to_vec(),
            rows: self.rows[..count].iter().map(row).collect(),
        }
    }
}

/// The history that is looked through.
struct Looked<'a, 'py> {
    rows: &'a Conversation,
    entries: &'a Bound<'py, PyTuple>,
    /// The format's function for the places of the texts of an entry.
    places: &'a Bound<'py, PyAny>,
    /// The positions of the entries that an earlier pass has changed.
    changed: HashSet<usize>,
}

impl Looked<'_, '_> {
    /// The hash of a message.
    fn hash(&self, py: Python<'_>, at: usize) -> PyResult<u64> {
        let (columns, row, mut hasher) = (&self.rows.columns, &self.rows.all()[at], FxHasher::default());
        let state = (row.index, row.images, row.is_user_turn, self.changed.contains(&row.index));
        (state, columns.of.roles[row.role].shown.bind(py).hash()?).hash(&mut hasher);
        for (text, kind) in columns.pieces(at) {
            (*kind as u8).hash(&mut hasher);
            match text {
                Source::Replaced(_, original) => original.bind(py).hash()?.hash(&mut hasher),
                _ => rehydrate_core::cache::content_hash(text.as_str(), 0).hash(&mut hasher),
            }
        }
        for ids in [columns.calls(at), columns.answers(at)] {
            ids.len().hash(&mut hasher);
            ids.iter().for_each(|id| id.as_bytes().hash(&mut hasher));
        }
        Ok(hasher.finish())
    }

    /// Read the message at a position into the conversation; all before it were read.
    fn read(&self, py: Python<'_>, at: usize, hash: u64, into: &mut Reading, least: usize) -> PyResult<()> {
        let (columns, lines) = (&self.rows.columns, into.seen.count());
        into.tools.add(py, columns, at)?;
        let (pieces, index) = (columns.pieces(at), columns.of.rows[at].index);
        let is_any_long = pieces.iter().any(|(text, _)| is_long(text.as_str(), least));
        let entry = self.entries.get_item(index)?;
        let texts =
            if is_any_long { ResultText::all(columns, at, &entry, self.places, &into.tools)? } else { Vec::new() };
        let (mut calls, mut echoes) = (columns.calls(at).iter(), Vec::new());
        for (number, (text, kind)) in pieces.iter().enumerate() {
            match kind {
                PieceKind::ToolInput => {
                    let call = calls.next().map_or_else(|| interned!(py, "").clone(), |call| call.to_py(py));
                    if !is_long(text.as_str(), least) {
                        continue;
                    }
                    let source = string_of(py, &source_of("input", &call, &into.tools.of(py, &call)?)?)?.into_any();
                    let seen = |text: Source| Seen::new(text, source.clone().unbind());
                    let own = long_strings(&entry, least)?.into_iter().map(|text| Ok(seen(Source::of(text)?)));
                    let own = own.collect::<PyResult<Vec<_>>>()?;
                    let input = text.as_str().split_once(' ').map_or("", |(_, input)| input);
                    let input = seen(Source::Written(input.into()));
                    detached(py, || {
                        into.seen.add_input(&input, &own);
                        Ok(())
                    })?;
                }
                // A line counts one more character: that of its end.
                PieceKind::Text if is_long(text.as_str(), least.saturating_sub(1)) => {
                    let role = columns.of.roles[columns.of.rows[at].role].shown.bind(py);
                    let role = bytes_of(role)?;
                    let words = [b"what the ".as_slice(), first_characters(&role, LONGEST_ROLE), b" said"].concat();
                    let seen = Seen::new(text.clone_ref(py), string_of(py, &words)?.into_any().unbind());
                    detached(py, || {
                        into.seen.add(&seen, &[]);
                        Ok(())
                    })?;
                }
                PieceKind::ToolResult if is_long(text.as_str(), least) => {
                    let result = texts.iter().find(|each| each.piece == number);
                    let found = result.map_or(Ok(Vec::new()), |_| Repeat::all(py, &into.seen, text.as_str()))?;
                    let without: Vec<_> = found.iter().map(|repeat| (repeat.lines.start, repeat.lines.end)).collect();
                    let empty = interned!(py, "");
                    let (call, tool) = result.map_or((empty, empty), |each| (&each.call, &each.tool));
                    let source = string_of(py, &source_of("result", call, tool)?)?;
                    if let Some(result) = result.filter(|_| !found.is_empty()) {
                        echoes.push(Py::new(py, ShortenedText::of(result, How::Repeats(found)))?);
                    }
                    // A reference must not lead to a text that was cut.
                    if !self.changed.contains(&index) {
                        let seen = Seen::new(text.clone_ref(py), source.into_any().unbind());
                        detached(py, || {
                            into.seen.add(&seen, &without);
                            Ok(())
                        })?;
                    }
                }
                _ => {}
            }
        }
        into.hashes.push(hash);
        into.rows.push((lines, echoes));
        Ok(())
    }
}

/// The echoes of an entry, by its position.
type Found = Vec<(usize, Vec<Py<ShortenedText>>)>;

/// Finds repeats in tool results. The last conversations are remembered.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Echoes {
    least: usize,
    readings: Mutex<Vec<Reading>>,
}

impl Echoes {
    fn readings(&self) -> MutexGuard<'_, Vec<Reading>> {
        self.readings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take this conversation out of the list, so that no other thread has it, or make one. None if fewer messages than
    /// `needed` are known.
    fn taken(
        &self,
        py: Python<'_>,
        rows: &Conversation,
        hashes: &[u64],
        by_row: bool,
        needed: usize,
    ) -> Option<Reading> {
        let mut readings = self.readings();
        let format = rows.facts.format.as_str();
        let (mut best, mut most) = (None, 0);
        for (number, reading) in readings.iter().enumerate().filter(|(_, reading)| reading.format == format) {
            let shared = reading.shared(hashes);
            if shared == hashes.len().min(reading.hashes.len()) {
                return (reading.hashes.len() >= needed).then(|| readings.remove(number));
            }
            if shared > most {
                (best, most) = (Some(number), shared);
            }
        }
        // Its messages are the same up to one that a pass changed since.
        match best.filter(|_| by_row && most >= needed) {
            Some(best) => Some(readings[best].beginning(py, most)),
            None => (needed == 0).then(|| Reading::new(format.to_owned(), self.least)),
        }
    }
}

#[pymethods]
impl Echoes {
    /// Runs of fewer characters are ignored.
    #[new]
    fn new(least_characters: usize) -> Self {
        Self { least: least_characters, readings: Mutex::default() }
    }

    /// The hashes of the messages, and the echoes of each entry from `start` on that has some. `known` holds the hashes
    /// of the messages before `start`. Returns None and nothing if these were forgotten: then all messages must be
    /// searched.
    #[expect(clippy::too_many_arguments, reason = "a history, and what is known of it")]
    fn find(
        &self,
        py: Python<'_>,
        rows: &Conversation,
        start: usize,
        known: Option<&RowHashes>,
        entries: &Bound<'_, PyTuple>,
        places: &Bound<'_, PyAny>,
        changed: HashSet<usize>,
        by_row: bool,
    ) -> PyResult<(Option<RowHashes>, Found)> {
        let _running = Running::begin();
        let first = rows.place_of(start);
        let Some(known) =
            known.map_or(Some([].as_slice()), |known| known.0.get(..first)).filter(|of| of.len() == first)
        else {
            return Ok((None, Vec::new()));
        };
        let looked = Looked { rows, entries, places, changed };
        let mut hashes = known.to_vec();
        for at in first..rows.all().len() {
            hashes.push(looked.hash(py, at)?);
        }
        let Some(mut reading) = self.taken(py, rows, &hashes, by_row, first) else { return Ok((None, Vec::new())) };
        let read = reading.hashes.len();
        for (at, &hash) in hashes.iter().enumerate().skip(read) {
            looked.read(py, at, hash, &mut reading, self.least)?;
        }
        let echoes = (first..hashes.len()).filter(|&at| !reading.rows[at].1.is_empty());
        let of = |at: usize| (rows.index(at), reading.rows[at].1.iter().map(|echo| echo.clone_ref(py)).collect());
        let found = echoes.map(of).collect();
        let mut readings = self.readings();
        readings.insert(0, reading);
        let kept = readings.len().min(MAX_CONVERSATIONS);
        let forgotten = readings.split_off(kept);
        drop(readings);
        drop(forgotten); // not while the list is locked: a text may be of a class with a `__del__`
        Ok((Some(RowHashes(hashes)), found))
    }
}
