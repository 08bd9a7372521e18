//! The layout of a prompt: its parts in the order in which a provider reads them, old and new.
//!
//! A part is a tool, a system block or a message, as it is sent, with its segment. Those of the history are kept by
//! row: if a history extends the last one, only its new rows are rendered.
mod change;
pub mod history;
mod rows;
mod shown;

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyList, PySet, PyString, PyTuple};
use rehydrate_core::engine::Engine;

pub use change::prompt_break;

use crate::convert::{NamedTuple, Text};
use crate::errors::detached;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{Fields, insertion_point, is_list, sent_part, text_of};
use crate::tokens::named;
use crate::writing::{has_system_apart, is_own, marked, request_of, system_part, user_part};
use history::{History, index_in};
pub use history::{check_columns, check_indices};
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

/// The parts of a prompt, in order, and the index of the last one of each name.
struct Parts<'py> {
    segments: Bound<'py, PyList>,
    values: Bound<'py, PyList>,
    named: Bound<'py, PyDict>,
    /// The ids of parts that aren't messages of the history.
    ids: Bound<'py, PyList>,
    /// Makes `Segment`s.
    segment: NamedTuple<'py>,
}

impl<'py> Parts<'py> {
    fn new(py: Python<'py>) -> PyResult<Self> {
        Ok(Self {
            segments: PyList::empty(py),
            values: PyList::empty(py),
            named: PyDict::new(py),
            ids: PyList::empty(py),
            segment: NamedTuple::of(py, "rehydrate.prompt.ir", "Segment")?,
        })
    }

    /// A part of this id and kind.
    fn part(
        &self,
        id: &Bound<'py, PyAny>,
        kind: &str,
        tokens: i64,
        value: &Bound<'py, PyAny>,
        stability: &str,
    ) -> PyResult<Part<'py>> {
        let py = value.py();
        let (digest, is_marked) = sent_part(value)?;
        let mut blocks = 1;
        if kind == "message"
            && let Some(fields) = Fields::of(value)
        {
            let content = interned!(py, "content");
            let content =
                if fields.has(content)? { fields.get(content)? } else { fields.get(interned!(py, "parts"))? };
            if let Some(content) = content.filter(|content| is_list(content)) {
                blocks = content.len()?;
            }
        }
        let any = |text: &str| PyString::new(py, text).into_any();
        let segment = self.segment.make([
            id.clone(),
            any(kind),
            tokens.into_pyobject(py)?.into_any(),
            any(&digest),
            any(stability),
            blocks.into_pyobject(py)?.into_any(),
            is_marked.into_pyobject(py)?.to_owned().into_any(),
        ])?;
        Ok((segment, value.clone()))
    }

    fn of_tools(&self, tools: &Bound<'py, PyAny>, provider: &str) -> PyResult<Bound<'py, PyList>> {
        let py = tools.py();
        let made = PyList::empty(py);
        for (number, tool) in tools.try_iter()?.enumerate() {
            let tool = tool?;
            let tokens: Option<i64> = tool.getattr(interned!(py, "tokens"))?.extract()?;
            let id = PyString::new(py, &format!("tools[{number}]")).into_any();
            let value = tool.call_method1("render", (provider,))?;
            made.append(self.part(&id, "tool", tokens.unwrap_or_default(), &value, "static")?)?;
        }
        Ok(made)
    }

    /// A summary of the provider's own, as its messages. The last one has the tokens of all.
    fn of_native(&self, section: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = section.py();
        let (id, stability) = (section.getattr(interned!(py, "id"))?, stability_of(section)?);
        let tokens: Option<i64> = section.getattr(interned!(py, "tokens"))?.extract()?;
        let content: Vec<Bound<'py, PyAny>> = section.getattr(interned!(py, "content"))?.extract()?;
        let made = PyList::empty(py);
        for (number, message) in content.iter().enumerate() {
            let tokens = if number + 1 == content.len() { tokens.unwrap_or_default() } else { 0 };
            made.append(self.part(&id, "message", tokens, message, &stability)?)?;
        }
        Ok(made)
    }

    /// The parts of the history's messages: the last prompt's, and those of new ones.
    fn messages(
        &self,
        history: &History<'py>,
        rows: &Rows,
        provider: &str,
        last: Option<&Messages>,
        count: &Bound<'py, PyAny>,
    ) -> PyResult<Messages> {
        let (py, kept) = (count.py(), rows.kept);
        let (segments, values, mut highest) = match last {
            Some(last) => (
                last.segments.bind(py).get_slice(0, kept),
                last.values.bind(py).get_slice(0, kept),
                last.highest[..kept.min(last.highest.len())].to_vec(),
            ),
            None => (PyList::empty(py), PyList::empty(py), Vec::new()),
        };
        let new = &rows.messages[kept..];
        // Messages that were converted from another format are counted.
        let counted: Vec<i64> = if is_own(&history.format, provider) {
            let of = |each: &SentRow| each.sources.iter().map(|&row| history.tokens(row)).sum();
            new.iter().map(of).collect::<PyResult<_>>()?
        } else {
            count.call1((PyList::new(py, new.iter().map(|each| each.message.bind(py)))?,))?.extract()?
        };
        for (each, tokens) in new.iter().zip(counted) {
            let (row, message) = (each.sources[0], each.message.bind(py));
            let (segment, value) = self.part(&history.entry_id(row)?, "message", tokens, message, "static")?;
            segments.append(segment)?;
            values.append(value)?;
            let index = history.entry_index(row)?;
            highest.push(highest.last().map_or(index, |&before| before.max(index)));
        }
        Ok(Messages { segments: segments.unbind(), values: values.unbind(), highest })
    }

    /// Add a part that isn't a message of the history.
    fn add(&self, part: &Part<'py>) -> PyResult<()> {
        self.segments.append(&part.0)?;
        self.values.append(&part.1)?;
        self.ids.append(part.0.getattr(interned!(part.0.py(), "id"))?)
    }

    /// Name the last part.
    fn name(&self, name: &Bound<'py, PyAny>) -> PyResult<()> {
        self.named.set_item(name, self.values.len() as isize - 1)
    }

    fn add_sections<'a>(&self, sections: impl IntoIterator<Item = &'a Laid<'py>>) -> PyResult<()>
    where
        'py: 'a,
    {
        for each in sections {
            for part in &each.parts {
                self.add(&part.extract()?)?;
            }
            self.name(&each.section.getattr(interned!(each.section.py(), "id"))?)?;
        }
        Ok(())
    }

    /// Add the history's messages, and the sections that are among them.
    fn add_history(&self, messages: &Messages, inserted: &BTreeMap<usize, Vec<&Laid<'py>>>) -> PyResult<()> {
        let py = self.values.py();
        let (segments, values) = (messages.segments.bind(py), messages.values.bind(py));
        let (mut done, mut is_static) = (0, true);
        let changed = PyDict::new(py);
        changed.set_item("stability", "dynamic")?;
        let ends = inserted.keys().copied().chain((!inserted.contains_key(&values.len())).then(|| values.len()));
        for at in ends {
            for segment in &segments.get_slice(done, at) {
                let own = if is_static { segment } else { segment.call_method("_replace", (), Some(&changed))? };
                self.segments.append(own)?;
            }
            for value in &values.get_slice(done, at) {
                self.values.append(value)?;
            }
            done = at;
            for section in inserted.get(&at).into_iter().flatten() {
                self.add_sections([*section])?;
                // A section without an anchor moves in the next prompt, with all after it.
                is_static &= anchor_of(&section.section)?.is_some();
            }
        }
        Ok(())
    }

    /// Whether two of the parts that aren't messages have one id, or one has that of an entry.
    fn has_namesakes(&self) -> PyResult<bool> {
        if PySet::new(self.ids.py(), &self.ids)?.len() < self.ids.len() {
            return Ok(true);
        }
        Ok(self.named.keys().iter().any(|name| name.cast().is_ok_and(|name| index_in(name).is_some())))
    }

    /// The segments with numbered ids of the messages that one entry became, from the second on.
    fn with_unique_ids(&self) -> PyResult<Bound<'py, PyList>> {
        let py = self.segments.py();
        let (made, seen) = (PyList::empty(py), PyDict::new(py));
        for segment in &self.segments {
            let id = segment.getattr(interned!(py, "id"))?;
            let number =
                seen.get_item(&id)?.map_or(Ok(1), |before| Ok::<usize, PyErr>(before.extract::<usize>()? + 1))?;
            seen.set_item(&id, number)?;
            if number == 1 {
                made.append(segment)?;
                continue;
            }
            let changed = PyDict::new(py);
            changed.set_item("id", id.str()?.add(format!(".{number}"))?)?;
            made.append(segment.call_method("_replace", (), Some(&changed))?)?;
        }
        Ok(made)
    }
}

fn stability_of(section: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(text_of(&section.getattr(interned!(section.py(), "stability"))?.str()?).into_owned())
}

fn anchor_of(section: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    section.getattr(interned!(section.py(), "anchor"))?.extract()
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
