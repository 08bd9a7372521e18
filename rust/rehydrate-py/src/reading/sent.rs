//! The parts of a prompt as they are sent: their digests, their cache marks, and where a section may be among the messages.
use blake2b_simd::Params;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rehydrate_core::conversation::Role;
use rehydrate_core::prompt_cache::MAX_MARKS;
use rustc_hash::FxHashSet;

use super::dicts::as_dicts;
use super::fields::{ByList, Fields, is_list, listed, python, string_of, text_of};
use super::json::{MAX_DEPTH, write_json};
use super::strings::Id;
use super::thinking::is_claudes_thinking;
use super::{Conversation, read_entries};
use crate::convert::bytes_of;
use crate::exit::Running;
use crate::interned::interned;

/// The fields by which a client marks the end of a cached prefix. They move on in each request, and mean nothing to the
/// model.
pub const CACHE_MARKS: [&str; 4] = ["cache_control", "prompt_cache_breakpoint", "cachePoint", "cacheControl"];
/// A mark is on a block, or on one in a tool's result. Deeper values may be nested as deep as Python can go.
const DEEPEST_MARK: usize = 16;
const DIGEST_BYTES: usize = 16;

/// For a tool, a system block or a message as it is sent: 128 bits, hexadecimal, that identify it, and whether it has a
/// cache mark.
///
/// A cache mark does not change the digest, and neither does the block around a single text that carries one. The order
/// of keys does: a model reads a tool's input in it.
pub fn sent_part(value: &Bound<'_, PyAny>) -> PyResult<(String, bool)> {
    let mut text = compact_json(&without_lone_block(value)?)?;
    let may_be_marked = CACHE_MARKS.iter().any(|name| memchr::memmem::find(&text, name.as_bytes()).is_some());
    let mut is_marked = false;
    if may_be_marked {
        text = compact_json(&without_lone_block(&unmarked(value)?)?)?;
        is_marked = !marks_in(value)?.is_empty();
    }
    let digest = Params::new().hash_length(DIGEST_BYTES).hash(&text);
    Ok((digest.to_hex().to_string(), is_marked))
}

/// A value as JSON without blanks.
fn compact_json(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = String::new();
    if write_json(&mut out, value, MAX_DEPTH)?.is_some() {
        return Ok(out.into_bytes());
    }
    Ok(bytes_of(python(value.py(), "compact_json", (value,))?.cast()?)?.into_owned())
}

/// A message of one text block, written as a message of that text.
fn without_lone_block<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let (py, Some(fields)) = (value.py(), Fields::of(value)) else { return Ok(value.clone()) };
    let content = interned!(py, "content");
    let blocks = listed(fields.get(content)?.as_ref())?;
    let [block] = blocks.as_slice() else { return Ok(value.clone()) };
    let Some(block) = Fields::of(block) else { return Ok(value.clone()) };
    if block.len()? != 2 || block.kind()?.name() != "text" {
        return Ok(value.clone());
    }
    let copy = PyDict::new(py);
    for (key, value) in fields.items()? {
        copy.set_item(key, value)?;
    }
    copy.set_item(content, block.get(interned!(py, "text"))?)?;
    Ok(copy.into_any())
}

/// A tool, a block or a message of any provider's without cache marks.
#[pyfunction]
pub fn unmarked<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    unmarked_within(&mut ByList::default(), value, DEEPEST_MARK)
}

/// The same up to a depth. `known` are the lists so far without their marks.
fn unmarked_within<'py>(
    known: &mut ByList<'py, Bound<'py, PyAny>>,
    value: &Bound<'py, PyAny>,
    levels: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if levels > 0 && is_list(value) {
        if let Some(left) = known.get(value, levels) {
            return Ok(left);
        }
        let left = PyList::empty(py);
        for each in value.try_iter()? {
            let each = each?;
            // Converse's mark is a block of its own.
            if !Fields::of(&each).map_or(Ok(false), |block| block.has(interned!(py, "cachePoint")))? {
                left.append(unmarked_within(known, &each, levels - 1)?)?;
            }
        }
        known.keep(value, levels, left.clone().into_any());
        return Ok(left.into_any());
    }
    let Some(fields) = Fields::of(value).filter(|_| levels > 0) else { return Ok(value.clone()) };
    let left = PyDict::new(py);
    for (name, each) in fields.items()? {
        let shown = string_of(&name)?;
        match text_of(&shown).as_ref() {
            mark if CACHE_MARKS.contains(&mark) => {}
            // A call's input is the model's own, whatever the names of its fields.
            "content" | "output" => left.set_item(name, unmarked_within(known, &each, levels - 1)?)?,
            "providerOptions" => {
                if let Some(options) = unmarked_options(&each)? {
                    left.set_item(name, options)?;
                }
            }
            _ => left.set_item(name, each)?,
        }
    }
    Ok(left.into_any())
}

/// The AI SDK's options without a cache mark; None if nothing else is in them.
fn unmarked_options<'py>(options: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, Some(fields)) = (options.py(), Fields::of(options)) else { return Ok(Some(options.clone())) };
    let left = PyDict::new(py);
    for (name, each) in fields.items()? {
        let inner = unmarked_within(&mut ByList::default(), &each, 1)?;
        if Fields::of(&inner).map_or(Ok(1), Fields::len)? > 0 {
            left.set_item(name, inner)?;
        }
    }
    Ok((!left.is_empty()).then(|| left.into_any()))
}

/// The cache mark in the AI SDK's options of a message, a part or a tool.
pub fn mark_in_options<'py>(of: Fields<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = of.as_any().py();
    let options = of.get(interned!(py, "providerOptions"))?;
    let Some(options) = options.as_ref().and_then(Fields::of) else { return Ok(None) };
    let anthropic = options.get(interned!(py, "anthropic"))?;
    let Some(anthropic) = anthropic.as_ref().and_then(Fields::of) else { return Ok(None) };
    Ok(anthropic.get(interned!(py, "cacheControl"))?.or(anthropic.get(interned!(py, "cache_control"))?))
}

/// The cache marks of a tool, a block, a content or a message; Converse's points too. Once they are as many as a
/// provider takes, the lists in lists are not searched for more.
#[pyfunction]
pub fn marks_in<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let _running = Running::begin();
    let mut marks = Marks::default();
    marks.add(value, DEEPEST_MARK)?;
    Ok(marks.found)
}

/// The marks found so far, and the lists without one.
#[derive(Default)]
struct Marks<'py> {
    found: Vec<Bound<'py, PyAny>>,
    without: ByList<'py, ()>,
}

impl<'py> Marks<'py> {
    fn add(&mut self, value: &Bound<'py, PyAny>, levels: usize) -> PyResult<()> {
        let (py, Some(levels)) = (value.py(), levels.checked_sub(1)) else { return Ok(()) };
        let Some(fields) = Fields::of(value) else { return self.add_listed(value, levels) };
        if let Some(point) = fields.get(interned!(py, "cachePoint"))?.filter(|point| Fields::of(point).is_some()) {
            self.found.push(point);
            return Ok(());
        }
        self.found.extend(fields.get(interned!(py, "cache_control"))?);
        self.found.extend(mark_in_options(fields)?);
        if (fields.kind()?.name() == "tool_result" || fields.has(interned!(py, "role"))?)
            && let Some(content) = fields.get(interned!(py, "content"))?
        {
            self.add(&content, levels)?;
        }
        Ok(())
    }

    fn add_listed(&mut self, list: &Bound<'py, PyAny>, levels: usize) -> PyResult<()> {
        if self.without.get(list, levels).is_some() {
            return Ok(());
        }
        let before = self.found.len();
        for each in listed(Some(list))? {
            if self.found.len() >= MAX_MARKS {
                return Ok(());
            }
            self.add(&each, levels)?;
        }
        if self.found.len() == before && is_list(list) {
            self.without.keep(list, levels, ());
        }
        Ok(())
    }
}

/// This index among a provider's messages, or the nearest one before it at which a section may be.
///
/// It may not be between a call and its results, or after thinking that ends a message: then it is before the call. It
/// may also not be after a system message among Anthropic's, which the reply must follow. Messages after the index do
/// not count, because they were not there when the section came in.
pub fn insertion_point(messages: &Bound<'_, PyList>, mut index: usize, provider: &str) -> PyResult<usize> {
    while index > 0
        && let Some(start) = inseparable_start(messages, index, provider)?
    {
        index = start;
    }
    Ok(index)
}

/// The index of the message that must not be separated from the messages after `index`: one with an open call, or one
/// that ends in thinking, in the last turn before `index`.
fn inseparable_start(messages: &Bound<'_, PyList>, index: usize, provider: &str) -> PyResult<Option<usize>> {
    let py = messages.py();
    if provider == "gemini" {
        // Its responses may have no id, and directly follow their calls.
        let of = |n: usize| -> PyResult<(usize, usize)> {
            let columns = read_one(messages.get_item(n)?, provider)?.columns;
            let has_row = !columns.of.rows.is_empty();
            Ok(if has_row { (columns.calls(0).len(), columns.answers(0).len()) } else { (0, 0) })
        };
        let (calls, answers) = of(index - 1)?;
        let is_half_answered = answers > 0 && index > 1 && of(index - 2)?.0 > answers;
        return Ok((calls > 0).then_some(index - 1).or(is_half_answered.then(|| index - 2)));
    }
    let (mut answered, mut has_spoken): (FxHashSet<Vec<u8>>, bool) = (FxHashSet::default(), false);
    let has_system_apart = matches!(provider, "anthropic" | "bedrock");
    for n in (0..index).rev() {
        let message = messages.get_item(n)?;
        let role = Fields::of(&message).map(|fields| fields.text(interned!(py, "role"))).transpose()?.flatten();
        if has_system_apart && role.is_some_and(|role| text_of(&role) == "system") {
            if n + 1 == index {
                return Ok(Some(n));
            }
            continue;
        }
        let read = read_one(message.clone(), provider)?;
        if n + 1 == index && ends_in_thinking(&message)? {
            return Ok(Some(n));
        }
        let of = &read.columns;
        if of.of.rows.is_empty() {
            return Ok(None);
        }
        let (is_reply, answers) = (of.role(0) == Role::Assistant, of.answers(0));
        if provider == "ai_sdk" && of.role(0) == Role::Tool && answers.is_empty() {
            continue; // approvals of the calls before them
        }
        if (has_spoken || answers.is_empty()) && !is_reply {
            return Ok(None); // a turn before the last that had calls, or the user's words
        }
        answered.extend(answers.iter().map(|id| id.as_bytes().to_vec()));
        if !of.calls(0).iter().map(Id::as_bytes).all(|call| answered.contains(call)) {
            return Ok(Some(n));
        }
        has_spoken = is_reply;
    }
    Ok(None)
}

/// One message, read; objects of an SDK in it as dicts.
fn read_one(message: Bound<'_, PyAny>, provider: &str) -> PyResult<Conversation> {
    let alone = PyTuple::new(message.py(), [message])?.into_any();
    read_entries(provider, &alone).or_else(|_| read_entries(provider, &as_dicts(&alone)?))
}

fn ends_in_thinking(message: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (py, Some(fields)) = (message.py(), Fields::of(message)) else { return Ok(false) };
    if fields.kind()?.name() == "reasoning" {
        return Ok(true);
    }
    let content = fields.get(interned!(py, "content"))?;
    listed(content.as_ref())?.last().map_or(Ok(false), is_claudes_thinking)
}
