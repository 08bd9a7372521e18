//! A value that one thread works on at a time, and that no forked child waits for endlessly.
//!
//! A fork waits for the threads that work on a value, and others wait for the fork, but neither forever: hooks of other
//! libraries run meanwhile. A value that a thread still worked on is half done in the child, and refused there.
use std::process;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result, StoreProblem};
use crate::interrupt::poll;

/// The pause before a waiting call looks again.
const PAUSE: Duration = Duration::from_micros(50);
/// The time that a fork waits for others.
const FORK_PATIENCE: Duration = Duration::from_secs(2);
/// The time that others wait for a fork.
const HOOKS_PATIENCE: Duration = Duration::from_millis(500);

/// The number of calls that work on a value or wait for one.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static FORKING: AtomicUsize = AtomicUsize::new(0);
/// The number of this process among those it was forked from.
static PROCESS: AtomicU32 = AtomicU32::new(1);

/// The value.
#[derive(Default)]
pub struct Guarded<T> {
    /// The process whose thread works on it. 0 if none does.
    owner: AtomicU32,
    value: Mutex<T>,
}

impl<T> Guarded<T> {
    #[must_use]
    pub fn new(value: T) -> Self {
        Self { owner: AtomicU32::new(0), value: Mutex::new(value) }
    }

    /// Work on it. After a panic it keeps the work done so far.
    ///
    /// # Errors
    /// `Store` in a forked child where a thread of the parent worked on it, and `Interrupted`.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Result<R> {
        let _inside = Inside::enter()?;
        let _owned = self.own()?;
        Ok(work(&mut self.value.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Wait until no thread works on it.
    fn own(&self) -> Result<Owned<'_>> {
        let here = PROCESS.load(SeqCst);
        loop {
            match self.owner.compare_exchange(0, here, SeqCst, SeqCst) {
                Ok(_) => return Ok(Owned(&self.owner)),
                Err(owner) if owner == here => {
                    thread::sleep(PAUSE);
                    poll()?;
                }
                Err(_) => return Err(half_done()),
            }
        }
    }
}

fn half_done() -> Error {
    Error::Store {
        kind: StoreProblem::Other,
        path: "a ContextStore".into(),
        problem: "this process was forked while another thread worked on it".into(),
        remedy: "make it again in this process, or fork while no thread uses it".into(),
    }
}

struct Owned<'a>(&'a AtomicU32);

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        self.0.store(0, SeqCst);
    }
}

struct Inside(());

impl Inside {
    fn enter() -> Result<Self> {
        let mut patience_end = None;
        loop {
            INSIDE.fetch_add(1, SeqCst);
            if FORKING.load(SeqCst) == 0 || patience_end.is_some_and(|end| Instant::now() >= end) {
                return Ok(Self(()));
            }
            INSIDE.fetch_sub(1, SeqCst);
            patience_end.get_or_insert_with(|| Instant::now() + HOOKS_PATIENCE);
            thread::sleep(PAUSE);
            poll()?;
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // The child does not count the work of the thread that forked during it.
        _ = INSIDE.fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1));
    }
}

/// A fork that is under way.
pub struct ForkGuard {
    parent: u32,
}

/// Begin a fork: wait for those who work on a value.
#[must_use]
pub fn guard_fork() -> ForkGuard {
    FORKING.fetch_add(1, SeqCst);
    let end = Instant::now() + FORK_PATIENCE;
    while INSIDE.load(SeqCst) > 0 && Instant::now() < end {
        thread::sleep(PAUSE);
    }
    ForkGuard { parent: process::id() }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        if process::id() == self.parent {
            FORKING.fetch_sub(1, SeqCst);
        } else {
            begin_child();
        }
    }
}

/// A child has one thread.
fn begin_child() {
    PROCESS.fetch_add(1, SeqCst);
    INSIDE.store(0, SeqCst);
    FORKING.store(0, SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_and_those_who_work_wait_for_each_other() {
        let guarded = Guarded::new(1);
        assert_eq!(guarded.with(|value| std::mem::replace(value, 2)).unwrap(), 1);
        let fork = guard_fork();
        thread::scope(|scope| {
            let waits = scope.spawn(|| guarded.with(|value| *value).unwrap());
            thread::sleep(20 * PAUSE);
            assert!(!waits.is_finished());
            drop(fork);
            assert_eq!(waits.join().unwrap(), 2);
        });
        // In the child, a value that a thread of the parent owned is refused.
        let owned = guarded.own().unwrap();
        begin_child();
        assert!(guarded.with(|_| ()).is_err());
        drop(owned);
        guarded.with(|_| ()).unwrap();
    }
}
