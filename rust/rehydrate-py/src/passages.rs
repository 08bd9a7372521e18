//! Passages of long texts, for Python: places in characters.
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::caps::lossy;
use rehydrate_core::engine::Engine;
use rehydrate_core::excerpts;

use crate::caps::{CodePoints, string};
use crate::division::sliced;
use crate::errors::{detached, to_py};
use crate::tokens::named;

/// Where a part of a text begins and ends.
type Place = (usize, usize);

fn places(ranges: Vec<Range<usize>>) -> Vec<Place> {
    ranges.into_iter().map(|range| (range.start, range.end)).collect()
}

/// The windows of a text that hold a line which is not shown, of about `size` characters.
#[pyfunction]
pub fn hidden_windows(
    py: Python<'_>,
    text: CodePoints,
    shown: CodePoints,
    size: usize,
    max_line: usize,
) -> PyResult<Vec<Place>> {
    detached(py, || Ok(places(excerpts::hidden_windows(&text.0, &shown.0, size, max_line))))
}

/// The first matches with the lines around them, as many as fit in `max_tokens`, and where they are; without visible lines of
/// `least` characters at their ends.
#[pyfunction]
pub fn passage_excerpt<'py>(
    text: &Bound<'py, PyString>,
    matches: Vec<Place>,
    max_tokens: i64,
    counter: &str,
    visible_lines: &Bound<'py, PyAny>,
    least: usize,
) -> PyResult<(Bound<'py, PyAny>, Vec<Place>)> {
    let py = text.py();
    let counter = named(counter).map_err(|error| to_py(py, &error))?;
    let points: CodePoints = text.extract()?;
    let size = points.0.len();
    let matches: Vec<_> =
        matches.iter().map(|&(start, end)| start.min(size)..end.clamp(start.min(size), size)).collect();
    let is_visible = |line: Range<usize>| visible_lines.contains(sliced(text, line.start, line.end)?);
    let fits = |part: &[u32]| -> PyResult<bool> {
        let part = lossy(part);
        Ok(i64::from(detached(py, || Ok(Engine::shared().count(&part, counter)))?) <= max_tokens)
    };
    let (content, spans) = excerpts::excerpt(&points.0, &matches, least, is_visible, fits)?;
    Ok((string(py, &content)?, places(spans)))
}

/// Where the page of a text from `start` on ends: at `end`, or after as much as has room.
#[pyfunction]
pub fn page_end(
    py: Python<'_>,
    text: CodePoints,
    start: usize,
    end: usize,
    max_tokens: i64,
    counter: &str,
) -> PyResult<usize> {
    let max_tokens = usize::try_from(max_tokens).unwrap_or_default();
    detached(py, || {
        let counter = named(counter)?;
        let count = |part: &[u32]| Engine::shared().count(&lossy(part), counter) as usize;
        Ok(excerpts::page_end(&text.0, start..end, max_tokens, count))
    })
}

/// Where lines of a text begin and end; None where they begin beyond it.
#[pyfunction]
pub fn line_span(text: CodePoints, first: usize, last: Option<usize>) -> Option<Place> {
    excerpts::line_span(&text.0, first, last).map(|span| (span.start, span.end))
}

/// What a page shows, and how to read on up to `end`.
#[pyfunction]
pub fn describe_page(text: CodePoints, start: usize, stop: usize, end: usize, in_lines: bool) -> (String, String) {
    excerpts::describe_page(&text.0, start..stop, end, in_lines)
}

/// The numbers of the lines of a part of a text; those of its characters where it is part of a line.
#[pyfunction]
pub fn line_numbers(text: CodePoints, start: usize, end: usize) -> String {
    excerpts::line_numbers(&text.0, start..end)
}
