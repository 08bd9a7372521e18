//! The memory tool's files, for Python: a log of their versions in a stored thread, and the commands of a model on them.
//!
//! A version of a file is an entry: a message with the file's text and, next to it, its path.
mod commands;

use std::collections::{BTreeSet, HashMap};
use std::time::SystemTime;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rehydrate_core::engine::Engine;
use rehydrate_core::excerpts::grouped;
use rehydrate_core::memory_files::snippet;
use rehydrate_core::thread_log::{VERSION, counting};

use crate::errors::detached;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{in_json, text_of};
use crate::thread_log::{Given, read};
use crate::tokens::named;
use crate::writing::tool_definition;
use commands::outcome_of;

const ROOT: &str = "/memories";
const NAME: &str = "memory";
/// Its description, and the schema of its arguments.
const TOOL: &str = include_str!("memory_files/tool.json");
/// Kinds of records.
const HEADER: i64 = 0;
const ENTRY: i64 = 1;

/// Why a command is not carried out: the answer to the model, or an error of the program.
enum Refused {
    Said(String),
    Raised(PyErr),
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<String> for Refused {
    fn from(words: String) -> Self {
        Self::Said(words)
    }
}

type Answered<T> = Result<T, Refused>;

fn refused<T>(words: String) -> Answered<T> {
    Err(Refused::Said(words))
}

/// The answer to a command, whether it is an error, the paths of the changed files, and the records of the changes.
type Done = (String, bool, Vec<String>, Vec<(i64, f64, String)>);

/// The memory tool in a request to a provider: a function, for models that do not know it by name.
#[pyfunction]
pub fn memory_tool<'py>(provider: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let _running = Running::begin();
    let py = provider.py();
    let tool = py.import("json")?.call_method1("loads", (TOOL,))?;
    let name = PyString::new(py, NAME);
    tool_definition(provider, name.as_any(), &tool.get_item("description")?, &tool.get_item("schema")?)
}

/// Plan a command on files, which are texts by path. The records must go into their log, unless others have written
/// meanwhile.
///
/// `is_new`: the log has no record yet. Secrets that `redactor` finds are left out. Files beyond the limits are
/// refused. With `overwrites` an existing file may be created again.
#[pyfunction]
pub fn memory_command<'py>(
    arguments: &Bound<'py, PyAny>,
    texts: &Bound<'py, PyDict>,
    is_new: bool,
    redactor: Option<&Bound<'py, PyAny>>,
    limits: &Bound<'py, PyAny>,
    overwrites: bool,
) -> PyResult<Done> {
    let _running = Running::begin();
    let planned = || -> Answered<Done> {
        let outcome = outcome_of(arguments, texts, overwrites)?;
        let (changes, mut answer) = (outcome.changes, outcome.answer);
        let removed = without_secrets(&changes, redactor)?;
        check_limits(texts, &changes, limits)?;
        if let Some((path, line)) = outcome.edited {
            let text: Option<String> = changes.get_item(path)?.map(|text| text.extract()).transpose()?;
            answer += &snippet(&text.unwrap_or_default(), line);
        }
        if !removed.is_empty() {
            let kinds: Vec<_> = removed.into_iter().collect();
            answer += &format!("\nSecrets were left out of the file: {}.", kinds.join(", "));
        }
        let paths = changes.keys().extract()?;
        Ok((answer, false, paths, records_of(&changes, is_new)?))
    };
    match planned() {
        Err(Refused::Said(words)) => Ok((words, true, Vec::new(), Vec::new())),
        Err(Refused::Raised(error)) => Err(error),
        Ok(done) => Ok(done),
    }
}

/// The files after these records, by path; `before` has those before.
#[pyfunction]
pub fn memory_texts<'py>(rows: Vec<Given>, before: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    let _running = Running::begin();
    let (py, texts) = (before.py(), before.copy()?);
    read(py, &rows, |rows| counting(rows, None))?;
    for (kind, _, body) in &rows {
        if *kind != ENTRY {
            continue;
        }
        let entry = entry_of(py, body)?;
        let path = entry.get_item(interned!(py, "path"))?;
        if !entry.contains(interned!(py, "removed"))? {
            texts.set_item(path, entry.get_item(interned!(py, "content"))?)?;
        } else if texts.contains(&path)? {
            texts.del_item(path)?;
        }
    }
    Ok(texts)
}

/// The records of the log that are not the present text of a file, each by its number and with an empty body for it.
#[pyfunction]
pub fn memory_stale(py: Python<'_>, rows: Vec<Given>, texts: &Bound<'_, PyDict>) -> PyResult<Vec<(usize, String)>> {
    let _running = Running::begin();
    let mut versions: Vec<(usize, String)> = Vec::new();
    for (number, (kind, _, body)) in rows.iter().enumerate() {
        if *kind == ENTRY {
            let path: Option<String> = entry_of(py, body)?.call_method1("get", ("path",))?.extract()?;
            versions.extend(path.filter(|path| !path.is_empty()).map(|path| (number, path)));
        }
    }
    let last: HashMap<_, _> = versions.iter().map(|(number, path)| (path, *number)).collect();
    let mut stale = Vec::new();
    for (number, path) in &versions {
        if last[path] != *number || !texts.contains(path)? {
            stale.push((*number, body_of(py, "", None)?));
        }
    }
    Ok(stale)
}

fn entry_of<'py>(py: Python<'py>, body: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1(interned!(py, "loads"), (body,))?.get_item(interned!(py, "entry"))
}

/// Leave the secrets out of the texts of changes. Returns the kinds of the secrets.
fn without_secrets(changes: &Bound<'_, PyDict>, redactor: Option<&Bound<'_, PyAny>>) -> Answered<BTreeSet<String>> {
    let (py, mut kinds) = (changes.py(), BTreeSet::new());
    let Some(redactor) = redactor else { return Ok(kinds) };
    let redactions = interned!(py, "redactions");
    for (path, text) in changes.copy()? {
        if text.is_none() {
            continue;
        }
        if redactor.call1((&path,))?.getattr(redactions)?.is_truthy()? {
            return refused("Error: the path holds a secret; choose another name".to_owned());
        }
        let found = redactor.call1((text,))?;
        for each in found.getattr(redactions)?.try_iter()? {
            kinds.insert(each?.getattr(interned!(py, "name"))?.extract::<String>()?);
        }
        changes.set_item(path, found.getattr(interned!(py, "text"))?)?;
    }
    Ok(kinds)
}

/// Refuse changes after which a file, all files together, or their number would exceed the limits.
fn check_limits(texts: &Bound<'_, PyDict>, changes: &Bound<'_, PyDict>, limits: &Bound<'_, PyAny>) -> Answered<()> {
    let limit = |name: &str| limits.getattr(name)?.extract::<usize>();
    let (mut files, mut total) = (0, 0);
    let mut largest: Option<(Bound<'_, PyAny>, usize)> = None;
    for (path, text) in changes {
        if let Ok(text) = text.cast::<PyString>() {
            let size = text.to_str()?.len();
            (files, total) = (files + 1, total + size);
            if largest.as_ref().is_none_or(|(_, most)| size > *most) {
                largest = Some((path, size));
            }
        }
    }
    let Some((path, size)) = largest else { return Ok(()) };
    let most = limit("max_file_bytes")?;
    if size > most {
        let (path, size, most) = (path.str()?, grouped(size as u64), grouped(most as u64));
        let (path, remedy) = (text_of(&path), "divide it, or leave out what is not needed");
        return refused(format!("Error: {path} would have {size} bytes, and a file at most {most}; {remedy}"));
    }
    for (path, text) in texts {
        if !changes.contains(&path)? {
            let text = text.cast::<PyString>().map_err(PyErr::from)?;
            (files, total) = (files + 1, total + text.to_str()?.len());
        }
    }
    let most = limit("max_files")?;
    if files > most {
        let most = grouped(most as u64);
        return refused(format!("Error: there would be more than {most} files; delete some first"));
    }
    let most = limit("max_bytes")?;
    if total > most {
        let (total, most) = (grouped(total as u64), grouped(most as u64));
        let remedy = "delete what is not needed first";
        return refused(format!(
            "Error: the files would have {total} bytes, and all together at most {most}; {remedy}"
        ));
    }
    Ok(())
}

/// The records of changes. Without changes there are none. A new log begins with its header.
fn records_of(changes: &Bound<'_, PyDict>, is_new: bool) -> PyResult<Vec<(i64, f64, String)>> {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64();
    let mut records = Vec::new();
    if is_new && !changes.is_empty() {
        records.push((HEADER, 0.0, format!("{{\"version\": {VERSION}, \"format\": \"plain\"}}")));
    }
    for (path, text) in changes {
        let (path, text): (String, Option<String>) = (path.extract()?, text.extract()?);
        records.push((ENTRY, now, body_of(changes.py(), &path, text.as_deref())?));
    }
    Ok(records)
}

/// The body of a version's record; None: the file is gone.
fn body_of(py: Python<'_>, path: &str, text: Option<&str>) -> PyResult<String> {
    let (gone, text) = (text.is_none(), text.unwrap_or_default());
    let tokens = detached(py, || Ok(Engine::shared().count(text, named("o200k_base")?)))?;
    let (path, text) = (in_json(path), in_json(text));
    let removed = if gone { format!(", \"removed\": \"{path}\"") } else { String::new() };
    Ok(format!(
        "{{\"entry\": {{\"role\": \"assistant\", \"content\": \"{text}\", \"path\": \"{path}\"{removed}}}, \"tokens\": \
         {tokens}}}"
    ))
}
