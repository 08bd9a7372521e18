//! The end of a transcript: its last turns, its last summary, and the path from a line back to a known one.
use std::fs::{File, metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use memchr::memmem::FinderRev;
use memchr::memrchr;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use super::entries::{MAX_STEPS, paired_entries, parent_of, said_entries};
use super::file::{MAX_LINE_BYTES, TranscriptReader, object_in};
use crate::convert::indices_in;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{Fields, taken_back, text_of};

/// User and assistant lines that a compaction looks at.
const LAST_TURNS: usize = 60;
/// Bytes that are read at first. More are read if they hold too few lines; reading the most of them takes 0.2 s. A file
/// may have 500 MB.
const TAIL_BYTES: [u64; 3] = [1_000_000, 4_000_000, 24_000_000];
/// That are looked through at once, backwards.
const BLOCK_BYTES: usize = 1 << 16;

/// The last spoken lines, oldest first, without results whose calls are not there. Raises OSError.
#[pyfunction]
pub fn last_turns<'py>(py: Python<'py>, path: PathBuf, agent: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let _running = Running::begin();
    let same = py.get_type::<PyString>();
    let mut found = Vec::new();
    for most in TAIL_BYTES {
        let (lines, is_whole) = last_objects(py, &path, most)?;
        found = said_entries(lines.as_any(), agent, same.as_any())?;
        if agent == "codex" {
            let gone = indices_in(taken_back(PyList::new(py, &found)?.as_any(), agent)?.as_any())?;
            let kept = found.into_iter().enumerate().filter(|(index, _)| !gone.contains(index));
            found = kept.map(|(_, entry)| entry).collect();
        }
        if found.len() >= LAST_TURNS || is_whole {
            break;
        }
    }
    let first = found.len().saturating_sub(LAST_TURNS);
    paired_entries(found.split_off(first), agent)
}

/// The last summary in a transcript of Codex. "" for none. Raises OSError.
#[pyfunction]
pub fn last_summary<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyString>> {
    let _running = Running::begin();
    let (lines, _) = last_objects(py, &path, TAIL_BYTES[TAIL_BYTES.len() - 1])?;
    let mut summary = PyString::new(py, "");
    for line in &lines {
        let line = Fields::needed(&line, 0, String::new)?;
        if line.kind()?.name() == "compacted"
            && let Some(payload) = line.get(interned!(py, "payload"))?
            && let Some(payload) = Fields::of(&payload)
        {
            summary = payload.text(interned!(py, "message"))?.unwrap_or_else(|| PyString::new(py, ""));
        }
    }
    Ok(summary)
}

/// The objects in the last `most` bytes of a file, and whether these are all.
fn last_objects<'py>(py: Python<'py>, path: &Path, most: u64) -> PyResult<(Bound<'py, PyList>, bool)> {
    let size = metadata(path)?.len();
    let begin = size.saturating_sub(most);
    let reader = TranscriptReader::new(path.to_owned(), begin, begin > 0);
    Ok((reader.objects(py, size - begin)?, begin == 0))
}

/// The id of the last known line, at this one or before it, or the id itself if there is none. The file is read
/// backwards from an offset on.
#[pyfunction]
pub fn known_ancestor<'py>(
    name: Bound<'py, PyString>,
    path: PathBuf,
    before: u64,
    known: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyString>> {
    let _running = Running::begin();
    let Some(mut lines) = (if known.contains(&name)? { None } else { LinesBefore::open(&path, before).ok() }) else {
        return Ok(name);
    };
    let mut found = name.clone();
    for _ in 0..MAX_STEPS {
        let Some(line) = lines.line_of(&found)? else { break };
        let parent = parent_of(Fields::needed(&line, 0, String::new)?)?;
        let Some(parent) = parent.and_then(|parent| parent.cast_into::<PyString>().ok()) else { break };
        if known.contains(&parent)? {
            return Ok(parent);
        }
        found = parent;
    }
    Ok(name)
}

/// The lines of a file, from the last before an offset to the first.
struct LinesBefore {
    file: File,
    end: u64,
}

impl LinesBefore {
    fn open(path: &Path, before: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let end = before.min(file.metadata()?.len());
        Ok(Self { file, end })
    }

    /// The next line that has this id. None if there is none, or the file cannot be read.
    fn line_of<'py>(&mut self, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = name.py();
        let needle: String = py.import("json")?.call_method1(interned!(py, "dumps"), (name,))?.extract()?;
        let wanted = text_of(name).into_owned();
        while let Ok(Some((start, line))) = py.detach(|| self.line_with(needle.as_bytes())) {
            self.end = start;
            if let Some(object) = object_in(py, &line)?
                && let Some(uuid) = Fields::needed(&object, 0, String::new)?.text(interned!(py, "uuid"))?
                && text_of(&uuid) == wanted
            {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    /// The next line that holds a text, and its beginning.
    fn line_with(&mut self, text: &[u8]) -> io::Result<Option<(u64, Vec<u8>)>> {
        let finder = FinderRev::new(text);
        let Some(found) = self.last(self.end, text.len(), |block| finder.rfind(block))? else { return Ok(None) };
        let start = self.last(found, 1, |block| memrchr(b'\n', block))?.map_or(0, |end| end + 1);
        let mut line = Vec::new();
        self.file.seek(SeekFrom::Start(start))?;
        let mut whole = (&mut self.file).take(MAX_LINE_BYTES as u64);
        // The line ends where it ends, even after the offset.
        io::BufRead::read_until(&mut io::BufReader::with_capacity(BLOCK_BYTES, &mut whole), b'\n', &mut line)?;
        Ok(Some((start, line)))
    }

    /// The offset of the last place before `end` that a search in a block finds, for something of this many bytes.
    fn last(
        &mut self,
        mut end: u64,
        length: usize,
        search: impl Fn(&[u8]) -> Option<usize>,
    ) -> io::Result<Option<u64>> {
        let mut block = Vec::new();
        let most = BLOCK_BYTES.max(2 * length) as u64;
        loop {
            let start = end.saturating_sub(most);
            self.file.seek(SeekFrom::Start(start))?;
            block.clear();
            (&mut self.file).take(end - start).read_to_end(&mut block)?;
            if let Some(found) = search(&block) {
                return Ok(Some(start + found as u64));
            }
            if start == 0 {
                return Ok(None);
            }
            end = start + length as u64 - 1; // it may extend across the two blocks
        }
    }
}
