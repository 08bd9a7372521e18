//! ONNX models for Python: loading, embedding, and an interpreter that exits meanwhile.
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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

/// How long the exit of the interpreter waits for calls to come back.
const EXIT_PATIENCE: Duration = Duration::from_secs(2);

static CLOSING: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// The process that [`CALLS`] counts; a fork inherits a number whose threads it does not have.
static COUNTED: AtomicUsize = AtomicUsize::new(0);

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

    /// Vectors of texts, float32, row after row; `seconds` is how long it may take.
    #[pyo3(signature = (texts, *, seconds))]
    fn embed<'py>(&self, py: Python<'py>, texts: Vec<Text>, seconds: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        // A duration too long to say is no limit.
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
// Not detached: a fork in the middle would leave the child with half a library, and a fork needs the interpreter lock.
#[pyfunction]
pub fn open_onnx(py: Python<'_>, library: PathBuf) -> PyResult<()> {
    onnx::open_library(&library).map_err(|error| to_py(py, &error))
}

/// Let no further call begin, and wait until those under way are back: called when the interpreter exits.
#[pyfunction]
pub fn close_onnx(py: Python<'_>) {
    CLOSING.store(true, Ordering::SeqCst);
    if COUNTED.load(Ordering::SeqCst) == std::process::id() as usize {
        py.detach(|| {
            let end = Instant::now() + EXIT_PATIENCE;
            while CALLS.load(Ordering::SeqCst) > 0 && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
}

/// The widest instructions of this machine that change what an int8 model computes.
#[pyfunction]
pub fn isa() -> &'static str {
    onnx::isa()
}

/// Detached work that the exit of the interpreter waits for.
fn counted<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            CALLS.fetch_sub(1, Ordering::SeqCst);
        }
    }
    // All of it under the interpreter lock, and so one call at a time.
    let process = std::process::id() as usize;
    if COUNTED.swap(process, Ordering::SeqCst) != process {
        CALLS.store(0, Ordering::SeqCst);
    }
    if CLOSING.load(Ordering::SeqCst) {
        // Made without running Python code, in which a thread may be ended at exit: that aborts in a Rust frame.
        return Err(PyRuntimeError::new_err("no embedding begins while the interpreter exits"));
    }
    CALLS.fetch_add(1, Ordering::SeqCst);
    let _back = Back;
    detached(py, work)
}

fn closed() -> Error {
    Error::ModelFile {
        path: "rehydrate".into(),
        problem: "cannot embed, the interpreter is exiting".into(),
        remedy: "join the threads that embed before".into(),
    }
}
