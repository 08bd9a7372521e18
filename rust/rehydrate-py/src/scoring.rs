//! Scoring profiles: the worth of a unit, and how the budget is filled.
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple};
use rehydrate_core::scoring::Weights;
use rehydrate_core::selection::{PackMode, SignalMode};

use crate::checks::{SHOWN, check_choice, is_number, refused, shown, written};
use crate::convert::Given;
use crate::exit::Running;

type Any<'py> = Bound<'py, PyAny>;

/// The weight of a message by role, the same as chitta's.
const STRUCTURAL_WEIGHT: [(&str, f64); 5] =
    [("system", 2.0), ("user", 1.0), ("assistant", 0.8), ("tool", 0.5), ("tool_result", 0.5)];
const UNKNOWN_ROLE_WEIGHT: f64 = 0.6;
/// Weights only matter relative to each other. Beyond this, sums of scores would lose precision.
const MAX_WEIGHT: f64 = 1e6;
const PROFILES: [&str; 2] = ["balanced", "chitta"];

/// How units are scored and packed: an immutable value; its arguments are keyword-only. No class can be derived from it.
///
/// A message is worth ``structural[role] * (recency * r + semantic * s + novelty * (1 - c)) * odds`` with ``r`` its recency
/// (0.1 oldest to 1.0 newest), ``s`` its similarity to the query and ``c`` the share of it that memory already covers.
/// ``odds`` is 1 unless signals are calibrated to a query. A unit is worth as much as its best message.
///
/// - ``recency``, ``semantic``, ``novelty``: weights of the three signals.
/// - ``structural``: weight by role; None: the usual ones. A role that it does not name weighs 0.6; a role that no provider
///   knows is refused unless it is named here.
/// - ``signals``: ``"calibrated"`` spreads the signals within the conversation and combines the embedding with BM25 and with
///   neighbouring turns. ``"raw"`` is plain cosine and linear recency, exactly chitta's formula.
/// - ``packing``: ``"coverage"`` also rewards keeping one mention of everything that matters. ``"greedy"`` uses the score
///   alone.
/// - ``counter``: the token counter where the caller names none.
///
/// Raises InvalidArgumentError for a value outside its limits.
///
/// >>> Scoring.named("chitta").packing
/// 'greedy'
/// >>> Scoring(recency=0.0, semantic=0.7)
/// Scoring(recency=0.0, semantic=0.7)
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Scoring {
    #[pyo3(get)]
    recency: f64,
    #[pyo3(get)]
    semantic: f64,
    #[pyo3(get)]
    novelty: f64,
    structural: Py<PyDict>,
    #[pyo3(get)]
    signals: String,
    #[pyo3(get)]
    packing: String,
    #[pyo3(get)]
    counter: Py<PyAny>,
}

#[pymethods]
impl Scoring {
    #[new]
    #[pyo3(
        signature = (*, recency=Given::USUAL, semantic=Given::USUAL, novelty=Given::USUAL, structural=None, signals=Given::USUAL, packing=Given::USUAL, counter=Given::USUAL),
        text_signature = "(*, recency=0.3, semantic=0.4, novelty=0.3, structural=None, signals='calibrated', packing='coverage', counter='o200k_base')"
    )]
    #[expect(clippy::too_many_arguments, reason = "one for each field")]
    fn new(
        py: Python<'_>,
        recency: Given<'_>,
        semantic: Given<'_>,
        novelty: Given<'_>,
        structural: Option<Any<'_>>,
        signals: Given<'_>,
        packing: Given<'_>,
        counter: Given<'_>,
    ) -> PyResult<Self> {
        let _running = Running::begin();
        let weight = |name, given: Given<'_>, usual| given.0.map_or(Ok(usual), |given| weight(name, &given));
        Ok(Self {
            recency: weight("recency", recency, 0.3)?,
            semantic: weight("semantic", semantic, 0.4)?,
            novelty: weight("novelty", novelty, 0.3)?,
            structural: weights_by_role(py, structural)?.unbind(),
            signals: choice("Scoring.signals", signals, ["calibrated", "raw"], py)?,
            packing: choice("Scoring.packing", packing, ["coverage", "greedy"], py)?,
            counter: counter.0.map_or_else(|| "o200k_base".into_py_any(py), |counter| Ok(counter.unbind()))?,
        })
    }

    /// Return the profile ``"balanced"`` (the default) or ``"chitta"`` (the reference formula).
    ///
    /// Raises InvalidArgumentError for any other name.
    #[staticmethod]
    fn named(name: &Any<'_>) -> PyResult<Self> {
        let _running = Running::begin();
        let py = name.py();
        let profile = Self::balanced(py)?;
        match name.extract::<String>().as_deref() {
            Ok("balanced") => Ok(profile),
            Ok("chitta") => Ok(Self {
                signals: "raw".into(),
                packing: "greedy".into(),
                counter: "words".into_py_any(py)?,
                ..profile
            }),
            _ => {
                let names = PROFILES.map(|name| format!("'{name}'")).join(", ");
                let remedy = format!("choose one of {names}, or pass a Scoring(...)");
                Err(refused(py, format!("scoring is {}; {remedy}", written(name))))
            }
        }
    }

    /// The weights by role; they never change.
    #[getter]
    fn structural<'py>(&self, py: Python<'py>) -> PyResult<Any<'py>> {
        py.import("types")?.getattr("MappingProxyType")?.call1((&self.structural,))
    }

    /// Whether the reply that the last user turn answers is always kept.
    ///
    /// Chitta's formula has no such rule, and its golden cases drop the reply.
    #[getter]
    fn keeps_reply(&self) -> bool {
        self.signals == "calibrated"
    }

    /// Return the structural weight of a role.
    fn weight_of(&self, role: &Any<'_>) -> PyResult<f64> {
        let weight = self.structural.bind(role.py()).get_item(role)?;
        weight.map_or(Ok(UNKNOWN_ROLE_WEIGHT), |weight| weight.extract())
    }

    /// Raise AttributeError: a profile in use never changes.
    fn __setattr__(&self, name: &str, value: &Any<'_>) -> PyResult<()> {
        let made = format!("Scoring({name}={})", written(value));
        Err(PyAttributeError::new_err(format!("Scoring is immutable; make another one: {made}")))
    }

    fn __eq__(&self, other: &Any<'_>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Self>() else { return Ok(false) };
        self.fields(other.py())?.eq(other.get().fields(other.py())?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<u64> {
        let mut roles: Vec<(String, f64)> = Vec::new();
        for (role, weight) in self.structural.bind(py) {
            roles.push((role.str()?.to_string_lossy().into_owned(), weight.extract()?));
        }
        roles.sort_by(|one, other| one.0.cmp(&other.0));
        let mut hasher = DefaultHasher::new();
        for weight in [self.recency, self.semantic, self.novelty].iter().chain(roles.iter().map(|(_, weight)| weight)) {
            (weight + 0.0).to_bits().hash(&mut hasher); // of 0.0 for -0.0, which is equal to it
        }
        roles.iter().for_each(|(role, _)| role.hash(&mut hasher));
        (&self.signals, &self.packing, self.counter.bind(py).hash()?).hash(&mut hasher);
        Ok(hasher.finish())
    }

    /// Return how to make it again, for pickles and copies.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Any<'py>, Bound<'py, PyTuple>)> {
        let partial = py.import("functools")?.getattr("partial")?;
        let made = partial.call((py.get_type::<Self>(),), Some(&self.fields(py)?))?;
        Ok((made, PyTuple::empty(py)))
    }

    /// Return the fields that differ from the balanced profile.
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let _running = Running::begin();
        let usual = Self::balanced(py)?.fields(py)?;
        let mut changed = Vec::new();
        for (name, value) in self.fields(py)? {
            if usual.get_item(&name)?.map_or(Ok(true), |usual| usual.ne(&value))? {
                changed.push(format!("{name}={}", written(&value)));
            }
        }
        Ok(format!("Scoring({})", changed.join(", ")))
    }
}

impl Scoring {
    fn balanced(py: Python<'_>) -> PyResult<Self> {
        let [recency, semantic, novelty, signals, packing, counter] = [const { Given::USUAL }; 6];
        Self::new(py, recency, semantic, novelty, None, signals, packing, counter)
    }

    pub fn weights(&self) -> Weights {
        Weights { recency: self.recency, semantic: self.semantic, novelty: self.novelty }
    }

    pub fn signal_mode(&self) -> SignalMode {
        if self.signals == "calibrated" { SignalMode::Calibrated } else { SignalMode::Raw }
    }

    pub fn pack_mode(&self) -> PackMode {
        if self.packing == "coverage" { PackMode::Coverage } else { PackMode::Greedy }
    }

    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let made = PyDict::new(py);
        made.set_item("counter", &self.counter)?;
        made.set_item("novelty", self.novelty)?;
        made.set_item("packing", &self.packing)?;
        made.set_item("recency", self.recency)?;
        made.set_item("semantic", self.semantic)?;
        made.set_item("signals", &self.signals)?;
        made.set_item("structural", &self.structural)?;
        Ok(made)
    }
}

fn weights_by_role<'py>(py: Python<'py>, given: Option<Any<'py>>) -> PyResult<Bound<'py, PyDict>> {
    let weights = PyDict::new(py);
    let Some(given) = given else {
        for (role, weight) in STRUCTURAL_WEIGHT {
            weights.set_item(role, weight)?;
        }
        return Ok(weights);
    };
    let Ok(mapping) = given.cast::<PyMapping>() else {
        let message = format!("Scoring.structural is {}; pass a mapping of role -> weight", written(&given));
        return Err(refused(py, message));
    };
    for pair in mapping.items()? {
        let (role, given): (Any<'py>, Any<'py>) = pair.extract()?;
        weight(&format!("structural[{}]", written(&role)), &given)?;
        weights.set_item(role, given)?;
    }
    Ok(weights)
}

fn weight(name: &str, given: &Any<'_>) -> PyResult<f64> {
    if is_number(given) && given.ge(0)? && given.le(MAX_WEIGHT)? {
        return given.extract();
    }
    let value = shown(given, SHOWN);
    Err(refused(given.py(), format!("Scoring.{name} is {value}; a weight is a number from 0 to 1e+06")))
}

/// One of these words, or the first of them if none is given.
fn choice(name: &str, given: Given<'_>, words: [&str; 2], py: Python<'_>) -> PyResult<String> {
    let Some(given) = given.0 else { return Ok(words[0].to_owned()) };
    check_choice(name, &given, PyTuple::new(py, words)?.as_any())?;
    given.cast_into::<PyString>()?.extract()
}
