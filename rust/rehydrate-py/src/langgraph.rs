//! Values and namespaces of LangGraph's store: filters, texts to search, conditions.
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyRecursionError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::checks::{refused, type_name};
use crate::convert::Text;
use crate::exit::Running;
use crate::reading::{Fields, is_list, listed};

/// Values and filters are read to this depth.
const MAX_DEPTH: usize = 500;
const OPERATORS: &[(&str, CompareOp)] = &[
    ("$eq", CompareOp::Eq),
    ("$ne", CompareOp::Ne),
    ("$gt", CompareOp::Gt),
    ("$gte", CompareOp::Ge),
    ("$lt", CompareOp::Lt),
    ("$lte", CompareOp::Le),
];
const ANY_LABEL: &str = "*";

type Value<'py> = Bound<'py, PyAny>;

/// Whether a value meets all conditions. A dot in a name goes one level down. Raises InvalidArgumentError for an
/// unknown operator, and for conditions that aren't a mapping.
#[pyfunction]
pub fn meets_filter<'py>(value: &Value<'py>, conditions: Option<&Value<'py>>) -> PyResult<bool> {
    let _running = Running::begin();
    let Some(given) = conditions else { return Ok(true) };
    let Some(conditions) = Fields::of(given) else {
        let message = format!("filter: {} isn't a mapping; pass {{\"name\": value}}", type_name(given));
        return Err(refused(value.py(), message));
    };
    for (name, wanted) in conditions.items()? {
        let found = found_in(value, name.extract::<Text>()?.as_str())?;
        if !meets(found.as_ref(), &wanted, MAX_DEPTH)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The value under a name, or under a path of names with dots between them.
fn found_in<'py>(value: &Value<'py>, name: &str) -> PyResult<Option<Value<'py>>> {
    let (mut value, mut name) = (value.clone(), name);
    loop {
        let Some(fields) = Fields::of(&value) else { return Ok(None) };
        if let Some(found) = under(fields, name)? {
            return Ok(Some(found));
        }
        let Some((head, rest)) = name.split_once('.') else { return Ok(None) };
        let Some(inner) = under(fields, head)? else { return Ok(None) };
        (value, name) = (inner, rest);
    }
}

/// The value under a key, null too.
fn under<'py>(fields: Fields<'_, 'py>, key: &str) -> PyResult<Option<Value<'py>>> {
    let key = PyString::new(fields.as_any().py(), key);
    if fields.has(&key)? { fields.as_any().get_item(key).map(Some) } else { Ok(None) }
}

/// `found`: None if there is nothing, which counts as null.
fn meets<'py>(found: Option<&Value<'py>>, wanted: &Value<'py>, depth: usize) -> PyResult<bool> {
    let py = wanted.py();
    let null = py.None().into_bound(py);
    let value = found.unwrap_or(&null);
    let Some(fields) = Fields::of(wanted) else { return value.rich_compare(wanted, CompareOp::Eq)?.is_truthy() };
    if depth == 0 {
        return Err(too_deep("filter"));
    }
    let items = fields.items()?;
    let names = items
        .iter()
        .map(|(name, _)| Ok(name.str()?.extract::<Text>()?.as_str().to_owned()))
        .collect::<PyResult<Vec<_>>>()?;
    if names.iter().any(|name| name.starts_with('$')) {
        for ((_, limit), name) in items.iter().zip(&names) {
            if !compares(value, name, limit)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let Some(inside) = Fields::of(value) else { return Ok(false) };
    for (name, part) in &items {
        let found = if inside.as_any().contains(name)? { Some(inside.as_any().get_item(name)?) } else { None };
        if !meets(found.as_ref(), part, depth - 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn compares(value: &Value<'_>, name: &str, limit: &Value<'_>) -> PyResult<bool> {
    let py = value.py();
    let Some((_, operator)) = OPERATORS.iter().find(|(known, _)| *known == name) else {
        let known = OPERATORS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let shown = PyString::new(py, name).repr()?;
        let message = format!("filter has no operator {shown}; the operators are {known}");
        return Err(refused(py, message));
    };
    match value.rich_compare(limit, *operator).and_then(|found| found.is_truthy()) {
        // A text is neither more nor less than a number.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => Ok(false),
        found => found,
    }
}

/// A value's texts and numbers as lines, each after its name. A single one has no name.
#[pyfunction]
pub fn value_text<'py>(value: &Value<'py>) -> PyResult<String> {
    let _running = Running::begin();
    let mut lines = Vec::new();
    add_lines(&mut lines, value, "", MAX_DEPTH)?;
    Ok(match lines.as_slice() {
        [(_, text)] => text.clone(),
        _ => lines.iter().map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>().join("\n"),
    })
}

fn add_lines(lines: &mut Vec<(String, String)>, value: &Value<'_>, name: &str, depth: usize) -> PyResult<()> {
    if depth == 0 {
        return Err(too_deep("value"));
    }
    if let Some(fields) = Fields::of(value) {
        for (key, part) in fields.items()? {
            let key: Text = key.str()?.extract()?;
            let key = key.as_str();
            let inside = if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
            add_lines(lines, &part, &inside, depth - 1)?;
        }
    } else if is_list(value) {
        for part in listed(Some(value))? {
            add_lines(lines, &part, name, depth - 1)?;
        }
    } else if !value.is_none() {
        let text: Text = value.str()?.extract()?;
        if !text.as_str().is_empty() {
            lines.push((name.to_owned(), text.as_str().to_owned()));
        }
    }
    Ok(())
}

fn too_deep(what: &str) -> PyErr {
    PyRecursionError::new_err(format!("{what} is nested too deep"))
}

/// Whether a namespace begins with a path ("prefix") or ends with it ("suffix"); "*" is any label.
#[pyfunction]
pub fn namespace_fits(py: Python<'_>, namespace: Vec<Text>, match_type: &str, path: Vec<Text>) -> PyResult<bool> {
    let _running = Running::begin();
    if !matches!(match_type, "prefix" | "suffix") {
        let shown = PyString::new(py, match_type).repr()?;
        let message = format!("match_type is {shown}; pass 'prefix' or 'suffix'");
        return Err(refused(py, message));
    }
    let Some(longer) = namespace.len().checked_sub(path.len()) else { return Ok(false) };
    let labels = &namespace[if match_type == "suffix" { longer } else { 0 }..];
    Ok(path.iter().zip(labels).all(|(one, label)| one.as_str() == ANY_LABEL || one.as_str() == label.as_str()))
}
