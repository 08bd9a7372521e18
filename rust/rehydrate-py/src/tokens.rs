//! Token counting for Python, and the cache of what is derived from texts.
use pyo3::exceptions::{PyException, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};
use rehydrate_core::batches;
use rehydrate_core::engine::Engine;
use rehydrate_core::error::Error;
use rehydrate_core::tokens::Counter;

use crate::checks::{refused, type_name, written};
use crate::convert::{Text, bytes_of, floats};
use crate::errors::{detached, to_py};
use crate::interned::interned;
use crate::prepared;
use crate::store::values::dim_of;

const COUNTERS: [&str; 4] = ["words", "chars", "o200k_base", "cl100k_base"];

/// A counter of tokens: one of ours, or the caller's function from a text to a number.
pub enum Counts<'py> {
    Named(Counter),
    Own(Bound<'py, PyAny>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Counts<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match value.cast::<PyString>() {
            Ok(name) => named(name.to_str()?).map(Self::Named).map_err(|error| to_py(value.py(), &error)),
            Err(_) => Ok(Self::Own(value.to_owned())),
        }
    }
}

impl Counts<'_> {
    /// The tokens of a text.
    pub fn of(&self, text: &Bound<'_, PyString>) -> PyResult<u32> {
        match self {
            Self::Named(counter) => {
                let (py, counter, text) = (text.py(), *counter, text.extract::<Text>()?);
                detached(py, || Ok(Engine::shared().count(text.as_str(), counter)))
            }
            Self::Own(counter) => own_count(counter, text),
        }
    }

    /// Words, characters, or tokens: what is counted before it becomes tokens.
    pub fn raw(&self, text: &Bound<'_, PyString>) -> PyResult<u32> {
        let number = match self {
            Self::Named(Counter::Words) => text.call_method0("split")?.len()?,
            Self::Named(Counter::Chars) => text.len()?,
            _ => return self.of(text),
        };
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }
}

/// The count by a caller's counter: a whole number from 0 up.
fn own_count(counter: &Bound<'_, PyAny>, text: &Bound<'_, PyString>) -> PyResult<u32> {
    let py = text.py();
    let (name, characters) = (counter_name(counter)?, text.len()?);
    let tokens = counter.call1((text,)).map_err(|error| {
        if !error.is_instance_of::<PyException>(py) {
            return error;
        }
        let said = py.import("rehydrate._text").and_then(|texts| texts.call_method1("error_text", (error.value(py),)));
        let said = said.map_or_else(|error| error.to_string(), |said| said.to_string());
        let remedy = "it must return a whole number for any text";
        let raised = refused(py, format!("counter {name} raised {said} for {characters} characters; {remedy}"));
        raised.set_cause(py, Some(error));
        raised
    })?;
    let exact = || {
        let exact = py.get_type::<PyInt>().call1((&tokens,))?;
        PyResult::Ok(if exact.eq(&tokens)? { exact.extract::<u32>().ok() } else { None })
    };
    let found = match exact() {
        // Not one number, NaN, infinite.
        Err(error)
            if error.is_instance_of::<PyTypeError>(py)
                || error.is_instance_of::<PyValueError>(py)
                || error.is_instance_of::<PyOverflowError>(py) =>
        {
            None
        }
        found => found?,
    };
    found.ok_or_else(|| {
        let remedy = "it must return a whole number from 0 up";
        let shown = written(&tokens);
        refused(py, format!("counter {name} returned {shown} for {characters} characters; {remedy}"))
    })
}

/// The name of a counter for reports.
#[pyfunction]
pub fn counter_name(counter: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(name) = counter.cast::<PyString>() {
        return name.extract();
    }
    let own = counter.getattr_opt(interned!(counter.py(), "__name__"))?;
    Ok(own.map_or_else(|| type_name(counter), |name| name.to_string()))
}

/// A counter's name, or a callable of the caller; raises InvalidArgumentError for anything else.
#[pyfunction]
pub fn check_counter<'py>(counter: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let is_named = counter.cast::<PyString>().is_ok_and(|name| COUNTERS.iter().any(|known| name == *known));
    if is_named || counter.is_callable() {
        return Ok(counter.clone());
    }
    let names = COUNTERS.map(|name| format!("'{name}'")).join(", ");
    let remedy = "or pass a callable of str -> int";
    Err(refused(counter.py(), format!("counter is {}; choose one of {names}, {remedy}", written(counter))))
}

/// Tokens of one text under a counter: "words", "chars", "o200k_base" or "cl100k_base", or one of the caller.
#[pyfunction]
pub fn count(text: &Bound<'_, PyString>, counter: Counts<'_>) -> PyResult<u32> {
    counter.of(text)
}

/// Tokens of each text, counted by two threads if they are many.
#[pyfunction]
pub fn counts(py: Python<'_>, texts: Vec<Text>, counter: &str) -> PyResult<Vec<u32>> {
    detached(py, || {
        let rows: Vec<_> = texts.iter().map(|text| Some(text.as_str())).collect();
        Ok(batches::counts(Engine::shared(), &rows, named(counter)?).into_iter().flatten().collect())
    })
}

/// Forget everything derived from texts so far.
#[pyfunction]
pub fn clear_cache(py: Python<'_>) {
    py.detach(|| Engine::shared().clear_cache());
}

/// Hold about this many bytes of what is derived from texts, in this process.
#[pyfunction]
pub fn set_cache_limit(py: Python<'_>, limit_bytes: usize) {
    py.detach(|| Engine::limit_shared(limit_bytes));
}

/// The limit that was set last.
#[pyfunction]
pub fn cache_limit() -> usize {
    Engine::shared_limit()
}

/// Bytes of derived data held, by the cache's own account.
#[pyfunction]
pub fn cached_bytes(py: Python<'_>) -> usize {
    py.detach(|| Engine::shared().cached_bytes())
}

/// The vectors of texts in the space of a model, as float32; None if none was kept.
#[pyfunction]
pub fn cached_vectors<'py>(
    py: Python<'py>,
    space: &Bound<'py, PyString>,
    texts: Vec<Bound<'py, PyString>>,
) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
    let (engine, space) = (Engine::shared(), bytes_of(space)?);
    let row = |text| {
        let found = engine.vector(&space, &bytes_of(text)?);
        Ok(found.map(|row| prepared::bytes_of(py, &row)))
    };
    texts.iter().map(row).collect()
}

/// Keep vectors of texts, a row each; a row of zeros isn't a vector.
#[pyfunction]
pub fn cache_vectors(
    py: Python<'_>,
    space: &Bound<'_, PyString>,
    texts: Vec<Bound<'_, PyString>>,
    rows: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (engine, space, rows) = (Engine::shared(), bytes_of(space)?, floats(py, rows)?);
    let dim = dim_of(&rows, texts.len()).map_err(|error| to_py(py, &error))?;
    for (text, row) in texts.iter().zip(rows.chunks_exact(dim.max(1))) {
        engine.keep_vector(&space, &bytes_of(text)?, row);
    }
    Ok(())
}

/// The counter of that name.
pub fn named(counter: &str) -> Result<Counter, Error> {
    Counter::from_name(counter).ok_or_else(|| {
        Error::Argument(format!("counter is {counter:?}; choose one of words, chars, o200k_base, cl100k_base"))
    })
}
