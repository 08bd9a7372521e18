//! Scoring and packing once everything is derived, one thread: a session's, and 10,000 units of some 60 features.

mod session;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use rehydrate_core::conversation::{Message, Role};
use rehydrate_core::engine::Engine;
use rehydrate_core::packing::{FeatureLists, Problem, pack_coverage, pack_greedy};
use rehydrate_core::scoring::{Signals, Weights, recency};
use rehydrate_core::tokens::Counter;

use session::{Dice, QUERY, Session, balanced, balanced_needs, chitta};

const MANY_UNITS: usize = 10_000;
const FEATURES_PER_UNIT: usize = 60;

fn packing(criterion: &mut Criterion) {
    select(criterion, "select 305 units", &Session::typical());
    select(criterion, "select 10000 units", &Session::coding(MANY_UNITS, MANY_UNITS * 1_000));
    alone(criterion);
}

/// `Prepared::select`: signals, scores, features by unit, packing, lead.
fn select(criterion: &mut Criterion, name: &str, session: &Session) {
    let prepared = Engine::new(1 << 30)
        .prepare(session.conversation(), Counter::O200kBase, None, balanced_needs())
        .expect("a valid conversation");
    let total: u64 = prepared.message_tokens().iter().map(|&tokens| u64::from(tokens)).sum();
    let target = total * 2 / 5;
    let mut group = criterion.benchmark_group(name);
    for (case, request) in [
        ("balanced", balanced(None, target)),
        ("balanced, query", balanced(Some(QUERY), target)),
        ("balanced, a tenth kept", balanced(None, total / 10)),
        ("chitta, query", chitta(Some(QUERY), target)),
    ] {
        group.bench_function(case, |b| b.iter(|| prepared.select(black_box(&request)).expect("a valid request")));
    }
    group.finish();
}

/// The score of every unit and the packing, from signals and feature lists that are already there.
fn alone(criterion: &mut Criterion) {
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let message = |unit| Message { pieces: 0..0, media_tokens: 0, structural: 0.8, role: Role::Assistant, unit };
    let messages: Vec<Message> = (0..MANY_UNITS).map(message).collect();
    let similarity: Vec<f64> = (0..MANY_UNITS).map(|_| dice.below(1_000) as f64 / 1_000.0).collect();
    let token_cost: Vec<u32> = (0..MANY_UNITS).map(|_| u32::try_from(30 + dice.below(900)).expect("small")).collect();
    let pinned: Vec<bool> = (0..MANY_UNITS).map(|unit| unit + 1 == MANY_UNITS).collect();
    let (features, feature_weight) = zipf_features(&mut dice);
    let budget_tokens = token_cost.iter().map(|&tokens| u64::from(tokens)).sum::<u64>() * 2 / 5;
    let weights = Weights::default();
    let score = || -> Vec<f64> {
        recency(black_box(&messages))
            .into_iter()
            .zip(&similarity)
            .map(|(recency, &semantic)| Signals { structural: 0.8, recency, semantic, coverage: 0.0, odds: 1.0 })
            .map(|signals| signals.score(&weights))
            .collect()
    };
    let unscored = Problem {
        token_cost: &token_cost,
        score: &[],
        pinned: &pinned,
        features: &features,
        feature_weight: &feature_weight,
        budget_tokens,
    };
    let mut group = criterion.benchmark_group("pack 10000 units");
    group.bench_function("score", |b| b.iter(score));
    group.bench_function("score and pack, coverage", |b| {
        b.iter(|| pack_coverage(&Problem { score: &score(), ..unscored }))
    });
    group
        .bench_function("score and pack, greedy", |b| b.iter(|| pack_greedy(&Problem { score: &score(), ..unscored })));
    group.finish();
}

/// About [`FEATURES_PER_UNIT`] features a unit: a few occur in very many units, most in one or two, as names do.
fn zipf_features(dice: &mut Dice) -> (FeatureLists, Vec<f64>) {
    const VOCABULARY: usize = 200_000;
    let mut lists = FeatureLists::default();
    for _ in 0..MANY_UNITS {
        let mut ids: Vec<u32> = (0..FEATURES_PER_UNIT)
            .map(|_| {
                // Uniform in the logarithm of the rank: frequency falls as one over the rank.
                let exponent = dice.below(1 << 20) as f64 / f64::from(1 << 20);
                (VOCABULARY as f64).powf(exponent) as u32 - 1
            })
            .collect();
        ids.sort_unstable();
        ids.dedup();
        lists.push(ids);
    }
    let weight = (0..VOCABULARY).map(|_| (1 + dice.below(1_000)) as f64 / 1_000.0).collect();
    (lists, weight)
}

criterion_group!(benches, packing);
criterion_main!(benches);
