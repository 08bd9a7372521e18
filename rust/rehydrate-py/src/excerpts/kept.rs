//! Messages kept in part, rebuilt so that the result stays within the budget.
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};

use super::divisible::DivisibleTexts;
use crate::convert::NamedTuple;
use crate::division::Division;
use crate::exit::Running;
use crate::prepared::{Prepared, Selection};
use crate::reading::{Conversation, Draft};

/// The messages of a selection that are kept in part. A text is a number among the divided texts, a position is a message's in the
/// conversation.
///
/// `count` is a function from a conversation to the tokens of each message. `entries` are positions whose entry holds
/// the same text as its one divided text: `cut` makes an entry of the kept part, and returns its tokens. Those come
/// first, and then no message is cut that is kept whole.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Excerpts {
    texts: Py<DivisibleTexts>,
    prepared: Py<Prepared>,
    count: Py<PyAny>,
    cut: Option<Py<PyAny>>,
    entries: FxHashSet<usize>,
    /// By text and block, its gain.
    gains: Vec<Vec<f64>>,
    /// By text, the number of its piece in its message.
    numbers: Vec<usize>,
    /// The kept messages with divided texts, in the order in which they are cut.
    texts_of: Vec<(usize, Vec<usize>)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By text and block, whether it is kept.
    kept: Vec<Vec<bool>>,
    /// By a text that is kept in part, the handle of the whole.
    handles: FxHashMap<usize, Py<PyString>>,
    made: Vec<(usize, Excerpt)>,
}

/// A message that is kept in part.
struct Excerpt {
    entry: Py<PyAny>,
    tokens: i64,
    message: Py<PyAny>,
    /// The handle of the first text that is cut.
    handle: Option<Py<PyString>>,
}

impl Excerpt {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        Self {
            entry: self.entry.clone_ref(py),
            tokens: self.tokens,
            message: self.message.clone_ref(py),
            handle: self.handle.as_ref().map(|handle| handle.clone_ref(py)),
        }
    }
}

impl State {
    fn is_partial(&self, text: usize) -> bool {
        self.kept[text].contains(&false)
    }

    fn put(&mut self, position: usize, made: Excerpt) {
        match self.made.iter_mut().find(|(at, _)| *at == position) {
            Some((_, known)) => *known = made,
            None => self.made.push((position, made)),
        }
    }

    fn tokens(&self, position: usize) -> Option<i64> {
        self.made.iter().find(|(at, _)| *at == position).map(|(_, made)| made.tokens)
    }
}

#[pymethods]
impl Excerpts {
    #[new]
    #[pyo3(signature = (texts, prepared, selection, count, entries=None, cut=None))]
    fn of(
        texts: Py<DivisibleTexts>,
        prepared: Py<Prepared>,
        selection: &Selection,
        count: Py<PyAny>,
        entries: Option<Vec<usize>>,
        cut: Option<Py<PyAny>>,
    ) -> Self {
        let columns = &texts.get().conversation.get().columns;
        let (mut kept, mut gains): (Vec<Vec<bool>>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
        for block in &selection.core.blocks {
            kept.resize_with(kept.len().max(block.text + 1), Vec::new);
            gains.resize_with(gains.len().max(block.text + 1), Vec::new);
            kept[block.text].push(block.kept);
            gains[block.text].push(block.gain);
        }
        let (mut numbers, mut texts_of): (Vec<usize>, Vec<(usize, Vec<usize>)>) = (Vec::new(), Vec::new());
        for (text, divided) in prepared.get().core.divided_texts().iter().enumerate() {
            let position = columns.of.rows.partition_point(|row| row.pieces_end <= divided.piece);
            let first = columns.of.rows[position].pieces_end - columns.pieces(position).len();
            numbers.push(divided.piece - first);
            if !selection.core.packing.kept[columns.units.unit_of()[position]] {
                continue;
            }
            match texts_of.last_mut() {
                Some((at, own)) if *at == position => own.push(text),
                _ => texts_of.push((position, vec![text])),
            }
        }
        let state = State { kept, ..State::default() };
        if let Some(first) = &entries {
            texts_of.retain(|(_, own)| own.iter().any(|&text| state.is_partial(text)));
            let rank = |position: &usize| first.iter().position(|entry| entry == position).unwrap_or(first.len());
            texts_of.sort_by_key(|(position, _)| rank(position));
        }
        let entries = entries.into_iter().flatten().collect();
        Self { texts, prepared, count, cut, entries, gains, numbers, texts_of, state: Mutex::new(state) }
    }

    /// The whole texts that lost blocks, each with its message.
    fn partial_texts<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyString>)>> {
        let _running = Running::begin();
        let state = self.state();
        let own = self.texts_of.iter().flat_map(|(at, own)| own.iter().map(|&text| (*at, text)));
        let partial: Vec<_> = own.filter(|&(_, text)| state.is_partial(text)).collect();
        drop(state);
        partial.into_iter().map(|(at, text)| Ok((self.message(py, at)?, self.text(py, at, text)))).collect()
    }

    /// The indices of the messages that are kept in part. `fit` may cut more of them to make room for the marks.
    /// `at_most` adds all that it may cut.
    #[pyo3(signature = (*, at_most=false))]
    fn changed_indices(&self, at_most: bool) -> Vec<usize> {
        let state = self.state();
        let is_changed =
            |at: usize, own: &[usize]| own.iter().any(|&text| state.is_partial(text)) || state.tokens(at).is_some();
        let changed: Vec<usize> =
            self.texts_of.iter().filter(|(at, own)| is_changed(*at, own)).map(|(at, _)| *at).collect();
        let all = at_most && !changed.is_empty();
        let found = if all { self.texts_of.iter().map(|(at, _)| *at).collect() } else { changed };
        let rows = &self.texts.get().conversation.get().columns.of.rows;
        found.into_iter().map(|at| rows[at].index).collect()
    }

    /// Write the marks, and drop blocks, those of least gain first, until the target is met.
    ///
    /// `kept_tokens` holds the tokens of each message as a whole, 0 for a dropped one. The engine counts block by
    /// block; joined blocks and marks may cost a few tokens more. `handle_of` is a function of a message and one of its
    /// whole texts.
    fn fit(
        &self,
        py: Python<'_>,
        kept_tokens: Vec<i64>,
        target_tokens: u64,
        handle_of: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _running = Running::begin();
        let target_tokens = i64::try_from(target_tokens).unwrap_or(i64::MAX);
        // `handle_of` and `count` are Python code: nothing is locked meanwhile.
        let mut state = std::mem::take(&mut *self.state());
        let done = self.fit_all(py, &mut state, &kept_tokens, target_tokens, handle_of);
        *self.state() = state;
        done
    }

    /// By position, a `ChangedEntry` of each message that `fit` cut.
    #[getter]
    fn by_position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (found, entry) = (PyDict::new(py), NamedTuple::of(py, "rehydrate.compact.result", "ChangedEntry")?);
        let made: Vec<_> = self.state().made.iter().map(|(at, made)| (*at, made.clone_ref(py))).collect();
        for (position, made) in made {
            let values = [
                made.entry.into_bound(py),
                made.tokens.into_pyobject(py)?.into_any(),
                made.message.into_bound(py),
                made.handle.into_pyobject(py)?.into_any(),
            ];
            found.set_item(position, entry.make(values)?)?;
        }
        Ok(found)
    }

    /// The divided texts, for the report: the prepared conversation, the conversation, a byte for each block of each
    /// text that is 1 if it is kept, and the handle of each whole text.
    fn divided_texts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let _running = Running::begin();
        let (kept, known) = {
            let state = self.state();
            let known: Vec<_> = state.handles.iter().map(|(text, handle)| (*text, handle.clone_ref(py))).collect();
            (state.kept.clone(), known)
        };
        let handles = PyDict::new(py);
        for (text, handle) in known {
            handles.set_item(text, handle)?;
        }
        let flags = |kept: Vec<bool>| PyBytes::new(py, &kept.into_iter().map(u8::from).collect::<Vec<_>>());
        let kept: Vec<_> = kept.into_iter().map(flags).collect();
        (&self.prepared, &self.texts.get().conversation, kept, handles).into_pyobject(py)
    }
}

impl Excerpts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn message<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        self.texts.get().conversation.get().messages(py)?.get_item(at)
    }

    /// The whole text in the message at a position.
    fn text<'py>(&self, py: Python<'py>, at: usize, text: usize) -> Bound<'py, PyString> {
        self.texts.get().conversation.get().columns.pieces(at)[self.numbers[text]].0.to_py(py)
    }

    fn fit_all(
        &self,
        py: Python<'_>,
        state: &mut State,
        kept_tokens: &[i64],
        target_tokens: i64,
        handle_of: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let whole = |position: usize| {
            let tokens = kept_tokens.get(position).copied();
            tokens.ok_or_else(|| PyIndexError::new_err(format!("no tokens of message {position}")))
        };
        let is_partial = |own: &[usize]| own.iter().any(|&text| state.is_partial(text));
        let partial: Vec<_> = self.texts_of.iter().filter(|(_, own)| is_partial(own)).collect();
        let mut excess = kept_tokens.iter().sum::<i64>() - target_tokens;
        for ((position, _), made) in partial.iter().zip(self.rebuilt(py, state, &partial, handle_of)?) {
            excess -= whole(*position)? - made.tokens;
            state.put(*position, made);
        }
        let mut least_gain_first = Vec::new();
        for (rank, (_, own)) in self.texts_of.iter().enumerate() {
            for &text in own {
                let kept = state.kept[text].iter().enumerate().filter(|(_, kept)| **kept);
                least_gain_first.extend(kept.map(|(block, _)| (self.gains[text][block], rank, text, block)));
            }
        }
        least_gain_first
            .sort_by(|(gain, ..), (other, ..)| gain.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
        for (_, rank, text, block) in least_gain_first {
            if excess <= 0 {
                break;
            }
            let of = &self.texts_of[rank];
            let before = state.tokens(of.0).map_or_else(|| whole(of.0), Ok)?;
            state.kept[text][block] = false;
            for made in self.rebuilt(py, state, &[of], handle_of)? {
                excess -= before - made.tokens;
                state.put(of.0, made);
            }
        }
        Ok(())
    }

    /// These messages with marks in place of dropped blocks.
    fn rebuilt(
        &self,
        py: Python<'_>,
        state: &mut State,
        of: &[&(usize, Vec<usize>)],
        handle_of: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Excerpt>> {
        let (texts, mut draft, mut found) = (self.texts.get(), Draft::default(), Vec::new());
        for (position, own) in of {
            let position = *position;
            if self.entries.contains(&position) {
                found.push(Err(self.cut_entry(py, state, position, own)?));
                continue;
            }
            let (before, at) = texts.original(position);
            let mut shown = Vec::new();
            for &text in own {
                if !state.is_partial(text) {
                    continue;
                }
                let whole = self.text(py, position, text);
                let message = before.get().messages(py)?.get_item(at)?;
                let handle: Bound<'_, PyString> = handle_of.call1((message, &whole))?.cast_into()?;
                shown.push((
                    self.numbers[text],
                    self.division(text).shown(&whole, &state.kept[text], handle.to_str()?)?,
                ));
                state.handles.insert(text, handle.unbind());
            }
            let (pieces, entry) = texts.with_texts(py, position, &shown)?;
            draft.copy_with(py, &before.get().columns.of, at, pieces);
            let mut handles = own.iter().filter_map(|text| state.handles.get(text));
            let first = handles.find(|handle| handle.bind(py).is_truthy().unwrap_or(false));
            found.push(Ok((entry, first.map(|handle| handle.clone_ref(py)))));
        }
        let changed = Bound::new(py, Conversation::alone(draft))?;
        let tokens: Vec<i64> = self.count.bind(py).call1((&changed,))?.extract()?;
        let mut counted = tokens.into_iter().zip(changed.get().messages(py)?);
        let excerpt = |made: Result<(Bound<'_, PyAny>, Option<Py<PyString>>), Excerpt>| match made {
            Err(excerpt) => Ok(excerpt),
            Ok((entry, handle)) => {
                let (tokens, message) = counted.next().ok_or_else(|| PyIndexError::new_err("too few counts"))?;
                Ok(Excerpt { entry: entry.unbind(), tokens, message: message.unbind(), handle })
            }
        };
        found.into_iter().map(excerpt).collect()
    }

    /// An entry with the same text as its divided text, cut. None if no block is kept.
    fn cut_entry(&self, py: Python<'_>, state: &State, position: usize, own: &[usize]) -> PyResult<Excerpt> {
        let message = self.message(py, position)?.unbind();
        let entry = self.texts.get().entries.bind(py).get_item(position)?;
        let kept = own.iter().copied().find(|&text| state.kept[text].contains(&true));
        let Some((text, cut)) = kept.zip(self.cut.as_ref()) else {
            return Ok(Excerpt { entry: py.None(), tokens: 0, message, handle: None });
        };
        let shown = self.division(text).shown(&self.text(py, position, text), &state.kept[text], "")?;
        let (entry, tokens) = cut.bind(py).call1((entry, shown))?.extract::<(Py<PyAny>, i64)>()?;
        Ok(Excerpt { entry, tokens, message, handle: None })
    }

    fn division(&self, text: usize) -> Division {
        Division::of(self.prepared.get().core.divided_texts()[text].division.clone())
    }
}
