//! Greedy covers, for the oracles: sets of strings as sets of numbers.
use std::collections::HashMap;

use pyo3::prelude::*;
use rehydrate_core::retention::{self as core, CoverNeeds};

use super::message::Value;
use crate::convert::Text;
use crate::exit::Running;

/// The steps chosen by new needs per cost, while they fit and cover more needs.
#[pyfunction]
#[pyo3(signature = (needs, costs, budget, covered=None))]
pub fn cover(needs: Vec<Value<'_>>, costs: Vec<i64>, budget: i64, covered: Option<&Value<'_>>) -> PyResult<Vec<usize>> {
    let _running = Running::begin();
    let mut numbers = HashMap::new();
    let covered = covered.map_or_else(|| Ok(CoverNeeds::default()), |covered| numbered(&mut numbers, covered))?;
    let needs = needs.iter().map(|needs| numbered(&mut numbers, needs)).collect::<PyResult<Vec<_>>>()?;
    Ok(core::cover(&needs, &costs, budget, &covered))
}

/// The better of two covers: by new needs per cost, and by new needs alone.
#[pyfunction]
pub fn best_cover(needs: Vec<Value<'_>>, costs: Vec<i64>, budget: i64) -> PyResult<Vec<usize>> {
    let _running = Running::begin();
    let mut numbers = HashMap::new();
    let needs = needs.iter().map(|needs| numbered(&mut numbers, needs)).collect::<PyResult<Vec<_>>>()?;
    Ok(core::best_cover(&needs, &costs, budget))
}

fn numbered(numbers: &mut HashMap<String, usize>, texts: &Value<'_>) -> PyResult<CoverNeeds> {
    let mut found = CoverNeeds::default();
    for text in texts.try_iter()? {
        let next = numbers.len();
        found.insert(*numbers.entry(text?.extract::<Text>()?.as_str().to_owned()).or_insert(next));
    }
    Ok(found)
}
