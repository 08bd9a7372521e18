//! Token counting: our exact counters compared with the `bpe-openai` crate, and the two estimates.
//!
//! `REHYDRATE_BENCH_TEXT` names a file to count instead of this crate's own source.
//! A warm count finds its words in the thread's cache; a cold one runs on a fresh thread.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rehydrate_core::tokens::Counter;

const SOURCE: &str = concat!(
    include_str!("../src/tokens/split.rs"),
    include_str!("../src/tokens.rs"),
    include_str!("../src/tokens/merge.rs")
);

fn tokens(criterion: &mut Criterion) {
    let text = match std::env::var("REHYDRATE_BENCH_TEXT") {
        Ok(path) => std::fs::read_to_string(path).expect("REHYDRATE_BENCH_TEXT names a UTF-8 file"),
        Err(_) => SOURCE.to_owned(),
    };
    let mut group = criterion.benchmark_group("tokens");
    group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(20);
    for &counter in Counter::ALL {
        group.bench_function(format!("{}/warm", counter.name()), |b| b.iter(|| counter.count(black_box(&text))));
    }
    for counter in [Counter::O200kBase, Counter::Cl100kBase] {
        group.bench_function(format!("{}/cold", counter.name()), |b| {
            b.iter(|| std::thread::scope(|scope| scope.spawn(|| counter.count(black_box(&text))).join()));
        });
    }
    for (name, peer) in [("o200k_base", bpe_openai::o200k_base()), ("cl100k_base", bpe_openai::cl100k_base())] {
        group.bench_function(format!("{name}/bpe-openai"), |b| b.iter(|| peer.count(black_box(text.as_str()))));
    }
    group.finish();

    let mut group = criterion.benchmark_group("tokens of one megabyte");
    group.throughput(Throughput::Bytes(1 << 20)).sample_size(10);
    for (name, unit) in
        [("letter", "a"), ("blank", " "), ("word", "abcdefghijklmnopqrstuvwxyz"), ("ideographs", "日本語文字列")]
    {
        let run = unit.repeat((1 << 20) / unit.len());
        group.bench_function(name, |b| b.iter(|| Counter::O200kBase.count(black_box(&run))));
    }
    group.finish();
}

criterion_group!(benches, tokens);
criterion_main!(benches);
