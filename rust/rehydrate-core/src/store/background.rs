//! The thread that files new items in the background, and the waiting for it.
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::builder::{BuildContext, Extent, FILED_ITEMS};
use super::patience::lock;
use super::use_count;
use crate::error::{Error, Result};
use crate::interrupt::{interruptible, poll};

const PAUSE: Duration = Duration::from_millis(5);

thread_local! {
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

fn is_stopped() -> bool {
    STOP.with_borrow(|stop| stop.as_ref().is_some_and(|stop| stop.load(Ordering::SeqCst)))
}

/// Items to be filed, in this process: the number of namespaces with some, in all stores.
static FILING: AtomicUsize = AtomicUsize::new(0);
/// The process is about to end: nothing is merged any more.
static IS_LEAVING: AtomicBool = AtomicBool::new(false);

/// Wait until new items are filed, up to this time: for a process that is about to exit.
pub fn settle(patience: Duration) {
    IS_LEAVING.store(true, Ordering::SeqCst);
    let end = Instant::now() + patience;
    while FILING.load(Ordering::SeqCst) > 0 && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
}

/// In a forked process, which does not have the threads that file.
pub(super) fn forget_others() {
    FILING.store(0, Ordering::SeqCst);
}

/// A namespace whose new items must be filed, or are being filed.
pub(super) struct PendingBuild {
    process: u32,
    of_store: Arc<AtomicUsize>,
}

impl PendingBuild {
    fn new(of_store: &Arc<AtomicUsize>) -> Self {
        FILING.fetch_add(1, Ordering::SeqCst);
        of_store.fetch_add(1, Ordering::SeqCst);
        Self { process: std::process::id(), of_store: Arc::clone(of_store) }
    }
}

impl Drop for PendingBuild {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            FILING.fetch_sub(1, Ordering::SeqCst);
            self.of_store.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The thread that builds in the background, started when there is something to do.
#[derive(Default)]
pub(super) struct Background {
    /// Locked inside the fork guard only.
    state: Mutex<State>,
    stop: Arc<AtomicBool>,
    /// Namespaces that the thread, or a search, files or is to file.
    filing: Arc<AtomicUsize>,
    /// The store is about to be closed: nothing is merged any more.
    is_leaving: Arc<AtomicBool>,
}

type Wanted = Mutex<Vec<(String, PendingBuild)>>;

#[derive(Default)]
struct State {
    wanted: Arc<Wanted>,
    /// With the process it runs in.
    thread: Option<(u32, JoinHandle<()>)>,
}

impl Background {
    /// Have a namespace tended soon.
    pub fn want(&self, build_context: &BuildContext, name: &str) -> Result<()> {
        if build_context.connections.is_read_only || self.stop.load(Ordering::SeqCst) {
            return Ok(());
        }
        let _inside = use_count::enter(&build_context.connections.path)?;
        let mut state = lock(&self.state);
        let here = std::process::id();
        {
            let mut wanted = lock(&state.wanted);
            if state.thread.as_ref().is_some_and(|(process, _)| *process != here) {
                // The parent does that work.
                wanted.clear();
                self.filing.store(0, Ordering::SeqCst);
            }
            if !wanted.iter().any(|(other, _)| other == name) {
                wanted.push((name.to_owned(), PendingBuild::new(&self.filing)));
            }
        }
        match &state.thread {
            Some((process, thread)) if *process == here && !thread.is_finished() => thread.thread().unpark(),
            _ => {
                let (build_context, wanted, stop) =
                    (build_context.clone(), Arc::clone(&state.wanted), Arc::clone(&self.stop));
                let is_leaving = Arc::clone(&self.is_leaving);
                let thread = std::thread::Builder::new().name("rehydrate-index".into());
                match thread.spawn(move || work(&build_context, &wanted, &stop, &is_leaving)) {
                    Ok(thread) => {
                        if let Some((process, before)) = state.thread.replace((here, thread))
                            && process != here
                        {
                            // Another process's thread cannot be released here.
                            std::mem::forget(before);
                        }
                    }
                    // Without the thread the items stay in memory, or a search indexes them.
                    Err(_) => lock(&state.wanted).clear(),
                }
            }
        }
        Ok(())
    }

    /// File the new items of a namespace here and now, if they are many: every process indexes again what is indexed in
    /// memory only. It does not wait for a thread that is filing already.
    ///
    /// # Errors
    /// That it was interrupted. A disk that is full isn't an error: the items are found without the file too.
    pub fn file(&self, build_context: &BuildContext, name: &str) -> Result<()> {
        if build_context.connections.is_read_only
            || self.stop.load(Ordering::SeqCst)
            || !build_context.is_behind(name)?
        {
            return Ok(());
        }
        let filing = PendingBuild::new(&self.filing);
        let filed = build_context.build_pending(name, FILED_ITEMS, Extent::Missing, false);
        drop(filing);
        match filed {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            // Many small files are left to be merged.
            _ => self.want(build_context, name),
        }
    }

    /// Wait until new items are filed, but not for longer.
    pub fn finish(&self, build_context: &BuildContext, patience: Duration) {
        self.is_leaving.store(true, Ordering::SeqCst);
        let is_here = || {
            let Ok(_inside) = use_count::enter(&build_context.connections.path) else { return false };
            lock(&self.state).thread.as_ref().is_some_and(|(process, _)| *process == std::process::id())
        };
        let end = Instant::now() + patience;
        while is_here() && self.filing.load(Ordering::SeqCst) > 0 && Instant::now() < end && poll().is_ok() {
            std::thread::sleep(PAUSE);
        }
    }

    /// End the thread, and wait this long for it. An unfinished build is dropped.
    pub fn stop(&self, build_context: &BuildContext, patience: Duration) {
        self.stop.store(true, Ordering::SeqCst);
        let Ok(inside) = use_count::enter(&build_context.connections.path) else { return };
        let thread = {
            let mut state = lock(&self.state);
            lock(&state.wanted).clear();
            state.thread.take()
        };
        drop(inside);
        if let Some((process, thread)) = thread
            && process == std::process::id()
        {
            thread.thread().unpark();
            let end = Instant::now() + patience;
            while !thread.is_finished() && Instant::now() < end {
                std::thread::sleep(PAUSE);
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((process, thread)) = state.thread.take()
            && process != std::process::id()
        {
            std::mem::forget(thread); // as above
        }
    }
}

fn work(build_context: &BuildContext, wanted: &Wanted, stop: &Arc<AtomicBool>, is_leaving: &AtomicBool) {
    STOP.set(Some(Arc::clone(stop)));
    let build_pending = |name: &str, extent| {
        drop(interruptible(is_stopped, || build_context.build_pending(name, FILED_ITEMS, extent, false)))
    };
    while !is_stopped() {
        let next = {
            let Ok(_inside) = use_count::enter(&build_context.connections.path) else { return };
            lock(wanted).pop()
        };
        match next {
            // A disk that is full, a purge in between: the items are found without the file too.
            Some((name, filing)) => {
                build_pending(&name, Extent::Missing);
                drop(filing);
                if !is_leaving.load(Ordering::SeqCst) && !IS_LEAVING.load(Ordering::SeqCst) {
                    build_pending(&name, Extent::All);
                }
            }
            None => std::thread::park(),
        }
    }
}
