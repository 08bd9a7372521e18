//! The fork guard: no thread is inside SQLite when a process is copied.
//!
//! SQLite keeps per process which locks it holds on which file. A child would believe a copy of that, but it holds none
//! of the locks. So the parent closes every connection before it forks, and both open their own afterwards. All of this
//! is atomics: a child must not wait for threads that it does not have.
//!
//! The guard isn't a lock. Between its closing and the fork, hooks of other libraries run, and they may wait for a lock
//! whose owner waits here (`logging` has such a hook). So no call waits for a fork longer than [`HOOKS_PATIENCE`]: a
//! thread that enters after that is counted, and a child that was copied then is refused every store.
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::background;
use super::connections::close_all;
use super::use_count::{DEPTH, ENTRIES, FORKING, HOME, HOOKS_PATIENCE, INSIDE, PAUSE, is_home};

/// The time that a fork waits for calls that are under way. The child of one that waited too long is refused every
/// store.
const FORK_PATIENCE: Duration = Duration::from_secs(2);

/// A fork that is under way: no call is inside SQLite, unless patience ended.
pub struct ForkGuard {
    parent: u32,
    /// [`ENTRIES`] when every connection was closed; None: some were in use.
    entries: Option<u64>,
}

/// Begin a fork: wait for calls that are under way and close every connection.
#[must_use]
pub fn guard_fork() -> ForkGuard {
    // Forks one by one: for the child of another fork, connections that one is closing are half closed.
    let end = Instant::now() + HOOKS_PATIENCE;
    while FORKING.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
        if Instant::now() >= end {
            FORKING.fetch_add(1, SeqCst);
            break;
        }
        std::thread::sleep(PAUSE);
    }
    let end = Instant::now() + FORK_PATIENCE;
    // A thread that forks during a call of its own would wait for itself.
    while DEPTH.get() == 0 && INSIDE.load(SeqCst) > 0 && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
    let is_quiet = INSIDE.load(SeqCst) == 0 && is_home();
    let entries = is_quiet.then(|| ENTRIES.fetch_add(1, SeqCst) + 1).filter(|_| close_all());
    ForkGuard { parent: std::process::id(), entries }
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
        background::forget_others();
        INSIDE.store(usize::from(DEPTH.get() > 0), SeqCst); // other threads that tried to enter are not in this process
        FORKING.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Mutex, PoisonError};

    use super::super::use_count::enter;
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
            // This would hang the test: nothing releases the first meanwhile.
            scope.spawn(|| drop(guard_fork())).join().unwrap();
        });
        drop(first);
    }
}
