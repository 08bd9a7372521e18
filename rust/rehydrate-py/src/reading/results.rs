//! The texts of the tool results in a history, with their calls and tools, and the shown part of the long ones.
use std::borrow::Cow;
use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use rehydrate_core::caps::{Options, fair_share};
use rehydrate_core::conversation::PieceKind;
use rehydrate_core::engine::Engine;
use rehydrate_core::error::Error;
use rehydrate_core::tokens::Counter;
use rustc_hash::FxHashMap;

use super::columns::Columns;
use super::conversation::Conversation;
use super::fields::{Fields, is_list};
use super::gemini::{Is, data_of, parts_of};
use super::langchain::is_langchain_message;
use super::shortened::{How, ShortenedText};
use super::strings::Source;
use crate::convert::{bytes_of, first_characters, string_of};
use crate::errors::detached;
use crate::exit::Running;
use crate::interned::interned;
use crate::tokens::named;

/// Characters. A tool's name is not longer.
const LONGEST_NAME: usize = 200;
/// The most tokens of a character: its bytes.
const CHARACTER_TOKENS: usize = 4;

/// The names of the tools that messages call, by the ids of the calls.
#[derive(Default)]
pub struct ToolNames {
    /// Each with the position of the message that calls it. The last call of an id counts.
    by_call: FxHashMap<Vec<u8>, Vec<(usize, Py<PyString>)>>,
}

impl ToolNames {
    /// Add those of the message at a position; all before it were added.
    pub fn add(&mut self, py: Python<'_>, columns: &Columns, at: usize) -> PyResult<()> {
        let calls = columns.calls(at);
        let inputs = columns.pieces(at).iter().filter(|(_, kind)| *kind == PieceKind::ToolInput);
        if calls.is_empty() || inputs.clone().count() != calls.len() {
            return Ok(());
        }
        for (call, (input, _)) in calls.iter().zip(inputs) {
            let text = input.to_py(py);
            let text = bytes_of(&text)?;
            let start = first_characters(&text, LONGEST_NAME);
            let name = start.split(|&byte| byte == b' ').next().unwrap_or_default();
            let known = self.by_call.entry(call.as_bytes().to_vec()).or_default();
            known.push((at, string_of(py, name)?.unbind()));
        }
        Ok(())
    }

    /// The name of the tool of a call; "" if it is not known.
    pub fn of<'py>(&self, py: Python<'py>, call: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
        let found = self.by_call.get(&*bytes_of(call)?).and_then(|known| known.last());
        Ok(found.map_or_else(|| interned!(py, "").clone(), |(_, name)| name.bind(py).clone()))
    }

    /// Those of the first `messages`.
    pub fn beginning(&self, py: Python<'_>, messages: usize) -> Self {
        let of = |known: &Vec<(usize, Py<PyString>)>| -> Vec<_> {
            known.iter().filter(|(at, _)| *at < messages).map(|(at, name)| (*at, name.clone_ref(py))).collect()
        };
        let by_call = self.by_call.iter().map(|(call, known)| (call.clone(), of(known)));
        Self { by_call: by_call.filter(|(_, known)| !known.is_empty()).collect() }
    }
}

/// A text of a tool result that may be shown in part.
pub struct ResultText<'py> {
    pub path: Bound<'py, PyTuple>,
    pub text: Bound<'py, PyString>,
    /// The id of the call that it answers; "" if unknown.
    pub call: Bound<'py, PyString>,
    /// The name of the tool; "" if unknown.
    pub tool: Bound<'py, PyString>,
    /// Its index among the pieces of the message.
    pub piece: usize,
}

impl<'py> ResultText<'py> {
    /// The texts of the results in the message at a position. Those that must not change are left out: media, blocks with
    /// citations, results of a provider's own tools. `places` is the function of the format.
    pub fn all(
        columns: &Columns,
        at: usize,
        entry: &Bound<'py, PyAny>,
        places: &Bound<'py, PyAny>,
        tools: &ToolNames,
    ) -> PyResult<Vec<Self>> {
        let py = entry.py();
        let paths = places.call1((entry, columns.of.rows[at].index))?;
        let (pieces, mut found, mut responses) = (columns.pieces(at), Vec::new(), None);
        for ((piece, (text, kind)), path) in pieces.iter().enumerate().zip(paths.try_iter()?) {
            let path = path?;
            if *kind != PieceKind::ToolResult || path.is_none() {
                continue;
            }
            let path: Bound<'py, PyTuple> = path.cast_into()?;
            let call = match (call_of(entry, &path)?, columns.answers(at)) {
                (Some(call), _) => call,
                (None, [answer]) => answer.to_py(py),
                (None, []) => interned!(py, "").clone(),
                (None, answers) => {
                    let responses = match &responses {
                        Some(responses) => responses,
                        None => &*responses.insert(responses_of(entry)?),
                    };
                    let number = path.get_item(1).and_then(|number| number.extract::<usize>()).ok();
                    let found = number.and_then(|number| responses.binary_search(&number).ok());
                    let answer = found.and_then(|found| answers.get(found));
                    answer.map_or_else(|| interned!(py, "").clone(), |answer| answer.to_py(py))
                }
            };
            let tool = tools.of(py, &call)?;
            found.push(Self { path, text: text.to_py(py), call, tool, piece });
        }
        Ok(found)
    }
}

/// The id of the call from the innermost block on the path that has one that is not empty.
fn call_of<'py>(entry: &Bound<'py, PyAny>, path: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyString>>> {
    let py = entry.py();
    let ids = (interned!(py, "tool_use_id"), interned!(py, "tool_call_id"));
    let keys = [ids.0, ids.1, interned!(py, "call_id"), interned!(py, "toolCallId"), interned!(py, "toolUseId")];
    let (mut value, mut found) = (entry.clone(), None);
    for step in std::iter::once(None).chain(path.iter().map(Some)) {
        if let Some(step) = step {
            let is_indexed = Fields::of(&value).is_some() || is_list(&value);
            value = if is_indexed { value.get_item(step)? } else { value.getattr(step.str()?)? };
        }
        let fields = Fields::of(&value);
        for key in keys {
            let id = match fields {
                Some(fields) => fields.get(key)?,
                None => value.getattr_opt(key)?,
            };
            found = id.and_then(|id| id.cast_into::<PyString>().ok()).or(found);
        }
    }
    Ok(found.filter(|id| !id.is_empty().unwrap_or(true)))
}

/// The numbers of the parts that are Gemini's responses: they need not say which call they answer.
fn responses_of(entry: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let mut found = Vec::new();
    for (number, part) in Fields::of(entry).map_or(Ok(Vec::new()), |entry| parts_of(entry, 0))?.iter().enumerate() {
        let data = Fields::of(part).map_or(Ok(None), data_of)?;
        if data.is_some_and(|data| data.is == Is::Response && Fields::of(&data.value).is_some()) {
            found.push(number);
        }
    }
    Ok(found)
}

/// Whether texts surely have at most `limit` tokens together, as no token is less than a byte.
fn fit_surely<'a>(texts: impl Iterator<Item = &'a str>, limit: usize) -> bool {
    let (mut characters, mut is_ascii) = (0, true);
    for text in texts {
        characters += text.chars().count();
        is_ascii &= text.is_ascii();
    }
    characters <= limit && (is_ascii || characters * CHARACTER_TOKENS <= limit)
}

/// The indices of the entries from `start` on whose results may have more than `least` tokens. `counts` are the tokens
/// of each entry, () if they were not counted.
#[pyfunction]
pub fn long_results(
    rows: &Conversation,
    start: usize,
    counts: &Bound<'_, PyTuple>,
    least: usize,
) -> PyResult<Vec<usize>> {
    let _running = Running::begin();
    let mut found = Vec::new();
    for at in rows.place_of(start)..rows.all().len() {
        let index = rows.index(at);
        let results = rows.columns.pieces(at).iter().filter(|(_, kind)| *kind == PieceKind::ToolResult);
        if results.clone().next().is_none()
            || (!counts.is_empty() && counts.get_item(index)?.extract::<usize>()? <= least)
        {
            continue;
        }
        if !fit_surely(results.map(|(text, _)| text.as_str()), least) {
            found.push(index);
        }
    }
    Ok(found)
}

/// The caps of these entries' results, by the `Caps`. The texts of one result share its limit, but each has at
/// least `least` tokens of it, and `notice` of these are left for its notice.
#[expect(clippy::too_many_arguments, reason = "how results are capped")]
#[pyfunction]
pub fn capped_results<'py>(
    py: Python<'py>,
    rows: &Conversation,
    positions: Vec<usize>,
    entries: &Bound<'py, PyTuple>,
    places: &Bound<'py, PyAny>,
    caps: &Bound<'py, PyAny>,
    counter: &str,
    least: i64,
    notice: i64,
) -> PyResult<Vec<(usize, Vec<ShortenedText>)>> {
    let _running = Running::begin();
    let mut capper = Capper { py, caps, counter: detached(py, || named(counter))?, least, notice };
    let (mut tools, mut read, mut found) = (ToolNames::default(), 0, Vec::new());
    for position in positions {
        let at = rows.place_of(position);
        for earlier in read..=at {
            tools.add(py, &rows.columns, earlier)?;
        }
        read = at + 1;
        let texts = ResultText::all(&rows.columns, at, &entries.get_item(position)?, places, &tools)?;
        let mut capped = Vec::new();
        for result in texts.chunk_by(|one, other| one.call.as_any().eq(&other.call).unwrap_or(false)) {
            capper.cap(result, &mut capped)?;
        }
        if !capped.is_empty() {
            found.push((position, capped));
        }
    }
    Ok(found)
}

/// Options for capping results.
struct Capper<'a, 'py> {
    py: Python<'py>,
    caps: &'a Bound<'py, PyAny>,
    counter: Counter,
    least: i64,
    notice: i64,
}

impl<'py> Capper<'_, 'py> {
    /// Cap the texts of one result.
    fn cap(&mut self, result: &[ResultText<'py>], capped: &mut Vec<ShortenedText>) -> PyResult<()> {
        let (py, caps) = (self.py, self.caps);
        let limit: Option<i64> = caps.call_method1(interned!(py, "tokens"), (&result[0].tool,))?.extract()?;
        let Some(limit) = limit else { return Ok(()) };
        let mut share = limit;
        if result.len() > 1 {
            let texts = result.iter().map(|each| Source::of(each.text.clone())).collect::<PyResult<Vec<_>>>()?;
            let count = |text: &Source| i64::from(Engine::shared().count(text.as_str(), self.counter));
            let sizes: Vec<i64> = detached(py, || Ok::<_, Error>(texts.iter().map(count).collect()))?;
            if sizes.iter().sum::<i64>() <= limit {
                return Ok(());
            }
            share = fair_share(&sizes, limit).max(limit.min(self.least));
        }
        let rows = caps.getattr(interned!(py, "rows"))?.extract()?;
        let log_lines = caps.getattr(interned!(py, "log_lines"))?.extract()?;
        for each in result {
            let source = Source::of(each.text.clone())?;
            if usize::try_from(share).is_ok_and(|share| fit_surely(std::iter::once(source.as_str()), share)) {
                continue;
            }
            let (bytes, tool) = (bytes_of(&each.text)?, each.tool.to_string_lossy());
            let (text, tool): (&[u8], &str) = (&bytes, &tool);
            let options = Options { counter: self.counter, limit: share, notice: self.notice, tool, rows, log_lines };
            let Some(shown) = detached(py, || Ok::<_, Error>(Engine::shared().cap(text, &options)))? else { continue };
            capped.push(ShortenedText::of(each, How::Capped(shown)));
        }
        Ok(())
    }
}

/// A tool's name, and a text that it returned.
type Returned<'py> = (Bound<'py, PyString>, Bound<'py, PyString>);

/// The texts of results that may be shown in part, message by message.
#[pyfunction]
pub fn result_texts<'py>(
    py: Python<'py>,
    rows: &Conversation,
    entries: &Bound<'py, PyList>,
    places: &Bound<'py, PyAny>,
) -> PyResult<Vec<Vec<Returned<'py>>>> {
    let _running = Running::begin();
    let mut tools = ToolNames::default();
    let texts = |at: usize| {
        tools.add(py, &rows.columns, at)?;
        let found = ResultText::all(&rows.columns, at, &entries.get_item(rows.index(at))?, places, &tools)?;
        Ok(found.into_iter().map(|each| (each.tool, each.text)).collect())
    };
    (0..rows.all().len()).map(texts).collect()
}

/// Whether a text has at least this many characters.
pub fn is_long(text: &str, least: usize) -> bool {
    text.len() >= least && text.chars().count() >= least
}

/// The strings in an entry with at least this many characters. Each object is visited once.
pub fn long_strings<'py>(entry: &Bound<'py, PyAny>, least: usize) -> PyResult<Vec<Bound<'py, PyString>>> {
    let py = entry.py();
    let (mut stack, mut visited, mut found) = (vec![entry.clone()], HashSet::new(), Vec::new());
    while let Some(value) = stack.pop() {
        if let Ok(text) = value.cast::<PyString>() {
            if text.len()? >= least {
                found.push(text.clone());
            }
            continue;
        }
        if !visited.insert(value.as_ptr() as usize) {
            continue;
        }
        if let Some(fields) = Fields::of(&value) {
            stack.extend(fields.items()?.into_iter().map(|(_, value)| value));
        } else if is_list(&value) {
            stack.extend(value.try_iter()?.collect::<PyResult<Vec<_>>>()?);
        } else if is_langchain_message(&value)? {
            stack.extend(value.getattr_opt(interned!(py, "__dict__"))?);
        }
    }
    Ok(found)
}

/// A description of the place of a text in the history: "the result of call toolu_1 (Read)".
pub fn source_of(kind: &str, call: &Bound<'_, PyString>, tool: &Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    const LONGEST_SHOWN: usize = 80;
    let (call, tool) = (bytes_of(call)?, bytes_of(tool)?);
    let shown = |text: &Cow<'_, [u8]>| first_characters(text, LONGEST_SHOWN).to_vec();
    let mut words = format!("the {kind} of ").into_bytes();
    if call.is_empty() {
        words.extend_from_slice(b"a call");
    } else {
        words.extend([b"call ".as_slice(), &shown(&call)].concat());
    }
    if !tool.is_empty() {
        words.extend([b" (".as_slice(), &shown(&tool), b")"].concat());
    }
    Ok(words)
}
