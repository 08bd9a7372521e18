//! Greedy covers: the steps to keep so that many of the needs are in them.
use std::collections::BinaryHeap;

use rustc_hash::FxHashSet;

/// The numbers of the needs that a step has.
pub type Needs = FxHashSet<usize>;

/// The steps chosen by new needs per cost, while they fit and cover more needs.
#[must_use]
pub fn cover(needs: &[Needs], costs: &[i64], budget: i64, covered: &Needs) -> Vec<usize> {
    chosen(needs, costs, budget, costs, covered.clone())
}

/// The better of two covers: by new needs per cost, and by new needs alone.
#[must_use]
pub fn best_cover(needs: &[Needs], costs: &[i64], budget: i64) -> Vec<usize> {
    let by_cost = chosen(needs, costs, budget, costs, Needs::default());
    let alone = chosen(needs, costs, budget, &vec![1; costs.len()], Needs::default());
    let held = |steps: &[usize]| steps.iter().flat_map(|&step| &needs[step]).collect::<FxHashSet<_>>().len();
    if held(&alone) > held(&by_cost) { alone } else { by_cost }
}

fn chosen(needs: &[Needs], costs: &[i64], budget: i64, prices: &[i64], mut seen: Needs) -> Vec<usize> {
    // No gain is negative, so they are in the order of their bits.
    let gain = |step: usize, seen: &Needs| {
        let new = needs[step].difference(seen).count();
        (new as f64 / prices[step].max(1) as f64).to_bits()
    };
    let mut heap: BinaryHeap<(u64, usize)> = (0..needs.len()).map(|step| (gain(step, &seen), step)).collect();
    let (mut chosen, mut left) = (Vec::new(), budget);
    while let Some((value, step)) = heap.pop() {
        if costs[step] > left || value == 0 {
            continue;
        }
        let now = gain(step, &seen);
        if now != value {
            heap.push((now, step)); // a gain only falls: an old one is a bound
            continue;
        }
        chosen.push(step);
        seen.extend(&needs[step]);
        left -= costs[step];
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(needs: &[&[usize]]) -> Vec<Needs> {
        needs.iter().map(|of_one| of_one.iter().copied().collect()).collect()
    }

    #[test]
    fn the_most_needs_for_the_cost_come_first() {
        let needs = sets(&[&[1, 2], &[2, 3], &[3]]);
        assert_eq!(cover(&needs, &[2, 2, 1], 3, &Needs::default()), [2, 0]);
        assert_eq!(cover(&needs, &[2, 2, 1], 9, &sets(&[&[3]])[0]), [0]);
        assert_eq!(cover(&needs, &[2, 2, 1], -1, &Needs::default()), [0; 0]);
    }

    #[test]
    fn one_large_step_may_be_better_than_several_cheap_ones() {
        let needs = sets(&[&[1, 2, 3, 4], &[5], &[6]]);
        assert_eq!(best_cover(&needs, &[8, 1, 1], 8), [0]);
        assert_eq!(best_cover(&needs, &[8, 1, 1], 10), [2, 1, 0]);
    }
}
