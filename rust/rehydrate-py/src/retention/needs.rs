//! The needs after a cut: the names and the lines that later messages use, and where they are.
use std::collections::{BTreeSet, HashMap};

use pyo3::prelude::*;
use pyo3::types::PyFrozenSet;
use rehydrate_core::retention::{self as core, Loss, WantedLines, WantedNames};

use super::grouping::steps_of;
use super::message::{Body, Value};
use crate::convert::Text;
use crate::exit::Running;

/// Fewer lines typed again are not measured: a share of them says little.
const MIN_LINES: usize = 3;

/// Return the paths, identifiers, ids and numbers of at least four characters in a text.
///
/// >>> from rehydrate.retention import names_in
/// >>> sorted(names_in("Fix parse_row in src/rows.py, order HAT017, and the userName there."))
/// ['HAT017', 'parse_row', 'src/rows.py', 'userName']
#[pyfunction]
pub fn names_in<'py>(py: Python<'py>, text: Text) -> PyResult<Bound<'py, PyFrozenSet>> {
    let _running = Running::begin();
    PyFrozenSet::new(py, core::names_in(text.as_str()))
}

/// Return the lines of at least 15 characters, each run of white space in them as one blank.
///
/// >>> from rehydrate.retention import lines_in
/// >>> sorted(lines_in("def total(rows):\n    return  sum(rows.values())\n}"))
/// ['def total(rows):', 'return sum(rows.values())']
#[pyfunction]
pub fn lines_in<'py>(py: Python<'py>, text: Text) -> PyResult<Bound<'py, PyFrozenSet>> {
    let _running = Running::begin();
    PyFrozenSet::new(py, core::lines_in(text.as_str()))
}

/// The text without the marks that an excerpt writes in place of its gaps.
#[pyfunction]
pub fn without_marks(text: Text) -> String {
    core::without_marks(text.as_str()).into_owned()
}

/// Whether one of the messages passes something to a tool.
#[pyfunction]
pub fn has_calls(messages: &Value<'_>) -> PyResult<bool> {
    let _running = Running::begin();
    for message in messages.try_iter()? {
        if !Body::of(&message?)?.input_text()?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The names in `before` that messages after it use, and the lines in it that they type again.
///
/// The inputs of tool calls use and type. Without calls, any message uses, and the assistant types.
#[pyfunction]
pub fn needs_after<'py>(
    before: Vec<Value<'py>>,
    ahead: Vec<Value<'py>>,
    has_calls: bool,
    py: Python<'py>,
) -> PyResult<(Bound<'py, PyFrozenSet>, Bound<'py, PyFrozenSet>)> {
    let _running = Running::begin();
    let (mut used, mut typed) = (Vec::new(), Vec::new());
    for message in &ahead {
        let body = Body::of(message)?;
        let text = if has_calls { body.input_text()? } else { body.text()? };
        if has_calls || body.role()? == "assistant" {
            typed.push(text.clone());
        }
        used.push(text);
    }
    let (used, typed) = (used.join("\n"), typed.join("\n"));
    let names: BTreeSet<String> = core::names_in(&used).map(str::to_owned).collect();
    let names = WantedNames::new(names.into_iter().collect());
    let lines: BTreeSet<String> = core::lines_in(&core::without_marks(&typed)).collect();
    let lines = WantedLines::new(lines.into_iter().collect());
    let (mut needed, mut again) = (BTreeSet::new(), BTreeSet::new());
    for message in &before {
        py.check_signals()?;
        let body = Body::of(message)?;
        let text = body.text()?;
        let shown = if has_calls { &body.tool_texts()? } else { &text };
        again.extend(lines.found_in(&core::without_marks(shown)));
        needed.extend(names.found_in(&core::without_marks(&text)));
    }
    if again.len() < MIN_LINES {
        again.clear();
    }
    Ok((chosen(py, names.names(), needed)?, chosen(py, lines.lines(), again)?))
}

/// The texts with these numbers.
fn chosen<'py>(py: Python<'py>, texts: &[String], numbers: BTreeSet<usize>) -> PyResult<Bound<'py, PyFrozenSet>> {
    PyFrozenSet::new(py, numbers.into_iter().map(|number| &texts[number]))
}

/// Names and lines to look for in messages. Each of a cut's own messages is searched once.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Needs {
    names: WantedNames,
    lines: WantedLines,
    /// By the address of a message: the message itself, which keeps its address, and the needs in it.
    own: HashMap<usize, (Py<PyAny>, Held)>,
}

/// The numbers of the names and the lines in a message.
struct Held {
    names: Vec<usize>,
    lines: Vec<usize>,
}

#[pymethods]
impl Needs {
    #[new]
    fn new(names: &Value<'_>, lines: &Value<'_>, own: Vec<Value<'_>>) -> PyResult<Self> {
        let _running = Running::begin();
        let texts = |given: &Value<'_>| -> PyResult<Vec<String>> {
            given.try_iter()?.map(|text| Ok(text?.extract::<Text>()?.as_str().to_owned())).collect()
        };
        let (names, lines) = (WantedNames::new(texts(names)?), WantedLines::new(texts(lines)?));
        let mut made = Self { names, lines, own: HashMap::new() };
        for message in own {
            message.py().check_signals()?;
            let held = made.search(&message)?;
            made.own.insert(message.as_ptr() as usize, (message.unbind(), held));
        }
        Ok(made)
    }

    /// The names that occur in these messages, and the lines that are in them verbatim, white space folded; marks of
    /// excerpts do not count.
    fn found_in<'py>(&self, messages: &Value<'py>) -> PyResult<(Bound<'py, PyFrozenSet>, Bound<'py, PyFrozenSet>)> {
        let _running = Running::begin();
        let py = messages.py();
        let (mut names, mut lines) = (BTreeSet::new(), BTreeSet::new());
        for message in messages.try_iter()? {
            let message = message?;
            match self.own.get(&(message.as_ptr() as usize)) {
                Some((_, held)) => {
                    names.extend(&held.names);
                    lines.extend(&held.lines);
                }
                None => {
                    let held = self.search(&message)?;
                    names.extend(held.names);
                    lines.extend(held.lines);
                }
            }
        }
        Ok((chosen(py, self.names.names(), names)?, chosen(py, self.lines.lines(), lines)?))
    }
}

impl Needs {
    fn search(&self, message: &Value<'_>) -> PyResult<Held> {
        let text = Body::of(message)?.text()?;
        let text = core::without_marks(&text);
        Ok(Held { names: self.names.found_in(&text), lines: self.lines.found_in(&text) })
    }
}

/// A lost name; the index and the role of the last message that had it; the text before and after it there; the number
/// of later calls that use it, and the first of these around it.
type Lost = (String, usize, String, String, String, usize, String);

/// At most `most` of the names that are lost at a cut, the most used first.
#[pyfunction]
pub fn lost_names(
    lost: Vec<Text>,
    messages: Vec<Value<'_>>,
    ahead: Vec<Value<'_>>,
    most: usize,
) -> PyResult<Vec<Lost>> {
    let _running = Running::begin();
    let text_in = |message: &Value<'_>| -> PyResult<String> { Body::of(message)?.text() };
    let inputs_in = |message: &Value<'_>| -> PyResult<String> { Body::of(message)?.input_text() };
    let texts = messages.iter().map(text_in).collect::<PyResult<Vec<_>>>()?;
    let inputs = ahead.iter().map(inputs_in).collect::<PyResult<Vec<_>>>()?;
    let lost: Vec<String> = lost.iter().map(|name| name.as_str().to_owned()).collect();
    let mut used: Vec<String> = steps_of(&ahead)?.into_iter().map(|step| inputs[step].join("\n")).collect();
    if used.iter().all(String::is_empty) {
        used = ahead.iter().map(text_in).collect::<PyResult<_>>()?; // a session without calls: later messages use it
    }
    let shown = |loss: Loss<'_>| {
        let body = Body::of(&messages[loss.index])?;
        let role = if body.is_result()? { "tool result".to_owned() } else { body.role()? };
        Ok((loss.name.to_owned(), loss.index, role, loss.before, loss.after, loss.used, loss.used_in))
    };
    core::losses(&lost, &texts, &used, most).into_iter().map(shown).collect()
}
