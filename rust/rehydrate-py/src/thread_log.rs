//! The records of a thread, for Python: their possible contents, the ones that count, and the resulting state.
mod state;

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString};
use rehydrate_core::excerpts::grouped;
use rehydrate_core::thread_log::{self as core, Redacted, Row, Unreadable};

pub use self::state::{prompt_digest, state_content};
use crate::checks::{SHOWN, shown};
use crate::convert::{bytes_of, string_of};
use crate::errors::{detached, raise};
use crate::exit::Running;
use crate::plain::plain_at;

/// Kind, time in seconds since 1970, and body of a record.
pub type Given = (i64, f64, PyBackedStr);

/// The body of a record, by its number.
type Body = (usize, String);

/// The time of an entry, a text of it as it was, and as it is.
type Kept<'py> = (f64, Bound<'py, PyString>, Bound<'py, PyString>);

/// A deeper value is too deep for Python's reader of JSON.
const DEEPEST: usize = 900;

/// Values as JSON gives them back, in their order: the same objects if it has them as they are. `path` is that of the
/// list, and `start` the number of the first.
///
/// Raises UnreadableIRError, with the path, for values that JSON cannot hold.
#[pyfunction]
pub fn kept_values<'py>(values: Vec<Bound<'py, PyAny>>, path: &str, start: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let _running = Running::begin();
    let place = |number: usize| format!("{path}[{}]", start + number);
    values.iter().enumerate().map(|(number, value)| kept(value, || place(number))).collect()
}

fn kept<'py>(value: &Bound<'py, PyAny>, path: impl FnOnce() -> String) -> PyResult<Bound<'py, PyAny>> {
    if comes_back(value, DEEPEST)? {
        return Ok(value.clone());
    }
    let (py, path) = (value.py(), path());
    let made = written(value, &path)?;
    if let Some((path, number)) = unfit(&made, path.as_bytes())? {
        let path = string_of(py, &path)?;
        let (problem, remedy) = if number.is_instance_of::<PyFloat>() {
            (format!("is {number}, which JSON cannot hold"), "pass a finite number")
        } else {
            let digits = grouped(py.import("sys")?.call_method0("get_int_max_str_digits")?.extract()?);
            (format!("is {}, and Python reads {digits} digits", shown(&number, SHOWN)), "pass it as a text")
        };
        return Err(raise(py, "UnreadableIRError", (path, problem, remedy)));
    }
    // Two halves of a surrogate pair are one character.
    let json = py.import("json")?;
    json.call_method1("loads", (json.call_method1("dumps", (made,))?,))
}

/// A value as JSON's. Raises UnreadableIRError, with the path, for values that JSON cannot hold.
fn written<'py>(value: &Bound<'py, PyAny>, path: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    plain_at(value, path).map_err(|error| {
        let is_deep = error.is_instance_of::<PyRecursionError>(py);
        let why = (path, "is nested too deep for JSON", "flatten it");
        if is_deep { raise(py, "UnreadableIRError", why) } else { error }
    })
}

fn comes_back(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<bool> {
    let Some(depth) = depth.checked_sub(1) else { return Ok(false) };
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_str().is_ok() || !has_pair_in_halves(&bytes_of(text)?));
    }
    if let Ok(fields) = value.cast::<PyDict>() {
        for (key, value) in fields {
            if !(key.is_instance_of::<PyString>() && comes_back(&key, 1)? && comes_back(&value, depth)?) {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    if let Ok(items) = value.cast::<PyList>() {
        for item in items {
            if !comes_back(&item, depth)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    Ok(value.is_none() || (is_number(value) && is_fit(value)))
}

/// Whether JSON makes one character of two halves here.
fn has_pair_in_halves(text: &[u8]) -> bool {
    let is_half = |half: &[u8], second: u8| half[0] == 0xED && half[1] & 0xF0 == second;
    text.windows(6).any(|halves| is_half(halves, 0xA0) && is_half(&halves[3..], 0xB0))
}

fn is_number(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() // a boolean is an int
}

/// Whether JSON has a number, and Python reads it again.
fn is_fit(number: &Bound<'_, PyAny>) -> bool {
    match number.cast::<PyFloat>() {
        Ok(number) => number.value().is_finite(),
        Err(_) => number.extract::<i64>().is_ok() || number.str().is_ok(),
    }
}

/// The first number in JSON values that JSON can't hold, or that Python does not read back, and where it is.
fn unfit<'py>(value: &Bound<'py, PyAny>, path: &[u8]) -> PyResult<Option<(Vec<u8>, Bound<'py, PyAny>)>> {
    if let Ok(fields) = value.cast::<PyDict>() {
        for (key, value) in fields {
            let found = unfit(&value, &[path, b".", &bytes_of(&key.str()?)?].concat())?;
            if found.is_some() {
                return Ok(found);
            }
        }
    } else if let Ok(items) = value.cast::<PyList>() {
        for (number, item) in items.iter().enumerate() {
            let found = unfit(&item, &[path, format!("[{number}]").as_bytes()].concat())?;
            if found.is_some() {
                return Ok(found);
            }
        }
    } else if is_number(value) && !is_fit(value) {
        return Ok(Some((path.to_vec(), value.clone())));
    }
    Ok(None)
}

/// The numbers of the records that count. With `entries`, those of a thread that ends after this many entries.
#[pyfunction]
#[pyo3(signature = (rows, entries = None))]
pub fn counting_records(py: Python<'_>, rows: Vec<Given>, entries: Option<u64>) -> PyResult<Vec<usize>> {
    let _running = Running::begin();
    read(py, &rows, |rows| core::counting(rows, entries))
}

/// The lines of an export: a header, and each record that counts.
#[pyfunction]
pub fn exported_lines(py: Python<'_>, rows: Vec<Given>, namespace: &str, thread: &str) -> PyResult<Vec<String>> {
    let _running = Running::begin();
    read(py, &rows, |rows| core::exported(rows, namespace, thread))
}

/// The sum of the records that count, as JSON.
#[pyfunction]
pub fn folded_records(py: Python<'_>, rows: Vec<Given>) -> PyResult<String> {
    let _running = Running::begin();
    read(py, &rows, core::folded)
}

/// The bodies that have one of these texts, without it, each by the number of its record; and the texts of entries that
/// have one, before and after, each with its time. `texts_of` gives the texts of an entry as JSON.
#[pyfunction]
pub fn redacted_records<'py>(
    py: Python<'py>,
    rows: Vec<Given>,
    texts: Vec<Bound<'py, PyString>>,
    texts_of: &Bound<'py, PyAny>,
) -> PyResult<(Vec<Body>, Vec<Kept<'py>>)> {
    let _running = Running::begin();
    let raw = |text: &Bound<'py, PyString>| Ok(bytes_of(text)?.into());
    let texts = texts.iter().map(raw).collect::<PyResult<Vec<_>>>()?;
    let rows: Vec<_> = rows_of(&rows).collect();
    let texts_of = |entry: &str| {
        let texts: Vec<Bound<'py, PyString>> = texts_of.call1((entry,))?.extract()?;
        Ok::<_, Problem>(texts.iter().map(raw).collect::<PyResult<_>>()?)
    };
    let Redacted { bodies, texts } = core::redacted(&rows, &texts, texts_of).map_err(|problem| problem.raised(py))?;
    let kept = texts.iter().map(|(time, was, now)| Ok((*time, string_of(py, was)?, string_of(py, now)?)));
    Ok((bodies, kept.collect::<PyResult<_>>()?))
}

/// Why a redaction stopped.
enum Problem {
    Record(Unreadable),
    Python(PyErr),
}

impl From<Unreadable> for Problem {
    fn from(unreadable: Unreadable) -> Self {
        Self::Record(unreadable)
    }
}

impl From<PyErr> for Problem {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl Problem {
    fn raised(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Record(unreadable) => raised(py, unreadable),
            Self::Python(error) => error,
        }
    }
}

fn rows_of(rows: &[Given]) -> impl Iterator<Item = Row<'_>> {
    rows.iter().map(|(kind, time, body)| Row { kind: *kind, time: *time, body })
}

pub fn read<T: Send>(
    py: Python<'_>,
    rows: &[Given],
    work: impl FnOnce(&[Row<'_>]) -> Result<T, Unreadable> + Send,
) -> PyResult<T> {
    let rows: Vec<_> = rows_of(rows).collect();
    detached(py, || Ok(work(&rows)))?.map_err(|unreadable| raised(py, unreadable))
}

fn raised(py: Python<'_>, unreadable: Unreadable) -> PyErr {
    let Unreadable { place, problem, field, is_newer } = unreadable;
    let remedy = if is_newer { "upgrade rehydrate to read it" } else { "restore the store from a copy or an export" };
    raise(py, "UnreadableIRError", (place, problem, remedy, [field]))
}
