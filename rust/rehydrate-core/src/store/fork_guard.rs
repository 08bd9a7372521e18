//! The fork guard: no thread is inside SQLite when a process is copied.
//!
//! SQLite keeps per process which locks it holds on which file. A copy of that would be believed by the child, which holds
//! none of them, so the parent closes every connection before it forks, and both open their own afterwards. All of this is
//! atomics: a child must not wait for threads that it does not have.
//!
//! The guard is no lock. Between closing and the fork, hooks of other libraries run, and they may wait for a lock whose owner
//! waits here (`logging` has such a hook). So nobody waits for a fork longer than [`HOOKS_PATIENCE`]: who goes in after that
//! is counted, and a child that was copied then is refused every store.
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use super::connections::Connections;
use super::problem;
use crate::error::{Result, StoreProblem};
use crate::interrupt::poll;

/// How long a fork waits for calls that are under way; the child of one that waited in vain is refused every store.
const FORK_PATIENCE: Duration = Duration::from_secs(2);
/// How long calls, and other forks, wait for a fork that has begun.
const HOOKS_PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_micros(200);
const NOBODY: u32 = 0;

static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// How often anybody went in.
static ENTRIES: AtomicU64 = AtomicU64::new(0);
static FORKING: AtomicUsize = AtomicUsize::new(0);
/// The process that may use SQLite; [`NOBODY`] before the first use.
static HOME: AtomicU32 = AtomicU32::new(NOBODY);
/// What has connections. Locked inside the guard or while it is closed only, so never by a thread that a child lacks.
static OPEN: Mutex<Vec<Weak<Connections>>> = Mutex::new(Vec::new());

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
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

/// Whether this process may use SQLite: a child may not even close what it inherited.
pub(super) fn is_home() -> bool {
    let home = HOME.load(SeqCst);
    home == NOBODY || home == std::process::id()
}

/// Make what has connections, and have them closed before a fork; `make` is told of all that are there already, one call at
/// a time. Called inside the guard.
pub(super) fn register(make: impl FnOnce(&[Arc<Connections>]) -> Result<Connections>) -> Result<Arc<Connections>> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|other| other.strong_count() > 0);
    let others: Vec<Arc<Connections>> = open.iter().filter_map(Weak::upgrade).collect();
    let made = Arc::new(make(&others)?);
    open.push(Arc::downgrade(&made));
    Ok(made)
}

/// The closed guard.
pub struct ForkGuard {
    parent: u32,
    /// [`ENTRIES`] when every connection was closed; None: some were in use.
    entries: Option<u64>,
}

/// Close the guard for a fork: waits for calls that are under way and closes every connection.
#[must_use]
pub fn guard_fork() -> ForkGuard {
    // Forks one by one: the connections that one closes are half closed for another's child.
    let end = Instant::now() + HOOKS_PATIENCE;
    while FORKING.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
        if Instant::now() >= end {
            FORKING.fetch_add(1, SeqCst);
            break;
        }
        std::thread::sleep(PAUSE);
    }
    let end = Instant::now() + FORK_PATIENCE;
    // A thread that forks amid a call of its own would wait for itself.
    while DEPTH.get() == 0 && INSIDE.load(SeqCst) > 0 && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
    let is_quiet = INSIDE.load(SeqCst) == 0 && is_home();
    let entries = is_quiet.then(|| ENTRIES.fetch_add(1, SeqCst) + 1).filter(|_| close_all());
    ForkGuard { parent: std::process::id(), entries }
}

/// Close every connection; false where one is in use.
fn close_all() -> bool {
    let open = match OPEN.try_lock() {
        Ok(open) => open,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return false,
    };
    open.iter().filter_map(Weak::upgrade).all(|connections| connections.let_go())
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        let here = std::process::id();
        if here == self.parent {
            FORKING.fetch_sub(1, SeqCst);
            return;
        }
        let is_clean = self.entries == Some(ENTRIES.load(SeqCst));
        if is_clean && HOME.load(SeqCst) == self.parent {
            HOME.store(here, SeqCst);
        }
        super::builder::forget_others();
        INSIDE.store(usize::from(DEPTH.get() > 0), SeqCst); // whoever else tried to get in is not in this process
        FORKING.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One at a time: the guard is the process's.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn who_waits_for_a_fork_that_does_not_come_goes_in_and_the_child_is_told() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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

    #[test]
    fn a_second_fork_does_not_wait_for_ever_for_the_first() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let first = guard_fork();
        std::thread::scope(|scope| {
            // Would hang the test: nothing lets go of the first meanwhile.
            scope.spawn(|| drop(guard_fork())).join().unwrap();
        });
        drop(first);
    }
}
