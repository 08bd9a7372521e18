//! The one reader of the blocks of a content, of whatever provider.
//!
//! Texts are pieces, pictures and files are media, and a block of a type that no format knows counts by what can be read
//! in it, or as a medium where nothing can. Base64 is never text, except in a text block, which a model reads as it is.
//!
//! A block that looks like a call or a result, and that no format can pair, is refused: a compaction would drop one half
//! of the pair. `tests/formats/blocks_twin.py` is the slow twin.
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString, PyTuple};
use rehydrate_core::conversation::PieceKind;

use super::draft::kind_of;
use super::fields::{Fields, is_list, listed, python, refusal, text_of};
use super::json::{MAX_DEPTH, write_json};
use super::strings::{Id, Source};
use crate::errors::raise;
use crate::interned::{Interned, interned};

/// Pictures and files of any provider or gateway; each costs a constant.
pub const MEDIA: &[&str] = &[
    "image",
    "image_url",
    "input_image",
    "input_audio",
    "audio",
    "video",
    "video_url",
    "file",
    "container_upload",
    "input_file",
    "computer_screenshot",
    "media",
    "document_url",
];
const TEXTS: &[&str] = &["text", "input_text", "output_text", "text-plain", "summary_text", "reasoning_text"];
/// Summaries that a provider itself wrote: it ignores all before the last one.
pub const STATE: &[&str] = &["compaction", "compaction_summary"];
/// Other blocks of known types, of which the strings that a model reads are read.
const READABLE: &[&str] = &[
    "refusal",
    "search_result",
    "tool_reference",
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
const UNREAD_KEYS: &[&str] = &[
    "type",
    "id",
    "tool_use_id",
    "file_id",
    "caller",
    "cache_control",
    "signature",
    "encrypted_content",
    "encrypted_index",
    "encrypted_stdout",
    "call_id",
    "tool_call_id",
    "approval_request_id",
    "container_id",
    "media_type",
    "mime_type",
    "mimeType",
];
const PAYLOAD_KEYS: &[&str] = &["data", "blob", "base64", "b64_json", "file_data", "bytes"];
const FILE_KEYS: &[&str] = &["media_type", "mime_type", "mimeType", "format", "url", "b64_json"];
const TEXT_KEYS: &[&str] = &["text", "content", "stdout", "stderr", "logs", "thinking", "reasoning"];
const DEEPEST: usize = 8;
const LONGEST_DATA_URL_HEADER: usize = 4_096;
/// Characters. A shorter string is read as text: it may be an id or a hash.
const SHORTEST_BASE64: usize = 512;
/// Characters of `data`, which names many things; shorter, it is no file.
const SHORTEST_DATA: usize = 64;

const TOOL_ENDS: &[&str] =
    &["call", "use", "result", "return", "invocation", "response", "output", "error", "approval"];
const FUNCTION_ENDS: &[&str] = &["call", "result", "response", "output"];
/// Keys of a block, without case and punctuation, that hold a call, a result, or the id of one.
const PAIR_KEYS: &[&str] = &[
    "tooluse",
    "toolresult",
    "toolcall",
    "toolcalls",
    "toolcallresult",
    "toolinvocation",
    "functioncall",
    "functionresponse",
    "functionresult",
    "toolcallid",
    "tooluseid",
    "callid",
    "functioncallid",
];
static TYPE_KEYS: [Interned; 7] = [
    Interned::new("type"),
    Interned::new("part_kind"),
    Interned::new("block_type"),
    Interned::new("$type"),
    Interned::new("__type__"),
    Interned::new("content_type"),
    Interned::new("kind"),
];
/// Types of blocks inside a result, which is paired already, end so.
const OUTPUT_END: &str = "_call_output";
const REMEDY: &str = "convert the messages to one of these formats, or to LangChain's message objects";
/// Whose blocks these are, by type or key.
const DIALECTS: [(&str, &str); 6] = [
    ("toolUse", "Bedrock Converse's"),
    ("toolResult", "Bedrock Converse's"),
    ("functionCall", "Gemini's"),
    ("functionResponse", "Gemini's"),
    ("tool-call", "the AI SDK's"),
    ("tool-result", "the AI SDK's"),
];
/// Fields of a message, next to `content`, in which others keep what was said.
static OTHER_FIELDS: [(Interned, &str); 6] = [
    (Interned::new("parts"), "Gemini's, or the AI SDK's UIMessage"),
    (Interned::new("contents"), "Agent Framework's"),
    (Interned::new("blocks"), "LlamaIndex'"),
    (Interned::new("items"), "Semantic Kernel's"),
    (Interned::new("toolInvocations"), "the AI SDK's UIMessage"),
    (Interned::new("_content"), "Haystack's"),
];

/// Where a value is in its entry: the path of a text, and the words of an error.
#[derive(Clone, Copy)]
pub enum At<'a, 'py> {
    /// Where a content begins, and what errors call it.
    Root(Option<&'a Bound<'py, PyTuple>>, &'a str),
    Key(&'a Self, &'static str),
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
            Self::Number(above, number) => format!("{}[{number}]", above.words()),
        }
    }
}

/// What was read of one entry so far.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Body {
    pub index: usize,
    pub pieces: Vec<(Source, PieceKind)>,
    /// The path of each piece's text, None where it must not change; only where somebody asks.
    pub places: Option<Vec<Option<Py<PyTuple>>>>,
    /// The ids of the calls among the blocks.
    pub calls: Vec<Id>,
    pub answers: Vec<Id>,
    pub images: u32,
    /// The types of blocks that no format knows.
    pub unknown: Vec<Py<PyString>>,
    /// Whether a block is a summary that the provider itself wrote, in place of all before it.
    pub has_state: bool,
    /// Whether nobody can read one of the blocks.
    pub has_unread: bool,
    /// Whether a block is one of Anthropic's calls or results, with an id or without.
    pub has_pair: bool,
    /// Whether it has a block that is no text, call, result, thought or medium.
    pub is_uncommon: bool,
    /// Whether it may hold a thought.
    pub is_thoughtful: bool,
    /// Blocks around the one that is read: a result may hold blocks.
    pub depth: usize,
}

impl Body {
    /// Nothing yet, of the entry of this index; with the places of its texts, or without.
    pub fn new(index: usize, has_places: bool) -> Self {
        Self { index, places: has_places.then(Vec::new), ..Self::default() }
    }

    /// Begin with another entry.
    pub fn begin(&mut self, index: usize) {
        self.pieces.clear();
        self.calls.clear();
        self.answers.clear();
        self.unknown.clear();
        (self.index, self.images, self.depth) = (index, 0, 0);
        (self.has_state, self.has_unread, self.has_pair) = (false, false, false);
        (self.is_uncommon, self.is_thoughtful) = (false, false);
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
            Some(text) => {
                let py = text.py();
                let text = Source::of(text)?;
                if text.as_str().is_empty() { Ok(()) } else { self.push(py, text, kind, place) }
            }
            None => Ok(()),
        }
    }

    /// Add a tool call: its name, a blank, its input as compact JSON.
    pub fn add_input<'py>(
        &mut self,
        py: Python<'py>,
        name: Option<&Bound<'py, PyAny>>,
        input: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        if let Some(text) = common_input(name, input)? {
            return self.push(py, Source::Written(text.into()), PieceKind::ToolInput, None);
        }
        self.add(Some(python(py, "tool_input_text", (name, input))?), PieceKind::ToolInput, None)
    }

    /// Add every text in a value that a model would read, and every medium.
    pub fn add_readable(&mut self, value: &Bound<'_, PyAny>, kind: PieceKind) -> PyResult<()> {
        readable(value, 0, "", &mut |text| match text {
            Some(text) => self.add(Some(text.clone().into_any()), kind, None),
            None => {
                self.images += 1;
                Ok(())
            }
        })
    }

    /// Add the pictures that Ollama keeps next to a message's content.
    pub fn add_pictures(&mut self, entry: Fields<'_, '_>) -> PyResult<()> {
        if let Some(pictures) = entry.get(interned!(entry.as_any().py(), "images"))?
            && is_list(&pictures)
        {
            self.images += u32::try_from(pictures.len()?).unwrap_or(u32::MAX);
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
        if content.is_instance_of::<PyString>() {
            return self.add(Some(content.clone()), kind, Some(at));
        }
        if !is_list(content) {
            return Err(refusal(content.py(), "wrong_content", (content, self.index, at.words())));
        }
        for (number, block) in content.try_iter()?.enumerate() {
            let (block, here) = (block?, At::Number(&at, number));
            if block.is_instance_of::<PyString>() {
                self.add(Some(block), kind, Some(here))?;
            } else {
                self.add_block(Fields::needed(&block, self.index, || here.words())?, kind, here)?;
            }
        }
        Ok(())
    }

    /// Add a block; refuses a call or a result of a foreign format.
    pub fn add_block<'py>(&mut self, block: Fields<'_, 'py>, kind: PieceKind, at: At<'_, 'py>) -> PyResult<()> {
        let of = block.kind()?;
        let name = of.name();
        let is_anthropic = is_anthropic(block, &name)?;
        self.is_thoughtful |= matches!(name.as_ref(), "thinking" | "redacted_thinking" | "reasoning");
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
            // Citations point into the text by character number.
            let is_free = self.places.is_some()
                && !block.is_set(interned!(py, "annotations"))?
                && !block.is_set(interned!(py, "citations"))?;
            return self.add(Some(text.into_any()), kind, is_free.then_some(At::Key(&at, "text")));
        }
        if MEDIA.contains(&name) {
            let source = block.text(interned!(py, "source_type"))?;
            if source.is_some_and(|source| text_of(&source) == "text") {
                // LangChain's file with a text in it.
                return self.add(block.get(interned!(py, "text"))?, kind, Some(At::Key(&at, "text")));
            }
            self.images += 1;
            return Ok(());
        }
        self.is_uncommon = true;
        if name == "document" {
            return self.add_document(block, kind, at);
        }
        check_no_pair(block, self.index, || at.words(), kind == PieceKind::ToolResult, "another format's")?;
        self.has_state |= STATE.contains(&name);
        let is_read = STATE.contains(&name) || READABLE.contains(&name);
        if is_read || TEXTS.contains(&name) || is_of_server(name) {
            self.add_readable(block.as_any(), kind)
        } else {
            self.add_unknown(block, kind)
        }
    }

    /// Add a call, a result or a thought of Anthropic's, which gateways write in chat too.
    fn add_anthropic<'py>(&mut self, block: Fields<'_, 'py>, name: &str, at: At<'_, 'py>) -> PyResult<()> {
        let py = block.as_any().py();
        let is_thought = matches!(name, "thinking" | "redacted_thinking");
        self.has_pair |= !is_thought;
        if is_call(name) {
            self.is_uncommon |= name != "tool_use";
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

    /// Add a block of a type that no format knows, and note it; it is never free.
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
        self.images += u32::from(keys.len() > 1 && !has_text && !has_media);
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
            _ => {
                self.images += 1;
                return Ok(());
            }
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

/// A call as text where its name and input have the usual shapes.
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

/// Whether a block of this type has its pair in the same message: the provider makes the call and answers it.
fn is_of_server(name: &str) -> bool {
    let begins = ["server_", "mcp_"].iter().any(|beginning| name.starts_with(beginning));
    begins || ["_tool_result", "_approval_request", "_approval_response"].iter().any(|end| name.ends_with(end))
}

/// Whether a block of this type is a call of Anthropic's; a new server tool's may have its own name.
pub fn is_call(name: &str) -> bool {
    name == "tool_use" || name.ends_with("_tool_use")
}

/// Whether it is a call, a result or a thought in the shape that Anthropic has for it.
fn is_anthropic(block: Fields<'_, '_>, name: &str) -> PyResult<bool> {
    Ok(is_call(name)
        || matches!(name, "thinking" | "redacted_thinking" | "tool_result")
        || name.ends_with("_tool_result")
        || block.text(interned!(block.as_any().py(), "tool_use_id"))?.is_some())
}

/// Whether a content has nothing but results of tools.
pub fn has_only_results(content: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    let Some(content) = content.filter(|content| is_list(content)) else { return Ok(false) };
    for block in content.try_iter()? {
        let block = block?;
        let Some(block) = Fields::of(&block) else { return Ok(false) };
        if block.kind()?.name() != "tool_result" {
            return Ok(false);
        }
    }
    Ok(content.len()? > 0)
}

/// Raise UnknownBlockError for a block that looks like a call or a result of a foreign format; `part` is where it is.
fn check_no_pair(
    block: Fields<'_, '_>,
    index: usize,
    part: impl FnOnce() -> String,
    in_result: bool,
    whose: &str,
) -> PyResult<()> {
    let py = block.as_any().py();
    let mut names = Vec::new();
    for key in &TYPE_KEYS {
        names.extend(block.text(key.get(py))?);
    }
    if names.iter().map(text_of).any(|name| is_of_server(&name) || (in_result && name.ends_with(OUTPUT_END))) {
        return Ok(());
    }
    let mark = match names.into_iter().find(|name| names_pair(&letters(&text_of(name)))) {
        Some(mark) => Some(mark),
        None => block
            .keys()?
            .into_iter()
            .filter_map(|key| key.cast_into::<PyString>().ok())
            .find(|key| PAIR_KEYS.contains(&letters(&text_of(key)).as_str())),
    };
    let Some(mark) = mark else { return Ok(()) };
    let dialect = DIALECTS.iter().find(|(name, _)| *name == text_of(&mark));
    Err(unknown(&mark, index, &part(), dialect.map_or(whose, |(_, whose)| whose)))
}

fn names_pair(letters: &str) -> bool {
    let ends_so = |word: &str, ends: &[&str]| {
        let mut rest = letters.match_indices(word).map(|(at, _)| &letters[at + word.len()..]);
        rest.any(|rest| ends.iter().any(|end| rest.starts_with(end)))
    };
    ends_so("tool", TOOL_ENDS) || ends_so("function", FUNCTION_ENDS)
}

fn letters(name: &str) -> String {
    name.to_lowercase().chars().filter(char::is_ascii_lowercase).collect()
}

fn unknown(name: &Bound<'_, PyString>, index: usize, part: &str, whose: &str) -> PyErr {
    let py = name.py();
    match py.import("rehydrate.messages").and_then(|module| module.getattr("FORMAT_NAMES")) {
        Ok(formats) => raise(py, "UnknownBlockError", (index, part, name, formats, format!("it is {whose}: {REMEDY}"))),
        Err(error) => error,
    }
}

/// The type of a block, or its first key where it has none.
fn name_of<'py>(block: Fields<'_, 'py>) -> PyResult<Bound<'py, PyString>> {
    let py = block.as_any().py();
    match block.kind()?.0 {
        Some(name) if !name.is_empty()? => Ok(name),
        _ => block.keys()?.first().map_or_else(|| Ok(PyString::new(py, "")), |key| key.str()),
    }
}

/// The content of an entry; UnknownBlockError for an entry that keeps it elsewhere.
pub fn content_of<'py>(entry: Fields<'_, 'py>, index: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = entry.as_any().py();
    let content = entry.get(interned!(py, "content"))?;
    if entry.is_exactly_dict() && entry.len()? <= 2 && content.is_some() {
        return Ok(content);
    }
    for (key, whose) in &OTHER_FIELDS {
        let key = key.get(py);
        let Some(parts) = entry.get(key)? else { continue };
        let parts = listed(Some(&parts))?;
        let mut first = None;
        for (number, part) in parts.iter().enumerate() {
            if let Some(part) = Fields::of(part) {
                check_no_pair(part, index, || format!("{key}[{number}]"), false, whose)?;
                first.get_or_insert((number, part));
            }
        }
        if let Some((number, part)) = first
            && !content.as_ref().map_or(Ok(false), |content| content.is_truthy())?
        {
            return Err(unknown(&name_of(part)?, index, &format!("{key}[{number}]"), whose));
        }
    }
    Ok(content)
}

type Found<'f, 'py> = dyn FnMut(Option<&Bound<'py, PyString>>) -> PyResult<()> + 'f;

/// Call `found` with each string in a value that a model would read, and with None for each medium.
fn readable<'py>(value: &Bound<'py, PyAny>, depth: usize, key: &str, found: &mut Found<'_, 'py>) -> PyResult<()> {
    if let Ok(text) = value.cast::<PyString>() {
        if is_binary(text, key)? {
            if key != "data" || text.len()? >= SHORTEST_DATA {
                found(None)?;
            }
        } else if !text.is_empty()? {
            found(Some(text))?;
        }
    } else if value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || value.is_instance_of::<PyMemoryView>()
    {
        found(None)?;
    } else if let Some(fields) = Fields::of(value) {
        if depth > 0 && MEDIA.contains(&fields.kind()?.name().as_ref()) {
            return found(None);
        }
        if depth == DEEPEST {
            return deepest(value, found);
        }
        for (name, item) in fields.items()? {
            let name = name.cast::<PyString>().map(|name| text_of(name).into_owned()).unwrap_or_default();
            if !UNREAD_KEYS.contains(&name.as_str()) {
                readable(&item, depth + 1, &name, found)?;
            }
        }
    } else if is_list(value) {
        if depth == DEEPEST {
            return deepest(value, found);
        }
        for item in value.try_iter()? {
            readable(&item?, depth + 1, key, found)?;
        }
    }
    Ok(())
}

/// What is deeper is one string of JSON: it counts, whatever it is.
fn deepest<'py>(value: &Bound<'py, PyAny>, found: &mut Found<'_, 'py>) -> PyResult<()> {
    found(Some(python(value.py(), "compact_json", (value,))?.cast::<PyString>()?))
}

/// Whether a string under this key is a data URL, or nothing but base64.
fn is_binary(text: &Bound<'_, PyString>, key: &str) -> PyResult<bool> {
    let length = text.len()?;
    let text = text_of(text);
    if is_base64_url(&text) {
        return Ok(true);
    }
    let is_text = TEXT_KEYS.contains(&key) || (!PAYLOAD_KEYS.contains(&key) && length < SHORTEST_BASE64);
    Ok(!is_text && is_base64(&text))
}

fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let padding = bytes.iter().rev().take_while(|&&byte| byte == b'=').count();
    let digits = &bytes[..bytes.len() - padding];
    padding <= 2
        && !digits.is_empty()
        && digits.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/_-".contains(byte))
}

/// Whether it is a base64 data URL, in any spelling and with any parameters.
fn is_base64_url(text: &str) -> bool {
    let ends_so = |text: &str, end: &str| {
        text.len() >= end.len() && text.as_bytes()[text.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
    };
    if !text.get(..5).is_some_and(|beginning| beginning.eq_ignore_ascii_case("data:")) {
        return false;
    }
    let header = text.char_indices().take(LONGEST_DATA_URL_HEADER).find(|&(_, c)| c == ',');
    header.is_some_and(|(comma, _)| ends_so(&text[..comma], ";base64"))
}

/// The strings in a value that a model would read: no ids, no base64.
#[pyfunction]
pub fn readable_texts<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyString>>> {
    let mut texts = Vec::new();
    readable(value, 0, "", &mut |text| {
        texts.extend(text.cloned());
        Ok(())
    })?;
    Ok(texts)
}

/// Return the content of a message; raises UnknownBlockError for one that keeps it elsewhere.
#[pyfunction]
pub fn as_content<'py>(entry: &Bound<'py, PyAny>, index: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    content_of(Fields::needed(entry, index, String::new)?, index)
}

/// Raise UnknownBlockError for a block that looks like a call or a result of a foreign format, and is none of Anthropic's
/// unless `whose` says so.
#[pyfunction]
#[pyo3(signature = (block, index, part, *, whose=None))]
pub fn check_pair(block: &Bound<'_, PyAny>, index: usize, part: &str, whose: Option<&str>) -> PyResult<()> {
    let block = Fields::needed(block, index, || part.to_owned())?;
    if whose.is_none() && is_anthropic(block, &block.kind()?.name())? {
        return Ok(());
    }
    check_no_pair(block, index, || part.to_owned(), false, whose.unwrap_or("another format's"))
}

/// What was read of one entry so far, for a reader in Python: the pieces, the media, the calls and the answers.
#[pyclass(module = "rehydrate._native")]
pub struct Draft {
    pub body: Body,
}

#[pymethods]
impl Draft {
    #[new]
    #[pyo3(signature = (index=0))]
    fn begin(index: usize) -> Self {
        Self { body: Body::new(index, true) }
    }

    /// Add a text, unless it is empty or no string.
    #[pyo3(signature = (text, kind, path=None))]
    fn add<'py>(
        &mut self,
        text: Option<Bound<'py, PyAny>>,
        kind: u8,
        path: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<()> {
        self.body.add(text, kind_of(kind)?, path.map(|path| At::Root(Some(path), "")))
    }

    /// Add a tool call as text.
    fn add_input<'py>(
        &mut self,
        py: Python<'py>,
        name: Option<Bound<'py, PyAny>>,
        input: Option<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        self.body.add_input(py, name.as_ref(), input.as_ref())
    }

    /// Add every text in a value that a model would read, and every medium.
    fn add_readable(&mut self, value: &Bound<'_, PyAny>, kind: u8) -> PyResult<()> {
        self.body.add_readable(value, kind_of(kind)?)
    }

    /// Add a content: a string, or a list of strings and blocks; raises InvalidMessageError.
    #[pyo3(signature = (content, kind, path, part="content"))]
    fn add_content<'py>(
        &mut self,
        content: Option<Bound<'py, PyAny>>,
        kind: u8,
        path: &Bound<'py, PyTuple>,
        part: &str,
    ) -> PyResult<()> {
        self.body.add_content(content.as_ref(), kind_of(kind)?, At::Root(Some(path), part))
    }

    /// Add a block; raises UnknownBlockError for a call or a result of a foreign format.
    #[pyo3(signature = (block, kind, path, part=""))]
    fn add_block<'py>(
        &mut self,
        block: &Bound<'py, PyAny>,
        kind: u8,
        path: &Bound<'py, PyTuple>,
        part: &str,
    ) -> PyResult<()> {
        let block = Fields::needed(block, self.body.index, || part.to_owned())?;
        self.body.add_block(block, kind_of(kind)?, At::Root(Some(path), part))
    }

    /// Add a block of a type that no format knows, and note it.
    fn add_unknown(&mut self, block: &Bound<'_, PyAny>, kind: u8) -> PyResult<()> {
        self.body.add_unknown(Fields::needed(block, self.body.index, String::new)?, kind_of(kind)?)
    }

    /// Note a summary that the provider itself wrote.
    fn add_state(&mut self) {
        self.body.has_state = true;
    }

    /// Count a picture or a file.
    fn add_medium(&mut self) {
        self.body.images += 1;
    }

    /// Whether a block is one of Anthropic's calls or results, with an id or without.
    #[getter]
    fn has_pair(&self) -> bool {
        self.body.has_pair
    }

    /// The path of each piece's text; None where it must not change.
    #[getter]
    fn places(&self, py: Python<'_>) -> Vec<Option<Py<PyTuple>>> {
        let places = self.body.places.iter().flatten();
        places.map(|place| place.as_ref().map(|place| place.clone_ref(py))).collect()
    }
}
