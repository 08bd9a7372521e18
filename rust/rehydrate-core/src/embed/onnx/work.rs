//! Jobs on several threads, with a calling thread that stays free to check the clock and Ctrl-C.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ort::session::{NoSelectedOutputs, RunOptions};

use crate::error::{Error, Result};

/// The time that the calling thread waits for results before it asks whether to go on.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The signal to stop before everything is done.
pub struct Limits<'a> {
    /// No text is begun after this; rows of texts not reached stay zero.
    pub deadline: Option<Instant>,
    /// Asked every few milliseconds, on the calling thread.
    pub check: &'a mut dyn FnMut() -> Result<()>,
}

/// The means of a job: the run through which it may be ended, and the mark that it was.
pub struct Worker {
    pub run: RunOptions<NoSelectedOutputs>,
    pub stop: AtomicBool,
}

impl Worker {
    pub fn new() -> Result<Self> {
        let run =
            RunOptions::new().map_err(|error| Error::Model(format!("ONNX Runtime has no run options: {error}")))?;
        Ok(Self { run, stop: AtomicBool::new(false) })
    }

    /// End the run under way at its next operator, and begin no other.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Refused only for a null pointer; the run then ends by itself.
        let _ = self.run.terminate();
    }
}

/// Do `work` on every job, at most `threads` at a time, in order; `take` gets the results on the calling thread.
///
/// The threads live as long as the call: none waits at exit, none is missing after a fork. At the deadline it returns
/// the results so far.
///
/// # Errors
/// The first error of a job or of the limits' check, after every thread has stopped.
pub fn each<J: Sync, R: Send>(
    threads: usize,
    jobs: &[J],
    limits: &mut Limits<'_>,
    work: impl Fn(&J, &Worker) -> Result<R> + Sync,
    mut take: impl FnMut(R),
) -> Result<()> {
    if limits.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
        return Ok(());
    }
    let workers: Vec<Worker> = (0..threads.min(jobs.len())).map(|_| Worker::new()).collect::<Result<_>>()?;
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut failure = None;
    thread::scope(|scope| {
        for worker in &workers {
            let (sender, work, next) = (sender.clone(), &work, &next);
            scope.spawn(move || {
                while !worker.stop.load(Ordering::Relaxed)
                    && let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed))
                    && sender.send(work(job, worker)).is_ok()
                {}
            });
        }
        drop(sender);
        loop {
            let left = limits.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match receiver.recv_timeout(left.unwrap_or(CHECK_INTERVAL).clamp(Duration::from_millis(1), CHECK_INTERVAL))
            {
                Ok(Ok(result)) => take(result),
                Ok(Err(error)) => failure = failure.take().or(Some(error)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if failure.is_none() {
                failure = (limits.check)().err();
            }
            if failure.is_some() || left.is_some_and(|left| left.is_zero()) {
                workers.iter().for_each(Worker::stop);
            }
        }
    });
    failure.map_or(Ok(()), Err)
}
