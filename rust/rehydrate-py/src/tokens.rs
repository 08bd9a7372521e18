//! Token counting for Python, and the cache of what is derived from texts.
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use rehydrate_core::batches;
use rehydrate_core::engine::Engine;
use rehydrate_core::error::Error;
use rehydrate_core::tokens::Counter;

use crate::convert::{Text, bytes_of, floats};
use crate::errors::{detached, to_py};
use crate::prepared;
use crate::store::values::dim_of;

/// Tokens of one text under a counter: "words", "chars", "o200k_base" or "cl100k_base".
#[pyfunction]
pub fn count(py: Python<'_>, text: Text, counter: &str) -> PyResult<u32> {
    detached(py, || Ok(Engine::shared().count(text.as_str(), named(counter)?)))
}

/// Tokens of each text, counted by two threads where they are many.
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

/// Hold about so many bytes of what is derived from texts, in this process.
#[pyfunction]
pub fn set_cache_limit(py: Python<'_>, limit_bytes: usize) {
    py.detach(|| Engine::limit_shared(limit_bytes));
}

/// Bytes of derived data held, by the cache's own account.
#[pyfunction]
pub fn cached_bytes(py: Python<'_>) -> usize {
    py.detach(|| Engine::shared().cached_bytes())
}

/// The vectors of texts in the space of a model, as float32; None where none was kept.
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

/// Keep vectors of texts, a row each; a row of zeros is none.
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
