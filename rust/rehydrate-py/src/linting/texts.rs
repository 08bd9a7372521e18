//! The texts of a prompt with their places, steps and calls, and its tools. All are counted.
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rehydrate_core::batches;
use rehydrate_core::conversation::PieceKind;
use rehydrate_core::engine::Engine;
use rehydrate_core::linting as core;
use rehydrate_core::tokens::Counter;
use rustc_hash::FxHashMap;

use crate::checks::check_list;
use crate::convert;
use crate::errors::detached;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{Conversation, Source, python};
use crate::writing::dict;

pub const COUNTER: Counter = Counter::O200kBase;

type Any<'py> = Bound<'py, PyAny>;

/// The call of a tool's result: the tool's name, and its input as compact JSON.
#[derive(Clone, Default)]
struct Call {
    tool: Arc<str>,
    asked: Arc<str>,
}

impl Call {
    /// The call that a conversation has as one text.
    fn of(text: &str) -> Self {
        let (tool, asked) = text.split_once(' ').unwrap_or((text, ""));
        Self { tool: tool.into(), asked: asked.into() }
    }
}

pub struct Read {
    pub place: String,
    pub text: Source,
    kind: PieceKind,
    pub tokens: i64,
    role: Arc<str>,
    step: i64,
    call: Call,
}

impl Read {
    /// A text that belongs to no step of the conversation, not counted yet.
    pub fn apart(place: impl Into<String>, text: Source, role: &str) -> Self {
        let (kind, call) = (PieceKind::Text, Call::default());
        Self { place: place.into(), text, kind, tokens: 0, role: role.into(), step: 0, call }
    }

    pub fn core(&self) -> core::Text<'_> {
        core::Text {
            place: &self.place,
            text: self.text.as_str(),
            kind: self.kind,
            tokens: self.tokens,
            role: &self.role,
            step: self.step,
            tool: &self.call.tool,
            asked: &self.call.asked,
        }
    }
}

/// One text of the prompt, and its place.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Text(Arc<Read>);

#[pymethods]
impl Text {
    /// `history[12]`, `system`, or a section's id.
    #[getter]
    fn place(&self) -> &str {
        &self.0.place
    }

    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.0.text.to_py(py)
    }

    /// A `PieceKind`.
    #[getter]
    fn kind<'py>(&self, py: Python<'py>) -> PyResult<Any<'py>> {
        let _running = Running::begin();
        py.import("rehydrate.messages")?.getattr("PieceKind")?.call1((self.0.kind as u8,))
    }

    #[getter]
    fn tokens(&self) -> i64 {
        self.0.tokens
    }

    #[getter]
    fn role(&self) -> &str {
        &self.0.role
    }

    /// The number of requests that were answered before it was added.
    #[getter]
    fn step(&self) -> i64 {
        self.0.step
    }

    /// For a tool's result: the name of the tool.
    #[getter]
    fn tool(&self) -> &str {
        &self.0.call.tool
    }

    /// For a tool's result: the input of its call, as compact JSON.
    #[getter]
    fn asked(&self) -> &str {
        &self.0.call.asked
    }

    fn __repr__(&self) -> String {
        format!("<Text {} of {:?}: {} tokens>", self.0.place, self.0.role, self.0.tokens)
    }
}

/// The texts of a conversation, the indices of their entries, and the system texts before them.
pub struct Said {
    pub texts: Vec<Read>,
    pub indices: Vec<usize>,
    pub leading: Vec<Read>,
}

impl Said {
    /// `names` are those of the entries.
    pub fn of(py: Python<'_>, conversation: &Conversation, names: &[String]) -> PyResult<Self> {
        let of = &conversation.columns;
        let shown = |named: &Bound<'_, PyString>| Ok(named.extract::<convert::Text>()?.as_str().into());
        let roles = of.of.roles.iter().map(|named| shown(named.shown.bind(py))).collect::<PyResult<Vec<Arc<str>>>>()?;
        let (mut said, mut step) = (Self { texts: Vec::new(), indices: Vec::new(), leading: Vec::new() }, 0);
        let (mut calls, mut before): (FxHashMap<&[u8], Call>, &str) = (FxHashMap::default(), "");
        for (at, row) in of.of.rows.iter().enumerate() {
            let (role, pieces) = (&roles[row.role], of.pieces(at));
            step += i64::from(&**role != "assistant" && before == "assistant");
            before = &**role;
            let inputs = pieces.iter().filter(|(_, kind)| *kind == PieceKind::ToolInput);
            let inputs: Vec<Call> = inputs.map(|(text, _)| Call::of(text.as_str())).collect();
            let results = pieces.iter().filter(|(_, kind)| *kind == PieceKind::ToolResult).count();
            if inputs.len() == of.calls(at).len() {
                calls.extend(of.calls(at).iter().map(|id| id.as_bytes()).zip(inputs.iter().cloned()));
            }
            let answered = of.answers(at).iter().map(|id| calls.get(id.as_bytes()).cloned().unwrap_or_default());
            let mut answered: Vec<Call> = answered.collect();
            if answered.is_empty() && &**role == "assistant" && inputs.len() == 1 {
                answered = inputs; // of a server's tool, whose results are in its own item
            }
            let mut found = 0;
            for (text, kind) in pieces {
                let mut call = None;
                if *kind == PieceKind::ToolResult {
                    // One result of several texts, or as many results as texts. Otherwise it is unknown which is whose.
                    if answered.len() == 1 || answered.len() == results {
                        call = answered.get(if answered.len() == 1 { 0 } else { found });
                    }
                    found += 1;
                }
                let read = Read {
                    place: names[row.index].clone(),
                    text: text.clone_ref(py),
                    kind: *kind,
                    tokens: 0,
                    role: role.clone(),
                    step,
                    call: call.cloned().unwrap_or_default(),
                };
                if &**role == "system" && said.texts.is_empty() {
                    said.leading.push(read);
                } else {
                    said.texts.push(read);
                    said.indices.push(row.index);
                }
            }
        }
        Ok(said)
    }
}

/// A tool's definition.
pub struct Tool {
    name: convert::Text,
    description: convert::Text,
    /// As compact JSON.
    definition: convert::Text,
    pub tokens: i64,
}

impl Tool {
    pub fn core(&self) -> core::Tool<'_> {
        core::Tool {
            name: self.name.as_str(),
            description: self.description.as_str(),
            definition: self.definition.as_str(),
            tokens: self.tokens,
        }
    }
}

/// The tools with the tokens of their definitions, and the caller's own definitions.
pub fn read_tools<'py>(tools: &Any<'py>) -> PyResult<(Vec<Tool>, Vec<Any<'py>>)> {
    let py = tools.py();
    check_list("tools", tools, "pass a list of tool definitions")?;
    let class = py.import("rehydrate.prompt.section")?.getattr("ToolDef")?;
    let (mut read, mut raw, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for tool in tools.try_iter()? {
        let tool = class.call_method1("read", (tool?,))?;
        let (name, about) = (tool.getattr(interned!(py, "name"))?, tool.getattr(interned!(py, "description"))?);
        let own = tool.getattr(interned!(py, "raw"))?;
        let mut definition = own.clone();
        if !own.is_truthy()? {
            let schema = py.get_type::<PyDict>().call1((tool.getattr(interned!(py, "schema"))?,))?;
            definition = dict!(py, "name": &name, "description": &about, "input_schema": schema).into_any();
        }
        let definition = python(py, "compact_json", (definition,))?.extract()?;
        known.push(tool.getattr(interned!(py, "tokens"))?.extract::<Option<i64>>()?);
        read.push(Tool { name: name.extract()?, description: about.extract()?, definition, tokens: 0 });
        raw.push(own);
    }
    let counts = counts(py, &read.iter().map(|tool| tool.definition.as_str()).collect::<Vec<_>>())?;
    for (tool, tokens) in read.iter_mut().zip(known.into_iter().zip(counts)) {
        tool.tokens = tokens.0.unwrap_or(tokens.1);
    }
    Ok((read, raw))
}

pub fn shared(texts: &[Arc<Read>]) -> Vec<Text> {
    texts.iter().map(|read| Text(read.clone())).collect()
}

/// The texts with their tokens.
pub fn counted(py: Python<'_>, mut texts: Vec<Read>) -> PyResult<Vec<Arc<Read>>> {
    let counts = counts(py, &texts.iter().map(|read| read.text.as_str()).collect::<Vec<_>>())?;
    for (read, tokens) in texts.iter_mut().zip(counts) {
        read.tokens = tokens;
    }
    Ok(texts.into_iter().map(Arc::new).collect())
}

fn counts(py: Python<'_>, texts: &[&str]) -> PyResult<Vec<i64>> {
    detached(py, || {
        let rows: Vec<_> = texts.iter().map(|text| Some(*text)).collect();
        let counts = batches::counts(Engine::shared(), &rows, COUNTER);
        Ok(counts.into_iter().flatten().map(i64::from).collect())
    })
}
