//! Waste in a prompt or a session, for Python.
mod request;
mod subject;
mod texts;

use pyo3::prelude::*;
use rehydrate_core::linting as core;

use crate::errors::detached;
use crate::exit::Running;

pub use request::{is_request, system_and_tools};
pub use subject::Subject;
pub use texts::Text;

/// The fields of a `Finding`.
type Finding = (&'static str, &'static str, String, i64, String, String);

/// The findings of the rules of these names, the most severe first. `min_prefix` is the shortest prefix that the model's cache keeps.
#[pyfunction]
pub fn lint(subject: &Bound<'_, Subject>, min_prefix: i64, rules: Vec<String>) -> PyResult<Vec<Finding>> {
    let _running = Running::begin();
    let read = subject.get();
    detached(subject.py(), || {
        let names: Vec<&str> = rules.iter().map(String::as_str).collect();
        let fields = |(rule, found): (_, core::Finding)| {
            (rule, found.severity.name(), found.place, found.tokens, found.message, found.remedy)
        };
        Ok(core::lint(&read.core(min_prefix), &names).into_iter().map(fields).collect())
    })
}

/// Every rule: its name, and its purpose in a few words.
#[pyfunction]
pub fn lint_rules() -> Vec<(&'static str, &'static str)> {
    core::rules().collect()
}
