//! A prepared conversation and its selections, as Python sees them.
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use rehydrate_core::conversation::Excerpting;
use rehydrate_core::conversation::Needs;
use rehydrate_core::conversation::{Conversation, Message, Piece, Unit};
use rehydrate_core::embed::Embedder;
use rehydrate_core::embed::builtin::StaticModel;
use rehydrate_core::engine::Engine;
use rehydrate_core::error::Error;
use rehydrate_core::selection::{Request, Vectors};
use rehydrate_core::tokens::Counter;
use rustc_hash::FxHashSet;

use crate::convert::{Text, floats};
use crate::division::{Division, sliced};
use crate::errors::detached;
use crate::excerpts::DivisibleTexts;
use crate::exit::Running;
use crate::reading::{self, Draft, Row, Source};
use crate::scoring::Scoring;
use crate::tokens::Counts;

/// It has as many tokens as nearly every handle, or more. If handles cost more than this one, `Excerpts.fit` gives back
/// blocks after the choice, and better choices are lost.
const SAMPLE_HANDLE: &str = "mem_r2c6z4477yjh6q3n8hv7x5m7j8";

/// The tokens of each message, media included; of a conversation, or of messages by themselves.
#[pyfunction]
pub fn message_tokens(messages: &Bound<'_, PyAny>, counter: Counts<'_>) -> PyResult<Vec<u32>> {
    let _running = Running::begin();
    let py = messages.py();
    match messages.cast::<reading::Conversation>() {
        Ok(conversation) => tokens_of_messages(py, conversation.get(), counter),
        Err(_) => tokens_of_messages(py, &reading::Conversation::of_messages(messages)?, counter),
    }
}

/// The tokens of each message of a conversation, media included.
pub fn tokens_of_messages(
    py: Python<'_>,
    conversation: &reading::Conversation,
    counter: Counts<'_>,
) -> PyResult<Vec<u32>> {
    let prepared =
        Prepared::new(py, conversation, counter, None, Vec::new(), false, false, false, false, false, None, false)?;
    Ok(prepared.message_tokens())
}

/// A conversation with its texts counted and analysed.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Prepared {
    pub core: rehydrate_core::conversation::Prepared,
}

#[pymethods]
impl Prepared {
    /// Count and analyse a conversation. Texts seen before come from the cache.
    ///
    /// `weight_of` is the weight of a role, `pinned` are the units that are always kept, () for none. `asked` says that
    /// messages will be compared with a query, `recalled` with memories. Without either, only the newest text is
    /// embedded, and only the names of a query are searched. With `divisible` its texts are divided into blocks, which
    /// may be kept one by one. A mark in a gap costs more with handles.
    #[new]
    #[pyo3(signature = (conversation, *, counter, weight_of=None, pinned=Vec::new(), embed=false, calibrated=false, coverage=false, asked=false, recalled=false, divisible=None, with_handles=false))]
    #[expect(clippy::too_many_arguments, reason = "what the analysis is for")]
    pub fn new(
        py: Python<'_>,
        conversation: &reading::Conversation,
        counter: Counts<'_>,
        weight_of: Option<&Bound<'_, PyAny>>,
        mut pinned: Vec<bool>,
        embed: bool,
        calibrated: bool,
        coverage: bool,
        asked: bool,
        recalled: bool,
        divisible: Option<&DivisibleTexts>,
        with_handles: bool,
    ) -> PyResult<Self> {
        let _running = Running::begin();
        let columns = &conversation.columns;
        if pinned.is_empty() {
            pinned.resize(columns.unit_len(), false);
        }
        let weight = |role: &reading::Named| weight_of.map_or(Ok(1.0), |of| of.call1((&role.shown,))?.extract());
        let structural = columns.of.roles.iter().map(weight).collect::<PyResult<Vec<f64>>>()?;
        let is_own = matches!(counter, Counts::Own(_));
        let count_all = |texts: Vec<Bound<'_, PyString>>| -> PyResult<Vec<u32>> {
            texts.iter().map(|text| counter.of(text)).collect()
        };
        let (mut flags, mut mark_counts, mut block_counts) = (None, [0; 2], None);
        if let Some(texts) = divisible {
            flags = Some(texts.flags());
            for (count, mark) in mark_counts.iter_mut().zip(texts.marks(if with_handles { SAMPLE_HANDLE } else { "" }))
            {
                *count = counter.raw(&PyString::new(py, &mark))?;
            }
            if is_own {
                block_counts = Some(count_all(texts.blocks(py)?)?);
            }
        }
        let counts = if is_own { Some(count_all(conversation.texts(py))?) } else { None };
        let named = match counter {
            Counts::Named(counter) => counter,
            Counts::Own(_) => Counter::Chars,
        };
        let core = detached(py, || {
            let texts = columns.all_pieces();
            let fits = structural.len() == columns.role_len()
                && pinned.len() == columns.unit_len()
                && counts.as_ref().is_none_or(|counts| counts.len() == texts.len());
            if !fits {
                let lengths = (structural.len(), pinned.len(), counts.as_ref().map(Vec::len));
                return Err(Error::Argument(format!("columns of different lengths: {lengths:?}")));
            }
            let message = |(pieces, row, unit): (std::ops::Range<usize>, &Row, usize)| Message {
                pieces,
                media_tokens: row.tokens_of_media(),
                structural: structural[row.role],
                role: columns.role_of(row),
                unit,
            };
            let unit = |(unit, &pinned): (usize, &bool)| Unit { pinned, may_lead: conversation.may_lead(unit) };
            let conversation = Conversation {
                pieces: texts.iter().map(|(text, kind)| Piece { text: text.as_str(), kind: *kind }).collect(),
                messages: columns.rows().map(message).collect(),
                units: pinned.iter().enumerate().map(unit).collect(),
            };
            let model = embed.then(StaticModel::builtin);
            let needs = Needs {
                model,
                bags: asked,
                vectors: recalled || (asked && !calibrated),
                terms: asked && calibrated,
                mentions: coverage,
            };
            let Some(divisible) = &flags else {
                return Engine::shared().prepare(conversation, named, counts.as_deref(), needs);
            };
            let block_counts = block_counts.as_deref();
            let excerpting = Excerpting { divisible, mark_counts, block_counts };
            Engine::shared().prepare_with_excerpts(conversation, &excerpting, named, counts.as_deref(), needs)
        })?;
        Ok(Self { core })
    }

    /// Tokens of each message, media included.
    #[getter]
    fn message_tokens(&self) -> Vec<u32> {
        self.core.message_tokens().to_vec()
    }

    /// The blocks of a divided text.
    fn division(&self, text: usize) -> PyResult<Division> {
        let _running = Running::begin();
        let texts = self.core.divided_texts();
        let found = texts.get(text).ok_or_else(|| PyIndexError::new_err(format!("text {text} of {}", texts.len())))?;
        Ok(Division::of(found.division.clone()))
    }

    /// The conversation that was prepared, with its parts as messages: the divided ones, block by block, and the rest.
    fn parts(
        &self,
        py: Python<'_>,
        conversation: Bound<'_, reading::Conversation>,
    ) -> PyResult<Py<reading::Conversation>> {
        let _running = Running::begin();
        let Some(parts) = self.core.parts() else { return Ok(conversation.unbind()) };
        let (of, texts) = (&conversation.get().columns, self.core.divided_texts());
        let divided: FxHashSet<usize> = texts.iter().map(|text| text.piece).collect();
        let mut draft = Draft::with_capacity(parts.len());
        for (position, block) in parts {
            let row =
                of.of.rows.get(position).ok_or_else(|| PyIndexError::new_err(format!("no message {position}")))?;
            let own = of.pieces(position);
            let start = row.pieces_end - own.len();
            let pieces: Vec<_> = match block {
                None => {
                    let rest = own.iter().enumerate().filter(|(number, _)| !divided.contains(&(start + number)));
                    rest.map(|(_, (text, kind))| (text.clone_ref(py), *kind)).collect()
                }
                Some((text, number)) => {
                    let (source, kind) = &of.all_pieces()[texts[text].piece];
                    let block = &texts[text].division.blocks[number];
                    let part = match source {
                        Source::Replaced(..) => {
                            Source::of(sliced(&source.to_py(py), block.chars.start, block.chars.end)?)?
                        }
                        source => Source::Written(source.as_str()[block.bytes.clone()].into()),
                    };
                    vec![(part, *kind)]
                }
            };
            draft.copy_part(py, &of.of, position, pieces);
        }
        Py::new(py, reading::Conversation::alone(draft))
    }

    /// Components of a vector of the built-in model. None if the conversation was prepared without it.
    #[getter]
    fn dim(&self) -> Option<usize> {
        self.core.model().map(StaticModel::dim)
    }

    /// The built-in model's vectors, float32, row after row.
    fn vectors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let _running = Running::begin();
        let rows = detached(py, || Ok(self.core.message_vectors()))?;
        Ok(bytes_of(py, &rows))
    }

    /// The messages that an expensive model should be asked about, most relevant to `query` first.
    fn rank(&self, py: Python<'_>, query: Text) -> PyResult<Vec<usize>> {
        let _running = Running::begin();
        detached(py, || Ok(self.core.rank(query.as_str())))
    }

    /// The relevance of each message to `query`, 1.0 for the best, 0.0 for all if nothing is found; and the confidence,
    /// 0 to 1.
    fn relevances(&self, py: Python<'_>, query: Text, vectors: Option<OwnVectors>) -> PyResult<(Vec<f64>, f64)> {
        let _running = Running::begin();
        detached(py, || {
            let own = vectors.as_ref().map(OwnVectors::as_core);
            let (mut found, mut confidence) = relevances(&self.core, query.as_str(), own)?;
            let cosine = vectors.as_ref().and_then(OwnVectors::query_similarity);
            if let Some(cosine) = cosine.filter(|&cosine| cosine >= MIN_COSINE) {
                confidence = confidence.max(cosine); // found in other words
            }
            if confidence < MIN_CONFIDENCE {
                found.fill(0.0);
            }
            Ok((found, confidence))
        })
    }

    /// Score and pack.
    #[pyo3(signature = (*, query, vectors, memory_coverage, scoring, reply, target_tokens))]
    #[expect(clippy::too_many_arguments, reason = "what a selection depends on")]
    fn select(
        &self,
        py: Python<'_>,
        query: Option<Query>,
        vectors: Option<OwnVectors>,
        memory_coverage: Option<Vec<f64>>,
        scoring: &Scoring,
        reply: Option<usize>,
        target_tokens: u64,
    ) -> PyResult<Selection> {
        let _running = Running::begin();
        let request = Request {
            query: query.as_ref().map(|query| query.text.as_str()),
            query_weight: query.as_ref().map_or(0.0, |query| query.weight),
            asks: query.as_ref().is_some_and(|query| query.asks),
            vectors: vectors.as_ref().map(OwnVectors::as_core),
            memory_coverage: memory_coverage.as_deref(),
            weights: scoring.weights(),
            signals: scoring.signal_mode(),
            packing: scoring.pack_mode(),
            reply: reply.filter(|&unit| unit < self.core.unit_count()),
            target_tokens,
        };
        Ok(Selection { core: detached(py, || self.core.select(&request))? })
    }
}

/// With a lower confidence nothing is found. Of questions about their own conversation 1% have less than 0.18; of questions
/// about other conversations half have less than 0.21.
pub const MIN_CONFIDENCE: f64 = 0.15;
/// With a cosine from here up, of the caller's model, a query is found although few of its words occur here. Of
/// questions about other conversations with such words 2% reach it, of a conversation's own questions three quarters
/// (MiniLM).
const MIN_COSINE: f64 = 0.35;
/// With fewer rows, their mean says little about what they share.
const MIN_ROWS: usize = 16;

/// The relevance of each message, 1.0 for the best, and the confidence: the share of the query that the best one matches, 1.0
/// if all messages are alike.
pub fn relevances(
    of: &rehydrate_core::conversation::Prepared,
    query: &str,
    vectors: Option<Vectors<'_>>,
) -> Result<(Vec<f64>, f64), Error> {
    let (found, confidence) = of.relevances(query, vectors)?;
    if confidence > 0.0 && found.iter().all(|&each| each == 0.0) {
        // One message alone, or copies of one: no word is rare there, so any word counts.
        return Ok((vec![1.0; found.len()], confidence.max(MIN_CONFIDENCE)));
    }
    let least = found.iter().copied().reduce(f64::min).unwrap_or(0.0);
    Ok((found, if least >= 1.0 { 1.0 } else { confidence }))
}

/// The subject of the next turn, and its weight.
struct Query {
    text: Text,
    weight: f64,
    asks: bool,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Query {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            text: value.getattr("text")?.extract()?,
            weight: value.getattr("weight")?.extract()?,
            asks: value.getattr("asks")?.extract()?,
        })
    }
}

/// Vectors of the caller's own model.
struct OwnVectors {
    rows: Vec<f32>,
    /// The position of each row's message.
    positions: Vec<usize>,
    query: Option<Vec<f32>>,
}

impl<'a, 'py> FromPyObject<'a, 'py> for OwnVectors {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        let query = value.getattr("query")?;
        Ok(Self {
            rows: floats(py, &value.getattr("rows")?)?,
            positions: value.getattr("positions")?.extract()?,
            query: if query.is_none() { None } else { Some(floats(py, &query)?) },
        })
    }
}

impl OwnVectors {
    fn as_core(&self) -> Vectors<'_> {
        Vectors {
            dim: self.rows.len().checked_div(self.positions.len()).unwrap_or(0),
            messages: &self.rows,
            positions: Some(&self.positions),
            query: self.query.as_deref(),
        }
    }

    /// The cosine of the query and its nearest row, the mean row subtracted from both. None with too few rows.
    #[expect(clippy::cast_precision_loss, reason = "no conversation has that many messages")]
    fn query_similarity(&self) -> Option<f64> {
        let (query, dim) = (self.query.as_deref()?, self.query.as_deref()?.len());
        let is_one = |row: &&[f32]| row.iter().any(|&x| x != 0.0);
        let rows: Vec<&[f32]> = self.rows.chunks_exact(dim.max(1)).filter(is_one).collect();
        if rows.len() < MIN_ROWS || !is_one(&query) {
            return None;
        }
        let mut mean = vec![0.0; dim];
        for row in &rows {
            mean.iter_mut().zip(*row).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        mean.iter_mut().for_each(|sum| *sum /= rows.len() as f64);
        let centred =
            |row: &[f32]| -> Vec<f64> { row.iter().zip(&mean).map(|(&x, mean)| f64::from(x) - mean).collect() };
        let dot = |one: &[f64], other: &[f64]| -> f64 { one.iter().zip(other).map(|(a, b)| a * b).sum() };
        let query = centred(query);
        let length = dot(&query, &query).sqrt();
        let cosine = |row: &&[f32]| {
            let row = centred(row);
            dot(&row, &query) / f64::max(dot(&row, &row).sqrt() * length, 1e-9)
        };
        rows.iter().map(cosine).reduce(f64::max)
    }
}

/// The kept units, and every signal that decided it.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Selection {
    pub core: rehydrate_core::selection::Selection,
}

#[pymethods]
impl Selection {
    /// Per unit, whether it is kept.
    #[getter]
    fn kept(&self) -> Vec<bool> {
        self.core.packing.kept.clone()
    }

    /// Per divided text a byte for each block: 1 if it is kept.
    fn kept_blocks<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let mut kept: Vec<Vec<u8>> = Vec::new();
        for block in &self.core.blocks {
            if kept.len() <= block.text {
                kept.resize(block.text + 1, Vec::new());
            }
            kept[block.text].push(u8::from(block.kept));
        }
        kept.iter().map(|flags| PyBytes::new(py, flags)).collect()
    }

    /// Per divided text, tokens and gain of each block.
    fn blocks(&self) -> Vec<Vec<(u32, f64)>> {
        let mut rows: Vec<Vec<(u32, f64)>> = Vec::new();
        for block in &self.core.blocks {
            if rows.len() <= block.text {
                rows.resize(block.text + 1, Vec::new());
            }
            rows[block.text].push((block.tokens, block.gain));
        }
        rows
    }

    /// The query's part of the objective, 0 to 1.
    #[getter]
    fn query_share(&self) -> f64 {
        self.core.query_share
    }

    /// Tokens of the pinned units, system included.
    #[getter]
    fn pinned_tokens(&self) -> u64 {
        self.core.pinned_tokens
    }

    /// Whether vectors were really computed. Without a query only the newest text is embedded.
    #[getter]
    fn embedding(&self) -> bool {
        self.core.embedding
    }
}

/// The built-in model's vectors of texts, float32, row after row, and their dimension.
#[pyfunction]
pub fn embed<'py>(py: Python<'py>, texts: Vec<Text>) -> PyResult<(Bound<'py, PyBytes>, usize)> {
    let _running = Running::begin();
    let (rows, dim) = detached(py, || {
        let model = StaticModel::builtin();
        let texts: Vec<&str> = texts.iter().map(Text::as_str).collect();
        let mut rows = vec![0.0; texts.len() * model.dim()];
        model.embed(&texts, &mut rows)?;
        Ok((rows, model.dim()))
    })?;
    Ok((bytes_of(py, &rows), dim))
}

pub fn bytes_of<'py>(py: Python<'py>, rows: &[f32]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = rows.iter().flat_map(|x| x.to_ne_bytes()).collect();
    PyBytes::new(py, &bytes)
}
