//! Checks of arguments that many entry points share: types, choices, numbers, paths and timeouts.
//!
//! Each raises InvalidArgumentError, which names the argument, its value and the remedy.
use pyo3::exceptions::PyUnicodeEncodeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};
use rehydrate_core::excerpts::grouped;

use crate::errors::raise;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::{Fields, text_of};

/// Characters of a value in an error.
pub const SHOWN: usize = 80;
/// Seconds, a third of a year. Threads cannot wait longer.
const MAX_TIMEOUT: f64 = 1e7;

type Any<'py> = Bound<'py, PyAny>;

/// The error of an argument.
pub fn refused(py: Python<'_>, message: impl Into<String>) -> PyErr {
    raise(py, "InvalidArgumentError", (message.into(),))
}

/// The name of a value's type.
pub fn type_name(value: &Any<'_>) -> String {
    value.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string())
}

/// A value as Python writes it. For a number with more digits than it writes, the number of digits.
pub fn written(value: &Any<'_>) -> String {
    match value.repr() {
        Ok(text) => text_of(&text).into_owned(),
        Err(_) if value.is_instance_of::<PyInt>() => {
            let bits = value.call_method0("bit_length").and_then(|bits| bits.extract()).unwrap_or(0);
            format!("a whole number of {} bits", grouped(bits))
        }
        Err(_) => type_name(value),
    }
}

/// A value as an error names it, cut if it is long. A number may have any length.
#[pyfunction]
#[pyo3(signature = (value, most=SHOWN))]
pub fn shown(value: &Any<'_>, most: usize) -> String {
    let text = written(value);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The words of a choice as Python writes them.
pub fn listed_words(words: &[Any<'_>]) -> String {
    words.iter().map(written).collect::<Vec<_>>().join(", ")
}

/// Whether it is a number. A bool isn't one.
pub fn is_number(value: &Any<'_>) -> bool {
    (value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>()) && !value.is_instance_of::<PyBool>()
}

/// Refuse a value that has none of these types. A bool is not a number.
#[pyfunction]
pub fn check_type(name: &str, value: &Any<'_>, kinds: &Any<'_>, remedy: &str) -> PyResult<()> {
    let _running = Running::begin();
    let py = value.py();
    let is_stray_bool = value.is_instance_of::<PyBool>() && !kinds.is(py.get_type::<PyBool>());
    if is_stray_bool || !value.is_instance(kinds)? {
        return Err(wrong_type(name, value, remedy));
    }
    Ok(())
}

/// The error of a value of another type.
pub fn wrong_type(name: &str, value: &Any<'_>, remedy: &str) -> PyErr {
    refused(value.py(), format!("{name} is of type {}; {remedy}", type_name(value)))
}

/// Refuse a value that isn't a string.
pub fn check_string(name: &str, value: &Any<'_>) -> PyResult<()> {
    if value.is_instance_of::<PyString>() { Ok(()) } else { Err(wrong_type(name, value, "pass a string")) }
}

/// Refuse a string that UTF-8 cannot hold.
pub fn check_unicode(name: &str, text: &Bound<'_, PyString>) -> PyResult<()> {
    let py = text.py();
    let Err(error) = text.to_str() else { return Ok(()) };
    if !error.is_instance_of::<PyUnicodeEncodeError>(py) {
        return Err(error);
    }
    let start: usize = error.value(py).getattr(interned!(py, "start"))?.extract()?;
    Err(refused(
        py,
        format!(
            "{name} has a lone surrogate at character {start}, which isn't Unicode; pass \
             {name}.encode('utf-8', 'replace').decode()"
        ),
    ))
}

/// Refuse a value that can't be a path.
#[pyfunction]
pub fn check_path(name: &str, value: &Any<'_>, remedy: &str) -> PyResult<()> {
    let _running = Running::begin();
    let os = value.py().import("os")?;
    if !value.is_instance_of::<PyString>() && !value.is_instance(&os.getattr("PathLike")?)? {
        return Err(wrong_type(name, value, remedy));
    }
    let is_one = match os.call_method1("fsencode", (value,)) {
        Ok(bytes) => !bytes.cast::<PyBytes>()?.as_bytes().contains(&0),
        Err(error) if error.is_instance_of::<PyUnicodeEncodeError>(value.py()) => false,
        Err(error) => return Err(error),
    };
    if is_one {
        return Ok(());
    }
    let path = shown(&os.call_method1("fspath", (value,))?, SHOWN);
    Err(refused(value.py(), format!("{name} is {path}, with a character that no file's name has; {remedy}")))
}

/// Refuse a name that is not among those that are known.
#[pyfunction]
#[pyo3(signature = (owner, given, known, remedy="its options are"))]
pub fn check_known(owner: &str, given: &Any<'_>, known: &Any<'_>, remedy: &str) -> PyResult<()> {
    let _running = Running::begin();
    let known: Vec<String> = known.try_iter()?.map(|name| name?.extract()).collect::<PyResult<_>>()?;
    let mut unknown: Option<Any<'_>> = None; // the first of them in the order of their letters
    for name in given.try_iter()? {
        let name = name?;
        let is_known = name.cast::<PyString>().is_ok_and(|name| known.iter().any(|known| text_of(name) == *known));
        if !is_known && unknown.as_ref().is_none_or(|first| name.lt(first).unwrap_or(false)) {
            unknown = Some(name);
        }
    }
    let Some(name) = unknown else { return Ok(()) };
    Err(refused(name.py(), format!("{owner} {}; {remedy} {}", written(&name), known.join(", "))))
}

/// Refuse a value that is not an iterable, and a single text or mapping in place of a list of them.
#[pyfunction]
pub fn check_list(name: &str, value: &Any<'_>, remedy: &str) -> PyResult<()> {
    let _running = Running::begin();
    let is_one = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() || Fields::of(value).is_some();
    if is_one || !is_iterable(value)? {
        return Err(wrong_type(name, value, remedy));
    }
    Ok(())
}

/// Whether Python takes it for an iterable.
pub fn is_iterable(value: &Any<'_>) -> PyResult<bool> {
    value.is_instance(&value.py().import("collections.abc")?.getattr(interned!(value.py(), "Iterable"))?)
}

/// Refuse a value that lacks one of these methods, whose names are separated by blanks.
#[pyfunction]
pub fn check_methods(name: &str, value: &Any<'_>, methods: &str, remedy: &str) -> PyResult<()> {
    let _running = Running::begin();
    for method in methods.split_whitespace() {
        if !value.getattr_opt(method)?.is_some_and(|method| method.is_callable()) {
            return Err(wrong_type(name, value, remedy));
        }
    }
    Ok(())
}

/// Refuse a value that isn't one of these words. For a part of one the error says "did you mean".
#[pyfunction]
pub fn check_choice(name: &str, value: &Any<'_>, choices: &Any<'_>) -> PyResult<()> {
    let _running = Running::begin();
    let words = choices.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let given = value.cast::<PyString>().ok();
    let mut near = Vec::new();
    if let Some(given) = given {
        let lowered = given.call_method0("lower")?;
        for word in &words {
            if word.eq(given)? {
                return Ok(());
            }
            if given.is_truthy()? && word.contains(&lowered)? {
                near.push(written(word));
            }
        }
    }
    let meant = if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(" or ")) };
    let message = format!("{name} is {}; {meant}choose one of {}", shown(value, SHOWN), listed_words(&words));
    Err(refused(value.py(), message))
}

/// Refuse a value that is not a whole number in this range. A bool is not a number.
#[pyfunction]
#[pyo3(signature = (name, value, least=0, most=None, *, or_none=false))]
pub fn check_whole(name: &str, value: &Any<'_>, least: i64, most: Option<&Any<'_>>, or_none: bool) -> PyResult<()> {
    let _running = Running::begin();
    if value.is_none() && or_none {
        return Ok(());
    }
    let is_whole = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    if is_whole && value.ge(least)? && most.map_or(Ok(true), |most| value.le(most))? {
        return Ok(());
    }
    let range = most.map_or_else(|| format!("from {least} up"), |most| format!("from {least} to {most}"));
    let end = if or_none { ", or None" } else { "" };
    Err(refused(value.py(), format!("{name} is {}; pass a whole number {range}{end}", shown(value, SHOWN))))
}

/// A whole number of 64 bits; anything else is refused, also a bool.
pub fn whole(name: &str, value: &Any<'_>) -> PyResult<i64> {
    let number = if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() };
    number.ok_or_else(|| {
        refused(value.py(), format!("{name} is {}; pass a whole number of 64 bits", shown(value, SHOWN)))
    })
}

/// A whole number from 0 up; anything else is refused.
pub fn count_of(name: &str, value: &Any<'_>) -> PyResult<usize> {
    let odd = |_| refused(value.py(), format!("{name} is {}; pass a whole number from 0 up", shown(value, SHOWN)));
    usize::try_from(whole(name, value)?).map_err(odd)
}

/// Refuse a value that is not a number from 0 to 1. A bool is not a number.
#[pyfunction]
pub fn check_share(name: &str, value: &Any<'_>) -> PyResult<()> {
    let _running = Running::begin();
    if is_number(value) && value.ge(0)? && value.le(1)? {
        return Ok(());
    }
    Err(refused(value.py(), format!("{name} is {}; pass a number from 0 to 1", shown(value, SHOWN))))
}

/// A number of seconds from 0 up, or None for no limit.
#[pyfunction]
pub fn check_timeout(name: &str, value: &Any<'_>) -> PyResult<Option<f64>> {
    let _running = Running::begin();
    if value.is_none() {
        return Ok(None);
    }
    if is_number(value) && value.ge(0)? {
        return Ok(Some(if value.ge(MAX_TIMEOUT)? { MAX_TIMEOUT } else { value.extract()? }));
    }
    let message = format!("{name} is {}; pass a number of seconds from 0 up, or None", shown(value, SHOWN));
    Err(refused(value.py(), message))
}

/// Refuse to pickle or copy an object with locks, files or an owner.
#[pyfunction]
pub fn refuse_copy(py: Python<'_>, name: &str, remedy: &str) -> PyResult<()> {
    let _running = Running::begin();
    Err(refused(py, format!("{name} cannot be pickled or copied; {remedy}")))
}
