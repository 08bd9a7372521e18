//! The names in the texts of a conversation, and those of them that are still visible.
use std::sync::Arc;

use pyo3::exceptions::{PyRecursionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};
use rehydrate_core::conversation::outline::lines::{Listed, read_lines};
use rehydrate_core::conversation::outline::quoted::{fitting, write_quoted};
use rehydrate_core::conversation::outline::{self, clean};
use rehydrate_core::conversation::{PieceKind, Role};
use rehydrate_core::engine::Engine;
use rehydrate_core::interrupt::checkpoint;
use rehydrate_core::tokens::Counter;
use rustc_hash::{FxHashMap, FxHashSet};

use super::slot::as_float;
use super::{MakeName, write_fitting};
use crate::convert::{Places, Text, bytes_of, indices_in};
use crate::errors::detached;
use crate::exit::Running;
use crate::reading::{Conversation, Draft, Fields, Source};
use crate::redact::found;

const RESULTS: &str = "in tool results";
const ERRORS: &str = "errors";
const PROPER_NAMES: &str = "spoken of";
const BY_USER: &str = "said by the user";
const BY_ASSISTANT: &str = "said by the assistant";
const BY_OTHERS: &str = "said by others";
const TOOL_CALLS: &str = "tool calls";
/// The headings that aren't tools.
const PLACES: [&str; 6] = [RESULTS, ERRORS, PROPER_NAMES, BY_USER, BY_ASSISTANT, BY_OTHERS];

/// The names in the texts of a conversation, and which of them are still visible.
#[pyclass(module = "rehydrate._native")]
#[derive(Default)]
pub struct NameIndex {
    texts: Vec<Held>,
    names: outline::Names,
    /// The number of texts that the names are of.
    read: usize,
    /// The names inside secrets: they are listed nowhere.
    secret_names: FxHashSet<String>,
    unit: usize,
}

/// A text, without its secrets if it is not visible.
struct Held {
    text: Source,
    kind: PieceKind,
    unit: usize,
    is_visible: bool,
    heading: Arc<str>,
    reference: Arc<str>,
}

/// An earlier outline: its place, and its names.
type Earlier = (f64, Vec<(Text, Text, Text)>);

#[pymethods]
impl NameIndex {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Add a conversation, unit by unit, of which the messages in `kept` are visible.
    ///
    /// `excerpts` maps an index to its message, for those kept in part; `replaced` maps an index to the names of an
    /// earlier outline. `reference_of` returns the reference by which a dropped unit can be read.
    #[pyo3(signature = (conversation, kept, reference_of, *, excerpts=None, replaced=None))]
    fn add(
        &mut self,
        py: Python<'_>,
        conversation: &Conversation,
        kept: &Bound<'_, PyAny>,
        reference_of: &Bound<'_, PyAny>,
        excerpts: Option<&Bound<'_, PyAny>>,
        replaced: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _running = Running::begin();
        let kept = indices_in(kept)?;
        let mut cut: FxHashMap<usize, Bound<'_, PyAny>> = FxHashMap::default();
        for (index, message) in items(excerpts)? {
            cut.insert(index.extract()?, message);
        }
        let read = |(index, names): (Bound<'_, PyAny>, Bound<'_, PyAny>)| Ok((index.extract()?, names.extract()?));
        let mut earlier = items(replaced)?.into_iter().map(read).collect::<PyResult<Vec<Earlier>>>()?;
        earlier.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let reference_of = |unit| reference_of.call1((conversation.units(py)?.get_item(unit)?,))?.extract();
        self.add_units(py, conversation, &kept, reference_of, &cut, earlier)
    }

    /// Add a text that is visible next to the conversation.
    fn add_visible(&mut self, text: Bound<'_, PyString>) -> PyResult<()> {
        let _running = Running::begin();
        self.hold(Source::of(text)?, PieceKind::Text, true, &Arc::from(""), &Arc::from(""));
        Ok(())
    }

    /// The names that are no longer visible, the most useful first.
    fn best<'py>(&mut self, py: Python<'py>, limit: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let _running = Running::begin();
        let names = self.found(py, "", limit)?;
        let made = MakeName::new(py)?;
        names
            .iter()
            .map(|found| self.listed(found))
            .map(|it| made.name(py, [it.name, it.heading, it.reference]))
            .collect()
    }
}

impl NameIndex {
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The names of a conversation of which no part is visible.
    pub fn of(py: Python<'_>, conversation: &Conversation) -> PyResult<Self> {
        let mut index = Self::default();
        let (none, uncut) = (FxHashSet::default(), FxHashMap::default());
        index.add_units(py, conversation, &none, |_| Ok(String::new()), &uncut, Vec::new())?;
        Ok(index)
    }

    /// The best names by their heading, as many as an outline of this many characters has.
    pub fn by_heading(
        &mut self,
        py: Python<'_>,
        limit: usize,
        max_chars: usize,
    ) -> PyResult<Vec<(String, Vec<String>)>> {
        let found = self.found(py, "", limit)?;
        let listed: Vec<Listed<&str>> = found.iter().map(|found| self.listed(found)).collect();
        let written = write_fitting(&listed, "", |lines| Ok(lines.chars().count() <= max_chars))?;
        let mut headings: Vec<(String, Vec<String>)> = Vec::new();
        for Listed { name, heading, .. } in read_lines(&written).unwrap_or_default() {
            match headings.iter_mut().find(|(known, _)| *known == heading) {
                Some((_, names)) => names.push(name),
                None => headings.push((heading, vec![name])),
            }
        }
        Ok(headings)
    }

    /// Add a conversation. `reference_of` returns the reference by which the unit with a number can be read. `cut` are
    /// the messages kept in part, and `earlier` the outlines that it had, in order.
    pub fn add_units(
        &mut self,
        py: Python<'_>,
        conversation: &Conversation,
        kept: &FxHashSet<usize>,
        reference_of: impl Fn(usize) -> PyResult<String>,
        cut: &FxHashMap<usize, Bound<'_, PyAny>>,
        earlier: Vec<Earlier>,
    ) -> PyResult<()> {
        let mut earlier = earlier.into_iter().peekable();
        let of = &conversation.columns;
        for unit in 0..of.unit_len() {
            let members = of.units.members(unit);
            let Some(first) = members.first().map(|&at| of.of.rows[at].index) else { continue };
            while let Some((_, names)) = earlier.next_if(|(at, _)| *at < as_float(first)) {
                self.add_earlier(&names);
            }
            self.unit += 1;
            let reference = if kept.contains(&first) { String::new() } else { reference_of(unit)? };
            let reference: Arc<str> = reference.into();
            for &at in members {
                let (index, role) = (of.of.rows[at].index, of.role(at));
                let mut is_visible = kept.contains(&index) || role == Role::System;
                if let Some(message) = cut.get(&index) {
                    let mut draft = Draft::default();
                    draft.take(message.cast::<PyTuple>()?)?;
                    let spoken_by = draft.rows.first().map_or(role, |row| draft.roles[row.role].role);
                    self.add_message(py, spoken_by, &draft.pieces, &Arc::from(""), true)?;
                    is_visible = false;
                }
                self.add_message(py, role, of.pieces(at), &reference, is_visible)?;
            }
        }
        earlier.for_each(|(_, names)| self.add_earlier(&names));
        Ok(())
    }

    /// The best names that are not visible, neither in this text.
    fn found(&mut self, py: Python<'_>, visible: &str, limit: usize) -> PyResult<Vec<outline::Name>> {
        detached(py, || {
            for (position, held) in self.texts.iter().enumerate().skip(self.read) {
                checkpoint();
                if !held.is_visible {
                    self.names.read(held.text.as_str(), held.kind, held.unit, position);
                }
                self.read = position + 1;
            }
            // A name inside a secret counts as visible, so that it is never listed.
            let secret_names: Vec<&str> = self.secret_names.iter().map(String::as_str).collect();
            let secret_names = secret_names.join("\n");
            let shown = self.texts.iter().filter(|held| held.is_visible).map(|held| held.text.as_str());
            let shown = shown.chain([&*secret_names, visible]);
            Ok(self.names.best(shown, self.unit, limit))
        })
    }

    fn listed<'a>(&'a self, found: &'a outline::Name) -> Listed<&'a str> {
        let held = &self.texts[found.acted.unwrap_or(found.last)];
        let heading = match found {
            outline::Name { acted: None, name, .. } if clean::is_error(name) => ERRORS,
            outline::Name { spoken: true, .. } => PROPER_NAMES,
            _ => &held.heading,
        };
        Listed { name: &found.name, heading, reference: &held.reference }
    }

    /// The best names that are neither visible nor in this text, and lines of them, in at most this many tokens.
    /// Nothing may have been added before.
    pub fn written(&mut self, py: Python<'_>, visible: &str, tokens: i64, counter: Counter) -> PyResult<Vec<u8>> {
        let count = |text: &str| Engine::shared().count(text, counter);
        let found = self.found(py, visible, usize::try_from(tokens).unwrap_or(0))?;
        let names: Vec<Listed<&str>> = found.iter().map(|found| self.listed(found)).collect();
        let names = detached(py, || Ok(fitting(&names, tokens, count)))?;
        let mut texts: FxHashMap<&str, Vec<u8>> = FxHashMap::default();
        for found in &found[..names.len()] {
            let Held { unit, reference, .. } = &self.texts[found.acted.unwrap_or(found.last)];
            if reference.is_empty() || texts.contains_key(&**reference) {
                continue;
            }
            let first = self.texts.partition_point(|held| held.unit < *unit);
            let of_unit = self.texts[first..].iter().take_while(|held| held.unit == *unit);
            let gone = of_unit.filter(|held| !held.is_visible).map(|held| held.text.to_py(py));
            let gone = gone.map(|text| Ok(bytes_of(&text)?.into_owned())).collect::<PyResult<Vec<_>>>()?;
            texts.insert(reference, gone.join(&b'\n'));
        }
        detached(py, || Ok(write_quoted(names, &texts, tokens, count)))
    }

    fn hold(&mut self, text: Source, kind: PieceKind, is_visible: bool, heading: &Arc<str>, reference: &Arc<str>) {
        let (heading, reference) = (heading.clone(), reference.clone());
        self.texts.push(Held { text, kind, unit: self.unit, is_visible, heading, reference });
    }

    /// Add the names of an earlier outline.
    fn add_earlier(&mut self, names: &[(Text, Text, Text)]) {
        self.unit += 1;
        for (name, heading, reference) in names {
            let (name, heading) = (name.as_str(), heading.as_str());
            let (kind, text) = if heading == PROPER_NAMES {
                // The engine finds one by two uses inside a sentence.
                (PieceKind::Text, format!("of {name} and {name}"))
            } else if PLACES.contains(&heading) {
                (PieceKind::ToolResult, name.to_owned())
            } else {
                (PieceKind::ToolInput, name.to_owned())
            };
            self.hold(Source::Written(text.into()), kind, false, &heading.into(), &reference.as_str().into());
        }
    }

    fn add_message(
        &mut self,
        py: Python<'_>,
        role: Role,
        pieces: &[(Source, PieceKind)],
        reference: &Arc<str>,
        is_visible: bool,
    ) -> PyResult<()> {
        let said = match role {
            Role::User => BY_USER,
            Role::Assistant => BY_ASSISTANT,
            _ => BY_OTHERS,
        };
        for (text, kind) in pieces.iter().filter(|(text, _)| !text.as_str().is_empty()) {
            let (heading, clean): (Arc<str>, Source) = match kind {
                PieceKind::Thinking => continue,
                PieceKind::ToolInput => {
                    let (tool, _) = text.as_str().split_once(' ').unwrap_or((text.as_str(), ""));
                    let heading = clean::heading_of(tool);
                    let heading = if heading.is_empty() { TOOL_CALLS.into() } else { heading.into() };
                    (heading, self.clean_input(&text.to_py(py))?)
                }
                PieceKind::ToolResult if is_visible => (RESULTS.into(), text.clone_ref(py)),
                PieceKind::Text if is_visible => (said.into(), text.clone_ref(py)),
                PieceKind::ToolResult => (RESULTS.into(), self.clean_text(&text.to_py(py))?),
                PieceKind::Text => (said.into(), self.clean_text(&text.to_py(py))?),
            };
            self.hold(clean, *kind, is_visible, &heading, reference);
        }
        Ok(())
    }

    /// The text without secrets.
    fn clean_text(&mut self, text: &Bound<'_, PyString>) -> PyResult<Source> {
        let source = Source::of(text.clone())?;
        let secrets = match &source {
            Source::Replaced(..) => found(text.py(), text.extract::<Places>()?.as_str(), &[])?,
            source => found(text.py(), source.as_str(), &[])?,
        };
        if secrets.is_empty() {
            return Ok(source);
        }
        Ok(self.without_labels(source.as_str(), &clean::labelled(source.as_str(), &secrets)))
    }

    /// The values of a call's arguments, one a line, without secrets.
    ///
    /// Values, not JSON: the escapes of JSON would become part of the names.
    fn clean_input(&mut self, input: &Bound<'_, PyString>) -> PyResult<Source> {
        let py = input.py();
        let arguments = input.call_method1("partition", (" ",))?.get_item(2)?.cast_into::<PyString>()?;
        let read = || -> PyResult<_> {
            let value = py.import("json")?.getattr("loads")?.call1((&arguments,))?;
            let before = leaves(&value)?;
            if found(py, arguments.extract::<Places>()?.as_str(), &[])?.is_empty() {
                return Ok((before, None));
            }
            let redactor = py.import("rehydrate.memory.redaction")?.getattr("Redactor")?.call0()?;
            let after = leaves(&redactor.call_method1("inside", (value,))?)?;
            Ok((before, Some(after)))
        };
        match read() {
            Ok((before, None)) => Source::of(before),
            Ok((before, Some(after))) if PyAnyMethods::eq(before.as_any(), &after)? => Source::of(before),
            Ok((before, Some(after))) => {
                Ok(self.without_labels(Source::of(before)?.as_str(), Source::of(after)?.as_str()))
            }
            Err(error) if error.is_instance_of::<PyValueError>(py) || error.is_instance_of::<PyRecursionError>(py) => {
                self.clean_text(&arguments)
            }
            Err(error) => Err(error),
        }
    }

    fn without_labels(&mut self, before: &str, after: &str) -> Source {
        let cleaned = clean::cleaned(before, after);
        self.secret_names.extend(cleaned.lost);
        Source::Written(cleaned.text.into())
    }
}

/// The items of a mapping, if there is one.
fn items<'py>(mapping: Option<&Bound<'py, PyAny>>) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    mapping.and_then(Fields::of).map_or(Ok(Vec::new()), Fields::items)
}

/// The texts and numbers in a JSON value, one a line.
fn leaves<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    let found = PyList::empty(value.py());
    let mut open = vec![value.clone()];
    while let Some(value) = open.pop() {
        if let Ok(dict) = value.cast::<PyDict>() {
            let start = open.len();
            open.extend(dict.iter().map(|(_, value)| value));
            open[start..].reverse();
        } else if let Ok(list) = value.cast::<PyList>() {
            let start = open.len();
            open.extend(list.iter());
            open[start..].reverse();
        } else if !value.is_none() && !value.is_instance_of::<PyBool>() {
            found.append(value.str()?)?;
        }
    }
    Ok(PyString::new(value.py(), "\n").call_method1("join", (found,))?.cast_into()?)
}
