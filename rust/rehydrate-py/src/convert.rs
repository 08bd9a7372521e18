//! Python values to the core's: texts without copying, vectors by buffer.
use std::borrow::Cow;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyList, PyMapping, PyString, PyTuple};
use rehydrate_core::error::Error;
use rustc_hash::FxHashSet;

use crate::caps::CodePoints;
use crate::errors::to_py;
use crate::exit::Running;

/// The UTF-8 of a Python string: borrowed from it, or, if it holds lone surrogates, a copy with `?` in their place.
pub enum Text {
    Borrowed(PyBackedStr),
    Replaced(String),
}

impl Text {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Replaced(text) => text,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Text {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let text = value.cast::<PyString>()?;
        match PyBackedStr::try_from(text.to_owned()) {
            Ok(borrowed) => Ok(Self::Borrowed(borrowed)),
            Err(_) => {
                let encoded = text.call_method1("encode", ("utf-8", "replace"))?;
                Ok(Self::Replaced(String::from_utf8_lossy(encoded.extract()?).into_owned()))
            }
        }
    }
}

/// An argument that the caller may give; None is a value like any other.
pub struct Given<'py>(pub Option<Bound<'py, PyAny>>);

impl Given<'_> {
    pub const USUAL: Self = Self(None);
}

impl<'a, 'py> FromPyObject<'a, 'py> for Given<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(Some(value.to_owned())))
    }
}

/// The indices in any collection.
pub fn indices_in(collection: &Bound<'_, PyAny>) -> PyResult<FxHashSet<usize>> {
    collection.try_iter()?.map(|index| index?.extract()).collect()
}

/// Makes Python's named tuples by `tuple.__new__`, without their own constructors.
pub struct NamedTuple<'py> {
    new: Bound<'py, PyAny>,
    class: Bound<'py, PyAny>,
}

impl<'py> NamedTuple<'py> {
    /// Those of a class of a module.
    pub fn of(py: Python<'py>, module: &str, class: &str) -> PyResult<Self> {
        let class = py.import(module)?.getattr(class)?;
        Ok(Self { new: py.get_type::<PyTuple>().getattr("__new__")?, class })
    }

    /// One with these values, in the order of its fields.
    pub fn make<const N: usize>(&self, values: [Bound<'py, PyAny>; N]) -> PyResult<Bound<'py, PyAny>> {
        self.new.call1((&self.class, PyTuple::new(self.new.py(), values)?))
    }
}

/// A Python string in which places are found. Half of a surrogate pair is a character that belongs to nothing.
pub struct Places(Text);

impl Places {
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Places {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = PyBackedStr::try_from(value.cast::<PyString>()?.to_owned()) {
            return Ok(Self(Text::Borrowed(text)));
        }
        let points: CodePoints = value.extract()?;
        let chars = points.0.into_iter().map(|point| char::from_u32(point).unwrap_or('\u{FFFF}'));
        Ok(Self(Text::Replaced(chars.collect())))
    }
}

/// Characters of entries that may be added on an event loop: they are read and counted at 20 MB/s or more.
const INLINE_CHARACTERS: usize = 64_000;
const INLINE_PARTS: usize = 4_000;

/// Whether entries are short enough to be read and counted on an event loop, whatever holds them.
#[pyfunction]
pub fn is_short_to_add(entries: Vec<Bound<'_, PyAny>>) -> PyResult<bool> {
    let _running = Running::begin();
    let (mut characters, mut parts, mut left) = (0, 0, entries);
    while let Some(value) = left.pop() {
        parts += 1;
        if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
            characters += value.len()?;
        } else if let Ok(mapping) = value.cast::<PyMapping>() {
            left.extend(mapping.values()?);
        } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            left.extend(value.try_iter()?.collect::<PyResult<Vec<_>>>()?);
        } else if let Ok(fields) = value.getattr("__dict__") {
            left.extend(fields.cast::<PyMapping>()?.values()?); // an object of an SDK's
        }
        if characters > INLINE_CHARACTERS || parts > INLINE_PARTS {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A matrix of 32-bit floats from anything with the buffer protocol (a C-contiguous numpy array).
pub fn floats(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    Ok(shaped_floats(py, value)?.1)
}

/// Its shape, and the numbers.
pub fn shaped_floats(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<(Vec<usize>, Vec<f32>)> {
    let buffer = PyBuffer::<f32>::get(value)
        .map_err(|_| to_py(py, &Error::Argument("vectors must be a C-contiguous float32 array".into())))?;
    Ok((buffer.shape().to_vec(), buffer.to_vec(py)?))
}

/// A Python string as UTF-8, in which a half of a surrogate pair is written like any other code point.
pub fn bytes_of<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, [u8]>> {
    match text.to_str() {
        Ok(text) => Ok(Cow::Borrowed(text.as_bytes())),
        Err(_) => Ok(Cow::Owned(text.call_method1("encode", ("utf-8", "surrogatepass"))?.extract()?)),
    }
}

/// The Python string for the result of `bytes_of`.
pub fn string_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(_) => {
            let decoded = PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "surrogatepass"))?;
            Ok(decoded.cast_into()?)
        }
    }
}

/// The first `count` characters of such a text.
pub fn first_characters(text: &[u8], count: usize) -> &[u8] {
    let is_start = |byte: &u8| !(0x80..0xC0).contains(byte);
    let end = text.iter().enumerate().filter(|(_, byte)| is_start(byte)).nth(count);
    &text[..end.map_or(text.len(), |(at, _)| at)]
}
