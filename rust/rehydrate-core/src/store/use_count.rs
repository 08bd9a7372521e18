//! The use count of SQLite in this process: the number of calls inside, and the process that may have any.
//!
//! All of this is atomics: a forked child must not wait for threads that it does not have. Only [`super::fork_guard`]
//! keeps calls out, once a fork has begun.
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::problem;
use crate::error::{Result, StoreProblem};
use crate::interrupt::poll;

/// The time that calls, and other forks, wait for a fork that has begun.
pub(super) const HOOKS_PATIENCE: Duration = Duration::from_millis(500);
pub(super) const PAUSE: Duration = Duration::from_micros(200);
pub(super) const NOBODY: u32 = 0;

pub(super) static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// The number of entries so far.
pub(super) static ENTRIES: AtomicU64 = AtomicU64::new(0);
pub(super) static FORKING: AtomicUsize = AtomicUsize::new(0);
/// The process that may use SQLite; [`NOBODY`] before the first use.
pub(super) static HOME: AtomicU32 = AtomicU32::new(NOBODY);

thread_local! {
    pub(super) static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// While it lives no fork happens, unless its patience ends.
pub(super) struct Inside(());

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            INSIDE.fetch_sub(1, SeqCst);
        }
    }
}

/// Enter, for a bounded piece of work with the store at `path`.
pub(super) fn enter(path: &Path) -> Result<Inside> {
    let here = std::process::id();
    match HOME.compare_exchange(NOBODY, here, SeqCst, SeqCst) {
        Err(home) if home != here => {
            return Err(problem::store(
                path,
                StoreProblem::Other,
                "this process was forked while the store was in use",
                "start processes with the method spawn, or fork while no thread uses a store",
            ));
        }
        _ => {}
    }
    if DEPTH.get() == 0 {
        let mut patience_end = None;
        loop {
            INSIDE.fetch_add(1, SeqCst);
            if FORKING.load(SeqCst) == 0 || patience_end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            INSIDE.fetch_sub(1, SeqCst);
            let end = *patience_end.get_or_insert_with(|| Instant::now() + HOOKS_PATIENCE);
            while FORKING.load(SeqCst) > 0 && Instant::now() < end {
                std::thread::sleep(PAUSE);
                poll()?;
            }
        }
        ENTRIES.fetch_add(1, SeqCst);
    }
    DEPTH.set(DEPTH.get() + 1);
    Ok(Inside(()))
}

/// Whether this process may use SQLite: a child may not even close inherited connections.
pub(super) fn is_home() -> bool {
    let home = HOME.load(SeqCst);
    home == NOBODY || home == std::process::id()
}
