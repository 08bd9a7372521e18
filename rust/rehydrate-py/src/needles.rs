//! Looking for needles, from Python.
use pyo3::prelude::*;
use rehydrate_core::needles;

use crate::convert::Text;
use crate::errors::{detached, to_py};

/// Texts up to this length are looked through without giving the interpreter up: that would take as long.
const SHORT_BYTES: usize = 4 << 10;

/// ASCII strings to look for in texts, whatever their case.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Needles {
    core: needles::Needles,
}

#[pymethods]
impl Needles {
    #[new]
    fn new(py: Python<'_>, needles: Vec<Text>) -> PyResult<Self> {
        let needles: Vec<&str> = needles.iter().map(Text::as_str).collect();
        Ok(Self { core: needles::Needles::new(&needles).map_err(|error| to_py(py, &error))? })
    }

    /// Which needle begins behind how many characters, in the order in which they end.
    fn find(&self, py: Python<'_>, text: Text) -> PyResult<Vec<(usize, usize)>> {
        let find = || self.core.find(text.as_str()).into_iter().map(|one| (one.needle, one.start)).collect();
        if text.as_str().len() <= SHORT_BYTES { Ok(find()) } else { detached(py, || Ok(find())) }
    }
}
