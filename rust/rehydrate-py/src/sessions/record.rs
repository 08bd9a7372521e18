//! One transcript as an index knows it: the offset up to which it was read, what its lines say of the session, and
//! reading on.
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyKeyError, PyOSError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rehydrate_core::context_store::digest;

use super::clock::{Clock, written};
use super::file::TranscriptReader;
use super::listing::{SessionFile, session_id};
use super::part::Part;
use crate::exit::Running;

/// The bytes at the start of a file that identify it: if they change, it is another file.
const HEAD_BYTES: u64 = 256;

/// One transcript as the index knows it.
#[pyclass(frozen, module = "rehydrate._native")]
#[derive(Clone, Default)]
pub struct SessionRecord {
    path: PathBuf,
    #[pyo3(get)]
    agent: String,
    size: u64,
    mtime_ns: i64,
    /// The offset up to which it was read.
    offset: u64,
    /// Whether that is in the middle of a line to pass over.
    skips: bool,
    #[pyo3(get)]
    is_at_end: bool,
    /// A digest of the first bytes; "" while there are too few.
    head: String,
    #[pyo3(get)]
    title: String,
    #[pyo3(get)]
    project: String,
    #[pyo3(get)]
    first: String,
    #[pyo3(get)]
    last: String,
    #[pyo3(get)]
    broken: usize,
    /// The ids of the last spoken line, and of those after it: a line that names another one went back.
    tips: Vec<String>,
}

/// One reading of a transcript.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct SessionPart {
    /// The record from now on.
    #[pyo3(get)]
    record: Py<SessionRecord>,
    /// Whether earlier knowledge of the session must be forgotten.
    #[pyo3(get)]
    begins_anew: bool,
    /// Chunks of the words, to be added in these batches: each a text and its time.
    #[pyo3(get)]
    batches: Py<PyList>,
    /// The number of bytes that were read. 0 if the file cannot be read.
    #[pyo3(get)]
    bytes: u64,
}

#[pymethods]
impl SessionRecord {
    /// The record in a row of the index's list. Raises KeyError, TypeError or ValueError for anything else.
    #[staticmethod]
    fn of(row: &Bound<'_, PyDict>) -> PyResult<Self> {
        let _running = Running::begin();
        let field = |name: &str| row.get_item(name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()));
        let text = |name: &str| field(name)?.extract::<String>();
        let bytes = |name: &str| field(name)?.extract::<u64>();
        Ok(Self {
            path: field("path")?.extract()?,
            agent: text("agent")?,
            size: bytes("size")?,
            mtime_ns: field("mtime_ns")?.extract()?,
            offset: bytes("offset")?,
            skips: field("skips")?.extract()?,
            is_at_end: field("is_at_end")?.extract()?,
            head: text("head")?,
            title: text("title")?,
            project: text("project")?,
            first: text("first")?,
            last: text("last")?,
            broken: field("broken")?.extract()?,
            tips: field("tips")?.extract()?,
        })
    }

    /// The row of the index's list.
    #[getter]
    fn row<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let _running = Running::begin();
        let row = PyDict::new(py);
        row.set_item("path", self.path())?;
        row.set_item("agent", &self.agent)?;
        row.set_item("id", self.id(py)?)?;
        row.set_item("size", self.size)?;
        row.set_item("mtime_ns", self.mtime_ns)?;
        row.set_item("offset", self.offset)?;
        row.set_item("skips", self.skips)?;
        row.set_item("is_at_end", self.is_at_end)?;
        row.set_item("head", &self.head)?;
        row.set_item("title", &self.title)?;
        row.set_item("project", &self.project)?;
        row.set_item("first", &self.first)?;
        row.set_item("last", &self.last)?;
        row.set_item("broken", self.broken)?;
        row.set_item("tips", PyTuple::new(py, &self.tips)?)?;
        Ok(row)
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    /// The agent's own name for the session.
    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        session_id(py, &self.path, &self.agent)
    }

    /// The source of its items: a digest, in which no secret can be.
    #[getter]
    fn source(&self) -> String {
        format!("session/{}", digest(self.path.as_os_str().as_encoded_bytes()))
    }

    /// Whether any of it may be from between these times, each of which may be missing.
    fn within(&self, after: &Bound<'_, PyAny>, before: &Bound<'_, PyAny>) -> PyResult<bool> {
        let _running = Running::begin();
        let clock = Clock::new(after.py())?;
        let time = |stamp: &str| clock.time(&PyString::new(after.py(), stamp));
        let begins = match time(&self.first)? {
            Some(first) if !before.is_none() => first.lt(before)?,
            _ => true,
        };
        Ok(begins
            && match time(&self.last)? {
                Some(last) if !after.is_none() => last.ge(after)?,
                _ => true,
            })
    }
}

impl SessionRecord {
    /// The number of bytes of its file that are not read yet. None if there is nothing new to read.
    pub fn unread(&self, file: &SessionFile) -> Option<u64> {
        let is_current = self.is_at_end && (self.size, self.mtime_ns) == (file.size, file.mtime_ns);
        (!is_current).then(|| file.size.saturating_sub(self.offset))
    }

    fn new(file: &SessionFile) -> Self {
        Self { path: file.path.clone(), agent: file.agent.clone(), ..Self::default() }
    }

    /// Note what lines say of their session as a whole. `changed` is the file's time.
    fn note(&mut self, part: Part<'_>, changed: String) {
        self.tips = part.tips;
        if self.project.is_empty() {
            self.project = part.project;
        }
        if !part.title.is_empty() {
            self.title = part.title;
        } else if self.title.is_empty() {
            self.title = part.words;
        }
        if let Some((first, last)) = part.times {
            if self.first.is_empty() || first < self.first {
                self.first = first;
            }
            self.last = last.max(std::mem::take(&mut self.last));
        }
        if self.last.is_empty() {
            self.last = changed;
        }
    }
}

/// Read about this many bytes of a transcript on from the place in its record, or from the beginning if the record no
/// longer holds. A file that cannot be read counts as read: it is tried again when it changes.
#[pyfunction]
pub fn read_session(
    py: Python<'_>,
    file: &SessionFile,
    known: Option<&SessionRecord>,
    max_bytes: u64,
) -> PyResult<SessionPart> {
    let _running = Running::begin();
    let head = match head_of(&file.path) {
        Ok(head) => head,
        Err(_) => return unreadable(py, file, known.cloned(), false),
    };
    let is_same = |known: &&SessionRecord| known.offset <= file.size && (known.head.is_empty() || known.head == head);
    let known = known.filter(is_same);
    let mut record = known.cloned().unwrap_or_else(|| SessionRecord::new(file));
    let (start, mut begins_anew) = (record.offset, known.is_none());
    let mut reader = TranscriptReader::new(file.path.clone(), start, record.skips);
    let mut part = Part::read(py, &reader, max_bytes, record.tips.clone());
    if start > 0 && reader.offset() <= max_bytes && part.as_ref().is_ok_and(|part| part.went_back) {
        // The session must be read again as a whole, without the messages that were taken back.
        (record, begins_anew) = (SessionRecord::new(file), true);
        reader = TranscriptReader::new(file.path.clone(), 0, false);
        part = Part::read(py, &reader, max_bytes, Vec::new());
    }
    let part = match part {
        Err(error) if error.is_instance_of::<PyOSError>(py) => {
            return unreadable(py, file, Some(record), begins_anew);
        }
        part => part?,
    };
    if file.size >= HEAD_BYTES {
        record.head = head;
    }
    let changed = Clock::new(py)?.after_epoch(file.mtime_ns)?;
    let batches = part.timed_batches(py, &changed)?.unbind();
    record.note(part, written(&changed)?);
    (record.offset, record.skips) = (reader.offset(), reader.skips());
    record.is_at_end = reader.is_at_end() || record.offset >= file.size;
    record.broken += reader.broken();
    let bytes = record.offset.saturating_sub(start).max(1);
    (record.size, record.mtime_ns) = (file.size, file.mtime_ns);
    Ok(SessionPart { record: Py::new(py, record)?, begins_anew, batches, bytes })
}

fn unreadable(
    py: Python<'_>,
    file: &SessionFile,
    known: Option<SessionRecord>,
    begins_anew: bool,
) -> PyResult<SessionPart> {
    let mut record = known.unwrap_or_else(|| SessionRecord::new(file));
    (record.is_at_end, record.size, record.mtime_ns) = (true, file.size, file.mtime_ns);
    Ok(SessionPart { record: Py::new(py, record)?, begins_anew, batches: PyList::empty(py).unbind(), bytes: 0 })
}

fn head_of(path: &Path) -> io::Result<String> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(digest(&head))
}
