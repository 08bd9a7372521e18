//! A prompt as the messages of a host that sends them itself: its own entries, and sections as messages of the user.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rustc_hash::FxHashMap;

use super::history::{History, index_in};
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::text_of;
use crate::writing::{alternating, has_system_apart, user_message, user_part};

/// The index of an entry in the host's list, None for a section; and its message.
type Shown<'py> = (Option<usize>, Bound<'py, PyAny>);

/// The messages of a prompt in the format of its history. Hot memory is one too: the system text is the host's.
///
/// A list that the user began begins with the user: with `beginning`, if a compaction took the user's words.
/// `write(section)` returns a section's text as it is sent.
#[pyfunction]
pub fn shown_messages<'py>(
    prompt: &Bound<'py, PyAny>,
    beginning: &Bound<'py, PyString>,
    write: &Bound<'py, PyAny>,
) -> PyResult<Vec<Shown<'py>>> {
    let _running = Running::begin();
    let py = prompt.py();
    let ir = prompt.getattr(interned!(py, "ir"))?;
    let provider = prompt.getattr(interned!(py, "provider"))?.cast_into::<PyString>()?;
    let sections = PyDict::new(py);
    for section in ir.getattr(interned!(py, "sections"))?.try_iter()? {
        let section = section?;
        let source = section.getattr(interned!(py, "provenance"))?.getattr(interned!(py, "source"))?;
        if !source.eq("system")? {
            sections.set_item(section.getattr(interned!(py, "id"))?, section)?;
        }
    }
    let mut segments = Vec::new();
    for segment in prompt.getattr(interned!(py, "segments"))?.try_iter()? {
        let segment = segment?;
        let part = Part {
            id: segment.getattr(interned!(py, "id"))?.cast_into()?,
            kind: segment.getattr(interned!(py, "kind"))?.cast_into()?,
        };
        if !part.is("tool") {
            segments.push(part);
        }
    }
    let prompt = Prompt {
        messages: prompt.getattr(interned!(py, "messages"))?.extract()?,
        history: History::of(ir.getattr(interned!(py, "history"))?)?,
        provider: text_of(&provider).into_owned(),
        segments,
        sections,
        write,
    };
    let shown =
        if prompt.history.format == prompt.provider { prompt.own_messages()? } else { prompt.picked_entries()? };
    // Responses takes any beginning.
    if prompt.provider == "openai_responses" { Ok(shown) } else { prompt.with_user_first(shown, beginning) }
}

/// The facts that a segment of a prompt has of a part.
struct Part<'py> {
    id: Bound<'py, PyString>,
    kind: Bound<'py, PyString>,
}

impl Part<'_> {
    fn is(&self, kind: &str) -> bool {
        text_of(&self.kind) == kind
    }
}

struct Prompt<'a, 'py> {
    messages: Vec<Bound<'py, PyAny>>,
    history: History<'py>,
    provider: String,
    /// All but the tools'.
    segments: Vec<Part<'py>>,
    /// Those that no host has, by their ids.
    sections: Bound<'py, PyDict>,
    write: &'a Bound<'py, PyAny>,
}

impl<'py> Prompt<'_, 'py> {
    /// The messages of a prompt whose history is in the provider's own format.
    fn own_messages(&self) -> PyResult<Vec<Shown<'py>>> {
        let py = self.write.py();
        let mut parts: Vec<&Part<'py>> = self.segments.iter().collect();
        let mut messages = Vec::new();
        if has_system_apart(&self.provider) {
            let (mut system, said) = parts.into_iter().partition::<Vec<_>, _>(|part| part.is("system"));
            system.retain(|part| self.sections.contains(&part.id).unwrap_or(false));
            for part in &system {
                messages.extend(self.section(part)?.map(|(_, message)| message));
            }
            parts = [system, said].concat();
        }
        messages.extend(self.messages.iter().cloned());
        if self.provider == "bedrock" {
            messages = alternating(&PyList::new(py, messages)?)?.iter().collect();
            let row_of = self.history.row_of_index()?;
            let roles: Vec<String> = parts.iter().map(|part| self.role_of(part, &row_of)).collect::<PyResult<_>>()?;
            let mut number = 0;
            parts.retain(|_| {
                number += 1;
                number == 1 || roles[number - 1] != roles[number - 2]
            });
        }
        if parts.len() != messages.len() {
            let words = format!("the prompt has {} messages for {} segments", messages.len(), parts.len());
            return Err(PyValueError::new_err(words));
        }
        Ok(parts.iter().zip(messages).map(|(part, message)| (index_in(&part.id), message)).collect())
    }

    /// The role of an entry, or the user's for a section.
    fn role_of(&self, part: &Part<'py>, row_of: &FxHashMap<usize, usize>) -> PyResult<String> {
        let Some(row) = index_in(&part.id).and_then(|index| row_of.get(&index)) else { return Ok("user".to_owned()) };
        let role = self.history.entries.get_item(*row)?.get_item(interned!(self.write.py(), "role"))?;
        Ok(text_of(&role.str()?).into_owned())
    }

    /// The entries of a prompt in another format: one may become several messages, and several may become one.
    fn picked_entries(&self) -> PyResult<Vec<Shown<'py>>> {
        let (mut shown, mut done) = (Vec::new(), 0);
        let row_of = self.history.row_of_index()?;
        for part in &self.segments {
            if let Some(section) = self.section(part)? {
                shown.push(section);
            } else if let Some(&row) = index_in(&part.id).and_then(|index| row_of.get(&index)) {
                self.entries_to(row + 1, &mut done, &mut shown)?;
            }
        }
        self.entries_to(self.history.entries.len(), &mut done, &mut shown)?;
        Ok(shown)
    }

    /// Add the entries up to a row.
    fn entries_to(&self, end: usize, done: &mut usize, shown: &mut Vec<Shown<'py>>) -> PyResult<()> {
        for row in *done..end {
            shown.push((Some(self.history.entry_index(row)?), self.history.entries.get_item(row)?));
        }
        *done = end.max(*done);
        Ok(())
    }

    /// The message of a section; None for a part of anything else.
    fn section(&self, part: &Part<'py>) -> PyResult<Option<Shown<'py>>> {
        let Some(section) = self.sections.get_item(&part.id)? else { return Ok(None) };
        let text = self.write.call1((section,))?.cast_into()?;
        Ok(Some((None, self.user_message(&text)?)))
    }

    /// The messages with the user's before the assistant's, if a compaction took those.
    fn with_user_first(
        &self,
        mut shown: Vec<Shown<'py>>,
        beginning: &Bound<'py, PyString>,
    ) -> PyResult<Vec<Shown<'py>>> {
        let Some((first, role)) = self.history.first_said()? else { return Ok(shown) };
        if text_of(&role) != "assistant" {
            return Ok(shown);
        }
        let index = self.history.entry_index(first)?;
        let at = shown.iter().position(|(each, _)| *each == Some(index)).unwrap_or_default();
        let begins_so = index == first; // the host's own beginning
        if !begins_so && shown[..at].iter().all(|(each, _)| each.is_some()) {
            shown.insert(at, (None, self.user_message(beginning)?));
        }
        Ok(shown)
    }

    fn user_message(&self, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let format = &self.history.format;
        if format == "langchain" { user_message(text, format, true) } else { Ok(user_part(format, text)?.into_any()) }
    }
}
