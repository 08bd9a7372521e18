//! A file of JSON Lines that its agent may be writing, read on from the end of the last reading.
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::exit::Running;
use crate::reading::json_value;

/// A longer line holds a picture or a file, and no words.
pub const MAX_LINE_BYTES: usize = 8_000_000;

/// Reads the objects of a transcript from an offset on.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct TranscriptReader {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    /// The place where the next reading begins.
    offset: u64,
    /// Whether that is in the middle of a line to pass over.
    skips: bool,
    /// Lines passed over since it was made: no JSON object, or too long.
    broken: usize,
    /// Whether there was no more to read.
    is_at_end: bool,
}

#[pymethods]
impl TranscriptReader {
    #[classattr]
    const MAX_LINE_BYTES: usize = MAX_LINE_BYTES;

    #[new]
    #[pyo3(signature = (path, offset = 0, *, skips = false))]
    pub fn new(path: PathBuf, offset: u64, skips: bool) -> Self {
        Self { path, state: Mutex::new(State { offset, skips, broken: 0, is_at_end: false }) }
    }

    #[getter]
    pub fn offset(&self) -> u64 {
        self.state().offset
    }

    #[getter]
    pub fn skips(&self) -> bool {
        self.state().skips
    }

    #[getter]
    pub fn broken(&self) -> usize {
        self.state().broken
    }

    #[getter]
    pub fn is_at_end(&self) -> bool {
        self.state().is_at_end
    }

    /// The objects in about this many bytes. Raises OSError.
    pub fn objects<'py>(&self, py: Python<'py>, max_bytes: u64) -> PyResult<Bound<'py, PyList>> {
        let _running = Running::begin();
        let objects = PyList::empty(py);
        self.each(py, max_bytes, |object| objects.append(object))?;
        Ok(objects)
    }
}

impl TranscriptReader {
    /// Take each object in about this many bytes. Raises OSError.
    pub fn each<'py>(
        &self,
        py: Python<'py>,
        max_bytes: u64,
        mut take: impl FnMut(Bound<'py, PyAny>) -> PyResult<()>,
    ) -> PyResult<()> {
        let mut state = self.state();
        let read = state.read(py, self, max_bytes, &mut take);
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        read
    }

    fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self, py: Python<'_>, error: &io::Error) -> PyErr {
        let said = py.import("os").and_then(|os| os.call_method1("strerror", (error.raw_os_error(),))?.extract());
        let said: String = said.unwrap_or_else(|_| error.to_string());
        PyOSError::new_err((error.raw_os_error(), said, self.path.clone()))
    }
}

impl State {
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        of: &TranscriptReader,
        max_bytes: u64,
        take: &mut impl FnMut(Bound<'py, PyAny>) -> PyResult<()>,
    ) -> PyResult<()> {
        let failure = |error: io::Error| of.failure(py, &error);
        let mut file = BufReader::with_capacity(1 << 16, File::open(&of.path).map_err(failure)?);
        file.seek(SeekFrom::Start(self.offset)).map_err(failure)?;
        let end = self.offset.saturating_add(max_bytes);
        let mut piece = Vec::new();
        while self.offset < end {
            piece.clear();
            (&mut file).take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut piece).map_err(failure)?;
            let is_whole = piece.ends_with(b"\n");
            if !is_whole && piece.len() < MAX_LINE_BYTES {
                // The end; the agent may be about to write the rest of the line.
                self.is_at_end = true;
                if let Some(object) = if self.skips { None } else { object_in(py, &piece)? } {
                    self.offset += piece.len() as u64;
                    take(object)?;
                }
                return Ok(());
            }
            self.offset += piece.len() as u64;
            if self.skips || !is_whole {
                self.broken += usize::from(is_whole);
                self.skips = !is_whole;
                continue;
            }
            match object_in(py, &piece)? {
                Some(object) => take(object)?,
                None if piece.iter().all(|&byte| byte.is_ascii_whitespace() || byte == 0x0B) => {}
                None => self.broken += 1,
            }
        }
        Ok(())
    }
}

/// The JSON object in a line, if it is one.
pub fn object_in<'py>(py: Python<'py>, line: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
    // `json` looks for the encoding of bytes, which takes as long as reading a short line; what begins so is UTF-8.
    let text = match std::str::from_utf8(line) {
        Ok(text) if line.starts_with(b"{\"") => PyString::new(py, text).into_any(),
        _ => PyBytes::new(py, line).into_any(),
    };
    Ok(json_value(&text)?.filter(|value| value.is_instance_of::<PyDict>()))
}
