//! Relevance of each message to a query, calibrated within the conversation, and how far to trust it.
//!
//! Three opinions are scaled to 0..1 and averaged: BM25; the cosine of IDF-weighted, mean-subtracted vectors; and a
//! soft match, in which each token of the query looks for its nearest token in the message. An expensive model may add
//! a fourth (rank_fusion.rs). The average is sharpened, and each message is smoothed by its neighbours. Messages by
//! someone whom the query names count more, and those that end in a question count less. Ablations and figures:
//! DESIGN.md, relevance.
use rustc_hash::FxHashMap;

use crate::analysis::words::{self, PackedTerms};
use crate::conversation::prepared::Prepared;
use crate::conversation::text::TextAnalysis;
use crate::conversation::weighted_rows::WeightedRows;
use crate::embed::Embedder;
use crate::embed::builtin::{Bag, PackedBag, StaticModel};
use crate::embed::centred_rows::CentredRows;
use crate::embed::nearness::Nearness;
use crate::scoring::bm25::idf;
use crate::scoring::rank_fusion::{Calibration, Opinions, smooth_by_neighbours};
use crate::scoring::soft_match::{Match, soft_match};
use crate::scoring::word_match::match_words;

/// The calibration of opinions on messages.
const CALIBRATION: Calibration<f64> =
    Calibration { contrast: 1.5, neighbour_share: 0.5, speaker_bonus: 0.7, question_factor: 0.75 };
/// A label seen on fewer messages isn't a speaker.
const MIN_SPEAKER_MESSAGES: usize = 3;
/// Logarithm of the weight of the best message over an irrelevant one under full confidence, at the semantic signal's
/// usual weight of 0.4. It grows with that weight, so that a weight of 0 switches the query off.
const SHARPNESS: f64 = 24.0;
pub(crate) const USUAL_SEMANTIC_WEIGHT: f64 = 0.4;
/// Weight of words that the query might have had: one common word says little.
const DOUBT: f64 = 2.0;
/// Relevance of each message.
pub(crate) struct Relevance {
    /// 1 for the most relevant message that is not kept anyway.
    pub relevance: Vec<f64>,
    /// `exp(-sharpness * confidence * (1 - relevance))`: the factor that calibrates a whole score. All 1 for a query
    /// without a content word, for which structure, recency and novelty decide.
    pub odds: Vec<f64>,
    /// The share of the query that the best message matches, 0 to 1.
    pub confidence: f64,
    /// How far the query asks for something that stands out here, 0 to 1: the share of it that the best message matches,
    /// less the share that the best fifth of all messages matches on average.
    pub standing_out: f64,
}

/// The query as the three opinions read it.
pub(crate) struct AnalysedQuery {
    words: Vec<u32>,
    bag: Option<Bag>,
}

impl AnalysedQuery {
    pub fn new(text: &str, model: Option<&StaticModel>) -> Self {
        let mut words = words::words(text);
        words.sort_unstable();
        words.dedup();
        Self { words, bag: model.map(|model| model.bag(text)) }
    }
}

impl Prepared {
    /// Relevance of each message to `query`. `dense` are cosines from vectors of the caller, if there are any, NaN for
    /// a message without one. `candidate` marks the messages that are not kept anyway: the others set no scale.
    pub(crate) fn relevance(
        &self,
        query: &AnalysedQuery,
        dense: Option<Vec<f64>>,
        candidate: &[bool],
        semantic_weight: f64,
    ) -> Relevance {
        let messages = self.messages.len();
        let texts = self.texts(TextAnalysis::terms);
        let by_word = match_words(messages, &texts, &query.words);
        // A repetition of the query answers nothing.
        let candidate: Vec<bool> = candidate.iter().zip(&by_word.echoes).map(|(&c, &echoes)| c && !echoes).collect();
        let candidate = candidate.as_slice();
        // By words alone if there is no model: a word is there or is not.
        let mut matched = Match { of_message: by_word.rarity, of_query: by_word.rarity_of_query };
        let mut builtin = None;
        if let (Some(model), Some(bag)) = (self.model(), &query.bag) {
            let (cosine, soft) = self.model_opinions(model, bag);
            builtin = Some((cosine, soft.of_message.clone()));
            matched = soft;
        }
        let mut fused = Opinions { words: by_word.bm25, builtin, dense }.fuse(candidate);
        fused.iter_mut().for_each(|x| *x = x.powf(CALIBRATION.contrast));
        smooth_by_neighbours(&mut fused, CALIBRATION.neighbour_share);
        let named = named_speakers(messages, &texts, &query.words);
        let mut asks = vec![false; messages];
        // A message asks as its last text does.
        for of_message in texts.chunk_by(|one, next| one.0 == next.0) {
            let (message, last) = of_message[of_message.len() - 1];
            asks[message] = last.asks();
        }
        for (message, x) in fused.iter_mut().enumerate() {
            *x = CALIBRATION.weigh(*x, named[message], asks[message]);
        }
        let best = largest(&fused, candidate);
        let relevance: Vec<f64> =
            fused.iter().zip(candidate).map(|(x, &c)| if c { x / best.max(1e-9) } else { 0.0 }).collect();
        let (most, usual) = (largest(&matched.of_message, candidate), usual(&matched.of_message, candidate));
        let confidence = most / (matched.of_query + DOUBT);
        let standing_out = (most - usual) / (matched.of_query + DOUBT);
        let sharpness = SHARPNESS * semantic_weight / USUAL_SEMANTIC_WEIGHT * confidence;
        let odds = relevance.iter().map(|relevance| (-sharpness * (1.0 - relevance)).exp()).collect();
        Relevance { relevance, odds, confidence, standing_out }
    }

    /// The built-in model's two opinions: cosine and soft match.
    fn model_opinions(&self, model: &StaticModel, query: &Bag) -> (Vec<f64>, Match) {
        let bags = self.texts(TextAnalysis::bag);
        let weighted = self.weighted_rows.get_or_init(|| Box::new(self.weighted(model, &bags)));
        let cosine = weighted.cosines(model, query);
        let mut nearness = Nearness::take_last();
        let soft = soft_match(model, query, self.messages.len(), &bags, &weighted.document_frequency, &mut nearness);
        nearness.keep();
        (cosine, soft)
    }

    fn weighted(&self, model: &StaticModel, bags: &[(usize, PackedBag<'_>)]) -> WeightedRows {
        // The number of messages that have each token, and the last one in which it was seen.
        let mut document_frequency = vec![0_u32; model.vocab_size()];
        let mut seen_in = vec![u32::MAX; model.vocab_size()];
        for (message, bag) in bags {
            let message = u32::try_from(*message).expect("under 4 billion messages");
            for token in bag.ids() {
                let last = std::mem::replace(&mut seen_in[token as usize], message);
                document_frequency[token as usize] += u32::from(last != message);
            }
        }
        let messages = self.messages.len();
        // By frequency, not by token: far fewer logarithms.
        #[expect(clippy::cast_possible_truncation, reason = "weights of single-precision vectors")]
        let weight_of: Vec<f32> = (0..=messages).map(|with_it| idf(messages, with_it as f64) as f32).collect();
        let rows = self.weighted_vectors(|token| weight_of[document_frequency[token as usize] as usize]);
        WeightedRows { rows: CentredRows::new(rows, model.dim()), document_frequency, weight_of }
    }
}

fn largest(values: &[f64], candidate: &[bool]) -> f64 {
    values.iter().zip(candidate).filter(|(_, c)| **c).map(|(x, _)| *x).fold(0.0, f64::max)
}

/// The average of the best fifth, without the very best. 0 if there are no others.
fn usual(values: &[f64], candidate: &[bool]) -> f64 {
    let mut values: Vec<f64> = values.iter().zip(candidate).filter(|(_, c)| **c).map(|(x, _)| *x).collect();
    let fifth = values.len().div_ceil(5);
    if fifth >= values.len() {
        return 0.0;
    }
    values.select_nth_unstable_by(fifth, |a, b| b.total_cmp(a));
    let best = &values[..=fifth];
    (best.iter().sum::<f64>() - best.iter().copied().fold(0.0, f64::max)) / fifth as f64
}

/// Whether each message was said by someone whom the query names: by the label of its first text.
fn named_speakers(messages: usize, texts: &[(usize, PackedTerms<'_>)], query: &[u32]) -> Vec<bool> {
    let mut messages_of: FxHashMap<u32, usize> = query.iter().map(|&word| (word, 0)).collect();
    let firsts = || texts.chunk_by(|one, next| one.0 == next.0).map(|of_message| of_message[0]);
    for word in firsts().flat_map(|(_, terms)| terms.speaker().iter()) {
        messages_of.entry(word).and_modify(|messages| *messages += 1);
    }
    let named = |word: u32| messages_of.get(&word).is_some_and(|&messages| messages >= MIN_SPEAKER_MESSAGES);
    let mut by_named = vec![false; messages];
    for (message, terms) in firsts() {
        by_named[message] = terms.speaker().iter().any(named);
    }
    by_named
}
