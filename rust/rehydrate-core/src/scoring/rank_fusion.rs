//! Rank fusion: opinions on candidates, each on its own scale, become one score per candidate.
//!
//! Conversations and indexes work the same way. Opinions are scaled to 0..1, averaged, sharpened and smoothed by
//! neighbours. Messages by someone whom the query names count more, questions less, by the caller's [`Calibration`]. A
//! conversation fuses [`Opinions`] on all its messages; an index fuses the [`CandidateSignals`] of a few entries, and
//! has two simpler ways ([`Fusion`]).
//!
//! Words, tokens and meaning have the same weight. An expensive model's opinion is on meaning too: with it the built-in
//! cosine counts half. It is only asked about the messages that the others rank highest, and only its high ranks count:
//! a message without an opinion, or in the lower part of it, has none. So it lifts what it finds, and if it gives few
//! (a deadline), it has little effect. Figures: DESIGN.md, embedding.
use std::ops::{Add, Mul};

/// The calibration of opinions; each caller has its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calibration<F> {
    /// Lets one strong match outweigh several weak ones.
    pub contrast: F,
    /// Share of a candidate that its neighbours get, to the power of the distance.
    pub neighbour_share: F,
    /// Bonus of messages by someone whom the query names.
    pub speaker_bonus: F,
    /// Weight of a candidate that asks: the answer says more. Its neighbours get its whole share.
    pub question_factor: F,
}

impl<F: Copy + Add<Output = F> + Mul<Output = F> + From<u8>> Calibration<F> {
    /// A score, adjusted if the query names the speaker and if the message asks.
    pub fn weigh(&self, score: F, is_named: bool, asks: bool) -> F {
        let one = F::from(1);
        let of_speaker = if is_named { one + self.speaker_bonus } else { one };
        let of_question = if asks { self.question_factor } else { one };
        score * of_speaker * of_question
    }
}

/// Add a share of every other message: `share ^ distance` of its own. Two passes.
pub(crate) fn smooth_by_neighbours(x: &mut [f64], share: f64) {
    let mut forward = x.to_vec();
    for i in 1..x.len() {
        forward[i] += share * forward[i - 1];
    }
    let mut from_behind = 0.0;
    for i in (0..x.len()).rev() {
        let own = x[i];
        x[i] = forward[i] + from_behind;
        from_behind = share * (from_behind + own);
    }
}

/// Share of the messages that an expensive model is worth asking about.
const RERANKED_SHARE: f64 = 0.2;
/// It is asked about this many in any case.
const MIN_RERANKED: usize = 64;
/// Share of the sum that the expensive model's opinion has.
const DENSE: f64 = 1.0 / 3.0;
/// Weight of the built-in model's cosine in addition to it.
const COSINE_BESIDE_DENSE: f64 = 0.5;

/// Opinions, one value per message each, on their own scales. Larger is more relevant.
pub(crate) struct Opinions {
    pub words: Vec<f64>,
    /// The built-in model's cosine and soft match, if there is the model.
    pub builtin: Option<(Vec<f64>, Vec<f64>)>,
    /// The expensive model's, NaN if it was not asked.
    pub dense: Option<Vec<f64>>,
}

impl Opinions {
    /// One relevance per message, 0 to 1. `candidate` marks the messages that set the scales. The rest have 0.
    pub fn fuse(&self, candidate: &[bool]) -> Vec<f64> {
        let mut weighted = vec![(1.0, &self.words)];
        if let Some((cosine, soft)) = &self.builtin {
            weighted.push((if self.dense.is_some() { COSINE_BESIDE_DENSE } else { 1.0 }, cosine));
            weighted.push((1.0, soft));
        }
        let sum: f64 = weighted.iter().map(|(weight, _)| weight).sum();
        let mut fused = vec![0.0; candidate.len()];
        for (weight, opinion) in weighted {
            for (fused, scaled) in fused.iter_mut().zip(min_max(opinion, candidate)) {
                *fused += scaled * weight / sum;
            }
        }
        if let Some(dense) = &self.dense {
            for (fused, boost) in fused.iter_mut().zip(top_boost(dense, candidate)) {
                *fused = *fused * (1.0 - DENSE) + boost * DENSE;
            }
        }
        fused
    }
}

/// The number of candidates, by the number of messages, for which an expensive model's opinion is worth having.
pub(crate) fn rerank_count(candidates: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
    let share = (candidates as f64 * RERANKED_SHARE).ceil() as usize;
    share.max(MIN_RERANKED).min(candidates)
}

/// The upper part of an opinion, scaled to 0..1 and squared; 0 for the rest and if there is none.
fn top_boost(dense: &[f64], candidate: &[bool]) -> Vec<f64> {
    let present = |(x, &c): (&f64, &bool)| (c && !x.is_nan()).then_some(*x);
    let mut best: Vec<f64> = dense.iter().zip(candidate).filter_map(present).collect();
    best.sort_by(|a, b| b.total_cmp(a));
    best.truncate(rerank_count(candidate.iter().filter(|c| **c).count()));
    let (Some(&high), Some(&low)) = (best.first(), best.last()) else { return vec![0.0; dense.len()] };
    let of_one = |x: f64| ((x - low) / (high - low).max(1e-9)).max(0.0).powi(2);
    dense.iter().zip(candidate).map(|pair| present(pair).map_or(0.0, of_one)).collect()
}

/// Min-max over the candidates, 0 outside them.
fn min_max<'a>(opinion: &'a [f64], candidate: &'a [bool]) -> impl Iterator<Item = f64> + 'a {
    let of_candidates = || opinion.iter().zip(candidate).filter(|(_, c)| **c).map(|(x, _)| *x);
    let low = of_candidates().fold(f64::INFINITY, f64::min);
    let range = (of_candidates().fold(f64::NEG_INFINITY, f64::max) - low).max(1e-9);
    opinion.iter().zip(candidate).map(move |(x, &c)| if c { (x - low) / range } else { 0.0 })
}

/// Weight of parts of words, compared with whole ones, tokens and meaning: they find what the others miss.
const TRIGRAM: f32 = 0.5;
/// The share of the best neighbour's own score up to which smoothing lifts an entry without a word of the query.
const MAX_SMOOTHED: f32 = 0.99;
const RANK_OFFSET: f32 = 60.0;

/// The way to combine the legs of a search.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Fusion {
    /// Each opinion is scaled to 0..1 within the search and weighs by how far its best stands out; each candidate is
    /// smoothed by its neighbours in its source.
    #[default]
    Calibrated,
    /// A weighted sum: BM25 over the best BM25, the share of words found by trigrams, the cosine.
    Weighted { text: f32, trigram: f32, vector: f32 },
    /// Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009): 1 / (60 + rank) of each leg.
    ReciprocalRank,
}

impl Fusion {
    /// The weights that are usual for a weighted sum.
    pub const WEIGHTED: Self = Self::Weighted { text: 0.5, trigram: 0.3, vector: 0.2 };
}

/// The legs' signals on one candidate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CandidateSignals {
    pub text: f32,
    pub trigram: f32,
    /// NaN: no vector.
    pub builtin: f32,
    /// The similarity by the caller's vectors; NaN: no vector.
    pub own: f32,
    pub soft: f32,
}

impl CandidateSignals {
    pub fn cosine(&self) -> f32 {
        if self.own.is_nan() { self.builtin } else { self.own }
    }
}

/// Marks of the candidates that count in the calibration of opinions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks<'a> {
    /// The indices of its neighbours and their distances.
    pub beside: &'a [Vec<(usize, i32)>],
    /// Whether the query names the speaker.
    pub named: &'a [bool],
    /// Whether it ends in a short question.
    pub asks: &'a [bool],
    /// Whether it is one of the few that hold every word asked for.
    pub exact: &'a [bool],
}

/// One score a candidate.
pub(crate) fn fuse(
    fusion: Fusion,
    signals: &[CandidateSignals],
    marks: Marks<'_>,
    calibration: &Calibration<f32>,
) -> Vec<f32> {
    match fusion {
        Fusion::Calibrated => calibrated(signals, marks, calibration),
        Fusion::Weighted { text, trigram, vector } => {
            let best = largest(signals.iter().map(|signals| signals.text));
            let sum =
                |of: &CandidateSignals| text * of.text / best + trigram * of.trigram + vector * of.cosine().max(0.0);
            signals.iter().map(sum).collect()
        }
        Fusion::ReciprocalRank => {
            let legs = [
                |of: &CandidateSignals| of.text,
                |of: &CandidateSignals| of.trigram,
                |of: &CandidateSignals| of.cosine().max(0.0),
            ];
            let mut scores = vec![0.0; signals.len()];
            for leg in legs {
                let mut order: Vec<usize> = (0..signals.len()).filter(|&at| leg(&signals[at]) > 0.0).collect();
                order.sort_by(|&a, &b| leg(&signals[b]).total_cmp(&leg(&signals[a])));
                for (rank, at) in order.into_iter().enumerate() {
                    scores[at] += 1.0 / (RANK_OFFSET + 1.0 + rank as f32);
                }
            }
            scores
        }
    }
}

/// An opinion no larger than this of anything counts as none.
const EPSILON: f32 = 1e-9;

fn largest(values: impl Iterator<Item = f32>) -> f32 {
    values.fold(EPSILON, f32::max)
}

type Leg = fn(&CandidateSignals) -> f32;

/// The number of a leg's best values that show how far the very best stands out.
const STANDING_AMONG: usize = 32;
/// Weight of a leg to which all candidates are alike.
const LEAST_WEIGHT: f32 = 1e-3;

/// The best of a leg's values, and how far it stands out from those after it, 0 to 1: the share of it that the first
/// after the best few lacks. None for a leg without an opinion.
fn standing_out(mut values: Vec<f32>) -> Option<(f32, f32)> {
    let best = largest(values.iter().copied());
    let after = if values.len() > STANDING_AMONG {
        values.select_nth_unstable_by(STANDING_AMONG, |a, b| b.total_cmp(a)).1.max(0.0)
    } else {
        0.0
    };
    (best > EPSILON).then(|| (best, (1.0 - after / best).max(LEAST_WEIGHT)))
}

/// Opinions scaled to 0..1 and averaged, each by how far its best stands out; sharpened, and smoothed by neighbours.
/// Messages by someone whom the query names count more, short questions less. The few entries that hold every word
/// asked for come before all others, however similar those are.
fn calibrated(
    signals: &[CandidateSignals],
    Marks { beside, named, asks, exact }: Marks<'_>,
    calibration: &Calibration<f32>,
) -> Vec<f32> {
    let legs: [(f32, Leg); 5] = [
        (1.0, |of| of.text),
        (1.0, |of| of.soft),
        (1.0, |of| of.builtin.max(0.0)),
        (1.0, |of| of.own.max(0.0)),
        (TRIGRAM, |of| of.trigram),
    ];
    let mut fused = vec![0.0; signals.len()];
    let mut sum = 0.0;
    for (weight, leg) in legs {
        let Some((best, standing_out)) = standing_out(signals.iter().map(leg).collect()) else { continue };
        let weight = weight * standing_out;
        sum += weight;
        fused.iter_mut().zip(signals).for_each(|(fused, signals)| *fused += weight * leg(signals).max(0.0) / best);
    }
    fused.iter_mut().for_each(|x| *x = (*x / sum.max(EPSILON)).powf(calibration.contrast));
    let from_neighbour = |&(other, distance): &(usize, i32)| fused[other] * calibration.neighbour_share.powi(distance);
    let smoothed = |at: usize| {
        let lifted = fused[at] + beside[at].iter().map(from_neighbour).sum::<f32>();
        if signals[at].text > 0.0 {
            return lifted;
        }
        // An entry that only its neighbours lift does not overtake them.
        let most = beside[at].iter().map(|&(other, _)| fused[other]).fold(0.0, f32::max) * MAX_SMOOTHED;
        fused[at].max(most.min(lifted))
    };
    let score = |at: usize| calibration.weigh(smoothed(at), named[at], asks[at]);
    let mut scores: Vec<f32> = (0..fused.len()).map(score).collect();
    let best = largest(scores.iter().copied());
    scores.iter_mut().zip(exact).filter(|(_, exact)| **exact).for_each(|(score, _)| *score += best);
    scores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_weighs_by_how_far_its_best_stands_out() {
        let weight = |values: &[f32]| standing_out(values.to_vec()).map_or(0.0, |(_, weight)| weight);
        assert_eq!([weight(&[]), weight(&[0.0, 0.0])], [0.0; 2], "no opinion");
        assert_eq!([weight(&[3.0]), weight(&[4.0, 3.0])], [1.0; 2], "few candidates say nothing of a leg");
        assert_eq!(weight(&[2.0; 50]), LEAST_WEIGHT, "one opinion on all");
        let few = [vec![4.0], vec![2.0; STANDING_AMONG - 1], vec![1.0; 9]].concat();
        let many = [vec![4.0], vec![2.0; STANDING_AMONG], vec![1.0; 9]].concat();
        assert_eq!([weight(&few), weight(&many)], [0.75, 0.5], "what comes after the best few is not looked at");
    }

    #[test]
    fn a_leg_that_knows_no_difference_leaves_the_order_to_the_others() {
        let of = |text, own| CandidateSignals { text, trigram: 0.0, builtin: f32::NAN, own, soft: 0.0 };
        let signals: Vec<_> =
            (0..40_u8).map(|at| of(if at == 7 { 1.0 } else { 0.0 }, 0.5 + f32::from(at) / 1e3)).collect();
        let (beside, none) = (vec![Vec::new(); 40], [false; 40]);
        let marks = Marks { beside: &beside, named: &none, asks: &none, exact: &none };
        let calibration =
            Calibration { contrast: 1.5, neighbour_share: 0.5, speaker_bonus: 0.5, question_factor: 0.75 };
        let scores = fuse(Fusion::Calibrated, &signals, marks, &calibration);
        let best = (0..40).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        assert_eq!(best, Some(7));
        let alone = fuse(
            Fusion::Calibrated,
            &signals[7..8],
            Marks { beside: &beside[..1], named: &none[..1], asks: &none[..1], exact: &none[..1] },
            &calibration,
        );
        assert!((alone[0] - 1.0).abs() < 1e-6, "the only one is the best");
    }

    const NAN: f64 = f64::NAN;

    #[test]
    fn the_candidates_set_the_scale() {
        let scaled: Vec<f64> = min_max(&[1.0, 3.0, 5.0, 100.0], &[true, true, true, false]).collect();
        assert_eq!(scaled, [0.0, 0.5, 1.0, 0.0]);
    }

    #[test]
    fn the_boost_is_for_the_upper_part_of_those_that_have_an_opinion() {
        let candidate = [true, true, true, true, false];
        assert_eq!(top_boost(&[1.0, NAN, 2.0, 3.0, 100.0], &candidate), [0.0, 0.0, 0.25, 1.0, 0.0]);
        assert_eq!(top_boost(&[NAN, 7.0, NAN, NAN, 9.0], &candidate), [0.0; 5], "one opinion compares nothing");
        assert_eq!(top_boost(&[NAN; 5], &candidate), [0.0; 5]);
    }

    #[test]
    fn only_a_fifth_of_many_is_boosted() {
        let dense: Vec<f64> = (0..1_000).map(f64::from).collect();
        let boosted = top_boost(&dense, &[true; 1_000]).iter().filter(|x| **x > 0.0).count();
        assert_eq!(boosted, 199, "the last of the fifth is where the scale begins");
    }

    #[test]
    fn worth_asking_is_a_fifth_but_some_dozens_at_least() {
        assert_eq!([0, 10, 64, 100, 1_000].map(rerank_count), [0, 10, 64, 64, 200]);
    }

    #[test]
    fn an_opinion_of_few_messages_changes_no_order_among_the_others() {
        let opinions = |dense| Opinions { words: vec![4.0, 1.0, 3.0, 2.0], builtin: None, dense };
        let order = |fused: Vec<f64>| {
            let mut order: Vec<usize> = (0..4).collect();
            order.sort_by(|&a, &b| fused[b].total_cmp(&fused[a]));
            order
        };
        let without = order(opinions(None).fuse(&[true; 4]));
        assert_eq!(without, order(opinions(Some(vec![NAN; 4])).fuse(&[true; 4])));
        assert_eq!(without, order(opinions(Some(vec![0.9, NAN, NAN, 0.1])).fuse(&[true; 4])));
    }

    #[test]
    fn smoothing_adds_a_share_of_the_others() {
        let mut x = [0.0, 8.0, 0.0, 0.0, 4.0];
        smooth_by_neighbours(&mut x, 0.5);
        assert_eq!(x, [4.0 + 0.25, 8.0 + 0.5, 4.0 + 1.0, 2.0 + 2.0, 4.0 + 1.0]);
    }
}
