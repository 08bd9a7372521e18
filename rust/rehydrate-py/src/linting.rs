//! What a prompt or a session wastes, for Python.
use pyo3::prelude::*;
use rehydrate_core::conversation::PieceKind;
use rehydrate_core::error::Error;
use rehydrate_core::linting as core;

use crate::convert::Text;
use crate::errors::detached;
use crate::exit::Running;
use crate::tokens::named;

/// `rehydrate.linting.Text`: place, text, kind, tokens, role, step, tool, and what it was asked.
type ReadText = (Text, Text, u8, i64, Text, i64, Text, Text);

fn texts(read: &[ReadText]) -> Result<Vec<core::Text<'_>>, Error> {
    let mut texts = Vec::with_capacity(read.len());
    for (place, text, kind, tokens, role, step, tool, asked) in read {
        texts.push(core::Text {
            place: place.as_str(),
            text: text.as_str(),
            kind: PieceKind::try_from(*kind)?,
            tokens: *tokens,
            role: role.as_str(),
            step: *step,
            tool: tool.as_str(),
            asked: asked.as_str(),
        });
    }
    Ok(texts)
}

/// `rehydrate.prompt.ToolDef`.
struct Tool {
    name: Text,
    description: Text,
    tokens: Option<i64>,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Tool {
    type Error = PyErr;

    fn extract(tool: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            name: tool.getattr("name")?.extract()?,
            description: tool.getattr("description")?.extract()?,
            tokens: tool.getattr("tokens")?.extract()?,
        })
    }
}

/// `rehydrate.prompt.Segment`: id, kind, tokens, digest, stability, blocks, and whether a cache mark is at its end.
type Segment = (Text, Text, i64, Text, Text, i64, bool);

/// `rehydrate.linting.Subject`.
pub struct Subject {
    texts: Vec<ReadText>,
    fixed: Vec<ReadText>,
    systems: Vec<ReadText>,
    tools: Vec<Tool>,
    segments: Vec<Segment>,
    begins: usize,
    marks: usize,
    marks_cache: bool,
    media_tokens: i64,
    media_before: i64,
    budget: core::Budget,
    model: Text,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Subject {
    type Error = PyErr;

    fn extract(subject: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let budget = subject.getattr("budget")?;
        Ok(Self {
            texts: subject.getattr("texts")?.extract()?,
            fixed: subject.getattr("static")?.extract()?,
            systems: subject.getattr("systems")?.extract()?,
            tools: subject.getattr("tools")?.extract()?,
            segments: subject.getattr("segments")?.extract()?,
            begins: subject.getattr("begins")?.extract()?,
            marks: subject.getattr("marks")?.extract()?,
            marks_cache: subject.getattr("marks_cache")?.extract()?,
            media_tokens: subject.getattr("media_tokens")?.extract()?,
            media_before: subject.getattr("media_before")?.extract()?,
            budget: core::Budget {
                soft: budget.getattr("soft_tokens")?.extract()?,
                hard: budget.getattr("hard_tokens")?.extract()?,
                target: budget.getattr("target_tokens")?.extract()?,
            },
            model: subject.getattr("model")?.extract()?,
        })
    }
}

impl Subject {
    fn core<'a>(&'a self, definitions: &'a [Text], min_prefix: i64, counter: &str) -> Result<core::Subject<'a>, Error> {
        let tools = self.tools.iter().zip(definitions).map(|(tool, definition)| core::Tool {
            name: tool.name.as_str(),
            description: tool.description.as_str(),
            definition: definition.as_str(),
            tokens: tool.tokens.unwrap_or_default(),
        });
        let segments = self.segments.iter().map(|(id, _, tokens, _, stability, _, is_marked)| core::Segment {
            id: id.as_str(),
            tokens: *tokens,
            is_marked: *is_marked,
            is_dynamic: stability.as_str() == "dynamic",
        });
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
            budget: self.budget,
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
    let _running = Running::begin();
    detached(py, || {
        let names: Vec<&str> = rules.iter().map(String::as_str).collect();
        let found = core::lint(&subject.core(&definitions, min_prefix, counter)?, &names);
        let fields = |(rule, found): (_, core::Finding)| {
            (rule, found.severity.name(), found.place, found.tokens, found.message, found.remedy)
        };
        Ok(found.into_iter().map(fields).collect())
    })
}
