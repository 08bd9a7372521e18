//! k nearest neighbours: the entries most like each of many texts or vectors.
use std::ops::Range;

use super::layout::{self, Section};
use super::probe::{Probe, Scratch};
use super::query::Filter;
use super::segment_reader::DocFilter;
use super::statistics::weight_of_step;
use super::top_k::TopK;
use super::vector_rows::Rows;
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
    /// Take what all entries have in common from both sides: what is left of unrelated texts is about 0.
    pub centred: bool,
    pub filter: Filter<'a>,
    pub now_ms: i64,
}

/// Questions that are answered together, between two checkpoints.
const BATCH: usize = 2048;
/// From so many on two threads share a batch.
const PARALLEL_FROM: usize = 64;
/// Share of the lists that are looked into: the third nearest is on average within 0.01 of the true (`cargo bench --bench
/// index`); how much is remembered of a text asks for no more.
const PROBED_SHARE: usize = 32;
/// The least number that is looked into.
const MIN_PROBED: usize = 20;
/// Rows of a segment without lists that all questions are held against before the next.
const ROWS_AT_ONCE: usize = 128;
/// Looks into lists between two checkpoints.
const VISITS_AT_ONCE: usize = 256;

impl View {
    /// The nearest entries of each text or vector with their cosines, nearest first; none for a text of which the model
    /// knows nothing and for vectors of another length, of zeros or not finite.
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
        let mut scratch = Scratch::default();
        let bag = |&question: &usize| match recall.of {
            KnnTarget::Texts(texts) => StaticModel::builtin().map(|model| model.bag(texts[question])),
            KnnTarget::Vectors(_) => None,
        };
        let bags: Vec<Option<Bag>> = questions.iter().map(bag).collect();
        let sections = if matches!(recall.of, KnnTarget::Texts(_)) { layout::BUILTIN } else { layout::OWN };
        for reader in &self.readers {
            let Some(rows) = Rows::of(&reader.segment, sections) else { continue };
            let doc_filter = DocFilter::new(reader, &recall.filter, recall.now_ms);
            let probe = |(&question, bag): (&usize, &Option<Bag>)| {
                checkpoint();
                let mut vector = match recall.of {
                    KnnTarget::Texts(_) => vector(reader.segment.section(Section::TokenWeights), bag.as_ref()?)?,
                    KnnTarget::Vectors(vectors) => vectors[question].to_vec(),
                };
                normalize(&mut vector);
                Probe::new(&vector, &rows, recall.centred)
            };
            let probes: Vec<Option<Probe>> = questions.iter().zip(&bags).map(probe).collect();
            let asking = || (0_u32..).zip(&probes).filter_map(|(question, probe)| Some((question, probe.as_ref()?)));
            if rows.lists() == 0 {
                let mut scan = |probe: &Probe, question: u32, slots: Range<usize>| {
                    let best = &mut best[question as usize];
                    probe.scan(&rows, slots, &doc_filter, reader.base, best, &mut scratch.products);
                };
                for from in (0..rows.len()).step_by(ROWS_AT_ONCE) {
                    checkpoint();
                    let slots = from..rows.len().min(from + ROWS_AT_ONCE);
                    asking().for_each(|(question, probe)| scan(probe, question, slots.clone()));
                }
                continue;
            }
            // List by list, so that all who look into one find its rows in the processor's cache.
            let number = (rows.lists() / PROBED_SHARE).max(MIN_PROBED);
            let mut visits: Vec<(bool, u32, u32)> = Vec::new();
            for (question, probe) in asking() {
                checkpoint();
                let lists = probe.lists(&rows, number, &mut scratch);
                visits.extend((0..).zip(lists).map(|(rank, list)| (rank > 0, list, question)));
            }
            // The nearest lists first: what is found there lets most of the rest be passed over.
            visits.sort_unstable();
            for some in visits.chunks(VISITS_AT_ONCE) {
                checkpoint();
                for &(_, list, question) in some {
                    if let Some(probe) = &probes[question as usize] {
                        let best = &mut best[question as usize];
                        probe.pruned_scan(
                            &rows,
                            rows.list(list as usize),
                            &doc_filter,
                            reader.base,
                            best,
                            &mut scratch,
                        );
                    }
                }
            }
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
pub(super) fn vector(weights: &[u8], bag: &Bag) -> Option<Vec<f32>> {
    let vector =
        |model: &StaticModel| model.vector(bag.iter().copied(), |token| weight_of_step(weights[token as usize]));
    StaticModel::builtin().map(vector)
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
