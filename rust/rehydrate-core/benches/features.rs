//! Reading a session's texts, one thread: the names they mention and the words for BM25.

mod session;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rehydrate_core::analysis::features::{mentions, scan};
use rehydrate_core::analysis::words::terms;

use session::Session;

fn features(criterion: &mut Criterion) {
    let session = Session::typical();
    let texts = session.texts();
    let mut group = criterion.benchmark_group("features");
    group.throughput(Throughput::Bytes(session.bytes()));
    group.bench_function("scan", |b| {
        b.iter(|| {
            let mut found = 0_usize;
            for text in &texts {
                scan(black_box(text), |name| found += name.len());
            }
            found
        });
    });
    group.bench_function("mentions", |b| {
        b.iter(|| texts.iter().map(|text| mentions(black_box(text)).len()).sum::<usize>());
    });
    group.bench_function("terms", |b| {
        b.iter(|| {
            for text in &texts {
                black_box(terms(black_box(text)));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, features);
criterion_main!(benches);
