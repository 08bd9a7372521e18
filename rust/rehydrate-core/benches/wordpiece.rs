//! WordPiece tokenising compared with the `tokenizers` crate, one thread, in bytes per second.
//!
//! The texts are the crate's own sources, one generated text in scripts beyond ASCII and, when the folder is there, the
//! strings of the real conversations in `../shared/data`: what an agent reads and writes, piece by piece.

#[path = "../tests/twin/mod.rs"]
mod twin;

use std::fs;
use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rehydrate_core::embed::wordpiece::WordPiece;
use serde_json::Value;
use twin::twin;

const VOCAB: &str = include_str!("../model/vocab.txt");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn tokenising(criterion: &mut Criterion) {
    let fast = WordPiece::from_vocab(VOCAB).unwrap();
    let twin = twin(VOCAB);

    for (name, texts) in corpora() {
        let mut group = criterion.benchmark_group(format!("wordpiece/{name}"));
        group.throughput(Throughput::Bytes(texts.iter().map(String::len).sum::<usize>() as u64));
        group.sample_size(10);
        let mut ids = Vec::new();
        group.bench_function("rehydrate", |bencher| {
            bencher.iter(|| {
                for text in &texts {
                    ids.clear();
                    fast.encode_into(black_box(text), &mut ids);
                    black_box(&ids);
                }
            });
        });
        group.bench_function("tokenizers", |bencher| {
            bencher.iter(|| {
                for text in &texts {
                    black_box(twin.encode_fast(black_box(text.as_str()), false).unwrap());
                }
            });
        });
        group.finish();
    }
    criterion.bench_function("wordpiece/from_vocab", |bencher| {
        bencher.iter(|| WordPiece::from_vocab(black_box(VOCAB)).unwrap());
    });
}

fn corpora() -> Vec<(&'static str, Vec<String>)> {
    let sources = fs::read_dir(Path::new(ROOT).join("src")).unwrap();
    let sources = sources.filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok()).collect();
    let mut corpora = vec![("sources", sources), ("scripts", vec![scripts()])];
    let data = Path::new(ROOT).join("../../../shared/data");
    for (name, place) in [("coding", "claude_code"), ("airline", "airline_dev.json"), ("chat", "locomo_dev.json")] {
        let texts = conversation_texts(&data.join(place));
        if !texts.is_empty() {
            corpora.push((name, texts));
        }
    }
    corpora
}

/// Sentences that are not English, and some that are only nearly.
fn scripts() -> String {
    "שלום עולם, זה מבחן קצר. 今日は世界、これはテストです。 한국어 문장입니다. Привет, как дела? Ça marche très bien — n’est-ce pas? \
     Übergrößenträger 中文分词测试。 ✓ done → next … “quoted” 👍 مرحبا بالعالم naïve café\n"
        .repeat(200)
}

/// The strings in the JSON files at `place`, a file or a folder, of 20 bytes or more, up to 4 MB of them.
fn conversation_texts(place: &Path) -> Vec<String> {
    let mut files = vec![place.to_path_buf()];
    if let Ok(folder) = fs::read_dir(place) {
        files = folder.map(|entry| entry.unwrap().path()).collect();
        files.sort();
    }
    let mut texts = Vec::new();
    let mut left = 4_000_000usize;
    for text in files.iter().filter_map(|file| fs::read_to_string(file).ok()) {
        for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>().map_while(Result::ok) {
            collect_strings(value, &mut texts, &mut left);
        }
    }
    texts
}

fn collect_strings(value: Value, texts: &mut Vec<String>, left: &mut usize) {
    match value {
        Value::String(text) if text.len() >= 20 && text.len() <= *left => {
            *left -= text.len();
            texts.push(text);
        }
        Value::Array(values) => values.into_iter().for_each(|value| collect_strings(value, texts, left)),
        Value::Object(fields) => fields.into_iter().for_each(|(_, value)| collect_strings(value, texts, left)),
        _ => {}
    }
}

criterion_group!(benches, tokenising);
criterion_main!(benches);
