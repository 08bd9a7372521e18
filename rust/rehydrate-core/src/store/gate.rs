//! The gate that a fork closes: no thread is inside SQLite when a process is copied.
//!
//! SQLite keeps per process which locks it holds on which file. A copy of that would be believed by the child, which holds
//! none of them, so the parent closes every connection before it forks, and both open their own afterwards. All of this is
//! atomics: a child must not wait for threads that it does not have.
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::connections::Connections;
use super::problem;
use crate::error::{Result, StoreProblem};
use crate::interrupt::poll;

/// How long a fork waits for calls that are under way; the child of one that waited in vain is refused every store.
const FORK_PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(200);
const NOBODY: u32 = 0;

static INSIDE: AtomicUsize = AtomicUsize::new(0);
static FORKING: AtomicUsize = AtomicUsize::new(0);
/// The process that may use SQLite; [`NOBODY`] before the first use.
static HOME: AtomicU32 = AtomicU32::new(NOBODY);
/// What has connections. Locked inside the gate or while it is closed only, so never by a thread that a child lacks.
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
        loop {
            INSIDE.fetch_add(1, SeqCst);
            if FORKING.load(SeqCst) == 0 {
                break;
            }
            INSIDE.fetch_sub(1, SeqCst);
            while FORKING.load(SeqCst) > 0 {
                std::thread::sleep(PAUSE);
                poll()?;
            }
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    Ok(Inside(()))
}

/// Make what has connections, and have them closed before a fork; `make` is told of all that are there already, one call at
/// a time. Called inside the gate.
pub(super) fn register(make: impl FnOnce(&[Arc<Connections>]) -> Result<Connections>) -> Result<Arc<Connections>> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|other| other.strong_count() > 0);
    let others: Vec<Arc<Connections>> = open.iter().filter_map(Weak::upgrade).collect();
    let made = Arc::new(make(&others)?);
    open.push(Arc::downgrade(&made));
    Ok(made)
}

/// The closed gate.
pub struct Hold {
    parent: u32,
    is_clean: bool,
}

/// Close the gate for a fork: waits for calls that are under way and closes every connection.
#[must_use]
pub fn hold() -> Hold {
    FORKING.fetch_add(1, SeqCst);
    let end = Instant::now() + FORK_PATIENCE;
    // A thread that forks amid a call of its own would wait for itself.
    while DEPTH.get() == 0 && INSIDE.load(SeqCst) > 0 && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
    let is_clean = INSIDE.load(SeqCst) == 0;
    if is_clean {
        let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().filter_map(Weak::upgrade).for_each(|connections| connections.let_go());
    }
    Hold { parent: std::process::id(), is_clean }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let here = std::process::id();
        if here == self.parent {
            FORKING.fetch_sub(1, SeqCst);
            return;
        }
        if self.is_clean && HOME.load(SeqCst) == self.parent {
            HOME.store(here, SeqCst);
        }
        INSIDE.store(0, SeqCst); // whoever tried to get in is not in this process
        FORKING.store(0, SeqCst);
    }
}
