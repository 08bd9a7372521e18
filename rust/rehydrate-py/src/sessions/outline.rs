//! One session at a glance: the user's own words, and the names in it by their use.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::excerpts::grouped;
use rehydrate_core::sessions::{Speaker, clean, one_line};

use super::clock::{Clock, written};
use super::file::TranscriptReader;
use super::listing::SessionFile;
use super::said::said_by;
use crate::errors::is_no_message;
use crate::exit::Running;
use crate::fences::fenced_section;
use crate::notes::CHARS_A_TOKEN;
use crate::outline::NameIndex;
use crate::reading::{Conversation, Fields, read_entries};

/// The bytes read at the end of a transcript. Earlier ones are left out.
const MAX_BYTES: u64 = 64_000_000;
const MAX_NAMES: usize = 400;
const TURN_CHARS: usize = 300;
/// The number of user turns shown at the start; if there are more, the last ones are shown too.
const FIRST_TURNS: usize = 5;
/// The length of a time to the minute.
const TIME_CHARS: usize = 16;

/// The subject of a session: its turns and names.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct SessionOutline {
    /// The time and the words of user turns.
    #[pyo3(get)]
    turns: Vec<(String, String)>,
    #[pyo3(get)]
    omitted_turns: usize,
    /// By use: the tool that was called with them, or their place.
    names: Vec<(String, Vec<String>)>,
    #[pyo3(get)]
    messages: usize,
    #[pyo3(get)]
    broken_lines: usize,
    skipped_bytes: u64,
    id: String,
}

#[pymethods]
impl SessionOutline {
    /// Read a transcript; names take about `budget_tokens`. Raises OSError.
    #[new]
    fn new(py: Python<'_>, file: &SessionFile, budget_tokens: f64, max_turns: usize) -> PyResult<Self> {
        let _running = Running::begin();
        let start = file.size.saturating_sub(MAX_BYTES);
        let reader = TranscriptReader::new(file.path.clone(), start, start > 0);
        let (lines, conversation) = parsed(reader.objects(py, MAX_BYTES)?, &file.agent)?;
        let mut turns = turns_in(&lines, &conversation)?;
        let omitted_turns = turns.len().saturating_sub(max_turns);
        let first = FIRST_TURNS.min(max_turns);
        if omitted_turns > 0 {
            turns.drain(first..first + omitted_turns);
        }
        let messages = conversation.indices().len();
        let max_chars = (budget_tokens * CHARS_A_TOKEN) as usize;
        let names = if messages == 0 {
            Vec::new()
        } else {
            NameIndex::of(py, &conversation)?.by_heading(py, MAX_NAMES, max_chars)?
        };
        let id = file.id(py)?.str()?.to_string_lossy().into_owned();
        Ok(Self { turns, omitted_turns, names, messages, broken_lines: reader.broken(), skipped_bytes: start, id })
    }

    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let _running = Running::begin();
        let names = PyDict::new(py);
        for (heading, of) in &self.names {
            names.set_item(heading, of)?;
        }
        Ok(names)
    }

    /// The outline as a model reads it, in a fence.
    #[getter]
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        let _running = Running::begin();
        fenced_section("session", &PyString::new(py, &self.lines().join("\n")))
    }
}

impl SessionOutline {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("Session {}: {} messages", self.id, grouped(self.messages as u64))];
        if self.broken_lines > 0 || self.skipped_bytes > 0 {
            lines.push(format!(
                "({} lines could not be read; {} bytes at the beginning were left out)",
                grouped(self.broken_lines as u64),
                grouped(self.skipped_bytes)
            ));
        }
        lines.push("What the user said:".to_owned());
        let said = |(time, text): &(String, String)| {
            let time = time.get(..TIME_CHARS).map(|time| format!("{time} ")).unwrap_or_default();
            format!("- {time}{}", one_line(text))
        };
        let (first, last) = self.turns.split_at(FIRST_TURNS.min(self.turns.len()));
        lines.extend(first.iter().map(said));
        if self.omitted_turns > 0 {
            lines.push(format!("- [{} more]", grouped(self.omitted_turns as u64)));
        }
        lines.extend(last.iter().map(said));
        if !self.names.is_empty() {
            lines.push("Names by their use:".to_owned());
            lines.extend(self.names.iter().map(|(heading, names)| format!("{heading}: {}", names.join(", "))));
        }
        lines
    }
}

/// The lines and the conversation in them. Lines of unknown types are left out.
fn parsed<'py>(lines: Bound<'py, PyList>, agent: &str) -> PyResult<(Bound<'py, PyList>, Conversation)> {
    let py = lines.py();
    let read = |lines: &Bound<'py, PyList>| match read_entries(agent, lines.as_any()) {
        Err(error) if is_no_message(py, &error)? => Ok(None),
        read => read.map(Some),
    };
    if let Some(conversation) = read(&lines)? {
        return Ok((lines, conversation));
    }
    let shaped = PyList::empty(py);
    for line in &lines {
        if read(&PyList::new(py, [&line])?)?.is_some() {
            shaped.append(line)?;
        }
    }
    if let Some(conversation) = read(&shaped)? {
        return Ok((shaped, conversation));
    }
    let none = PyList::empty(py);
    let conversation = read_entries(agent, none.as_any())?;
    Ok((none, conversation))
}

/// The time and the words of each turn of the user.
fn turns_in(lines: &Bound<'_, PyList>, conversation: &Conversation) -> PyResult<Vec<(String, String)>> {
    let py = lines.py();
    let (clock, mut turns) = (Clock::new(py)?, Vec::new());
    for index in conversation.indices() {
        let line = lines.get_item(index)?;
        let line = Fields::needed(&line, index, String::new)?;
        for (speaker, text) in said_by(line)? {
            if speaker == Speaker::User {
                let time = clock.of_line(line)?;
                let time = time.map(|time| written(&time)).transpose()?.unwrap_or_default();
                turns.push((time, clean(&text, TURN_CHARS)));
            }
        }
    }
    Ok(turns)
}
