//! Surviving `os.fork()`: no lock is held while other hooks run, and a child begins with an engine of its own.
//!
//! Caches are found by process (`Engine::shared`), so nothing must be done for them. SQLite cannot be left alone:
//! before a fork the calls on stores end and their connections are closed, which the fork guard of the stores does.
//! Calls on context stores end too.
use std::cell::Cell;
use std::process;

use pyo3::prelude::*;
use rehydrate_core::{context_store, store};

use crate::exit;

thread_local! {
    /// The fork guards that this thread holds, and in which process.
    static HELD: Cell<Option<(store::ForkGuard, context_store::ForkGuard, u32)>> = const { Cell::new(None) };
}

/// Before a fork: let the calls on stores end and close their connections.
#[pyfunction]
pub fn before_fork(py: Python<'_>) {
    // A call that is under way may need the interpreter lock to end.
    let (store, context_store) = py.detach(|| (store::guard_fork(), context_store::guard_fork()));
    HELD.set(Some((store, context_store, process::id())));
}

/// After a fork, in the parent and in the child: release the guard.
#[pyfunction]
pub fn after_fork() {
    if let Some((.., parent)) = HELD.take()
        && parent != process::id()
    {
        exit::forget_others();
    }
}
