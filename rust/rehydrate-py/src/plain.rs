//! Python's values as those of JSON: records as objects, tuples as lists, times in ISO 8601.
use pyo3::exceptions::{PyRecursionError, PyUnicodeDecodeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple, PyType};

use crate::convert::{bytes_of, string_of};
use crate::errors::raise;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::is_langchain_message;

/// Levels of values in one another.
const MAX_DEPTH: usize = 900;
/// The places where bytes are base64: pictures of Converse's in entries and requests.
const OF_MESSAGES: [&str; 2] = ["history.entries", "request.messages"];

/// Any value as JSON's. A value without a form of its own is written as a text. Raises RecursionError.
#[pyfunction]
pub fn plain<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    any(value, MAX_DEPTH)
}

/// A value of an IR as JSON's, to be read back. `path` is its place in the document.
///
/// Raises UnreadableIRError, with the path, for a value that JSON cannot hold, and RecursionError.
#[pyfunction]
pub fn plain_at<'py>(value: &Bound<'py, PyAny>, path: &str) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    let py = value.py();
    let module = |name: &str, class: &str| py.import(name)?.getattr(class);
    let classes = Classes {
        enumeration: module("enum", "Enum")?,
        texts: module("enum", "StrEnum")?,
        datetime: module("datetime", "datetime")?,
    };
    classes.readable(value, &At::Path(path), MAX_DEPTH)
}

/// None, or exactly a string, a number or a truth value.
fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBool>()
}

fn is_exactly_list(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyList>() || value.is_exact_instance_of::<PyTuple>()
}

/// A list of the written values.
fn listed<'py>(
    values: &Bound<'py, PyAny>,
    of: impl Fn(&Bound<'py, PyAny>, usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let made = PyList::empty(values.py());
    for (number, one) in values.try_iter()?.enumerate() {
        made.append(of(&one?, number)?)?;
    }
    Ok(made.into_any())
}

fn deeper(depth: usize) -> PyResult<usize> {
    depth.checked_sub(1).ok_or_else(|| PyRecursionError::new_err("maximum depth of a value exceeded"))
}

fn is_class(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyType>()
}

/// A number or a text of a subclass as one of the class itself.
fn as_itself<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    let class = match () {
        () if value.is_instance_of::<PyString>() => py.get_type::<PyString>(),
        () if value.is_instance_of::<PyInt>() => py.get_type::<PyInt>(),
        () if value.is_instance_of::<PyFloat>() => py.get_type::<PyFloat>(),
        () => return Ok(None),
    };
    class.call1((value,)).map(Some)
}

fn base64<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let encoded = value.py().import("base64")?.call_method1("b64encode", (value,))?;
    encoded.call_method1("decode", ("ascii",))
}

fn is_bytes(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>()
}

fn any<'py>(value: &Bound<'py, PyAny>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
    if is_plain(value) {
        return Ok(value.clone());
    }
    let (py, depth) = (value.py(), deeper(depth)?);
    if is_exactly_list(value) {
        return listed(value, |one, _| any(one, depth));
    }
    if !value.is_exact_instance_of::<PyDict>() && value.is_instance(&py.import("enum")?.getattr("Enum")?)? {
        return any(&value.getattr(interned!(py, "value"))?, depth);
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let made = PyDict::new(py);
        for pair in mapping.items()? {
            let (key, one): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair.extract()?;
            let mut key = any(&key, depth)?;
            if !key.is_instance_of::<PyString>() {
                key = py.import("json")?.call_method1("dumps", (key,))?;
            }
            made.set_item(key, any(&one, depth)?)?;
        }
        return Ok(made.into_any());
    }
    if let Some(as_dict) = value.getattr_opt(interned!(py, "_asdict"))? {
        return any(&as_dict.call0()?, depth);
    }
    if !is_class(value) && value.hasattr(interned!(py, "__dataclass_fields__"))? {
        let made = PyDict::new(py);
        for field in py.import("dataclasses")?.call_method1("fields", (value,))?.try_iter()? {
            let name: Bound<'py, PyString> = field?.getattr(interned!(py, "name"))?.cast_into()?;
            made.set_item(&name, any(&value.getattr(&name)?, depth)?)?;
        }
        return Ok(made.into_any());
    }
    let is_listed = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    if is_listed || value.is_instance(&py.import("collections.abc")?.getattr("Set")?)? {
        return listed(value, |one, _| any(one, depth));
    }
    let dump = value.getattr_opt(interned!(py, "model_dump"))?;
    if let Some(dump) = dump.filter(|dump| dump.is_callable() && !is_class(value)) {
        let how = PyDict::new(py);
        how.set_item("mode", "json")?;
        return any(&dump.call((), Some(&how))?, depth);
    }
    lone(value)
}

/// A value without parts as a text or a number.
fn lone<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let datetime = py.import("datetime")?;
    for class in ["datetime", "date", "time"] {
        if value.is_instance(&datetime.getattr(class)?)? {
            return value.call_method0("isoformat");
        }
    }
    if value.is_instance(&datetime.getattr("timedelta")?)? {
        return value.call_method0("total_seconds");
    }
    if is_bytes(value) {
        return match value.call_method0("decode") {
            Err(error) if error.is_instance_of::<PyUnicodeDecodeError>(py) => base64(value),
            text => text,
        };
    }
    if let Some(itself) = as_itself(value)? {
        return Ok(itself);
    }
    let to_list = value.getattr_opt(interned!(py, "tolist"))?; // numpy's
    match to_list.filter(|to_list| to_list.is_callable()) {
        Some(to_list) => to_list.call0(),
        None => Ok(value.str()?.into_any()),
    }
}

/// The place of a value in a document.
pub enum At<'a, 'py> {
    Path(&'a str),
    Field(&'a At<'a, 'py>, &'a Bound<'py, PyString>),
    Key(&'a At<'a, 'py>, &'a Bound<'py, PyString>),
    Index(&'a At<'a, 'py>, usize),
}

impl<'py> At<'_, 'py> {
    pub fn path(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let mut path = Vec::new();
        self.write(&mut path)?;
        string_of(py, &path)
    }

    fn write(&self, path: &mut Vec<u8>) -> PyResult<()> {
        match self {
            Self::Path(given) => path.extend(given.as_bytes()),
            Self::Field(of, name) | Self::Key(of, name) => {
                of.write(path)?;
                if !path.is_empty() || matches!(self, Self::Key(..)) {
                    path.push(b'.');
                }
                path.extend(&*bytes_of(name)?);
            }
            Self::Index(of, number) => {
                of.write(path)?;
                path.extend(format!("[{number}]").as_bytes());
            }
        }
        Ok(())
    }
}

/// The classes of values with a form of their own.
struct Classes<'py> {
    enumeration: Bound<'py, PyAny>,
    texts: Bound<'py, PyAny>,
    datetime: Bound<'py, PyAny>,
}

impl<'py> Classes<'py> {
    fn readable(&self, value: &Bound<'py, PyAny>, at: &At<'_, 'py>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        if is_plain(value) {
            return Ok(value.clone());
        }
        let (py, depth) = (value.py(), deeper(depth)?);
        let one_of = |one: &Bound<'py, PyAny>, number| self.readable(one, &At::Index(at, number), depth);
        if is_exactly_list(value) {
            return listed(value, one_of);
        }
        if let Ok(mapping) = value.cast::<PyMapping>() {
            return self.object(mapping, at, depth);
        }
        if let Some(names) = names_of(value)? {
            let made = PyDict::new(py);
            for name in names {
                made.set_item(&name, self.readable(&value.getattr(&name)?, &At::Field(at, &name), depth)?)?;
            }
            return Ok(made.into_any());
        }
        if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            return listed(value, one_of);
        }
        if let Some(dump) = value.getattr_opt(interned!(py, "model_dump"))? {
            let how = PyDict::new(py);
            if !is_langchain_message(value)? {
                how.set_item("mode", "json")?; // a message of LangChain's is read back, with what is None in it
                how.set_item("exclude_none", true)?;
            }
            return self.readable(&dump.call((), Some(&how))?, at, depth);
        }
        self.lone(value, at)
    }

    fn object(&self, mapping: &Bound<'py, PyMapping>, at: &At<'_, 'py>, depth: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = mapping.py();
        let pairs = mapping.items()?.extract::<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>>()?;
        for (key, _) in &pairs {
            if !key.is_instance_of::<PyString>() {
                let problem = format!("has the key {}", key.repr()?.to_string_lossy());
                return Err(raise(py, "UnreadableIRError", (at.path(py)?, problem, "pass strings as keys")));
            }
        }
        let made = PyDict::new(py);
        for (key, one) in &pairs {
            let one = self.readable(one, &At::Key(at, key.cast()?), depth)?;
            made.set_item(key, one)?;
        }
        Ok(made.into_any())
    }

    /// A value without parts.
    fn lone(&self, value: &Bound<'py, PyAny>, at: &At<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        if value.is_instance(&self.enumeration)? {
            if value.is_instance(&self.texts)? {
                return Ok(value.getattr(interned!(py, "value"))?.str()?.into_any());
            }
            return value.getattr(interned!(py, "name"))?.call_method0("lower");
        }
        if value.is_instance(&self.datetime)? {
            return value.call_method0("isoformat");
        }
        if is_bytes(value) {
            let path = at.path(py)?;
            if OF_MESSAGES.iter().any(|messages| path.to_string_lossy().starts_with(messages)) {
                return base64(value);
            }
        }
        if let Some(itself) = as_itself(value)? {
            return Ok(itself);
        }
        let problem = format!("is of type {}", value.get_type().name()?.to_string_lossy());
        let remedy = "pass texts, numbers, lists and dicts of these";
        Err(raise(py, "UnreadableIRError", (at.path(py)?, problem, remedy)))
    }
}

/// The names of the fields of a named tuple, or of a dataclass as it is made. None for any other value.
pub fn names_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyString>>>> {
    let py = value.py();
    if let Some(names) = value.getattr_opt(interned!(py, "_fields"))? {
        return names.extract().map(Some);
    }
    if is_class(value) || !value.hasattr(interned!(py, "__dataclass_fields__"))? {
        return Ok(None);
    }
    let mut names = Vec::new();
    for field in py.import("dataclasses")?.call_method1("fields", (value,))?.try_iter()? {
        let field = field?;
        if field.getattr(interned!(py, "init"))?.is_truthy()? {
            names.push(field.getattr(interned!(py, "name"))?.cast_into()?);
        }
    }
    Ok(Some(names))
}
