//! Python strings as they are read: texts, ids of tool calls, and numbers for ids.
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyString};
use rustc_hash::FxHashMap;

/// A Python string that is read as UTF-8.
pub enum Source {
    Borrowed(PyBackedStr),
    /// It holds lone surrogates: a copy with `?` in their place is read.
    Replaced(String, Py<PyString>),
    /// Not a Python string: text that a reader made of a tool's input.
    Written(Arc<str>),
}

impl Source {
    pub fn of(text: Bound<'_, PyString>) -> PyResult<Self> {
        let replaced = match PyBackedStr::try_from(text.clone()) {
            Ok(borrowed) => return Ok(Self::Borrowed(borrowed)),
            Err(_) => text.call_method1("encode", ("utf-8", "replace"))?,
        };
        Ok(Self::Replaced(String::from_utf8_lossy(replaced.extract()?).into_owned(), text.unbind()))
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Borrowed(text) => Self::Borrowed(text.clone_ref(py)),
            Self::Replaced(text, original) => Self::Replaced(text.clone(), original.clone_ref(py)),
            Self::Written(text) => Self::Written(text.clone()),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Replaced(text, _) => text,
            Self::Written(text) => text,
        }
    }

    pub fn to_py<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        match self {
            Self::Borrowed(text) => text.as_py_str().bind(py).clone(),
            Self::Replaced(_, original) => original.bind(py).clone(),
            Self::Written(text) => PyString::new(py, text),
        }
    }
}

/// An id of a tool call, as it is compared.
pub enum Id {
    Borrowed(PyBackedStr),
    /// It holds lone surrogates.
    Encoded(Vec<u8>, Py<PyString>),
}

impl Id {
    pub fn of(id: Bound<'_, PyString>) -> PyResult<Self> {
        let encoded = match PyBackedStr::try_from(id.clone()) {
            Ok(borrowed) => return Ok(Self::Borrowed(borrowed)),
            Err(_) => id.call_method1("encode", ("utf-8", "surrogatepass"))?,
        };
        Ok(Self::Encoded(encoded.extract()?, id.unbind()))
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Borrowed(id) => Self::Borrowed(id.clone_ref(py)),
            Self::Encoded(id, original) => Self::Encoded(id.clone(), original.clone_ref(py)),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(id) => id.as_str().as_bytes(),
            Self::Encoded(id, _) => id,
        }
    }

    pub fn to_py<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        match self {
            Self::Borrowed(id) => id.as_py_str().bind(py).clone(),
            Self::Encoded(_, original) => original.bind(py).clone(),
        }
    }
}

/// Numbers of ids from 0 up, as they come.
#[derive(Default)]
pub struct Numbers {
    of: FxHashMap<Vec<u8>, usize>,
    count: usize,
}

impl Numbers {
    pub fn of(&mut self, id: Bound<'_, PyString>) -> PyResult<usize> {
        let id = Id::of(id)?;
        if let Some(number) = self.of.get(id.as_bytes()) {
            return Ok(*number);
        }
        let number = self.new_one();
        self.of.insert(id.as_bytes().to_vec(), number);
        Ok(number)
    }

    /// The number of something without an id.
    pub fn new_one(&mut self) -> usize {
        self.count += 1;
        self.count - 1
    }
}

/// A Python string of bytes in which lone surrogates may be encoded.
pub fn of_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "surrogatepass")),
    }
}
