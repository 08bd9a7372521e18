//! The parts of requests that the rule for thinking after a changed prefix reads.
use std::collections::{BTreeMap, HashMap};

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use rehydrate_core::rules::prefix::{self, Block, Sent, Thought};

use super::super::fields::{Fields, is_list, listed, python, string_of, text_of};
use super::super::pairs::is_thought;
use super::super::transcript::{Kind, content_of, kind_of};
use super::name_of;
use super::shown;
use crate::exit::Running;
use crate::interned::{Interned, interned};

/// Text fields of an OpenAI or LangChain message next to its content.
static SPOKEN: [Interned; 5] = [
    Interned::new("tool_calls"),
    Interned::new("tool_call_id"),
    Interned::new("function_call"),
    Interned::new("refusal"),
    Interned::new("name"),
];
/// A value nested deeper is compared as bounded text.
const DEEPEST: usize = 64;

/// The messages or items of a whole request; any other value unchanged.
#[pyfunction]
pub fn entries_of<'py>(messages: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    if let Some(request) = Fields::of(messages) {
        let py = messages.py();
        for key in [interned!(py, "messages"), interned!(py, "input"), interned!(py, "contents")] {
            if let Some(entries) = request.get(key)?.filter(is_list) {
                return Ok(entries);
            }
        }
    }
    Ok(messages.clone())
}

/// The thinking of `after` that is refused: its prefix differs from that of `sent`.
///
/// Both are messages, or whole requests: `system` and `tools` are compared if both have them.
#[pyfunction]
pub fn stale_thinking<'py>(after: &Bound<'py, PyAny>, sent: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let _running = Running::begin();
    let mut texts = Texts::default();
    let (now, before) = (texts.read(&entries_of(after)?)?, texts.read(&entries_of(sent)?)?);
    let head = changed_head(after, sent)?;
    shown(after.py(), &prefix::violations(&now, &before, head.as_deref()))
}

fn changed_head(after: &Bound<'_, PyAny>, sent: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let (Some(now), Some(before)) = (Fields::of(after), Fields::of(sent)) else { return Ok(None) };
    let py = after.py();
    let texts = |request: Fields<'_, '_>, key| -> PyResult<Vec<Vec<u8>>> {
        blocks_of(request.get(key)?.as_ref())?.iter().map(bare).collect()
    };
    for key in [interned!(py, "system"), interned!(py, "instructions")] {
        if texts(now, key)? != texts(before, key)? {
            return Ok(Some(format!("`{key}` is not what was sent")));
        }
    }
    Ok((tools(now)? != tools(before)?).then(|| "`tools` are not what was sent".into()))
}

/// The tools of a request that are not deferred, in the order of their texts.
fn tools(request: Fields<'_, '_>) -> PyResult<Vec<Vec<u8>>> {
    let py = request.as_any().py();
    let mut found = Vec::new();
    for tool in listed(request.get(interned!(py, "tools"))?.as_ref())? {
        let deferred = match Fields::of(&tool) {
            Some(tool) => tool.get(interned!(py, "defer_loading"))?,
            None => None,
        };
        if !deferred.is_some_and(|deferred| deferred.cast::<PyBool>().is_ok_and(|deferred| deferred.is_true())) {
            found.push(bare(&tool)?);
        }
    }
    found.sort();
    Ok(found)
}

/// The texts of blocks, as numbers.
#[derive(Default)]
struct Texts(HashMap<Vec<u8>, usize>);

impl Texts {
    fn number(&mut self, text: Vec<u8>) -> usize {
        let next = self.0.len();
        *self.0.entry(text).or_insert(next)
    }

    fn read(&mut self, entries: &Bound<'_, PyAny>) -> PyResult<Sent> {
        let mut sent = Sent::default();
        for (index, entry) in entries.try_iter()?.enumerate() {
            let Some((role, blocks)) = authored_blocks(&entry?)? else { continue };
            let is_assistants = role == b"assistant" || role == b"ai";
            for block in &blocks {
                let text = bare(block)?;
                let of = Fields::of(block);
                let kind = of.map(Fields::kind).transpose()?;
                let kind = kind.as_ref().map(|kind| kind.name()).unwrap_or_default();
                let reasons = of.map(|of| of.has(interned!(block.py(), "reasoningContent"))).transpose()?;
                if is_thought(&kind) || reasons == Some(true) {
                    sent.thoughts.push(Thought { index, text: self.number(text), offset: sent.blocks.len() });
                    continue;
                }
                let text = self.number([&role, b" ".as_slice(), &text].concat());
                sent.blocks.push(Block { index, text, is_assistants });
                if kind == "compaction" {
                    sent.after_summary = sent.blocks.len();
                }
            }
        }
        Ok(sent)
    }
}

/// An author, and the blocks of an entry.
type Authored<'py> = (Vec<u8>, Vec<Bound<'py, PyAny>>);

/// The author of an entry and its blocks, thinking next to a content first. None for an entry that no model sees, or an
/// item of Responses.
fn authored_blocks<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Option<Authored<'py>>> {
    let py = entry.py();
    let (role, message) = (interned!(py, "role"), interned!(py, "message"));
    if let Some(line) = Fields::of(entry)
        && !line.has(role)?
    {
        // A line of a transcript.
        if line.has(message)? {
            return match line.get(message)? {
                Some(message) if Fields::of(&message).is_none_or(|of| of.has(role).unwrap_or(false)) => {
                    blocks_by(&message)
                }
                _ => Ok(None),
            };
        }
        if kind_of(line)? == Kind::Unseen {
            return Ok(None);
        }
        let is_queued = line.kind()?.name() == "attachment";
        let said = content_of(line, if is_queued { Kind::Queued } else { Kind::User })?;
        return Ok(Some((b"user".to_vec(), blocks_of(said.as_ref())?)));
    }
    blocks_by(entry)
}

/// The same of a message.
fn blocks_by<'py>(entry: &Bound<'py, PyAny>) -> PyResult<Option<Authored<'py>>> {
    let py = entry.py();
    let mut role = field(entry, interned!(py, "role"))?;
    if !role.as_ref().map_or(Ok(false), |role| role.is_truthy())? {
        role = field(entry, interned!(py, "type"))?;
    }
    let Some(Ok(role)) = role.map(|role| role.cast_into::<PyString>()) else { return Ok(None) };
    let mut blocks = listed(field(entry, interned!(py, "thinking_blocks"))?.as_ref())?;
    blocks.extend(blocks_of(field(entry, interned!(py, "content"))?.as_ref())?);
    let rest = PyDict::new(py);
    for key in &SPOKEN {
        let key = key.get(py);
        if let Some(value) = field(entry, key)?
            && value.is_truthy()?
        {
            rest.set_item(key, value)?;
        }
    }
    if !rest.is_empty() {
        blocks.push(rest.into_any());
    }
    Ok(Some((name_of(role)?, blocks)))
}

/// The value of a mapping, or the attribute of an object. None if it is missing or null.
fn field<'py>(entry: &Bound<'py, PyAny>, key: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match Fields::of(entry) {
        Some(entry) => entry.get(key),
        None => Ok(entry.getattr_opt(key)?.filter(|value| !value.is_none())),
    }
}

/// The blocks of a content. A string is one, an empty content has none.
fn blocks_of<'py>(content: Option<&Bound<'py, PyAny>>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    match content {
        Some(text) if text.is_instance_of::<PyString>() => {
            Ok(if text.is_truthy()? { vec![text.clone()] } else { Vec::new() })
        }
        content => listed(content),
    }
}

/// A block as text without cache marks: the same text for the same block. A string is a text block.
fn bare(block: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::new();
    match block.cast::<PyString>() {
        Ok(text) => write_text_block(&mut out, text)?,
        Err(_) => write(&mut out, block, DEEPEST)?,
    }
    Ok(out)
}

fn write_text_block(out: &mut Vec<u8>, text: &Bound<'_, PyString>) -> PyResult<()> {
    out.extend_from_slice(b"{\"text\":");
    write_string(out, &name_of(text.clone())?);
    out.extend_from_slice(b",\"type\":\"text\",}");
    Ok(())
}

/// Append a value like JSON with sorted keys; a result of one text as its block.
fn write(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, levels: usize) -> PyResult<()> {
    let py = value.py();
    if let Ok(text) = value.cast::<PyString>() {
        write_string(out, &name_of(text.clone())?);
    } else if value.is_none() {
        out.extend_from_slice(b"null");
    } else if let Ok(truth) = value.cast::<PyBool>() {
        out.extend_from_slice(if truth.is_true() { b"true" } else { b"false" });
    } else if value.is_instance_of::<PyInt>() {
        // An integer of any class. Hexadecimal, since that has no limit of digits.
        let digits = py.get_type::<PyInt>().call_method1("__format__", (value, "x"))?;
        out.extend_from_slice(digits.cast::<PyString>()?.to_str()?.as_bytes());
    } else if value.is_instance_of::<PyFloat>() {
        let digits = py.get_type::<PyFloat>().call_method1("__repr__", (value,))?;
        out.extend_from_slice(digits.cast::<PyString>()?.to_str()?.as_bytes());
    } else if levels == 0 {
        let text = python(py, "compact_json", (value,))?.cast_into::<PyString>()?;
        write_string(out, &name_of(text)?);
    } else if let Some(fields) = Fields::of(value) {
        write_mapping(out, fields, levels - 1)?;
    } else if is_list(value) {
        out.push(b'[');
        for item in listed(Some(value))? {
            write(out, &item, levels - 1)?;
            out.push(b',');
        }
        out.push(b']');
    } else {
        write_string(out, &name_of(string_of(value)?)?);
    }
    Ok(())
}

fn write_mapping(out: &mut Vec<u8>, fields: Fields<'_, '_>, levels: usize) -> PyResult<()> {
    let mut sorted = BTreeMap::new();
    for (key, value) in fields.items()? {
        let name = name_of(string_of(&key)?)?;
        if name != b"cache_control" || !key.is_instance_of::<PyString>() {
            sorted.insert(name, value);
        }
    }
    let is_result = fields.kind()?.name() == "tool_result";
    out.push(b'{');
    for (name, value) in &sorted {
        write_string(out, name);
        out.push(b':');
        match value.cast::<PyString>() {
            Ok(text) if is_result && name == b"content" => {
                out.push(b'[');
                if !text_of(text).is_empty() {
                    write_text_block(out, text)?;
                    out.push(b',');
                }
                out.push(b']');
            }
            _ => write(out, value, levels)?,
        }
        out.push(b',');
    }
    out.push(b'}');
    Ok(())
}

fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}
