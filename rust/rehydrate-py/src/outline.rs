//! The outline of the omitted part of a conversation, for Python: its names, its lines, and its place.
mod name_index;
mod size;
mod slot;

use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::conversation::PieceKind;
use rehydrate_core::conversation::outline::{self, lines};
use rehydrate_core::error::{Error, Result};

use crate::convert::{NamedTuple, Text};
use crate::errors::detached;
use crate::exit::Running;
use crate::fences::fenced_section;

pub use name_index::NameIndex;
pub use size::{check_outline, outline_tokens};
pub use slot::outline_slot;

/// A name, the last text that has it, the last tool input that has it, and whether people speak of it.
type Found = (String, usize, Option<usize>, bool);

/// The best `limit` of the names that no shown text has.
#[pyfunction]
pub fn names(
    py: Python<'_>,
    texts: Vec<Text>,
    kinds: Vec<u8>,
    units: Vec<usize>,
    shown: Vec<bool>,
    limit: usize,
) -> PyResult<Vec<Found>> {
    let _running = Running::begin();
    detached(py, || {
        let columns = [texts.len(), kinds.len(), units.len(), shown.len()];
        if columns.iter().any(|&n| n != columns[0]) || !units.is_sorted() {
            return Err(Error::Argument(format!("columns of different lengths, or out of order: {columns:?}")));
        }
        let texts = texts.iter().zip(&kinds).zip(units.iter().zip(&shown));
        let texts = texts
            .map(|((text, &kind), (&unit, &shown))| {
                Ok(outline::Text { text: text.as_str(), kind: PieceKind::try_from(kind)?, unit, shown })
            })
            .collect::<Result<Vec<_>>>()?;
        let found = outline::names(&texts, limit);
        Ok(found.into_iter().map(|name| (name.name, name.last, name.acted, name.spoken)).collect())
    })
}

/// The lines of as many of these names as fit, in order; "" if none fits.
#[pyfunction]
pub fn write_outline(names: Vec<(Text, Text, Text)>, how: Text, fits: &Bound<'_, PyAny>) -> PyResult<String> {
    let _running = Running::begin();
    let listed: Vec<lines::Listed<&str>> = names
        .iter()
        .map(|(name, heading, reference)| lines::Listed {
            name: name.as_str(),
            heading: heading.as_str(),
            reference: reference.as_str(),
        })
        .collect();
    write_fitting(&listed, how.as_str(), |lines| fits.call1((lines,))?.is_truthy())
}

/// The lines of as many of these names as fit, in order; "" if none fits.
fn write_fitting(listed: &[lines::Listed<&str>], how: &str, fits: impl Fn(&str) -> PyResult<bool>) -> PyResult<String> {
    let (mut low, mut high) = (0, listed.len());
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(&lines::write_lines(&listed[..middle], how))? {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(if low == 0 { String::new() } else { lines::write_lines(&listed[..low], how) })
}

/// The names in the lines of an outline; None for any other text.
#[pyfunction]
pub fn read_outline(py: Python<'_>, text: Text) -> PyResult<Option<Vec<Bound<'_, PyAny>>>> {
    let _running = Running::begin();
    let made = MakeName::new(py)?;
    let Some(listed) = lines::read_lines(text.as_str()) else { return Ok(None) };
    listed
        .iter()
        .map(|each| made.name(py, [&each.name, &each.heading, &each.reference]))
        .collect::<PyResult<_>>()
        .map(Some)
}

/// The lines of an outline in their fence, as the text of a message.
#[pyfunction]
pub fn fenced_outline(lines: &Bound<'_, PyString>) -> PyResult<String> {
    let _running = Running::begin();
    fenced_section("outline", lines)
}

/// The names of an outline in its fence. None unless the text is exactly one outline.
#[pyfunction]
pub fn read_fenced_outline<'py>(text: &Bound<'py, PyString>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    let _running = Running::begin();
    let Some((opening, rest)) = text.to_str().ok().and_then(|text| text.split_once('\n')) else { return Ok(None) };
    let tag = opening.trim_start_matches('<').split(' ').next().unwrap_or_default();
    let Some(lines) = rest.strip_suffix(&format!("\n</{tag}>")) else { return Ok(None) };
    let lines = PyString::new(text.py(), lines);
    if fenced_outline(&lines)? != text.to_str()? {
        return Ok(None);
    }
    read_outline(text.py(), lines.extract()?)
}

/// Makes `OutlineName`s.
struct MakeName<'py>(NamedTuple<'py>);

impl<'py> MakeName<'py> {
    fn new(py: Python<'py>) -> PyResult<Self> {
        Ok(Self(NamedTuple::of(py, "rehydrate.compact.outline", "OutlineName")?))
    }

    fn name(&self, py: Python<'py>, values: [&str; 3]) -> PyResult<Bound<'py, PyAny>> {
        self.0.make(values.map(|value| PyString::new(py, value).into_any()))
    }
}
