//! Checks of a memory's arguments: items, filters, limits, handles. Every entry point has them, the store's too.
use pyo3::exceptions::{PyOverflowError, PyRecursionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFrozenSet, PyList, PySequence, PySet, PyString, PyTuple};

use super::values::{TIERS, Values};
use crate::checks::{
    check_choice, check_known, check_share, check_string, check_unicode, is_iterable, is_number, refused, type_name,
    written, wrong_type,
};
use crate::errors::raise;
use crate::interned::interned;
use crate::reading::{Fields, is_blank, text_of};

/// The largest `limit` of one search.
const MAX_LIMIT: usize = 10_000;
const FUSIONS: [&str; 3] = ["calibrated", "weighted", "reciprocal_rank"];
const FILTERS: [&str; 7] = ["tiers", "kinds", "sources", "threads", "after", "before", "min_trust"];

type Any<'py> = Bound<'py, PyAny>;

/// The check of an item's field.
#[derive(Clone, Copy)]
enum Check {
    Text,
    Tier,
    Share,
    Moment,
    Texts,
    /// Tuples of this class, and which of their values are strings.
    Tuples(&'static str, &'static [&'static str]),
    Metadata,
}

const LINK: Check = Check::Tuples("Link", &["relation", "handle"]);
const FIELDS: [(&str, Check); 18] = [
    ("kind", Check::Text),
    ("tier", Check::Tier),
    ("source", Check::Text),
    ("thread", Check::Text),
    ("tool", Check::Text),
    ("principal", Check::Text),
    ("trust", Check::Share),
    ("confidence", Check::Share),
    ("parents", Check::Texts),
    ("time", Check::Moment),
    ("expires", Check::Moment),
    ("metadata", Check::Metadata),
    ("links", LINK),
    ("handle", Check::Text),
    ("namespace", Check::Text),
    ("created", Check::Moment),
    ("linked_from", LINK),
    ("redactions", Check::Tuples("Redaction", &["name"])),
];

/// Check every field of a new `MemoryItem`, and convert times to UTC and whole milliseconds.
#[pyfunction]
pub fn check_item(item: &Any<'_>) -> PyResult<()> {
    let py = item.py();
    let text = item.getattr(interned!(py, "text"))?;
    check_string("text", &text)?;
    if !text.is_truthy()? {
        return Err(refused(py, "text is empty; an item holds at least one character"));
    }
    for (name, check) in FIELDS {
        let value = item.getattr(name)?;
        let checked = check.of(name, &value)?;
        if !checked.is(&value) {
            Values::of(py)?.set(item, name, &checked)?;
        }
    }
    Ok(())
}

impl Check {
    fn of<'py>(self, name: &str, value: &Any<'py>) -> PyResult<Any<'py>> {
        let py = value.py();
        match self {
            Self::Text => check_text(name, value)?,
            Self::Tier => return checked_tier(name, value),
            Self::Share => check_share(name, value)?,
            Self::Moment => return to_millisecond(name, value),
            Self::Texts => return texts(name, value),
            Self::Tuples(class, strings) => return tuples(name, value, &Values::of(py)?.class(class)?, strings),
            Self::Metadata => check_metadata(name, value)?,
        }
        Ok(value.clone())
    }
}

fn check_text(name: &str, value: &Any<'_>) -> PyResult<()> {
    check_string(name, value)?;
    check_unicode(name, value.cast()?)
}

/// A tier; it must be one of the three.
#[pyfunction]
pub fn checked_tier<'py>(name: &str, value: &Any<'py>) -> PyResult<Any<'py>> {
    check_choice(name, value, PyTuple::new(value.py(), TIERS.map(|(tier, _)| tier))?.as_any())?;
    Ok(value.clone())
}

/// A time in UTC, cut to whole milliseconds as a store keeps them.
fn to_millisecond<'py>(name: &str, moment: &Any<'py>) -> PyResult<Any<'py>> {
    if moment.is_none() { Ok(moment.clone()) } else { cut(&in_utc(name, moment)?) }
}

/// The first whole millisecond from a time on: kept times compare with it as uncut ones do with that time.
fn from_millisecond<'py>(name: &str, moment: &Any<'py>) -> PyResult<Any<'py>> {
    let py = moment.py();
    let in_utc = in_utc(name, moment)?;
    let almost_one = py.import("datetime")?.getattr("timedelta")?.call1((0, 0, 999))?;
    match in_utc.add(almost_one) {
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => cut(&in_utc), // the end of the year 9999
        moved => cut(&moved?),
    }
}

fn in_utc<'py>(name: &str, moment: &Any<'py>) -> PyResult<Any<'py>> {
    let py = moment.py();
    let datetime = py.import("datetime")?;
    let is_one = moment.is_instance(&datetime.getattr("datetime")?)?;
    if !is_one || moment.getattr(interned!(py, "tzinfo"))?.is_none() {
        let remedy = "pass a datetime with a time zone, as in datetime.now(UTC)";
        return Err(refused(py, format!("{name} is {}; {remedy}", written(moment))));
    }
    moment.call_method1("astimezone", (datetime.getattr("UTC")?,)).map_err(|error| {
        if !error.is_instance_of::<PyOverflowError>(py) {
            return error;
        }
        refused(py, format!("{name} is {}, outside the years 1 to 9999", written(moment)))
    })
}

fn cut<'py>(in_utc: &Any<'py>) -> PyResult<Any<'py>> {
    let py = in_utc.py();
    let microseconds: u32 = in_utc.getattr(interned!(py, "microsecond"))?.extract()?;
    let changed = PyDict::new(py);
    changed.set_item("microsecond", microseconds / 1_000 * 1_000)?;
    in_utc.call_method("replace", (), Some(&changed))
}

fn texts<'py>(name: &str, values: &Any<'py>) -> PyResult<Any<'py>> {
    let py = values.py();
    if values.is_instance_of::<PyString>() || values.cast::<PySequence>().is_err() {
        return Err(refused(py, format!("{name} is {}; pass a tuple of strings", written(values))));
    }
    let found = values.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    for (index, value) in found.iter().enumerate() {
        check_text(&format!("{name}[{index}]"), value)?;
    }
    Ok(if values.is_exact_instance_of::<PyTuple>() { values.clone() } else { PyTuple::new(py, found)?.into_any() })
}

fn tuples<'py>(name: &str, values: &Any<'py>, class: &Any<'py>, strings: &[&str]) -> PyResult<Any<'py>> {
    let py = values.py();
    if values.is_exact_instance_of::<PyTuple>() && values.is_empty()? {
        return Ok(values.clone());
    }
    let made = || {
        let one = |value: PyResult<Any<'py>>| {
            let parts = value?.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            class.call1(PyTuple::new(py, parts)?)
        };
        values.try_iter()?.map(one).collect::<PyResult<Vec<_>>>()
    };
    let found = match made() {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            let fields: Vec<String> = class.getattr("_fields")?.extract()?;
            let shape = format!("{}({})", class.getattr("__name__")?, fields.join(", "));
            return Err(refused(py, format!("{name} is {}; pass {shape}", written(values))));
        }
        found => found?,
    };
    for (index, value) in found.iter().enumerate() {
        for part in strings {
            check_text(&format!("{name}[{index}].{part}"), &value.getattr(*part)?)?;
        }
    }
    Ok(PyTuple::new(py, found)?.into_any())
}

/// Refuse metadata that JSON would not give back.
fn check_metadata(name: &str, metadata: &Any<'_>) -> PyResult<()> {
    let py = metadata.py();
    let is_mapping = Fields::of(metadata).is_some();
    if is_mapping && !metadata.is_truthy()? {
        return Ok(());
    }
    let kept = || {
        if !is_mapping {
            return Err(PyValueError::new_err("it isn't a JSON object"));
        }
        let json = metadata_json(metadata)?;
        if py.import("json")?.call_method1("loads", (json,))?.eq(metadata)? {
            return Ok(());
        }
        Err(PyValueError::new_err("it isn't a JSON object"))
    };
    kept().map_err(|error: PyErr| {
        let is_its_own = error.is_instance_of::<PyTypeError>(py)
            || error.is_instance_of::<PyValueError>(py)
            || error.is_instance_of::<PyRecursionError>(py);
        if !is_its_own {
            return error;
        }
        let why = error
            .value(py)
            .str()
            .map_or_else(|_| type_name(error.value(py).as_any()), |text| text_of(&text).into_owned());
        refused(py, format!("{name} cannot be kept: {why}; pass a dict of what JSON can say, keys strings"))
    })
}

/// Metadata as the stored JSON: compact, keys in the given order.
pub fn metadata_json<'py>(metadata: &Any<'py>) -> PyResult<Any<'py>> {
    let py = metadata.py();
    let how = PyDict::new(py);
    how.set_item("ensure_ascii", false)?;
    how.set_item("allow_nan", false)?;
    how.set_item("separators", (",", ":"))?;
    let plain = py.get_type::<PyDict>().call1((metadata,))?;
    py.import("json")?.call_method("dumps", (plain,), Some(&how))
}

/// The namespace. Raises InvalidArgumentError unless it is a string that is not blank.
#[pyfunction]
pub fn checked_namespace<'py>(namespace: &Any<'py>) -> PyResult<Any<'py>> {
    if namespace.cast::<PyString>().is_ok_and(|name| !is_blank(&text_of(name))) {
        return Ok(namespace.clone());
    }
    let remedy = "pass a name, as of a tenant, a user or a project";
    Err(refused(namespace.py(), format!("namespace is {}; {remedy}", written(namespace))))
}

/// The namespace of a call: the one passed, else the one the memory is bound to.
///
/// Raises MissingNamespaceError if there is neither, and OtherNamespaceError if they differ and the memory is confined
/// to its own.
#[pyfunction]
#[pyo3(signature = (operation, given, bound, *, is_confined=false))]
pub fn resolve_namespace<'py>(
    py: Python<'py>,
    operation: &str,
    given: Option<Any<'py>>,
    bound: Option<Any<'py>>,
    is_confined: bool,
) -> PyResult<Any<'py>> {
    let Some(place) = given.map(|given| checked_namespace(&given)).transpose()?.or_else(|| bound.clone()) else {
        return Err(raise(py, "MissingNamespaceError", (operation,)));
    };
    match bound {
        Some(bound) if is_confined && !place.eq(&bound)? => {
            Err(raise(py, "OtherNamespaceError", (operation, place, bound)))
        }
        _ => Ok(place),
    }
}

/// Texts and items as items; `fields` apply to the bare texts.
#[pyfunction]
pub fn as_items<'py>(texts: &Any<'py>, fields: &Bound<'py, PyDict>) -> PyResult<Vec<Any<'py>>> {
    let py = texts.py();
    let values = Values::of(py)?;
    let class = values.class("MemoryItem")?;
    let all = if texts.is_instance_of::<PyString>() || texts.is_instance(&class)? {
        PyList::new(py, [texts])?.into_any()
    } else if is_iterable(texts)? {
        texts.clone()
    } else {
        return Err(wrong_type("texts", texts, "pass texts or MemoryItems"));
    };
    let known = values.class("ItemFields")?.getattr("__annotations__")?;
    check_known("add has no", fields.as_any(), &known, "the fields of an item are")?;
    let item = |(index, text): (usize, PyResult<Any<'py>>)| {
        let text = text?;
        if text.is_instance_of::<PyString>() {
            return class.call((text,), Some(fields));
        }
        if !text.is_instance(&class)? {
            return Err(wrong_type(&format!("add: entry {index}"), &text, "pass strings or MemoryItems"));
        }
        if fields.is_empty() {
            return Ok(text);
        }
        let names = fields.keys().iter().map(|name| name.to_string()).collect::<Vec<_>>().join(", ");
        let message = format!("add: {names} is for bare texts, and entry {index} is a MemoryItem; set it there");
        Err(refused(py, message))
    };
    all.try_iter()?.enumerate().map(item).collect()
}

/// `limit` as a whole number from 0 to `max_limit`. None: no upper limit.
#[pyfunction]
#[pyo3(signature = (name, limit, max_limit=Some(MAX_LIMIT)))]
pub fn checked_limit<'py>(name: &str, limit: &Any<'py>, max_limit: Option<usize>) -> PyResult<Any<'py>> {
    let py = limit.py();
    let whole = match py.import("operator")?.call_method1("index", (limit,)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => None,
        whole => Some(whole?).filter(|_| !limit.is_instance_of::<PyBool>()),
    };
    if let Some(whole) = whole
        && whole.ge(0)?
        && max_limit.map_or(Ok(true), |most| whole.le(most))?
    {
        return Ok(whole);
    }
    let range = max_limit.map_or_else(
        || "from 0 up".into(),
        |most| format!("from 0 to {}", rehydrate_core::excerpts::grouped(most as u64)),
    );
    Err(refused(py, format!("{name} is {}; pass a whole number {range}", written(limit))))
}

/// The fusion: a name, three weights, or None for the default.
#[pyfunction]
pub fn checked_fusion<'py>(fusion: &Any<'py>) -> PyResult<Any<'py>> {
    let py = fusion.py();
    let named = fusion.cast::<PyString>().is_ok_and(|name| FUSIONS.contains(&text_of(name).as_ref()));
    if fusion.is_none() || named {
        return Ok(fusion.clone());
    }
    if let Ok(weights) = fusion.cast::<PyTuple>()
        && weights.len() == FUSIONS.len()
    {
        let is_weight = |weight: &Any<'_>| {
            (is_number(weight) || weight.is_instance_of::<PyBool>()) && weight.ge(0).unwrap_or(false)
        };
        let numbers = weights.iter().filter(is_weight).map(|weight| weight.extract::<f64>());
        let numbers = numbers.collect::<PyResult<Vec<_>>>().unwrap_or_default();
        let sum: f64 = numbers.iter().sum();
        if numbers.len() == weights.len() && 0.0 < sum && sum < f64::INFINITY {
            return Ok(PyTuple::new(py, numbers)?.into_any());
        }
    }
    let names = FUSIONS.map(|name| format!("'{name}'")).join(", ");
    let remedy = format!("choose one of {names}, pass three weights (text, trigram, vector), or None");
    Err(refused(py, format!("fusion is {}; {remedy}", written(fusion))))
}

/// The filters that are set, each with its value checked.
#[pyfunction]
pub fn checked_filters<'py>(operation: &str, filters: &Any<'py>) -> PyResult<Bound<'py, PyDict>> {
    let py = filters.py();
    let known = PyTuple::new(py, FILTERS)?;
    check_known(&format!("{operation} has no"), filters, known.as_any(), "the filters are")?;
    let checked = PyDict::new(py);
    for (name, value) in Fields::of(filters).map_or(Ok(Vec::new()), Fields::items)? {
        if value.is_none() {
            continue;
        }
        let of = name.cast::<PyString>()?;
        let of = text_of(of);
        let value = match of.as_ref() {
            "after" | "before" => from_millisecond(&of, &value)?,
            "min_trust" => {
                check_share(&of, &value)?;
                value.extract::<f64>()?.into_pyobject(py)?.into_any()
            }
            _ => names(&of, &value)?.into_any(),
        };
        checked.set_item(&name, value)?;
    }
    Ok(checked)
}

/// One handle or several as a list.
#[pyfunction]
pub fn checked_handles<'py>(handles: &Any<'py>) -> PyResult<Bound<'py, PyList>> {
    let one = handles.is_instance_of::<PyString>().then(|| PyList::new(handles.py(), [handles])).transpose()?;
    names("handles", one.as_ref().map_or(handles, |one| one.as_any()))
}

/// Refuse a purge that does not name exactly one thing to remove.
#[pyfunction]
pub fn checked_purge(source: &Any<'_>, thread: &Any<'_>, everything: &Any<'_>) -> PyResult<()> {
    let mut named = usize::from(everything.cast::<PyBool>().is_ok_and(|all| all.is_true()));
    for (name, value) in [("source", source), ("thread", thread)] {
        if !value.is_none() {
            check_string(name, value)?;
            named += 1;
        }
    }
    if named == 1 {
        return Ok(());
    }
    let remedy = "pass source=, thread=, or everything=True for the namespace";
    Err(refused(source.py(), format!("purge removes one thing; {remedy}")))
}

fn names<'py>(name: &str, values: &Any<'py>) -> PyResult<Bound<'py, PyList>> {
    let py = values.py();
    let is_set = values.is_instance_of::<PySet>() || values.is_instance_of::<PyFrozenSet>();
    if values.is_instance_of::<PyString>() || (!is_set && values.cast::<PySequence>().is_err()) {
        return Err(refused(py, format!("{name} is {}; pass a list of strings", written(values))));
    }
    let found = values.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    for value in &found {
        if !value.is_instance_of::<PyString>() {
            return Err(refused(py, format!("{name} holds {}; pass strings", written(value))));
        }
        if name == "tiers" {
            checked_tier("tier", value)?;
        }
    }
    PyList::new(py, found)
}
