//! The use count of SQLite in this process: the number of calls inside, the process that may have any, and forks.
//!
//! SQLite keeps a list per process of the locks that it holds on files. A child would believe a copy of it and holds none of
//! them, so the parent closes every connection before it forks, and both open their own afterwards. A child that was
//! copied while a call was inside is refused every store.
use std::cell::Cell;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use super::connections::close_all;
use super::{background, problem, segments};
use crate::error::{Result, StoreProblem};
pub(super) use crate::fork::Inside;
use crate::fork::{self, Gate};

const NOBODY: u32 = 0;

/// The number of entries so far.
static ENTRIES: AtomicU64 = AtomicU64::new(0);
/// The process that may use SQLite; [`NOBODY`] before the first use.
static HOME: AtomicU32 = AtomicU32::new(NOBODY);

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

static CALLS: Gate = Gate::new(&DEPTH);

/// Enter, for a bounded piece of work with the store at `path`.
pub(super) fn enter(path: &Path) -> Result<Inside> {
    let here = process::id();
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
    let inside = CALLS.enter()?;
    ENTRIES.fetch_add(1, SeqCst);
    Ok(inside)
}

/// Whether this process may use SQLite: a child may not even close inherited connections.
pub(super) fn is_home() -> bool {
    let home = HOME.load(SeqCst);
    home == NOBODY || home == process::id()
}

/// A fork that is under way: no call is inside SQLite, unless patience ended.
pub struct ForkGuard {
    fork: fork::ForkGuard,
    /// [`ENTRIES`] when every connection was closed; None: some were in use.
    entries: Option<u64>,
}

/// Begin a fork: wait for calls that are under way and close every connection.
#[must_use]
pub fn guard_fork() -> ForkGuard {
    let fork = fork::guard(&CALLS);
    let is_quiet = CALLS.is_quiet() && is_home();
    let entries = is_quiet.then(|| ENTRIES.fetch_add(1, SeqCst) + 1).filter(|_| close_all());
    ForkGuard { fork, entries }
}

impl Drop for ForkGuard {
    /// Before calls go in again, as the fork's own guard lets them.
    fn drop(&mut self) {
        if !self.fork.is_in_child() {
            return;
        }
        let is_clean = self.entries == Some(ENTRIES.load(SeqCst));
        if is_clean && HOME.load(SeqCst) == self.fork.parent {
            HOME.store(process::id(), SeqCst);
        }
        background::forget_others();
        segments::forget_locks();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_fork_that_does_not_come_goes_in_and_the_child_is_told() {
        let path = Path::new("/memory.db");
        let mut holding = guard_fork();
        // Other tests of this process use stores too.
        while holding.entries.is_none() {
            drop(holding);
            holding = guard_fork();
        }
        let entries = holding.entries;
        drop(enter(path).unwrap());
        assert!(entries < Some(ENTRIES.load(SeqCst)));
        drop(holding);
    }
}
