//! A history in the provider's form, made of the messages of the last prompt and of new ones.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PySlice;

use super::history::History;
use crate::interned::interned;
use crate::reading::text_of;
use crate::writing::{Sent, has_system_apart, rendered};

/// Formats of which each entry has one role wherever it is sent.
const BY_MESSAGE: [&str; 7] = ["ai_sdk", "anthropic", "bedrock", "gemini", "langchain", "openai_chat", "plain"];

/// A message as it is sent, and the rows that it is made of.
pub struct SentRow {
    pub message: Py<PyAny>,
    pub sources: Arc<[usize]>,
}

impl SentRow {
    fn of(sent: Sent<'_>) -> Self {
        Self { message: sent.message.unbind(), sources: Arc::from(&*sent.sources) }
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { message: self.message.clone_ref(py), sources: Arc::clone(&self.sources) }
    }

    fn last(&self) -> usize {
        self.sources.iter().copied().max().unwrap_or_default()
    }
}

/// A history in the provider's shape.
pub struct Rows {
    /// The system entries at the beginning, if the provider takes them in another field.
    pub system: Vec<SentRow>,
    pub messages: Vec<SentRow>,
    /// Content that was left out or changed, and the rows of its entries.
    pub lost: BTreeMap<String, BTreeSet<usize>>,
    rows: usize,
    /// The number of messages that the last prompt had.
    pub kept: usize,
    /// Whether a system entry of the provider's own comes after others, so that it may move.
    has_late_system: bool,
}

impl Rows {
    /// Those of a history whose first `known` rows are those of the last prompt.
    ///
    /// A history in another format is rendered from the last turn that both have. A turn begins where the assistant
    /// speaks after others, or the user after the assistant, and all calls before it are answered before it: then
    /// nothing after it changes how earlier messages are sent.
    pub fn of(history: &History<'_>, provider: &str, known: usize, last: Option<&Self>) -> PyResult<Self> {
        let (py, count) = (history.entries.py(), history.entries.len());
        let last = last.filter(|_| known > 0);
        let is_own = history.format == provider;
        let mut has_late_system = false;
        if is_own && has_system_apart(provider) {
            let goes_on = last.is_some_and(|last| !last.has_late_system);
            let is_system: Vec<bool> = history
                .entries
                .iter()
                .skip(if goes_on { known } else { 0 })
                .map(|entry| is_system(&entry))
                .collect::<PyResult<_>>()?;
            let leading = if goes_on { 0 } else { is_system.iter().take_while(|&&is| is).count() };
            has_late_system = is_system[leading..].contains(&true);
        }
        let start = match last {
            Some(_) if is_own => {
                if has_late_system {
                    0
                } else {
                    known
                }
            }
            // Rows after the last one that both have may be in one message with it.
            Some(last) if BY_MESSAGE.contains(&history.format.as_str()) => {
                history.last_turn_within(if known == last.rows { known } else { known - 1 })?
            }
            _ => 0,
        };
        let new = history.entries.as_any().get_item(PySlice::new(py, start as isize, count as isize, 1))?;
        let (system, messages, lost) = rendered(&new, &history.format, provider, start)?;
        let mut made = Self {
            system: system.into_iter().map(SentRow::of).collect(),
            messages: messages.into_iter().map(SentRow::of).collect(),
            lost: lost.into_iter().map(|(what, rows)| (what, rows.into_iter().collect())).collect(),
            rows: count,
            kept: 0,
            has_late_system,
        };
        if let Some(last) = last {
            if start > 0 {
                made.follow(py, last, start);
            } else if is_own {
                let pairs = last.messages.iter().zip(&made.messages);
                made.kept = pairs.take_while(|(old, now)| old.sources == now.sources && now.last() < known).count();
            }
        }
        Ok(made)
    }

    /// Go on from the messages of the last prompt for rows before `start`.
    fn follow(&mut self, py: Python<'_>, last: &Self, start: usize) {
        self.kept = last.messages.iter().rposition(|each| each.last() < start).map_or(0, |at| at + 1);
        let new = std::mem::take(&mut self.messages);
        self.system = last.system.iter().map(|each| each.clone_ref(py)).collect();
        self.messages = last.messages[..self.kept].iter().map(|each| each.clone_ref(py)).chain(new).collect();
        for (what, rows) in &last.lost {
            let before = rows.range(..start).copied().collect::<BTreeSet<_>>();
            if !before.is_empty() {
                self.lost.entry(what.clone()).or_default().extend(before);
            }
        }
    }
}

fn is_system(entry: &Bound<'_, PyAny>) -> PyResult<bool> {
    let role = entry.call_method1(interned!(entry.py(), "get"), (interned!(entry.py(), "role"),))?.str()?;
    Ok(matches!(text_of(&role).as_ref(), "system" | "developer"))
}
