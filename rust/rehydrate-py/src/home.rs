//! One interpreter per process: types and cached objects of the module are shared, and must not meet those of another
//! one.
use std::sync::atomic::{AtomicI64, Ordering};

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

const NOBODY: i64 = -1;
static HOME: AtomicI64 = AtomicI64::new(NOBODY);

/// Bind to the current interpreter, or refuse if another one was first. PyO3 itself checks this for submodules only
/// (0.30).
pub fn settle(py: Python<'_>) -> PyResult<()> {
    let here = interpreter(py);
    match HOME.compare_exchange(NOBODY, here, Ordering::Relaxed, Ordering::Relaxed) {
        Err(home) if home != here => Err(PyImportError::new_err(format!(
            "rehydrate is loaded in interpreter {home} of this process and cannot be in {here} too; \
             use threads or processes instead of sub-interpreters"
        ))),
        _ => Ok(()),
    }
}

#[expect(unsafe_code, reason = "PyO3 has no safe name of the current interpreter")]
fn interpreter(_attached: Python<'_>) -> i64 {
    // SAFETY: this thread is attached, so it has a current interpreter, which lives as long.
    unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) }
}
