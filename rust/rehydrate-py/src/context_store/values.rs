//! Items and operations from Python's values, and as such.
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rehydrate_core::context_store::{Heading, Item, Operation, OperationKind, Raw, Span, Status};
use std::sync::Arc;

use crate::convert::{NamedTuple, bytes_of, string_of};

const MODULE: &str = "rehydrate.context.context_store.operations";

/// A whole number; one that is too large is no entry and no item.
pub fn whole(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    match value.extract::<i64>() {
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => Ok(i64::MIN),
        read => read,
    }
}

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

/// An `Operation`.
pub fn operation(value: &Bound<'_, PyTuple>) -> PyResult<Operation> {
    let added = value.get_item(3)?;
    Ok(Operation {
        kind: named(&OperationKind::ALL, OperationKind::name, &value.get_item(0)?)?,
        item: value.get_item(1)?.extract()?,
        entry: value.get_item(2)?.extract()?,
        added: if added.is_none() { None } else { Some(Arc::new(item(&added)?)) },
        other: value.get_item(4)?.extract()?,
        used: raw(&value.get_item(5)?)?,
    })
}

/// An `Item`.
fn item(value: &Bound<'_, PyAny>) -> PyResult<Item> {
    let use_of = |used: Bound<'_, PyAny>| {
        let (used, entry): (Bound<'_, PyAny>, i64) = used.extract()?;
        Ok((raw(&used)?, entry))
    };
    Ok(Item {
        id: value.getattr("id")?.extract()?,
        heading: named(&Heading::ALL, Heading::name, &value.getattr("heading")?)?,
        kind: raw(&value.getattr("kind")?)?,
        key: raw(&value.getattr("key")?)?,
        text: raw(&value.getattr("text")?)?,
        span: span(&value.getattr("span")?)?,
        trust: value.getattr("trust")?.extract()?,
        strength: value.getattr("strength")?.extract()?,
        uses: value.getattr("uses")?.try_iter()?.map(|used| use_of(used?)).collect::<PyResult<_>>()?,
        status: named(&Status::ALL, Status::name, &value.getattr("status")?)?,
        other: value.getattr("other")?.extract()?,
    })
}

/// Makes `Item`s and `Operation`s.
pub struct Make<'py> {
    py: Python<'py>,
    item: Bound<'py, PyAny>,
    span: NamedTuple<'py>,
    operation: NamedTuple<'py>,
    headings: Vec<Bound<'py, PyAny>>,
    statuses: Vec<Bound<'py, PyAny>>,
    kinds: Vec<Bound<'py, PyAny>>,
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
            kinds: members("OperationKind")?,
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
            self.kinds[operation.kind as usize].clone(),
            self.number(operation.item),
            self.number(operation.entry),
            added,
            operation.other.into_pyobject(self.py)?.into_any(),
            self.text(&operation.used)?,
        ])
    }
}
