//! Surviving `os.fork()`: whoever forks holds the engine's locks meanwhile, so that the child finds them free.
use std::cell::RefCell;

use pyo3::prelude::*;
use rehydrate_core::engine::{Engine, HeldLocks};

thread_local! {
    static HELD: RefCell<Option<HeldLocks<'static>>> = const { RefCell::new(None) };
}

/// Before a fork: wait for the locks, each of which is held for a moment only, and keep them.
#[pyfunction]
pub fn before_fork() {
    HELD.with_borrow_mut(|held| {
        held.get_or_insert_with(|| Engine::shared().hold());
    });
}

/// After a fork, in the parent and in the child: give the locks back.
#[pyfunction]
pub fn after_fork() {
    HELD.take();
}
