//! Token counting for Python.
use pyo3::prelude::*;
use rehydrate_core::batches;
use rehydrate_core::engine::Engine;
use rehydrate_core::error::Error;
use rehydrate_core::tokens::Counter;

use crate::convert::Text;
use crate::errors::detached;

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

/// The counter of that name.
pub fn named(counter: &str) -> Result<Counter, Error> {
    Counter::from_name(counter).ok_or_else(|| {
        Error::Argument(format!("counter is {counter:?}; choose one of words, chars, o200k_base, cl100k_base"))
    })
}
