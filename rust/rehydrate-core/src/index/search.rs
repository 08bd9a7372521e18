//! Hybrid search: every leg names candidates, and all legs score these and their neighbours.
use rustc_hash::FxHashMap;

use super::knn::vector;
use super::layout::{self, Section};
use super::neighbours::{Haystack, Probed};
use super::probe::Probe;
use super::query::{Hit, Query};
use super::score_buffer::{ScoreBuffer, WordWeights, most};
use super::segment_reader::DocFilter;
use super::terms::QueryTerms;
use super::top_k::TopK;
use super::view::View;
use crate::embed::builtin::{Bag, PackedBag, StaticModel};
use crate::embed::nearness::Nearness;
use crate::embed::normalize;
use crate::interrupt::checkpoint;
use crate::scoring::rank_fusion::{Calibration, CandidateSignals, Fusion, Marks, fuse};
use crate::scoring::soft_match::soft_match;

/// Each leg names this many candidates, or as many as the caller wants.
const CANDIDATES_PER_LEG: usize = 32;
/// The number of candidates and neighbours that are matched token by token.
const SOFT_MATCHED: usize = 64;
/// A leg asks for ten times as many as are recalled.
const PROBED: Probed = Probed { share: 24, at_least: 24 };
/// Entries whose scores are looked at together.
const BLOCK: usize = 64;
/// Neighbours on each side.
const REACH: usize = 2;
/// The calibration of the candidates' signals.
const CALIBRATION: Calibration<f32> =
    Calibration { contrast: 1.5, neighbour_share: 0.5, speaker_bonus: 0.5, question_factor: 0.75 };
/// Entries under a label from which it is a speaker's.
const SPEAKER_ENTRIES: usize = 3;

/// A query's vector and the rows that it is compared with.
struct Asked<'a> {
    probe: Probe,
    haystack: Haystack<'a>,
}

impl<'a> Asked<'a> {
    fn new(haystack: Haystack<'a>, vector: &[f32]) -> Option<Self> {
        Some(Self { probe: Probe::new(vector, &haystack.rows, true)?, haystack })
    }
}

impl View {
    /// The best entries for a query, best first.
    #[must_use]
    pub fn search(&self, query: &Query<'_>) -> Vec<Hit> {
        if query.limit == 0 || self.live == 0 {
            return Vec::new();
        }
        let query_terms = QueryTerms::of(query.text);
        let mut buffer = self.take_buffer();
        let weights = self.score_words(&query_terms, &mut buffer);
        let bag = StaticModel::builtin().bag(query.text);
        let probes = self.probes(query, &bag);
        let candidates = self.candidates(query, &buffer, &weights, &probes);
        let (entries, beside) = if query.fusion == Fusion::Calibrated {
            self.with_neighbours(query, &candidates)
        } else {
            (candidates, Vec::new())
        };
        let mut signals: Vec<CandidateSignals> = entries
            .iter()
            .map(|&entry| {
                let (builtin, own) = self.cosines(entry, &probes);
                let (text, trigram) = (buffer.scored[entry].text, buffer.trigram(entry, &weights));
                CandidateSignals { text, trigram, builtin, own, soft: 0.0 }
            })
            .collect();
        self.keep_buffer(buffer);
        let marks = Marks {
            beside: &beside,
            named: &self.named_speakers(&entries, &query_terms.terms),
            asks: &self.ask_flags(&entries),
            exact: &self.exact_matches(&query_terms.words, &entries, &signals),
        };
        let mut scores = fuse(query.fusion, &signals, marks, &CALIBRATION);
        if query.fusion == Fusion::Calibrated {
            self.match_softly(&bag, &entries, &scores, &mut signals);
            scores = fuse(query.fusion, &signals, marks, &CALIBRATION);
        }
        let best_text = signals.iter().map(|signals| signals.text).fold(1e-9, f32::max);
        let mut hits: Vec<Hit> = (0..entries.len())
            .map(|at| {
                let (reader, ordinal) = self.locate(entries[at]);
                let CandidateSignals { text, trigram, .. } = signals[at];
                let id = reader.segment.column::<u64>(Section::Ids).get(ordinal);
                Hit { id, score: scores[at], text: text / best_text, trigram, cosine: signals[at].cosine() }
            })
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
        hits.truncate(query.limit);
        hits
    }

    /// The query against the vectors of each reader: the built-in model's and the caller's.
    fn probes<'a>(&'a self, query: &'a Query<'a>, bag: &Bag) -> Vec<[Option<Asked<'a>>; 2]> {
        let mut own = query.vector.map(<[f32]>::to_vec).unwrap_or_default();
        normalize(&mut own);
        self.readers
            .iter()
            .map(|reader| {
                let haystack = |sections| Haystack::new(reader, sections, &query.filter, query.now_ms);
                let weights = reader.segment.section(Section::TokenWeights);
                [
                    haystack(layout::BUILTIN).and_then(|haystack| Asked::new(haystack, &vector(weights, bag))),
                    haystack(layout::OWN).and_then(|haystack| Asked::new(haystack, &own)),
                ]
            })
            .collect()
    }

    /// The best entries of each leg.
    fn candidates(
        &self,
        query: &Query<'_>,
        buffer: &ScoreBuffer,
        weights: &WordWeights,
        probes: &[[Option<Asked<'_>>; 2]],
    ) -> Vec<usize> {
        let each = CANDIDATES_PER_LEG.max(query.limit);
        let (mut by_text, mut by_trigram) = (TopK::new(each, 0.0), TopK::new(each, 0.0));
        let mut by_vector = [TopK::new(each, 0.0), TopK::new(each, 0.0)];
        let wants_meaning = !matches!(query.fusion, Fusion::Weighted { vector, .. } if vector == 0.0);
        for (reader, probes) in self.readers.iter().zip(probes) {
            checkpoint();
            let doc_filter = DocFilter::new(reader, &query.filter, query.now_ms);
            let entries = reader.base..reader.base + reader.segment.len();
            for from in entries.clone().step_by(BLOCK) {
                let to = entries.end.min(from + BLOCK);
                let scored = &buffer.scored[from..to];
                // Most stretches hold nothing that is good enough, which vector instructions find at once.
                let (text, words) = most(scored);
                if text > by_text.floor {
                    for (entry, scored) in (from..).zip(scored) {
                        by_text.offer(scored.text, entry as u32, || doc_filter.passes(entry - reader.base));
                    }
                }
                if weights.of(words) > by_trigram.floor {
                    for entry in from..to {
                        let held = buffer.held(entry, weights);
                        by_trigram.offer(held, entry as u32, || doc_filter.passes(entry - reader.base));
                    }
                }
            }
            if !wants_meaning {
                continue;
            }
            for (asked, best) in probes.iter().zip(&mut by_vector) {
                if let Some(Asked { probe, haystack }) = asked {
                    haystack.nearest(PROBED, &[(0, probe)], std::slice::from_mut(best));
                }
            }
        }
        let [builtin, own] = by_vector;
        let legs = [by_text, by_trigram, builtin, own].into_iter();
        let mut candidates: Vec<usize> = legs.flat_map(TopK::finish).map(|(_, entry)| entry as usize).collect();
        candidates.sort_unstable();
        candidates.dedup();
        candidates
    }

    /// The candidates and their neighbours; for each the indices and distances of its neighbours among them.
    fn with_neighbours(&self, query: &Query<'_>, candidates: &[usize]) -> (Vec<usize>, Vec<Vec<(usize, i32)>>) {
        let mut found = Vec::new();
        let of_candidates: Vec<_> =
            candidates.iter().map(|&entry| (entry, self.findable_neighbours(query, entry, &mut found))).collect();
        let mut entries: Vec<usize> = candidates.to_vec();
        entries.extend(of_candidates.iter().flat_map(|(_, neighbours)| neighbours).map(|(neighbour, _)| *neighbour));
        entries.sort_unstable();
        entries.dedup();
        let known: FxHashMap<usize, usize> = entries.iter().enumerate().map(|(at, &entry)| (entry, at)).collect();
        let mut neighbours: FxHashMap<usize, Vec<(usize, i32)>> = of_candidates.into_iter().collect();
        let mut beside = |entry: usize| {
            let neighbours =
                neighbours.remove(&entry).unwrap_or_else(|| self.findable_neighbours(query, entry, &mut found));
            neighbours
                .into_iter()
                .filter_map(|(neighbour, distance)| Some((*known.get(&neighbour)?, distance)))
                .collect()
        };
        let beside = entries.iter().map(|&entry| beside(entry)).collect();
        (entries, beside)
    }

    /// The neighbours of an entry that may be found, and how far they are.
    fn findable_neighbours(&self, query: &Query<'_>, entry: usize, found: &mut Vec<(u64, usize)>) -> Vec<(usize, i32)> {
        let mut passing = Vec::with_capacity(2 * REACH);
        for after in [false, true] {
            self.neighbours(entry, after, REACH, found);
            let neighbours = found.iter().map(|(_, neighbour)| *neighbour).zip(1..);
            passing.extend(neighbours.filter(|&(other, _)| {
                let (reader, ordinal) = self.locate(other);
                DocFilter::new(reader, &query.filter, query.now_ms).passes(ordinal)
            }));
        }
        passing
    }

    /// Whether each entry was said by someone whom the query names. A label seen only once or twice isn't a speaker.
    fn named_speakers(&self, entries: &[usize], terms: &[u64]) -> Vec<bool> {
        let speaker = |&entry: &usize| {
            let (reader, ordinal) = self.locate(entry);
            reader.segment.column::<u64>(Section::Speaker).get(ordinal)
        };
        let speakers: Vec<u64> = entries.iter().map(speaker).collect();
        let said = |speaker: u64| speakers.iter().filter(|other| **other == speaker).count();
        let named: Vec<u64> =
            terms.iter().copied().filter(|&term| term != 0 && said(term) >= SPEAKER_ENTRIES).collect();
        speakers.iter().map(|speaker| named.contains(speaker)).collect()
    }

    /// Whether each entry ends in a short question.
    fn ask_flags(&self, entries: &[usize]) -> Vec<bool> {
        let asks = |&entry: &usize| {
            let (reader, ordinal) = self.locate(entry);
            reader.segment.column::<u8>(Section::Asks).get(ordinal) != 0
        };
        entries.iter().map(asks).collect()
    }

    fn cosines(&self, entry: usize, probes: &[[Option<Asked<'_>>; 2]]) -> (f32, f32) {
        let reader = self.readers.partition_point(|reader| reader.base <= entry) - 1;
        let ordinal = entry - self.readers[reader].base;
        let cosine = |asked: &Option<Asked<'_>>| {
            asked.as_ref().and_then(|asked| asked.probe.cosine(&asked.haystack.rows, ordinal)).unwrap_or(f32::NAN)
        };
        (cosine(&probes[reader][0]), cosine(&probes[reader][1]))
    }

    /// The share of the query that the best entries, by their other scores, match token by token.
    fn match_softly(&self, query: &Bag, entries: &[usize], scores: &[f32], signals: &mut [CandidateSignals]) {
        let model = StaticModel::builtin();
        let mut best: Vec<usize> = (0..entries.len()).collect();
        if best.len() > SOFT_MATCHED {
            best.select_nth_unstable_by(SOFT_MATCHED, |&a, &b| scores[b].total_cmp(&scores[a]));
            best.truncate(SOFT_MATCHED);
        }
        let mut packed = Vec::new();
        let mut at = vec![0];
        for &index in &best {
            let (reader, ordinal) = self.locate(entries[index]);
            reader.segment.bag(ordinal, &mut packed);
            at.push(packed.len());
        }
        let bags: Vec<_> =
            at.windows(2).map(|range| PackedBag::read(&packed[range[0]..range[1]])).enumerate().collect();
        let mut count = vec![0_u32; model.vocab_size()];
        bags.iter().for_each(|(_, bag)| bag.ids().for_each(|token| count[token as usize] += 1));
        let found = soft_match(model, query, best.len(), &bags, &count, &mut Nearness::default());
        best.into_iter().zip(found.of_message).for_each(|(index, soft)| signals[index].soft = soft as f32);
    }
}
