//! The parts of a prompt, one after another, each with its segment.
use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyString};

use super::history::{History, index_in};
use super::rows::{Rows, SentRow};
use super::{Laid, Messages, Part};
use crate::convert::NamedTuple;
use crate::interned::interned;
use crate::reading::{Fields, is_list, sent_part, text_of};
use crate::writing::is_own;

/// The parts of a prompt, in order, and the index of the last one of each name.
pub struct Parts<'py> {
    pub segments: Bound<'py, PyList>,
    pub values: Bound<'py, PyList>,
    pub named: Bound<'py, PyDict>,
    /// The ids of parts that aren't messages of the history.
    ids: Bound<'py, PyList>,
    /// Makes `Segment`s.
    segment: NamedTuple<'py>,
}

impl<'py> Parts<'py> {
    pub fn new(py: Python<'py>) -> PyResult<Self> {
        Ok(Self {
            segments: PyList::empty(py),
            values: PyList::empty(py),
            named: PyDict::new(py),
            ids: PyList::empty(py),
            segment: NamedTuple::of(py, "rehydrate.prompt.ir", "Segment")?,
        })
    }

    /// A part of this id and kind.
    pub fn part(
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

    pub fn of_tools(&self, tools: &Bound<'py, PyAny>, provider: &str) -> PyResult<Bound<'py, PyList>> {
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
    pub fn of_native(&self, section: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
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
    pub fn messages(
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
    pub fn add(&self, part: &Part<'py>) -> PyResult<()> {
        self.segments.append(&part.0)?;
        self.values.append(&part.1)?;
        self.ids.append(part.0.getattr(interned!(part.0.py(), "id"))?)
    }

    /// Name the last part.
    pub fn name(&self, name: &Bound<'py, PyAny>) -> PyResult<()> {
        self.named.set_item(name, self.values.len() as isize - 1)
    }

    pub fn add_sections<'a>(&self, sections: impl IntoIterator<Item = &'a Laid<'py>>) -> PyResult<()>
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
    pub fn add_history(&self, messages: &Messages, inserted: &BTreeMap<usize, Vec<&Laid<'py>>>) -> PyResult<()> {
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
    pub fn has_namesakes(&self) -> PyResult<bool> {
        if PySet::new(self.ids.py(), &self.ids)?.len() < self.ids.len() {
            return Ok(true);
        }
        Ok(self.named.keys().iter().any(|name| name.cast().is_ok_and(|name| index_in(name).is_some())))
    }

    /// The segments with numbered ids of the messages that one entry became, from the second on.
    pub fn with_unique_ids(&self) -> PyResult<Bound<'py, PyList>> {
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

pub fn stability_of(section: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(text_of(&section.getattr(interned!(section.py(), "stability"))?.str()?).into_owned())
}

pub fn anchor_of(section: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    section.getattr(interned!(section.py(), "anchor"))?.extract()
}
