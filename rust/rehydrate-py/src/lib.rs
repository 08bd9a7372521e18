//! The `rehydrate._native` module: converts, detaches, maps errors; no loop that computes.
mod convert;
mod errors;
mod prepared;
mod tokens;

use pyo3::prelude::*;

/// The Rust core. Private: `rehydrate._engine` is its only importer.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::prepared::{Prepared, Selection, divide, embed};
    #[pymodule_export]
    use super::tokens::{clear_cache, count};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
