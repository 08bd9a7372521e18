//! The arguments and results of a store, as Python has them: the classes of `rehydrate.memory.items`.
use std::path::Path;

use once_cell::race::OnceBox;
use pyo3::exceptions::{
    PyAttributeError, PyOverflowError, PyRecursionError, PyTypeError, PyUnicodeEncodeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList, PyString, PyTuple};
use rehydrate_core::error::{Error, StoreProblem};
use rehydrate_core::index::Fusion;
use rehydrate_core::store::{Filter, Hit, Item, NewItem, Tier};

use super::checks::{checked_filters, checked_fusion, checked_handles, checked_limit, checked_tier, metadata_json};
use crate::checks::{check_string, refused, wrong_type};
use crate::convert::{NamedTuple, Text, shaped_floats};
use crate::errors::{raise, to_py};
use crate::interned::interned;

pub const TIERS: [(&str, Tier); 3] = [("hot", Tier::Hot), ("warm", Tier::Warm), ("cold", Tier::Cold)];

/// The bytes of a string: UTF-8, in which lone surrogates are written like other characters, and so come back.
pub struct RawText(pub Vec<u8>);

impl<'a, 'py> FromPyObject<'a, 'py> for RawText {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let text = value.cast::<PyString>()?;
        match PyBackedStr::try_from(text.to_owned()) {
            Ok(text) => Ok(Self(text.as_bytes().to_vec())),
            Err(_) => Ok(Self(text.call_method1("encode", ("utf-8", "surrogatepass"))?.extract()?)),
        }
    }
}

/// A name that a file can hold.
pub struct Name(pub String);

impl<'a, 'py> FromPyObject<'a, 'py> for Name {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        check_string("a text for the store", &value)?;
        value.extract().map(Self).map_err(|error: PyErr| {
            if !error.is_instance_of::<PyUnicodeEncodeError>(py) {
                return error;
            }
            let start = error.value(py).getattr("start").map_or_else(|_| "?".into(), |start| start.to_string());
            to_py(
                py,
                &Error::Argument(format!(
                    "a text for the store holds half of a surrogate pair at character {start}, which UTF-8 cannot hold; \
                     leave it out"
                )),
            )
        })
    }
}

/// One handle or several.
pub struct Handles(pub Vec<String>);

impl<'a, 'py> FromPyObject<'a, 'py> for Handles {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        checked_handles(&value)?.extract().map(|handles| Self(strings(handles)))
    }
}

/// Whether a store is only read.
pub struct Truth(pub bool);

impl<'a, 'py> FromPyObject<'a, 'py> for Truth {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let truth = value.cast::<PyBool>().map_err(|_| wrong_type("read_only", &value, "pass True or False"))?;
        Ok(Self(truth.is_true()))
    }
}

/// The most hits to return.
pub struct Limit(pub usize);

impl<'a, 'py> FromPyObject<'a, 'py> for Limit {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(checked_limit("limit", &value, None)?.extract().unwrap_or(usize::MAX)))
    }
}

/// A text that is compared, and not stored.
pub struct Query(pub Text);

impl<'a, 'py> FromPyObject<'a, 'py> for Query {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        check_string("query", &value)?;
        value.extract().map(Self)
    }
}

pub fn strings(names: Vec<Name>) -> Vec<String> {
    names.into_iter().map(|name| name.0).collect()
}

/// The tier of this name.
pub fn tier_of(name: &Bound<'_, PyAny>) -> PyResult<Tier> {
    checked_tier("tier", name)?;
    let name = name.extract::<PyBackedStr>()?;
    Ok(TIERS.into_iter().find(|(known, _)| *known == &*name).map_or(Tier::Warm, |(_, tier)| tier))
}

/// Rows of one model: `Vectors`.
pub struct Matrix {
    pub space: String,
    pub numbers: Vec<f32>,
    rows: usize,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Matrix {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        let part = |name| match value.getattr(name) {
            Err(error) if error.is_instance_of::<PyAttributeError>(py) => {
                Err(wrong_type("vectors", &value, "pass rehydrate.memory.Vectors(space, rows)"))
            }
            part => part,
        };
        let (space, rows) = (part("space")?.extract::<Name>()?.0, part("rows")?);
        let (shape, numbers) = shaped_floats(py, &rows)?;
        let rows = match shape[..] {
            [0] | [0, _] => 0,
            [_] => 1,
            [rows, dim] if dim > 0 => rows,
            _ => {
                let remedy = "pass an array of shape (texts, dimensions)";
                return Err(refused(py, format!("vectors have shape {shape:?}; {remedy}")));
            }
        };
        if numbers.iter().any(|x| !x.is_finite()) {
            return Err(refused(py, "a vector holds NaN or infinity; give zeros for no vector"));
        }
        Ok(Self { space, numbers, rows })
    }
}

impl Matrix {
    /// The rows, of which there must be this many; None: any number.
    pub fn rows(&self, count: Option<usize>) -> Result<Vec<&[f32]>, Error> {
        let dim = self.numbers.len().checked_div(self.rows).unwrap_or(0);
        if let Some(count) = count.filter(|&count| count != self.rows) {
            let shape = (self.rows, dim);
            return Err(Error::Argument(format!(
                "vectors have shape {shape:?} for {count} texts; give a row for each"
            )));
        }
        Ok(self.numbers.chunks_exact(dim.max(1)).collect())
    }
}

/// Components of a row, if `rows` has one for each of `count` items.
pub fn dim_of(rows: &[f32], count: usize) -> Result<usize, Error> {
    let dim = rows.len().checked_div(count).unwrap_or(0);
    if dim * count == rows.len() && (dim > 0 || rows.is_empty()) {
        return Ok(dim);
    }
    Err(Error::Argument(format!("vectors hold {} numbers for {count} texts; give a row for each", rows.len())))
}

/// The way to combine the legs of a search: a name, or the weights of text, trigram and vector.
pub struct FusionArgument(pub Fusion);

impl<'a, 'py> FromPyObject<'a, 'py> for FusionArgument {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let checked = checked_fusion(&value)?;
        if let Ok((text, trigram, vector)) = checked.extract::<(f32, f32, f32)>() {
            if [text, trigram, vector].iter().all(|weight| weight.is_finite()) {
                return Ok(Self(Fusion::Weighted { text, trigram, vector }));
            }
            return Err(refused(value.py(), "fusion has a weight that isn't a positive number"));
        }
        Ok(Self(match checked.extract::<Option<PyBackedStr>>()?.as_deref() {
            None => Fusion::default(),
            Some("reciprocal_rank") => Fusion::ReciprocalRank,
            Some("weighted") => Fusion::Weighted { text: 0.5, trigram: 0.3, vector: 0.2 },
            Some(_) => Fusion::Calibrated,
        }))
    }
}

/// Makes Python's values of the store's, and reads them.
pub struct Values<'py> {
    py: Python<'py>,
    of: &'static Found,
}

/// Names that are looked up once per process.
struct Found {
    items: Py<PyModule>,
    item: Py<PyAny>,
    epoch: Py<PyAny>,
    millisecond: Py<PyAny>,
    new_object: Py<PyAny>,
    set_attribute: Py<PyAny>,
    write_json: Py<PyAny>,
    read_json: Py<PyAny>,
}

static FOUND: OnceBox<Found> = OnceBox::new();

impl Found {
    fn look_up(py: Python<'_>) -> PyResult<Self> {
        let (items, json, object) = (py.import("rehydrate.memory.items")?, py.import("json")?, py.get_type::<PyAny>());
        Ok(Self {
            item: items.getattr("MemoryItem")?.unbind(),
            epoch: items.getattr("EPOCH")?.unbind(),
            millisecond: items.getattr("MILLISECOND")?.unbind(),
            new_object: object.getattr("__new__")?.unbind(),
            set_attribute: object.getattr("__setattr__")?.unbind(),
            write_json: json.getattr("dumps")?.unbind(),
            read_json: json.getattr("loads")?.unbind(),
            items: items.unbind(),
        })
    }
}

impl<'py> Values<'py> {
    pub fn of(py: Python<'py>) -> PyResult<Self> {
        Ok(Self { py, of: FOUND.get_or_try_init(|| Found::look_up(py).map(Box::new))? })
    }

    /// A class of `rehydrate.memory.items`.
    pub fn class(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.of.items.bind(self.py).getattr(name)
    }

    /// Set an attribute of a frozen value.
    pub fn set(&self, value: &Bound<'py, PyAny>, name: &str, to: &Bound<'py, PyAny>) -> PyResult<()> {
        self.of.set_attribute.bind(self.py).call1((value, name, to)).map(drop)
    }

    pub fn milliseconds(&self, moment: &Bound<'py, PyAny>) -> PyResult<i64> {
        moment.sub(&self.of.epoch)?.floor_div(&self.of.millisecond)?.extract()
    }

    fn moment(&self, milliseconds: i64) -> PyResult<Bound<'py, PyAny>> {
        self.of.epoch.bind(self.py).add(self.of.millisecond.bind(self.py).mul(milliseconds)?)
    }

    /// A value as JSON in ASCII, which holds any string.
    pub fn json(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.of.write_json.bind(self.py).call1((value,))
    }

    /// The new item for a `MemoryItem`.
    pub fn new_item(&self, item: &Bound<'py, PyAny>, now_ms: i64) -> PyResult<NewItem> {
        self.written_item(item, now_ms, &metadata_json)
    }

    /// The same with metadata in ASCII.
    pub fn new_ascii_item(&self, item: &Bound<'py, PyAny>, now_ms: i64) -> PyResult<NewItem> {
        self.written_item(item, now_ms, &|metadata| self.json(&self.py.get_type::<PyDict>().call1((metadata,))?))
    }

    fn written_item(
        &self,
        item: &Bound<'py, PyAny>,
        now_ms: i64,
        metadata: &dyn Fn(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<NewItem> {
        let py = self.py;
        if !item.is_instance(self.of.item.bind(py))? {
            return Err(wrong_type("an item for the store", item, "pass a rehydrate.memory.MemoryItem"));
        }
        let name = |field: &Bound<'py, PyString>| item.getattr(field)?.extract::<Name>().map(|name| name.0);
        let names = |field: &Bound<'py, PyString>| item.getattr(field)?.extract().map(strings);
        let moment = |field: &Bound<'py, PyString>| {
            let moment = item.getattr(field)?;
            if moment.is_none() { Ok(None) } else { self.milliseconds(&moment).map(Some) }
        };
        let json = |field: &Bound<'py, PyString>, write: &dyn Fn(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>| {
            let value = item.getattr(field)?;
            let is_empty = !value.is_truthy()?;
            if is_empty { Ok(None) } else { write(&value)?.extract::<Name>().map(|json| Some(json.0)) }
        };
        let links = item.getattr(interned!(py, "links"))?.extract::<Vec<(Name, Name)>>()?;
        Ok(NewItem {
            text: item.getattr(interned!(py, "text"))?.extract::<RawText>()?.0,
            kind: name(interned!(py, "kind"))?,
            tier: tier_of(&item.getattr(interned!(py, "tier"))?)?,
            source: name(interned!(py, "source"))?,
            thread: name(interned!(py, "thread"))?,
            tool: name(interned!(py, "tool"))?,
            principal: name(interned!(py, "principal"))?,
            trust: item.getattr(interned!(py, "trust"))?.extract()?,
            parents: names(interned!(py, "parents"))?,
            time_ms: moment(interned!(py, "time"))?.unwrap_or(now_ms),
            confidence: item.getattr(interned!(py, "confidence"))?.extract()?,
            expires_ms: moment(interned!(py, "expires"))?,
            meta_json: json(interned!(py, "metadata"), metadata)?,
            redactions_json: json(interned!(py, "redactions"), &|value| self.json(value))?,
            vector: None,
            links: links.into_iter().map(|(relation, handle)| (relation.0, handle.0)).collect(),
        })
    }

    /// A stored item as a `MemoryItem`: it passed the checks when it was added. Values that no call writes mean a
    /// damaged file.
    pub fn item(&self, item: &Item, path: &Path) -> PyResult<Bound<'py, PyAny>> {
        self.read_item(item).map_err(|error| {
            let is_damage = error.is_instance_of::<PyValueError>(self.py)
                || error.is_instance_of::<PyTypeError>(self.py)
                || error.is_instance_of::<PyOverflowError>(self.py)
                || error.is_instance_of::<PyRecursionError>(self.py);
            if !is_damage {
                return error;
            }
            let problem =
                format!("the notes of {} are not as they were written ({})", item.handle, error.value(self.py));
            let remedy = "restore the file from a copy or an export".into();
            let path = path.display().to_string();
            to_py(self.py, &Error::Store { kind: StoreProblem::Corrupt, path, problem, remedy })
        })
    }

    /// The same of a row that a server keeps.
    pub fn read_item(&self, item: &Item) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let text = |value: &str| PyString::new(py, value).into_any();
        let metadata = match &item.meta_json {
            Some(json) if !json.is_empty() => {
                py.get_type::<PyDict>().call1((self.of.read_json.bind(py).call1((json,))?,))?
            }
            _ => PyDict::new(py).into_any(),
        };
        let mut redactions = Vec::new();
        if let Some(json) = item.redactions_json.as_deref().filter(|json| !json.is_empty()) {
            let class = self.class("Redaction")?;
            for span in self.of.read_json.bind(py).call1((json,))?.try_iter()? {
                redactions.push(class.call1(span?.cast::<PyList>()?.to_tuple())?);
            }
        }
        let (mut links, mut linked_from) = (Vec::new(), Vec::new());
        for link in &item.links {
            let made = self.class("Link")?.call1((&link.relation, &link.handle))?;
            if link.is_outgoing { &mut links } else { &mut linked_from }.push(made);
        }
        let tier = TIERS.iter().find(|(_, tier)| *tier == item.tier).map_or("", |(name, _)| name);
        let fields = [
            (interned!(py, "text"), to_text(py, &item.text)?),
            (interned!(py, "kind"), text(&item.kind)),
            (interned!(py, "tier"), text(tier)),
            (interned!(py, "source"), text(&item.source)),
            (interned!(py, "thread"), text(&item.thread)),
            (interned!(py, "tool"), text(&item.tool)),
            (interned!(py, "principal"), text(&item.principal)),
            (interned!(py, "trust"), item.trust.into_pyobject(py)?.into_any()),
            (interned!(py, "confidence"), item.confidence.into_pyobject(py)?.into_any()),
            (interned!(py, "parents"), PyTuple::new(py, &item.parents)?.into_any()),
            (interned!(py, "time"), self.moment(item.time_ms)?),
            (
                interned!(py, "expires"),
                item.expires_ms.map(|moment| self.moment(moment)).transpose()?.into_pyobject(py)?.into_any(),
            ),
            (interned!(py, "metadata"), metadata),
            (interned!(py, "links"), PyTuple::new(py, links)?.into_any()),
            (interned!(py, "handle"), text(&item.handle)),
            (interned!(py, "namespace"), text(&item.namespace)),
            (interned!(py, "created"), self.moment(item.created_ms)?),
            (interned!(py, "linked_from"), PyTuple::new(py, linked_from)?.into_any()),
            (interned!(py, "redactions"), PyTuple::new(py, redactions)?.into_any()),
            (interned!(py, "uses"), item.uses.into_pyobject(py)?.into_any()),
        ];
        let made = self.of.new_object.bind(py).call1((&self.of.item,))?;
        let set = self.of.set_attribute.bind(py);
        for (name, value) in fields {
            set.call1((&made, name, value))?;
        }
        Ok(made)
    }

    /// A `Hit`.
    pub fn hit(&self, hit: &Hit, path: &Path) -> PyResult<Bound<'py, PyAny>> {
        let item = self.item(&hit.item, path)?;
        let snippet = to_text(self.py, &hit.item.text[hit.snippet.clone()])?;
        let cosine = Some(hit.cosine).filter(|cosine| !cosine.is_nan());
        self.class("Hit")?.call1((item, snippet, hit.score, hit.text, hit.trigram, cosine))
    }

    /// Rows of `Recalled`.
    pub fn recalled(&self, rows: Vec<Vec<(String, f64)>>, k: usize) -> PyResult<Vec<Vec<Bound<'py, PyAny>>>> {
        let class = NamedTuple::of(self.py, "rehydrate.memory.items", "Recalled")?;
        let one = |(handle, cosine): (String, f64)| {
            let handle = PyString::new(self.py, &handle).into_any();
            class.make([handle, cosine.into_pyobject(self.py)?.into_any()])
        };
        rows.into_iter().map(|row| row.into_iter().take(k).map(one).collect()).collect()
    }

    /// The items that `Filters` are about.
    pub fn filter(&self, operation: &str, given: Option<&Bound<'py, PyDict>>) -> PyResult<Filter> {
        let mut filter = Filter::default();
        let Some(given) = given else { return Ok(filter) };
        for (name, value) in checked_filters(operation, given)? {
            let names = || value.extract::<Vec<Name>>().map(strings);
            match name.extract::<PyBackedStr>()?.as_ref() {
                "tiers" => filter.tiers = Some(value.try_iter()?.map(|name| tier_of(&name?)).collect::<PyResult<_>>()?),
                "kinds" => filter.kinds = Some(names()?),
                "sources" => filter.sources = Some(names()?),
                "threads" => filter.threads = Some(names()?),
                "after" => filter.after_ms = Some(self.milliseconds(&value)?),
                "before" => filter.before_ms = Some(self.milliseconds(&value)?),
                _ => filter.min_trust = value.extract()?,
            }
        }
        Ok(filter)
    }
}

/// The string of bytes that were one.
fn to_text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => {
            let bytes = PyBytes::new(py, bytes);
            let decoded = bytes.call_method1("decode", ("utf-8", "surrogatepass"));
            // Neither, so it is not what Python stored: damaged, as `verify` will report.
            decoded.or_else(|_| bytes.call_method1("decode", ("utf-8", "replace")))
        }
    }
}

/// The exception for a handle that a namespace does not hold.
pub fn unknown(py: Python<'_>, handle: &str, namespace: &str) -> PyErr {
    raise(py, "UnknownHandleError", (handle, namespace))
}
