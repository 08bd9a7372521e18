//! Forks: the calls that a fork waits for, and the calls that wait for a fork.
//!
//! A child has one thread, so it must not wait for what another thread of its parent held. The calls inside a [`Gate`] end
//! before a fork, and none goes in until it is over. Neither waits forever: between the two waits, hooks of other libraries
//! run, and they may wait for a lock whose owner waits here (`logging` has such a hook). A thread may still be inside when
//! the wait ends. Its work is half done in the child, and refused there: a [`Guarded`] value, and every store of memories.
//!
//! All of this is atomics, which no thread holds.
mod guarded;

use std::cell::Cell;
use std::process;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{self, LocalKey};
use std::time::{Duration, Instant};

pub use self::guarded::{Guarded, Refused};
use crate::error::Result;
use crate::interrupt::poll;

/// The pause before a waiting call looks again.
const PAUSE: Duration = Duration::from_micros(200);
/// The time that a fork waits for calls under way.
const FORK_PATIENCE: Duration = Duration::from_secs(2);
/// The time that calls, and other forks, wait for a fork that has begun.
const HOOKS_PATIENCE: Duration = Duration::from_millis(500);

/// The number of forks under way.
static FORKING: AtomicUsize = AtomicUsize::new(0);

/// A gate that calls go through: a fork waits for those inside.
pub struct Gate {
    inside: AtomicUsize,
    /// The number of calls of this thread inside, each within the others.
    depth: &'static LocalKey<Cell<usize>>,
    fork_patience: Duration,
    hooks_patience: Duration,
}

impl Gate {
    #[must_use]
    pub const fn new(depth: &'static LocalKey<Cell<usize>>) -> Self {
        Self { inside: AtomicUsize::new(0), depth, fork_patience: FORK_PATIENCE, hooks_patience: HOOKS_PATIENCE }
    }

    /// Go in, for a bounded piece of work; a fork that has begun is waited for.
    ///
    /// # Errors
    /// `Interrupted`.
    pub fn enter(&'static self) -> Result<Inside> {
        if self.depth.get() == 0 {
            let mut patience_end = None;
            loop {
                self.inside.fetch_add(1, SeqCst);
                if FORKING.load(SeqCst) == 0 || patience_end.is_some_and(|end| Instant::now() >= end) {
                    break;
                }
                self.inside.fetch_sub(1, SeqCst);
                let end = *patience_end.get_or_insert_with(|| Instant::now() + self.hooks_patience);
                while FORKING.load(SeqCst) > 0 && Instant::now() < end {
                    thread::sleep(PAUSE);
                    poll()?;
                }
            }
        }
        self.depth.set(self.depth.get() + 1);
        Ok(Inside(self))
    }

    /// Whether no call is inside.
    pub fn is_quiet(&self) -> bool {
        self.inside.load(SeqCst) == 0
    }

    /// Wait until no call is inside, but not longer than `end`.
    fn settle(&self, end: Instant) {
        // A thread that forks in a call of its own would wait for itself.
        while self.depth.get() == 0 && !self.is_quiet() && Instant::now() < end {
            thread::sleep(PAUSE);
        }
    }

    /// In a child: other threads that were inside are not in this process.
    fn forget_others(&self) {
        self.inside.store(usize::from(self.depth.get() > 0), SeqCst);
    }
}

/// A call inside a gate, until this is dropped: no fork happens, unless its patience ends.
pub struct Inside(&'static Gate);

impl Drop for Inside {
    fn drop(&mut self) {
        let Gate { inside, depth, .. } = self.0;
        depth.set(depth.get() - 1);
        if depth.get() == 0 {
            inside.fetch_sub(1, SeqCst);
        }
    }
}

/// A fork that is under way. Dropped in the parent and in the child, it lets calls in again.
pub struct ForkGuard {
    /// The process that forks.
    pub parent: u32,
    gate: &'static Gate,
}

/// Begin a fork: wait for the calls inside a gate, and for those that work on a [`Guarded`] value.
#[must_use]
pub fn guard(gate: &'static Gate) -> ForkGuard {
    // Forks go one by one: a value that one has settled is half settled for another's child.
    let end = Instant::now() + gate.hooks_patience;
    while FORKING.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
        if Instant::now() >= end {
            FORKING.fetch_add(1, SeqCst);
            break;
        }
        thread::sleep(PAUSE);
    }
    let end = Instant::now() + gate.fork_patience;
    guarded::CALLS.settle(end);
    gate.settle(end);
    ForkGuard { parent: process::id(), gate }
}

impl ForkGuard {
    /// Whether this process is the child.
    #[must_use]
    pub fn is_in_child(&self) -> bool {
        process::id() != self.parent
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        if self.is_in_child() {
            guarded::CALLS.forget_others();
            self.gate.forget_others();
            FORKING.store(0, SeqCst);
        } else {
            FORKING.fetch_sub(1, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static DEPTH: Cell<usize> = const { Cell::new(0) };
    }
    /// More than any machine is busy for: what waits so long hangs.
    const MINUTES: Duration = Duration::from_secs(600);
    static PATIENT: Gate = Gate { fork_patience: MINUTES, hooks_patience: MINUTES, ..Gate::new(&DEPTH) };
    static CALLS: Gate = Gate::new(&DEPTH);

    #[test]
    fn a_fork_waits_for_calls_but_not_for_its_own_and_calls_wait_for_it() {
        let inside = PATIENT.enter().unwrap();
        drop(PATIENT.enter().unwrap());
        assert!(!PATIENT.is_quiet());
        let before = Instant::now();
        let fork = guard(&PATIENT);
        assert!(before.elapsed() < MINUTES, "it waited for itself");
        thread::scope(|scope| {
            let waits = scope.spawn(|| PATIENT.enter().map(drop).unwrap());
            thread::sleep(20 * PAUSE);
            assert!(!waits.is_finished());
            drop(fork);
            waits.join().unwrap();
        });
        thread::scope(|scope| {
            let forks = scope.spawn(|| drop(guard(&PATIENT)));
            thread::sleep(20 * PAUSE);
            assert!(!forks.is_finished());
            drop(inside);
            forks.join().unwrap();
        });
        assert!(PATIENT.is_quiet());
    }

    #[test]
    fn a_second_fork_does_not_wait_for_ever_for_the_first() {
        let first = guard(&CALLS);
        thread::scope(|scope| {
            // This would hang the test: nothing releases the first meanwhile.
            scope.spawn(|| drop(guard(&CALLS))).join().unwrap();
        });
        drop(first);
    }
}
