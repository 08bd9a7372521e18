//! The legs that go by words: BM25, and the share of a query's words found as words or parts of words.
use super::layout::Section;
use super::postings;
use super::segment::Segment;
use super::view::View;
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
    }

    /// Call `found` with each live entry and count of a list that every segment has.
    fn each_live<'a>(&'a self, list: impl Fn(&'a Segment) -> &'a [u8], found: &mut impl FnMut(u32, u32)) {
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
    pub(super) fn by_trigrams(&self, words: &[(u64, Vec<u32>)], scores: &mut [f32], stamps: &mut [u8]) {
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
    }
}

/// The terms of words of a segment's vocabulary that hold most trigrams of a word, with the share held, best first.
fn holders(segment: &Segment, trigrams: &[u32]) -> Vec<(f32, usize)> {
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
