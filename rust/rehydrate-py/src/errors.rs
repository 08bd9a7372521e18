//! From the core's errors, and from panics, to the exceptions of `rehydrate.errors`.
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use rehydrate_core::error::{Error, StoreProblem};
use rehydrate_core::interrupt::interruptible;

use crate::exit::running_python;

thread_local! {
    /// The exception that a signal handler raised while this thread's work was detached.
    static RAISED: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// The Python exception for `error`.
pub fn to_py(py: Python<'_>, error: &Error) -> PyErr {
    match error {
        Error::Argument(message) => raise(py, "InvalidArgumentError", (message,)),
        Error::Model(message) => raise(py, "InternalError", (message,)),
        Error::ModelFile { path, problem, remedy } => raise(py, "ModelError", (path, problem, remedy)),
        Error::Store { kind, path, problem, remedy } => raise(py, store_class(*kind), (path, problem, remedy)),
        Error::Interrupted => RAISED.take().unwrap_or_else(|| PyKeyboardInterrupt::new_err(())),
    }
}

fn store_class(kind: StoreProblem) -> &'static str {
    match kind {
        StoreProblem::Busy => "StoreBusyError",
        StoreProblem::Full => "StoreFullError",
        StoreProblem::ReadOnly => "StoreReadOnlyError",
        StoreProblem::Closed => "StoreClosedError",
        StoreProblem::Corrupt => "StoreCorruptError",
        StoreProblem::NotAStore => "NotAStoreError",
        StoreProblem::Newer => "NewerStoreError",
        StoreProblem::Remains => "PurgeIncompleteError",
        StoreProblem::Conflict => "StoreConflictError",
        StoreProblem::Other => "StoreError",
    }
}

/// Run `work` without the interpreter's lock. A panic in it becomes an `InternalError`, and a signal handler that
/// raises (Ctrl-C) ends it.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(|| interruptible(wants_stop, work)))) {
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

/// Let Python run the handlers of signals that came in. An interpreter that is shutting down stops everything.
fn wants_stop() -> bool {
    let raised = Python::try_attach(|py| py.check_signals().err());
    raised.is_none_or(|raised| {
        let wants_stop = raised.is_some();
        RAISED.set(raised);
        wants_stop
    })
}

/// An exception of a class of `rehydrate.errors`.
pub fn raise<'py>(py: Python<'py>, class: &str, arguments: impl PyCallArgs<'py>) -> PyErr {
    let raised = running_python(|| py.import("rehydrate.errors")?.getattr(class)?.call1(arguments));
    raised.map_or_else(|error| error, PyErr::from_value)
}

/// Whether an error says that an entry isn't a message.
pub fn is_no_message(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    Ok(error.is_instance(py, &py.import("rehydrate.errors")?.getattr("InvalidMessageError")?))
}
