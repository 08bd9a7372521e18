//! Segments and views as their callers see them.
use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::embed::builtin::StaticModel;

fn meta(source: u32) -> Meta {
    Meta { source, ..Meta::default() }
}

fn entry(id: u64, text: &str) -> Entry<'_> {
    Entry { id, meta: meta(0), text, vector: None }
}

fn open(bytes: Vec<u8>) -> Arc<Segment> {
    Arc::new(Segment::open(Arc::new(bytes)).unwrap())
}

fn view_of(entries: &[Entry<'_>]) -> View {
    View::new(vec![open(Segment::build(entries, &[], &Settings::default()))])
}

fn found(view: &View, query: &str) -> Vec<u64> {
    view.search(&Query::new(query, 10)).iter().map(|hit| hit.id).collect()
}

/// Hits that are found by their own words, not because of their neighbours.
fn found_by_words(view: &View, query: &str) -> Vec<u64> {
    let mut hits = view.search(&Query::new(query, 10));
    hits.retain(|hit| hit.text > 0.0);
    hits.sort_by_key(|hit| hit.id);
    hits.iter().map(|hit| hit.id).collect()
}

fn first(texts: &[&str], query: &str) -> Option<u64> {
    let entries: Vec<Entry<'_>> = (0..).zip(texts).map(|(id, text)| entry(id, text)).collect();
    found(&view_of(&entries), query).first().copied()
}

#[test]
fn an_empty_view_finds_nothing() {
    for view in [View::new(Vec::new()), view_of(&[])] {
        assert!(view.is_empty() && view.search(&Query::new("anything", 5)).is_empty());
        let recall =
            Recall { of: KnnTarget::Texts(&["anything"]), k: 3, centred: true, filter: Filter::default(), now_ms: 0 };
        assert_eq!(view.recall(&recall), [vec![]]);
    }
    let view = view_of(&[entry(1, "apples")]);
    assert!(view.search(&Query::new("apples", 0)).is_empty());
}

#[test]
fn words_are_found_in_their_forms_their_parts_and_in_other_scripts() {
    let texts = [
        "fn parseRowFast(input: &str) -> Row",
        "הבית הגדול על ההר",
        "今日は東京タワーに行きました",
        "the rehydrated context is compiled",
        "sha256 of the archive",
        "grandmother made cherry cake",
    ];
    for (query, expected) in [
        ("row parse", 0),
        ("parserowfast", 0),
        ("rowfast", 0),
        ("בית", 1),
        ("東京", 2),
        ("hydrat", 3),
        ("compiling", 3),
        ("SHA256", 4),
        ("256", 4),
        ("grandmothr", 5),
    ] {
        assert_eq!(first(&texts, query), Some(expected), "{query}");
    }
}

#[test]
fn words_weigh_what_bm25_says() {
    let texts = ["violin", "violin violin violin sonata", "piano sonata", "flute and oboe", "trumpet", "drums"];
    let entries: Vec<Entry<'_>> = (0..).zip(texts).map(|(id, text)| entry(id, text)).collect();
    let fusion = Fusion::Weighted { text: 1.0, trigram: 0.0, vector: 0.0 };
    let hits = view_of(&entries).search(&Query { fusion, ..Query::new("violin", 10) });
    let of_two = |count: f32, length: f32| count / (count + 1.2 * (0.25 + 0.75 * length / (11.0 / 6.0)));
    let (single, thrice) = (of_two(1.0, 1.0), of_two(3.0, 4.0));
    let scores: Vec<f32> = (0..2).map(|id| hits.iter().find(|hit| hit.id == id).map_or(0.0, |hit| hit.text)).collect();
    assert!((scores[0] / scores[1] - single / thrice).abs() < 1e-4, "{scores:?}");
    assert!(hits.len() == 2, "nothing is found for its meaning where that weighs nothing");
}

#[test]
fn an_entry_that_holds_all_of_twenty_words_holds_the_whole_query() {
    let words: Vec<String> = (0..20).map(|word| format!("word{word}x")).collect();
    let (all, most) = (words.join(" "), words[1..].join(" "));
    let hits = view_of(&[entry(0, &all), entry(1, &most), entry(2, "else")]).search(&Query::new(&all, 5));
    assert!((hits[0].id, hits[1].id) == (0, 1) && (hits[0].trigram - 1.0).abs() < 1e-4, "{hits:?}");
    assert!(hits[1].trigram < hits[0].trigram);
}

#[test]
fn what_newer_segments_replace_or_delete_is_not_found() {
    let build =
        |entries: &[Entry<'_>], tombstones: &[u64]| open(Segment::build(entries, tombstones, &Settings::default()));
    let old = build(&[entry(1, "apples are red"), entry(2, "apples are green"), entry(3, "apples are sour")], &[]);
    let new = build(&[entry(2, "bananas are yellow")], &[3]);
    let again = build(&[entry(3, "apples came back")], &[3, 7]);
    assert_eq!(found_by_words(&View::new(vec![old.clone(), new.clone()]), "apples"), [1]);
    let view = View::new(vec![old, new, again]);
    assert_eq!((found_by_words(&view, "apples"), view.len()), (vec![1, 3], 3));
    assert_eq!(found_by_words(&view, "bananas"), [2]);
}

#[test]
fn a_segment_that_only_deletes_may_stand_anywhere() {
    let build =
        |entries: &[Entry<'_>], tombstones: &[u64]| open(Segment::build(entries, tombstones, &Settings::default()));
    let (none, some) = (build(&[], &[7]), build(&[entry(1, "apples"), entry(2, "pears"), entry(7, "plums")], &[]));
    let mut all = found(&View::new(vec![none.clone(), some, none]), "apples");
    all.sort_unstable();
    assert_eq!(all, [1, 2]);
}

#[test]
fn filters_and_expiry_hold_for_every_leg_and_for_neighbours() {
    let entries: Vec<Entry<'_>> = (0..40)
        .map(|id| Entry {
            meta: Meta {
                time_ms: id as i64,
                source: (id % 2) as u32,
                kind: (id % 3) as u32,
                thread: (id % 5) as u32,
                tier: (id % 4) as u8,
                trust: (id * 6) as u8,
                expires_ms: if id == 30 { 100 } else { i64::MAX },
            },
            ..entry(id, "apples and pears")
        })
        .collect();
    let view = view_of(&entries);
    let allowed: Vec<u64> = (3..9).collect();
    let free = Filter::default();
    let filters = [
        free,
        Filter { sources: Some(&[1]), ..free },
        Filter { kinds: Some(&[0, 2]), ..free },
        Filter { threads: Some(&[4]), ..free },
        Filter { tiers: Some(0b1001), ..free },
        Filter { after_ms: Some(10), before_ms: Some(20), ..free },
        Filter { min_trust: 100, ..free },
        Filter { allowed: Some(&allowed), ..free },
        Filter { sources: Some(&[]), ..free },
    ];
    for filter in filters {
        for now_ms in [99, 100] {
            let passing = entries.iter().filter(|entry| entry.meta.expires_ms > now_ms);
            let expected: Vec<u64> =
                passing.filter(|entry| filter.passes(entry.id, &entry.meta)).map(|entry| entry.id).collect();
            let query = Query { filter, now_ms, limit: 50, ..Query::new("apples pears", 50) };
            let mut ids: Vec<u64> = view.search(&query).iter().map(|hit| hit.id).collect();
            ids.sort_unstable();
            assert_eq!(ids, expected, "{filter:?}");
            let recall = Recall { of: KnnTarget::Texts(&["apples"]), k: 50, centred: false, filter, now_ms };
            let mut ids: Vec<u64> = view.recall(&recall)[0].iter().map(|(id, _)| *id).collect();
            ids.sort_unstable();
            assert_eq!(ids, expected, "{filter:?}");
        }
    }
}

#[test]
fn a_neighbour_of_the_same_source_is_lifted() {
    let text = ["What did you pay for the violin?", "Eight hundred, more than I wanted.", "The weather turned cold."];
    let entries = [
        Entry { meta: meta(1), ..entry(1, text[0]) },
        Entry { meta: meta(1), ..entry(2, text[1]) },
        Entry { meta: meta(2), ..entry(3, text[2]) },
    ];
    let rank = |view: &View| found(view, "price of the violin").iter().position(|&id| id == 2);
    assert_eq!(rank(&view_of(&entries)), Some(1));
    let parts = entries.iter().map(|entry| open(Segment::build(&[*entry], &[], &Settings::default())));
    assert_eq!(rank(&View::new(parts.collect())), Some(1), "in another segment too");
}

#[test]
fn vectors_of_the_caller_find_and_broken_ones_are_missing() {
    let broken = [f32::NAN, 1.0];
    let rows: [&[f32]; 5] = [&[1.0, 0.0], &[0.6, 0.8], &broken, &[0.0, 0.0], &[1.0]];
    let entries: Vec<Entry<'_>> =
        (0..).zip(rows).map(|(id, row)| Entry { vector: Some(row), ..entry(id, "") }).chain([entry(9, "")]).collect();
    let settings = Settings { dim: Some(2), ..Settings::default() };
    let view = View::new(vec![open(Segment::build(&entries, &[], &settings))]);
    let vectors: [&[f32]; 5] = [&[3.0, 4.0], &broken, &[0.0, 0.0], &[1.0], &[-1.0, 0.0]];
    let filter = Filter::default();
    let recall = Recall { of: KnnTarget::Vectors(&vectors), k: 3, centred: false, filter, now_ms: 0 };
    let answers = view.recall(&recall);
    let ids = |at: usize| answers[at].iter().map(|(id, _)| *id).collect::<Vec<_>>();
    assert_eq!([ids(0), ids(1), ids(2), ids(3), ids(4)], [vec![1, 0], vec![], vec![], vec![], vec![1, 0]]);
    assert!((answers[0][0].1 - 1.0).abs() < 0.01 && (answers[0][1].1 - 0.6).abs() < 0.01);
    let hits = view.search(&Query { vector: Some(&[1.0, 0.0]), ..Query::new("", 5) });
    assert_eq!(hits[0].id, 0);
    assert!(hits.iter().all(|hit| hit.cosine.is_nan() == (hit.id > 1)));
}

#[test]
fn damaged_bytes_are_refused() {
    let texts: Vec<String> = (0..30).map(|n| format!("entry number{n} of some 文書 text")).collect();
    let entries: Vec<Entry<'_>> = (0..).zip(&texts).map(|(id, text)| entry(id, text)).collect();
    let whole = Segment::build(&entries, &[99], &Settings::default());
    assert!(Segment::open(Arc::new(whole.clone())).is_ok());
    for at in (0..whole.len()).step_by(whole.len() / 1_500).chain(0..64) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(Segment::open(Arc::new(flipped)).is_err(), "byte {at}");
        assert!(Segment::open(Arc::new(whole[..at].to_vec())).is_err(), "cut at {at}");
    }
    let longer = [whole, vec![0]].concat();
    assert!(Segment::open(Arc::new(longer)).is_err());
}

/// Everything that a search may look at.
fn ask_everything(view: &View, vector: &[f32]) {
    for fusion in [Fusion::Calibrated, Fusion::Weighted { text: 0.5, trigram: 0.3, vector: 0.2 }] {
        for text in ["number77 of the text", "numbre7 文書", "which entry?"] {
            let hits = view.search(&Query { vector: Some(vector), fusion, ..Query::new(text, 10) });
            assert!(hits.len() <= 10);
        }
    }
    for of in [KnnTarget::Texts(&["an entry of some text"]), KnnTarget::Vectors(&[vector])] {
        let near = view.recall(&Recall { of, k: 5, centred: true, filter: Filter::default(), now_ms: 0 });
        assert_eq!(near.len(), 1);
    }
    assert!(view.statistics().entries as usize >= view.len());
}

#[test]
fn a_segment_whose_numbers_were_altered_under_a_right_checksum_is_refused_or_leads_nowhere() {
    // So many that their vectors are in lists.
    let texts: Vec<String> = (0..4_200).map(|n| format!("Anna: entry number{} of some 文書 text", n % 97)).collect();
    let vectors = many(texts.len(), 4);
    let pairs = (0..).zip(texts.iter().zip(&vectors));
    let entries: Vec<Entry<'_>> =
        pairs.map(|(id, (text, vector))| Entry { vector: Some(vector), ..entry(id, text) }).collect();
    let settings = Settings { dim: Some(4), space: 7, index: VectorIndex::Usearch, ..Settings::default() };
    let whole = Segment::build(&entries, &[99], &settings);
    let newer = open(Segment::build(&[entry(5, "another number77"), entry(9_999, "newer")], &[7, 8], &settings));
    let table = layout::Layout::read(&whole).unwrap();
    let mut refused = 0;
    for section in 0..layout::Section::COUNT {
        let range = table.range(section);
        type Alter<'a> = &'a dyn Fn(&mut [u8]);
        let alter: [Alter<'_>; 5] = [
            &|bytes| bytes.fill(0xFF),
            &|bytes| bytes.fill(0),
            &|bytes| bytes.reverse(),
            &|bytes| bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31 % 251) as u8),
            &|bytes| bytes.iter_mut().step_by(1_009).for_each(|byte| *byte = byte.wrapping_add(77)),
        ];
        for alter in alter {
            let mut altered = whole.clone();
            alter(&mut altered[range.clone()]);
            layout::seal(&mut altered);
            match Segment::open(Arc::new(altered)) {
                Err(_) => refused += 1,
                Ok(segment) => ask_everything(&View::new(vec![Arc::new(segment), Arc::clone(&newer)]), &vectors[0]),
            }
        }
        // The table: a section that is elsewhere, or is shorter.
        for (at, length) in [(range.start, range.len() / 2), (8, range.len().min(64)), (range.start, 0)] {
            let mut altered = whole.clone();
            layout::place(&mut altered, section, at, length);
            layout::seal(&mut altered);
            match Segment::open(Arc::new(altered)) {
                Err(_) => refused += 1,
                Ok(segment) => ask_everything(&View::new(vec![Arc::new(segment), Arc::clone(&newer)]), &vectors[0]),
            }
        }
    }
    assert!(refused > 3 * layout::Section::COUNT, "{refused} refused");
    ask_everything(&View::new(vec![open(whole), newer]), &vectors[0]);
}

#[test]
fn a_segment_says_whose_vectors_it_holds_and_one_of_another_built_in_model_is_refused() {
    let settings = Settings { dim: Some(2), space: 77, ..Settings::default() };
    let with = Segment::build(&[Entry { vector: Some(&[1.0, 0.0]), ..entry(1, "apples") }], &[], &settings);
    assert_eq!(open(with).space(), Some(77));
    let without = Segment::build(&[entry(1, "apples")], &[], &settings);
    assert_eq!(open(without.clone()).space(), None, "none of the caller's vectors is in it");
    let model = StaticModel::builtin();
    // The same bytes by a model of the same shape that was trained again: all is as it should be but its mark.
    let mark = model.mark().to_le_bytes();
    let at = without.windows(8).position(|window| window == mark).unwrap();
    let mut retrained = without;
    retrained[at] ^= 1;
    let checksum = xxhash_rust::xxh3::xxh3_64(&retrained[32..]);
    retrained[24..32].copy_from_slice(&checksum.to_le_bytes());
    let refused = Segment::open(Arc::new(retrained)).map(drop).unwrap_err();
    assert!(refused.to_string().contains("another built-in model"), "{refused}");
}

/// Some entries that are around a few topics.
fn many(number: usize, dim: usize) -> Vec<Vec<f32>> {
    let mut state = 7_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let topics: Vec<Vec<f32>> = (0..80).map(|_| (0..dim).map(|_| next()).collect()).collect();
    (0..number).map(|at| topics[at % topics.len()].iter().map(|x| x + 1.2 * next()).collect()).collect()
}

fn unit(vector: &[f32]) -> Vec<f32> {
    let mut unit = vector.to_vec();
    crate::embed::normalize(&mut unit);
    unit
}

fn recall(view: &View, asked: &[&[f32]], centred: bool, filter: Filter<'_>) -> Vec<Vec<(u64, f32)>> {
    view.recall(&Recall { of: KnnTarget::Vectors(asked), k: 3, centred, filter, now_ms: 0 })
}

/// The share of the three nearest among `findable` vectors, by an exact scan, that were found.
fn share_found(vectors: &[Vec<f32>], findable: &[u64], asked: &[&[f32]], answers: &[Vec<(u64, f32)>]) -> f64 {
    let rows: Vec<(u64, Vec<f32>)> = findable.iter().map(|&id| (id, unit(&vectors[id as usize]))).collect();
    let mut right = 0;
    for (asked, answer) in asked.iter().zip(answers) {
        assert_eq!(answer.len(), 3);
        let asked = unit(asked);
        let mut exact: Vec<(f32, u64)> = rows.iter().map(|(id, row)| (crate::embed::dot(row, &asked), *id)).collect();
        exact.sort_by(|a, b| b.0.total_cmp(&a.0));
        right += exact[..3].iter().filter(|(_, id)| answer.iter().any(|(other, _)| other == id)).count();
    }
    right as f64 / (3 * asked.len()) as f64
}

#[test]
fn inverted_lists_find_what_a_scan_finds() {
    finds_what_a_scan_finds(VectorIndex::Lists);
}

#[test]
fn a_graph_finds_what_a_scan_finds() {
    finds_what_a_scan_finds(VectorIndex::Usearch);
}

fn finds_what_a_scan_finds(index: VectorIndex) {
    let (dim, number) = (32, 9_000);
    let vectors = many(number, dim);
    let mut entries: Vec<Entry<'_>> = (0..)
        .zip(&vectors)
        .map(|(id, vector)| Entry { vector: Some(vector), meta: meta(1), ..entry(id, "") })
        .collect();
    // The first have no vector, so ordinals aren't slots.
    entries.extend((number as u64..).map(|id| entry(id, "none")).take(3));
    let settings = Settings { dim: Some(dim), index, ..Settings::default() };
    let segment = open(Segment::build(&entries, &[], &settings));
    assert_eq!(segment.is_walked(layout::OWN), index == VectorIndex::Usearch);
    let view = View::new(vec![segment]);
    let asked: Vec<&[f32]> = vectors.iter().step_by(45).map(Vec::as_slice).collect();
    let all: Vec<u64> = (0..number as u64).collect();
    for centred in [false, true] {
        let answers = recall(&view, &asked, centred, Filter::default());
        let one_by_one: Vec<_> =
            asked.iter().flat_map(|&asked| recall(&view, &[asked], centred, Filter::default())).collect();
        assert_eq!(answers, one_by_one, "a batch is many single questions");
        assert!(answers.iter().all(|answer| (answer[0].1 - 1.0).abs() < 0.02));
        let share = share_found(&vectors, &all, &asked, &answers);
        assert!(share >= if centred { 0.93 } else { 0.95 }, "centred {centred}: {share}");
    }
    for (step, least) in [(2, 0.92), (100, 0.97)] {
        let some: Vec<u64> = (0..number as u64).step_by(step).collect();
        let filter = Filter { allowed: Some(&some), ..Filter::default() };
        let share = share_found(&vectors, &some, &asked, &recall(&view, &asked, false, filter));
        assert!(share >= least, "one in {step} may be found: {share}");
    }
    let few: Vec<u64> = (0..number as u64).step_by(100).collect();
    let filter = Filter { allowed: Some(&few), ..Filter::default() };
    let query = Query { vector: Some(&vectors[100]), filter, ..Query::new("", 5) };
    assert_eq!(view.search(&query)[0].id, 100, "a filter that lets few through hides nothing of them");
}

#[test]
fn hidden_rows_hide_no_others_and_as_many_are_found_as_are_wanted() {
    [VectorIndex::Lists, VectorIndex::Usearch].into_iter().for_each(hides_no_others);
}

fn hides_no_others(index: VectorIndex) {
    let dim = 16;
    // Two topics that are near each other, and one that is far away.
    let topic = |at: u64| {
        if at < 2_200 {
            [1.0, 0.0]
        } else if at < 3_000 {
            [0.8, 0.6]
        } else {
            [-1.0, 0.0]
        }
    };
    let mut vectors = many(5_000, dim);
    for (at, vector) in (0..).zip(&mut vectors) {
        vector.iter_mut().for_each(|x| *x *= 0.05);
        vector.iter_mut().zip(topic(at)).for_each(|(x, add)| *x += add);
    }
    let build = |expires_ms: i64| {
        let entries: Vec<Entry<'_>> = (0..)
            .zip(&vectors)
            .map(|(id, vector)| {
                let meta = if id < 2_200 { Meta { expires_ms, ..meta(1) } } else { meta(2) };
                Entry { vector: Some(vector), meta, ..entry(id, "") }
            })
            .collect();
        let settings = Settings { dim: Some(dim), index, ..Settings::default() };
        open(Segment::build(&entries, &[], &settings))
    };
    let first: Vec<u64> = (0..2_200).collect();
    let forgotten = View::new(vec![build(i64::MAX), open(Segment::build(&[], &first, &Settings::default()))]);
    let (expired, whole) = (View::new(vec![build(0)]), View::new(vec![build(i64::MAX)]));
    let others = Filter { sources: Some(&[2]), ..Filter::default() };
    let asked: [&[f32]; 1] = [&vectors[7]];
    for (view, filter) in [(&forgotten, Filter::default()), (&expired, Filter::default()), (&whole, others)] {
        for k in [3, 40, 2_500] {
            let of = KnnTarget::Vectors(&asked);
            let near = view.recall(&Recall { of, k, centred: false, filter, now_ms: 0 }).remove(0);
            assert_eq!(near.len(), k);
            assert!(near.iter().take(700).all(|(id, _)| (2_200..3_000).contains(id)), "{near:?}");
        }
        let query = Query { vector: Some(asked[0]), filter, now_ms: 0, ..Query::new("", 5) };
        let hits = view.search(&query);
        assert!(hits.len() == 5 && hits.iter().all(|hit| (2_200..3_000).contains(&hit.id)), "{hits:?}");
    }
    let of = KnnTarget::Vectors(&asked);
    let near = whole.recall(&Recall { of, k: 2_000, centred: false, filter: Filter::default(), now_ms: 0 });
    assert_eq!(near[0].len(), 2_000, "more are wanted than the nearest lists hold");
    let near = whole.recall(&Recall { of, k: usize::MAX, centred: false, filter: Filter::default(), now_ms: 0 });
    assert_eq!(near[0].len(), vectors.len());
}

#[test]
fn what_many_entries_have_alike_is_found_and_so_is_the_one_that_differs() {
    [VectorIndex::Lists, VectorIndex::Usearch].into_iter().for_each(finds_the_one_that_differs);
}

fn finds_the_one_that_differs(index: VectorIndex) {
    let dim = 32;
    let others = many(200, dim);
    for (same, different) in [(5_000, 0), (20_000, 0), (4_999, 1), (5_000, 199)] {
        let vectors: Vec<&[f32]> =
            others[..different].iter().chain(std::iter::repeat_n(&others[199], same)).map(Vec::as_slice).collect();
        let entries: Vec<Entry<'_>> =
            (0..).zip(&vectors).map(|(id, vector)| Entry { vector: Some(vector), ..entry(id, "") }).collect();
        let settings = Settings { dim: Some(dim), index, ..Settings::default() };
        let view = View::new(vec![open(Segment::build(&entries, &[], &settings))]);
        for asked in [vectors[0], others[150].as_slice(), vectors[different / 2]] {
            let near = &recall(&view, &[asked], false, Filter::default())[0];
            let exact = |vector: &&[f32]| crate::embed::dot(vector, asked) / lengths(vector, asked);
            let best = vectors.iter().map(exact).fold(-1.0, f32::max);
            let found = near.first().map(|(_, cosine)| *cosine);
            assert!(
                found.is_some_and(|found| (found - best).abs() < 0.02),
                "{same}+{different}: {found:?}, not {best}"
            );
        }
    }
}

fn lengths(one: &[f32], other: &[f32]) -> f32 {
    (crate::embed::dot(one, one) * crate::embed::dot(other, other)).sqrt()
}

const WORDS: [&str; 12] =
    ["apple", "pear", "violin", "price", "parseRow", "בית", "הבית", "東京", "running", "run", "cake", "the"];

/// One step of a store's life: entries written or deleted, and where a segment ends.
#[derive(Debug, Clone)]
enum Step {
    Put(u64, Vec<usize>),
    Delete(u64),
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    let words = prop::collection::vec(0..WORDS.len(), 0..6);
    prop_oneof![
        6 => (0..24_u64, words).prop_map(|(id, words)| Step::Put(id, words)),
        1 => (0..24_u64).prop_map(Step::Delete),
        2 => Just(Step::Cut),
    ]
}

fn entries_of(texts: &BTreeMap<u64, Option<String>>) -> (Vec<Entry<'_>>, Vec<u64>) {
    let live = texts.iter().filter_map(|(&id, text)| Some((id, text.as_deref()?)));
    let live = live.map(|(id, text)| Entry { meta: meta(id as u32 % 3), ..entry(id, text) });
    (live.collect(), texts.iter().filter(|(_, text)| text.is_none()).map(|(id, _)| *id).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Words find the same entries with the same scores, however the entries came into segments.
    #[test]
    fn a_view_is_the_segment_of_its_live_entries(
        steps in prop::collection::vec(step(), 0..60),
        query in prop::collection::vec(0..WORDS.len(), 1..4),
    ) {
        let (mut all, mut piece, mut segments) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for step in steps.into_iter().chain([Step::Cut]) {
            match step {
                Step::Put(id, words) => {
                    let text = words.iter().map(|&word| WORDS[word]).collect::<Vec<_>>().join(" ");
                    all.insert(id, Some(text.clone()));
                    piece.insert(id, Some(text));
                }
                Step::Delete(id) => {
                    all.remove(&id);
                    piece.insert(id, None);
                }
                Step::Cut => {
                    let (entries, tombstones) = entries_of(&piece);
                    segments.push(open(Segment::build(&entries, &tombstones, &Settings::default())));
                    piece.clear();
                }
            }
        }
        let (entries, _) = entries_of(&all);
        let (one, many) = (view_of(&entries), View::new(segments));
        prop_assert_eq!(one.len(), many.len());
        let text = query.iter().map(|&word| WORDS[word]).collect::<Vec<_>>().join(" ");
        let of_words = Fusion::Weighted { text: 0.6, trigram: 0.4, vector: 0.0 };
        for fusion in [Fusion::Calibrated, of_words] {
            let query = Query { fusion, ..Query::new(&text, 50) };
            let by_id = |view: &View| {
                let mut hits = view.search(&query);
                hits.retain(|hit| hit.text > 0.0 || hit.trigram > 0.0);
                hits.sort_by_key(|hit| hit.id);
                hits
            };
            let (one, many) = (by_id(&one), by_id(&many));
            prop_assert_eq!(one.iter().map(|hit| hit.id).collect::<Vec<_>>(), many.iter().map(|hit| hit.id).collect::<Vec<_>>());
            for (a, b) in one.iter().zip(&many) {
                prop_assert!((a.text - b.text).abs() < 1e-4 && (a.trigram - b.trigram).abs() < 1e-4, "{:?} {:?}", a, b);
                prop_assert!(fusion == Fusion::Calibrated || (a.score - b.score).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn any_bytes_are_opened_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..2_000), magic in any::<bool>()) {
        let bytes = if magic { [b"RHYSEGMT\x02\0\0\0".to_vec(), bytes].concat() } else { bytes };
        prop_assert!(Segment::open(Arc::new(bytes)).is_err());
    }

    #[test]
    fn any_text_can_be_indexed_and_asked_for(texts in prop::collection::vec(any::<String>(), 0..8), query in any::<String>()) {
        let entries: Vec<Entry<'_>> = (0..).zip(&texts).map(|(id, text)| entry(id, text)).collect();
        let view = view_of(&entries);
        for text in texts.iter().chain([&query]) {
            for hit in view.search(&Query::new(text, 20)) {
                prop_assert!(hit.score.is_finite() && (0.0..=1.0001).contains(&hit.text) && (0.0..=1.0001).contains(&hit.trigram));
            }
        }
    }
}
