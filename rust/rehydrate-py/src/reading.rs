//! Conversations read into columns, in every format.
//!
//! `tests/golden/readings.jsonl` has lists of every format, hostile ones too, and the complete reading of each.
pub mod ai_sdk;
mod anthropic;
mod bedrock;
mod blocks;
mod bound_thinking;
mod branch;
mod call_inputs;
mod chat;
mod checks;
mod codex;
mod columns;
mod conversation;
mod derived;
mod detect;
mod dicts;
mod draft;
mod echoes;
mod facts;
mod fields;
pub mod gemini;
mod gone_lines;
mod grouping;
mod inputs;
mod json;
mod langchain;
mod media;
mod merged;
mod model_turns;
mod pairs;
mod pins;
mod readable;
mod responses;
mod results;
mod rules;
mod said;
mod seen_lines;
mod sent;
mod shortened;
mod strings;
mod tail;
mod thinking;
mod transcript;
mod tuples;
mod turns;
mod usage;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::exit::Running;
use crate::interned::interned;

pub use bedrock::KEYS as BEDROCK_KEYS;
pub use blocks::input_text;
use blocks::{At, Body};
pub use bound_thinking::{PrefixBinding, without_stale_thinking, without_thinking};
pub use call_inputs::{entry_inputs, entry_is_signed};
pub use chat::function_id;
pub use checks::no_list;
use checks::no_role;
pub use checks::{Wanted, as_sequence, check_own, detect_format, named_format, read};
pub use codex::{codex_items, codex_kept, codex_line, codex_turns_taken_back};
pub use columns::{Columns, is_blank, is_space};
pub use conversation::Conversation;
pub use detect::format_of;
pub use dicts::as_dicts;
use draft::Speaker;
pub use draft::{Draft, Named, Row, kind_of, role_named};
pub use echoes::{Echoes, RowHashes};
use facts::Notes;
pub use fields::{ByList, Fields, is_list, listed, python, replace_texts, string_of, text_of, wrong_content};
pub use gone_lines::{repeated, taken_back};
pub use grouping::Units;
pub use inputs::{input_texts, is_signed, with_texts};
pub use json::{arguments, in_json, json_object, json_value};
pub use langchain::{Message as LangchainMessage, as_message, is_langchain_message, langchain_role};
pub use merged::merged_lines;
pub use pairs::{is_thought, program_of};
pub use readable::readable_texts;
use rehydrate_core::conversation::{PieceKind, Role};
use rehydrate_core::media::Vision;
pub use responses::{is_by_server, is_setting};
pub use results::{capped_results, long_results, result_texts};
pub use rules::{broken_rules, entries_of, stale_thinking};
pub use said::{differing_texts, unit_memory, unit_text, without_calls};
pub use sent::{CACHE_MARKS, insertion_point, mark_in_options, marks_in, sent_part, unmarked};
pub use shortened::{ShortenedText, notice};
pub use strings::{Id, Numbers, Source};
pub use tail::{first_kept, head_and_tail};
pub use thinking::{entries_without_thinking, has_claudes_thinking, is_claudes_thinking};
use transcript::read_transcript;
pub use transcript::{last_compaction, line_content, line_is_seen, line_is_users, part_key, transcript_branch};
pub use usage::billed_usage;

/// Reads one entry into an empty body.
type ReadEntry = for<'py> fn(&mut Body, &Bound<'py, PyAny>) -> PyResult<Read<'py>>;

/// The result of reading one entry.
struct Read<'py> {
    speaker: Speaker<'py>,
    link: Link,
}

/// A message's ties to others apart from its calls and answers.
#[derive(Clone, Copy, PartialEq)]
enum Link {
    None,
    /// It ends in a thought (Anthropic): the assistant's next message belongs to it.
    Thought,
    /// It calls (chat): answers without an id belong to the calls before them.
    Calls,
    /// The next message belongs to it (Bedrock, Gemini), if it is the assistant's: user and assistant must alternate,
    /// or Gemini's calls come after the user, and still do so when both go.
    Reply,
}

/// The state before a message of Anthropic's. A system message in the middle belongs to the message before it and to
/// the assistant's that follows: the API accepts it nowhere else.
#[derive(Default)]
struct Before {
    has_spoken: bool,
    is_system: bool,
}

impl Before {
    /// Take the next message; whether it belongs to the one before it.
    fn joins(&mut self, role: Role) -> bool {
        let is_system = role == Role::System;
        let joins = self.has_spoken && (is_system || (self.is_system && role == Role::Assistant));
        self.has_spoken |= !is_system;
        self.is_system = is_system;
        joins
    }
}

/// Read a list of entries in a format.
#[pyfunction]
pub fn read_entries(format: &str, entries: &Bound<'_, PyAny>) -> PyResult<Conversation> {
    let _running = Running::begin();
    let (read, linked): (ReadEntry, Link) = match format {
        "anthropic" => (anthropic::read_message, Link::Thought),
        "bedrock" => (bedrock::read_message, Link::Reply),
        "gemini" => (gemini::read_message, Link::Reply),
        "ai_sdk" => (ai_sdk::read_message, Link::Calls),
        "ai_sdk_ui" => (ai_sdk::read_ui_message, Link::None),
        "openai_chat" => (chat::read_message, Link::Calls),
        "plain" => (chat::read_plain, Link::None),
        "claude_code" => return read_transcript(entries),
        "langchain" => return langchain::read_messages(entries),
        "openai_responses" => return responses::read_items(format, &numbered(entries)?, Vec::new()),
        "codex" => {
            let (items, ignored) = codex::items(entries)?;
            return responses::read_items(format, &items, ignored);
        }
        _ => return Err(PyValueError::new_err(format!("no reader of {format}"))),
    };
    let py = entries.py();
    let mut draft = Draft::with_capacity(entries.len().unwrap_or(0));
    let (mut body, mut notes) = (Body { vision: Vision::of_format(format), ..Body::default() }, Notes::default());
    let mut links = Vec::new();
    let mut open: Option<usize> = None; // the thought, or the calls, that the next message may belong to
    let mut before = Before::default();
    for (index, entry) in entries.try_iter()?.enumerate() {
        body.begin(index);
        let Read { mut speaker, link } = read(&mut body, &entry?)?;
        if speaker.role == Role::User && body.only_results() {
            speaker = Speaker::known(Role::Tool, interned!(py, "tool"));
        }
        notes.take(py, &mut body)?;
        let role = speaker.role;
        draft.close(&mut body, &speaker, role == Role::User)?;
        if matches!(linked, Link::Thought | Link::Reply) && before.joins(role) {
            links.push((index - 1, index));
        }
        match linked {
            Link::Thought if role == Role::Assistant => {
                links.extend(open.map(|thought| (thought, index)));
                open = (link == Link::Thought).then_some(index);
            }
            Link::Thought if role != Role::System => open = None,
            Link::Calls if role == Role::Tool => {
                let caller = open.filter(|_| !draft.last_answers());
                links.extend(caller.map(|caller| (caller, index)));
            }
            Link::Calls => open = (link == Link::Calls).then_some(index),
            Link::Reply => {
                links.extend(open.map(|reply| (reply, index)));
                open = (role == Role::Assistant).then_some(index);
            }
            Link::Thought | Link::None => {}
        }
    }
    let mut read = Conversation::of(Columns::group(draft, &links), notes.facts(format));
    let is_claudes = matches!(format, "anthropic" | "bedrock");
    read.facts.user_first = is_claudes
        || format == "gemini"
        || (matches!(format, "plain" | "ai_sdk" | "ai_sdk_ui") && read.begins_with_user());
    if is_claudes {
        read.bind_opening_thought(entries)?;
    }
    Ok(read)
}

/// Items of Responses with their indices.
fn numbered<'py>(entries: &Bound<'py, PyAny>) -> PyResult<Vec<responses::Numbered<'py>>> {
    entries.try_iter()?.enumerate().map(|(index, raw)| Ok((index, raw?, true))).collect()
}

/// The path of each text of an entry in a format. None if it must not change, as when the system speaks to Claude.
#[pyfunction]
pub fn read_places<'py>(
    format: &str,
    entry: &Bound<'py, PyAny>,
    index: usize,
) -> PyResult<Vec<Option<Bound<'py, PyTuple>>>> {
    let _running = Running::begin();
    let py = entry.py();
    let mut body = Body::new(index, true);
    let mut is_fixed = false;
    match format {
        "anthropic" | "claude_code" => {
            let fields = Fields::needed(entry, index, String::new)?;
            let (content, path) = if format == "anthropic" {
                is_fixed = speaker_of(fields, index)?.role == Role::System;
                (fields.get(interned!(py, "content"))?, PyTuple::new(py, ["content"])?)
            } else {
                (line_content(entry)?, transcript::path_of(fields)?)
            };
            body.add_content(content.as_ref(), PieceKind::Text, At::Root(Some(&path), "content"))?;
        }
        "bedrock" => is_fixed = bedrock::read_message(&mut body, entry)?.speaker.role == Role::System,
        "gemini" => is_fixed = gemini::read_message(&mut body, entry)?.speaker.role == Role::System,
        "ai_sdk" => drop(ai_sdk::read_message(&mut body, entry)?),
        "ai_sdk_ui" => drop(ai_sdk::read_ui_message(&mut body, entry)?),
        "openai_chat" => drop(chat::read_message(&mut body, entry)?),
        "plain" => drop(chat::read_plain(&mut body, entry)?),
        "openai_responses" => responses::read_item(&mut body, &responses::Item::of(entry, index)?)?,
        "codex" => return codex::places(entry, index),
        "langchain" => {
            if let Some(message) = langchain::Message::of(entry, index)? {
                message.read(&mut body)?;
            }
        }
        _ => return Err(PyValueError::new_err(format!("no reader of places in {format}"))),
    }
    let places = body.places.unwrap_or_default().into_iter();
    Ok(places.map(|place| place.filter(|_| !is_fixed).map(|place| place.into_bound(py))).collect())
}

/// The speaker of an entry, by the usual name of the role.
pub fn speaker_of<'py>(entry: Fields<'_, 'py>, index: usize) -> PyResult<Speaker<'py>> {
    let py = entry.as_any().py();
    let role = entry.text(interned!(py, "role"))?.filter(|role| !role.is_empty().unwrap_or(false));
    let Some(role) = role else { return Err(no_role(entry, index)) };
    if role.is_exact_instance_of::<PyString>() {
        return Ok(usual_speaker(role));
    }
    // An enum of strings gives its value, not its repr.
    Ok(usual_speaker(py.get_type::<PyString>().call_method1("__str__", (role,))?.cast_into()?))
}

/// The speaker of a role, by its usual name.
fn usual_speaker(role: Bound<'_, PyString>) -> Speaker<'_> {
    Speaker::of(usual_role(role))
}

/// The usual name of a role.
pub fn usual_role(role: Bound<'_, PyString>) -> Bound<'_, PyString> {
    let py = role.py();
    match role.to_str() {
        Ok("developer") => interned!(py, "system").clone(),
        Ok("function" | "tool_result") => interned!(py, "tool").clone(),
        _ => role,
    }
}

/// The role of a usual name.
pub fn known_role(role: &Bound<'_, PyString>) -> Role {
    Speaker::of(role.clone()).role
}

/// The index of the first entry from `start` on that may show a format: all before it only have a role that every
/// provider knows and a text.
pub fn first_telling(entries: &Bound<'_, PyAny>, start: usize) -> PyResult<usize> {
    let py = entries.py();
    let tells_nothing = |entry: &Bound<'_, PyAny>| -> PyResult<bool> {
        let Some(entry) = Fields::of(entry).filter(|entry| entry.is_exactly_dict()) else { return Ok(false) };
        if entry.len()? != 2 {
            return Ok(false);
        }
        let Some(role) = entry.exact_text(interned!(py, "role"))? else { return Ok(false) };
        let is_common = matches!(role.to_str(), Ok("user" | "assistant" | "system"));
        Ok(is_common && entry.exact_text(interned!(py, "content"))?.is_some())
    };
    let end = entries.len()?;
    if let Ok(list) = entries.cast_exact::<PyList>() {
        for (at, entry) in list.iter().enumerate().skip(start) {
            if !tells_nothing(&entry)? {
                return Ok(at);
            }
        }
    } else if let Ok(tuple) = entries.cast_exact::<PyTuple>() {
        for at in start..end {
            if !tells_nothing(&*tuple.get_borrowed_item(at)?)? {
                return Ok(at);
            }
        }
    } else {
        return Ok(start);
    }
    Ok(end)
}
