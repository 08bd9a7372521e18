//! A history of any format in a provider's form: one module per provider, over one reader of neutral messages.
mod ai_sdk;
mod anthropic;
mod bedrock;
mod chat;
mod contents;
mod from_ai_sdk;
mod from_bedrock;
mod from_gemini;
mod from_langchain;
mod gemini;
mod histories;
mod marks;
mod neutral;
mod normal;
mod repaired;
mod requests;
mod responses;
mod scripted;
mod system_apart;
mod to_langchain;
mod to_ui;
mod tools;

use std::rc::Rc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyList, PyString, PyTuple};
use rehydrate_core::conversation::Role;

use crate::convert::NamedTuple;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{Fields, codex_items, is_blank, merged_lines, text_of};

use contents::Reader;
pub use from_langchain::{langchain_to_openai, seen_as_chat};
pub use marks::marked;
pub use neutral::Sent;
pub(crate) use neutral::dict;
use neutral::{Media, Message, Part, Sources, joined};
pub use repaired::repaired_entries;
pub use requests::{alternating, request_of, summary_message, system_part, user_message, user_part};
pub use scripted::scripted_reply;
pub use to_langchain::{chat_entries, langchain_fields};
pub use to_ui::ui_messages;
pub use tools::{call_result, read_call, read_tool, result_entries, tool_definition};

/// Content that was left out or changed, and the indices of its entries.
#[derive(Default)]
struct Lost(Vec<(&'static str, Vec<usize>)>);

impl Lost {
    fn add(&mut self, what: &'static str, places: &[usize]) {
        match self.0.iter_mut().find(|(known, _)| *known == what) {
            Some((_, known)) => known.extend(places),
            None => self.0.push((what, places.to_vec())),
        }
    }
}

/// A provider's own history as it is sent.
struct Rendered<'py> {
    system: Vec<Sent<'py>>,
    messages: Vec<Sent<'py>>,
    lost: Lost,
}

/// The system entries at the beginning, if the provider takes them in another field; the messages; the content that was
/// left out or changed, with the indices of its entries.
type Shown<'py> = (Vec<Sent<'py>>, Vec<Sent<'py>>, Vec<(String, Vec<usize>)>);

/// A history in this format for a provider. `first` is the index of its first entry.
///
/// Entries in the provider's own format stay the same objects, unless they have keys that it refuses. Raises
/// InvalidMessageError for an entry that only its own provider can take.
pub fn rendered<'py>(entries: &Bound<'py, PyAny>, format: &str, provider: &str, first: usize) -> PyResult<Shown<'py>> {
    let py = entries.py();
    let Some(sent) = own_messages(entries, format, provider, first)? else {
        return converted(entries, format, provider, first);
    };
    let Rendered { system, messages, lost } = match provider {
        "anthropic" => system_apart::of_anthropic(py, sent)?,
        "bedrock" => system_apart::of_bedrock(py, sent)?,
        "gemini" => gemini::without_system(py, sent)?,
        "ai_sdk" => ai_sdk::without_system(py, sent)?,
        _ => Rendered { system: Vec::new(), messages: sent, lost: Lost::default() },
    };
    Ok((system, messages, lost.0.into_iter().map(|(what, places)| (what.to_owned(), places)).collect()))
}

/// [`rendered`] for Python.
#[pyfunction]
pub fn render_entries<'py>(
    entries: &Bound<'py, PyAny>,
    format: &str,
    provider: &str,
    first: usize,
) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyDict>)> {
    let _running = Running::begin();
    let py = entries.py();
    let (system, messages, lost) = rendered(entries, format, provider, first)?;
    let noted = PyDict::new(py);
    for (what, places) in lost {
        noted.set_item(what, PyFrozenSet::new(py, places)?)?;
    }
    Ok((tuples(py, system)?, tuples(py, messages)?, noted))
}

/// Whether a history of this format is the provider's own: its messages, or the lines of an agent that holds them.
pub fn is_own(format: &str, provider: &str) -> bool {
    match format {
        "claude_code" => provider == "anthropic",
        "codex" => provider == "openai_responses",
        _ => format == provider,
    }
}

/// The messages of a history that is the provider's own. None if it is another's.
fn own_messages<'py>(
    entries: &Bound<'py, PyAny>,
    format: &str,
    provider: &str,
    first: usize,
) -> PyResult<Option<Vec<Sent<'py>>>> {
    if !is_own(format, provider) {
        return Ok(None);
    }
    let sent: PyResult<Vec<Sent<'py>>> = match format {
        "claude_code" => {
            let merged = merged_lines(entries)?.into_iter();
            merged
                .map(|(message, of)| {
                    Ok(Sent { message: message.into_any(), sources: of.extract::<Vec<usize>>()?.into() })
                })
                .collect()
        }
        "codex" => {
            let items = codex_items(entries)?.into_iter();
            Ok(items.map(|(index, message)| Sent { message, sources: [index].into() }).collect())
        }
        _ => {
            let own = |(at, entry): (usize, PyResult<Bound<'py, PyAny>>)| {
                Ok(Sent { message: own_entry(provider, &entry?)?, sources: [first + at].into() })
            };
            entries.try_iter()?.enumerate().map(own).collect()
        }
    };
    sent.map(Some)
}

/// Whether a provider's requests have the system prompt in a field of its own, and its messages begin with the user's.
pub fn has_system_apart(provider: &str) -> bool {
    matches!(provider, "ai_sdk" | "anthropic" | "bedrock" | "gemini")
}

/// An entry of a provider's format without keys that it refuses, or itself if it has none.
#[pyfunction]
pub fn own_entry<'py>(provider: &str, entry: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    match provider {
        "anthropic" => anthropic::own(entry),
        "bedrock" => bedrock::own(entry),
        "gemini" => gemini::own(entry),
        "openai_responses" => responses::own(entry),
        // Providers that use the chat format have keys of their own.
        _ => Ok(entry.clone()),
    }
}

/// Entries of a format from their JSON: Converse's media are bytes again.
#[pyfunction]
pub fn own_entries<'py>(values: Vec<Bound<'py, PyAny>>, format: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let _running = Running::begin();
    if format != "bedrock" {
        return Ok(values);
    }
    let own = |value: Bound<'py, PyAny>| -> PyResult<Bound<'py, PyAny>> {
        let Ok(entry) = value.cast::<PyDict>() else { return Ok(value) };
        let content = interned!(value.py(), "content");
        if !entry.get_item(content)?.is_some_and(|content| content.is_instance_of::<PyList>()) {
            return Ok(value);
        }
        let made = entry.copy()?;
        made.set_item(content, bedrock::own(&value)?.get_item(content)?)?;
        Ok(made.into_any())
    };
    values.into_iter().map(own).collect()
}

/// A history of another format.
fn converted<'py>(entries: &Bound<'py, PyAny>, format: &str, provider: &str, first: usize) -> PyResult<Shown<'py>> {
    let py = entries.py();
    let reader = Reader::new(py);
    let mut messages = normal::normalized(py, histories::messages_of(&reader, format, entries, first)?)?;
    if matches!(provider, "openai_chat" | "gemini") {
        normal::hold_media_back(&mut messages)?;
    }
    let takes_media = !matches!(provider, "openai_chat" | "openai_responses");
    for each in &mut messages {
        if each.role == Role::System || (each.role == Role::Assistant && !takes_media) {
            let at = each.first();
            for part in &mut each.parts {
                if let Part::Media(media) = part {
                    *part = Part::Text(reader.left_out(media, at)?);
                }
            }
        }
    }
    let mut system = Vec::new();
    if has_system_apart(provider) && first == 0 {
        let leading = messages.iter().take_while(|each| each.role == Role::System).count();
        let rest = messages.split_off(leading);
        for each in &messages {
            let text = each.text(py)?;
            // No provider takes a blank one.
            if !is_blank(&text_of(&text)) {
                let (message, sources) = (system_part(provider, &text)?, each.sources.clone());
                system.push(Sent { message, sources });
            }
        }
        messages = rest;
    }
    let sent = match provider {
        "anthropic" => anthropic::write(&reader, &messages)?,
        "bedrock" => bedrock::write(&reader, &messages)?,
        "gemini" => gemini::write(py, &messages)?,
        "ai_sdk" => ai_sdk::write(&reader, &messages)?,
        "openai_chat" => chat::write(&reader, &messages)?,
        "openai_responses" => responses::write(&reader, &messages)?,
        _ => return Err(PyValueError::new_err(format!("no writer of {provider}"))),
    };
    Ok((system, sent, reader.lost()?))
}

/// As `RenderedMessage`s of Python's.
fn tuples<'py>(py: Python<'py>, sent: Vec<Sent<'py>>) -> PyResult<Bound<'py, PyList>> {
    let made = PyList::empty(py);
    let of = NamedTuple::of(py, "rehydrate.formats.rendering", "RenderedMessage")?;
    let mut last: Option<(Sources, Bound<'py, PyTuple>)> = None;
    for Sent { message, sources } in sent {
        let shared = last.take().filter(|(known, _)| Rc::ptr_eq(known, &sources));
        let (sources, tuple) = match shared {
            Some(shared) => shared,
            None => (Rc::clone(&sources), PyTuple::new(py, sources.iter())?),
        };
        made.append(of.make([message, tuple.as_any().clone()])?)?;
        last = Some((sources, tuple));
    }
    Ok(made)
}

/// A call's input as an object.
fn object<'py>(input: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match Fields::of(input) {
        Some(_) => Ok(input.clone()),
        None => Ok(dict!(input.py(), "input": input).into_any()),
    }
}

fn role_and_content<'py>(py: Python<'py>, role: &str, content: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(py, "role": role, "content": content))
}

/// A message of blocks, for Anthropic and Converse. None if there is no block.
fn blocks_of_role<'py>(
    py: Python<'py>,
    is_assistant: bool,
    blocks: Vec<Bound<'py, PyDict>>,
    of: &Message<'py>,
) -> PyResult<Option<Sent<'py>>> {
    if blocks.is_empty() {
        return Ok(None);
    }
    let content = PyList::new(py, blocks)?.into_any();
    let role = if is_assistant { "assistant" } else { "user" };
    Ok(Some(Sent::new(role_and_content(py, role, &content)?, &of.sources)))
}

/// A content of one text as a string, any other as its parts.
fn one_or_all<'py>(parts: &Bound<'py, PyList>, kind: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = parts.py();
    if parts.len() == 1 {
        let only = parts.get_item(0)?;
        if only.get_item(interned!(py, "type"))?.eq(kind)? {
            return only.get_item(interned!(py, "text"));
        }
    }
    Ok(parts.clone().into_any())
}

/// The words for a medium that the provider does not accept.
fn left_out<'py>(media: &Media<'py>) -> PyResult<Bound<'py, PyString>> {
    let py = media.url.py();
    let url = text_of(&media.url);
    let what = Media::type_in(&url).map_or_else(|| media.url.clone(), |of| PyString::new(py, of));
    let kind = if media.is_image {
        "[image left out: "
    } else if url.starts_with("data:audio/") {
        "[audio left out: "
    } else {
        "[file left out: "
    };
    joined(&PyString::new(py, ""), vec![PyString::new(py, kind), what, PyString::new(py, "]")])
}

/// The parts with words in place of media.
fn with_words<'py>(
    parts: &[Part<'py>],
    words: impl Fn(&Media<'py>) -> PyResult<Bound<'py, PyString>>,
) -> PyResult<Vec<Part<'py>>> {
    let said = |part: &Part<'py>| match part {
        Part::Media(media) => Ok(Part::Text(words(media)?)),
        other => Ok(other.clone()),
    };
    parts.iter().map(said).collect()
}

/// Whether a media type is one of speech or films, which aren't files to OpenAI.
fn is_heard(media_type: &str) -> bool {
    media_type.starts_with("audio/") || media_type.starts_with("video/")
}

/// The name of a file; one without a name is named by its media type.
fn file_name<'py>(media: &Media<'py>) -> PyResult<Bound<'py, PyString>> {
    if !media.name.is_empty()? {
        return Ok(media.name.clone());
    }
    let of = gemini::media_type(media);
    let ending = bedrock::format_of(&of).or(of.split('/').nth(1)).unwrap_or_default();
    let is_ending = ending.len() <= 5 && ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    Ok(PyString::new(media.name.py(), &format!("file.{}", if is_ending { ending } else { "bin" })))
}
