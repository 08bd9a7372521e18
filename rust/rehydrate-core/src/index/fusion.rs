//! Several opinions on each candidate to one score.

/// How the legs of a search come together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Fusion {
    /// Each opinion is spread over 0..1 within the search; each candidate is smoothed by its neighbours in its source.
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

/// What the legs say of one candidate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signals {
    pub text: f32,
    pub trigram: f32,
    /// NaN: no vector.
    pub builtin: f32,
    /// Of the caller's vectors; NaN: none.
    pub own: f32,
    pub soft: f32,
}

impl Signals {
    pub fn cosine(&self) -> f32 {
        if self.own.is_nan() { self.builtin } else { self.own }
    }
}

/// What parts of words count beside whole ones, tokens and meaning: they find what the others miss.
const TRIGRAM: f32 = 0.5;
/// Lets one strong match outweigh several weak ones.
const CONTRAST: f32 = 1.5;
/// Bonus of what was said by someone whom the query names.
const SPEAKER: f32 = 0.5;
/// What a candidate counts that ends in a question: the answer says more.
const QUESTION: f32 = 0.75;
/// What a candidate adds to its neighbour, to the power of the distance.
const NEIGHBOUR_SHARE: f32 = 0.5;
/// Of the best neighbour's own score, how far smoothing lifts what holds no word of the query.
const MAX_SMOOTHED: f32 = 0.99;
/// Neighbours on each side.
pub(super) const REACH: usize = 2;
const RANK_OFFSET: f32 = 60.0;

/// What else counts where opinions are calibrated, by candidate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks<'a> {
    /// The indices of its neighbours and their distances.
    pub beside: &'a [Vec<(usize, i32)>],
    /// Whether the query names who said it.
    pub named: &'a [bool],
    /// Whether it ends in a question.
    pub asks: &'a [bool],
    /// Whether it is one of the few that hold every word asked for.
    pub exact: &'a [bool],
}

/// One score a candidate.
pub(super) fn fuse(fusion: Fusion, signals: &[Signals], marks: Marks<'_>) -> Vec<f32> {
    match fusion {
        Fusion::Calibrated => calibrated(signals, marks),
        Fusion::Weighted { text, trigram, vector } => {
            let best = largest(signals.iter().map(|signals| signals.text));
            let sum = |of: &Signals| text * of.text / best + trigram * of.trigram + vector * of.cosine().max(0.0);
            signals.iter().map(sum).collect()
        }
        Fusion::ReciprocalRank => {
            let legs = [|of: &Signals| of.text, |of: &Signals| of.trigram, |of: &Signals| of.cosine().max(0.0)];
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

/// An opinion no larger than this of anything is none.
const LEAST: f32 = 1e-9;

fn largest(values: impl Iterator<Item = f32>) -> f32 {
    values.fold(LEAST, f32::max)
}

type Leg = fn(&Signals) -> f32;

/// Opinions spread over 0..1 and added up, sharpened, smoothed by neighbours; what was said by someone whom the query
/// names counts more, what ends in a question less. The few that hold every word asked for come before all that do not, however like it those are.
fn calibrated(signals: &[Signals], Marks { beside, named, asks, exact }: Marks<'_>) -> Vec<f32> {
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
        let best = largest(signals.iter().map(leg));
        sum += if best > LEAST { weight } else { 0.0 };
        fused.iter_mut().zip(signals).for_each(|(fused, signals)| *fused += weight * leg(signals).max(0.0) / best);
    }
    fused.iter_mut().for_each(|x| *x = (*x / sum.max(TRIGRAM)).powf(CONTRAST));
    let from_neighbour = |&(other, distance): &(usize, i32)| fused[other] * NEIGHBOUR_SHARE.powi(distance);
    let smoothed = |at: usize| {
        let lifted = fused[at] + beside[at].iter().map(from_neighbour).sum::<f32>();
        if signals[at].text > 0.0 {
            return lifted;
        }
        // What only neighbours lift does not overtake them.
        let most = beside[at].iter().map(|&(other, _)| fused[other]).fold(0.0, f32::max) * MAX_SMOOTHED;
        fused[at].max(most.min(lifted))
    };
    let of_speaker = |at: usize| if named[at] { 1.0 + SPEAKER } else { 1.0 };
    let of_question = |at: usize| if asks[at] { QUESTION } else { 1.0 };
    let score = |at: usize| smoothed(at) * of_speaker(at) * of_question(at);
    let mut scores: Vec<f32> = (0..fused.len()).map(score).collect();
    let best = largest(scores.iter().copied());
    scores.iter_mut().zip(exact).filter(|(_, exact)| **exact).for_each(|(score, _)| *score += best);
    scores
}
