//! Hybrid search: every leg nominates, the nominated and their neighbours are judged by all legs.
use rustc_hash::FxHashMap;

use super::fusion::{REACH, Signals, fuse};
use super::layout::Section;
use super::likeness::vector;
use super::postings;
use super::rows::{self, Probe, Rows, Scratch};
use super::view::{Gate, View};
use super::words::Asked;
use super::{Fusion, Hit, Query};
use crate::embed::builtin::{Bag, PackedBag, StaticModel};
use crate::embed::normalize;
use crate::interrupt::checkpoint;
use crate::lexical::{B, K1, idf};
use crate::soft_match::soft_match;

/// Each leg nominates this many, or as many as the caller wants.
const NOMINATED: usize = 64;
/// A longer query is judged by its rarest terms.
const TERMS: usize = 64;
/// Trigrams are sought for so many words of a query.
const WORDS: usize = 32;
/// Entries under a label from which it is a speaker's.
const SPEAKER_ENTRIES: usize = 3;
/// Share of a query word's trigrams from which a word of the vocabulary holds it.
const HELD: f32 = 0.6;
/// A word of the query stands for so many words of a segment's vocabulary at most.
const EXPANSIONS: usize = 64;

impl View {
    /// The best entries for a query, best first.
    #[must_use]
    pub fn search(&self, query: &Query<'_>) -> Vec<Hit> {
        if query.limit == 0 || self.live == 0 {
            return Vec::new();
        }
        let asked = Asked::of(query.text);
        let bm25 = self.bm25(&asked.terms);
        let trigram = self.by_trigrams(&asked.words[..asked.words.len().min(WORDS)]);
        let probes = self.probes(query);
        let nominated = self.nominate(query, &bm25, &trigram, &probes);
        let (entries, beside) = if query.fusion == Fusion::Calibrated {
            self.with_neighbours(query, &nominated)
        } else {
            (nominated, Vec::new())
        };
        let mut signals: Vec<Signals> = entries
            .iter()
            .map(|&entry| {
                let (builtin, own) = self.cosines(entry, &probes);
                Signals { text: bm25[entry], trigram: trigram[entry], builtin, own, soft: 0.0 }
            })
            .collect();
        if query.fusion == Fusion::Calibrated {
            self.match_softly(query.text, &entries, &mut signals);
        }
        let named = self.named_speakers(&entries, &asked.terms);
        let scores = fuse(query.fusion, &signals, &beside, &named);
        let best_text = signals.iter().map(|signals| signals.text).fold(1e-9, f32::max);
        let mut hits: Vec<Hit> = (0..entries.len())
            .map(|at| {
                let (part, ordinal) = self.locate(entries[at]);
                let Signals { text, trigram, .. } = signals[at];
                let id = part.segment.column::<u64>(Section::Ids).get(ordinal);
                Hit { id, score: scores[at], text: text / best_text, trigram, cosine: signals[at].cosine() }
            })
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
        hits.truncate(query.limit);
        hits
    }

    /// BM25 of every entry.
    fn bm25(&self, terms: &[u64]) -> Vec<f32> {
        let mut scores = vec![0.0; self.entries];
        let mut lists: Vec<(f32, Vec<(u32, u32)>)> = Vec::new();
        for &term in terms {
            checkpoint();
            let mut list = Vec::new();
            self.each_live(|segment| segment.postings(term), &mut |entry, count| list.push((entry, count)));
            if !list.is_empty() {
                lists.push((idf(self.live, list.len() as f64) as f32, list));
            }
        }
        lists.sort_by(|a, b| b.0.total_cmp(&a.0));
        lists.truncate(TERMS);
        let (k1, b) = (K1 as f32, B as f32);
        for (rarity, list) in lists {
            let mut parts = self.parts.iter();
            let (mut base, mut lengths) = (0, None);
            let mut end = 0;
            for (entry, count) in list {
                while entry as usize >= end {
                    let part = parts.next().expect("an entry lies in a part");
                    base = part.base;
                    end = base + part.segment.len();
                    lengths = Some(part.segment.column::<u16>(Section::Length));
                }
                let length = f32::from(lengths.expect("set above").get(entry as usize - base));
                let count = count as f32;
                scores[entry as usize] +=
                    rarity * count * (k1 + 1.0) / (count + k1 * (1.0 - b + b * length / self.average_length));
            }
        }
        scores
    }

    /// Call `found` with each live entry and count of a list that every segment has.
    fn each_live<'a>(&'a self, list: impl Fn(&'a super::Segment) -> &'a [u8], found: &mut impl FnMut(u32, u32)) {
        for part in &self.parts {
            let base = part.base as u32;
            postings::each(list(&part.segment), |ordinal, count| {
                if part.is_live(ordinal as usize) {
                    found(base + ordinal, count);
                }
            });
        }
    }

    /// The share of the words of a query that each entry holds, as words or parts of words, weighted by rarity.
    fn by_trigrams(&self, words: &[(u64, Vec<u32>)]) -> Vec<f32> {
        let mut scores = vec![0.0; self.entries];
        let mut stamps = vec![0_u8; self.entries];
        let mut sum = 0.0;
        for (word, (term, trigrams)) in (1_u8..).zip(words) {
            checkpoint();
            let mut found: Vec<(u32, f32)> = Vec::new();
            for part in &self.parts {
                let base = part.base as u32;
                let mut take = |list: &[u8], held: f32| {
                    postings::each(list, |ordinal, _| {
                        let entry = base + ordinal;
                        if part.is_live(ordinal as usize) && stamps[entry as usize] != word {
                            stamps[entry as usize] = word;
                            found.push((entry, held));
                        }
                    });
                };
                take(part.segment.postings(*term), 1.0);
                for (held, term) in holders(&part.segment, trigrams) {
                    take(part.segment.postings_at(term), held);
                }
            }
            let rarity = idf(self.live, found.len() as f64) as f32;
            sum += rarity;
            found.into_iter().for_each(|(entry, held)| scores[entry as usize] += rarity * held);
        }
        if sum > 0.0 {
            scores.iter_mut().for_each(|score| *score /= sum);
        }
        scores
    }

    /// The query against the vectors of each part: the built-in model's and the caller's.
    fn probes<'a>(&'a self, query: &Query<'_>) -> Vec<[Option<(Probe, Rows<'a>)>; 2]> {
        let mut own = query.vector.map(<[f32]>::to_vec).unwrap_or_default();
        normalize(&mut own);
        self.parts
            .iter()
            .map(|part| {
                let builtin = Rows::of(&part.segment, rows::BUILTIN).and_then(|rows| {
                    let vector = vector(part.segment.section(Section::TokenWeights), query.text)?;
                    Some((Probe::new(&vector, &rows, true)?, rows))
                });
                let own =
                    Rows::of(&part.segment, rows::OWN).and_then(|rows| Some((Probe::new(&own, &rows, true)?, rows)));
                [builtin, own]
            })
            .collect()
    }

    /// The best entries of each leg.
    fn nominate(
        &self,
        query: &Query<'_>,
        bm25: &[f32],
        trigram: &[f32],
        probes: &[[Option<(Probe, Rows<'_>)>; 2]],
    ) -> Vec<usize> {
        let each = NOMINATED.max(query.limit);
        let (mut by_text, mut by_trigram) = (Best::new(each, 0.0), Best::new(each, 0.0));
        let mut by_vector = [Best::new(each, 0.0), Best::new(each, 0.0)];
        let mut scratch = Scratch::default();
        for (part, probes) in self.parts.iter().zip(probes) {
            checkpoint();
            let gate = Gate::new(part, &query.filter, query.now_ms);
            for ordinal in 0..part.segment.len() {
                let entry = part.base + ordinal;
                by_text.offer(bm25[entry], entry as u32, || gate.passes(ordinal));
                by_trigram.offer(trigram[entry], entry as u32, || gate.passes(ordinal));
            }
            for (probe, best) in probes.iter().zip(&mut by_vector) {
                if let Some((probe, rows)) = probe {
                    nearest(probe, rows, &gate, part.base, best, &mut scratch);
                }
            }
        }
        let [builtin, own] = by_vector;
        let legs = [by_text, by_trigram, builtin, own].into_iter();
        let mut nominated: Vec<usize> = legs.flat_map(Best::finish).map(|(_, entry)| entry as usize).collect();
        nominated.sort_unstable();
        nominated.dedup();
        nominated
    }

    /// The nominated entries and their neighbours; beside each the indices and distances of those that it borrows from.
    fn with_neighbours(&self, query: &Query<'_>, nominated: &[usize]) -> (Vec<usize>, Vec<Vec<(usize, i32)>>) {
        let mut neighbours: Vec<(usize, usize, i32)> = Vec::new();
        let mut entries = nominated.to_vec();
        let mut found = Vec::new();
        let mut passes: FxHashMap<usize, bool> = FxHashMap::default();
        let look = |entry: usize,
                    found: &mut Vec<usize>,
                    neighbours: &mut Vec<(usize, usize, i32)>,
                    passes: &mut FxHashMap<usize, bool>| {
            for after in [false, true] {
                found.clear();
                self.neighbours(entry, after, found, REACH);
                for (&other, distance) in found.iter().zip(1..) {
                    let pass = *passes.entry(other).or_insert_with(|| {
                        let (part, ordinal) = self.locate(other);
                        Gate::new(part, &query.filter, query.now_ms).passes(ordinal)
                    });
                    if pass {
                        neighbours.push((entry, other, distance));
                    }
                }
            }
        };
        for &entry in nominated {
            look(entry, &mut found, &mut neighbours, &mut passes);
        }
        entries.extend(neighbours.iter().map(|&(_, other, _)| other));
        entries.sort_unstable();
        entries.dedup();
        let known: FxHashMap<usize, usize> = entries.iter().enumerate().map(|(at, &entry)| (entry, at)).collect();
        let mut beside = vec![Vec::new(); entries.len()];
        neighbours.clear();
        for &entry in &entries {
            look(entry, &mut found, &mut neighbours, &mut passes);
        }
        for (entry, other, distance) in neighbours {
            if let Some(&other) = known.get(&other) {
                beside[known[&entry]].push((other, distance));
            }
        }
        (entries, beside)
    }

    /// Whether each entry was said by someone whom the query names: a label seen but once or twice is no speaker.
    fn named_speakers(&self, entries: &[usize], terms: &[u64]) -> Vec<bool> {
        let speaker = |&entry: &usize| {
            let (part, ordinal) = self.locate(entry);
            part.segment.column::<u64>(Section::Speaker).get(ordinal)
        };
        let speakers: Vec<u64> = entries.iter().map(speaker).collect();
        let said = |speaker: u64| speakers.iter().filter(|other| **other == speaker).count();
        let named: Vec<u64> =
            terms.iter().copied().filter(|&term| term != 0 && said(term) >= SPEAKER_ENTRIES).collect();
        speakers.iter().map(|speaker| named.contains(speaker)).collect()
    }

    fn cosines(&self, entry: usize, probes: &[[Option<(Probe, Rows<'_>)>; 2]]) -> (f32, f32) {
        let part = self.parts.partition_point(|part| part.base <= entry) - 1;
        let ordinal = entry - self.parts[part].base;
        let cosine = |of: &Option<(Probe, Rows<'_>)>| {
            of.as_ref().and_then(|(probe, rows)| probe.cosine(rows, ordinal)).unwrap_or(f32::NAN)
        };
        (cosine(&probes[part][0]), cosine(&probes[part][1]))
    }

    /// How much of the query each entry matches token by token.
    fn match_softly(&self, text: &str, entries: &[usize], signals: &mut [Signals]) {
        let Some(model) = StaticModel::builtin() else { return };
        let query: Bag = model.bag(text);
        let mut packed = Vec::new();
        let mut at = vec![0];
        for &entry in entries {
            let (part, ordinal) = self.locate(entry);
            part.segment.bag(ordinal, &mut packed);
            at.push(packed.len());
        }
        let bags: Vec<_> =
            at.windows(2).map(|range| PackedBag::read(&packed[range[0]..range[1]])).enumerate().collect();
        let mut count = vec![0_u32; model.vocab_size()];
        bags.iter().for_each(|(_, bag)| bag.ids().for_each(|token| count[token as usize] += 1));
        let found = soft_match(model, &query, entries.len(), &bags, &count);
        signals.iter_mut().zip(found.of_message).for_each(|(signals, soft)| signals.soft = soft as f32);
    }
}

/// Share of the cells that a search looks into.
const CELLS_SHARE: usize = 12;
/// It looks into so many in any case.
const CELLS: usize = 16;
/// Entries by which it is judged how many a filter lets through.
const TRIED: usize = 512;

/// Offer the rows nearest to the query to `best`: those of the nearest cells, or all that pass where few do.
fn nearest(probe: &Probe, rows: &Rows<'_>, gate: &Gate<'_>, base: usize, best: &mut Best, scratch: &mut Scratch) {
    if rows.cells() == 0 {
        return probe.offer(rows, 0..rows.len(), gate, base, best, &mut scratch.products);
    }
    let passing = (0..TRIED).filter(|&at| gate.passes(at * rows.len() / TRIED)).count();
    if passing * 4 >= TRIED {
        let number = (rows.cells() / CELLS_SHARE).max(CELLS) * TRIED / passing;
        for cell in probe.cells(rows, number, &mut scratch.products) {
            probe.offer_near(rows, rows.cell(cell as usize), gate, base, best, scratch);
        }
    } else {
        for ordinal in (0..rows.len()).filter(|&ordinal| gate.passes(ordinal)) {
            if let Some(cosine) = probe.cosine(rows, ordinal) {
                best.offer(cosine, (base + ordinal) as u32, || true);
            }
        }
    }
}

/// The terms of words of a segment's vocabulary that hold most trigrams of a word, with the share held, best first.
fn holders(segment: &super::Segment, trigrams: &[u32]) -> Vec<(f32, usize)> {
    if trigrams.is_empty() {
        return Vec::new();
    }
    let terms = segment.column::<u32>(Section::WordTerm);
    let mut shared = vec![0_u8; terms.len()];
    let mut touched = Vec::new();
    for &trigram in trigrams {
        for word in segment.words_with(trigram).iter() {
            let count = &mut shared[word as usize];
            if *count == 0 {
                touched.push(word);
            }
            *count = count.saturating_add(1);
        }
    }
    let own = segment.column::<u8>(Section::WordTrigrams);
    let held = |word: &u32| f32::from(shared[*word as usize]) / trigrams.len() as f32;
    let mut holders: Vec<u32> = touched.into_iter().filter(|word| held(word) >= HELD).collect();
    holders.sort_unstable_by(|a, b| {
        held(b).total_cmp(&held(a)).then(own.get(*a as usize).cmp(&own.get(*b as usize))).then(a.cmp(b))
    });
    holders.truncate(EXPANSIONS);
    holders.into_iter().map(|word| (held(&word), terms.get(word as usize) as usize)).collect()
}

/// The best few of many scores.
pub(super) struct Best {
    limit: usize,
    /// Nothing up to this is among the best.
    pub floor: f32,
    kept: Vec<(f32, u32)>,
}

impl Best {
    pub fn new(limit: usize, floor: f32) -> Self {
        Self { limit, floor, kept: Vec::with_capacity(4 * limit) }
    }

    /// Keep `entry` if its score is among the best so far and it may be found.
    #[inline]
    pub fn offer(&mut self, score: f32, entry: u32, passes: impl FnOnce() -> bool) {
        if score > self.floor && self.limit > 0 && passes() {
            self.kept.push((score, entry));
            if self.kept.len() >= 4 * self.limit {
                self.tighten();
            }
        }
    }

    fn tighten(&mut self) {
        if self.kept.len() > self.limit {
            let (_, last, _) = self.kept.select_nth_unstable_by(self.limit - 1, better);
            self.floor = last.0;
            self.kept.truncate(self.limit);
        }
    }

    /// Best first.
    pub fn finish(mut self) -> Vec<(f32, u32)> {
        if self.limit > 0 {
            self.tighten();
        }
        self.kept.sort_unstable_by(better);
        self.kept
    }
}

fn better(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}
