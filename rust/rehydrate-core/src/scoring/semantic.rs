//! The similarity signal: vectors of the messages and the query, raw cosine or calibrated relevance.
use std::borrow::Cow;

use crate::conversation::prepared::Prepared;
use crate::embed::centred_rows::CentredRows;
use crate::embed::{Embedder, dot, is_present, normalize};
use crate::scoring::relevance::{AnalysedQuery, Relevance};
use crate::scoring::request::{Request, SignalMode};
use crate::scoring::signals::NEUTRAL_SIMILARITY;

/// The similarity signal of each message.
pub(crate) struct Measured {
    pub similarity: Vec<f64>,
    /// Factor that calibrates a whole score. All 1 unless relevance was calibrated.
    pub odds: Vec<f64>,
    /// How far the query asks for something that stands out here (relevance.rs); 1 if that is not calibrated.
    pub standing_out: f64,
    /// Whether vectors were really computed.
    pub embedding: bool,
}

impl Measured {
    fn plain(similarity: Vec<f64>, embedding: bool) -> Self {
        Self { odds: vec![1.0; similarity.len()], similarity, standing_out: 1.0, embedding }
    }
}

/// Vectors of one space, not yet compared.
struct Space<'a> {
    dim: usize,
    rows: Cow<'a, [f32]>,
    /// Whose rows these are; None: every message's, in order.
    positions: Option<&'a [usize]>,
    query: Option<Vec<f32>>,
}

impl Prepared {
    /// Measure similarity to the query of `request`; 0.5 if there is nothing to compare.
    pub(crate) fn measure(&self, request: &Request<'_>, candidate: &[bool]) -> Measured {
        let messages = self.messages.len();
        let Some(query) = request.query else {
            return Measured::plain(vec![NEUTRAL_SIMILARITY; messages], self.embeds(request));
        };
        match request.signals {
            SignalMode::Raw => {
                let space = self.space(request);
                let embedding = space.as_ref().is_some_and(|space| space.rows.chunks_exact(space.dim).any(is_present));
                let cosines = space.and_then(|space| space.cosines(messages));
                Measured::plain(cosines.unwrap_or_else(|| vec![NEUTRAL_SIMILARITY; messages]), embedding)
            }
            SignalMode::Calibrated => {
                let embedding = self.embeds(request);
                let found = self.calibrated(query, request, candidate);
                Measured { similarity: found.relevance, odds: found.odds, standing_out: found.standing_out, embedding }
            }
        }
    }

    /// Relevance of each message by its words, by the built-in model and by the caller's vectors.
    pub(crate) fn calibrated(&self, query: &str, request: &Request<'_>, candidate: &[bool]) -> Relevance {
        // The built-in model is weighted again for each conversation, so it uses the texts, not vectors.
        let own = if request.vectors.is_some() { self.space(request) } else { None };
        let dense = own.and_then(|space| space.centred_cosines(self.messages.len()));
        self.relevance(&AnalysedQuery::new(query, self.model()), dense, candidate, request.weights.semantic)
    }

    /// Whether there is a working embedder: the caller's gave vectors, or the built-in model gives one for the newest
    /// text of which it knows anything.
    fn embeds(&self, request: &Request<'_>) -> bool {
        if let Some(vectors) = request.vectors {
            return vectors.messages.chunks_exact(vectors.dim.max(1)).any(is_present);
        }
        let Some(model) = self.model() else { return false };
        let mut bags = self.analyses.iter().rev().filter_map(|analysis| analysis.bag());
        bags.any(|bag| is_present(&model.vector(bag.iter(), |_| 1.0)))
    }

    /// The caller's vectors, or else the built-in model's.
    fn space<'a>(&self, request: &Request<'a>) -> Option<Space<'a>> {
        if let Some(vectors) = request.vectors {
            let dim = vectors.dim.max(1);
            let query = vectors.query.map(<[f32]>::to_vec);
            return Some(Space { dim, rows: vectors.messages.into(), positions: vectors.positions, query });
        }
        let model = self.model()?;
        let query = request.query.map(|query| model.vector(model.bag(query).into_iter(), |_| 1.0));
        Some(Space { dim: model.dim(), rows: self.message_vectors().into(), positions: None, query })
    }
}

impl Space<'_> {
    /// Per message the cosine with the query; 0.5 where its vector is missing. None if the query's is.
    fn cosines(mut self, messages: usize) -> Option<Vec<f64>> {
        let query = self.asked()?;
        let mut rows = std::mem::take(&mut self.rows).into_owned();
        let cosine = |row: &mut [f32]| {
            normalize(row);
            if is_present(row) { f64::from(dot(row, &query)) } else { NEUTRAL_SIMILARITY }
        };
        let cosines = rows.chunks_exact_mut(self.dim).map(cosine).collect();
        Some(self.scatter(cosines, NEUTRAL_SIMILARITY, messages))
    }

    /// The same with the mean vector subtracted; NaN if a vector is missing. None if no message has one.
    fn centred_cosines(mut self, messages: usize) -> Option<Vec<f64>> {
        let query = self.asked()?;
        let mut rows = std::mem::take(&mut self.rows).into_owned();
        rows.chunks_exact_mut(self.dim).for_each(normalize);
        let cosines = CentredRows::new(rows, self.dim).cosines(query);
        let cosines = self.scatter(cosines, f64::NAN, messages);
        cosines.iter().any(|cosine| !cosine.is_nan()).then_some(cosines)
    }

    /// The query's vector at length 1, if there is one.
    fn asked(&mut self) -> Option<Vec<f32>> {
        let mut query = self.query.take()?;
        normalize(&mut query);
        is_present(&query).then_some(query)
    }

    /// One value a message from one a row.
    fn scatter(&self, of_rows: Vec<f64>, missing: f64, messages: usize) -> Vec<f64> {
        let Some(positions) = self.positions else { return of_rows };
        let mut of_messages = vec![missing; messages];
        for (&position, value) in positions.iter().zip(of_rows) {
            of_messages[position] = value;
        }
        of_messages
    }
}
