//! The settings of a coding agent with hooks and without them, for Python.
use std::collections::BTreeMap;

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::caps::{NotJson, encoded};
use rehydrate_core::hook_settings::{with_hooks, without_hooks};

use crate::caps::CodePoints;
use crate::convert::string_of;
use crate::exit::Running;

/// The settings with one more group of hooks for each event. A group is JSON with an indent of two.
#[pyfunction]
pub fn settings_with_hooks(
    py: Python<'_>,
    text: CodePoints,
    groups: Vec<(String, String)>,
) -> PyResult<Bound<'_, PyString>> {
    let _running = Running::begin();
    read(py, with_hooks(&text.0, &groups))
}

/// The settings without some groups of hooks: their numbers, by event. Events and hooks that are empty then go too,
/// except those that are `kept`: an event by its name, the hooks by "".
#[pyfunction]
pub fn settings_without_hooks(
    py: Python<'_>,
    text: CodePoints,
    gone: BTreeMap<String, Vec<usize>>,
    kept: Vec<String>,
) -> PyResult<Bound<'_, PyString>> {
    let _running = Running::begin();
    read(py, without_hooks(&text.0, &gone, &kept))
}

fn read(py: Python<'_>, text: Result<Vec<u32>, NotJson>) -> PyResult<Bound<'_, PyString>> {
    let text = text.map_err(|NotJson| PyRecursionError::new_err("JSON is nested too deeply"))?;
    string_of(py, &encoded(&text))
}
