//! The caller's mappings and lists, of any class, and the errors for values that are neither.
use std::borrow::Cow;
use std::collections::VecDeque;

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyMapping, PyString, PyTuple};
use rustc_hash::FxHashMap;

use super::checks::no_mapping;
use super::langchain::is_langchain_message;
use crate::errors::raise;
use crate::exit::Running;
use crate::interned::interned;

/// `str(value)`. A number with more digits than `str` accepts is written in hexadecimal.
pub fn string_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    match value.str() {
        Err(_) if value.is_exact_instance_of::<PyInt>() => {
            Ok(value.py().import("builtins")?.call_method1("hex", (value,))?.cast_into()?)
        }
        shown => shown,
    }
}

/// A mapping: nearly always a dict.
#[derive(Clone, Copy)]
pub struct Fields<'a, 'py>(&'a Bound<'py, PyAny>);

impl<'a, 'py> Fields<'a, 'py> {
    /// The value as a mapping, if it is one.
    pub fn of(value: &'a Bound<'py, PyAny>) -> Option<Self> {
        // The check against an abstract class costs ten times as much, and PyO3 drops a Ctrl-C that is raised in it.
        let is_other = value.is_exact_instance_of::<PyString>() || is_list(value);
        let is_one = value.is_exact_instance_of::<PyDict>() || !is_other && value.cast::<PyMapping>().is_ok();
        is_one.then_some(Self(value))
    }

    /// The value as a mapping; else the error that says how to convert it.
    pub fn needed(value: &'a Bound<'py, PyAny>, index: usize, part: impl FnOnce() -> String) -> PyResult<Self> {
        match Self::of(value) {
            Some(fields) => Ok(fields),
            None => Err(no_mapping(value, index, &part())),
        }
    }

    /// The value under a key; None if it is not there, or null.
    pub fn get(self, key: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = match self.0.cast_exact::<PyDict>() {
            Ok(dict) => dict.get_item(key)?,
            Err(_) => Some(self.0.call_method1(interned!(self.0.py(), "get"), (key,))?),
        };
        Ok(found.filter(|value| !value.is_none()))
    }

    /// The string under a key.
    pub fn text(self, key: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyString>>> {
        Ok(self.get(key)?.and_then(|value| value.cast_into().ok()))
    }

    /// The string under a key, if it is not of another class that derives from `str`.
    pub fn exact_text(self, key: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyString>>> {
        Ok(self.get(key)?.and_then(|value| value.cast_into_exact().ok()))
    }

    /// Whether something that Python takes for true is under a key.
    pub fn is_set(self, key: &Bound<'py, PyString>) -> PyResult<bool> {
        self.get(key)?.map_or(Ok(false), |value| value.is_truthy())
    }

    /// The type of a block. None if it has none, or one that isn't a string.
    pub fn kind(self) -> PyResult<Kind<'py>> {
        Ok(Kind(self.text(interned!(self.0.py(), "type"))?))
    }

    pub fn has(self, key: &Bound<'py, PyString>) -> PyResult<bool> {
        self.0.contains(key)
    }

    pub fn len(self) -> PyResult<usize> {
        self.0.cast_exact::<PyDict>().map_or_else(|_| self.0.len(), |dict| Ok(dict.len()))
    }

    /// Whether it is exactly a dict, of at most this many keys.
    pub fn is_small(self, keys: usize) -> bool {
        self.0.cast_exact::<PyDict>().is_ok_and(|dict| dict.len() <= keys)
    }

    /// Whether it is exactly a dict, with no other keys than these.
    pub fn has_only(self, keys: &[&Bound<'py, PyString>]) -> PyResult<bool> {
        if !self.is_small(keys.len()) {
            return Ok(false);
        }
        let (all, mut found) = (self.len()?, 0);
        for key in keys {
            found += usize::from(self.has(key)?);
        }
        Ok(found == all)
    }

    pub fn is_exactly_dict(self) -> bool {
        self.0.is_exact_instance_of::<PyDict>()
    }

    /// The keys, copied first: another thread may change the mapping meanwhile.
    pub fn keys(self) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let keys = match self.0.cast_exact::<PyDict>() {
            Ok(dict) => dict.keys().into_any(),
            Err(_) => self.0.clone(),
        };
        keys.try_iter()?.collect()
    }

    /// The items, copied first.
    pub fn items(self) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let items = match self.0.cast_exact::<PyDict>() {
            Ok(dict) => dict.items().into_any(),
            Err(_) => self.0.call_method0("items")?,
        };
        items.try_iter()?.map(|item| item?.extract()).collect()
    }

    /// A copy with another value under a key.
    pub fn with(self, key: impl IntoPyObject<'py>, value: impl IntoPyObject<'py>) -> PyResult<Bound<'py, PyAny>> {
        let copy = PyDict::new(self.0.py());
        copy.update(self.0.cast()?)?;
        copy.set_item(key, value)?;
        Ok(copy.into_any())
    }

    pub fn as_any(self) -> &'a Bound<'py, PyAny> {
        self.0
    }
}

/// The type of a block.
pub struct Kind<'py>(pub Option<Bound<'py, PyString>>);

impl Kind<'_> {
    /// Its name; "" without one.
    pub fn name(&self) -> Cow<'_, str> {
        self.0.as_ref().map_or(Cow::Borrowed(""), text_of)
    }
}

/// A string as UTF-8, with other characters in place of lone surrogates.
pub fn text_of<'a>(text: &'a Bound<'_, PyString>) -> Cow<'a, str> {
    text.to_str().map_or_else(|_| Cow::Owned(text.to_string_lossy().into_owned()), Cow::Borrowed)
}

/// Whether it is a list or a tuple.
pub fn is_list(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()
}

/// The values of a list or a tuple. None for anything else.
pub fn listed<'py>(value: Option<&Bound<'py, PyAny>>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    match value.filter(|value| is_list(value)) {
        Some(value) => value.try_iter()?.collect(),
        None => Ok(Vec::new()),
    }
}

/// What was found in each list at a level, so that a list which an object holds many times over is searched once. The
/// lists are held: while they are, nothing else has their addresses.
pub struct ByList<'py, T>(FxHashMap<(usize, usize), (Bound<'py, PyAny>, T)>);

impl<T> Default for ByList<'_, T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<'py, T: Clone> ByList<'py, T> {
    pub fn get(&self, list: &Bound<'py, PyAny>, level: usize) -> Option<T> {
        self.0.get(&(list.as_ptr() as usize, level)).map(|(_, found)| found.clone())
    }

    pub fn keep(&mut self, list: &Bound<'py, PyAny>, level: usize, found: T) {
        self.0.insert((list.as_ptr() as usize, level), (list.clone(), found));
    }
}

/// The error of a content that is neither text nor blocks.
pub fn wrong_content(content: &Bound<'_, PyAny>, index: usize, part: &str) -> PyErr {
    let remedy = if Fields::of(content).is_some() { "wrap the block in a list" } else { "convert it to a string" };
    let expected = "a string, a list of blocks or None";
    raise(content.py(), "InvalidMessageError", (index, part, content, expected, remedy))
}

/// The entry with these texts or inputs at their paths. The entry itself never changes.
#[pyfunction]
pub fn replace_texts<'py>(entry: &Bound<'py, PyAny>, texts: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    let mut read = Vec::new();
    for (path, text) in Fields::of(texts).map_or(Ok(Vec::new()), Fields::items)? {
        read.push((path.cast_into::<PyTuple>()?.iter().collect(), text));
    }
    replaced(entry, read)
}

type AtPath<'py> = (VecDeque<Bound<'py, PyAny>>, Bound<'py, PyAny>);

fn replaced<'py>(value: &Bound<'py, PyAny>, texts: Vec<AtPath<'py>>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let (places, mut inner): (_, Vec<(Bound<'py, PyAny>, Vec<AtPath<'py>>)>) = (PyDict::new(py), Vec::new());
    for (mut path, text) in texts {
        let Some(step) = path.pop_front() else { return Ok(text) };
        let place = match places.get_item(&step)? {
            Some(place) => place.extract()?,
            None => {
                places.set_item(&step, inner.len())?;
                inner.push((step, Vec::new()));
                inner.len() - 1
            }
        };
        inner[place].1.push((path, text));
    }
    if is_langchain_message(value)? {
        let fields = PyDict::new(py);
        for (step, below) in inner {
            let name = step.str()?;
            fields.set_item(&name, replaced(&value.getattr(&name)?, below)?)?;
        }
        let update = PyDict::new(py);
        update.set_item("update", fields)?;
        return value.call_method("model_copy", (), Some(&update));
    }
    let copy = match Fields::of(value) {
        Some(fields) => {
            let copy = PyDict::new(py);
            copy.update(fields.as_any().cast()?)?;
            copy.into_any()
        }
        None => PyList::new(py, value.try_iter()?.collect::<PyResult<Vec<_>>>()?)?.into_any(),
    };
    for (step, below) in inner {
        copy.set_item(&step, replaced(&copy.get_item(&step)?, below)?)?;
    }
    if value.is_instance_of::<PyTuple>() { Ok(copy.cast::<PyList>()?.to_tuple().into_any()) } else { Ok(copy) }
}

/// Calls a function of `rehydrate.formats._reading`.
pub fn python<'py>(py: Python<'py>, function: &str, arguments: impl PyCallArgs<'py>) -> PyResult<Bound<'py, PyAny>> {
    py.import("rehydrate.formats._reading")?.getattr(function)?.call1(arguments)
}
