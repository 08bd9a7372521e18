//! One compaction from end to end, one thread: cold, warm, and as conversations grow to a million messages.
//!
//! Cold is an engine that has seen no text; warm is one that has seen all but the newest message. The thread's cache of
//! words, which outlives engines, is warm in both; what a fresh thread costs is in the bench `tokens`.

mod session;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use rehydrate_core::conversation::Needs;
use rehydrate_core::engine::{DEFAULT_CACHE_BYTES, Engine};
use rehydrate_core::selection::{Request, Selection};
use rehydrate_core::tokens::Counter;

use session::{QUERY, Session, balanced, balanced_needs, chitta};

const GROWTH: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// A profile: what it derives, what it counts by, and what it asks at a budget.
struct Profile {
    name: &'static str,
    needs: Needs,
    counter: Counter,
    request: fn(u64) -> Request<'static>,
}

fn profiles() -> [Profile; 4] {
    let o200k = Counter::O200kBase;
    let without_model = Needs { model: None, ..balanced_needs() };
    let unasked = Needs { bags: false, terms: false, ..balanced_needs() };
    let vectors_alone = Needs { vectors: true, terms: false, mentions: false, ..balanced_needs() };
    [
        Profile { name: "balanced", needs: unasked, counter: o200k, request: |t| balanced(None, t) },
        Profile {
            name: "balanced, query",
            needs: balanced_needs(),
            counter: o200k,
            request: |t| balanced(Some(QUERY), t),
        },
        Profile { name: "balanced, no model", needs: without_model, counter: o200k, request: |t| balanced(None, t) },
        Profile {
            name: "chitta, query",
            needs: vectors_alone,
            counter: Counter::Words,
            request: |t| chitta(Some(QUERY), t),
        },
    ]
}

impl Profile {
    /// The work of `compact_context` after the messages are parsed, at a ratio of 0.4.
    fn compact(&self, engine: &Engine, session: &Session) -> Selection {
        let conversation = black_box(session).conversation();
        let prepared = engine.prepare(conversation, self.counter, None, self.needs).expect("valid");
        let total: u64 = prepared.message_tokens().iter().map(|&tokens| u64::from(tokens)).sum();
        prepared.select(&(self.request)(total * 2 / 5)).expect("valid")
    }
}

fn one_compaction(criterion: &mut Criterion) {
    let mut session = Session::typical();
    for profile in profiles() {
        let mut group = criterion.benchmark_group(format!("engine/{}", profile.name));
        group.throughput(Throughput::Bytes(session.bytes())).sample_size(30);
        group.bench_function("cold", |b| {
            b.iter_batched(
                || Engine::new(DEFAULT_CACHE_BYTES),
                |engine| (profile.compact(&engine, &session), engine),
                BatchSize::PerIteration,
            );
        });
        let engine = Engine::new(DEFAULT_CACHE_BYTES);
        profile.compact(&engine, &session);
        group.bench_function("seen", |b| b.iter(|| profile.compact(&engine, &session)));
        let mut turn = 0;
        group.bench_function("warm", |b| {
            b.iter(|| {
                turn += 1;
                session.push_turn(turn);
                let selection = profile.compact(&engine, &session);
                session.pop_turn();
                selection
            });
        });
        group.finish();
    }
}

fn growth(criterion: &mut Criterion) {
    let [profile, ..] = profiles();
    let mut group = criterion.benchmark_group("growth");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).warm_up_time(Duration::from_millis(1));
    for messages in GROWTH {
        let session = Session::chat(messages);
        group.throughput(Throughput::Elements(messages as u64)).measurement_time(Duration::from_millis(500));
        group.bench_function(format!("{messages} messages"), |b| {
            b.iter_batched(
                || Engine::new(DEFAULT_CACHE_BYTES),
                |engine| (profile.compact(&engine, &session), engine),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, one_compaction, growth);
criterion_main!(benches);
