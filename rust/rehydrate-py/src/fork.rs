//! Surviving `os.fork()`: whoever forks holds the engine's locks meanwhile, so that the child finds them free.
use std::cell::RefCell;
use std::process;

use pyo3::prelude::*;
use rehydrate_core::engine::{Engine, HeldLocks};

use crate::exit;

thread_local! {
    /// The locks, and the process that took them.
    static HELD: RefCell<Option<(HeldLocks<'static>, u32)>> = const { RefCell::new(None) };
}

/// Before a fork: wait for the locks, each of which is held for a moment only, and keep them.
#[pyfunction]
pub fn before_fork() {
    HELD.with_borrow_mut(|held| {
        held.get_or_insert_with(|| (Engine::shared().hold(), process::id()));
    });
}

/// After a fork, in the parent and in the child: give the locks back.
#[pyfunction]
pub fn after_fork() {
    if let Some((_, parent)) = HELD.take()
        && parent != process::id()
    {
        exit::forget_others();
    }
}
