//! Neutral messages: a history is read into them, and a provider's messages are made from them.
//!
//! Every provider has the same few parts: texts, media, tool calls and their results. Parts that only one has (thinking with
//! its signature, a server's own tools) are not represented here.
use std::cell::Cell;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use rehydrate_core::conversation::Role;

use crate::errors::raise;
use crate::interned::interned;
use crate::reading::Id;

/// A part of a message.
#[derive(Clone)]
pub enum Part<'py> {
    Text(Bound<'py, PyString>),
    Media(Media<'py>),
    Call(Call<'py>),
    Result(Answer<'py>),
}

/// An image or a file: its bytes in base64, as a data URL, or its address.
#[derive(Clone)]
pub struct Media<'py> {
    pub is_image: bool,
    pub url: Bound<'py, PyString>,
    pub name: Bound<'py, PyString>,
}

impl<'py> Media<'py> {
    /// What a data URL says of its type.
    pub fn type_in(url: &str) -> Option<&str> {
        url.strip_prefix("data:")?.split([';', ',']).next()
    }

    /// The media type and the base64 of a data URL, however it is spelled.
    pub fn base64_in(url: &str) -> Option<(String, &str)> {
        let beginning = url.get(..5)?;
        let (head, data) = url.split_once(',').filter(|_| beginning.eq_ignore_ascii_case("data:"))?;
        let head = head.to_ascii_lowercase();
        let kind = head.strip_suffix(";base64")?.strip_prefix("data:")?.split(';').next()?;
        Some((if kind == "image/jpg" { "image/jpeg" } else { kind }.to_owned(), data))
    }
}

/// A tool call; the input is a string if it isn't a JSON object.
#[derive(Clone)]
pub struct Call<'py> {
    pub id: Option<Bound<'py, PyString>>,
    pub name: Bound<'py, PyAny>,
    pub input: Bound<'py, PyAny>,
}

/// A tool's result: texts and media.
#[derive(Clone)]
pub struct Answer<'py> {
    pub id: Option<Bound<'py, PyString>>,
    pub parts: Vec<Part<'py>>,
    pub is_error: bool,
}

/// One message of one role: the system's, the assistant's, or any other, which is sent as the user's, also for results of
/// tools.
#[derive(Clone)]
pub struct Message<'py> {
    pub role: Role,
    pub parts: Vec<Part<'py>>,
    /// The indices of its entries in the history.
    pub sources: Sources,
    /// The entry itself, if it is only a role and a text: every provider accepts it unchanged.
    pub entry: Option<Bound<'py, PyAny>>,
}

impl<'py> Message<'py> {
    pub fn new(role: Role, parts: Vec<Part<'py>>, sources: Sources) -> Self {
        Self { role, parts, sources, entry: None }
    }

    /// Its first entry.
    pub fn first(&self) -> usize {
        self.sources.first().copied().unwrap_or_default()
    }

    /// All its texts, an empty line between them.
    pub fn text(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        texts_of(py, &self.parts)
    }

    /// A system entry among messages as a user message that says it is one. None if it has no text.
    pub fn as_users(
        &self,
        py: Python<'py>,
        user: impl FnOnce(&Bound<'py, PyString>) -> PyResult<Bound<'py, PyDict>>,
    ) -> PyResult<Option<Sent<'py>>> {
        let text = self.text(py)?;
        if text.is_empty()? {
            return Ok(None);
        }
        Ok(Some(Sent::new(user(&after("[system]\n", &text)?)?, &self.sources)))
    }

    pub fn calls(&self) -> impl Iterator<Item = &Call<'py>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
    }

    pub fn answers(&self) -> impl Iterator<Item = &Answer<'py>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Result(answer) => Some(answer),
            _ => None,
        })
    }
}

/// The indices of the entries of a message. The messages that one entry becomes share them.
pub type Sources = Rc<[usize]>;

/// A message as it is sent, and the indices of its entries.
#[derive(Clone)]
pub struct Sent<'py> {
    pub message: Bound<'py, PyAny>,
    pub sources: Sources,
}

impl<'py> Sent<'py> {
    pub fn new(message: Bound<'py, PyDict>, sources: &Sources) -> Self {
        Self { message: message.into_any(), sources: Sources::clone(sources) }
    }
}

/// The depth to which contents in contents are followed: each level takes some of the stack.
const MAX_NESTED: usize = 256;

thread_local! {
    static NESTED: Cell<usize> = const { Cell::new(0) };
}

/// One level further down in contents of contents, until it is dropped.
pub struct Level;

impl Level {
    pub fn down(py: Python<'_>, index: usize) -> PyResult<Self> {
        if NESTED.get() == MAX_NESTED {
            let (expected, remedy) = ("contents in contents, 256 deep at most", "send what is inside as text");
            return Err(raise(py, "InvalidMessageError", (index, "content", PyList::empty(py), expected, remedy)));
        }
        NESTED.set(NESTED.get() + 1);
        Ok(Self)
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

/// The texts of parts, an empty line between them.
pub fn texts_of<'py>(py: Python<'py>, parts: &[Part<'py>]) -> PyResult<Bound<'py, PyString>> {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.clone()),
        _ => None,
    });
    joined(interned!(py, "\n\n"), texts.collect())
}

/// Texts with another between them.
pub fn joined<'py>(between: &Bound<'py, PyString>, texts: Vec<Bound<'py, PyString>>) -> PyResult<Bound<'py, PyString>> {
    let texts = PyList::new(between.py(), texts)?;
    Ok(between.call_method1(interned!(between.py(), "join"), (texts,))?.cast_into()?)
}

/// Two texts as one.
pub fn after<'py>(before: &str, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    joined(&PyString::new(text.py(), before), vec![PyString::new(text.py(), ""), text.clone()])
}

/// An id as it is compared; None is one too.
pub type Key = Option<Vec<u8>>;

pub fn key_of(id: Option<&Bound<'_, PyString>>) -> PyResult<Key> {
    id.map(|id| Ok(Id::of(id.clone())?.as_bytes().to_vec())).transpose()
}

/// `dict!(py, "role": role, "content": content)`: a new dict, its keys in this order.
macro_rules! dict {
    ($py:expr $(, $key:literal : $value:expr)* $(,)?) => {{
        let made = pyo3::types::PyDict::new($py);
        $(made.set_item($crate::interned::interned!($py, $key), $value)?;)*
        made
    }};
}
pub(crate) use dict;
