//! Questions about a prompt and its sections: the laws that it breaks, its table, the changes from it to another, and
//! its breakpoints.
//!
//! `rehydrate.prompt.reports` has the records of the reports, and their meanings.
mod breakpoints;
mod changes;
mod laws;
mod order;
mod records;
mod rows;
mod sections;
mod splicing;
mod text;

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

pub use breakpoints::placed_breakpoints;
pub use changes::prompt_changes;
pub use laws::broken_laws;
pub use order::ordered_sections;
pub use records::PromptRecords;
pub use rows::prompt_rows;
pub use sections::{check_provenance, check_section, checked_found};
pub use splicing::{SHORTEST_QUOTE, deduplicated, heading_tokens, late_tokens, spliced, with_items};
pub use text::explanation_text;

use crate::interned::record;
use crate::layout::history::Tokens;

record! {
    /// The parts of a `PromptIR`, but its history.
    struct Prompt<'py> {
        budget: Bound<'py, PyAny>,
        sections: Vec<Section<'py>>,
        tools: Vec<Tool<'py>>,
        late_bound: Vec<Section<'py>>,
        breakpoints: Vec<Bound<'py, PyString>>,
        meta: Meta<'py>,
    }
}

record! {
    struct Section<'py> {
        id: Bound<'py, PyString>,
        content: Bound<'py, PyAny>,
        provenance: Provenance<'py>,
        tokens: Option<Tokens>,
        min_tokens: Tokens,
        priority: Bound<'py, PyAny>,
        relevance: Bound<'py, PyAny>,
        mode: Bound<'py, PyAny>,
        stability: Bound<'py, PyAny>,
        position: Bound<'py, PyAny>,
        anchor: Option<i128>,
        late_bound: Bound<'py, PyAny>,
        tool_call_id: Bound<'py, PyAny>,
        handle: Bound<'py, PyAny>,
        is_static: bool,
        is_system: bool,
        must_stay_whole: bool,
    }
}

record! {
    struct Provenance<'py> {
        source: Bound<'py, PyString>,
        items: Vec<Bound<'py, PyAny>>,
        trust: Bound<'py, PyAny>,
        parents: Vec<Bound<'py, PyAny>>,
    }
}

impl Section<'_> {
    fn trust(&self) -> PyResult<f64> {
        self.provenance.trust.extract()
    }
}

record! {
    struct Tool<'py> {
        name: Bound<'py, PyString>,
        tokens: Option<Tokens>,
        provenance: Provenance<'py>,
        is_hosted: bool,
    }
}

record! {
    /// The records of how a prompt was made.
    struct Meta<'py> {
        sources: Vec<Source<'py>>,
        dropped: Vec<Dropped<'py>>,
        trace: Vec<Trace<'py>>,
        outcome: Bound<'py, PyAny>,
    }
}

record! {
    struct Source<'py> {
        name: Bound<'py, PyString>,
        status: Bound<'py, PyString>,
        sections: Bound<'py, PyAny>,
        tokens: Tokens,
        detail: Bound<'py, PyString>,
    }
}

record! {
    struct Dropped<'py> {
        section: Bound<'py, PyString>,
        tokens: Tokens,
        reason: Bound<'py, PyString>,
        handle: Bound<'py, PyAny>,
        priority: Bound<'py, PyString>,
        by: Bound<'py, PyString>,
    }
}

impl<'py> Dropped<'py> {
    /// The reason, and the pass or source that left it out.
    fn why(&self) -> PyResult<Bound<'py, PyString>> {
        if self.by.is_empty()? {
            Ok(self.reason.clone())
        } else {
            say(self.by.py(), "{} ({})", (&self.reason, &self.by))
        }
    }
}

record! {
    struct Trace<'py> {
        name: Bound<'py, PyString>,
        changed: Vec<Bound<'py, PyString>>,
    }
}

/// A text by Python's rules of formatting.
fn say<'py>(py: Python<'py>, template: &str, values: impl PyCallArgs<'py>) -> PyResult<Bound<'py, PyString>> {
    Ok(PyString::new(py, template).call_method1("format", values)?.cast_into()?)
}

/// The texts with another between them.
fn joined<'py>(py: Python<'py>, between: &str, texts: Vec<Bound<'py, PyString>>) -> PyResult<Bound<'py, PyString>> {
    Ok(PyString::new(py, between).call_method1("join", (PyTuple::new(py, texts)?,))?.cast_into()?)
}
