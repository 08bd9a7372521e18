//! Entries to the bytes of a segment.
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::entry::{Entry, Settings};
use super::layout::{self, Section, Writer};
use super::postings::PostingsBuilder;
use super::statistics::{Statistics, weight_of_step};
use super::terms::{self, Run};
use super::vector_writer::write_rows;
use crate::analysis::questions::ends_in_short_question;
use crate::embed::builtin::{PackedBag, StaticModel, pack_bag};
use crate::interrupt::{checkpoint, stretches};

/// Entries between two checkpoints.
const STRIDE: usize = 256;

pub(super) fn build(entries: &[Entry<'_>], tombstones: &[u64], settings: &Settings<'_>) -> Vec<u8> {
    let entries = in_order(entries);
    let mut writer = Writer::new();
    columns(&entries, tombstones, &mut writer);
    let length = text(&entries, &mut writer);
    let (builtin, own) = vectors(&entries, settings, &mut writer);
    let dim = settings.dim.unwrap_or(0) as u64;
    let mark = StaticModel::builtin().mark();
    writer.put(Section::Counts, [length, dim, u64::from(builtin), u64::from(own), mark, settings.space]);
    writer.finish()
}

/// By source and id, so that a neighbour is the next or previous ordinal. Of two with one id it is the later.
fn in_order<'e, 'a>(entries: &'e [Entry<'a>]) -> Vec<&'e Entry<'a>> {
    let mut last: FxHashMap<u64, usize> = FxHashMap::default();
    last.extend(entries.iter().enumerate().map(|(at, entry)| (entry.id, at)));
    let mut kept: Vec<&Entry<'_>> =
        entries.iter().enumerate().filter(|(at, entry)| last[&entry.id] == *at).map(|(_, entry)| entry).collect();
    kept.sort_unstable_by_key(|entry| (entry.meta.source, entry.id));
    kept
}

fn columns(entries: &[&Entry<'_>], tombstones: &[u64], writer: &mut Writer) {
    let mut by_id: Vec<u32> = (0..entries.len() as u32).collect();
    by_id.sort_unstable_by_key(|&ordinal| entries[ordinal as usize].id);
    let mut tombstones = tombstones.to_vec();
    tombstones.sort_unstable();
    tombstones.dedup();
    writer.put(Section::Ids, entries.iter().map(|entry| entry.id));
    writer.put(Section::ById, by_id);
    writer.put(Section::Tombstones, tombstones);
    writer.put(Section::Time, entries.iter().map(|entry| entry.meta.time_ms));
    writer.put(Section::Source, entries.iter().map(|entry| entry.meta.source));
    writer.put(Section::Kind, entries.iter().map(|entry| entry.meta.kind));
    writer.put(Section::ThreadOf, entries.iter().map(|entry| entry.meta.thread));
    writer.put(Section::Tier, entries.iter().map(|entry| entry.meta.tier));
    writer.put(Section::Trust, entries.iter().map(|entry| entry.meta.trust));
    writer.put(Section::Expires, entries.iter().map(|entry| entry.meta.expires_ms));
}

/// Words seen so far: each is analysed once.
#[derive(Default)]
struct Vocabulary {
    /// By the hash of the run as it is in the text: the place of its terms in `terms_of`.
    runs: FxHashMap<u64, (u32, u32)>,
    terms_of: Vec<u32>,
    terms: FxHashMap<u64, u32>,
    lists: Vec<(u64, PostingsBuilder)>,
    /// By hash of the lower-cased form.
    forms: FxHashMap<u64, ()>,
    /// Term and trigrams of each form.
    words: Vec<(u32, Vec<u32>)>,
}

impl Vocabulary {
    fn term(&mut self, hash: u64) -> u32 {
        *self.terms.entry(hash).or_insert_with(|| {
            self.lists.push((hash, PostingsBuilder::default()));
            self.lists.len() as u32 - 1
        })
    }

    /// Append the terms of a word.
    fn word(&mut self, run: &str, found: &mut Vec<u32>) {
        let hash = xxh3_64(run.as_bytes());
        let (from, to) = match self.runs.get(&hash) {
            Some(&known) => known,
            None => {
                let analysed = terms::analyse(run);
                let from = self.terms_of.len() as u32;
                for hash in &analysed.terms {
                    let term = self.term(*hash);
                    self.terms_of.push(term);
                }
                if !analysed.terms.is_empty() && self.forms.insert(xxh3_64(analysed.form.as_bytes()), ()).is_none() {
                    let trigrams = terms::trigrams(&analysed.form);
                    if !trigrams.is_empty() {
                        self.words.push((self.terms_of[from as usize], trigrams));
                    }
                }
                let range = (from, self.terms_of.len() as u32);
                self.runs.insert(hash, range);
                range
            }
        };
        found.extend(&self.terms_of[from as usize..to as usize]);
    }
}

/// Postings and vocabulary; returns the sum of all lengths.
fn text(entries: &[&Entry<'_>], writer: &mut Writer) -> u64 {
    let mut vocabulary = Vocabulary::default();
    let mut found = Vec::new();
    let mut total = 0_u64;
    let mut lengths = Vec::with_capacity(entries.len());
    for (ordinal, entry) in entries.iter().enumerate() {
        if ordinal % STRIDE == 0 {
            checkpoint();
        }
        found.clear();
        for stretch in stretches(entry.text) {
            for run in terms::runs(stretch) {
                match run {
                    Run::Word(run) => vocabulary.word(run, &mut found),
                    Run::Unspaced(script, run) => {
                        found.extend(terms::unspaced(script, run).map(|hash| vocabulary.term(hash)));
                    }
                }
            }
        }
        let length = u16::try_from(found.len()).unwrap_or(u16::MAX);
        lengths.push(length);
        total += u64::from(length);
        crate::interrupt::sort(&mut found);
        for same in found.chunk_by(|a, b| a == b) {
            vocabulary.lists[same[0] as usize].1.push(ordinal as u32, same.len() as u32);
        }
    }
    writer.put(Section::Length, lengths);
    writer.put(Section::Speaker, entries.iter().map(|entry| terms::speaker(entry.text)));
    writer.put(Section::Asks, entries.iter().map(|entry| u8::from(ends_in_short_question(entry.text))));
    let term_index = postings(vocabulary.lists, writer);
    trigrams(&vocabulary.words, &term_index, writer);
    total
}

/// Write the lists by ascending hash; returns the place of each term.
fn postings(lists: Vec<(u64, PostingsBuilder)>, writer: &mut Writer) -> Vec<u32> {
    let mut order: Vec<u32> = (0..lists.len() as u32).collect();
    order.sort_unstable_by_key(|&term| lists[term as usize].0);
    let mut term_index = vec![0; lists.len()];
    let sorted = || order.iter().map(|&term| &lists[term as usize]);
    let mut bytes = Vec::with_capacity(lists.iter().map(|(_, list)| list.len()).sum());
    let mut at = Vec::with_capacity(lists.len() + 1);
    for (to, (&term, (_, list))) in order.iter().zip(sorted()).enumerate() {
        term_index[term as usize] = to as u32;
        at.push(bytes.len() as u64);
        list.write(&mut bytes);
    }
    at.push(bytes.len() as u64);
    writer.put(Section::Terms, sorted().map(|(hash, _)| *hash));
    writer.put(Section::TermCount, sorted().map(|(_, list)| list.entries));
    writer.put(Section::TermAt, at);
    writer.bytes(Section::Postings, bytes);
    term_index
}

fn trigrams(words: &[(u32, Vec<u32>)], term_index: &[u32], writer: &mut Writer) {
    writer.put(Section::WordTerm, words.iter().map(|(term, _)| term_index[*term as usize]));
    writer.put(Section::WordTrigrams, words.iter().map(|(_, trigrams)| trigrams.len().min(255) as u8));
    let of_word = |(word, (_, trigrams)): (usize, &(u32, Vec<u32>))| {
        trigrams.iter().map(|&trigram| u64::from(trigram) << 32 | word as u64).collect::<Vec<_>>()
    };
    let mut pairs: Vec<u64> = words.iter().enumerate().flat_map(of_word).collect();
    crate::interrupt::sort(&mut pairs);
    let (mut distinct, mut at) = (Vec::new(), Vec::new());
    for (index, pair) in pairs.iter().enumerate() {
        let trigram = (pair >> 32) as u32;
        if distinct.last() != Some(&trigram) {
            distinct.push(trigram);
            at.push(index as u32);
        }
    }
    at.push(pairs.len() as u32);
    writer.put(Section::Trigrams, distinct);
    writer.put(Section::TrigramAt, at);
    writer.put(Section::TrigramWords, pairs.iter().map(|&pair| pair as u32));
}

/// Bags and vectors; returns how many entries have a vector, built in and of the caller.
fn vectors(entries: &[&Entry<'_>], settings: &Settings<'_>, writer: &mut Writer) -> (u32, u32) {
    let builtin = builtin(StaticModel::builtin(), entries, settings, writer);
    let Some(dim) = settings.dim.filter(|&dim| dim > 0) else { return (builtin, 0) };
    let older = settings.older.map(|older| (older.own_sum.as_slice(), older.own_present));
    let row = |ordinal: usize, vector: &mut Vec<f32>| vector.extend(entries[ordinal].vector.unwrap_or_default());
    (builtin, write_rows((dim, entries.len()), settings.index.graph_from(), older, layout::OWN, writer, row))
}

fn builtin(model: &StaticModel, entries: &[&Entry<'_>], settings: &Settings<'_>, writer: &mut Writer) -> u32 {
    let mut bags = Vec::new();
    let mut at = Vec::with_capacity(entries.len() + 1);
    let mut count = vec![0_u32; model.vocab_size()];
    for (ordinal, entry) in entries.iter().enumerate() {
        if ordinal % STRIDE == 0 {
            checkpoint();
        }
        at.push(bags.len() as u32);
        let bag = model.bag(entry.text);
        bag.iter().for_each(|&(token, _)| count[token as usize] += 1);
        pack_bag(&bag, &mut bags);
    }
    at.push(bags.len() as u32);

    let mut all = Statistics { entries: entries.len() as u32, token_count: count.clone(), ..Statistics::default() };
    if let Some(older) = settings.older.filter(|older| older.token_count.len() == count.len()) {
        all.entries += older.entries;
        all.token_count.iter_mut().zip(&older.token_count).for_each(|(sum, count)| *sum += count);
    }
    let weights = all.token_weights(model);
    let row = |ordinal: usize, vector: &mut Vec<f32>| {
        let bag = PackedBag::read(&bags[at[ordinal] as usize..at[ordinal + 1] as usize]);
        vector.extend(model.vector(bag.iter(), |token| weight_of_step(weights[token as usize])));
    };
    let older = settings.older.map(|older| (older.builtin_sum.as_slice(), older.builtin_present));
    let dim = crate::embed::Embedder::dim(model);
    let present = write_rows((dim, entries.len()), settings.index.graph_from(), older, layout::BUILTIN, writer, row);

    let counted = || (0_u16..).zip(&count).filter(|(_, count)| **count > 0);
    writer.put(Section::Tokens, counted().map(|(token, _)| token));
    writer.put(Section::TokenCount, counted().map(|(_, count)| *count));
    writer.bytes(Section::TokenWeights, weights);
    writer.put(Section::BagAt, at);
    writer.put(Section::Bags, bags);
    present
}
