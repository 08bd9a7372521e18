//! The texts of a conversation that may be divided, and where they are in its entries.
use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use rehydrate_core::conversation::PieceKind;
use rehydrate_core::excerpts::{divide, mark};
use rustc_hash::{FxHashMap, FxHashSet};

use super::inputs::{InputText, long_inputs, split};
use crate::convert::indices_in;
use crate::division::sliced;
use crate::exit::Running;
use crate::prepared::Prepared;
use crate::reading::{Columns, Conversation, Draft, Source, Units, in_json, read_places};

/// A message of shorter texts is never divided, so their paths are not needed.
const MIN_CHARACTERS: usize = 200;

/// The longest mark with numbers under 1,000, and the longest of the largest texts: count, first and last.
const SAMPLE_GAPS: [(usize, usize, usize); 2] = [(888, 888, 999), (88_888_888, 11_111_111, 88_888_888)];

/// The place of a text in its entry.
#[derive(Clone)]
pub enum Place {
    At(Arc<Py<PyTuple>>),
    /// It is a string in the input of a call.
    In(InputText),
    /// It is the content of the entry. The code that packs the entry knows how to cut it.
    Whole,
}

/// The long texts, results and strings in inputs of a conversation, by the index of their message in `entries`.
///
/// `whole_units` stay whole. For those among `for_words` the tool results are divided. Strings in the inputs of
/// finished calls are pieces of their own in `conversation`.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct DivisibleTexts {
    #[pyo3(get)]
    pub conversation: Py<Conversation>,
    pub entries: Py<PyAny>,
    /// By the number of the piece among all.
    pub places: FxHashMap<usize, Place>,
    /// Messages with such strings as they were before, one after the other.
    pub originals: Py<Conversation>,
    /// By the position of a message, its position among those.
    pub original_at: FxHashMap<usize, usize>,
}

#[pymethods]
impl DivisibleTexts {
    #[new]
    #[pyo3(signature = (conversation, entries, whole_units=None, for_words=None))]
    fn find(
        conversation: &Bound<'_, Conversation>,
        entries: &Bound<'_, PyAny>,
        whole_units: Option<&Bound<'_, PyAny>>,
        for_words: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let _running = Running::begin();
        let py = entries.py();
        let of = &conversation.get().columns;
        let units = |of: Option<&Bound<'_, PyAny>>| of.map(indices_in).transpose().map(Option::unwrap_or_default);
        let (whole_units, for_words) = (units(whole_units)?, units(for_words)?);
        let is_in = |units: &FxHashSet<usize>, at: usize| units.contains(&of.units.unit_of()[at]);
        let index = |at: usize| of.of.rows[at].index;
        let messages = || 0..of.of.rows.len();
        let pinned = messages().filter(|&at| is_in(&whole_units, at)).map(index).collect();
        let mut inputs = long_inputs(conversation.get(), entries, &pinned)?;

        let (mut places, mut end) = (FxHashMap::default(), 0);
        for at in messages() {
            let pieces = of.pieces(at);
            let (is_pinned, start) = (is_in(&whole_units, at), end);
            end += pieces.len() + inputs.get(&at).map_or(0, Vec::len);
            let is_whole = is_pinned && !is_in(&for_words, at);
            if is_whole || pieces.iter().all(|(text, _)| is_short(text.as_str())) {
                continue;
            }
            let found = read_places(conversation.get().format_name(), &entries.get_item(index(at))?, index(at))?;
            for (number, ((_, kind), place)) in pieces.iter().zip(found).enumerate() {
                let may = *kind == PieceKind::ToolResult || (*kind == PieceKind::Text && !is_pinned);
                if let Some(path) = place.filter(|_| may) {
                    places.insert(start + number, Place::At(Arc::new(path.unbind())));
                }
            }
        }
        if inputs.is_empty() {
            let (conversation, entries) = (conversation.clone().unbind(), entries.clone().unbind());
            let originals = Py::new(py, Conversation::alone(Draft::default()))?;
            return Ok(Self { conversation, entries, places, originals, original_at: FxHashMap::default() });
        }
        let (mut draft, mut originals) = (Draft::with_capacity(of.of.rows.len()), Draft::default());
        let mut original_at = FxHashMap::default();
        for at in messages() {
            let Some(texts) = inputs.remove(&at) else {
                draft.copy(py, &of.of, at);
                continue;
            };
            original_at.insert(at, originals.len());
            originals.copy(py, &of.of, at);
            draft.copy_with(py, &of.of, at, split(py, of, at, &texts)?);
            let first = draft.pieces.len() - texts.len();
            places.extend(texts.into_iter().enumerate().map(|(number, text)| (first + number, Place::In(text))));
        }
        let columns = Columns { of: draft, units: of.units.clone() };
        Ok(Self {
            conversation: Py::new(py, conversation.get().with_columns(py, columns))?,
            entries: entries.clone().unbind(),
            places,
            originals: Py::new(py, Conversation::alone(originals))?,
            original_at,
        })
    }

    /// The same texts in another order, with others among them: each row is the index of a message, or a message with its entry
    /// and whether its last piece may be divided. `unit_of` is the number of each one's unit.
    fn arranged(&self, py: Python<'_>, rows: Vec<Bound<'_, PyAny>>, unit_of: Vec<usize>) -> PyResult<Self> {
        let _running = Running::begin();
        if unit_of.len() != rows.len() {
            return Err(PyIndexError::new_err(format!("{} units for {} messages", unit_of.len(), rows.len())));
        }
        let (of, before) = (&self.conversation.get().columns, &self.originals.get().columns);
        let (old, entries) = (self.entries.bind(py), PyList::empty(py));
        let (mut draft, mut originals) = (Draft::with_capacity(rows.len()), Draft::default());
        let (mut places, mut original_at) = (FxHashMap::default(), FxHashMap::default());
        for (here, row) in rows.iter().enumerate() {
            if let Ok(index) = row.extract::<usize>() {
                let at = of.of.rows.partition_point(|row| row.index < index);
                let found = of.of.rows.get(at).filter(|row| row.index == index);
                let end = found.ok_or_else(|| PyIndexError::new_err(format!("no message {index}")))?.pieces_end;
                let (first, start) = (draft.pieces.len(), end - of.pieces(at).len());
                draft.copy(py, &of.of, at);
                let moved = (start..end).filter_map(|piece| Some((piece - start + first, self.places.get(&piece)?)));
                places.extend(moved.map(|(piece, place)| (piece, place.clone())));
                if let Some(&original) = self.original_at.get(&at) {
                    original_at.insert(here, originals.len());
                    originals.copy(py, &before.of, original);
                    originals.end_at(here);
                }
                entries.append(old.get_item(index)?)?;
            } else {
                let (message, entry, may_be_cut): (Bound<'_, PyTuple>, Bound<'_, PyAny>, bool) = row.extract()?;
                draft.take(&message)?;
                places.extend(may_be_cut.then(|| (draft.pieces.len() - 1, Place::Whole)));
                entries.append(entry)?;
            }
            draft.end_at(here);
        }
        let units = unit_of.iter().max().map_or(0, |last| last + 1);
        let columns = Columns { of: draft, units: Units::new(unit_of, units) };
        Ok(Self {
            conversation: Py::new(py, Conversation::in_units(columns))?,
            entries: entries.into_any().unbind(),
            places,
            originals: Py::new(py, Conversation::alone(originals))?,
            original_at,
        })
    }

    /// For each piece of the conversation, whether it may be divided.
    pub fn flags(&self) -> Vec<bool> {
        let pieces = self.conversation.get().columns.all_pieces().len();
        (0..pieces).map(|piece| self.places.contains_key(&piece)).collect()
    }

    /// A mark with small numbers, and one with large ones, as they are counted.
    pub fn marks(&self, handle: &str) -> Vec<String> {
        let in_inputs = self.places.values().any(|place| matches!(place, Place::In(_)));
        let marks = SAMPLE_GAPS.map(|(count, first, last)| mark("characters", count, first, last, handle));
        marks.map(|mark| format!("\n{mark}\n")).map(|mark| if in_inputs { in_json(&mark) } else { mark }).into()
    }

    /// Each block of each text, as it is counted.
    pub fn blocks<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyString>>> {
        let _running = Running::begin();
        let mut blocks = Vec::new();
        for (piece, (text, _)) in self.conversation.get().columns.all_pieces().iter().enumerate() {
            let Some(place) = self.places.get(&piece) else { continue };
            let Some(division) = divide(text.as_str()) else { continue };
            let whole = text.to_py(py);
            for block in division.blocks {
                blocks.push(match (place, text) {
                    (Place::In(_), _) => PyString::new(py, &in_json(&text.as_str()[block.bytes])),
                    (_, Source::Replaced(..)) => sliced(&whole, block.chars.start, block.chars.end)?,
                    _ => PyString::new(py, &text.as_str()[block.bytes]),
                });
            }
        }
        Ok(blocks)
    }

    /// The tokens of each message as it came in, by the `count` of a conversation's messages. A split input is counted
    /// whole: its parts may have a few tokens more or less.
    fn message_tokens(&self, prepared: &Prepared, count: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        let _running = Running::begin();
        let mut tokens = prepared.core.message_tokens().to_vec();
        if !self.original_at.is_empty() {
            let whole: Vec<u32> = count.call1((&self.originals,))?.extract()?;
            for (&at, &original) in &self.original_at {
                tokens[at] = whole[original];
            }
        }
        Ok(tokens)
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= MIN_CHARACTERS || text.chars().nth(MIN_CHARACTERS).is_none()
}
