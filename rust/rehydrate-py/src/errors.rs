//! From the core's errors, and from panics, to the exceptions of `rehydrate.errors`.
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use rehydrate_core::error::Error;

/// The Python exception for `error`.
pub fn to_py(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::Argument(message) => raise(py, "InvalidArgumentError", (message,)),
        Error::Model(message) => raise(py, "InternalError", (message,)),
        Error::ModelFile { path, problem, remedy } => raise(py, "ModelError", (path, problem, remedy)),
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
    }
}

/// Run `work` without the interpreter lock; a panic in it becomes an `InternalError`.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(result) => result.map_err(|error| to_py(py, &error)),
        Err(panic) => {
            let message = panic
                .downcast_ref::<&str>()
                .map(ToString::to_string)
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "a panic without a message".into());
            Err(raise(py, "InternalError", (message,)))
        }
    }
}

fn raise<'py>(py: Python<'py>, class: &str, arguments: impl PyCallArgs<'py>) -> PyErr {
    let raised = py.import("rehydrate.errors").and_then(|errors| errors.getattr(class)?.call1(arguments));
    raised.map_or_else(|error| error, PyErr::from_value)
}
