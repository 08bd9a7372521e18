//! k nearest neighbours: the entries most similar to each of many texts or vectors.
use super::layout::{self, Section};
use super::neighbours::{Haystack, Probed};
use super::probe::Probe;
use super::query::Filter;
use super::statistics::weight_of_step;
use super::top_k::TopK;
use super::view::View;
use crate::embed::builtin::{Bag, StaticModel};
use crate::embed::normalize;
use crate::interrupt::{both, checkpoint};

/// The texts or vectors whose nearest entries are sought.
#[derive(Debug, Clone, Copy)]
pub enum KnnTarget<'a> {
    /// By the built-in model.
    Texts(&'a [&'a str]),
    /// By the caller's.
    Vectors(&'a [&'a [f32]]),
}

impl KnnTarget<'_> {
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
    pub of: KnnTarget<'a>,
    /// Entries a question.
    pub k: usize,
    /// Subtract the common part of all entries from both sides: the similarity of unrelated texts is then about 0.
    pub centred: bool,
    pub filter: Filter<'a>,
    pub now_ms: i64,
}

/// Questions that are answered together, between two checkpoints.
const BATCH: usize = 2048;
/// From this many on two threads share a batch.
const PARALLEL_FROM: usize = 64;
/// Nine in ten of the true three nearest are found (`python -m benches.python.memory_speed`).
const PROBED: Probed = Probed { share: 20, at_least: 32 };

impl View {
    /// The nearest entries of each text or vector with their cosines, nearest first. None for a text of which the model
    /// knows nothing, and for vectors of another length, of zeros or not finite.
    #[must_use]
    pub fn recall(&self, recall: &Recall<'_>) -> Vec<Vec<(u64, f32)>> {
        let questions: Vec<usize> = (0..recall.of.len()).collect();
        let mut answers = Vec::with_capacity(questions.len());
        for batch in questions.chunks(BATCH) {
            checkpoint();
            if batch.len() < PARALLEL_FROM {
                answers.extend(self.recall_some(recall, batch));
                continue;
            }
            let (half, other) = batch.split_at(batch.len() / 2);
            let (half, other) = both(|| self.recall_some(recall, half), || self.recall_some(recall, other));
            answers.extend(half.into_iter().chain(other));
        }
        answers
    }

    fn recall_some(&self, recall: &Recall<'_>, questions: &[usize]) -> Vec<Vec<(u64, f32)>> {
        let mut best: Vec<TopK> = questions.iter().map(|_| TopK::new(recall.k, f32::NEG_INFINITY)).collect();
        let bag = |&question: &usize| match recall.of {
            KnnTarget::Texts(texts) => Some(StaticModel::builtin().bag(texts[question])),
            KnnTarget::Vectors(_) => None,
        };
        let bags: Vec<Option<Bag>> = questions.iter().map(bag).collect();
        let sections = if matches!(recall.of, KnnTarget::Texts(_)) { layout::BUILTIN } else { layout::OWN };
        for reader in &self.readers {
            let Some(haystack) = Haystack::new(reader, sections, &recall.filter, recall.now_ms) else { continue };
            let probe = |(&question, bag): (&usize, &Option<Bag>)| {
                checkpoint();
                let mut vector = match recall.of {
                    KnnTarget::Texts(_) => vector(reader.segment.section(Section::TokenWeights), bag.as_ref()?),
                    KnnTarget::Vectors(vectors) => vectors[question].to_vec(),
                };
                normalize(&mut vector);
                Probe::new(&vector, &haystack.rows, recall.centred)
            };
            let probes: Vec<Option<Probe>> = questions.iter().zip(&bags).map(probe).collect();
            let asking: Vec<(u32, &Probe)> =
                (0..).zip(&probes).filter_map(|(question, probe)| Some((question, probe.as_ref()?))).collect();
            haystack.nearest(PROBED, &asking, &mut best);
        }
        let answer = |best: TopK| {
            best.finish().into_iter().map(|(cosine, entry)| {
                let (reader, ordinal) = self.locate(entry as usize);
                (reader.segment.column::<u64>(Section::Ids).get(ordinal), cosine)
            })
        };
        best.into_iter().map(|best| answer(best).collect()).collect()
    }
}

/// The built-in model's vector of a bag under a segment's weights.
pub(super) fn vector(weights: &[u8], bag: &Bag) -> Vec<f32> {
    StaticModel::builtin().vector(bag.iter().copied(), |token| weight_of_step(weights[token as usize]))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::index::{Entry, Meta, Segment, Settings};

    #[test]
    fn an_entry_alone_in_its_segment_is_nearest_to_itself() {
        let entry = |id, text| Entry { id, meta: Meta::default(), text, vector: None };
        let alone = [entry(1, "the violin costs eight hundred")];
        let twice = [entry(2, "lunch was at noon"), entry(3, "lunch was at noon")];
        let others =
            [entry(4, "staging listens on port 8443"), entry(5, "a note about penguins"), entry(6, "Anna prefers tea")];
        for order in [[&alone[..], &others, &twice], [&twice, &alone, &others], [&others, &twice, &alone]] {
            let build = |entries: &&[Entry<'_>]| Segment::build(entries, &[], &Settings::default());
            let view = View::new(
                order.iter().map(|reader| Arc::new(Segment::open(Arc::new(build(reader))).unwrap())).collect(),
            );
            for one in order.concat() {
                let filter = Filter::default();
                let recall = Recall { of: KnnTarget::Texts(&[one.text]), k: 6, centred: true, filter, now_ms: 0 };
                let near = view.recall(&recall).remove(0);
                let own = near.iter().find(|(id, _)| *id == one.id).unwrap().1;
                assert_eq!(near.len(), 6);
                assert!(own > 0.98 && near.iter().all(|(_, cosine)| *cosine <= own + 0.01), "{}: {near:?}", one.text);
            }
        }
    }
}
