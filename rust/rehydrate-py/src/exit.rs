//! An interpreter that exits while other threads are in this module.
//!
//! Before 3.14 the exiting interpreter ends every thread that asks for its lock, by unwinding the thread's stack, and a
//! Rust frame on it turns that into the end of the process. If PyO3 itself asks, the thread hangs instead. Python code
//! that is called from Rust also asks, so it must be finished before the exit begins.
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rehydrate_core::store;

/// The time that an exit waits for Python code that Rust called, which takes almost no time.
const PATIENCE: Duration = Duration::from_secs(2);

static EXITING: AtomicBool = AtomicBool::new(false);
static RUNNING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this is the thread that exits, which no one ends.
    static EXITS: Cell<bool> = const { Cell::new(false) };
    /// The number of this thread's calls that are under way, each in one of the others.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A call from Python that may run Python code, until this is dropped. Each function of the binding that can raise
/// begins with one, except those of the stores.
pub struct Running(());

impl Running {
    /// Begin. In a thread that the exit would end, this never returns.
    pub fn begin() -> Self {
        if DEPTH.replace(DEPTH.get() + 1) == 0 {
            RUNNING.fetch_add(1, Ordering::SeqCst);
            if EXITING.load(Ordering::SeqCst) && !EXITS.get() {
                RUNNING.fetch_sub(1, Ordering::SeqCst);
                Python::attach(|py| {
                    py.detach(|| {
                        loop {
                            thread::park();
                        }
                    })
                })
            }
        }
        Self(())
    }
}

/// Call Python code during detached work: only the code is waited for.
pub fn running_python<T>(code: impl FnOnce() -> T) -> T {
    let _running = Running::begin();
    code()
}

impl Drop for Running {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            RUNNING.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The time that an exit waits for items to be indexed, so that no other process must do it.
const INDEX_PATIENCE: Duration = Duration::from_secs(1);

/// Wait a little for new items to be indexed, then until no other thread runs Python code from here, and let none
/// begin. Called when the interpreter exits.
#[pyfunction]
pub fn before_exit(py: Python<'_>) {
    // Indexing may be part of a search, which asks Python whether to stop.
    py.detach(|| store::settle(INDEX_PATIENCE));
    EXITS.set(true);
    EXITING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let end = Instant::now() + PATIENCE;
        while RUNNING.load(Ordering::SeqCst) > 0 && Instant::now() < end {
            thread::sleep(Duration::from_micros(100));
        }
    });
}

/// In a forked child, which does not have the threads that were counted.
pub fn forget_others() {
    RUNNING.store(usize::from(DEPTH.get() > 0), Ordering::SeqCst);
}
