//! The activity in a thread apart from the items of its store, for Python: the commands that were run, and the names in
//! its texts.
use pyo3::prelude::*;
use rehydrate_core::context_store::{Commands, Said};
use rehydrate_core::tokens::Counter;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Message;
use super::subjects::Tools;
use crate::errors::detached;
use crate::exit::Running;
use crate::outline::NameIndex;
use crate::reading::{Columns, Conversation};

/// The commands that were run in a thread, and the names in its texts, as it grows: each message is read once.
#[pyclass(module = "rehydrate._native")]
#[derive(Default)]
pub struct Activity {
    names: NameIndex,
    pub(super) commands: Commands,
    /// The entries that are visible anyway.
    pub(super) visible: FxHashSet<i64>,
    /// The ids of answers that came before their calls.
    early: FxHashSet<Box<[u8]>>,
}

#[pymethods]
impl Activity {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Add the messages that follow. False, and nothing is added, if one of their units has earlier messages too.
    #[pyo3(name = "add")]
    fn add_all(&mut self, py: Python<'_>, conversation: &Conversation) -> PyResult<bool> {
        let _running = Running::begin();
        self.add(py, conversation, &FxHashSet::default())
    }
}

impl Activity {
    /// Add the messages that follow, of which those at the `visible` indices are always visible.
    pub(super) fn add(
        &mut self,
        py: Python<'_>,
        conversation: &Conversation,
        visible: &FxHashSet<usize>,
    ) -> PyResult<bool> {
        let of = &conversation.columns;
        if !self.is_followed_by(of) {
            return Ok(false);
        }
        let mut messages = Message::all(conversation.messages(py)?.as_any(), Some(&Tools::new(py)?))?;
        detached(py, || {
            let messages: Vec<Said<'_>> = messages.iter_mut().map(Message::said).collect();
            self.commands.read(&messages);
            Ok(())
        })?;
        self.visible.extend(visible.iter().map(|&index| index as i64));
        let reference_of = |unit| Ok(format!("#{}", of.of.rows[of.units.members(unit)[0]].index));
        self.names.add_units(py, conversation, visible, reference_of, &FxHashMap::default(), Vec::new())?;
        Ok(true)
    }

    /// Whether the calls and answers of these messages only belong to each other.
    fn is_followed_by(&mut self, of: &Columns) -> bool {
        let is_first = self.names.is_empty();
        let mut waiting: FxHashMap<&[u8], usize> = FxHashMap::default();
        for at in 0..of.of.rows.len() {
            for call in of.calls(at) {
                if !is_first && self.early.contains(call.as_bytes()) {
                    return false;
                }
                *waiting.entry(call.as_bytes()).or_default() += 1;
            }
            for answer in of.answers(at) {
                match waiting.get_mut(answer.as_bytes()) {
                    Some(calls) if *calls > 0 => *calls -= 1,
                    _ if is_first => _ = self.early.insert(answer.as_bytes().into()),
                    _ => return false,
                }
            }
        }
        true
    }

    /// The best names that are not in this text, and lines of them, in at most this many tokens.
    pub(super) fn names(&mut self, py: Python<'_>, text: &str, tokens: i64, counter: Counter) -> PyResult<Vec<u8>> {
        self.names.written(py, text, tokens, counter)
    }
}
