//! The options of a compaction, checked: each check returns the value as the compaction uses it, or raises
//! InvalidArgumentError.
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};

use crate::checks::{SHOWN, is_iterable, is_number, refused, shown, type_name};
use crate::errors::raise;
use crate::exit::Running;
use crate::interned::interned;
use crate::reading::Fields;

type Any<'py> = Bound<'py, PyAny>;

/// The smallest share of the tokens: smaller ones are raised to this. A budget in tokens may be smaller.
pub const MIN_RATIO: f64 = 0.05;
/// More tokens than any conversation has.
const MOST_TOKENS: u64 = 1 << 63;

/// The share of the tokens to keep: above 0, at most 1, raised to the least.
#[pyfunction]
pub fn checked_ratio(ratio: &Any<'_>) -> PyResult<f64> {
    let _running = Running::begin();
    if is_number(ratio) && ratio.gt(0)? && ratio.le(1)? {
        return Ok(ratio.extract::<f64>()?.max(MIN_RATIO));
    }
    let message = format!(
        "target_ratio is {}; pass the share of the tokens to keep, a number above 0 and up to 1 (what is less than {MIN_RATIO} \
         is taken as that){}",
        shown(ratio, SHOWN),
        meant_by(ratio)?
    );
    Err(refused(ratio.py(), message))
}

/// A guess of what was meant by a number that isn't a valid share, or "".
fn meant_by(ratio: &Any<'_>) -> PyResult<String> {
    if !is_number(ratio) || ratio.ne(ratio)? {
        return Ok(String::new()); // not even a number, or NaN
    }
    let as_percent = 100.0 * MIN_RATIO;
    Ok(if ratio.ge(as_percent)? && ratio.le(100)? {
        format!("; did you mean {}?", ratio.div(100)?.call_method1("__format__", ("g",))?)
    } else if ratio.gt(100)? {
        "; a number of tokens is budget_tokens".into()
    } else if ratio.gt(1)? {
        String::new()
    } else {
        "; budget_tokens=0 keeps only what is always kept".into()
    })
}

/// A number of tokens from 0 up, or None.
#[pyfunction]
pub fn checked_budget(budget: &Any<'_>) -> PyResult<Option<u64>> {
    let _running = Running::begin();
    let py = budget.py();
    if budget.is_none() {
        return Ok(None);
    }
    // numpy's integers are integers too.
    let whole = match py.import("operator")?.call_method1("index", (budget,)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => None,
        whole => Some(whole?).filter(|_| !budget.is_instance_of::<PyBool>()),
    };
    if let Some(whole) = whole
        && whole.ge(0)?
    {
        return Ok(Some(whole.extract().unwrap_or(MOST_TOKENS).min(MOST_TOKENS)));
    }
    let remedy = "pass a whole number of tokens from 0 up, or None to go by target_ratio";
    Err(refused(py, format!("budget_tokens is {}; {remedy}", shown(budget, SHOWN))))
}

/// The query without surrounding white space, or None.
#[pyfunction]
pub fn checked_query<'py>(query: &Any<'py>) -> PyResult<Any<'py>> {
    let _running = Running::begin();
    if query.is_none() {
        return Ok(query.clone());
    }
    if query.is_instance_of::<PyString>() {
        return query.call_method0(interned!(query.py(), "strip"));
    }
    Err(refused(query.py(), format!("query is a {}; pass a string or None", type_name(query))))
}

/// A memory that can be asked, in a namespace, or None.
#[pyfunction]
pub fn checked_memory<'py>(memory: &Any<'py>) -> PyResult<Any<'py>> {
    let _running = Running::begin();
    let py = memory.py();
    if memory.is_none() {
        return Ok(memory.clone());
    }
    if !memory.getattr_opt(interned!(py, "recall"))?.is_some_and(|recall| recall.is_callable()) {
        let remedy = "pass a rehydrate.Memory, an object with recall(vectors, k) -> similarities, or None";
        return Err(refused(py, format!("memory is of type {}, which has no recall; {remedy}", type_name(memory))));
    }
    if memory.getattr_opt(interned!(py, "namespace"))?.is_some_and(|namespace| namespace.is_none()) {
        return Err(raise(py, "MissingNamespaceError", ("memory",)));
    }
    Ok(memory.clone())
}

/// The indices of the messages that the caller pinned, by index or as the same objects.
#[pyfunction]
pub fn pinned_indices(messages: &Any<'_>, pin: &Any<'_>) -> PyResult<Vec<usize>> {
    let _running = Running::begin();
    let is_one = pin.is_instance_of::<PyInt>() || pin.is_instance_of::<PyString>() || Fields::of(pin).is_some();
    if is_one || !is_iterable(pin)? {
        let remedy = "pass a list of indices or message objects";
        return Err(refused(pin.py(), format!("pin is of type {}; {remedy}", type_name(pin))));
    }
    pin.try_iter()?.map(|entry| index_of(messages, &entry?)).collect()
}

fn index_of(messages: &Any<'_>, entry: &Any<'_>) -> PyResult<usize> {
    let count = i64::try_from(messages.len()?).unwrap_or(i64::MAX);
    if entry.is_instance_of::<PyInt>() && !entry.is_instance_of::<PyBool>() {
        return match entry.extract::<i64>() {
            Ok(index) if (-count..count).contains(&index) => Ok(index.rem_euclid(count) as usize),
            _ => {
                let shown = shown(entry, SHOWN);
                let range = format!("an index goes from {} to {}", -count, count - 1);
                Err(refused(entry.py(), format!("pin names message {shown} of {count}; {range}")))
            }
        };
    }
    for (index, message) in messages.try_iter()?.enumerate() {
        if message?.is(entry) {
            return Ok(index);
        }
    }
    let remedy = "pass an index, or the very object that is in the list";
    Err(refused(entry.py(), format!("pin holds a {} that is none of the messages; {remedy}", type_name(entry))))
}
