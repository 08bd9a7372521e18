//! The one reader of the blocks of a content, of any provider.
//!
//! Texts are pieces, pictures and files are media. A block of an unknown type counts by its readable parts, or as a
//! medium if it has none. Base64 is never text, except in a text block, which a model reads as it is.
//!
//! A block that looks like a call or a result, and that no format can pair, is refused: a compaction would drop one half
//! of the pair. `tests/golden/readings.jsonl` has the results.
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use rehydrate_core::conversation::PieceKind;
use rehydrate_core::media::Vision;

use super::fields::{Fields, is_list, python, text_of, wrong_content};
use super::gemini::Waiting;
use super::inputs::is_signed;
use super::json::{MAX_DEPTH, write_json};
use super::media::media_tokens;
use super::pairs::{check_no_pair, is_anthropic, is_call, is_of_server, is_thought, name_of, program_of};
use super::readable::{DEEPEST, MEDIA, Seen, readable};
use super::strings::{Id, Source};
use crate::interned::interned;

const TEXTS: &[&str] = &["text", "input_text", "output_text", "text-plain", "summary_text", "reasoning_text"];
/// Summaries that a provider itself wrote: it ignores everything before the last one.
pub const STATE: &[&str] = &["compaction", "compaction_summary"];
/// Other blocks of known types, from which the strings for the model are read.
const READABLE: &[&str] = &[
    "refusal",
    "search_result",
    "tool_reference",
    "browser_state",
    "resource",
    "resource_link",
    "reasoning",
    "reasoning_content",
    "non_standard",
    "executable_code",
    "code_execution_result",
    "server_tool_call",
    "server_tool_result",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "citation",
    "logs",
    "tool_addition",
    "tool_removal",
    "fallback",
    "cache_point",
    "cachePoint",
    "reference",
];
const FILE_KEYS: &[&str] = &["media_type", "mime_type", "mimeType", "format", "url", "b64_json"];
/// The place of a value in its entry: the path of a text, and the words of an error.
#[derive(Clone, Copy)]
pub enum At<'a, 'py> {
    /// The place of a content, and its name in errors.
    Root(Option<&'a Bound<'py, PyTuple>>, &'a str),
    Key(&'a Self, &'static str),
    Named(&'a Self, &'a Bound<'py, PyString>),
    Number(&'a Self, usize),
}

impl<'py> At<'_, 'py> {
    fn steps(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        Ok(match self {
            Self::Root(path, _) => path.map_or_else(Vec::new, |path| path.iter().collect()),
            Self::Key(above, key) => {
                let mut steps = above.steps(py)?;
                steps.push(PyString::new(py, key).into_any());
                steps
            }
            Self::Named(above, key) => {
                let mut steps = above.steps(py)?;
                steps.push((*key).clone().into_any());
                steps
            }
            Self::Number(above, number) => {
                let mut steps = above.steps(py)?;
                steps.push(number.into_pyobject(py)?.into_any());
                steps
            }
        })
    }

    pub fn words(&self) -> String {
        match self {
            Self::Root(_, part) => (*part).to_owned(),
            Self::Key(above, key) => format!("{}.{key}", above.words()),
            Self::Named(above, key) => format!("{}.{}", above.words(), text_of(key)),
            Self::Number(above, number) => format!("{}[{number}]", above.words()),
        }
    }
}

/// One entry as far as it has been read.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Body {
    pub index: usize,
    pub pieces: Vec<(Source, PieceKind)>,
    /// The path of each piece's text, None if it must not change. Only if they are asked for.
    pub places: Option<Vec<Option<Py<PyTuple>>>>,
    /// The ids of the calls among the blocks.
    pub calls: Vec<Id>,
    pub answers: Vec<Id>,
    /// The ids of calls that it belongs to, as those of code that made its calls.
    pub owners: Vec<Id>,
    pub images: u32,
    /// The tokens of these.
    pub media_tokens: u32,
    /// The way in which they are counted.
    pub vision: Vision,
    /// The types of blocks that no format knows.
    pub unknown: Vec<Py<PyString>>,
    /// Whether a block is a summary that the provider itself wrote, in place of everything before it.
    pub has_state: bool,
    /// Whether one of the blocks is unreadable.
    pub has_unread: bool,
    /// Whether a block is one of Anthropic's calls or results, with an id or without.
    pub has_pair: bool,
    /// Whether it has a block that isn't a text, call, result, thought or medium.
    pub is_uncommon: bool,
    /// Whether it may hold a thought.
    pub is_thoughtful: bool,
    /// Whether the last block of its content is a thought.
    pub ends_in_thought: bool,
    /// The number of strings and blocks in its content, and of those that are results.
    pub parts: usize,
    pub results: usize,
    /// Blocks around the one that is read: a result may hold blocks.
    pub depth: usize,
    /// Gemini's calls that wait for their responses.
    pub waiting: Waiting,
}

impl Body {
    /// Nothing yet, for the entry with this index, with the places of its texts or without.
    pub fn new(index: usize, has_places: bool) -> Self {
        Self { index, places: has_places.then(Vec::new), ..Self::default() }
    }

    /// Begin with another entry, once a draft has taken the data of the last.
    pub fn begin(&mut self, index: usize) {
        (self.index, self.images, self.media_tokens) = (index, 0, 0);
        (self.depth, self.parts, self.results) = (0, 0, 0);
        (self.has_state, self.has_unread, self.has_pair) = (false, false, false);
        (self.is_uncommon, self.is_thoughtful, self.ends_in_thought) = (false, false, false);
    }

    /// Whether its content only has results of tools.
    pub fn only_results(&self) -> bool {
        self.results > 0 && self.results == self.parts
    }

    fn push<'py>(
        &mut self,
        py: Python<'py>,
        text: Source,
        kind: PieceKind,
        place: Option<At<'_, 'py>>,
    ) -> PyResult<()> {
        if let Some(places) = &mut self.places {
            places.push(match place {
                Some(at) => Some(PyTuple::new(py, at.steps(py)?)?.unbind()),
                None => None,
            });
        }
        self.pieces.push((text, kind));
        Ok(())
    }

    /// Add a text, unless it is empty or no string.
    pub fn add<'py>(
        &mut self,
        text: Option<Bound<'py, PyAny>>,
        kind: PieceKind,
        place: Option<At<'_, 'py>>,
    ) -> PyResult<()> {
        match text.and_then(|text| text.cast_into::<PyString>().ok()) {
            Some(text) => self.add_text(text, kind, place),
            None => Ok(()),
        }
    }

    fn add_text<'py>(
        &mut self,
        text: Bound<'py, PyString>,
        kind: PieceKind,
        place: Option<At<'_, 'py>>,
    ) -> PyResult<()> {
        let py = text.py();
        let text = Source::of(text)?;
        if text.as_str().is_empty() { Ok(()) } else { self.push(py, text, kind, place) }
    }

    /// Add a tool call: its name, a blank, its input as compact JSON.
    pub fn add_input<'py>(
        &mut self,
        py: Python<'py>,
        name: Option<&Bound<'py, PyAny>>,
        input: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let text = input_text(py, name, input)?;
        if text.as_str().is_empty() { Ok(()) } else { self.push(py, text, PieceKind::ToolInput, None) }
    }

    /// Add every text in a value that a model would read, and every medium.
    pub fn add_readable(&mut self, value: &Bound<'_, PyAny>, kind: PieceKind) -> PyResult<()> {
        readable(value, 0, "", &mut |seen| match seen {
            Seen::Text(text) => self.add(Some(text.clone().into_any()), kind, None),
            Seen::Medium(medium) => self.add_medium(medium),
        })
    }

    /// Add a medium: its block, or its bytes.
    pub fn add_medium(&mut self, medium: &Bound<'_, PyAny>) -> PyResult<()> {
        self.images = self.images.saturating_add(1);
        self.media_tokens = self.media_tokens.saturating_add(media_tokens(medium, self.vision)?);
        Ok(())
    }

    /// Add the pictures that Ollama keeps next to a message's content.
    pub fn add_pictures(&mut self, entry: Fields<'_, '_>) -> PyResult<()> {
        if let Some(pictures) = entry.get(interned!(entry.as_any().py(), "images"))?
            && is_list(&pictures)
        {
            pictures.try_iter()?.try_for_each(|picture| self.add_medium(&picture?))?;
        }
        Ok(())
    }

    /// Add a content: a string, or a list of strings and blocks.
    pub fn add_content<'py>(
        &mut self,
        content: Option<&Bound<'py, PyAny>>,
        kind: PieceKind,
        at: At<'_, 'py>,
    ) -> PyResult<()> {
        let Some(content) = content else { return Ok(()) };
        if let Ok(text) = content.cast::<PyString>() {
            return self.add_text(text.clone(), kind, Some(at));
        }
        if let Ok(list) = content.cast_exact::<PyList>() {
            let mut parts = list.iter().enumerate();
            return parts.try_for_each(|(number, part)| self.add_part(part, kind, At::Number(&at, number)));
        }
        if !is_list(content) {
            return Err(wrong_content(content, self.index, &at.words()));
        }
        let mut parts = content.try_iter()?.enumerate();
        parts.try_for_each(|(number, part)| self.add_part(part?, kind, At::Number(&at, number)))
    }

    /// Add a string or a block of a content.
    fn add_part<'py>(&mut self, part: Bound<'py, PyAny>, kind: PieceKind, at: At<'_, 'py>) -> PyResult<()> {
        if self.depth == 0 {
            (self.parts, self.ends_in_thought) = (self.parts + 1, false);
        }
        match part.cast_into::<PyString>() {
            Ok(text) => self.add_text(text, kind, Some(at)),
            Err(other) => {
                let part = other.into_inner();
                self.add_block(Fields::needed(&part, self.index, || at.words())?, kind, at)
            }
        }
    }

    /// Add a block; refuses a call or a result of a foreign format.
    pub fn add_block<'py>(&mut self, block: Fields<'_, 'py>, kind: PieceKind, at: At<'_, 'py>) -> PyResult<()> {
        let of = block.kind()?;
        let name = of.name();
        if name == "text"
            && self.depth < DEEPEST
            && block.is_small(2)
            && let Some(text) = block.text(interned!(block.as_any().py(), "text"))?
        {
            return self.add_text(text, kind, Some(At::Key(&at, "text")));
        }
        let is_anthropic = is_anthropic(block, &name)?;
        let is_thought = is_thought(&name);
        self.is_thoughtful |= is_thought || name == "reasoning";
        if self.depth == 0 {
            self.ends_in_thought = is_thought;
            self.results += usize::from(name == "tool_result");
        }
        if self.depth == DEEPEST || (self.depth > 0 && is_anthropic) {
            return self.add_readable(block.as_any(), kind);
        }
        self.depth += 1;
        if is_anthropic {
            self.add_anthropic(block, &name, at)?;
        } else {
            self.add_other(block, &name, kind, at)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn add_other<'py>(&mut self, block: Fields<'_, 'py>, name: &str, kind: PieceKind, at: At<'_, 'py>) -> PyResult<()> {
        let py = block.as_any().py();
        if (name.is_empty() || TEXTS.contains(&name))
            && let Some(text) = block.text(interned!(py, "text"))?
        {
            // Citations point into the text by character number, and a signature may be of it.
            let is_free = self.places.is_some()
                && !block.is_set(interned!(py, "annotations"))?
                && !block.is_set(interned!(py, "citations"))?
                && !is_signed(block.as_any())?;
            return self.add(Some(text.into_any()), kind, is_free.then_some(At::Key(&at, "text")));
        }
        if MEDIA.contains(&name) {
            let source = block.text(interned!(py, "source_type"))?;
            if source.is_some_and(|source| text_of(&source) == "text") {
                // LangChain's file with a text in it.
                return self.add(block.get(interned!(py, "text"))?, kind, Some(At::Key(&at, "text")));
            }
            return self.add_medium(block.as_any());
        }
        self.is_uncommon = true;
        if name == "document" {
            return self.add_document(block, kind, at);
        }
        check_no_pair(block, self.index, || at.words(), kind == PieceKind::ToolResult, "another format's")?;
        // Without a content it failed, and the API goes on as if it were not there.
        let (said, hidden) = (interned!(py, "content"), interned!(py, "encrypted_content"));
        let has_failed = block.has(said)? && !block.is_set(said)? && !block.is_set(hidden)?;
        self.has_state |= STATE.contains(&name) && !has_failed;
        let is_read = STATE.contains(&name) || READABLE.contains(&name);
        if is_read || TEXTS.contains(&name) || is_of_server(name) {
            self.add_readable(block.as_any(), kind)
        } else {
            self.add_unknown(block, kind)
        }
    }

    /// Add a call, a result or a thought of Anthropic's, which gateways also write in chat.
    fn add_anthropic<'py>(&mut self, block: Fields<'_, 'py>, name: &str, at: At<'_, 'py>) -> PyResult<()> {
        let py = block.as_any().py();
        let is_thought = is_thought(name);
        self.has_pair |= !is_thought;
        if is_call(name) {
            self.is_uncommon |= name != "tool_use";
            self.owners.extend(program_of(block)?.map(Id::of).transpose()?);
            if let Some(call) = block.text(interned!(py, "id"))? {
                self.calls.push(Id::of(call)?);
            }
            let (name, input) = (block.get(interned!(py, "name"))?, block.get(interned!(py, "input"))?);
            return self.add_input(py, name.as_ref(), input.as_ref());
        }
        if let Some(answer) = block.text(interned!(py, "tool_use_id"))? {
            self.answers.push(Id::of(answer)?);
        }
        if name == "thinking" {
            let thought = block.get(interned!(py, "thinking"))?;
            // Mistral's is a list of texts.
            return match thought {
                Some(parts) if is_list(&parts) => self.add_readable(&parts, PieceKind::Thinking),
                thought => self.add(thought, PieceKind::Thinking, None),
            };
        }
        let content = block.get(interned!(py, "content"))?;
        if name != "tool_result" {
            self.is_uncommon |= !is_thought;
            return content.map_or(Ok(()), |content| self.add_readable(&content, PieceKind::ToolResult));
        }
        self.add_content(content.as_ref(), PieceKind::ToolResult, At::Key(&at, "content"))
    }

    /// Add a block of an unknown type, and note it. It is never free.
    pub fn add_unknown(&mut self, block: Fields<'_, '_>, kind: PieceKind) -> PyResult<()> {
        self.unknown.push(name_of(block)?.unbind());
        let (texts, images) = (self.pieces.len(), self.images);
        self.add_readable(block.as_any(), kind)?;
        let (has_text, has_media) = (self.pieces.len() > texts, self.images > images);
        let keys = block.keys()?;
        let names: Vec<_> = keys.iter().filter_map(|key| key.cast::<PyString>().ok()).map(text_of).collect();
        let is_file = has_media && names.iter().any(|name| FILE_KEYS.contains(&name.as_ref()));
        let is_encrypted = names.iter().any(|name| name.starts_with("encrypted"));
        self.has_unread |= is_encrypted || !(has_text || is_file);
        if keys.len() > 1 && !has_text && !has_media {
            self.add_medium(block.as_any())?;
        }
        Ok(())
    }

    fn add_document<'py>(&mut self, block: Fields<'_, 'py>, kind: PieceKind, at: At<'_, 'py>) -> PyResult<()> {
        let py = block.as_any().py();
        for key in [interned!(py, "title"), interned!(py, "context")] {
            self.add(block.get(key)?, kind, None)?;
        }
        let source = block.get(interned!(py, "source"))?;
        let of = source.as_ref().and_then(Fields::of);
        let place = match of.map(Fields::kind).transpose()?.as_ref().map(|kind| kind.name()).as_deref() {
            Some("text") => "data",
            Some("content") => "content",
            _ => return self.add_medium(block.as_any()),
        };
        let Some(of) = of else { return Ok(()) };
        let value = of.get(&PyString::new(py, place))?;
        let source = At::Key(&at, "source");
        let here = At::Key(&source, place);
        if value.as_ref().is_some_and(|value| value.is_instance_of::<PyString>()) {
            let mut is_free = place == "data";
            for key in [interned!(py, "citations"), interned!(py, "title"), interned!(py, "context")] {
                is_free &= !block.is_set(key)?;
            }
            return self.add(value, kind, is_free.then_some(here));
        }
        let start = self.pieces.len();
        self.add_content(value.as_ref(), kind, here)?;
        if let Some(places) = &mut self.places {
            places[start..].fill_with(|| None);
        }
        Ok(())
    }
}

/// A call as text: its name, a blank, its input as compact JSON. Input that isn't JSON becomes a bounded text, which is
/// enough to count and to score it.
pub fn input_text<'py>(
    py: Python<'py>,
    name: Option<&Bound<'py, PyAny>>,
    input: Option<&Bound<'py, PyAny>>,
) -> PyResult<Source> {
    if let Some(text) = common_input(name, input)? {
        return Ok(Source::Written(text.into()));
    }
    let input = match input.and_then(|input| input.cast::<PyString>().ok()) {
        Some(input) => input.clone(),
        None => python(py, "compact_json", (input,))?.cast_into()?,
    };
    Source::of(match name.and_then(|name| name.cast::<PyString>().ok()) {
        Some(name) => PyString::new(py, "{} {}").call_method1("format", (name, input))?.cast_into()?,
        None => input,
    })
}

/// A call as text, if its name and input have the usual types.
fn common_input(name: Option<&Bound<'_, PyAny>>, input: Option<&Bound<'_, PyAny>>) -> PyResult<Option<String>> {
    let (Some(name), Some(input)) = (name, input) else { return Ok(None) };
    let Ok(name) = name.cast_exact::<PyString>() else { return Ok(None) };
    let Ok(name) = name.to_str() else { return Ok(None) };
    let mut text = format!("{name} ");
    if let Ok(input) = input.cast_exact::<PyString>() {
        let Ok(input) = input.to_str() else { return Ok(None) };
        text.push_str(input);
    } else if !input.is_exact_instance_of::<pyo3::types::PyDict>() || write_json(&mut text, input, MAX_DEPTH)?.is_none()
    {
        return Ok(None);
    }
    Ok(Some(text))
}
