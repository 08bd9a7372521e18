//! The hits of a memory that are about a query, by a relevance that means the same in every search.
use pyo3::prelude::*;
use rehydrate_core::analysis::small_talk::{is_in_ideographs, is_small_talk};

use crate::checks::{is_number, refused, written};
use crate::convert::Places;
use crate::exit::Running;
use crate::interned::interned;

/// Relevance that every further hit must have. One with less has almost nothing in common with the query.
const MIN_HIT_RELEVANCE: f64 = 0.1;
/// Factor of the threshold for a query in ideographs (eight questions and their answers in Chinese: 0.29 to 1.29; ten
/// unrelated ones: at most 0.25).
const IDEOGRAPH_FACTOR: f64 = 0.5;

/// The hits that are about the query, in their order. None if the best has less than `min_relevance`, or the query asks
/// for nothing. All of them if `min_relevance` is 0.
#[pyfunction]
pub fn relevant_hits<'py>(
    hits: Vec<Bound<'py, PyAny>>,
    query: Places,
    min_relevance: f64,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let _running = Running::begin();
    if min_relevance <= 0.0 {
        return Ok(hits);
    }
    let query = query.as_str();
    let least = if is_in_ideographs(query) { min_relevance * IDEOGRAPH_FACTOR } else { min_relevance };
    let relevances = hits.iter().map(hit_relevance).collect::<PyResult<Vec<_>>>()?;
    let best = relevances.iter().copied().fold(0.0, f64::max);
    if is_small_talk(query) || best < least {
        return Ok(Vec::new());
    }
    let floor = MIN_HIT_RELEVANCE.min(least);
    Ok(hits.into_iter().zip(relevances).filter(|(_, relevance)| *relevance >= floor).map(|(hit, _)| hit).collect())
}

/// A hit's relevance to the query, from 0 to 2, the same in every search.
#[pyfunction]
pub fn hit_relevance(hit: &Bound<'_, PyAny>) -> PyResult<f64> {
    let _running = Running::begin();
    let py = hit.py();
    let trigram: f64 = hit.getattr(interned!(py, "trigram"))?.extract()?;
    let cosine: Option<f64> = hit.getattr(interned!(py, "cosine"))?.extract()?;
    // Without a vector the words count for the meaning too.
    Ok(cosine.map_or(2.0 * trigram, |cosine| trigram + cosine.max(0.0)))
}

/// A relevance from 0 to 2. Raises InvalidArgumentError for anything else.
#[pyfunction]
pub fn checked_relevance(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    let _running = Running::begin();
    if is_number(value) && value.ge(0)? && value.le(2)? {
        return value.extract();
    }
    let remedy = "pass a number from 0 (whatever is found) to 2";
    Err(refused(value.py(), format!("min_relevance is {}; {remedy}", written(value))))
}
