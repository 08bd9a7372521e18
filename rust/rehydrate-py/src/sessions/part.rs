//! A part of a transcript as an index asks for it. It is read whole before it is known which lines the conversation
//! went on from, so only the parts of a line that count are held.
use std::cmp::{max, min};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rehydrate_core::sessions::{Chunk, Chunks, READ_CHARS, Speaker, beginning, clean, one_line};
use rustc_hash::FxHashSet;

use super::clock::{Clock, written};
use super::file::TranscriptReader;
use super::said::said_by;
use super::{copied, id_of, utf8};
use crate::errors::detached;
use crate::interned::{Interned, interned};
use crate::reading::{
    Fields, codex_kept, codex_line, codex_turns_taken_back, line_content, line_is_seen, listed, transcript_branch,
};

/// The keys that decide whether a line is still part of the conversation.
static LINK_KEYS: [Interned; 12] = [
    Interned::new("type"),
    Interned::new("subtype"),
    Interned::new("uuid"),
    Interned::new("parentUuid"),
    Interned::new("logicalParentUuid"),
    Interned::new("timestamp"),
    Interned::new("isSidechain"),
    Interned::new("isMeta"),
    Interned::new("isCompactSummary"),
    Interned::new("isApiErrorMessage"),
    Interned::new("sourceToolUseID"),
    Interned::new("parent_tool_use_id"),
];
static BLOCK_KEYS: [Interned; 3] = [Interned::new("type"), Interned::new("id"), Interned::new("tool_use_id")];

/// Lines whose chunks are added at once.
const BATCH_LINES: usize = 2_000;
const TITLE_CHARS: usize = 120;
const PROJECT_CHARS: usize = 300;
const MAX_TIPS: usize = 16;

/// Lines of a transcript: chunks of them for a search, and notes on the session as a whole.
pub struct Part<'py> {
    /// Whether a line goes on from another one than the last that was known, or takes turns back.
    pub went_back: bool,
    /// The ids of the last line that was said, and of those after it.
    pub tips: Vec<String>,
    /// The folder that the agent works in; "" if no line tells it.
    pub project: String,
    /// The title that the agent gives the session. "" if it gives none.
    pub title: String,
    /// The user's first words.
    pub words: String,
    /// The times of the first and the last line; None if no line tells one.
    pub times: Option<(String, String)>,
    /// Chunks of the words, to be added in these batches.
    batches: Vec<Vec<Chunk>>,
    /// The time of each line.
    line_times: Vec<Option<Bound<'py, PyAny>>>,
}

impl<'py> Part<'py> {
    /// Read the lines in about this many bytes. `tips` are those of the part before. Raises OSError.
    pub fn read(py: Python<'py>, reader: &TranscriptReader, max_bytes: u64, tips: Vec<String>) -> PyResult<Self> {
        let clock = Clock::new(py)?;
        let (mut read, mut times) = (Vec::new(), None);
        let (mut project, mut title) = (String::new(), String::new());
        reader.each(py, max_bytes, |line| {
            let line = Fields::needed(&line, 0, String::new)?;
            let of = Line::of(line, &clock)?;
            if let Some(time) = &of.time {
                let stamp = written(time)?;
                let (first, last) = times.take().unwrap_or_else(|| (stamp.clone(), stamp.clone()));
                times = Some((min(first, stamp.clone()), max(last, stamp)));
            }
            if project.is_empty() {
                project = project_of(line)?;
            }
            if line.kind()?.name() == "summary"
                && let Some(summary) = line.text(interned!(py, "summary"))?
                && !summary.is_empty()?
            {
                title = utf8(&summary)?;
            }
            read.push(of);
            Ok(())
        })?;
        let is_kept = kept(py, &read)?;
        let went_back = went_back(&read, &tips)?;
        let (mut tips, mut words) = (tips, None);
        for (line, &is_kept) in read.iter().zip(&is_kept) {
            let is_said = line_is_seen(&line.link)?;
            if let Some(id) = line.id("uuid")?.filter(|_| is_kept || !is_said) {
                if is_said {
                    tips.clear();
                }
                tips.push(id);
                tips.drain(..tips.len().saturating_sub(MAX_TIPS));
            }
            if words.is_none() && is_kept {
                words = line.user_words().map(str::to_owned);
            }
        }
        let said: Vec<Vec<(Speaker, String)>> = read.iter_mut().map(|line| std::mem::take(&mut line.said)).collect();
        let (project, title, words, batches) = detached(py, || {
            let mut chunks = Chunks::default();
            let mut batches = Vec::new();
            for (number, said) in said.iter().enumerate() {
                for (speaker, text) in said.iter().filter(|_| is_kept[number]) {
                    chunks.add(number, *speaker, text);
                }
                if (number + 1) % BATCH_LINES == 0 {
                    batches.push(chunks.take());
                }
            }
            batches.push(chunks.take());
            let words = clean(&one_line(&words.unwrap_or_default()), TITLE_CHARS);
            Ok((clean(&project, PROJECT_CHARS), clean(&title, TITLE_CHARS), words, batches))
        })?;
        let line_times = read.into_iter().map(|line| line.time).collect();
        Ok(Self { went_back, tips, project, title, words, times, batches, line_times })
    }

    /// The batches: for each chunk its text, and the time of its first line, or this one.
    pub fn timed_batches(&self, py: Python<'py>, or: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let timed = |chunks: &Vec<Chunk>| {
            let of = |chunk: &Chunk| (chunk.text.clone(), self.line_times[chunk.line].as_ref().unwrap_or(or));
            PyList::new(py, chunks.iter().map(of).collect::<Vec<_>>())
        };
        let batches = self.batches.iter().filter(|chunks| !chunks.is_empty()).map(timed);
        PyList::new(py, batches.collect::<PyResult<Vec<_>>>()?)
    }
}

/// A line, as far as an index asks.
struct Line<'py> {
    /// The fields that decide whether it is still part of the conversation, without its text.
    link: Bound<'py, PyAny>,
    /// In Codex' transcripts: whether it is a turn of the user.
    is_turn: bool,
    /// In Codex' transcripts: how many turns it takes back.
    taken_back: usize,
    said: Vec<(Speaker, String)>,
    time: Option<Bound<'py, PyAny>>,
}

impl<'py> Line<'py> {
    fn of(line: Fields<'_, 'py>, clock: &Clock<'py>) -> PyResult<Self> {
        let py = line.as_any().py();
        let said = said_by(line)?.into_iter();
        let said = said.map(|(speaker, text)| (speaker, beginning(&text, READ_CHARS).to_owned())).collect();
        let time = clock.of_line(line)?;
        let payload = line.get(interned!(py, "payload"))?;
        let (mut is_turn, mut taken_back) = (false, 0);
        let link = copied(line, &LINK_KEYS)?;
        if payload.as_ref().and_then(Fields::of).is_some() {
            is_turn = codex_line(line.as_any(), 0)?.is_some_and(|(.., is_turn)| is_turn);
            taken_back = codex_turns_taken_back(line.as_any())?;
        } else {
            add_message(line, &link)?;
        }
        Ok(Self { link: link.into_any(), is_turn, taken_back, said, time })
    }

    fn id(&self, key: &str) -> PyResult<Option<String>> {
        id_of(&self.link, key)
    }

    fn user_words(&self) -> Option<&str> {
        self.said.iter().find(|(speaker, _)| *speaker == Speaker::User).map(|(_, text)| text.as_str())
    }
}

/// Add to the fields of a line of Claude Code those that the tree needs of its message.
fn add_message<'py>(line: Fields<'_, 'py>, link: &Bound<'py, PyDict>) -> PyResult<()> {
    let py = line.as_any().py();
    let message = line.get(interned!(py, "message"))?;
    let Some(message) = message.as_ref().and_then(Fields::of) else {
        if line_is_seen(line.as_any())? {
            let queued = PyDict::new(py);
            queued.set_item("type", "queued_command")?;
            queued.set_item("prompt", "said")?;
            link.set_item("attachment", queued)?;
        }
        return Ok(());
    };
    let blocks = PyList::empty(py);
    for block in listed(message.get(interned!(py, "content"))?.as_ref())? {
        let Some(block) = Fields::of(&block) else { continue };
        let of = PyDict::new(py);
        for key in &BLOCK_KEYS {
            if let Some(text) = block.text(key.get(py))? {
                of.set_item(key.get(py), text)?;
            }
        }
        blocks.append(of)?;
    }
    let is_said = match line_content(line.as_any())? {
        Some(content) => content.is_truthy()?,
        None => false,
    };
    let made = PyDict::new(py);
    made.set_item(interned!(py, "id"), message.get(interned!(py, "id"))?)?;
    if blocks.is_empty() {
        made.set_item(interned!(py, "content"), if is_said { "said" } else { "" })?;
    } else {
        made.set_item(interned!(py, "content"), blocks)?;
    }
    link.set_item(interned!(py, "message"), made)
}

/// Whether the conversation went on from each line.
fn kept(py: Python<'_>, lines: &[Line<'_>]) -> PyResult<Vec<bool>> {
    let links = PyList::new(py, lines.iter().map(|line| &line.link))?;
    let Some(branch) = transcript_branch(links.as_any())? else {
        let turns = lines.iter().map(|line| line.is_turn).collect();
        return Ok(codex_kept(turns, lines.iter().map(|line| line.taken_back).collect()));
    };
    let mut is_kept = vec![false; lines.len()];
    for index in branch {
        is_kept[index] = true;
    }
    Ok(is_kept)
}

/// Whether a line goes on from another one than the last that was known, or takes turns back.
fn went_back(lines: &[Line<'_>], tips: &[String]) -> PyResult<bool> {
    let mut known: FxHashSet<String> = tips.iter().cloned().collect();
    for line in lines {
        let is_prompt = line.user_words().is_some();
        let goes_back = is_prompt && line.id("parentUuid")?.is_some_and(|parent| !known.contains(&parent));
        if line.taken_back > 0 || goes_back {
            return Ok(true);
        }
        known.extend(line.id("uuid")?);
    }
    Ok(false)
}

/// The folder that the agent works in, if the line tells it.
fn project_of(line: Fields<'_, '_>) -> PyResult<String> {
    let py = line.as_any().py();
    let payload = line.get(interned!(py, "payload"))?;
    for place in [Some(line), payload.as_ref().and_then(Fields::of)].into_iter().flatten() {
        if let Some(folder) = place.text(interned!(py, "cwd"))? {
            return utf8(&folder);
        }
    }
    Ok(String::new())
}
