//! The size of an outline in tokens.
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use crate::checks::{SHOWN, refused, shown};
use crate::exit::Running;

/// The default outline's share of the tokens that came in.
const DEFAULT_SHARE: f64 = 0.015;
/// The size of the default outline if its share is less and there is room.
const DEFAULT_TOKENS: i128 = 200;
/// A smaller outline would be mostly its own frame, so there is none.
const MIN_TOKENS: i128 = 100;
/// The default outline takes at most this share of the tokens that pinned units leave free.
const MAX_FREE_SHARE: f64 = 0.15;

/// An outline's size: whether there is one, its tokens, or its share. Raises InvalidArgumentError for anything else.
#[pyfunction]
pub fn check_outline<'py>(outline: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    let is_number = outline.is_instance_of::<PyInt>() && outline.ge(MIN_TOKENS)?;
    let is_share = outline.is_instance_of::<PyFloat>() && outline.gt(0)? && outline.lt(1)?;
    if outline.is_instance_of::<PyBool>() || is_number || is_share {
        return Ok(outline.clone());
    }
    let remedy = format!(
        "pass True for the usual size, False for none, a whole number of tokens from {MIN_TOKENS} up, or a share of the tokens \
         that came in between 0 and 1, such as 0.02"
    );
    Err(refused(outline.py(), format!("outline is {}; {remedy}", shown(outline, SHOWN))))
}

/// The most tokens of an outline of this size. 0 if that is too few for one.
///
/// `before_tokens` came in, and `free_tokens` are left of the target by pinned units.
#[pyfunction]
#[expect(clippy::cast_precision_loss, reason = "no conversation has that many tokens")]
pub fn outline_tokens(outline: &Bound<'_, PyAny>, before_tokens: i128, free_tokens: i128) -> PyResult<i128> {
    let (before, free) = (before_tokens as f64, free_tokens as f64);
    let tokens = if outline.is_instance_of::<PyFloat>() {
        (before * outline.extract::<f64>()?) as i128
    } else if !outline.is_instance_of::<PyBool>() {
        outline.extract().unwrap_or(i128::MAX)
    } else if outline.is_truthy()? {
        DEFAULT_TOKENS.max((before * DEFAULT_SHARE) as i128).min((free * MAX_FREE_SHARE) as i128)
    } else {
        0
    };
    let tokens = tokens.min(free_tokens);
    Ok(if tokens >= MIN_TOKENS { tokens } else { 0 })
}
