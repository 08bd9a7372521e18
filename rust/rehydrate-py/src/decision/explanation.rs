//! The reports of all units, and their table.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyTuple, PyType};
use rehydrate_core::excerpts::grouped;

use crate::convert::Text;
use crate::exit::Running;
use crate::interned::{interned, record};

/// The score of every unit and each of its signals; ``str()`` of it is a table.
///
/// ``units`` are the `UnitReport`s, in the order of the conversation; iterating gives them too. No class can be derived
/// from it.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Explanation {
    #[pyo3(get)]
    units: Py<PyTuple>,
}

#[pymethods]
impl Explanation {
    /// Made by ``Compaction.explain``.
    #[new]
    pub fn new(units: Bound<'_, PyTuple>) -> Self {
        Self { units: units.unbind() }
    }

    /// Iterate over the units' reports, in the order of the conversation.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.units.bind(py).try_iter()
    }

    /// Return the number of units.
    fn __len__(&self, py: Python<'_>) -> usize {
        self.units.bind(py).len()
    }

    /// Return rows of plain values, for JSON.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let _running = Running::begin();
        let as_dict = |record: &Bound<'py, PyAny>| PyResult::Ok(record.call_method0("_asdict")?.cast_into::<PyDict>()?);
        let row = |unit: Bound<'py, PyAny>| {
            let made = as_dict(&unit)?;
            let blocks = unit.getattr(interned!(py, "blocks"))?.try_iter()?;
            made.set_item("blocks", blocks.map(|block| as_dict(&block?)).collect::<PyResult<Vec<_>>>()?)?;
            Ok(made)
        };
        self.units.bind(py).iter().map(row).collect()
    }

    /// Return the table, as a notebook shows it.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let _running = Running::begin();
        slf.py().import("rehydrate._text")?.call_method1("notebook_html", (slf,))
    }

    /// Return a table in plain text: one line per unit, and below it the runs of blocks in its texts.
    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        let _running = Running::begin();
        let mut lines = vec![format!(
            "{:>5} {:>11} {:<9} {:>7} {:>6} {:>7} {:>8} {:>7} {:>7}  {:<4}  reason",
            "unit", "messages", "role", "tokens", "score", "recency", "semantic", "covered", "gain", ""
        )];
        for unit in self.units.bind(py) {
            unit.extract::<Unit<'_>>()?.write(&mut lines)?;
        }
        Ok(lines.join("\n"))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (Py<PyTuple>,)) {
        (py.get_type::<Self>(), (self.units.clone_ref(py),))
    }
}

record! {
    struct Unit<'py> {
        unit: usize,
        messages: Vec<usize>,
        role: Text,
        tokens: u64,
        score: f64,
        recency: f64,
        semantic: f64,
        coverage: f64,
        gain: f64,
        kept: bool,
        reason: Text,
        blocks: Vec<Bound<'py, PyAny>>,
        stripped_tokens: i64,
        stripped: Text,
    }
}

record! {
    struct Block<'py> {
        message: Bound<'py, PyAny>,
        text: Bound<'py, PyAny>,
        measure: Text,
        first: Bound<'py, PyAny>,
        last: Bound<'py, PyAny>,
        tokens: u64,
        gain: f64,
        kept: bool,
    }
}

impl Unit<'_> {
    fn write(&self, lines: &mut Vec<String>) -> PyResult<()> {
        lines.push(format!(
            "{:>5} {:>11} {:<9} {:>7} {:>6.3} {:>7.3} {:>8.3} {:>7.3} {:>7.3}  {}  {}",
            self.unit,
            span(self.messages.clone()),
            self.role.as_str(),
            grouped(self.tokens),
            self.score,
            self.recency,
            self.semantic,
            self.coverage,
            self.gain,
            if self.kept { "keep" } else { "drop" },
            self.reason.as_str(),
        ));
        let stripped = self.stripped.as_str();
        if self.stripped_tokens > 0 || !stripped.is_empty() {
            let why = if stripped.is_empty() { String::new() } else { format!(": {stripped}") };
            let tokens = grouped(u64::try_from(self.stripped_tokens).unwrap_or_default());
            lines.push(format!("{:>27} {tokens:>7} {:>39}  omit  thinking{why}", "", ""));
        }
        let mut is_whole = true;
        for block in &self.blocks {
            is_whole &= block.getattr(interned!(block.py(), "kept"))?.is_truthy()?;
        }
        if !self.kept || is_whole {
            return Ok(());
        }
        for run in runs(&self.blocks)? {
            let run: Block<'_> = run.extract()?;
            lines.push(format!(
                "{:>27} {:>7} {:>30} {:>7.3}  {}  message {}, text {}: {} {}-{}",
                "",
                grouped(run.tokens),
                "",
                run.gain,
                if run.kept { "keep" } else { "omit" },
                run.message,
                run.text,
                run.measure.as_str(),
                run.first,
                run.last,
            ));
        }
        Ok(())
    }
}

/// One block for each run of neighbours in one text that are all kept or all dropped.
#[pyfunction]
pub fn block_runs(blocks: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let _running = Running::begin();
    runs(&blocks)
}

fn runs<'py>(blocks: &[Bound<'py, PyAny>]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut found: Vec<Vec<Block<'py>>> = Vec::new();
    let mut firsts = Vec::new();
    for each in blocks {
        let block: Block<'py> = each.extract()?;
        match found.last_mut().filter(|run| run[0].goes_on_with(&block)) {
            Some(run) => run.push(block),
            None => {
                found.push(vec![block]);
                firsts.push(each);
            }
        }
    }
    let made = |(first, run): (&Bound<'py, PyAny>, Vec<Block<'py>>)| {
        let changes = PyDict::new(first.py());
        changes.set_item("last", &run[run.len() - 1].last)?;
        changes.set_item("tokens", run.iter().map(|block| block.tokens).sum::<u64>())?;
        changes.set_item("gain", run.iter().map(|block| block.gain).fold(0.0, |sum, gain| sum + gain))?;
        first.call_method("_replace", (), Some(&changes))
    };
    firsts.into_iter().zip(found).map(made).collect()
}

impl Block<'_> {
    fn goes_on_with(&self, other: &Self) -> bool {
        let is_same = |one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>| one.eq(other).unwrap_or(false);
        is_same(&self.message, &other.message) && is_same(&self.text, &other.text) && self.kept == other.kept
    }
}

/// ``3`` or ``3-5`` or, with gaps, ``3..9``.
#[pyfunction]
pub fn span(indices: Vec<usize>) -> String {
    let (Some(first), Some(last)) = (indices.first(), indices.last()) else { return String::new() };
    match last - first {
        0 => first.to_string(),
        gaps if gaps + 1 == indices.len() => format!("{first}-{last}"),
        _ => format!("{first}..{last}"),
    }
}
