//! ONNX models for Python: loading, embedding, and the exit of the interpreter meanwhile.
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rehydrate_core::embed::onnx::{self, Grouping, Limits, Options, Pooling};
use rehydrate_core::error::{Error, Result};
use rehydrate_core::interrupt::poll;

use crate::convert::Text;
use crate::errors::{detached, to_py};
use crate::prepared::bytes_of;

/// The time that the exit of the interpreter waits for calls to come back.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);

static CLOSING: AtomicBool = AtomicBool::new(false);
/// The process, and the number of calls under way in it: a fork inherits a number without its threads.
static CALLS: AtomicU64 = AtomicU64::new(0);

fn calls_in(process: u32, calls: u64) -> u32 {
    if calls >> 32 == u64::from(process) { calls as u32 } else { 0 }
}

/// A call that is under way until this is dropped.
struct Call;

impl Call {
    fn begin() -> Self {
        Self::count(|calls| calls + 1);
        Self
    }

    /// In one step: threads need not take turns for it.
    fn count(change: impl Fn(u32) -> u32) {
        let process = std::process::id();
        let changed = |calls: u64| Some(u64::from(process) << 32 | u64::from(change(calls_in(process, calls))));
        let _ = CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        Self::count(|calls| calls.saturating_sub(1));
    }
}

/// A transformer and its tokenizer, loaded.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct OnnxModel {
    core: onnx::OnnxModel,
}

#[pymethods]
impl OnnxModel {
    #[new]
    #[pyo3(signature = (*, model, tokenizer, threads, max_tokens, first_token, by_length))]
    fn new(
        py: Python<'_>,
        model: PathBuf,
        tokenizer: PathBuf,
        threads: usize,
        max_tokens: usize,
        first_token: bool,
        by_length: bool,
    ) -> PyResult<Self> {
        let options = Options {
            threads,
            max_tokens,
            pooling: if first_token { Pooling::First } else { Pooling::Mean },
            grouping: if by_length { Grouping::ByLength } else { Grouping::OneByOne },
        };
        let core = counted(py, || onnx::OnnxModel::load(&model, &tokenizer, options))?;
        Ok(Self { core })
    }

    /// Components of a vector.
    #[getter]
    fn dim(&self) -> usize {
        self.core.dim()
    }

    /// Vectors of texts, float32, row after row. `seconds` is the time that it may take.
    #[pyo3(signature = (texts, *, seconds))]
    fn embed<'py>(&self, py: Python<'py>, texts: Vec<Text>, seconds: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        // A duration too long to say means no limit.
        let deadline = seconds
            .and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok())
            .and_then(|left| Instant::now().checked_add(left));
        let rows = counted(py, || {
            let texts: Vec<&str> = texts.iter().map(Text::as_str).collect();
            // The interpreter is not to be asked once it is going.
            let mut check = || if CLOSING.load(Ordering::Relaxed) { Err(closed()) } else { poll() };
            self.core.embed(&texts, Limits { deadline, check: &mut check })
        })?;
        Ok(bytes_of(py, &rows))
    }
}

/// Load ONNX Runtime's library from an absolute path.
// Not detached: a fork in the middle would leave the child with half a library. No fork happens while another thread is
// attached: the fork takes the interpreter's lock, or, if there is none, stops the attached threads at points where
// they allow it.
#[pyfunction]
pub fn open_onnx(py: Python<'_>, library: PathBuf) -> PyResult<()> {
    onnx::open_library(&library).map_err(|error| to_py(py, &error))
}

/// Let no further call begin, and wait until those under way have returned. Called when the interpreter exits.
#[pyfunction]
pub fn close_onnx(py: Python<'_>) {
    CLOSING.store(true, Ordering::SeqCst);
    py.detach(|| {
        let (end, process) = (Instant::now() + EXIT_PATIENCE, std::process::id());
        while calls_in(process, CALLS.load(Ordering::SeqCst)) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// The widest instructions of this machine that change what an int8 model computes.
#[pyfunction]
pub fn isa() -> &'static str {
    onnx::isa()
}

/// Detached work that the exit of the interpreter waits for.
fn counted<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    // First counted, then asked: closing sets its flag first, and then counts.
    let _call = Call::begin();
    if CLOSING.load(Ordering::SeqCst) {
        // Made without running Python code, in which a thread may be ended at exit: that aborts in a Rust frame.
        return Err(PyRuntimeError::new_err("no embedding begins while the interpreter exits"));
    }
    detached(py, work)
}

fn closed() -> Error {
    Error::ModelFile {
        path: "rehydrate".into(),
        problem: "cannot embed, the interpreter is exiting".into(),
        remedy: "join the threads that embed before".into(),
    }
}
