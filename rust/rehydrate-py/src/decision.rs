//! A selection by units and messages: the kept and the dropped part of a conversation, and a report of each unit.
mod blocks;
mod explanation;
mod reasons;

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::convert::NamedTuple;
use crate::exit::Running;
use crate::prepared::Selection;
use crate::reading::Conversation;
use blocks::Divided;
pub use explanation::{Explanation, block_runs, span};
pub use reasons::short_reason;
use reasons::{Dropping, preview, why_dropped, why_kept};

/// The engine's selection, and the units and messages that it keeps.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Decision {
    #[pyo3(get)]
    conversation: Py<Conversation>,
    #[pyo3(get)]
    selection: Py<Selection>,
    #[pyo3(get)]
    message_tokens: Vec<i64>,
}

/// A dropped unit, its tokens, and the share of it that memory covers.
type DroppedUnit = (usize, i64, f64);

#[pymethods]
impl Decision {
    #[new]
    fn new(
        py: Python<'_>,
        conversation: Py<Conversation>,
        selection: Py<Selection>,
        message_tokens: Vec<i64>,
    ) -> PyResult<Self> {
        let _running = Running::begin();
        let (of, core) = (&conversation.bind(py).get().columns, &selection.bind(py).get().core);
        let messages = [message_tokens.len(), core.signals.len(), of.of.rows.len()];
        let units = [core.packing.kept.len(), of.unit_len(), of.unit_len()];
        if [messages, units].iter().any(|sizes| sizes[0] != sizes[1] || sizes[1] != sizes[2]) {
            return Err(PyValueError::new_err(format!("columns of different lengths: {messages:?}, {units:?}")));
        }
        Ok(Self { conversation, selection, message_tokens })
    }

    /// For each message of the conversation, whether it is kept.
    fn kept_messages(&self, py: Python<'_>) -> Vec<bool> {
        let kept = &self.selection.bind(py).get().core.packing.kept;
        self.conversation.bind(py).get().columns.units.unit_of().iter().map(|&unit| kept[unit]).collect()
    }

    /// The dropped units.
    fn dropped_units(&self, py: Python<'_>) -> Vec<DroppedUnit> {
        let (core, tokens) = (&self.selection.bind(py).get().core, self.unit_tokens(py));
        let dropped = (0..tokens.len()).filter(|&unit| !core.packing.kept[unit]);
        dropped.map(|unit| (unit, tokens[unit], core.signals[core.best_message[unit]].coverage)).collect()
    }

    /// A report of each unit.
    ///
    /// `pins` are the units that are always kept, with the reason, and `reply` is the unit that the user answers. `cut`
    /// has the tokens of messages that are kept in part, by position; `stripped` those that a unit lost before anything
    /// was counted; `stale` those that a message lost after the message `first_change` had changed, by index. `origins`
    /// are the indices of messages in the caller's list, if calls were parted.
    #[pyo3(signature = (*, pins, reply, target_tokens, by_coverage, divided, cut, stripped, stale, first_change, origins))]
    #[expect(clippy::too_many_arguments, reason = "columns cross the boundary one by one")]
    fn explanation<'py>(
        &self,
        py: Python<'py>,
        pins: &Bound<'py, PyDict>,
        reply: Option<usize>,
        target_tokens: &Bound<'py, PyAny>,
        by_coverage: bool,
        divided: Option<Divided<'py>>,
        cut: HashMap<usize, i64>,
        stripped: HashMap<usize, i64>,
        stale: HashMap<usize, i64>,
        first_change: Option<usize>,
        origins: Option<Vec<usize>>,
    ) -> PyResult<Explanation> {
        let _running = Running::begin();
        let (conversation, core) = (self.conversation.bind(py).get(), &self.selection.bind(py).get().core);
        let of = &conversation.columns;
        let origin = |index: usize| origins.as_ref().and_then(|of| of.get(index)).copied().unwrap_or(index);
        let dropping = Dropping::of(core, target_tokens, by_coverage);
        let mut blocks = match &divided {
            Some(divided) => divided.reports(py, core, origin)?,
            None => Vec::new(),
        };
        blocks.resize_with(of.unit_len(), Vec::new);
        let (tokens, mut lost) = (self.unit_tokens(py), vec![0; of.unit_len()]);
        for (&position, &left) in &cut {
            if let Some(&unit) = of.units.unit_of().get(position) {
                lost[unit] += self.message_tokens[position] - left;
            }
        }
        let report = NamedTuple::of(py, "rehydrate.compact.result", "UnitReport")?;
        let made = |(unit, blocks): (usize, Vec<Bound<'py, PyAny>>)| {
            let members = of.units.members(unit);
            let indices = members.iter().map(|&at| of.of.rows[at].index);
            let stale: Vec<i64> = indices.clone().filter_map(|index| stale.get(&index).copied()).collect();
            let stale_tokens: i64 = stale.iter().sum();
            let (best, kept) = (core.best_message[unit], core.packing.kept[unit]);
            let (signals, score) = (&core.signals[best], core.message_scores[best]);
            let reason = match pins.get_item(unit)? {
                Some(pin) if kept => pin,
                _ if kept => why_kept(core, unit, reply, by_coverage).into_pyobject(py)?.into_any(),
                _ => why_dropped(&dropping, tokens[unit], core, unit).into_pyobject(py)?.into_any(),
            };
            let role = if of.calls_tools(unit) {
                "tool use".into_pyobject(py)?.into_any()
            } else {
                of.of.roles[of.of.rows[members[0]].role].shown.bind(py).clone().into_any()
            };
            let changed = first_change.filter(|_| !stale.is_empty()).map(origin);
            report.make([
                unit.into_pyobject(py)?.into_any(),
                PyTuple::new(py, indices.map(origin))?.into_any(),
                role,
                tokens[unit].into_pyobject(py)?.into_any(),
                signals.structural.into_pyobject(py)?.into_any(),
                signals.recency.into_pyobject(py)?.into_any(),
                signals.semantic.into_pyobject(py)?.into_any(),
                signals.coverage.into_pyobject(py)?.into_any(),
                signals.odds.into_pyobject(py)?.into_any(),
                score.into_pyobject(py)?.into_any(),
                core.packing.gain[unit].into_pyobject(py)?.into_any(),
                kept.into_pyobject(py)?.to_owned().into_any(),
                reason,
                preview(of, members).into_pyobject(py)?.into_any(),
                (if kept { tokens[unit] - lost[unit] - stale_tokens } else { 0 }).into_pyobject(py)?.into_any(),
                PyTuple::new(py, blocks)?.into_any(),
                (stripped.get(&unit).unwrap_or(&0) + stale_tokens).into_pyobject(py)?.into_any(),
                changed
                    .map_or(String::new(), |first| format!("message {first} changed before it"))
                    .into_pyobject(py)?
                    .into_any(),
            ])
        };
        let reports = blocks.into_iter().enumerate().map(made).collect::<PyResult<Vec<_>>>()?;
        Ok(Explanation::new(PyTuple::new(py, reports)?))
    }

    /// One record for each dropped message: a `Dropped`. `handles` are those in memory, by index of the message. If
    /// calls were parted, a message is dropped with all its parts.
    #[pyo3(signature = (*, target_tokens, by_coverage, handles, origins))]
    fn dropped<'py>(
        &self,
        py: Python<'py>,
        target_tokens: &Bound<'py, PyAny>,
        by_coverage: bool,
        handles: HashMap<usize, String>,
        origins: Option<Vec<usize>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _running = Running::begin();
        let (conversation, core) = (self.conversation.bind(py).get(), &self.selection.bind(py).get().core);
        let (of, tokens) = (&conversation.columns, self.unit_tokens(py));
        let dropping = Dropping::of(core, target_tokens, by_coverage);
        let is_dropped = |&at: &usize| !core.packing.kept[of.units.unit_of()[at]];
        // The index, the tokens, and the message whose score is shown.
        let mut rows: Vec<(usize, i64, usize)> = (0..of.of.rows.len())
            .filter(is_dropped)
            .map(|at| (of.of.rows[at].index, self.message_tokens[at], at))
            .collect();
        if let Some(origins) = &origins {
            let (mut all, mut parts) = (HashMap::new(), HashMap::new());
            origins.iter().for_each(|&origin| *all.entry(origin).or_insert(0) += 1);
            for (index, tokens, at) in rows {
                let part = parts.entry(origins.get(index).copied().unwrap_or(index)).or_insert((0, 0, at));
                let is_better = core.message_scores[at] > core.message_scores[part.2];
                *part = (part.0 + 1, part.1 + tokens, if is_better { at } else { part.2 });
            }
            parts.retain(|origin, (count, ..)| all.get(origin) == Some(count));
            rows = parts.into_iter().map(|(origin, (_, tokens, best))| (origin, tokens, best)).collect();
            rows.sort_unstable();
        }
        let record = NamedTuple::of(py, "rehydrate.compact.result", "Dropped")?;
        let made = |(index, message_tokens, at): (usize, i64, usize)| {
            let unit = of.units.unit_of()[at];
            record.make([
                index.into_pyobject(py)?.into_any(),
                of.of.roles[of.of.rows[at].role].shown.bind(py).clone().into_any(),
                message_tokens.into_pyobject(py)?.into_any(),
                unit.into_pyobject(py)?.into_any(),
                core.message_scores[at].into_pyobject(py)?.into_any(),
                why_dropped(&dropping, tokens[unit], core, unit).into_pyobject(py)?.into_any(),
                handles.get(&of.of.rows[at].index).into_pyobject(py)?.into_any(),
            ])
        };
        PyTuple::new(py, rows.into_iter().map(made).collect::<PyResult<Vec<_>>>()?)
    }
}

impl Decision {
    /// For each unit, the tokens of its messages.
    fn unit_tokens(&self, py: Python<'_>) -> Vec<i64> {
        let of = &self.conversation.bind(py).get().columns;
        let mut tokens = vec![0; of.unit_len()];
        for (&unit, count) in of.units.unit_of().iter().zip(&self.message_tokens) {
            tokens[unit] += count;
        }
        tokens
    }
}
