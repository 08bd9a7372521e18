//! The transcripts in the folders of agents.
use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::PySlice;

use super::record::SessionRecord;
use crate::exit::Running;

/// The most files, the newest first. Older ones are found by hand.
const MAX_FILES: usize = 20_000;
/// The length of the UUID at the end of a name that Codex gives.
const ID_CHARS: isize = 36;

/// One transcript, as its folder lists it.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct SessionFile {
    #[pyo3(get)]
    pub path: PathBuf,
    #[pyo3(get)]
    pub agent: String,
    #[pyo3(get)]
    pub size: u64,
    pub mtime_ns: i64,
}

#[pymethods]
impl SessionFile {
    /// The agent's own name for the session.
    #[getter]
    pub fn id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        session_id(py, &self.path, &self.agent)
    }

    /// The number of bytes of it that are not read yet. None if there is nothing new to read.
    fn unread(&self, known: Option<&SessionRecord>) -> Option<u64> {
        known.map_or(Some(self.size), |record| record.unread(self))
    }
}

/// The name that an agent gives the session in a file: that of the file, or for Codex the UUID at its end.
pub fn session_id<'py>(py: Python<'py>, path: &Path, agent: &str) -> PyResult<Bound<'py, PyAny>> {
    let name = path.file_stem().unwrap_or_default().into_pyobject(py)?.into_any();
    let is_long = name.len()? > ID_CHARS.unsigned_abs();
    if agent == "codex" && is_long { name.get_item(PySlice::new(py, -ID_CHARS, isize::MAX, 1)) } else { Ok(name) }
}

/// The transcripts below these folders, each an agent's, the last changed first. Links are not followed, and folders that
/// cannot be read are left out. So are subagents' files: their results are in the session that started them.
#[pyfunction]
pub fn transcripts(py: Python<'_>, roots: Vec<(String, PathBuf)>) -> PyResult<Vec<SessionFile>> {
    let _running = Running::begin();
    Ok(py.detach(|| {
        let mut found = Vec::new();
        for (agent, root) in roots {
            let mut folders = vec![root];
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                    if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        folders.push(entry.path());
                    } else {
                        found.extend(session_in(&entry, &agent));
                    }
                }
            }
        }
        found.sort_by(|one, other| (Reverse(one.mtime_ns), &one.path).cmp(&(Reverse(other.mtime_ns), &other.path)));
        found.truncate(MAX_FILES);
        found
    }))
}

/// The transcript of an entry of a folder. None if it isn't one, or was removed just now.
fn session_in(entry: &fs::DirEntry, agent: &str) -> Option<SessionFile> {
    let name = entry.file_name();
    let name = name.as_encoded_bytes();
    if !name.ends_with(b".jsonl") || name.starts_with(b"agent-") {
        return None;
    }
    let status = entry.metadata().ok().filter(|status| status.is_file() && status.len() > 0)?;
    let mtime_ns = nanoseconds(status.modified().ok()?);
    Some(SessionFile { path: entry.path(), agent: agent.to_owned(), size: status.len(), mtime_ns })
}

/// Since 1970.
fn nanoseconds(time: SystemTime) -> i64 {
    let (sign, distance) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (1, after),
        Err(before) => (-1, before.duration()),
    };
    sign * i64::try_from(distance.as_nanos()).unwrap_or(i64::MAX)
}
