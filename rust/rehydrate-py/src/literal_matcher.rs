//! The literal matcher for Python, where its literals are called needles.
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rehydrate_core::analysis::literal_matcher::LiteralMatcher;

use crate::convert::Text;
use crate::errors::{detached, to_py};

/// Texts up to this length are looked through without giving the interpreter up: that would take as long.
const SHORT_BYTES: usize = 4 << 10;

/// Groups of ASCII strings to look for in texts, whatever their case.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Needles {
    core: LiteralMatcher,
}

#[pymethods]
impl Needles {
    #[new]
    fn new(py: Python<'_>, groups: Vec<Vec<String>>) -> PyResult<Self> {
        Ok(Self { core: LiteralMatcher::new(&groups).map_err(|error| to_py(py, &error))? })
    }

    /// Per group that was found, how many characters stand before each of its needles, as 32-bit numbers.
    fn find<'py>(&self, py: Python<'py>, text: Text) -> PyResult<Vec<(usize, Bound<'py, PyBytes>)>> {
        let find = || self.core.find(text.as_str());
        let found = if text.as_str().len() <= SHORT_BYTES { find() } else { detached(py, || Ok(find()))? };
        let numbers = |starts: Vec<u32>| starts.into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<_>>();
        Ok(found.into_iter().map(|one| (one.group, PyBytes::new(py, &numbers(one.starts)))).collect())
    }
}
