//! The legs that go by words: BM25, and the share of a query's words found as words or parts of words.
use super::layout::Section;
use super::postings;
use super::segment::Segment;
use super::view::{Part, View};
use crate::interrupt::checkpoint;
use crate::lexical::{B, K1, idf};

/// A longer query is judged by its rarest terms.
const TERMS: usize = 64;
/// Trigrams are sought for so many words of a query.
const WORDS: usize = 32;
/// Share of a query word's trigrams from which a word of the vocabulary holds it.
const HELD: f32 = 0.6;
/// A word of the query stands for so many words of a segment's vocabulary at most.
const EXPANSIONS: usize = 64;

/// Scores by entry. Kept from search to search: fresh pages of zeros would cost more than most searches.
#[derive(Default)]
pub(super) struct Dense {
    pub text: Vec<f32>,
    pub trigram: Vec<f32>,
    /// The last word of the query that an entry was found by.
    pub stamps: Vec<u8>,
    /// By word of a vocabulary, the trigrams shared with a word of the query; zeros in between.
    shared: Vec<u8>,
}

impl Dense {
    /// All zeros, one an entry.
    pub fn clear(&mut self, entries: usize) {
        for scores in [&mut self.text, &mut self.trigram] {
            scores.clear();
            scores.resize(entries, 0.0);
        }
        self.stamps.clear();
        self.stamps.resize(entries, 0);
    }
}

impl View {
    /// BM25 of every entry.
    pub(super) fn bm25(&self, terms: &[u64], scores: &mut [f32]) {
        let known = terms.iter().map(|&term| (self.entries_with(term), term)).filter(|(entries, _)| *entries > 0);
        let mut known: Vec<(f32, u64)> =
            known.map(|(entries, term)| (idf(self.live, entries as f64) as f32, term)).collect();
        known.sort_by(|a, b| b.0.total_cmp(&a.0));
        known.truncate(TERMS);
        let (k1, b) = (K1 as f32, B as f32);
        let (least, per_term) = (k1 * (1.0 - b), k1 * b / self.average_length);
        for (rarity, term) in known {
            checkpoint();
            let most = rarity * (k1 + 1.0);
            for part in &self.parts {
                let lengths = part.segment.column::<u16>(Section::Length);
                let scores = &mut scores[part.base..][..part.segment.len()];
                postings::each(part.segment.postings(term), |ordinal, count| {
                    let (ordinal, count) = (ordinal as usize, count as f32);
                    if part.is_live(ordinal) {
                        let length = f32::from(lengths.get(ordinal));
                        scores[ordinal] += most * count / (count + least + per_term * length);
                    }
                });
            }
        }
    }

    /// In how many live entries a term stands.
    pub(super) fn entries_with(&self, term: u64) -> usize {
        let in_part = |part: &Part| {
            if part.dead.is_empty() {
                return part.segment.entries_with(term);
            }
            let mut live = 0;
            postings::each(part.segment.postings(term), |ordinal, _| {
                live += usize::from(part.is_live(ordinal as usize))
            });
            live
        };
        self.parts.iter().map(in_part).sum()
    }

    /// The words of a query that each entry holds, as words or parts of words, weighted by rarity; returns what an entry
    /// that holds all of them has.
    pub(super) fn by_trigrams(&self, words: &[(u64, Vec<u32>)], dense: &mut Dense) -> f32 {
        let Dense { trigram: scores, stamps, shared, .. } = dense;
        let mut sum = 0.0;
        for (word, (term, trigrams)) in (1_u8..).zip(words.iter().take(WORDS)) {
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
                for (held, term) in holders(&part.segment, trigrams, shared) {
                    take(part.segment.postings_at(term), held);
                }
            }
            let rarity = idf(self.live, found.len() as f64) as f32;
            sum += rarity;
            found.into_iter().for_each(|(entry, held)| scores[entry as usize] += rarity * held);
        }
        if sum > 0.0 { sum } else { 1.0 }
    }
}

/// The terms of words of a segment's vocabulary that hold most trigrams of a word, with the share held, best first. `shared`:
/// zeros, as it is left.
fn holders(segment: &Segment, trigrams: &[u32], shared: &mut Vec<u8>) -> Vec<(f32, usize)> {
    if trigrams.is_empty() {
        return Vec::new();
    }
    let terms = segment.column::<u32>(Section::WordTerm);
    shared.resize(terms.len().max(shared.len()), 0);
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
    let mut holders: Vec<u32> = touched.iter().copied().filter(|word| held(word) >= HELD).collect();
    holders.sort_unstable_by(|a, b| {
        held(b).total_cmp(&held(a)).then(own.get(*a as usize).cmp(&own.get(*b as usize))).then(a.cmp(b))
    });
    holders.truncate(EXPANSIONS);
    let holders = holders.into_iter().map(|word| (held(&word), terms.get(word as usize) as usize)).collect();
    touched.into_iter().for_each(|word| shared[word as usize] = 0);
    holders
}
