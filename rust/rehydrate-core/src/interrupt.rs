//! Stopping long work: a caller gives a check whether to stop, and long loops call it between bounded pieces of work.
//!
//! A stop unwinds from the place of the check, so no signature on the way needs to mention it. Values shared between
//! calls are stored in one step when they are complete, so an unwound call leaves nothing half done.
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// The time that work goes on before it asks the caller again. Asking may cost a lock.
const INTERVAL: Duration = Duration::from_millis(50);

/// The payload that unwinds.
struct Stop;

#[derive(Clone, Copy)]
struct Watch {
    wants_stop: fn() -> bool,
    asked: Instant,
}

thread_local! {
    static WATCH: Cell<Option<Watch>> = const { Cell::new(None) };
}

/// Run `work`; as soon as `wants_stop` says so, it ends.
///
/// # Errors
/// [`Error::Interrupted`] if it was stopped, else what `work` returns.
///
/// ```
/// use rehydrate_core::error::Error;
/// use rehydrate_core::interrupt::{checkpoint, interruptible};
///
/// let endless = || loop {
///     checkpoint();
/// };
/// assert_eq!(interruptible(|| true, endless), Err::<(), _>(Error::Interrupted));
/// ```
pub fn interruptible<T>(wants_stop: fn() -> bool, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let outer = WATCH.replace(Some(Watch { wants_stop, asked: Instant::now() }));
    let outcome = catch_unwind(AssertUnwindSafe(work));
    WATCH.set(outer);
    outcome.unwrap_or_else(|panic| if panic.is::<Stop>() { Err(Error::Interrupted) } else { resume_unwind(panic) })
}

/// What else ends the work of this thread, and whoever may stop it anyway.
struct End {
    is_over: Box<dyn Fn() -> bool>,
    was_over: bool,
    outer: Option<Watch>,
}

thread_local! {
    static END: Cell<Option<End>> = const { Cell::new(None) };
}

/// Run `work` until `is_over` says that it is no longer wanted: then there is no result.
///
/// # Errors
/// [`Error::Interrupted`] if it was stopped by someone else.
pub fn unless<T>(is_over: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> Result<Option<T>> {
    let before = END.replace(Some(End { is_over: Box::new(is_over), was_over: false, outer: WATCH.get() }));
    let done = interruptible(has_ended, || Ok(work()));
    let was_over = END.replace(before).is_some_and(|end| end.was_over);
    if was_over && done.is_err() { Ok(None) } else { done.map(Some) }
}

fn has_ended() -> bool {
    // It may itself come to a checkpoint, which is for the outer watch.
    let Some(mut end) = END.take() else { return false };
    let inner = WATCH.replace(end.outer);
    let is_stopped = poll().is_err();
    end.was_over = !is_stopped && (end.is_over)();
    end.outer = WATCH.replace(inner);
    let has_ended = is_stopped || end.was_over;
    END.set(Some(end));
    has_ended
}

/// A place where long work may stop. It costs reading the clock, so some hundred kilobytes of text or thousands of
/// messages should be between two.
pub fn checkpoint() {
    if poll().is_err() {
        resume_unwind(Box::new(Stop)); // unlike a panic, without a word on standard error
    }
}

/// The same for work that must end in order, because other threads take part in it.
///
/// # Errors
/// [`Error::Interrupted`] if it is to stop.
pub fn poll() -> Result<()> {
    let Some(watch) = WATCH.get() else { return Ok(()) };
    if watch.asked.elapsed() < INTERVAL {
        return Ok(());
    }
    if (watch.wants_stop)() {
        return Err(Error::Interrupted);
    }
    WATCH.set(Some(Watch { asked: Instant::now(), ..watch }));
    Ok(())
}

thread_local! {
    /// Whether the thread that this one helps has stopped.
    static LEFT: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

fn is_left() -> bool {
    LEFT.with_borrow(|left| left.as_ref().is_some_and(|left| left.load(Ordering::Relaxed)))
}

/// Sets the flag however this thread ends: by a stop, by a panic, or done.
struct Leave(Arc<AtomicBool>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

thread_local! {
    /// Whether this thread is one of several that share the cores, so that a helper would only be in the way.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Makes this thread compute without helpers, or with them again. Returns whether it did without them before.
pub fn set_alone(alone: bool) -> bool {
    ALONE.replace(alone)
}

/// Two pieces of work at once, `there` in a thread of its own. If one stops or panics, so does the other.
pub(crate) fn both<A, B: Send>(here: impl FnOnce() -> A, there: impl FnOnce() -> B + Send) -> (A, B) {
    if ALONE.get() {
        return (here(), there());
    }
    std::thread::scope(|scope| {
        let left = Arc::new(AtomicBool::new(false));
        let _leave = Leave(Arc::clone(&left));
        let (send, receive) = mpsc::sync_channel(1);
        let beside = scope.spawn(move || {
            LEFT.set(Some(left));
            // If it was stopped, nobody waits for the result.
            let _ = interruptible(is_left, || Ok(there())).map(|done| send.send(done));
        });
        let done = here();
        loop {
            match receive.recv_timeout(INTERVAL) {
                Ok(other) => return (done, other),
                Err(RecvTimeoutError::Timeout) => checkpoint(),
                Err(RecvTimeoutError::Disconnected) => {
                    resume_unwind(beside.join().err().unwrap_or_else(|| Box::new(Stop)))
                }
            }
        }
    })
}

/// The same `work` on this thread and on a helper, if one is allowed; each takes from what is shared until
/// nothing is left. If one stops or panics, so does the other.
pub(crate) fn with_helper(work: impl Fn() + Sync) {
    if ALONE.get() {
        return work();
    }
    std::thread::scope(|scope| {
        let left = Arc::new(AtomicBool::new(false));
        let _leave = Leave(Arc::clone(&left));
        let (send, receive) = mpsc::sync_channel(1);
        let shared = &work;
        let beside = std::thread::Builder::new().spawn_scoped(scope, move || {
            LEFT.set(Some(left));
            // If it was stopped, nobody waits for the result.
            let ended = interruptible(is_left, || {
                shared();
                Ok(())
            });
            let _ = ended.map(|()| send.send(()));
        });
        work();
        let Ok(beside) = beside else { return };
        loop {
            match receive.recv_timeout(INTERVAL) {
                Ok(()) => return,
                Err(RecvTimeoutError::Timeout) => checkpoint(),
                Err(RecvTimeoutError::Disconnected) => {
                    resume_unwind(beside.join().err().unwrap_or_else(|| Box::new(Stop)))
                }
            }
        }
    });
}

/// Checkpoints for loops of many short steps.
#[derive(Default)]
pub(crate) struct Pace(u16);

impl Pace {
    /// Called in each step: there are some ten thousand of them between two checkpoints.
    #[inline]
    pub fn step(&mut self) {
        self.0 = self.0.wrapping_add(1);
        if self.0 == 0 {
            checkpoint();
        }
    }

    /// The same for a step that takes as long as `steps`, or a little more: reading the clock costs as much as fifty.
    #[inline]
    pub fn step_by(&mut self, steps: usize) {
        let steps = u16::try_from(steps).unwrap_or(u16::MAX);
        let is_over;
        (self.0, is_over) = self.0.overflowing_add(steps);
        if is_over {
            checkpoint();
        }
    }
}

/// Texts up to this length are read in one go: every pass takes a few milliseconds for it at most.
pub(crate) const STRETCH_BYTES: usize = 512 << 10;

/// `text` in stretches that end in ASCII white space, which no word or name reaches across, with checkpoints between
/// them. A stretch is longer than [`STRETCH_BYTES`] where nothing separates.
pub(crate) fn stretches(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if rest.len() < text.len() {
            checkpoint();
        }
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\t' | b'\r');
        let blank = rest.as_bytes().get(STRETCH_BYTES..).and_then(|beyond| beyond.iter().position(is_blank));
        let (stretch, after) = rest.split_at(blank.map_or(rest.len(), |at| STRETCH_BYTES + at + 1));
        rest = after;
        Some(stretch)
    })
}

/// Items that are sorted in one go.
const SORTED_ITEMS: usize = 1 << 20;

/// `items.sort_unstable()` with checkpoints: longer slices are halved around their median first.
pub(crate) fn sort<T: Ord>(items: &mut [T]) {
    if items.len() <= SORTED_ITEMS || items.is_sorted() {
        return items.sort_unstable();
    }
    checkpoint();
    let (lower, _, upper) = items.select_nth_unstable(items.len() / 2);
    sort(lower);
    sort(upper);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_nobody_watches_is_not_stopped() {
        checkpoint();
        assert_eq!(interruptible(|| false, || Ok(7)), Ok(7));
    }

    #[test]
    fn a_stop_reaches_the_innermost_caller_and_a_panic_goes_through() {
        let outer = interruptible(
            || false,
            || {
                let inner: Result<()> = interruptible(
                    || true,
                    || loop {
                        checkpoint()
                    },
                );
                assert_eq!(inner, Err(Error::Interrupted));
                Ok(1)
            },
        );
        assert_eq!(outer, Ok(1));
        let panic =
            catch_unwind(|| interruptible(|| true, || -> Result<()> { std::panic::resume_unwind(Box::new(3)) }));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&3));
    }

    #[test]
    fn work_that_is_over_ends_without_a_result_and_whoever_stops_it_still_does() {
        let endless: fn() = || loop {
            checkpoint();
        };
        assert_eq!(unless(|| false, || 7), Ok(Some(7)));
        assert_eq!(unless(|| true, endless), Ok(None));
        let stopped = interruptible(|| true, || unless(|| false, endless));
        assert_eq!(stopped, Err(Error::Interrupted));
        // What says so may itself take long, or ask the same of other work.
        let nested = move || unless(|| true, endless) == Ok(None) && unless(|| false, checkpoint).is_ok();
        assert_eq!(unless(nested, endless), Ok(None));
    }

    #[test]
    fn a_stop_or_a_panic_here_ends_the_work_there() {
        assert_eq!(both(|| 1, || 2), (1, 2));
        let endless = || loop {
            checkpoint();
        };
        let stopped: Result<()> = interruptible(
            || true,
            || {
                let ((), ()) = both(endless, endless);
                Ok(())
            },
        );
        assert_eq!(stopped, Err(Error::Interrupted));
        let panics = || std::panic::resume_unwind(Box::new(3));
        let panic = catch_unwind(|| both::<(), ()>(panics, endless));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&3));
        let panic = catch_unwind(|| both::<(), ()>(|| (), panics));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&3));
    }

    #[test]
    fn a_helper_does_its_share_and_ends_with_the_thread_that_it_helps() {
        use std::sync::atomic::AtomicUsize;

        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        with_helper(|| {
            while next.fetch_add(1, Ordering::Relaxed) < 1_000 {
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert_eq!(done.load(Ordering::Relaxed), 1_000);
        let endless = || loop {
            checkpoint();
        };
        let stopped = interruptible(
            || true,
            || {
                with_helper(endless);
                Ok(())
            },
        );
        assert_eq!(stopped, Err(Error::Interrupted));
        let panic = catch_unwind(|| with_helper(|| std::panic::resume_unwind(Box::new(3))));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&3));
    }

    #[test]
    fn a_thread_that_is_to_be_alone_has_no_helper() {
        let seen = std::sync::Mutex::new(Vec::new());
        let note = || seen.lock().unwrap().push(std::thread::current().id());
        assert!(!set_alone(true));
        with_helper(note);
        both(note, note);
        assert!(set_alone(false));
        assert_eq!(*seen.lock().unwrap(), [std::thread::current().id(); 3]);
    }

    #[test]
    fn stretches_are_the_text_cut_behind_white_space() {
        let words = "word ".repeat(STRETCH_BYTES / 2);
        let unbroken = "é".repeat(STRETCH_BYTES);
        for text in ["", "short", &words, &unbroken, &format!("{unbroken} {words}")] {
            let cut: Vec<&str> = stretches(text).collect();
            assert_eq!(cut.concat(), *text);
            assert!(cut.iter().rev().skip(1).all(|stretch| stretch.ends_with(' ')));
        }
        assert_eq!(stretches(&words).count(), 3);
    }

    #[test]
    fn sorting_in_halves_is_sorting() {
        let mut items: Vec<u32> = (0..3 * SORTED_ITEMS as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 12).collect();
        let mut expected = items.clone();
        expected.sort_unstable();
        sort(&mut items);
        assert!(items == expected);
    }
}
