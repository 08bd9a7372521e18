//! Packing into a token budget: plain greedy by score, and coverage greedy by gain per token.
//!
//! The items to pack are units, and after them the blocks of units that may be kept in part. A unit with blocks is its
//! skeleton, without which none of its blocks can be kept. Without blocks, items are units.
use crate::interrupt::Pace;
use crate::packing::bucket_queue::{BucketQueue, NONE};
pub(crate) use crate::packing::feature_lists::FeatureLists;

/// A packing problem. All slices but the feature weights have one entry per item.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// Tokens of each item. For a unit with blocks, those of its skeleton, in which each divided text is one gap.
    pub token_cost: &'a [u32],
    /// Worth of each item by itself, not negative.
    pub score: &'a [f64],
    /// Items that are kept whatever they cost. They are charged to the budget first.
    pub pinned: &'a [bool],
    /// The features each item mentions.
    pub features: &'a FeatureLists,
    /// Worth of mentioning each feature at least once, not negative; empty lists need no weights.
    pub feature_weight: &'a [f64],
    /// Tokens that may be spent.
    pub budget_tokens: u64,
}

/// The items that are blocks: all those after the units.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks<'a> {
    /// Per unit, the blocks up to and with its own; empty if no unit has blocks.
    pub ends: &'a [u32],
    /// Per block, its text. A text's blocks follow one another.
    pub text: &'a [u32],
    /// Per text, the tokens of the mark in place of a gap.
    pub mark_tokens: &'a [u32],
    /// Tokens that a gap is charged while blocks compete, instead of its mark's: for fewer gaps and longer stretches.
    pub gap_charge: u32,
}

impl Blocks<'_> {
    /// The number of `items` that are units.
    fn units(&self, items: usize) -> usize {
        items - self.text.len()
    }

    /// The items that are blocks of `unit`.
    pub(crate) fn of(&self, unit: usize, units: usize) -> std::ops::Range<usize> {
        let Some(&end) = self.ends.get(unit) else { return units..units };
        let start = if unit == 0 { 0 } else { self.ends[unit - 1] };
        units + start as usize..units + end as usize
    }

    /// The unit whose block `item` is.
    fn unit_of(&self, item: usize, units: usize) -> usize {
        self.ends.partition_point(|&end| units + end as usize <= item)
    }

    /// The other blocks of `item`'s text.
    fn neighbours(&self, item: usize, units: usize) -> impl Iterator<Item = usize> {
        let block = item - units;
        let before = (block > 0 && self.text[block - 1] == self.text[block]).then(|| item - 1);
        let after = (block + 1 < self.text.len() && self.text[block + 1] == self.text[block]).then(|| item + 1);
        before.into_iter().chain(after)
    }

    /// The tokens that keeping the block `item` adds: its own, and a mark more if it divides a gap in two, or one less
    /// if it fills one.
    pub(crate) fn cost(&self, item: usize, units: usize, problem: &Problem<'_>, kept: &[bool]) -> i64 {
        i64::from(problem.token_cost[item]) + self.marks_of(item, units) * self.more_gaps(item, units, kept)
    }

    /// The same with each gap charged `gap_charge`, if its mark has less.
    fn price(&self, item: usize, units: usize, problem: &Problem<'_>, kept: &[bool]) -> i64 {
        let charge = self.marks_of(item, units).max(i64::from(self.gap_charge));
        i64::from(problem.token_cost[item]) + charge * self.more_gaps(item, units, kept)
    }

    fn marks_of(&self, item: usize, units: usize) -> i64 {
        i64::from(self.mark_tokens[self.text[item - units] as usize])
    }

    /// The change in the number of gaps with `item`: one more if it divides a gap, one less if it fills one.
    fn more_gaps(&self, item: usize, units: usize, kept: &[bool]) -> i64 {
        i64::try_from(self.neighbours(item, units).filter(|&other| !kept[other]).count()).unwrap_or(2) - 1
    }

    /// The charge for the gaps of a unit's texts beyond their marks while nothing of them is kept.
    fn surcharge(&self, unit: usize, units: usize) -> i64 {
        let texts =
            self.text[self.of(unit, units).start - units..self.of(unit, units).end - units].chunk_by(|a, b| a == b);
        texts.map(|text| (i64::from(self.gap_charge) - i64::from(self.mark_tokens[text[0] as usize])).max(0)).sum()
    }
}

/// The kept items, and the worth of each when it was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Packing {
    /// One entry an item.
    pub kept: Vec<bool>,
    /// Gain of each kept item at the moment it was taken, given those taken before. For a dropped one, its gain when it
    /// was last computed, an upper bound of what keeping it would add.
    pub gain: Vec<f64>,
    /// Tokens of the kept items and of the marks in their gaps. Over the budget only when the pinned ones alone are.
    pub used_tokens: u64,
    /// The objective that packing reached. A later repair of the first survivor does not change it.
    pub value: f64,
}

/// Keep units, best score first. One that does not fit is skipped and the walk goes on. Ties go to the newer.
#[must_use]
pub fn pack_greedy(problem: &Problem<'_>) -> Packing {
    pack_greedy_with_blocks(problem, &Blocks::default())
}

/// The same walk over units and blocks alike. A block brings its unit's skeleton with it; a skeleton worth nothing by
/// itself comes with a block or not at all.
#[must_use]
pub fn pack_greedy_with_blocks(problem: &Problem<'_>, blocks: &Blocks<'_>) -> Packing {
    let items = problem.score.len();
    let units = blocks.units(items);
    let mut room = Room::with_pinned(problem, blocks);
    let unit_of = |item: usize| if item < units { item } else { blocks.unit_of(item, units) };
    let mut order: Vec<usize> = (0..items).filter(|&item| !room.kept[item]).collect();
    order.sort_by(|&a, &b| {
        problem.score[b].total_cmp(&problem.score[a]).then_with(|| (unit_of(b), b).cmp(&(unit_of(a), a)))
    });
    for item in order {
        let unit = unit_of(item);
        if item == unit && (room.kept[unit] || (problem.score[unit] <= 0.0 && !blocks.of(unit, units).is_empty())) {
            continue;
        }
        let skeleton = if item == unit || room.kept[unit] { 0 } else { room.cost(unit) };
        if room.fits(skeleton + room.cost(item)) {
            if !room.kept[unit] && item != unit {
                room.take(unit);
            }
            room.take(item);
        }
    }
    let value = (0..items).filter(|&item| room.kept[item]).map(|item| problem.score[item]).sum();
    Packing { kept: room.kept, gain: problem.score.to_vec(), used_tokens: room.used_tokens, value }
}

/// The items kept so far, and the tokens that they take.
struct Room<'a> {
    problem: &'a Problem<'a>,
    blocks: &'a Blocks<'a>,
    units: usize,
    kept: Vec<bool>,
    used_tokens: u64,
}

impl<'a> Room<'a> {
    /// Nothing kept.
    fn empty(problem: &'a Problem<'a>, blocks: &'a Blocks<'a>) -> Self {
        let items = problem.score.len();
        Self { problem, blocks, units: blocks.units(items), kept: vec![false; items], used_tokens: 0 }
    }

    /// The pinned items kept.
    fn with_pinned(problem: &'a Problem<'a>, blocks: &'a Blocks<'a>) -> Self {
        let mut room = Self::empty(problem, blocks);
        (0..problem.pinned.len()).filter(|&item| problem.pinned[item]).for_each(|item| room.take(item));
        room
    }

    /// Tokens that keeping `item` would add. Negative if a block is smaller than the mark of the gap it fills.
    fn cost(&self, item: usize) -> i64 {
        if item < self.units {
            i64::from(self.problem.token_cost[item])
        } else {
            self.blocks.cost(item, self.units, self.problem, &self.kept)
        }
    }

    /// Tokens that `item` is charged if it competes.
    fn price(&self, item: usize) -> i64 {
        if item < self.units {
            i64::from(self.problem.token_cost[item]) + self.blocks.surcharge(item, self.units)
        } else {
            self.blocks.price(item, self.units, self.problem, &self.kept)
        }
    }

    fn left(&self) -> i64 {
        self.problem.budget_tokens.saturating_sub(self.used_tokens).try_into().unwrap_or(i64::MAX)
    }

    fn fits(&self, tokens: i64) -> bool {
        tokens <= self.left() && self.used_tokens <= self.problem.budget_tokens
    }

    fn take(&mut self, item: usize) {
        self.used_tokens = self.used_tokens.saturating_add_signed(self.cost(item));
        self.kept[item] = true;
    }

    fn has_blocks(&self, item: usize) -> bool {
        item < self.units && !self.blocks.of(item, self.units).is_empty()
    }
}

/// Checking a waiting item takes as long as this many steps of reading.
const STEPS_OF_ONE: usize = 64;
/// Exponents `a` of the passes by `gain / tokens^a`, from gain per token to gain alone.
const EXPONENTS: [f64; 5] = [1.0, 0.75, 0.5, 0.25, 0.0];
/// From this many items on only gain per token, compared with the best single unit: the other passes add under 1%
/// there.
const MANY_ITEMS: usize = 2_000;

/// Keep the units that maximise `sum of scores + sum of weights of the features mentioned at least once`.
///
/// The objective is monotone submodular: a unit's gain only ever shrinks. The best of greedy by gain per token and the
/// best single unit is within a constant factor of the optimum (Khuller, Moss and Naor 1999; Leskovec et al. 2007).
/// Greedy by gain alone begins with that single unit and goes on; passes between the two do better in practice. Gains are
/// whole numbers, so that taking a covered feature's weight off every unit that mentions it is exact and every machine
/// packs alike.
#[must_use]
pub fn pack_coverage(problem: &Problem<'_>) -> Packing {
    pack_coverage_with_blocks(problem, &Blocks::default())
}

/// The same over units and blocks. A unit that is not taken yet is judged by its best bundle, its skeleton with the blocks
/// that are worth more per token than the bundle as a whole; once it is taken, each of its blocks competes by itself.
#[must_use]
pub fn pack_coverage_with_blocks(problem: &Problem<'_>, blocks: &Blocks<'_>) -> Packing {
    let worths = Worths::of(problem);
    let best = if !blocks.text.is_empty() {
        worths.greedy(problem, blocks, 1.0)
    } else if problem.score.len() < MANY_ITEMS {
        let passes = EXPONENTS.iter().map(|&exponent| worths.greedy(problem, blocks, exponent));
        passes.reduce(better).expect("at least one pass")
    } else {
        better(worths.greedy(problem, blocks, 1.0), worths.best_single(problem, blocks))
    };
    best.into_packing(&worths)
}

fn better<'a>(best: Pass<'a>, next: Pass<'a>) -> Pass<'a> {
    if next.value > best.value { next } else { best }
}

/// Scores and weights as whole numbers, and the items that share each feature.
struct Worths {
    /// Whole-number worth of 1.0.
    one: f64,
    /// Per item, its score and the weights of all its features.
    full_gain: Vec<u64>,
    /// Per item, its features that others mention too, with new numbers. A feature of one item alone (most are) is part
    /// of that item's gain whatever else is taken, and needs no updates.
    shared: FeatureLists,
    /// Weight of each shared feature.
    weight: Vec<u32>,
    /// The items that mention each shared feature.
    items_of_shared: FeatureLists,
}

impl Worths {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "scaled to fit, and not negative")]
    fn of(problem: &Problem<'_>) -> Self {
        let largest = largest(problem.score).max(largest(problem.feature_weight));
        // A power of two, so that scaling is exact; every worth is then at most 2^31.
        let one = if largest > 0.0 { 2_f64.powi((30 - largest.log2().floor() as i32).min(1_000)) } else { 1.0 };
        let whole = |worth: f64| (worth * one + 0.5) as u32;
        let weights: Vec<u32> = problem.feature_weight.iter().map(|&weight| whole(weight)).collect();
        let units = problem.score.len();
        let features_of = |unit: usize| problem.features.of(unit).iter().map(|&feature| feature as usize);
        let full_gain = (0..units).map(|unit| {
            let of_features: u64 = features_of(unit).map(|feature| u64::from(weights[feature])).sum();
            u64::from(whole(problem.score[unit])) + of_features
        });
        let mentions = problem.features.mentions_of_each(weights.len());
        let (number, weight, mentions) = number_shared(&mentions, &weights);
        let shared = problem.features.renumbered(units, &number);
        Self { one, full_gain: full_gain.collect(), items_of_shared: shared.inverted(units, mentions), shared, weight }
    }

    /// The pinned items, and the unit of most gain that fits in addition, with as many of its blocks as fit.
    fn best_single<'a>(&self, problem: &'a Problem<'a>, blocks: &'a Blocks<'a>) -> Pass<'a> {
        let mut pass = self.pinned(problem, blocks);
        let fitting =
            (0..pass.room.units).filter(|&unit| !pass.room.kept[unit] && pass.room.fits(pass.room.cost(unit)));
        if let Some(unit) = fitting.max_by_key(|&unit| pass.gain[unit]) {
            pass.take(unit, self);
            for block in blocks.of(unit, pass.room.units) {
                if pass.room.fits(pass.room.cost(block)) {
                    pass.take(block, self);
                }
            }
        }
        pass
    }

    /// A pass that has only taken the pinned items.
    fn pinned<'a>(&self, problem: &'a Problem<'a>, blocks: &'a Blocks<'a>) -> Pass<'a> {
        let room = Room::empty(problem, blocks);
        let mut pass = Pass { room, gain: self.full_gain.clone(), covered: vec![false; self.weight.len()], value: 0 };
        for item in (0..problem.pinned.len()).filter(|&item| problem.pinned[item]) {
            pass.take(item, self);
        }
        pass
    }

    /// One pass: take the item with the largest `gain / tokens^exponent` that fits, again and again.
    fn greedy<'a>(&self, problem: &'a Problem<'a>, blocks: &'a Blocks<'a>, exponent: f64) -> Pass<'a> {
        let mut pass = self.pinned(problem, blocks);
        let units = pass.room.units;
        let per_token: Vec<f32> =
            problem.token_cost[..units].iter().map(|&tokens| inverse_power(tokens, exponent)).collect();
        let rate = |pass: &Pass<'_>, item: usize| {
            if item < units && !pass.room.has_blocks(item) {
                return pass.gain[item] as f32 * per_token[item];
            }
            let (gain, tokens) = pass.offer(item);
            gain as f32 * inverse_power(tokens, exponent)
        };
        let mut queue = BucketQueue::new(problem.score.len());
        for unit in (0..units).filter(|&unit| !problem.pinned[unit]) {
            queue.push(unit, rate(&pass, unit));
        }
        for unit in (0..units).filter(|&unit| problem.pinned[unit]) {
            for block in blocks.of(unit, units).filter(|&block| !problem.pinned[block]) {
                queue.push(block, rate(&pass, block));
            }
        }
        let mut pace = Pace::default();
        while let Some((item, bucket)) = queue.pop() {
            pace.step_by(STEPS_OF_ONE);
            if !pass.room.fits(pass.room.cost(item)) {
                continue; // the budget only shrinks: it will not fit later either
            }
            let now = rate(&pass, item);
            if BucketQueue::bucket_of(now) < bucket {
                queue.push(item, now);
                continue;
            }
            if item < units && pass.room.has_blocks(item) && pass.offer(item).0 == 0 {
                continue; // a skeleton that says nothing, and none of its blocks fits
            }
            pass.take(item, self);
            if item < units {
                for block in blocks.of(item, units) {
                    queue.push(block, rate(&pass, block));
                }
            } else {
                // A block next to a kept one does not divide a gap: it has become cheaper.
                for block in blocks.neighbours(item, units).filter(|&block| !pass.room.kept[block]) {
                    queue.push(block, rate(&pass, block));
                }
            }
        }
        pass
    }
}

/// The largest of some worths, none of them negative, several at a time, since they do not depend on each other.
fn largest(worths: &[f64]) -> f64 {
    let (eights, rest) = worths.as_chunks::<8>();
    let of_eights = eights.iter().fold([0.0_f64; 8], |most, some| std::array::from_fn(|at| most[at].max(some[at])));
    of_eights.into_iter().chain(rest.iter().copied()).fold(0.0, f64::max)
}

/// Numbers for the features that several items mention, `NONE` for the others; by number, the weight and the count of
/// items.
fn number_shared(mentions: &[u32], weights: &[u32]) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let (mut weight, mut items) = (vec![0; mentions.len() + 1], vec![0; mentions.len() + 1]);
    let mut next = 0;
    let number = mentions.iter().zip(weights).map(|(&mentions, &of_feature)| {
        // Whether a feature is shared is unpredictable, so no branch depends on it.
        let number = if mentions > 1 { next } else { NONE };
        (weight[next as usize], items[next as usize]) = (of_feature, mentions);
        next += u32::from(mentions > 1);
        number
    });
    let number = number.collect();
    weight.truncate(next as usize);
    items.truncate(next as usize);
    (number, weight, items)
}

/// The state of one pass.
struct Pass<'a> {
    room: Room<'a>,
    gain: Vec<u64>,
    covered: Vec<bool>,
    value: u64,
}

impl Pass<'_> {
    /// The gain of taking `item` next, and its tokens. For a unit with blocks, those of the bundle of its skeleton and
    /// the blocks that are worth more per token than the bundle.
    fn offer(&self, item: usize) -> (u64, u32) {
        let tokens = |price: i64| u32::try_from(price.max(1)).unwrap_or(u32::MAX);
        let alone = (self.gain[item], self.room.price(item));
        if !self.room.has_blocks(item) {
            return (alone.0, tokens(alone.1));
        }
        let left = self.room.left() - self.room.cost(item);
        let fitting = || {
            let blocks = self.room.blocks.of(item, self.room.units).filter(move |&block| self.room.cost(block) <= left);
            blocks.map(|block| (self.gain[block], self.room.price(block)))
        };
        let per_token = |(gain, cost): (u64, i64)| gain as f64 / cost.max(1) as f64;
        let mut best = alone;
        // Dinkelbach's iteration for the best ratio. It converges in a few steps, and each of them is a valid offer.
        for _ in 0..4 {
            let least = per_token(best);
            let worthy = fitting().filter(|&block| block.0 > 0 && per_token(block) > least);
            let bundle = worthy.fold(alone, |sum, block| (sum.0 + block.0, sum.1 + block.1));
            if per_token(bundle) <= least {
                break;
            }
            best = bundle;
        }
        (best.0, tokens(best.1))
    }

    fn take(&mut self, item: usize, worths: &Worths) {
        self.room.take(item);
        let gain = self.gain[item];
        self.value += gain;
        for &feature in worths.shared.of(item) {
            let feature = feature as usize;
            if !std::mem::replace(&mut self.covered[feature], true) {
                let weight = u64::from(worths.weight[feature]);
                for &other in worths.items_of_shared.of(feature) {
                    self.gain[other as usize] -= weight;
                }
            }
        }
        self.gain[item] = gain; // what it was worth when it was taken
    }

    fn into_packing(self, worths: &Worths) -> Packing {
        let gain = self.gain.iter().map(|&gain| gain as f64 / worths.one).collect();
        let value = self.value as f64 / worths.one;
        Packing { kept: self.room.kept, gain, used_tokens: self.room.used_tokens, value }
    }
}

/// `1 / tokens^exponent` for a multiple of a quarter, by square roots alone, which every machine rounds alike.
#[expect(clippy::cast_possible_truncation, reason = "single precision is plenty for an order")]
fn inverse_power(tokens: u32, exponent: f64) -> f32 {
    let tokens = f64::from(tokens.max(1));
    let quarters = [1.0, tokens.sqrt().sqrt(), tokens.sqrt(), tokens.sqrt() * tokens.sqrt().sqrt(), tokens];
    (1.0 / quarters[(exponent * 4.0) as usize]) as f32
}
