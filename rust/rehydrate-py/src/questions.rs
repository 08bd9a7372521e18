//! Questions in texts, and the query of a compaction, for Python.
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyString};
use rehydrate_core::analysis::questions;

use crate::convert::{NamedTuple, Places};
use crate::errors::detached;
use crate::exit::Running;
use crate::reading::Conversation;

/// A longer turn is read at its beginning and its end: that is where people ask.
const MAX_QUERY_CHARS: usize = 2_000;
/// A query that counts less is not worth the time of the comparison.
const MIN_WEIGHT: f64 = 0.1;

/// The share of a text that is in questions, 0 to 1.
fn question_share(py: Python<'_>, text: Places) -> PyResult<f64> {
    detached(py, || Ok(questions::question_share(text.as_str())))
}

/// The given query, or with `infer` the last user turn if it asks something, as a `WeightedQuery`.
///
/// None for "", for a turn that asks nothing, and if work has followed the question.
#[pyfunction]
#[pyo3(signature = (conversation, query, *, infer=true))]
pub fn weighted_query<'py>(
    conversation: &Bound<'py, Conversation>,
    query: Option<Bound<'py, PyString>>,
    infer: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let _running = Running::begin();
    let (py, of) = (conversation.py(), conversation.get());
    let (text, weight, asks) = match query {
        Some(query) if query.is_empty()? => return Ok(None),
        Some(query) => {
            let asks = question_share(py, query.extract()?)? > 0.0;
            (query, 1.0, asks)
        }
        None => {
            let Some(unit) = of.last_user_turn().filter(|_| infer) else { return Ok(None) };
            let text = head_and_tail(of.last_user_text(py)?)?;
            let since = (of.columns.unit_len() - 1 - unit) as f64;
            let weight = (2.0 * question_share(py, text.extract()?)?).min(1.0) / (1.0 + since).powi(2);
            if weight < MIN_WEIGHT {
                return Ok(None);
            }
            (text, weight, true)
        }
    };
    let made = NamedTuple::of(py, "rehydrate.compact.signals", "WeightedQuery")?;
    let asks = asks.into_pyobject(py)?.to_owned();
    made.make([text.into_any(), weight.into_pyobject(py)?.into_any(), asks.into_any()]).map(Some)
}

fn head_and_tail(text: Bound<'_, PyString>) -> PyResult<Bound<'_, PyString>> {
    let (length, half) = (text.len()? as isize, MAX_QUERY_CHARS as isize / 2);
    if length <= 2 * half {
        return Ok(text);
    }
    let part = |start, end| text.get_item(PySlice::new(text.py(), start, end, 1));
    let (head, tail) = (part(0, half)?, part(length - half, length)?);
    Ok(PyString::new(text.py(), "\n").call_method1("join", ((head, tail),))?.cast_into()?)
}
