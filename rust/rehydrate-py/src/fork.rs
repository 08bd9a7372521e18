//! Surviving `os.fork()`: whoever forks holds the engine's locks meanwhile, so that the child finds them free.
use std::cell::RefCell;
use std::process;

use pyo3::prelude::*;
use rehydrate_core::engine::{Engine, HeldLocks};
use rehydrate_core::store;

use crate::exit;

thread_local! {
    /// The engine's locks, those of the stores, and the process that took them.
    static HELD: RefCell<Option<(HeldLocks<'static>, store::Hold, u32)>> = const { RefCell::new(None) };
}

/// Before a fork: let the calls on stores end, close their connections, and keep the engine's locks, each of which is held
/// for a moment only.
#[pyfunction]
pub fn before_fork(py: Python<'_>) {
    // A call that is under way may need the interpreter lock to end.
    let stores = py.detach(store::hold);
    HELD.with_borrow_mut(|held| {
        held.get_or_insert_with(|| (Engine::shared().hold(), stores, process::id()));
    });
}

/// After a fork, in the parent and in the child: give the locks back.
#[pyfunction]
pub fn after_fork() {
    if let Some((_, _, parent)) = HELD.take()
        && parent != process::id()
    {
        exit::forget_others();
    }
}
