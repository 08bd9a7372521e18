//! Passages of long texts, for Python: places in characters.
use std::ops::Range;

use once_cell::race::OnceBox;
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::caps::lossy;
use rehydrate_core::conversation::{Conversation, Message, Needs, Piece, PieceKind, Prepared, Role, Unit};
use rehydrate_core::embed::builtin::StaticModel;
use rehydrate_core::engine::Engine;
use rehydrate_core::error::Error;
use rehydrate_core::excerpts;

use crate::caps::{CodePoints, string};
use crate::convert::{NamedTuple, Text, bytes_of, first_characters};
use crate::division::sliced;
use crate::errors::{detached, to_py};
use crate::exit::Running;
use crate::prepared::{MIN_CONFIDENCE, relevances};
use crate::prompt::SHORTEST_QUOTE;
use crate::tokens::named;

/// The beginning and the end of a part of a text.
type Place = (usize, usize);

fn places(ranges: Vec<Range<usize>>) -> Vec<Place> {
    ranges.into_iter().map(|range| (range.start, range.end)).collect()
}

/// Approximate characters of a window: a few lines.
const WINDOW_CHARS: usize = 400;
/// A longer line becomes several windows.
const MAX_LINE_CHARS: usize = 1_000;
/// Longer texts get larger windows.
const MAX_WINDOWS: usize = 5_000;
/// With more windows they are compared by words alone: the vectors would take most of the time.
const MAX_EMBEDDED: usize = 2_000;
/// Characters from which a query is also searched for as it is written.
const MIN_LITERAL_CHARS: usize = 4;
/// The most such matches in one text.
const MAX_LITERAL_MATCHES: usize = 20;
/// Windows with less are left out; the best has 1.0. They only share a word with it, or are next to it.
const MIN_RELEVANCE: f64 = 0.7;

/// Texts, each scored as a message of one conversation. They are analysed once.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct TextIndex(Prepared);

impl TextIndex {
    fn of(texts: &[&str], embed: bool) -> Result<Self, Error> {
        let message =
            |at: usize| Message { pieces: at..at + 1, media_tokens: 0, structural: 1.0, role: Role::User, unit: at };
        let conversation = Conversation {
            pieces: texts.iter().map(|&text| Piece { text, kind: PieceKind::Text }).collect(),
            messages: (0..texts.len()).map(message).collect(),
            units: texts.iter().map(|_| Unit { pinned: false, may_lead: true }).collect(),
        };
        let model = embed.then(StaticModel::builtin);
        let needs = Needs { model, bags: true, vectors: false, terms: true, mentions: false };
        Engine::shared().prepare(conversation, named("o200k_base")?, None, needs).map(Self)
    }
}

#[pymethods]
impl TextIndex {
    #[new]
    fn new(py: Python<'_>, texts: Vec<Text>) -> PyResult<Self> {
        let _running = Running::begin();
        let texts: Vec<&str> = texts.iter().map(Text::as_str).collect();
        detached(py, || Self::of(&texts, true))
    }

    /// The relevance of each text to a query, 1.0 for the best.
    fn relevances(&self, py: Python<'_>, query: Text) -> PyResult<Vec<f64>> {
        let _running = Running::begin();
        detached(py, || Ok(relevances(&self.0, query.as_str(), None)?.0))
    }
}

/// The windows of some texts, and their analysis.
struct Windows {
    /// Each with the index of its text.
    of: Vec<(usize, Range<usize>)>,
    index: TextIndex,
}

/// The windows of some texts, each with its part that the prompt shows, searched by one query after another. They are
/// analysed at the first query.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Passages {
    texts: Vec<(Py<PyString>, Py<PyString>)>,
    windows: OnceBox<Windows>,
    /// The characters of all texts.
    #[pyo3(get)]
    characters: usize,
}

#[pymethods]
impl Passages {
    #[new]
    fn new(texts: Vec<(Bound<'_, PyString>, Bound<'_, PyString>)>) -> PyResult<Self> {
        let _running = Running::begin();
        let sizes = texts.iter().map(|(text, _)| text.len());
        let characters = sizes.sum::<PyResult<usize>>()?;
        let texts = texts.into_iter().map(|(text, shown)| (text.unbind(), shown.unbind())).collect();
        Ok(Self { texts, windows: OnceBox::new(), characters })
    }

    /// The windows that match, the best first, after those that hold the query as it is written. With a confidence below
    /// `min_confidence` there are only these.
    #[pyo3(signature = (query, *, min_confidence=MIN_CONFIDENCE))]
    fn best<'py>(&self, query: &Bound<'py, PyString>, min_confidence: f64) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let _running = Running::begin();
        let py = query.py();
        let query: Bound<'py, PyString> = query.call_method0("strip")?.cast_into()?;
        let windows = self.windows.get_or_try_init(|| self.analysed(py).map(Box::new))?;
        if windows.of.is_empty() || query.is_empty()? {
            return Ok(Vec::new());
        }
        let mut found: Vec<(usize, Place, f64)> = Vec::new();
        for (number, (text, shown)) in self.texts.iter().enumerate() {
            let places = literal_matches(text.bind(py), shown.bind(py), &query)?;
            found.extend(places.into_iter().map(|place| (number, place, 1.0)));
        }
        let text: Text = query.extract()?;
        let (relevances, confidence) = detached(py, || relevances(&windows.index.0, text.as_str(), None))?;
        if confidence >= min_confidence {
            let matching = windows.of.iter().zip(relevances).filter(|(_, relevance)| *relevance >= MIN_RELEVANCE);
            let factor = f64::min(1.0, 2.0 * confidence);
            let mut matching: Vec<_> = matching
                .map(|((number, span), relevance)| (*number, (span.start, span.end), relevance * factor))
                .collect();
            matching.sort_by(|one, other| other.2.total_cmp(&one.2));
            found.append(&mut matching);
        }
        let of = NamedTuple::of(py, "rehydrate.prompt.splicing", "Match")?;
        let made = |(number, place, relevance): (usize, Place, f64)| {
            of.make([
                number.into_pyobject(py)?.into_any(),
                place.into_pyobject(py)?.into_any(),
                relevance.into_pyobject(py)?.into_any(),
            ])
        };
        found.into_iter().map(made).collect()
    }
}

impl Passages {
    fn analysed(&self, py: Python<'_>) -> PyResult<Windows> {
        let size = WINDOW_CHARS.max(self.characters / MAX_WINDOWS);
        let (mut of, mut texts) = (Vec::new(), Vec::new());
        for (number, (text, shown)) in self.texts.iter().enumerate() {
            let (text, shown): (CodePoints, CodePoints) = (text.bind(py).extract()?, shown.bind(py).extract()?);
            for span in detached(py, || Ok(excerpts::hidden_windows(&text.0, &shown.0, size, MAX_LINE_CHARS)))? {
                texts.push(lossy(&text.0[span.clone()]));
                of.push((number, span));
            }
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let index = detached(py, || TextIndex::of(&texts, texts.len() <= MAX_EMBEDDED))?;
        Ok(Windows { of, index })
    }
}

/// The first lines of a text that hold the query as it is written: a name, a number, a path. Of a long line only the
/// part around it, and nothing that is shown.
fn literal_matches(
    text: &Bound<'_, PyString>,
    shown: &Bound<'_, PyString>,
    query: &Bound<'_, PyString>,
) -> PyResult<Vec<Place>> {
    let (bytes, wanted, mut found) = (bytes_of(text)?, bytes_of(query)?, Vec::new());
    if query.len()? < MIN_LITERAL_CHARS {
        return Ok(found);
    }
    let (finder, is_hidden) = (memchr::memmem::Finder::new(&*wanted), shown.is_empty()?);
    let (mut from, mut begin) = (0, 0); // where to search on, in bytes and in characters
    for _ in 0..MAX_LITERAL_MATCHES {
        let Some(at) = finder.find(&bytes[from..]).map(|at| from + at) else { break };
        let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |line_break| line_break + 1);
        let mut end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |line_break| at + line_break + 1);
        let place = begin + characters(&bytes[from..at]);
        let (mut before, mut after) = (characters(&bytes[start..at]), characters(&bytes[at..end]));
        if before + after > MAX_LINE_CHARS {
            (before, after) = (before.min(WINDOW_CHARS), after.min(WINDOW_CHARS));
            end = at + first_characters(&bytes[at..], after).len();
        }
        let span = (place - before, place + after);
        if is_hidden || !shown.contains(sliced(text, span.0, span.1)?.call_method0("strip")?)? {
            found.push(span);
        }
        (from, begin) = (end, span.1);
    }
    Ok(found)
}

/// The number of characters of these bytes, as `bytes_of` made them.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| !(0x80..0xC0).contains(*byte)).count()
}

/// The first matches with the lines around them, as many as fit in `max_tokens`, and where they are; without visible lines of
/// `SHORTEST_QUOTE` characters at their ends.
#[pyfunction]
pub fn passage_excerpt<'py>(
    text: &Bound<'py, PyString>,
    matches: Vec<Place>,
    max_tokens: i64,
    counter: &str,
    visible_lines: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Vec<Place>)> {
    let _running = Running::begin();
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
    let (content, spans) = excerpts::excerpt(&points.0, &matches, SHORTEST_QUOTE, is_visible, fits)?;
    Ok((string(py, &content)?, places(spans)))
}

/// The end of the page of a text from `start` on: `end`, or earlier if there is no room for more.
#[pyfunction]
pub fn page_end(
    py: Python<'_>,
    text: CodePoints,
    start: usize,
    end: usize,
    max_tokens: i64,
    counter: &str,
) -> PyResult<usize> {
    let _running = Running::begin();
    let max_tokens = usize::try_from(max_tokens).unwrap_or_default();
    detached(py, || {
        let counter = named(counter)?;
        let count = |part: &[u32]| Engine::shared().count(&lossy(part), counter) as usize;
        Ok(excerpts::page_end(&text.0, start..end, max_tokens, count))
    })
}

/// The beginning and the end of some lines of a text. None if they begin beyond it.
#[pyfunction]
pub fn line_span(text: CodePoints, first: usize, last: Option<usize>) -> Option<Place> {
    excerpts::line_span(&text.0, first, last).map(|span| (span.start, span.end))
}

/// The notice of what a page shows, and how to read on up to `end`.
#[pyfunction]
pub fn describe_page(text: CodePoints, start: usize, stop: usize, end: usize, in_lines: bool) -> (String, String) {
    excerpts::describe_page(&text.0, start..stop, end, in_lines)
}

/// The numbers of the lines of a part of a text; those of its characters if it is part of a line.
#[pyfunction]
pub fn line_numbers(text: CodePoints, start: usize, end: usize) -> String {
    excerpts::line_numbers(&text.0, start..end)
}
