//! The events of several replies as a client gets them, by the provider's API.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::sums::joined_contents;
use super::{BETWEEN_TEXTS, Replies, Shown};
use crate::answers::{Any, copied, get, is_type, listed, name, set};

impl Replies {
    pub(super) fn messages_event<'py>(&mut self, event: &Bound<'py, PyDict>) -> PyResult<Shown<'py>> {
        let kind = name(event, "type")?;
        let starts = kind == "content_block_start";
        match get(event, "index")? {
            _ if kind == "message_delta" || kind == "message_stop" => {
                self.held.push(event.clone().unbind());
                Ok(Vec::new())
            }
            Some(block) if starts && self.is_ours(&event.as_any().get_item("content_block")?)? => {
                self.hide(&block)?;
                Ok(Vec::new())
            }
            Some(block) => {
                if starts {
                    self.show(&block)?;
                }
                Ok(self.placed(event, "index")?.into_iter().collect())
            }
            None if kind == "message_start" && self.replies > 1 => Ok(Vec::new()),
            None => Ok(vec![event.clone()]),
        }
    }

    pub(super) fn chat_event<'py>(&mut self, event: &Bound<'py, PyDict>) -> PyResult<Shown<'py>> {
        let py = event.py();
        let has_usage = set(event, "usage")?.is_some();
        let Some(choice) = listed(event, "choices")?.into_iter().next() else {
            if !has_usage {
                return Ok(vec![event.clone()]);
            }
            self.held.push(self.with_head(event)?.unbind());
            return Ok(Vec::new());
        };
        let delta = set(&choice, "delta")?.map_or_else(|| Ok(PyDict::new(py)), |delta| copied(&delta))?;
        if self.replies == 1 {
            let head = PyDict::new(py);
            for key in ["id", "created"] {
                if let Some(value) = event.get_item(key)? {
                    head.set_item(key, value)?;
                }
            }
            self.head = head.unbind();
        } else if delta.contains("role")? {
            delta.del_item("role")?;
        }
        if self.has_text_before
            && let Some(content) = set(&delta, "content")?
        {
            let between = PyString::new(py, BETWEEN_TEXTS).into_any();
            delta.set_item("content", joined_contents(py, vec![between, content], "")?)?;
            self.has_text_before = false;
        }
        if delta.contains("tool_calls")? {
            let calls = self.chat_calls(listed(&delta, "tool_calls")?)?;
            if calls.is_empty() {
                delta.del_item("tool_calls")?;
            } else {
                delta.set_item("tool_calls", calls)?;
            }
        }
        let shown = self.with_head(event)?;
        let with_choices = |choices: Vec<Bound<'py, PyDict>>| {
            let changed = shown.copy()?;
            changed.set_item("choices", choices)?;
            PyResult::Ok(changed)
        };
        if set(&choice, "finish_reason")?.is_some() {
            let ending = copied(&choice)?;
            ending.set_item("delta", PyDict::new(py))?;
            self.held.push(with_choices(vec![ending])?.unbind());
            if shown.contains("usage")? {
                shown.del_item("usage")?;
            }
        } else if !self.held.is_empty() && has_usage {
            self.held.push(with_choices(Vec::new())?.unbind()); // some servers write a choice next to the usage
            shown.del_item("usage")?;
        }
        if delta.values().iter().all(|value| value.is_none()) {
            return Ok(Vec::new());
        }
        let choice = copied(&choice)?;
        choice.set_item("delta", delta)?;
        choice.set_item("finish_reason", py.None())?;
        shown.set_item("choices", [choice])?;
        Ok(vec![shown])
    }

    /// An event with the fields that each event of the answer has from the first.
    fn with_head<'py>(&self, event: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
        let shown = event.copy()?;
        shown.update(self.head.bind(event.py()).as_mapping())?;
        Ok(shown)
    }

    fn chat_calls<'py>(&mut self, deltas: Vec<Any<'py>>) -> PyResult<Shown<'py>> {
        let mut visible = Vec::new();
        for delta in deltas {
            let part = get(&delta, "index")?.unwrap_or_else(|| delta.py().None().into_bound(delta.py()));
            let is_named = set(&delta, "function")?.map_or(Ok(None), |function| set(&function, "name"))?.is_some();
            if is_named && self.is_ours(&delta)? {
                self.hide(&part)?;
            } else if is_named && (part.is_none() || self.place(&part)?.is_none()) {
                self.show(&part)?;
            }
            if let Some(place) = self.place(&part)? {
                let shown = copied(&delta)?;
                shown.set_item("index", place)?;
                visible.push(shown);
            }
        }
        Ok(visible)
    }

    pub(super) fn responses_event<'py>(&mut self, event: &Bound<'py, PyDict>) -> PyResult<Shown<'py>> {
        let mut shown = Vec::new();
        for each in self.responses_events(event)? {
            let each = each.copy()?;
            each.set_item("sequence_number", self.sequence)?;
            self.sequence += 1;
            shown.push(each);
        }
        Ok(shown)
    }

    fn responses_events<'py>(&mut self, event: &Bound<'py, PyDict>) -> PyResult<Shown<'py>> {
        let py = event.py();
        let kind = name(event, "type")?;
        if ["response.completed", "response.incomplete", "response.failed"].contains(&kind.as_str()) {
            self.held.push(event.clone().unbind());
            return self.let_go(py);
        }
        let Some(part) = get(event, "output_index")? else {
            let begins = ["response.created", "response.in_progress", "response.queued"].contains(&kind.as_str());
            return Ok(if begins && self.replies > 1 { Vec::new() } else { vec![event.clone()] });
        };
        let item = if kind == "response.output_item.added" { Some(event.as_any().get_item("item")?) } else { None };
        if let Some(item) = &item {
            if self.is_ours(item)? {
                self.waiting.clear();
                self.hide(&part)?;
                return Ok(Vec::new());
            }
            if is_type(item, "reasoning")? {
                let shown = self.let_go(py);
                self.waiting = vec![event.clone().unbind()];
                return shown;
            }
        }
        if let Some(first) = self.waiting.first()
            && first.bind(py).as_any().get_item("output_index")?.eq(&part)?
        {
            self.waiting.push(event.clone().unbind());
            return Ok(Vec::new());
        }
        let mut shown = self.let_go(py)?;
        if item.is_some() {
            self.show(&part)?;
        }
        shown.extend(self.placed(event, "output_index")?);
        Ok(shown)
    }

    /// The reasoning that waited, in its place.
    fn let_go<'py>(&mut self, py: Python<'py>) -> PyResult<Shown<'py>> {
        let waiting: Vec<_> = std::mem::take(&mut self.waiting).into_iter().map(|event| event.into_bound(py)).collect();
        if let Some(first) = waiting.first() {
            self.show(&first.as_any().get_item("output_index")?)?;
        }
        let mut shown = Vec::new();
        for event in waiting {
            shown.extend(self.placed(&event, "output_index")?);
        }
        Ok(shown)
    }

    /// The place of a part in the answer. None if it is not there.
    fn place(&self, part: &Any<'_>) -> PyResult<Option<usize>> {
        match self.places.bind(part.py()).get_item(part)? {
            Some(place) => place.extract(),
            None => Ok(None),
        }
    }

    fn hide(&self, part: &Any<'_>) -> PyResult<()> {
        self.places.bind(part.py()).set_item(part, part.py().None())
    }

    fn show(&mut self, part: &Any<'_>) -> PyResult<()> {
        self.places.bind(part.py()).set_item(part, self.shown_parts)?;
        self.shown_parts += 1;
        Ok(())
    }

    /// An event with its part's place in the answer. None if the part is not in it.
    fn placed<'py>(&self, event: &Bound<'py, PyDict>, key: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(place) = self.place(&event.as_any().get_item(key)?)? else { return Ok(None) };
        let placed = event.copy()?;
        placed.set_item(key, place)?;
        Ok(Some(placed))
    }
}
