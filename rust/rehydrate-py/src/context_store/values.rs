//! Items and operations for Python, and as they are written.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use rehydrate_core::context_store::{Heading, Item, Operation, OperationKind, Raw, Span, Status};
use std::sync::Arc;

use crate::convert::{NamedTuple, bytes_of, string_of};

const MODULE: &str = "rehydrate.context.context_store.operations";

pub fn raw(value: &Bound<'_, PyAny>) -> PyResult<Raw> {
    Ok(bytes_of(value.cast::<PyString>()?)?.into())
}

/// The one of these that has this name.
pub fn named<T: Copy>(all: &[T], name: fn(T) -> &'static str, value: &Bound<'_, PyAny>) -> PyResult<T> {
    let found = value.cast::<PyString>()?.to_str().ok().and_then(|value| all.iter().find(|one| name(**one) == value));
    found.copied().ok_or_else(|| PyValueError::new_err(format!("{value:?} is none of the store's names")))
}

pub fn heading(name: &str) -> PyResult<Heading> {
    let found = Heading::ALL.into_iter().find(|heading| heading.name() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("{name:?} is no heading")))
}

/// A `Span`.
pub fn span(value: &Bound<'_, PyAny>) -> PyResult<Span> {
    let (entry, piece, start, end, digest) = value.extract()?;
    Ok(Span { entry, piece, start, end, digest })
}

/// An operation as it is written; `text_of` gives the text of its item's span.
pub fn operation(fields: &Bound<'_, PyAny>, text_of: impl FnOnce(&Span) -> Raw) -> PyResult<Operation> {
    let item = fields.get_item("item")?.extract()?;
    let (other, used) = (optional(fields, "other")?, optional(fields, "use")?);
    Ok(Operation {
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
    text_of: impl FnOnce(&Span) -> Raw,
) -> PyResult<Arc<Item>> {
    let place = PyTuple::new(fields.py(), place.try_iter()?.collect::<PyResult<Vec<_>>>()?)?;
    let span = span(&place)?;
    let use_of = |used: Bound<'_, PyAny>| Ok((raw(&used.get_item(0)?)?, used.get_item(1)?.extract()?));
    Ok(Arc::new(Item {
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

/// An operation as it is written: JSON values. The text of its item is not in it, its span is.
pub fn written<'py>(py: Python<'py>, operation: &Operation) -> PyResult<Bound<'py, PyDict>> {
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
        let Span { entry, piece, start, end, digest } = &item.span;
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

/// Makes `Item`s and `Operation`s.
pub struct Make<'py> {
    py: Python<'py>,
    item: Bound<'py, PyAny>,
    span: NamedTuple<'py>,
    operation: NamedTuple<'py>,
    headings: Vec<Bound<'py, PyAny>>,
    statuses: Vec<Bound<'py, PyAny>>,
}

impl<'py> Make<'py> {
    pub fn new(py: Python<'py>) -> PyResult<Self> {
        let module = py.import(MODULE)?;
        let members = |class: &str| module.getattr(class)?.try_iter()?.collect::<PyResult<Vec<_>>>();
        Ok(Self {
            py,
            item: module.getattr("Item")?,
            span: NamedTuple::of(py, MODULE, "Span")?,
            operation: NamedTuple::of(py, MODULE, "Operation")?,
            headings: members("Heading")?,
            statuses: members("Status")?,
        })
    }

    fn text(&self, text: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        Ok(string_of(self.py, text)?.into_any())
    }

    fn number(&self, number: i64) -> Bound<'py, PyAny> {
        number.into_pyobject(self.py).unwrap_or_else(|never| match never {}).into_any()
    }

    pub fn item(&self, item: &Item) -> PyResult<Bound<'py, PyAny>> {
        let Span { entry, piece, start, end, digest } = &item.span;
        let [entry, piece, start, end] = [entry, piece, start, end].map(|place| self.number(*place));
        let span = self.span.make([entry, piece, start, end, PyString::new(self.py, digest).into_any()])?;
        let uses = item.uses.iter().map(|(used, entry)| Ok((self.text(used)?, *entry)));
        let uses = PyTuple::new(self.py, uses.collect::<PyResult<Vec<_>>>()?)?;
        self.item.call1((
            item.id,
            &self.headings[item.heading as usize],
            self.text(&item.kind)?,
            self.text(&item.key)?,
            self.text(&item.text)?,
            span,
            item.trust,
            item.strength,
            uses,
            &self.statuses[item.status as usize],
            item.other,
        ))
    }

    pub fn operation(&self, operation: &Operation) -> PyResult<Bound<'py, PyAny>> {
        let added = match &operation.added {
            Some(item) => self.item(item)?,
            None => self.py.None().into_bound(self.py),
        };
        self.operation.make([
            PyString::new(self.py, operation.kind.name()).into_any(),
            self.number(operation.item),
            self.number(operation.entry),
            added,
            operation.other.into_pyobject(self.py)?.into_any(),
            self.text(&operation.used)?,
        ])
    }
}
