//! The legs that match words: BM25, and the share of a query's words found as words or parts of words.
//!
//! Both read a term's postings, so both are computed in one pass: BM25 is added up, and each word of the query that an
//! entry holds is a bit. The weights of the sets of words are looked up at the end.
use super::layout::Section;
use super::postings::Postings;
use super::score_buffer::{ScoreBuffer, WORDS, WordScore, WordWeights};
use super::segment::Segment;
use super::segment_reader::SegmentReader;
use super::terms::QueryTerms;
use super::view::View;
use crate::interrupt::checkpoint;
use crate::scoring::bm25::{BM25, Bm25, idf};

/// A longer query is judged by its rarest terms.
const MAX_TERMS: usize = 64;
/// Share of a query word's trigrams from which on a word of the vocabulary counts as holding it.
const MIN_TRIGRAM_SHARE: f32 = 0.6;
/// A word of the query matches at most this many words of a segment's vocabulary.
const MAX_EXPANSIONS: usize = 64;

/// A term of the query.
struct Term {
    hash: u64,
    rarity: f32,
    /// The words whose term it is, as bits.
    words: u32,
}

impl View {
    /// BM25 of every entry, and the words of the query that it holds. Returns the weights of these words.
    pub(super) fn score_words(&self, query_terms: &QueryTerms, buffer: &mut ScoreBuffer) -> WordWeights {
        let words = &query_terms.words[..query_terms.words.len().min(WORDS)];
        let bits = |hash: u64| {
            let of_term = (0..).zip(words).filter(|(_, (term, _))| *term == hash);
            of_term.fold(0, |bits, (word, _)| bits | 1_u32 << word)
        };
        let mut entries_with = [0; WORDS];
        let mut terms: Vec<Term> = Vec::with_capacity(query_terms.terms.len());
        for &hash in &query_terms.terms {
            let (entries, words) = (self.entries_with(hash), bits(hash));
            (0..WORDS).filter(|word| words >> word & 1 == 1).for_each(|word| entries_with[word] = entries);
            if entries > 0 {
                terms.push(Term { hash, rarity: idf(self.live, entries as f64) as f32, words });
            }
        }
        terms.sort_by(|a, b| b.rarity.total_cmp(&a.rarity));
        for (rank, term) in terms.iter().enumerate().filter(|(rank, term)| *rank < MAX_TERMS || term.words > 0) {
            checkpoint();
            self.add_term(term, if rank < MAX_TERMS { term.rarity } else { 0.0 }, &mut buffer.scored);
        }
        let mut rarity = Vec::with_capacity(words.len());
        for (word, (term, trigrams)) in words.iter().enumerate() {
            checkpoint();
            rarity.push(self.add_partial_matches(word, *term, trigrams, entries_with[word], buffer));
        }
        WordWeights::new(&rarity)
    }

    /// Add the score of a term with this weight to the entries that hold it.
    fn add_term(&self, term: &Term, rarity: f32, scored: &mut [WordScore]) {
        let most = BM25.max_weight(rarity);
        let shares = self.share_of_one();
        for reader in &self.readers {
            let lengths = reader.segment.column::<u16>(Section::Length).raw();
            let scored = &mut scored[reader.base..][..reader.segment.len()];
            // Scores of deleted entries do not count: they pass no filter.
            let length = |ordinal: u32| usize::from(u16::from_le_bytes(lengths[ordinal as usize]));
            let repeated = reader.segment.postings(term.hash).each(|ordinal| {
                let entry = &mut scored[ordinal as usize];
                entry.text += most * shares[length(ordinal)];
                entry.words |= term.words;
            });
            repeated.each(|ordinal, count| {
                let (one, count) = (shares[length(ordinal)], count as f32);
                scored[ordinal as usize].text += most * Bm25::more_than_one(one, count);
            });
        }
    }

    /// The number of live entries that have a term.
    pub(super) fn entries_with(&self, term: u64) -> usize {
        let in_segment = |reader: &SegmentReader| {
            if reader.deleted.is_empty() {
                return reader.segment.entries_with(term);
            }
            let mut live = 0;
            reader.segment.postings(term).each(|ordinal| live += usize::from(reader.is_live(ordinal as usize)));
            live
        };
        self.readers.iter().map(in_segment).sum()
    }

    /// Note the entries that hold a word of the query as a part of their words. Returns the weight of the word. `whole`
    /// is the number that hold it as a word, which are noted already.
    fn add_partial_matches(
        &self,
        word: usize,
        term: u64,
        trigrams: &[u32],
        whole: usize,
        buffer: &mut ScoreBuffer,
    ) -> f32 {
        let ScoreBuffer { scored, lacking, partial, shared } = buffer;
        let bit = 1 << word;
        let mut found: Vec<(u32, f32)> = Vec::new();
        let mut number = whole;
        for reader in &self.readers {
            for (held, postings) in partial_matches(&reader.segment, term, trigrams, shared) {
                postings.each(|ordinal| {
                    let entry = reader.base + ordinal as usize;
                    if scored[entry].words & bit == 0 && reader.is_live(ordinal as usize) {
                        scored[entry].words |= bit;
                        number += 1;
                        if held < 1.0 {
                            found.push((entry as u32, held));
                        }
                    }
                });
            }
        }
        let rarity = idf(self.live, number as f64) as f32;
        for (entry, held) in found {
            if lacking[entry as usize] == 0.0 {
                partial.push(entry);
            }
            lacking[entry as usize] += rarity * (1.0 - held);
        }
        rarity
    }
}

/// Words of a segment's vocabulary that hold most trigrams of a word, except those that count as its own `term`: the
/// share held and the postings, best first. `shared` is zeros before and after.
fn partial_matches<'a>(
    segment: &'a Segment,
    term: u64,
    trigrams: &[u32],
    shared: &mut Vec<u8>,
) -> Vec<(f32, Postings<'a>)> {
    let needed =
        (0..=trigrams.len()).find(|&held| held as f32 / trigrams.len() as f32 >= MIN_TRIGRAM_SHARE).unwrap_or(0);
    if needed == 0 {
        return Vec::new();
    }
    let terms = segment.column::<u32>(Section::WordTerm);
    shared.resize(terms.len().max(shared.len()), 0);
    let mut lists: Vec<_> = trigrams.iter().map(|&trigram| segment.words_with(trigram)).collect();
    lists.sort_unstable_by_key(|list| list.len());
    // A word with as many as are needed has one of the rarer ones, so the other lists are only read for the words found
    // there.
    let (rare, common) = lists.split_at(lists.len() + 1 - needed);
    let mut touched = Vec::new();
    for word in rare.iter().flat_map(|list| list.iter()) {
        let count = &mut shared[word as usize];
        if *count == 0 {
            touched.push(word);
        }
        *count = count.saturating_add(1);
    }
    let mut likely = touched.clone();
    for (at, list) in common.iter().enumerate() {
        likely.retain(|&word| usize::from(shared[word as usize]) + common.len() - at >= needed);
        if likely.len() * (list.len().max(1).ilog2() as usize + 2) < list.len() {
            let held = likely.iter().filter(|&&word| list.find(word).is_some());
            held.for_each(|&word| shared[word as usize] = shared[word as usize].saturating_add(1));
        } else {
            for word in list.iter() {
                let count = &mut shared[word as usize];
                *count = if *count == 0 { 0 } else { count.saturating_add(1) };
            }
        }
    }
    let own = segment.column::<u8>(Section::WordTrigrams);
    let held = |word: &u32| f32::from(shared[*word as usize]) / trigrams.len() as f32;
    likely.retain(|word| usize::from(shared[*word as usize]) >= needed);
    likely.sort_unstable_by(|a, b| {
        held(b).total_cmp(&held(a)).then(own.get(*a as usize).cmp(&own.get(*b as usize))).then(a.cmp(b))
    });
    likely.truncate(MAX_EXPANSIONS);
    let own_term = segment.find_term(term);
    let partial_match = |word: u32| {
        let term = terms.get(word as usize) as usize;
        (Some(term) != own_term).then(|| (held(&word), segment.postings_at(term)))
    };
    let matches = likely.into_iter().filter_map(partial_match).collect();
    touched.into_iter().for_each(|word| shared[word as usize] = 0);
    matches
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::terms::trigrams;
    use super::super::{Entry, Meta, Segment, Settings};
    use super::*;

    proptest! {
        /// Rare trigrams first find the same words as counting all of them.
        #[test]
        fn a_word_stands_for_those_that_hold_most_of_its_trigrams(
            words in prop::collection::btree_set("[ab]{3,9}[0-9]", 1..60),
            sought in "[ab]{3,9}",
        ) {
            let text = words.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
            let entries = words.iter().zip(0..).map(|(text, id)| Entry { id, meta: Meta::default(), text, vector: None });
            let bytes = Segment::build(&entries.collect::<Vec<_>>(), &[], &Settings::default());
            let segment = Segment::open(Arc::new(bytes)).unwrap();
            let (wanted, mut shared) = (trigrams(&sought), Vec::new());
            let found: Vec<f32> = partial_matches(&segment, 0, &wanted, &mut shared).iter().map(|(held, _)| *held).collect();
            let held = |word: &str| {
                let own = trigrams(word);
                wanted.iter().filter(|trigram| own.contains(trigram)).count() as f32 / wanted.len() as f32
            };
            let mut expected: Vec<f32> = text.split(' ').map(held).filter(|held| *held >= MIN_TRIGRAM_SHARE).collect();
            expected.sort_by(|a, b| b.total_cmp(a));
            expected.truncate(MAX_EXPANSIONS);
            prop_assert_eq!(found, expected);
            prop_assert!(shared.iter().all(|count| *count == 0));
        }
    }
}
