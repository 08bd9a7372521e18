//! A value that one thread works on at a time. Nobody waits for it forever: no forked child, and no signal handler.
use std::cell::{Cell, RefCell};
use std::process;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::Gate;
use crate::error::{Error, Result};
use crate::interrupt::poll;

/// The pause before a waiting call looks again.
const PAUSE: Duration = Duration::from_micros(50);

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The values that this thread works on, by address.
    static OWNED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Calls that work on a value, or wait for one.
pub(super) static CALLS: Gate = Gate::new(&DEPTH);

/// Why a value is refused, and what to do.
pub type Refused = (&'static str, &'static str);

const HALF_DONE: Refused = (
    "this process was forked while another thread worked on it",
    "make it again in this process, or fork while no thread uses it",
);
const AMID: Refused = (
    "a signal handler wants it while the thread that it runs on works on it",
    "set a flag in the handler, and use it when the call has returned",
);

/// The value.
pub struct Guarded<T> {
    /// The process whose thread works on it. 0 if none does.
    owner: AtomicU32,
    refused: fn(Refused) -> Error,
    value: Mutex<T>,
}

impl<T> Guarded<T> {
    /// `refused` makes the error.
    #[must_use]
    pub const fn new(value: T, refused: fn(Refused) -> Error) -> Self {
        Self { owner: AtomicU32::new(0), refused, value: Mutex::new(value) }
    }

    /// Work on it. After a panic it keeps the work done so far.
    ///
    /// # Errors
    /// If it is refused: in a forked child if a thread of the parent worked on it, and during work on it. `Interrupted`.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Result<R> {
        let _inside = CALLS.enter()?;
        let _owned = self.own()?;
        Ok(work(&mut self.value.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Wait until no thread works on it.
    fn own(&self) -> Result<Owned<'_>> {
        let (here, address) = (process::id(), std::ptr::from_ref(self).addr());
        if OWNED.with_borrow(|owned| owned.contains(&address)) {
            return Err((self.refused)(AMID));
        }
        while let Err(owner) = self.owner.compare_exchange(0, here, SeqCst, SeqCst) {
            if owner != here {
                return Err((self.refused)(HALF_DONE));
            }
            thread::sleep(PAUSE);
            poll()?;
        }
        OWNED.with_borrow_mut(|owned| owned.push(address));
        Ok(Owned(&self.owner))
    }
}

/// Dropped in the order in which they were made, the last first.
struct Owned<'a>(&'a AtomicU32);

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        OWNED.with_borrow_mut(Vec::pop);
        self.0.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(refused: Refused) -> Error {
        Error::Argument(refused.0.into())
    }

    #[test]
    fn one_thread_works_at_a_time_and_nobody_waits_for_itself_or_for_the_parent() {
        let (guarded, other) = (Guarded::new(1, problem_of), Guarded::new(5, problem_of));
        assert_eq!(guarded.with(|value| std::mem::replace(value, 2)).unwrap(), 1);
        let owned = guarded.own().unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| guarded.with(|value| *value).unwrap());
            thread::sleep(20 * PAUSE);
            assert!(!waits.is_finished());
            drop(owned);
            assert_eq!(waits.join().unwrap(), 2);
        });
        let amid = guarded.with(|_| (guarded.with(|_| ()), other.with(|value| *value))).unwrap();
        assert_eq!(amid, (Err(problem_of(AMID)), Ok(5)));
        assert_eq!(guarded.with(|value| *value), Ok(2));
        guarded.owner.store(process::id() + 1, SeqCst);
        assert_eq!(guarded.with(|_| ()), Err(problem_of(HALF_DONE)));
    }
}
