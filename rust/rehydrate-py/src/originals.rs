//! The originals of texts that prompts show in part, in the memory of this process, and the handles of texts.
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use blake2b_simd::Params;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::checks::{check_whole, refuse_copy};
use crate::convert::Given;
use crate::errors::raise;
use crate::exit::Running;

const MAX_BYTES: u64 = 256 << 20;
/// Handles that are remembered after their texts went.
const MAX_DROPPED: usize = 65_536;
const BASE_32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The handle of a text that is held in this process or in a thread: 128 bits that identify it.
#[pyfunction]
pub fn handle_of_text(text: &Bound<'_, PyString>) -> PyResult<String> {
    // Not its own UTF-8, which the string would keep from then on. Halves of surrogate pairs are bytes like any other.
    let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
    let digest = Params::new().hash_length(16).hash(bytes.cast::<PyBytes>()?.as_bytes());
    let (mut handle, mut bits, mut count) = (String::from("orig_"), 0u32, 0);
    for byte in digest.as_bytes() {
        (bits, count) = (bits << 8 | u32::from(*byte), count + 8);
        while count >= 5 {
            count -= 5;
            handle.push(char::from(BASE_32[(bits >> count & 31) as usize]));
        }
        bits &= (1 << count) - 1;
    }
    handle.push(char::from(BASE_32[(bits << (5 - count) & 31) as usize]));
    Ok(handle)
}

/// Originals in the memory of this process, for any number of threads.
///
/// Above ``max_bytes`` the least recently used texts are dropped. Every compilation stores the originals of its prompt
/// again, so those of the last prompt are the newest. Texts are held, not copied. Use one store for each tenant.
///
/// >>> held = HeldOriginals()
/// >>> handle = held.put("all of it")
/// >>> handle, held.get(handle)
/// ('orig_vhh7ct57t2hzgfssmrwpmoggtm', 'all of it')
#[pyclass(frozen, subclass, module = "rehydrate._native")]
pub struct HeldOriginals {
    max_bytes: Py<PyAny>,
    most: u64,
    /// Never locked while Python code runs: a forked child finds it free.
    texts: Mutex<Texts>,
}

#[derive(Default)]
struct Texts {
    /// By its handle, a text and its size when it came: a string grows when its UTF-8 is asked for.
    held: HashMap<String, (Py<PyString>, u64)>,
    used: ByUse,
    dropped: ByUse,
    bytes: u64,
}

/// Handles by their last use.
#[derive(Default)]
struct ByUse {
    handles: BTreeMap<u64, String>,
    uses: HashMap<String, u64>,
    last: u64,
}

impl ByUse {
    fn add(&mut self, handle: &str) {
        self.remove(handle);
        self.last += 1;
        self.handles.insert(self.last, handle.to_owned());
        self.uses.insert(handle.to_owned(), self.last);
    }

    fn remove(&mut self, handle: &str) {
        if let Some(use_) = self.uses.remove(handle) {
            self.handles.remove(&use_);
        }
    }

    fn take_oldest(&mut self) -> Option<String> {
        let (_, handle) = self.handles.pop_first()?;
        self.uses.remove(&handle);
        Some(handle)
    }
}

#[pymethods]
impl HeldOriginals {
    /// Set the limit. Raises InvalidArgumentError if it is not a whole number from 1 up.
    #[new]
    #[pyo3(signature = (max_bytes=Given::USUAL), text_signature = "(max_bytes=268435456)")]
    fn new(py: Python<'_>, max_bytes: Given<'_>) -> PyResult<Self> {
        let _running = Running::begin();
        let max_bytes = max_bytes.0.map_or_else(|| Ok(MAX_BYTES.into_pyobject(py)?.into_any()), PyResult::Ok)?;
        check_whole("max_bytes", &max_bytes, 1, None, false)?;
        let most = max_bytes.extract().unwrap_or(u64::MAX);
        Ok(Self { max_bytes: max_bytes.unbind(), most, texts: Mutex::default() })
    }

    /// The size of all texts held.
    #[getter]
    fn held_bytes(&self) -> u64 {
        self.texts().bytes
    }

    /// Raise InvalidArgumentError: it may hold gigabytes, and handles lead to this one.
    fn __reduce__(&self, py: Python<'_>) -> PyResult<()> {
        refuse_copy(py, "HeldOriginals", "share this one, or take MemoryOriginals, which outlive the process")
    }

    /// Return the number of texts held.
    fn __len__(&self) -> usize {
        self.texts().held.len()
    }

    /// Hold the text. Raises OriginalsFullError if it is larger than ``max_bytes``.
    #[pyo3(signature = (text, /, *, about=None))]
    fn put(&self, text: &Bound<'_, PyString>, about: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let _running = Running::begin();
        let _ = about; // of use for stores that outlive the process
        let (py, handle) = (text.py(), handle_of_text(text)?);
        let size: u64 = py.import("sys")?.call_method1("getsizeof", (text,))?.extract()?;
        if size > self.most {
            return Err(raise(py, "OriginalsFullError", (size, &self.max_bytes)));
        }
        let mut gone = Vec::new(); // let go of once nothing is locked: a text may be of a class with a `__del__`
        let mut texts = self.texts();
        if !texts.held.contains_key(&handle) {
            texts.held.insert(handle.clone(), (text.clone().unbind(), size));
            texts.bytes += size;
            texts.dropped.remove(&handle);
        }
        texts.used.add(&handle);
        while texts.bytes > self.most
            && let Some(oldest) = texts.used.take_oldest()
        {
            if let Some((text, size)) = texts.held.remove(&oldest) {
                texts.bytes -= size;
                gone.push(text);
            }
            texts.dropped.add(&oldest);
            if texts.dropped.uses.len() > MAX_DROPPED {
                texts.dropped.take_oldest();
            }
        }
        drop(texts);
        drop(gone);
        Ok(handle)
    }

    /// Return the text.
    ///
    /// Raises OriginalGoneError for a text that was dropped to make room, and UnknownHandleError for a handle that was not
    /// given out.
    #[pyo3(signature = (handle, /))]
    fn get(&self, handle: &Bound<'_, PyAny>) -> PyResult<Py<PyString>> {
        let _running = Running::begin();
        let (py, name) = (handle.py(), handle.extract::<String>().unwrap_or_default());
        let was_dropped = {
            let mut texts = self.texts();
            if let Some((text, _)) = texts.held.get(&name) {
                let text = text.clone_ref(py);
                texts.used.add(&name);
                return Ok(text);
            }
            texts.dropped.uses.contains_key(&name)
        };
        if was_dropped {
            return Err(raise(py, "OriginalGoneError", (handle, &self.max_bytes)));
        }
        Err(raise(py, "UnknownHandleError", (handle, "originals")))
    }
}

impl HeldOriginals {
    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
