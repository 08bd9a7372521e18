//! The built-in embedder on a session's texts, one thread: bags, pooling, and the similarities after a soft query.

mod session;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rehydrate_core::embed::builtin::{Bag, StaticModel};
use rehydrate_core::embed::{Embedder, normalize};

use session::{QUERY, Session};

fn embedding(criterion: &mut Criterion) {
    let model = StaticModel::builtin();
    let session = Session::typical();
    let texts = session.texts();
    let bags: Vec<Bag> = texts.iter().map(|text| model.bag(text)).collect();

    let mut group = criterion.benchmark_group("embed");
    group.throughput(Throughput::Bytes(session.bytes()));
    group.bench_function("bag", |b| {
        b.iter(|| texts.iter().map(|text| model.bag(black_box(text)).len()).sum::<usize>());
    });
    let mut rows = vec![0.0; texts.len() * model.dim()];
    group.bench_function("pool", |b| {
        b.iter(|| {
            for (bag, row) in bags.iter().zip(rows.chunks_exact_mut(model.dim())) {
                row.fill(0.0);
                model.add(black_box(bag).iter().copied(), |_| 1.0, row);
                normalize(row);
            }
        });
    });
    group.bench_function("bag and pool", |b| {
        b.iter(|| model.embed(black_box(&texts), &mut rows).expect("the built-in model does not fail"));
    });
    group.finish();

    let query: Vec<u16> = model.bag(QUERY).iter().map(|&(token, _)| token).collect();
    let mut present: Vec<u16> = bags.iter().flat_map(|bag| bag.iter().map(|&(token, _)| token)).collect();
    present.retain(|&token| !model.is_hashed(token)); // those are like themselves only
    present.sort_unstable();
    present.dedup();
    let mut similarities = vec![0.0; query.len() * present.len()];
    let mut group = criterion.benchmark_group("embed");
    group.throughput(Throughput::Elements((query.len() * present.len()) as u64));
    group.bench_function("soft query", |b| {
        b.iter(|| model.similarities(&query, black_box(&present), &mut similarities));
    });
    group.finish();
}

criterion_group!(benches, embedding);
criterion_main!(benches);
