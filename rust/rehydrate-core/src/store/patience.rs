//! Patience: the time that a call waits for others that hold the file, and locks that survive a panic.
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::files::random;
use super::problem;
use crate::error::{Error, Result, StoreProblem};
use crate::interrupt::poll;

const SHORTEST_PAUSE: Duration = Duration::from_micros(200);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// Waiting for others, with a deadline for all of it together.
pub(super) struct Patience<'a> {
    path: &'a Path,
    busy: Duration,
    end: Instant,
    longest: Duration,
}

impl<'a> Patience<'a> {
    pub fn new(path: &'a Path, busy: Duration) -> Self {
        Self { path, busy, end: Instant::now() + busy, longest: SHORTEST_PAUSE }
    }

    /// Go on if trying again may help.
    pub fn excuse(&self, error: Error) -> Result<()> {
        if problem::is_busy(&error) { Ok(()) } else { Err(error) }
    }

    /// A pause of a random length, so that those who wait do not meet again.
    pub fn wait(&mut self) -> Result<()> {
        poll()?;
        if Instant::now() >= self.end {
            return Err(problem::store(
                self.path,
                StoreProblem::Busy,
                format!("others kept it locked for {:.1} s", self.busy.as_secs_f64()),
                "let the process that holds it finish, or wait longer (busy_seconds)",
            ));
        }
        self.longest = (self.longest * 2).min(LONGEST_PAUSE);
        std::thread::sleep(self.longest.mul_f64(chance()));
        Ok(())
    }
}

/// A number between 0 and 1 that differs from thread to thread and from call to call.
fn chance() -> f64 {
    (random() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A panic while it was locked left at worst a connection less.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
