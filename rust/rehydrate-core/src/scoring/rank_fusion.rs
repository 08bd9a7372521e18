//! Opinions on how relevant each message is, and what they come to together.
//!
//! Words, tokens and meaning weigh alike. An expensive model's opinion is on meaning too: beside it the built-in cosine
//! counts half. It is sought only of the messages that the others rank highest, and only its praise counts: a message
//! without it, or in the lower part of it, has none. So it lifts what it finds and, given of few messages (a deadline),
//! comes close to not being there at all. Figures: DESIGN.md, embedding.

/// Share of the messages that an expensive model is worth asking about.
const WORTH_ASKING: f64 = 0.2;
/// It is asked about so many in any case.
const WORTH_ASKING_AT_LEAST: usize = 64;
/// Share of the sum that the expensive model's opinion has.
const DENSE: f64 = 1.0 / 3.0;
/// What the built-in model's cosine counts beside it.
const COSINE_BESIDE_DENSE: f64 = 0.5;

/// Opinions, one value a message each, on scales of their own; larger is more relevant.
pub(crate) struct Opinions {
    pub words: Vec<f64>,
    /// The built-in model's cosine and soft match, if there is the model.
    pub builtin: Option<(Vec<f64>, Vec<f64>)>,
    /// The expensive model's, NaN where it was not asked.
    pub dense: Option<Vec<f64>>,
}

impl Opinions {
    /// One relevance a message, 0 to 1. `candidate` marks the messages that set the scales; the rest have 0.
    pub fn fuse(&self, candidate: &[bool]) -> Vec<f64> {
        let mut weighted = vec![(1.0, &self.words)];
        if let Some((cosine, soft)) = &self.builtin {
            weighted.push((if self.dense.is_some() { COSINE_BESIDE_DENSE } else { 1.0 }, cosine));
            weighted.push((1.0, soft));
        }
        let sum: f64 = weighted.iter().map(|(weight, _)| weight).sum();
        let mut fused = vec![0.0; candidate.len()];
        for (weight, opinion) in weighted {
            for (fused, spread) in fused.iter_mut().zip(spread(opinion, candidate)) {
                *fused += spread * weight / sum;
            }
        }
        if let Some(dense) = &self.dense {
            for (fused, praise) in fused.iter_mut().zip(praise(dense, candidate)) {
                *fused = *fused * (1.0 - DENSE) + praise * DENSE;
            }
        }
        fused
    }
}

/// Of how many among so many messages an expensive model's opinion is worth having.
pub(crate) fn worth_asking(candidates: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
    let share = (candidates as f64 * WORTH_ASKING).ceil() as usize;
    share.max(WORTH_ASKING_AT_LEAST).min(candidates)
}

/// The upper part of an opinion, spread over 0..1 and squared; 0 for the rest and where there is none.
fn praise(dense: &[f64], candidate: &[bool]) -> Vec<f64> {
    let present = |(x, &c): (&f64, &bool)| (c && !x.is_nan()).then_some(*x);
    let mut best: Vec<f64> = dense.iter().zip(candidate).filter_map(present).collect();
    best.sort_by(|a, b| b.total_cmp(a));
    best.truncate(worth_asking(candidate.iter().filter(|c| **c).count()));
    let (Some(&high), Some(&low)) = (best.first(), best.last()) else { return vec![0.0; dense.len()] };
    let of_one = |x: f64| ((x - low) / (high - low).max(1e-9)).max(0.0).powi(2);
    dense.iter().zip(candidate).map(|pair| present(pair).map_or(0.0, of_one)).collect()
}

/// Min-max over the candidates, 0 outside them.
fn spread<'a>(opinion: &'a [f64], candidate: &'a [bool]) -> impl Iterator<Item = f64> + 'a {
    let of_candidates = || opinion.iter().zip(candidate).filter(|(_, c)| **c).map(|(x, _)| *x);
    let low = of_candidates().fold(f64::INFINITY, f64::min);
    let range = (of_candidates().fold(f64::NEG_INFINITY, f64::max) - low).max(1e-9);
    opinion.iter().zip(candidate).map(move |(x, &c)| if c { (x - low) / range } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAN: f64 = f64::NAN;

    #[test]
    fn spreading_sets_its_scale_by_the_candidates() {
        let spread: Vec<f64> = spread(&[1.0, 3.0, 5.0, 100.0], &[true, true, true, false]).collect();
        assert_eq!(spread, [0.0, 0.5, 1.0, 0.0]);
    }

    #[test]
    fn praise_is_for_the_upper_part_of_those_that_have_an_opinion() {
        let candidate = [true, true, true, true, false];
        assert_eq!(praise(&[1.0, NAN, 2.0, 3.0, 100.0], &candidate), [0.0, 0.0, 0.25, 1.0, 0.0]);
        assert_eq!(praise(&[NAN, 7.0, NAN, NAN, 9.0], &candidate), [0.0; 5], "one opinion compares nothing");
        assert_eq!(praise(&[NAN; 5], &candidate), [0.0; 5]);
    }

    #[test]
    fn only_a_fifth_of_many_is_praised() {
        let dense: Vec<f64> = (0..1_000).map(f64::from).collect();
        let praised = praise(&dense, &[true; 1_000]).iter().filter(|x| **x > 0.0).count();
        assert_eq!(praised, 199, "the last of the fifth is where the scale begins");
    }

    #[test]
    fn worth_asking_is_a_fifth_but_some_dozens_at_least() {
        assert_eq!([0, 10, 64, 100, 1_000].map(worth_asking), [0, 10, 64, 64, 200]);
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
}
