//! What a prompt or a session wastes, for Python.
use pyo3::prelude::*;
use rehydrate_core::conversation::PieceKind;
use rehydrate_core::error::Error;
use rehydrate_core::linting as core;

use crate::convert::Text;
use crate::errors::detached;
use crate::tokens::named;

/// `rehydrate.linting.Text`.
#[derive(FromPyObject)]
struct ReadText {
    place: Text,
    text: Text,
    kind: u8,
    tokens: i64,
    role: Text,
    step: i64,
    tool: Text,
    asked: Text,
}

impl ReadText {
    fn core(&self) -> Result<core::Text<'_>, Error> {
        Ok(core::Text {
            place: self.place.as_str(),
            text: self.text.as_str(),
            kind: PieceKind::try_from(self.kind)?,
            tokens: self.tokens,
            role: self.role.as_str(),
            step: self.step,
            tool: self.tool.as_str(),
            asked: self.asked.as_str(),
        })
    }
}

fn texts(read: &[ReadText]) -> Result<Vec<core::Text<'_>>, Error> {
    read.iter().map(ReadText::core).collect()
}

/// `rehydrate.prompt.ToolDef`.
#[derive(FromPyObject)]
struct Tool {
    name: Text,
    description: Text,
    tokens: Option<i64>,
}

/// `rehydrate.prompt.Segment`.
#[derive(FromPyObject)]
struct Segment {
    id: Text,
    tokens: i64,
    stability: Text,
    breakpoint: bool,
}

/// `rehydrate.prompt.Budget`.
#[derive(FromPyObject)]
struct Budget {
    soft_tokens: i64,
    hard_tokens: i64,
    target_tokens: i64,
}

/// `rehydrate.linting.Subject`.
#[derive(FromPyObject)]
pub struct Subject {
    texts: Vec<ReadText>,
    #[pyo3(attribute("static"))]
    fixed: Vec<ReadText>,
    systems: Vec<ReadText>,
    tools: Vec<Tool>,
    segments: Vec<Segment>,
    begins: usize,
    marks: usize,
    marks_cache: bool,
    media_tokens: i64,
    media_before: i64,
    budget: Budget,
    model: Text,
}

impl Subject {
    fn core<'a>(&'a self, definitions: &'a [Text], min_prefix: i64, counter: &str) -> Result<core::Subject<'a>, Error> {
        let tools = self.tools.iter().zip(definitions).map(|(tool, definition)| core::Tool {
            name: tool.name.as_str(),
            description: tool.description.as_str(),
            definition: definition.as_str(),
            tokens: tool.tokens.unwrap_or_default(),
        });
        let segments = self.segments.iter().map(|segment| core::Segment {
            id: segment.id.as_str(),
            tokens: segment.tokens,
            is_marked: segment.breakpoint,
            is_dynamic: segment.stability.as_str() == "dynamic",
        });
        let Budget { soft_tokens: soft, hard_tokens: hard, target_tokens: target } = self.budget;
        Ok(core::Subject {
            texts: texts(&self.texts)?,
            begins: self.begins,
            fixed: texts(&self.fixed)?,
            systems: texts(&self.systems)?,
            tools: tools.collect(),
            segments: segments.collect(),
            marks: self.marks,
            marks_cache: self.marks_cache,
            media_tokens: self.media_tokens,
            media_before: self.media_before,
            budget: core::Budget { soft, hard, target },
            model: self.model.as_str(),
            min_prefix,
            counter: named(counter)?,
        })
    }
}

/// The fields of a `Finding`.
type Finding = (&'static str, &'static str, String, i64, String, String);

/// What the rules of these names find, the gravest first. `definitions` are those of the tools, as compact JSON.
#[pyfunction]
pub fn lint(
    py: Python<'_>,
    subject: Subject,
    definitions: Vec<Text>,
    min_prefix: i64,
    counter: &str,
    rules: Vec<String>,
) -> PyResult<Vec<Finding>> {
    detached(py, || {
        let names: Vec<&str> = rules.iter().map(String::as_str).collect();
        let found = core::lint(&subject.core(&definitions, min_prefix, counter)?, &names);
        let fields = |(rule, found): (_, core::Finding)| {
            (rule, found.severity.name(), found.place, found.tokens, found.message, found.remedy)
        };
        Ok(found.into_iter().map(fields).collect())
    })
}
