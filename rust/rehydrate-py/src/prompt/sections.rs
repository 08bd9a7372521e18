//! The fields of a section, of its provenance, and of what a source found, checked.
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyMapping, PySequence, PyString, PyTuple, PyType};

use crate::checks::{check_list, check_share, check_type, check_whole, refused, type_name, written};
use crate::exit::Running;
use crate::interned::interned;

/// `MAX_TOKENS` of `rehydrate.prompt.request`.
const MAX_TOKENS: u64 = 1 << 53;

type Any<'py> = Bound<'py, PyAny>;

/// Check the fields of a `Provenance`; lists of ids become tuples.
#[pyfunction]
pub fn check_provenance(provenance: &Any<'_>) -> PyResult<()> {
    let _running = Running::begin();
    let (py, text) = (provenance.py(), provenance.py().get_type::<PyString>().into_any());
    let source = provenance.getattr(interned!(py, "source"))?;
    check_type("provenance.source", &source, &text, "name what brought the content")?;
    if !source.is_truthy()? {
        return Err(refused(py, "provenance.source is empty; name what brought the content"));
    }
    check_share("trust", &provenance.getattr(interned!(py, "trust"))?)?;
    let of = |name: &str| format!("provenance.{name}");
    for name in ["origin", "thread", "tool", "principal"] {
        check_type(&of(name), &provenance.getattr(name)?, &text, "pass a text")?;
    }
    let time = provenance.getattr(interned!(py, "time"))?;
    if !time.is_none() {
        check_type("provenance.time", &time, &py.import("datetime")?.getattr("datetime")?, "pass a datetime, or None")?;
    }
    for name in ["items", "parents"] {
        let mut ids = provenance.getattr(name)?;
        if !ids.is_exact_instance_of::<PyTuple>() {
            check_list(&of(name), &ids, "pass a tuple of ids")?;
            ids = py.get_type::<PyTuple>().call1((ids,))?;
            set(provenance, name, ids.clone())?;
        }
        for id in ids.cast::<PyTuple>()? {
            check_type(&of(name), &id, &text, "pass ids, which are texts")?;
        }
    }
    Ok(())
}

/// Check the fields of a `Section`; messages become a tuple, and names members of their enum, by the name of the field.
#[pyfunction]
pub fn check_section(section: &Any<'_>, provenance: &Any<'_>, enums: &Bound<'_, PyDict>) -> PyResult<()> {
    let _running = Running::begin();
    let py = section.py();
    let id = section.getattr(interned!(py, "id"))?;
    if !id.is_truthy()? {
        return Err(refused(py, "a section's id is empty; give it a name of its own"));
    }
    let content = section.getattr(interned!(py, "content"))?;
    if !content.is_instance_of::<PyString>() {
        let is_bytes = content.is_instance_of::<PyBytes>() || content.is_instance_of::<PyByteArray>();
        if is_bytes || content.cast::<PySequence>().is_err() {
            let problem = format!("section {}: content is of type {}", written(&id), type_name(&content));
            return Err(refused(py, format!("{problem}; pass a text or messages")));
        }
        set(section, "content", py.get_type::<PyTuple>().call1((content,))?)?;
    }
    check_type("section: id", &id, &py.get_type::<PyString>(), "pass a name")?;
    let of = |name: &str| format!("section {}: {name}", written(&id));
    let value = section.getattr(interned!(py, "provenance"))?;
    if !value.get_type().is(provenance) {
        check_type(&of("provenance"), &value, provenance, "pass Provenance(\"wiki\")")?;
    }
    for (name, enumeration) in enums {
        let name: Bound<'_, PyString> = name.cast_into()?;
        let value = section.getattr(&name)?;
        if value.get_type().is(&enumeration) {
            continue;
        }
        let member = member(&enumeration, &value)?.ok_or_else(|| {
            let problem = format!("{} is {}", of(&name.to_string()), written(&value));
            refused(py, format!("{problem}; choose one of {}", names_of(&enumeration)))
        })?;
        set(section, &name.to_string(), member)?;
    }
    let relevance = section.getattr(interned!(py, "relevance"))?;
    let is_share = relevance.is_exact_instance_of::<PyFloat>() && (0.0..=1.0).contains(&relevance.extract::<f64>()?);
    if !is_share {
        check_share(&of("relevance"), &relevance)?;
    }
    for (name, key) in [("tokens", interned!(py, "tokens")), ("min_tokens", interned!(py, "min_tokens"))] {
        let count = section.getattr(key)?;
        let is_usual =
            count.is_exact_instance_of::<PyInt>() && count.extract::<u64>().is_ok_and(|count| count <= MAX_TOKENS);
        if !is_usual {
            let most = MAX_TOKENS.into_pyobject(py)?.into_any();
            check_whole(&of(name), &count, 0, Some(&most), name == "tokens")?;
        }
    }
    Ok(())
}

/// Set a field of a frozen dataclass.
fn set<'py>(record: &Any<'py>, name: &str, value: Any<'py>) -> PyResult<()> {
    record.py().get_type::<PyAny>().call_method1("__setattr__", (record, name, value)).map(|_| ())
}

/// The member of an enum with this value, or of an `IntEnum` the one with this name. None if there is none.
fn member<'py>(enumeration: &Any<'py>, value: &Any<'py>) -> PyResult<Option<Any<'py>>> {
    let py = value.py();
    let is_name = value.is_instance_of::<PyString>() && enumeration.cast::<PyType>()?.is_subclass_of::<PyInt>()?;
    let found = if is_name {
        value.call_method0("upper").and_then(|name| enumeration.get_item(name))
    } else {
        enumeration.call1((value,))
    };
    match found {
        Err(error) if error.is_instance_of::<PyKeyError>(py) || error.is_instance_of::<PyValueError>(py) => Ok(None),
        found => found.map(Some),
    }
}

fn names_of(enumeration: &Any<'_>) -> String {
    let mut names = Vec::new();
    for member in enumeration.try_iter().into_iter().flatten().flatten() {
        let name = member.getattr("name").and_then(|name| name.call_method0("lower"));
        names.extend(name.map(|name| written(&name)));
    }
    names.join(", ")
}

/// A source's `Found` with its sequences as tuples, if all its values have the right types.
///
/// Checks that a `Section` does not make itself, and that a prompt relies on.
#[pyfunction]
pub fn checked_found<'py>(found: &Any<'py>, source: &Any<'py>) -> PyResult<Any<'py>> {
    let _running = Running::begin();
    let py = found.py();
    let returned = |what: String| refused(py, format!("source {} returned {what}", written(source)));
    let sections = py.import("rehydrate.prompt.section")?;
    let text = py.get_type::<PyString>().into_any();
    let class = |name: &str| sections.getattr(name);
    let kinds = [
        ("sections", class("Section")?),
        ("tools", class("ToolDef")?),
        ("dropped", class("DroppedSection")?),
        ("degraded", text.clone()),
    ];
    let tuples = PyDict::new(py);
    for (name, kind) in &kinds {
        let values = py.get_type::<PyTuple>().call1((found.getattr(*name)?,))?;
        for value in values.try_iter()? {
            let value = value?;
            if !value.is_instance(kind)? {
                let each: String = kind.getattr("__name__")?.extract()?;
                return Err(returned(format!("{} among its {name}; each is a {each}", kind_of(&value))));
            }
        }
        tuples.set_item(name, values)?;
    }
    let provenance = class("Provenance")?;
    for section in tuples.as_any().get_item("sections")?.try_iter()? {
        let section = section?;
        for name in ["id", "provenance", "title", "handle", "anchor", "metadata"] {
            let value = section.getattr(name)?;
            let is_right = match name {
                "provenance" => value.is_instance(&provenance)?,
                "handle" => value.is_none() || value.is_instance(&text)?,
                "anchor" => value.is_none() || value.is_instance_of::<PyInt>(),
                "metadata" => value.cast::<PyMapping>().is_ok(),
                _ => value.is_instance(&text)?,
            };
            if !is_right {
                return Err(returned(format!("a Section whose {name} is {}", kind_of(&value))));
            }
        }
    }
    let (history, off) = (found.getattr("history")?, found.getattr("off")?);
    if !is_history(&history)? || !off.is_instance(&text)? {
        let (history, off) = (kind_of(&history), kind_of(&off));
        let problem = format!("a Found with {history} as its history and {off} as off");
        return Err(returned(format!("{problem}; pass a History and a string")));
    }
    found.call_method("_replace", (), Some(&tuples))
}

/// None, or a `History` whose counts are whole numbers.
fn is_history(value: &Any<'_>) -> PyResult<bool> {
    let class = value.py().import("rehydrate.prompt.entries")?.getattr("History")?;
    if value.is_none() || !value.is_instance(&class)? {
        return Ok(value.is_none());
    }
    for count in value.getattr("tokens")?.try_iter()? {
        if !count?.is_exact_instance_of::<PyInt>() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn kind_of(value: &Any<'_>) -> String {
    if value.is_none() { "None".into() } else { format!("one of type {}", type_name(value)) }
}
