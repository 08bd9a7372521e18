//! The subjects of known tools' calls.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::caps::{decoded, encoded};
use rehydrate_core::context_store::About;
use rehydrate_core::notes::{Subject, command_subjects, patch_subjects};

use super::values::{MODULE, raw};
use crate::convert::{bytes_of, string_of};
use crate::reading::json_value;

const PLANNED: &str = "planned";
const RAN: &str = "ran";
/// The keys of a plan's step that describe it.
const STEPS: [&str; 4] = ["content", "step", "title", "text"];
/// The states in which a step is no longer open.
const DONE: [&str; 3] = ["completed", "done", "cancelled"];

/// The known tools: by name in small letters, what each does, and the arguments that may hold its subject.
pub struct Tools<'py>(Bound<'py, PyDict>);

impl<'py> Tools<'py> {
    /// Those of Python's table.
    pub fn new(py: Python<'py>) -> PyResult<Self> {
        Ok(Self(py.import(MODULE)?.getattr("TOOLS")?.cast_into()?))
    }

    /// The subjects of a call. `call` is the tool's name, a blank and its input as JSON.
    pub fn subjects(&self, call: &Bound<'py, PyString>) -> PyResult<Vec<About>> {
        let (py, call) = (call.py(), bytes_of(call)?);
        let blank = memchr::memchr(b' ', &call);
        let (name, written) = (&call[..blank.unwrap_or(call.len())], &call[blank.map_or(call.len(), |at| at + 1)..]);
        let name = memchr::memmem::rfind(name, b"__").map_or(name, |at| &name[at + 2..]);
        let name = memchr::memrchr(b'.', name).map_or(name, |at| &name[at + 1..]);
        let Some(known) = self.0.get_item(string_of(py, name)?.call_method0("lower")?)? else { return Ok(Vec::new()) };
        let (used, arguments): (Bound<'py, PyString>, Vec<Bound<'py, PyAny>>) = known.extract()?;
        let Some(input) = json_value(string_of(py, written)?.as_any())? else { return Ok(Vec::new()) };
        let input = match input.cast_into::<PyDict>() {
            Ok(input) => input,
            Err(error) => {
                let (Ok(text), Some(first)) = (error.into_inner().cast_into::<PyString>(), arguments.first()) else {
                    return Ok(Vec::new());
                };
                let input = PyDict::new(py);
                input.set_item(first, text)?;
                input
            }
        };
        let mut found = None;
        for argument in &arguments {
            found = match found {
                None => input.get_item(argument)?.filter(|value| value.is_truthy().unwrap_or_default()),
                found => found,
            };
        }
        let Some(found) = found else { return Ok(Vec::new()) };
        if used == PLANNED {
            let steps: Vec<_> = found.cast::<PyList>().map(|steps| steps.iter().collect()).unwrap_or_default();
            return steps.iter().filter_map(|step| planned(step).transpose()).collect();
        }
        if let Ok(words) = found.cast::<PyList>() {
            return Ok(ran(&command_of(words)?));
        }
        let Ok(text) = found.cast::<PyString>() else { return Ok(Vec::new()) };
        let points = decoded(&bytes_of(text)?);
        let patched = patch_subjects(&points);
        if !patched.is_empty() {
            return Ok(patched.into_iter().map(about).collect());
        }
        if used == RAN && !input.contains("code")? {
            return Ok(ran(&points));
        }
        if used == RAN || !points.contains(&u32::from('\n')) {
            return Ok(vec![About { used: raw(&used)?, text: raw(text)? }]);
        }
        Ok(Vec::new())
    }
}

/// The command of a list of its words, or of a shell and its script.
fn command_of(words: &Bound<'_, PyList>) -> PyResult<Vec<u32>> {
    let words = words.iter().map(|word| Ok(decoded(&bytes_of(&word.str()?)?))).collect::<PyResult<Vec<_>>>()?;
    if let [_, option, script] = &words[..]
        && [&b"-lc"[..], b"-c"].contains(&&*encoded(option))
    {
        return Ok(script.clone());
    }
    Ok(words.join(&u32::from(' ')))
}

/// The subjects of a command: the command itself, without programs that only cut its output, and the files that it
/// shows and writes.
fn ran(command: &[u32]) -> Vec<About> {
    command_subjects(command).into_iter().map(about).collect()
}

fn about(Subject { used, text }: Subject) -> About {
    About { used: used.name().as_bytes().into(), text: encoded(&text).into() }
}

/// A step of a plan, if it is not done yet.
fn planned(step: &Bound<'_, PyAny>) -> PyResult<Option<About>> {
    let used = PLANNED.as_bytes().into();
    if let Ok(text) = step.cast::<PyString>() {
        return Ok(Some(About { used, text: raw(text)? }));
    }
    let Ok(step) = step.cast::<PyDict>() else { return Ok(None) };
    let mut text = None;
    for name in STEPS {
        text = match text {
            None => step.get_item(name)?.filter(|value| value.is_truthy().unwrap_or_default()),
            text => text,
        };
    }
    let Some(text) = text else { return Ok(None) };
    let Ok(text) = text.cast::<PyString>() else { return Ok(None) };
    let status = step.get_item("status")?.map(|status| status.str()?.call_method0("lower")?.extract::<String>());
    let is_done = status.is_some_and(|status| status.is_ok_and(|status| DONE.contains(&&*status)));
    if is_done { Ok(None) } else { Ok(Some(About { used, text: raw(text)? })) }
}
