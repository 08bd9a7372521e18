//! The layout of a prompt: its parts in the order in which a provider reads them, old and new.
//!
//! A part is a tool, a system block or a message, as it is sent, with its segment. Those of the history are kept by
//! row: if a history extends the last one, only its new rows are rendered.
mod change;
pub mod history;
mod parts;
mod rows;
mod shown;

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyList, PyString, PyTuple};
use rehydrate_core::engine::Engine;

pub use change::prompt_break;

use crate::convert::Text;
use crate::errors::detached;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::insertion_point;
use crate::tokens::named;
use crate::writing::{has_system_apart, marked, request_of, system_part, user_part};
use history::{History, index_in};
pub use history::{check_columns, check_indices};
use parts::{Parts, anchor_of, stability_of};
use rows::{Rows, SentRow};
pub use shown::shown_messages;

/// The history's messages, as if no section were among them.
struct Messages {
    segments: Py<PyList>,
    values: Py<PyList>,
    /// Up to and with each message, the highest entry index.
    highest: Vec<usize>,
}

/// The parts of a prompt in the order in which a provider reads them.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Layout {
    #[pyo3(get)]
    provider: String,
    counter: String,
    format: String,
    #[pyo3(get)]
    segments: Py<PyList>,
    #[pyo3(get)]
    values: Py<PyList>,
    /// The number of parts that are tools.
    #[pyo3(get)]
    tools: usize,
    /// The number of parts that are tools, system blocks or messages of the system.
    #[pyo3(get)]
    system: usize,
    /// Content that was left out or changed, and the indices of its entries.
    #[pyo3(get)]
    lost: Py<PyDict>,
    /// The index of the last part of each tool or section, by its name.
    named: Py<PyDict>,
    /// The index of the history's first message, or the one that it would have without sections in it.
    first: usize,
    /// For each section in the history, the index of the message after it.
    inserted: Vec<usize>,
    rows: Rows,
    messages: Messages,
    tool_parts: (Py<PyAny>, Py<PyList>),
    /// By a section's id, the section and its parts.
    section_parts: Py<PyDict>,
}

#[pymethods]
impl Layout {
    /// Lay out a prompt whose history has the first `known` rows from the `last` one.
    ///
    /// `beginning` says that earlier messages are not shown, if the provider wants the user first. `write(section)`
    /// returns a section's text as it is sent, and its tokens; `count(messages)` the tokens of messages of the
    /// provider.
    #[new]
    fn new<'py>(
        ir: &Bound<'py, PyAny>,
        provider: &str,
        known: usize,
        last: Option<&Bound<'py, Self>>,
        beginning: &Bound<'py, PyString>,
        write: &Bound<'py, PyAny>,
        count: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let _running = Running::begin();
        let py = ir.py();
        let history = History::of(ir.getattr(interned!(py, "history"))?)?;
        let counter: String = ir.getattr(interned!(py, "counter"))?.extract()?;
        let last = last
            .map(Bound::get)
            .filter(|last| last.provider == provider && last.counter == counter && last.format == history.format);
        let known = if last.is_some() { known } else { 0 };
        let rows = Rows::of(&history, provider, known, last.map(|last| &last.rows));
        let rows = rows.map_err(|error| at_its_entry(py, error, &history))?;
        let parts = Parts::new(py)?;
        let tools = ir.getattr(interned!(py, "tools"))?;
        let tool_parts = match last.filter(|last| last.tool_parts.0.is(&tools)) {
            Some(last) => last.tool_parts.1.bind(py).clone(),
            None => parts.of_tools(&tools, provider)?,
        };
        let known_sections = last.map(|last| last.section_parts.bind(py));
        let layers = Layers::of(&parts, ir, provider, known_sections, write)?;

        let tool_count = tools.len()?;
        for (number, part) in tool_parts.iter().enumerate() {
            let part: Part<'py> = part.extract()?;
            let id = part.0.getattr(interned!(py, "id"))?;
            parts.add(&part)?;
            parts.name(if number + 1 == tool_count { interned!(py, "tools") } else { id.cast()? })?;
        }
        parts.add_sections(&layers.system)?;
        for each in &rows.system {
            let row = each.sources[0];
            let (id, tokens) = (history.entry_id(row)?, history.tokens(row)?);
            parts.add(&parts.part(&id, "system", tokens, each.message.bind(py), "static")?)?;
        }
        let system = parts.values.len();

        let messages = parts.messages(&history, &rows, provider, last.map(|last| &last.messages), count)?;
        let inserted = layers.inserted(&history, &messages, provider)?;
        let opening = match layers.statics.iter().find_map(|section| section.parts.get_item(0).ok()) {
            Some(part) => Some(part.extract::<Part<'py>>()?.1),
            None => messages.values.bind(py).get_item(0).ok(),
        };
        if let Some(opening) = opening
            && (!layers.statics.is_empty() || !inserted.contains_key(&0))
            && lacks_user(&opening, ir, &history, provider)?
        {
            let (text, name): (Text, _) = (beginning.extract()?, interned!(py, "beginning"));
            let tokens = detached(py, || Ok(Engine::shared().count(text.as_str(), self::named(&counter)?)))?;
            let value = user_part(provider, beginning)?;
            parts.add(&parts.part(name, "message", tokens.into(), &value, "static")?)?;
            parts.name(name)?;
        }
        parts.add_sections(&layers.statics)?;
        let first = parts.values.len();
        parts.add_history(&messages, &inserted)?;
        let count = rows.messages.len();
        let lone: std::collections::BTreeSet<usize> = rows.messages.iter().map(|each| each.sources[0]).collect();
        let parts_entries = history.format != provider && lone.len() < count;
        let segments = if parts.has_namesakes()? || parts_entries { parts.with_unique_ids()? } else { parts.segments };
        let lost = PyDict::new(py);
        for (what, places) in &rows.lost {
            let indices = places.iter().map(|&row| history.entry_index(row)).collect::<PyResult<Vec<_>>>()?;
            lost.set_item(what, PyFrozenSet::new(py, indices)?)?;
        }
        Ok(Self {
            provider: provider.to_owned(),
            counter,
            format: history.format,
            segments: segments.unbind(),
            values: parts.values.unbind(),
            tools: tool_count,
            system,
            lost: lost.unbind(),
            named: parts.named.unbind(),
            first,
            inserted: inserted.iter().flat_map(|(&at, sections)| sections.iter().map(move |_| at)).collect(),
            rows,
            messages,
            tool_parts: (tools.unbind(), tool_parts.unbind()),
            section_parts: layers.all.unbind(),
        })
    }

    /// The number of the history's messages that the last prompt had.
    #[getter]
    fn kept(&self) -> usize {
        self.rows.kept
    }

    /// The position in the history of the first entry after a change since the prompt that was sent.
    #[pyo3(signature = (ir, sent))]
    fn first_change<'py>(&self, ir: &Bound<'py, PyAny>, sent: Option<&Bound<'py, PyAny>>) -> PyResult<Option<usize>> {
        let _running = Running::begin();
        change::first_change(self, ir, sent)
    }

    /// The arguments of the provider's SDK, with cache marks at these places; the segments, and the places with a mark.
    fn request<'py>(
        &self,
        breakpoints: Vec<Bound<'py, PyString>>,
        history: Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyTuple>, Bound<'py, PyTuple>)> {
        let _running = Running::begin();
        let (py, history) = (history.py(), History::of(history)?);
        let (segments, values) = (self.segments.bind(py), self.values.bind(py));
        let (segments, values) = (segments.get_slice(0, segments.len()), values.get_slice(0, values.len()));
        let (is_breakpoint, mut done) = (PyDict::new(py), Vec::new());
        is_breakpoint.set_item("breakpoint", true)?;
        for name in breakpoints {
            let Some(last) = self.index_of(&name, &history)? else { continue };
            let Some(value) = marked(&self.provider, &values.get_item(last)?)? else { continue };
            let segment = segments.get_item(last)?.call_method("_replace", (), Some(&is_breakpoint))?;
            segments.set_item(last, segment)?;
            values.set_item(last, value)?;
            done.push(name);
        }
        let (tools, system) = (values.get_slice(0, self.tools), values.get_slice(self.tools, self.system));
        let messages = values.get_slice(self.system, values.len());
        let request = request_of(&self.provider, &tools, &system, &messages)?;
        Ok((request, segments.to_tuple(), PyTuple::new(py, done)?))
    }
}

impl Layout {
    /// The index of the last part of this name.
    fn index_of<'py>(&self, name: &Bound<'py, PyString>, history: &History<'py>) -> PyResult<Option<usize>> {
        let py = name.py();
        let mut found: Option<usize> = self.named.bind(py).get_item(name)?.map(|at| at.extract()).transpose()?;
        let Some(index) = index_in(name) else { return Ok(found) };
        let is_of = |each: &SentRow| -> PyResult<bool> {
            for &row in &*each.sources {
                if history.entry_index(row)? == index {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        for (number, each) in self.rows.system.iter().enumerate() {
            if is_of(each)? {
                return Ok(found.max(Some(self.system - self.rows.system.len() + number)));
            }
        }
        for (number, each) in self.rows.messages.iter().enumerate().rev() {
            if is_of(each)? {
                let before = self.inserted.partition_point(|&at| at <= number);
                found = found.max(Some(self.first + number + before));
                break;
            }
        }
        Ok(found)
    }
}

/// A segment, and the value that is sent for it.
type Part<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// A section with its parts.
struct Laid<'py> {
    section: Bound<'py, PyAny>,
    parts: Bound<'py, PyList>,
}

/// The sections of a prompt by their place in it.
struct Layers<'py> {
    system: Vec<Laid<'py>>,
    /// Before the history: the provider's own, then those that stay in the next turn.
    statics: Vec<Laid<'py>>,
    dynamic: Vec<Laid<'py>>,
    /// By its id, each section with its parts.
    all: Bound<'py, PyDict>,
}

impl<'py> Layers<'py> {
    /// Those of a prompt; the known ones have the parts that they had.
    fn of(
        parts: &Parts<'py>,
        ir: &Bound<'py, PyAny>,
        provider: &str,
        known: Option<&Bound<'py, PyDict>>,
        write: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let py = ir.py();
        let (mut system, mut native, mut statics, mut dynamic) = (vec![], vec![], vec![], vec![]);
        let all = PyDict::new(py);
        for section in ir.getattr(interned!(py, "sections"))?.try_iter()? {
            let section = section?;
            let is = |name: &Bound<'py, PyString>| section.getattr(name)?.is_truthy();
            let is_native = section.getattr(interned!(py, "native_to"))?.eq(provider)?;
            let is_system = !is_native && is(interned!(py, "is_system"))?;
            let layer = match () {
                () if is_native => &mut native,
                () if is_system => &mut system,
                () if is(interned!(py, "is_static"))? => &mut statics,
                () => &mut dynamic,
            };
            let id = section.getattr(interned!(py, "id"))?;
            let found = known.map(|known| known.get_item(&id)).transpose()?.flatten();
            let found = found.map(|found| found.extract::<(Bound<'py, PyAny>, Bound<'py, PyList>)>()).transpose()?;
            let own = match found {
                Some((was, own)) if was.is(&section) => own,
                _ if is_native => parts.of_native(&section)?,
                _ => {
                    let (text, tokens): (Bound<'py, PyString>, i64) = write.call1((&section,))?.extract()?;
                    let (kind, value) = if is_system {
                        ("system", system_part(provider, &text)?)
                    } else {
                        ("message", user_part(provider, &text)?.into_any())
                    };
                    let stability = stability_of(&section)?;
                    PyList::new(py, [parts.part(&id, kind, tokens, &value, &stability)?])?
                }
            };
            all.set_item(&id, (&section, &own))?;
            layer.push(Laid { section, parts: own });
        }
        native.append(&mut statics);
        Ok(Self { system, statics: native, dynamic, all })
    }

    /// The sections in the history, by the index of the message after them.
    fn inserted(
        &self,
        history: &History<'py>,
        messages: &Messages,
        provider: &str,
    ) -> PyResult<BTreeMap<usize, Vec<&Laid<'py>>>> {
        let mut inserted: BTreeMap<usize, Vec<&Laid<'py>>> = BTreeMap::new();
        let Some(one) = self.dynamic.first() else { return Ok(inserted) };
        let (py, default) = (one.section.py(), history.last_user_turn()?);
        let mut groups: Vec<(Option<usize>, Vec<&Laid<'py>>)> = Vec::new();
        for each in &self.dynamic {
            let anchor = anchor_of(&each.section)?.or(default);
            match groups.iter_mut().find(|(known, _)| *known == anchor) {
                Some((_, group)) => group.push(each),
                None => groups.push((anchor, vec![each])),
            }
        }
        let values = messages.values.bind(py);
        for (anchor, group) in groups {
            let at = anchor.map_or(values.len(), |anchor| messages.highest.partition_point(|&each| each < anchor));
            inserted.entry(insertion_point(values, at, provider)?).or_default().extend(group);
        }
        Ok(inserted)
    }
}

/// Whether the provider requires a user message first, and the passes left none there.
fn lacks_user(
    opening: &Bound<'_, PyAny>,
    ir: &Bound<'_, PyAny>,
    history: &History<'_>,
    provider: &str,
) -> PyResult<bool> {
    let py = opening.py();
    if !has_system_apart(provider) || opening.get_item(interned!(py, "role"))?.eq("user")? {
        return Ok(false);
    }
    for section in ir.getattr(interned!(py, "sections"))?.try_iter()? {
        if section?.getattr(interned!(py, "native_to"))?.is_truthy()? {
            return Ok(false);
        }
    }
    Ok(!(history.begins_as_given()? && history.format == provider))
}

/// An error of a row as one of its entry in the caller's list.
fn at_its_entry(py: Python<'_>, error: PyErr, history: &History<'_>) -> PyErr {
    let value = error.value(py);
    let Ok(Ok(row)) = value.getattr("index").map(|row| row.extract::<usize>()) else { return error };
    let at = history.entry_index(row).and_then(|index| value.call_method1("at", (index,)));
    match at {
        Ok(value) => {
            let error = PyErr::from_value(value);
            error.set_cause(py, None);
            error
        }
        Err(error) => error,
    }
}
