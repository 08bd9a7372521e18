//! The input of all rules, read once: texts, tools, cache marks and budget.
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use rehydrate_core::linting as core;

use super::request::{
    SystemText, is_set, is_system, last_request, marks, messages_in, model_in, system_in, system_texts, tools_in,
    with_marks,
};
use super::texts::{COUNTER, Read, Said, Text, Tool, counted, read_tools, shared};
use crate::checks::check_type;
use crate::convert::Given;
use crate::exit::Running;
use crate::interned::{interned, record};
use crate::layout::history::History;
use crate::prepared::tokens_of_messages;
use crate::reading::{self, Conversation, Fields, Source, Wanted, last_compaction, listed, text_of};
use crate::tokens::Counts;

/// Lists of requests in a list; Python refuses a thousand.
const DEEPEST_REQUEST: usize = 64;
/// Models whose provider caches without marks begin with one of these.
const CACHED_UNMARKED: [&str; 4] = ["gpt", "o1", "o3", "o4"];

type Any<'py> = Bound<'py, PyAny>;

struct Segment {
    id: String,
    tokens: i64,
    is_marked: bool,
    is_dynamic: bool,
}

record! {
    /// `rehydrate.prompt.Segment`.
    struct Compiled<'py> {
        id: Bound<'py, PyString>,
        kind: Bound<'py, PyString>,
        tokens: i64,
        stability: Bound<'py, PyString>,
        breakpoint: bool,
    }
}

record! {
    /// `rehydrate.prompt.Section`.
    struct Section<'py> {
        id: Bound<'py, PyString>,
        content: Any<'py>,
        is_static: bool,
    }
}

/// `CompiledPrompt` and `PromptIR`.
pub fn classes(py: Python<'_>) -> PyResult<(Any<'_>, Any<'_>)> {
    let module = py.import("rehydrate.prompt.ir")?;
    Ok((module.getattr("CompiledPrompt")?, module.getattr("PromptIR")?))
}

/// A prompt or a session, as the rules read it.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Subject {
    texts: Vec<Arc<Read>>,
    fixed: Vec<Arc<Read>>,
    systems: Vec<Arc<Read>>,
    tools: Vec<Tool>,
    segments: Vec<Segment>,
    begins: usize,
    marks: usize,
    marks_cache: bool,
    media_tokens: i64,
    media_before: i64,
    budget: core::Budget,
    model: String,
}

#[pymethods]
impl Subject {
    /// Read messages, the body of a request, a PromptIR or a CompiledPrompt. For a list of such requests, read the
    /// last, and the system text of all.
    #[staticmethod]
    #[pyo3(signature = (
        target, *, format=Wanted::Detected, tools=Given::USUAL, system=None, model=Given::USUAL, budget=None
    ))]
    fn of<'py>(
        target: Any<'py>,
        format: Wanted<'py>,
        tools: Given<'py>,
        system: Option<Any<'py>>,
        model: Given<'py>,
        budget: Option<Any<'py>>,
    ) -> PyResult<Self> {
        let _running = Running::begin();
        let py = target.py();
        if let Some(budget) = &budget {
            let class = py.import("rehydrate.prompt.request")?.getattr("Budget")?;
            check_type("budget", budget, &class, "pass Budget(soft_tokens=...)")?;
        }
        let mut name = String::new();
        if let Some(model) = &model.0 {
            check_type("model", model, py.get_type::<PyString>().as_any(), "pass the model's name, or leave it out")?;
            name = text_of(model.cast()?).into_owned();
        }
        let mut last = target.clone();
        for _ in 0..DEEPEST_REQUEST {
            match last_request(&last)? {
                Some(inner) => last = inner,
                None => break,
            }
        }
        let requests = if last.is(&target) { Vec::new() } else { listed(Some(&target))? };
        let read = Self::read(last, format, tools.0, system, name, budget)?;
        let systems = requests.iter().map(system_of).collect::<PyResult<_>>()?;
        Ok(Self { systems: counted(py, systems)?, ..read })
    }

    /// The texts in order: those of the history, and of an IR's dynamic sections.
    #[getter]
    fn texts(&self) -> Vec<Text> {
        shared(&self.texts)
    }

    /// The texts before them, sent with every request: the system's.
    #[getter(r#static)]
    fn fixed(&self) -> Vec<Text> {
        shared(&self.fixed)
    }

    /// The system text of each of a session's requests, in order, if these are known.
    #[getter]
    fn systems(&self) -> Vec<Text> {
        shared(&self.systems)
    }

    /// Whether there is nothing to lint: no text, no tool, no media.
    #[getter]
    fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.fixed.is_empty() && self.tools.is_empty() && self.media_tokens == 0
    }

    /// Tokens of the current prompt.
    #[getter]
    fn tokens(&self) -> i64 {
        self.core(0).tokens()
    }

    /// Tokens before the last compaction of a transcript.
    #[getter]
    fn tokens_before(&self) -> i64 {
        self.core(0).tokens_before()
    }

    /// Tokens of everything, as `compact_context` counts them, and of the tools.
    #[getter]
    fn whole_tokens(&self) -> i64 {
        let all = self.core(0);
        all.tokens() + all.tokens_before()
    }

    /// Tokens of the tools' definitions.
    #[getter]
    fn tool_tokens(&self) -> i64 {
        self.core(0).tool_tokens()
    }

    #[getter]
    fn media_tokens(&self) -> i64 {
        self.media_tokens
    }

    /// The number of requests that were answered.
    #[getter]
    fn steps(&self) -> i64 {
        self.core(0).steps()
    }

    /// The model of the cache. "" if it is unknown.
    #[getter]
    fn model(&self) -> &str {
        &self.model
    }
}

impl Subject {
    pub fn core(&self, min_prefix: i64) -> core::Subject<'_> {
        fn all(texts: &[Arc<Read>]) -> Vec<core::Text<'_>> {
            texts.iter().map(|read| read.core()).collect()
        }
        let segments = self.segments.iter().map(|segment| core::Segment {
            id: &segment.id,
            tokens: segment.tokens,
            is_marked: segment.is_marked,
            is_dynamic: segment.is_dynamic,
        });
        core::Subject {
            texts: all(&self.texts),
            begins: self.begins,
            fixed: all(&self.fixed),
            systems: all(&self.systems),
            tools: self.tools.iter().map(Tool::core).collect(),
            segments: segments.collect(),
            marks: self.marks,
            marks_cache: self.marks_cache,
            media_tokens: self.media_tokens,
            media_before: self.media_before,
            budget: self.budget,
            model: &self.model,
            min_prefix,
            counter: COUNTER,
        }
    }

    /// Read one request, or messages.
    fn read(
        target: Any<'_>,
        format: Wanted<'_>,
        tools: Option<Any<'_>>,
        system: Option<Any<'_>>,
        mut model: String,
        budget: Option<Any<'_>>,
    ) -> PyResult<Self> {
        let py = target.py();
        let (compiled, ir) = classes(py)?;
        let (is_compiled, is_ir) = (target.is_instance(&compiled)?, target.is_instance(&ir)?);
        let budget = match budget {
            Some(budget) => budget,
            None if is_compiled => target.getattr(interned!(py, "ir"))?.getattr(interned!(py, "budget"))?,
            None if is_ir => target.getattr(interned!(py, "budget"))?,
            None => py.import("rehydrate.prompt.request")?.getattr("Budget")?.call0()?,
        };
        let budget = core::Budget {
            soft: budget.getattr(interned!(py, "soft_tokens"))?.extract()?,
            hard: budget.getattr(interned!(py, "hard_tokens"))?.extract()?,
            target: budget.getattr(interned!(py, "target_tokens"))?.extract()?,
        };
        if is_ir {
            return Self::of_ir(&target, budget, model);
        }
        let (mut target, mut format, mut compiled) = (target, format, Vec::new());
        if is_compiled {
            compiled = target.getattr(interned!(py, "segments"))?.extract::<Vec<Compiled<'_>>>()?;
            if model.is_empty() {
                model = text_of(target.getattr(interned!(py, "model"))?.cast()?).into_owned();
            }
            format = target.getattr(interned!(py, "provider"))?.extract()?;
            target = target.getattr(interned!(py, "request"))?;
        }
        let (mut tools, mut system) = (tools, system);
        let body = Fields::of(&target);
        let entries = match body {
            Some(body) => {
                if !is_set(system.as_ref())? {
                    system = system_in(body)?;
                }
                system = system.map(|system| with_marks(&system)).transpose()?;
                if !is_set(tools.as_ref())? {
                    tools = Some(tools_in(body)?);
                }
                if model.is_empty() {
                    model = model_in(body)?;
                }
                messages_in(body)?.unwrap_or_else(|| PyTuple::empty(py).into_any())
            }
            None => target.clone(),
        };
        let (tools, raw) = tools.map_or(Ok((Vec::new(), Vec::new())), |tools| read_tools(&tools))?;
        let (conversation, _) = reading::read(&entries, format)?;
        conversation.check_roles(py, None)?;
        let compacted = last_compaction(&conversation, &entries)?;
        let said = Said::of(py, &conversation, &names_of(&compiled, entries.len()?))?;
        let system_blocks = system_texts(system.as_ref())?;
        let mut fixed = Vec::new();
        for of in &system_blocks {
            fixed.push(Read::apart(of.place.as_str(), Source::of(of.text.clone())?, "system"));
        }
        fixed.extend(said.leading);
        let fixed = counted(py, fixed)?;
        let is_caching = matches!(conversation.format_name(), "ai_sdk" | "anthropic" | "bedrock" | "gemini" | "plain");
        let named = model.to_lowercase();
        let caches_all = CACHED_UNMARKED.iter().any(|known| named.starts_with(known));
        let marks_cache = body.is_some() && system.is_some() && is_caching && !caches_all;
        let (segments, marks) = if compiled.is_empty() {
            sent(&tools.iter().zip(&raw).collect::<Vec<_>>(), &system_blocks, &fixed, &conversation, &entries)?
        } else {
            let marks = compiled.iter().filter(|segment| segment.breakpoint).count();
            (compiled.iter().map(Segment::of).collect(), marks)
        };
        let media = |before: usize| media_tokens(&conversation, before);
        Ok(Self {
            begins: compacted.map_or(0, |from| said.indices.partition_point(|&index| index < from)),
            texts: counted(py, said.texts)?,
            fixed,
            systems: Vec::new(),
            tools,
            segments,
            marks,
            marks_cache,
            media_tokens: media(usize::MAX),
            media_before: media(compacted.unwrap_or_default()),
            budget,
            model,
        })
    }

    fn of_ir(ir: &Any<'_>, budget: core::Budget, model: String) -> PyResult<Self> {
        let py = ir.py();
        let history = ir.getattr(interned!(py, "history"))?;
        let named = history.getattr(interned!(py, "format"))?;
        let history = History::of(history)?;
        let format = if history.entries.is_empty() { Wanted::Detected } else { named.extract()? };
        let (conversation, _) = reading::read(history.entries.as_any(), format)?;
        let mut names = Vec::new();
        for row in 0..history.entries.len() {
            names.push(text_of(&history.entry_id(row)?.str()?).into_owned());
        }
        let said = Said::of(py, &conversation, &names)?;
        let (mut texts, mut fixed) = (Vec::new(), Vec::new());
        for section in ir.getattr(interned!(py, "sections"))?.extract::<Vec<Section<'_>>>()? {
            let Ok(content) = section.content.cast::<PyString>() else { continue };
            let read = Read::apart(text_of(&section.id), Source::of(content.clone())?, "user");
            (if section.is_static { &mut fixed } else { &mut texts }).push(read);
        }
        texts.extend(said.texts);
        fixed.extend(said.leading);
        let (tools, _) = read_tools(&ir.getattr(interned!(py, "tools"))?)?;
        Ok(Self {
            texts: counted(py, texts)?,
            fixed: counted(py, fixed)?,
            systems: Vec::new(),
            tools,
            segments: Vec::new(),
            begins: 0,
            marks: 0,
            marks_cache: false,
            media_tokens: media_tokens(&conversation, usize::MAX),
            media_before: 0,
            budget,
            model,
        })
    }
}

impl Segment {
    fn of(compiled: &Compiled<'_>) -> Self {
        Self {
            id: text_of(&compiled.id).into_owned(),
            tokens: compiled.tokens,
            is_marked: compiled.breakpoint,
            is_dynamic: text_of(&compiled.stability) == "dynamic",
        }
    }
}

/// Messages or a body as they are sent, and their number of cache marks.
fn sent(
    tools: &[(&Tool, &Any<'_>)],
    system: &[SystemText<'_>],
    fixed: &[Arc<Read>],
    conversation: &Conversation,
    entries: &Any<'_>,
) -> PyResult<(Vec<Segment>, usize)> {
    let mut parts = Vec::new();
    for (number, (tool, raw)) in tools.iter().enumerate() {
        parts.push((format!("tools[{number}]"), tool.tokens, marks(raw)?));
    }
    for (of, read) in system.iter().zip(fixed) {
        parts.push((of.place.clone(), read.tokens, of.block.as_ref().map_or(Ok(0), marks)?));
    }
    for ((number, entry), tokens) in entries.try_iter()?.enumerate().zip(sizes(conversation, entries)?) {
        parts.push((entry_name(number), tokens, marks(&entry?)?));
    }
    let all = parts.iter().fold(0_usize, |sum, (_, _, marks)| sum.saturating_add(*marks));
    let segment = |(id, tokens, marks)| Segment { id, tokens, is_marked: marks > 0, is_dynamic: false };
    Ok((parts.into_iter().map(segment).collect(), all))
}

/// The system text of a request.
fn system_of(request: &Any<'_>) -> PyResult<Read> {
    let py = request.py();
    let (compiled, ir) = classes(py)?;
    let mut texts = Vec::new();
    let mut body = request.clone();
    if request.is_instance(&ir)? {
        for section in request.getattr(interned!(py, "sections"))?.extract::<Vec<Section<'_>>>()? {
            if section.is_static {
                texts.push(Read::apart("system", Source::of(section.content.str()?)?, "system"));
            }
        }
        body = py.None().into_bound(py);
    } else if request.is_instance(&compiled)? {
        body = request.getattr(interned!(py, "request"))?;
    }
    let mut entries = Some(body.clone());
    if let Some(fields) = Fields::of(&body) {
        for of in system_texts(system_in(fields)?.as_ref())? {
            texts.push(Read::apart(of.place, Source::of(of.text)?, "system"));
        }
        entries = messages_in(fields)?;
    }
    let mut leading = Vec::new();
    for entry in listed(entries.as_ref())? {
        if !is_system(&entry)? {
            break;
        }
        leading.push(entry);
    }
    if !leading.is_empty() {
        let names = names_of(&[], leading.len());
        let (conversation, _) = reading::read(PyList::new(py, leading)?.as_any(), Wanted::Detected)?;
        texts.extend(Said::of(py, &conversation, &names)?.leading);
    }
    let place = texts.first().map_or("system", |first| &first.place).to_owned();
    let text = texts.iter().map(|read| read.text.as_str()).collect::<Vec<_>>().join("\n");
    Ok(Read::apart(place, Source::Written(text.into()), "system"))
}

fn entry_name(index: usize) -> String {
    format!("history[{index}]")
}

/// The names of this many entries: those of a compiled prompt's segments, or their indices.
fn names_of(segments: &[Compiled<'_>], entries: usize) -> Vec<String> {
    for kinds in [&["message"][..], &["message", "system"]] {
        let of_kind = segments.iter().filter(|segment| kinds.contains(&text_of(&segment.kind).as_ref()));
        let names: Vec<String> = of_kind.map(|segment| text_of(&segment.id).into_owned()).collect();
        if names.len() == entries {
            return names;
        }
    }
    (0..entries).map(entry_name).collect()
}

/// The tokens of each entry.
fn sizes(conversation: &Conversation, entries: &Any<'_>) -> PyResult<Vec<i64>> {
    let mut sizes = vec![0; entries.len()?];
    for (row, tokens) in
        conversation.columns.of.rows.iter().zip(tokens_of_messages(entries.py(), conversation, Counts::Named(COUNTER))?)
    {
        sizes[row.index] += i64::from(tokens);
    }
    Ok(sizes)
}

/// The tokens of media in the entries before an index.
fn media_tokens(conversation: &Conversation, before: usize) -> i64 {
    let rows = conversation.columns.of.rows.iter().filter(|row| row.index < before);
    rows.map(|row| i64::from(row.tokens_of_media())).sum()
}
