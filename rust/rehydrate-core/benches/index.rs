//! The index of a memory: build rate, search percentiles, batch recall and what share of the true nearest it finds; LoCoMo as
//! a memory.
//!
//! `ITEMS=10000,100000 cargo bench --bench index` sets the numbers of items; `LOCOMO=path/to/locomo.json` adds the quality
//! table. `TEXTS` and `QUESTIONS` name files of a JSON string a line to measure with, in `PARTS` segments (3), in place of
//! what is made up. A search's time is the least of five runs: percentiles are over questions, not over what else the
//! machine does.
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use rehydrate_core::embed::builtin::StaticModel;
use rehydrate_core::embed::{Embedder, dot, normalize};
use rehydrate_core::index::{Entry, Filter, Fusion, KnnTarget, Meta, Query, Recall, Segment, Settings, View};

const VOCABULARY: &str = include_str!("../model/vocab.txt");
const SEARCHES: usize = 300;
const RECALLED: usize = 1_000;
const RUNS: usize = 20;

fn main() {
    if let (Ok(texts), Ok(questions)) = (std::env::var("TEXTS"), std::env::var("QUESTIONS")) {
        return written(&lines(&texts), &lines(&questions));
    }
    // No argument: those are Criterion's, whose benches run under the same command.
    let sizes = std::env::var("ITEMS").unwrap_or_else(|_| "10000,100000".into());
    sizes.split(',').map(|size| size.parse().expect("ITEMS is numbers with commas")).for_each(measure);
    if let Ok(path) = std::env::var("LOCOMO") {
        quality(&path);
    }
}

fn lines(path: &str) -> Vec<String> {
    let file = std::fs::read_to_string(path).expect("TEXTS and QUESTIONS name files");
    file.lines().map(|line| serde_json::from_str(line).expect("a JSON string a line")).collect()
}

/// Measure with texts and questions from files; sizes of segments are as a store's: each a fourth of the one before.
fn written(texts: &[String], questions: &[String]) {
    let parts: u32 = std::env::var("PARTS").ok().and_then(|parts| parts.parse().ok()).unwrap_or(3);
    let meta = |id: usize| Meta { source: (id / 1_000) as u32, ..Meta::default() };
    let entry = |(id, text)| Entry { id: id as u64, meta: meta(id), text, vector: None };
    let entries: Vec<Entry<'_>> = texts.iter().map(String::as_str).enumerate().map(entry).collect();
    let mut view = View::new(Vec::new());
    let mut segments = Vec::new();
    let mut rest = &entries[..];
    for part in 0..parts {
        let size = if part + 1 == parts { rest.len() } else { rest.len() / 4 * 3 };
        let (these, after) = rest.split_at(size);
        let settings = Settings { older: Some(view.statistics()), ..Settings::default() };
        let start = Instant::now();
        let bytes = Segment::build(these, &[], &settings);
        println!("{size} items: {:.0} a second", size as f64 / start.elapsed().as_secs_f64());
        segments.push(Arc::new(Segment::open(Arc::new(bytes)).expect("as it was built")));
        view = View::new(segments.clone());
        rest = after;
    }
    searches(&view, questions);
    let asked: Vec<&str> = texts.iter().rev().take(RECALLED).map(String::as_str).collect();
    let (of, filter) = (KnnTarget::Texts(&asked), Filter::default());
    let recall = || view.recall(&Recall { of, k: 3, centred: false, filter, now_ms: 0 });
    println!("  recall of {RECALLED} texts: {:.1} ms", (0..RUNS).map(|_| timed(recall)).fold(f64::MAX, f64::min));
}

fn searches(view: &View, questions: &[String]) {
    for (name, fusion) in [("calibrated", Fusion::Calibrated), ("weighted", Fusion::WEIGHTED)] {
        let search = |question: &String| {
            (0..5)
                .map(|_| timed(|| view.search(&Query { fusion, ..Query::new(question, 10) })))
                .fold(f64::MAX, f64::min)
        };
        let mut times: Vec<f64> = questions.iter().map(search).collect();
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!("  search, {name}: p50 {:.2} ms, p99 {:.2} ms", at(0.5), at(0.99));
    }
}

fn view_of(entries: &[Entry<'_>], settings: &Settings<'_>) -> View {
    let bytes = Segment::build(entries, &[], settings);
    View::new(vec![Arc::new(Segment::open(Arc::new(bytes)).expect("as it was built"))])
}

fn measure(items: usize) {
    let mut writer = Writer::new();
    let texts: Vec<String> = (0..items).map(|_| writer.item()).collect();
    let meta = |id: usize| Meta { source: (id / 100) as u32, ..Meta::default() };
    let entry = |(id, text)| Entry { id: id as u64, meta: meta(id), text, vector: None };
    let entries: Vec<Entry<'_>> = texts.iter().map(String::as_str).enumerate().map(entry).collect();

    let start = Instant::now();
    let bytes = Segment::build(&entries, &[], &Settings::default());
    let (seconds, length) = (start.elapsed().as_secs_f64(), bytes.len());
    let start = Instant::now();
    let view = View::new(vec![Arc::new(Segment::open(Arc::new(bytes)).expect("as it was built"))]);
    let text: usize = texts.iter().map(String::len).sum();
    println!(
        "{items} items: {:.0} a second, {:.1} MB of {:.1} MB text, opened in {:.1} ms",
        items as f64 / seconds,
        length as f64 / 1e6,
        text as f64 / 1e6,
        start.elapsed().as_secs_f64() * 1e3
    );

    let questions: Vec<String> = (0..SEARCHES).map(|_| writer.question(&texts)).collect();
    searches(&view, &questions);
    if items <= 200_000 {
        recall(StaticModel::builtin(), &entries, &mut writer);
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    black_box(work());
    start.elapsed().as_secs_f64() * 1e3
}

fn recall(model: &StaticModel, entries: &[Entry<'_>], writer: &mut Writer) {
    let embed = |text: &str| {
        let mut vector = vec![0.0; model.dim()];
        model.embed(&[text], &mut vector).expect("it never fails");
        vector
    };
    let rows: Vec<Vec<f32>> = entries.iter().map(|entry| embed(entry.text)).collect();
    let with_vectors: Vec<Entry<'_>> =
        entries.iter().zip(&rows).map(|(entry, row)| Entry { text: "", vector: Some(row), ..*entry }).collect();
    let view = view_of(&with_vectors, &Settings { dim: Some(model.dim()), ..Settings::default() });
    let asked: Vec<Vec<f32>> = (0..RECALLED).map(|_| embed(&writer.item())).collect();
    let asked: Vec<&[f32]> = asked.iter().map(Vec::as_slice).collect();
    let mut mean = vec![0.0_f32; model.dim()];
    rows.iter().for_each(|row| mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += x / rows.len() as f32));
    for centred in [true, false] {
        let recall = |asked: &[&[f32]]| {
            let (of, filter) = (KnnTarget::Vectors(asked), Filter::default());
            view.recall(&Recall { of, k: 3, centred, filter, now_ms: 0 })
        };
        let time = (0..5).map(|_| timed(|| recall(&asked))).fold(f64::MAX, f64::min);
        let mut alone: Vec<f64> = asked.iter().map(|asked| timed(|| recall(&[*asked]))).collect();
        alone.sort_by(f64::total_cmp);
        let moved = |row: &[f32]| {
            let mut moved = row.to_vec();
            if centred {
                moved.iter_mut().zip(&mean).for_each(|(x, mean)| *x -= mean);
            }
            normalize(&mut moved);
            moved
        };
        let moved_rows: Vec<Vec<f32>> = rows.iter().map(|row| moved(row)).collect();
        let few = &asked[..300];
        let mut short = 0.0;
        let right = few.iter().zip(recall(few)).map(|(asked, answer)| {
            let asked = moved(asked);
            let mut exact: Vec<(f32, u64)> = moved_rows.iter().map(|row| dot(row, &asked)).zip(0..).collect();
            exact.select_nth_unstable_by(3, |a, b| b.0.total_cmp(&a.0));
            let third = exact[..3].iter().map(|(cosine, _)| *cosine).fold(1.0, f32::min);
            let found = answer.iter().map(|(id, _)| dot(&moved_rows[*id as usize], &asked)).fold(1.0, f32::min);
            short += f64::from(third - found) / few.len() as f64;
            exact[..3].iter().filter(|(_, id)| answer.iter().any(|(other, _)| other == id)).count()
        });
        let share = right.sum::<usize>() as f64 / (3 * few.len()) as f64;
        println!(
            "  recall of {RECALLED}, centred {centred}: {time:.1} ms, recall@3 {share:.3}, third short by {short:.4}; \
             one alone p50 {:.2} ms, p99 {:.2} ms",
            alone[alone.len() / 2],
            alone[alone.len() * 99 / 100]
        );
    }
}

/// Makes items up: words of a topic among common words, now and then an identifier.
struct Writer {
    words: Vec<&'static str>,
    state: u64,
}

impl Writer {
    fn new() -> Self {
        let is_word = |word: &&str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_lowercase());
        Self { words: VOCABULARY.lines().filter(is_word).collect(), state: 42 }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % limit
    }

    /// Small numbers often, as words are in texts.
    fn often_small(&mut self, limit: usize) -> usize {
        let share = self.below(1 << 30) as f64 / (1 << 30) as f64;
        ((limit as f64 + 1.0).powf(share) - 1.0) as usize
    }

    fn item(&mut self) -> String {
        let topic = self.often_small(2_000);
        let mut text = String::new();
        for _ in 0..12 + self.below(40) {
            let word = match self.below(20) {
                0..8 => topic * 7_919 + self.often_small(60) * 104_729,
                8 => {
                    text.push_str(&format!("id{}", self.below(100_000)));
                    self.below(self.words.len())
                }
                _ => self.often_small(self.words.len()),
            };
            text.push_str(self.words[word % self.words.len()]);
            text.push(if self.below(12) == 0 { '.' } else { ' ' });
        }
        text
    }

    /// Five words that are together in one of `texts`.
    fn question(&mut self, texts: &[String]) -> String {
        let words: Vec<&str> = texts[self.below(texts.len())].split([' ', '.']).collect();
        let from = self.below(words.len() - 5);
        format!("what was the {} of {}?", words[from..from + 3].join(" "), words[from + 3..from + 5].join(" and "))
    }
}

/// The share of evidence turns among the first 5 and 10; the turns of a conversation are the items of one source.
fn quality(path: &str) {
    let legs = |text, trigram, vector| Fusion::Weighted { text, trigram, vector };
    let fusions = [
        ("calibrated", Fusion::Calibrated),
        ("weighted", Fusion::WEIGHTED),
        ("reciprocal rank", Fusion::ReciprocalRank),
        ("BM25 alone", legs(1.0, 0.0, 0.0)),
        ("trigrams alone", legs(0.0, 1.0, 0.0)),
        ("vectors alone", legs(0.0, 0.0, 1.0)),
    ];
    let file = std::fs::read(path).expect("LOCOMO names a file");
    let data: serde_json::Value = serde_json::from_slice(&file).expect("LOCOMO names a file of JSON");
    let (mut sums, mut questions) = (vec![[0.0; 2]; fusions.len()], 0.0);
    for sample in data.as_array().into_iter().flatten() {
        let sessions = (1..).map_while(|session| sample["conversation"][format!("session_{session}")].as_array());
        let turns: Vec<&serde_json::Value> = sessions.flatten().collect();
        let text = |value: &serde_json::Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let texts: Vec<String> =
            turns.iter().map(|turn| format!("{}: {}", text(turn, "speaker"), text(turn, "text"))).collect();
        let entries: Vec<Entry<'_>> =
            (0..).zip(&texts).map(|(id, text)| Entry { id, meta: Meta::default(), text, vector: None }).collect();
        let view = view_of(&entries, &Settings::default());
        for asked in sample["qa"].as_array().into_iter().flatten() {
            let named = asked["evidence"].as_array().into_iter().flatten().filter_map(|named| named.as_str());
            let named: Vec<&str> = named.flat_map(|named| named.split([';', ' ', ','])).collect();
            let is_evidence = |id: u64| named.contains(&turns[id as usize]["dia_id"].as_str().unwrap_or("?"));
            let evidence = (0..turns.len() as u64).filter(|&id| is_evidence(id)).count();
            if evidence == 0 {
                continue;
            }
            questions += 1.0;
            for ((_, fusion), sums) in fusions.iter().zip(&mut sums) {
                let hits = view.search(&Query { fusion: *fusion, ..Query::new(&text(asked, "question"), 10) });
                for (sum, first) in sums.iter_mut().zip([5, 10]) {
                    let found = hits.iter().take(first).filter(|hit| is_evidence(hit.id)).count();
                    *sum += found as f64 / evidence as f64;
                }
            }
        }
    }
    println!("{questions} questions: share of evidence among the first 5 and 10");
    for ((name, _), sums) in fusions.iter().zip(&sums) {
        println!("  {name:15} {:.3} {:.3}", sums[0] / questions, sums[1] / questions);
    }
}
