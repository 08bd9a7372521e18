//! Surviving `os.fork()`: no lock is held while other hooks run, and a child begins with an engine of its own.
//!
//! Caches are found by process (`Engine::shared`), so nothing is to be done for them. SQLite cannot be left alone: before a
//! fork the calls on stores end and their connections are closed. Calls on a `Guarded` value end too: such values are worked
//! on without the interpreter. A fork happens under the interpreter's lock, so a mutex that is only locked under it, and
//! never while Python code runs, is free in the child. The last reference to a Python object is dropped after the lock:
//! the object may be of a class with a `__del__`.
use std::cell::Cell;
use std::process;

use pyo3::prelude::*;
use rehydrate_core::store::{ForkGuard, guard_fork};

use crate::exit;

thread_local! {
    /// The fork guard that this thread holds, and in which process.
    static HELD: Cell<Option<(ForkGuard, u32)>> = const { Cell::new(None) };
}

/// Before a fork: let the calls on stores and guarded values end, and close the stores' connections.
#[pyfunction]
pub fn before_fork(py: Python<'_>) {
    // A call that is under way may need the interpreter lock to end.
    let guard = py.detach(guard_fork);
    HELD.set(Some((guard, process::id())));
}

/// After a fork, in the parent and in the child: release the guard.
#[pyfunction]
pub fn after_fork() {
    if let Some((_, parent)) = HELD.take()
        && parent != process::id()
    {
        exit::forget_others();
    }
}
