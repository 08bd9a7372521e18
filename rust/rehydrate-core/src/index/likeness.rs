//! Recall: the entries most like each of many texts or vectors.
use super::Filter;
use super::rows::{self, Probe};
use super::search::Best;
use super::statistics::of_step;
use super::layout::Section;
use super::view::{Gate, View};
use crate::embed::builtin::StaticModel;
use crate::embed::normalize;
use crate::interrupt::checkpoint;

/// What entries are to be like.
#[derive(Debug, Clone, Copy)]
pub enum Likeness<'a> {
    /// By the built-in model.
    Texts(&'a [&'a str]),
    /// By the caller's.
    Vectors(&'a [&'a [f32]]),
}

impl Likeness<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Vectors(vectors) => vectors.len(),
        }
    }
}

/// A batch of questions for the nearest entries.
#[derive(Debug, Clone, Copy)]
pub struct Recall<'a> {
    pub of: Likeness<'a>,
    /// Entries a question.
    pub k: usize,
    /// Take what all entries have in common from both sides: what is left of unrelated texts is about 0.
    pub centred: bool,
    pub filter: Filter<'a>,
    pub now_ms: i64,
}

impl View {
    /// The nearest entries of each text or vector with their cosines, nearest first; none for a text of which the model
    /// knows nothing and for vectors of another length, of zeros or not finite.
    #[must_use]
    pub fn recall(&self, recall: &Recall<'_>) -> Vec<Vec<(u64, f32)>> {
        let mut best: Vec<Best> = (0..recall.of.len()).map(|_| Best::new(recall.k, f32::NEG_INFINITY)).collect();
        for part in &self.parts {
            let place = if matches!(recall.of, Likeness::Texts(_)) { rows::BUILTIN } else { rows::OWN };
            let Some(rows) = part.segment.rows(place) else { continue };
            let gate = Gate::new(part, &recall.filter, recall.now_ms);
            let (mut products, mut cosines) = (vec![0; rows::BLOCK], vec![0.0; rows::BLOCK]);
            for (question, best) in best.iter_mut().enumerate() {
                checkpoint();
                let vector = match recall.of {
                    Likeness::Texts(texts) => self::vector(part.segment.section(Section::TokenWeights), texts[question]),
                    Likeness::Vectors(vectors) => Some(vectors[question].to_vec()),
                };
                let Some(mut vector) = vector else { continue };
                normalize(&mut vector);
                let Some(probe) = Probe::new(&vector, &rows, recall.centred) else { continue };
                probe.nearest(&rows, &gate, part.base, best, &mut products, &mut cosines);
            }
        }
        let answer = |best: Best| {
            best.finish().into_iter().map(|(cosine, entry)| {
                let (part, ordinal) = self.locate(entry as usize);
                (part.segment.column::<u64>(Section::Ids).get(ordinal), cosine)
            })
        };
        best.into_iter().map(|best| answer(best).collect()).collect()
    }
}

/// The built-in model's vector of a text under a segment's weights.
pub(super) fn vector(weights: &[u8], text: &str) -> Option<Vec<f32>> {
    let model = StaticModel::builtin()?;
    Some(model.vector(model.bag(text).into_iter(), |token| of_step(weights[token as usize])))
}
