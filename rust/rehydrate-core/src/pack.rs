//! Packing of units into a token budget: plain greedy by score, and coverage greedy by gain per token.
use std::collections::BinaryHeap;

/// What is to be packed. All slices but the feature weights have one entry a unit.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// Tokens of each unit.
    pub token_cost: &'a [u32],
    /// Worth of each unit by itself, not negative.
    pub score: &'a [f64],
    /// Units that are kept whatever they cost; they are charged to the budget first.
    pub pinned: &'a [bool],
    /// The features each unit mentions.
    pub features: &'a FeatureLists,
    /// Worth of mentioning each feature at least once, not negative; empty lists need no weights.
    pub feature_weight: &'a [f64],
    /// Tokens that may be spent.
    pub budget_tokens: u64,
}

/// Lists of feature ids, one a unit, laid end to end.
#[derive(Clone, Debug, Default)]
pub struct FeatureLists {
    ends: Vec<u32>,
    ids: Vec<u32>,
}

impl FeatureLists {
    /// `units` empty lists: packing by score alone.
    #[must_use]
    pub fn none(units: usize) -> Self {
        Self { ends: vec![0; units], ids: Vec::new() }
    }

    /// Append the list of the next unit.
    pub fn push(&mut self, ids: impl IntoIterator<Item = u32>) {
        self.ids.extend(ids);
        self.ends.push(u32::try_from(self.ids.len()).expect("under 4 billion mentions"));
    }

    /// The features of `unit`, each once.
    #[must_use]
    pub fn of(&self, unit: usize) -> &[u32] {
        let start = if unit == 0 { 0 } else { self.ends[unit - 1] as usize };
        &self.ids[start..self.ends[unit] as usize]
    }
}

/// Which units are kept, and what each was worth when it was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Packing {
    /// One entry a unit.
    pub kept: Vec<bool>,
    /// Gain of each kept unit at the moment it was taken, given what had been taken before; for a dropped unit its gain
    /// when it was last looked at, an upper bound of what keeping it would add.
    pub gain: Vec<f64>,
    /// Tokens of the kept units. Over the budget only when the pinned ones alone are.
    pub used_tokens: u64,
    /// Sum of the gains of the kept units: the objective.
    pub value: f64,
}

/// Keep units best score first; one that does not fit is skipped and the walk goes on; ties go to the newer.
#[must_use]
pub fn pack_greedy(problem: &Problem<'_>) -> Packing {
    let mut state = State::with_pinned(problem);
    let mut order: Vec<usize> = (0..problem.score.len()).filter(|&unit| !problem.pinned[unit]).collect();
    order.sort_by(|&a, &b| problem.score[b].total_cmp(&problem.score[a]).then(b.cmp(&a)));
    for unit in order {
        state.packing.gain[unit] = problem.score[unit];
        if state.fits(unit) {
            state.take(unit);
        }
    }
    state.packing
}

/// Keep the units that maximise `sum of scores + sum of weights of the features mentioned at least once`.
///
/// The objective is monotone submodular, so a unit's gain only ever shrinks and lazy greedy need not look at every unit
/// in every round. The best of greedy by gain per token, greedy by gain, and the best single unit is within a constant
/// factor of the optimum (Khuller, Moss and Naor 1999; Leskovec et al. 2007).
#[must_use]
pub fn pack_coverage(problem: &Problem<'_>) -> Packing {
    let by_density = lazy_greedy(problem, |gain, tokens| gain / f64::from(tokens.max(1)));
    let by_gain = lazy_greedy(problem, |gain, _| gain);
    let single = best_single(problem);
    [by_gain, single].into_iter().fold(by_density, |best, next| if next.value > best.value { next } else { best })
}

fn lazy_greedy(problem: &Problem<'_>, rate: impl Fn(f64, u32) -> f64) -> Packing {
    let mut state = State::with_pinned(problem);
    let mut ranks = Vec::with_capacity(problem.score.len());
    for unit in (0..problem.score.len()).filter(|&unit| !problem.pinned[unit]) {
        ranks.push(rank(rate(state.refresh_gain(unit), problem.token_cost[unit]), unit));
    }
    let mut heap = BinaryHeap::from(ranks);
    let mut fresh_at = vec![0_u32; problem.score.len()];
    let mut taken = 0_u32;
    while let Some(top) = heap.pop() {
        let unit = unit_of(top);
        if !state.fits(unit) {
            continue; // the budget only shrinks: it will not fit later either
        }
        if fresh_at[unit] < taken {
            fresh_at[unit] = taken;
            let now = rank(rate(state.refresh_gain(unit), problem.token_cost[unit]), unit);
            if heap.peek().is_some_and(|&next| next > now) {
                heap.push(now);
                continue;
            }
        }
        state.take(unit);
        taken += 1;
    }
    state.packing
}

fn best_single(problem: &Problem<'_>) -> Packing {
    let mut state = State::with_pinned(problem);
    let mut best: Option<(f64, usize)> = None;
    for unit in (0..problem.score.len()).filter(|&unit| !problem.pinned[unit]) {
        let gain = state.refresh_gain(unit);
        if state.fits(unit) && best.is_none_or(|(most, _)| gain >= most) {
            best = Some((gain, unit));
        }
    }
    if let Some((_, unit)) = best {
        state.take(unit);
    }
    state.packing
}

/// A heap key that sorts by rate, then by age, the newer first. Rates are not negative, so their bits sort as they do.
fn rank(rate: f64, unit: usize) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "single precision is plenty for an order")]
    let rate = rate as f32;
    u64::from(rate.to_bits()) << 32 | unit as u64
}

fn unit_of(rank: u64) -> usize {
    (rank & 0xFFFF_FFFF) as usize
}

struct State<'a> {
    problem: &'a Problem<'a>,
    covered: Vec<bool>,
    packing: Packing,
}

impl<'a> State<'a> {
    fn with_pinned(problem: &'a Problem<'a>) -> Self {
        let units = problem.score.len();
        let packing = Packing { kept: vec![false; units], gain: vec![0.0; units], used_tokens: 0, value: 0.0 };
        let mut state = State { problem, covered: vec![false; problem.feature_weight.len()], packing };
        for unit in (0..units).filter(|&unit| problem.pinned[unit]) {
            state.refresh_gain(unit);
            state.take(unit);
        }
        state
    }

    fn fits(&self, unit: usize) -> bool {
        self.packing.used_tokens + u64::from(self.problem.token_cost[unit]) <= self.problem.budget_tokens
    }

    fn refresh_gain(&mut self, unit: usize) -> f64 {
        let new = self.problem.features.of(unit).iter().map(|&f| f as usize).filter(|&f| !self.covered[f]);
        let gain = self.problem.score[unit] + new.map(|f| self.problem.feature_weight[f]).sum::<f64>();
        self.packing.gain[unit] = gain;
        gain
    }

    fn take(&mut self, unit: usize) {
        self.packing.kept[unit] = true;
        self.packing.value += self.packing.gain[unit];
        self.packing.used_tokens += u64::from(self.problem.token_cost[unit]);
        for &feature in self.problem.features.of(unit) {
            self.covered[feature as usize] = true;
        }
    }
}
