//! Items and operations for Python, and as they are written.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rehydrate_core::context_store::{self as core, Heading, OperationKind, Raw, Status};
use rustc_hash::FxBuildHasher;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use crate::convert::{bytes_of, string_of};
use crate::exit::Running;

/// The module in which Python has the names of headings and states, and the table of tools.
pub const MODULE: &str = "rehydrate.context.context_store";

pub fn raw(value: &Bound<'_, PyAny>) -> PyResult<Raw> {
    Ok(bytes_of(value.cast::<PyString>()?)?.into())
}

/// The one of these that has this name.
pub fn named<T: Copy>(all: &[T], name: fn(T) -> &'static str, value: &Bound<'_, PyAny>) -> PyResult<T> {
    let found = value.cast::<PyString>()?.to_str().ok().and_then(|value| all.iter().find(|one| name(**one) == value));
    found.copied().ok_or_else(|| PyValueError::new_err(format!("{value:?} is none of the store's names")))
}

/// The span of an operation that was written.
fn span(value: &Bound<'_, PyAny>) -> PyResult<core::Span> {
    let (entry, piece, start, end, digest) = value.extract()?;
    Ok(core::Span { entry, piece, start, end, digest })
}

/// An operation as it is written; `text_of` gives the text of its item's span.
pub fn operation(fields: &Bound<'_, PyAny>, text_of: impl FnOnce(&core::Span) -> Raw) -> PyResult<core::Operation> {
    let item = fields.get_item("item")?.extract()?;
    let (other, used) = (optional(fields, "other")?, optional(fields, "use")?);
    Ok(core::Operation {
        kind: named(&OperationKind::ALL, OperationKind::name, &fields.get_item("op")?)?,
        item,
        entry: fields.get_item("entry")?.extract()?,
        added: optional(fields, "span")?.map(|place| added(item, fields, &place, text_of)).transpose()?,
        other: other.map(|other| other.extract()).transpose()?,
        used: used.map_or_else(|| Ok(Raw::default()), |used| raw(&used))?,
    })
}

/// The item that an operation adds.
fn added(
    id: i64,
    fields: &Bound<'_, PyAny>,
    place: &Bound<'_, PyAny>,
    text_of: impl FnOnce(&core::Span) -> Raw,
) -> PyResult<Arc<core::Item>> {
    let place = PyTuple::new(fields.py(), place.try_iter()?.collect::<PyResult<Vec<_>>>()?)?;
    let span = span(&place)?;
    let use_of = |used: Bound<'_, PyAny>| Ok((raw(&used.get_item(0)?)?, used.get_item(1)?.extract()?));
    Ok(Arc::new(core::Item {
        id,
        heading: named(&Heading::ALL, Heading::name, &fields.get_item("heading")?)?,
        kind: raw(&fields.get_item("kind")?)?,
        key: raw(&fields.get_item("key")?)?,
        text: text_of(&span),
        span,
        trust: fields.get_item("trust")?.extract()?,
        strength: fields.get_item("strength")?.extract()?,
        uses: fields.get_item("uses")?.try_iter()?.map(|used| use_of(used?)).collect::<PyResult<_>>()?,
        status: Status::Live,
        other: None,
    }))
}

fn optional<'py>(fields: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    if fields.contains(name)? { fields.get_item(name).map(Some) } else { Ok(None) }
}

/// An operation as it is written: JSON values. They hold the span of its item, and not its text.
pub fn written<'py>(py: Python<'py>, operation: &core::Operation) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("op", operation.kind.name())?;
    fields.set_item("item", operation.item)?;
    fields.set_item("entry", operation.entry)?;
    if let Some(other) = operation.other {
        fields.set_item("other", other)?;
    }
    if !operation.used.is_empty() {
        fields.set_item("use", string_of(py, &operation.used)?)?;
    }
    if let Some(item) = &operation.added {
        let core::Span { entry, piece, start, end, digest } = &item.span;
        let uses = item.uses.iter().map(|(used, entry)| {
            PyList::new(py, [string_of(py, used)?.into_any(), entry.into_pyobject(py)?.into_any()])
        });
        fields.set_item("heading", item.heading.name())?;
        fields.set_item("kind", string_of(py, &item.kind)?)?;
        fields.set_item("key", string_of(py, &item.key)?)?;
        let places = [entry, piece, start, end].map(|place| place.into_pyobject(py).map(Bound::into_any));
        let span = PyList::new(py, places.into_iter().collect::<Result<Vec<_>, _>>()?)?;
        span.append(digest)?;
        fields.set_item("span", span)?;
        fields.set_item("trust", item.trust)?;
        fields.set_item("strength", item.strength)?;
        fields.set_item("uses", uses.collect::<PyResult<Vec<_>>>()?)?;
    }
    Ok(fields)
}

/// A member of an enum of Python's.
fn member<'py>(py: Python<'py>, class: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import(MODULE)?.getattr(class)?.call1((name,))
}

/// A function and its arguments that make an equal value, for pickle and copy.
type Remade<'py, T> = (Bound<'py, PyAny>, T);

/// An item as it is written, its text, its state, and the item that replaces it.
type WrittenItem<'py> = (Bound<'py, PyDict>, Bound<'py, PyString>, &'static str, Option<i64>);

/// The hash of something.
fn hash_of(value: impl Hash) -> u64 {
    FxBuildHasher.hash_one(value)
}

/// The place of a text in the thread, word for word.
#[pyclass(frozen, eq, hash, module = "rehydrate._native")]
#[derive(PartialEq, Hash)]
pub struct Span(core::Span);

#[pymethods]
impl Span {
    #[new]
    fn new(entry: i64, piece: i64, start: i64, end: i64, digest: String) -> Self {
        Self(core::Span { entry, piece, start, end, digest })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Remade<'py, (i64, i64, i64, i64, &str)> {
        let core::Span { entry, piece, start, end, digest } = &self.0;
        (py.get_type::<Self>().into_any(), (*entry, *piece, *start, *end, digest))
    }

    /// The index of the entry in `Context.history`.
    #[getter]
    fn entry(&self) -> i64 {
        self.0.entry
    }

    /// The number of the text among the texts of the entry.
    #[getter]
    fn piece(&self) -> i64 {
        self.0.piece
    }

    /// Its beginning, in characters of that text.
    #[getter]
    fn start(&self) -> i64 {
        self.0.start
    }

    /// Its end.
    #[getter]
    fn end(&self) -> i64 {
        self.0.end
    }

    /// 64 bits of the text, hexadecimal, by which a wrong span is recognised.
    #[getter]
    fn digest(&self) -> &str {
        &self.0.digest
    }

    /// The handle by which ``fetch_whole`` reads the entry.
    #[getter]
    fn handle(&self) -> String {
        format!("#{}", self.0.entry)
    }

    /// It as JSON values.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let _running = Running::begin();
        let core::Span { entry, piece, start, end, digest } = &self.0;
        let fields = PyDict::new(py);
        for (name, place) in [("entry", entry), ("piece", piece), ("start", start), ("end", end)] {
            fields.set_item(name, place)?;
        }
        fields.set_item("digest", digest)?;
        Ok(fields)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let _running = Running::begin();
        Ok(format!("Span({})", self.to_dict(py)?))
    }
}

/// One thing in the store.
#[pyclass(frozen, eq, module = "rehydrate._native")]
#[derive(PartialEq)]
pub struct Item(pub Arc<core::Item>);

#[pymethods]
impl Item {
    /// The item that was written so, with its text and its state.
    #[staticmethod]
    fn _read(
        written: &Bound<'_, PyAny>,
        text: &Bound<'_, PyAny>,
        status: &Bound<'_, PyAny>,
        other: Option<i64>,
    ) -> PyResult<Self> {
        let _running = Running::begin();
        let text = raw(text)?;
        let added = operation(written, |_| text)?.added;
        let mut item = added.map(Arc::unwrap_or_clone).ok_or_else(|| PyValueError::new_err("it adds no item"))?;
        item.status = named(&Status::ALL, Status::name, status)?;
        item.other = other;
        Ok(Self(Arc::new(item)))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Remade<'py, WrittenItem<'py>>> {
        let _running = Running::begin();
        let (item, read) = (&self.0, py.get_type::<Self>().getattr("_read")?);
        let adds = core::Operation {
            kind: OperationKind::Add,
            item: item.id,
            entry: item.span.entry,
            added: Some(Arc::clone(item)),
            other: None,
            used: Raw::default(),
        };
        Ok((read, (written(py, &adds)?, self.text(py)?, item.status.name(), item.other)))
    }

    fn __hash__(&self) -> u64 {
        hash_of((self.0.id, &self.0.span))
    }

    #[getter]
    fn id(&self) -> i64 {
        self.0.id
    }

    #[getter]
    fn heading<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        member(py, "Heading", self.0.heading.name())
    }

    /// request, plan, task, decision, preference, file, note, error.
    #[getter]
    fn kind<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        string_of(py, &self.0.kind)
    }

    /// Two items of one heading and key are the same thing: a path, a call, a sentence.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        string_of(py, &self.0.key)
    }

    /// The text of its span.
    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        string_of(py, &self.0.text)
    }

    #[getter]
    fn span(&self) -> Span {
        Span(self.0.span.clone())
    }

    /// 1 for the user's words, less for a tool's result.
    #[getter]
    fn trust(&self) -> f64 {
        self.0.trust
    }

    /// The strength of a user's directive, 2 to 6: a prohibition has more than a wish. 0 for everything else.
    #[getter]
    fn strength(&self) -> i64 {
        self.0.strength
    }

    /// Its last uses, each with its entry: ("edited", 12).
    #[getter]
    fn uses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let uses = self.0.uses.iter().map(|(used, entry)| Ok((string_of(py, used)?, *entry)));
        PyTuple::new(py, uses.collect::<PyResult<Vec<_>>>()?)
    }

    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        member(py, "Status", self.0.status.name())
    }

    /// The id of the item that holds instead of it.
    #[getter]
    fn other(&self) -> Option<i64> {
        self.0.other
    }

    /// The last entry that referred to it.
    #[getter]
    fn last_entry(&self) -> i64 {
        self.0.last_entry()
    }

    /// Whether it is a file that was changed.
    #[getter]
    fn is_changed(&self) -> bool {
        self.0.is_changed()
    }

    /// It as JSON values.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let _running = Running::begin();
        let fields = PyDict::new(py);
        fields.set_item("id", self.id())?;
        fields.set_item("heading", self.0.heading.name())?;
        fields.set_item("kind", self.kind(py)?)?;
        fields.set_item("text", self.text(py)?)?;
        fields.set_item("handle", self.span().handle())?;
        fields.set_item("span", self.span().to_dict(py)?)?;
        fields.set_item("trust", self.trust())?;
        fields.set_item("strength", self.strength())?;
        let uses = self.0.uses.iter().map(|(used, entry)| {
            let fields = PyDict::new(py);
            fields.set_item("use", string_of(py, used)?)?;
            fields.set_item("entry", entry)?;
            Ok(fields)
        });
        fields.set_item("uses", uses.collect::<PyResult<Vec<_>>>()?)?;
        fields.set_item("status", self.0.status.name())?;
        fields.set_item("other", self.other())?;
        Ok(fields)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let _running = Running::begin();
        Ok(format!("Item({})", self.to_dict(py)?))
    }
}

/// One step of the store's log.
#[pyclass(frozen, eq, module = "rehydrate._native")]
#[derive(PartialEq)]
pub struct Operation(pub core::Operation);

#[pymethods]
impl Operation {
    /// The operation that was written so, with the text of its item.
    #[staticmethod]
    fn _read(written: &Bound<'_, PyAny>, text: &Bound<'_, PyAny>) -> PyResult<Self> {
        let _running = Running::begin();
        let text = raw(text)?;
        operation(written, |_| text).map(Self)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Remade<'py, (Bound<'py, PyDict>, Bound<'py, PyString>)>> {
        let _running = Running::begin();
        let text = self.0.added.as_ref().map_or(&[][..], |item| &item.text);
        Ok((py.get_type::<Self>().getattr("_read")?, (written(py, &self.0)?, string_of(py, text)?)))
    }

    fn __hash__(&self) -> u64 {
        let core::Operation { kind, item, entry, other, used, .. } = &self.0;
        hash_of((kind.name(), item, entry, other, used))
    }

    /// add, supersede, resolve, promote, fade.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind.name()
    }

    /// The id of the item.
    #[getter]
    fn item(&self) -> i64 {
        self.0.item
    }

    /// The entry that gave rise to it.
    #[getter]
    fn entry(&self) -> i64 {
        self.0.entry
    }

    /// The item, of an "add".
    #[getter]
    fn added(&self) -> Option<Item> {
        self.0.added.clone().map(Item)
    }

    /// The id of the item that holds instead, of a "supersede".
    #[getter]
    fn other(&self) -> Option<i64> {
        self.0.other
    }

    /// The use of the item, of a "promote".
    #[getter]
    fn r#use<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        string_of(py, &self.0.used)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let _running = Running::begin();
        Ok(format!("Operation({})", written(py, &self.0)?))
    }
}

/// The outcome of proposals.
#[pyclass(frozen, get_all, module = "rehydrate._native")]
pub struct Applied {
    pub operations: Vec<Py<Operation>>,
    /// The number of refused ones, by reason.
    pub refused: Py<PyDict>,
    /// Lines of the answer, or members of its list, that aren't proposals.
    pub unreadable: usize,
}

#[pymethods]
impl Applied {
    /// The outcome in words: "0 operations; 2 refused: its quote is too long".
    #[getter]
    fn summary(&self, py: Python<'_>) -> PyResult<String> {
        let count = self.operations.len();
        let mut parts = vec![format!("{count} operation{}", if count == 1 { "" } else { "s" })];
        for (why, count) in self.refused.bind(py) {
            parts.push(format!("{count} refused: {why}"));
        }
        if self.unreadable > 0 {
            parts.push(format!("{} unreadable", self.unreadable));
        }
        Ok(parts.join("; "))
    }
}
