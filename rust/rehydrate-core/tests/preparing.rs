//! A request is answered from what was prepared for it, never from what a cache happens to hold.
use rehydrate_core::conversation::Needs;
use rehydrate_core::conversation::{Conversation, Message, Piece, PieceKind, Role, Unit};
use rehydrate_core::embed::builtin::StaticModel;
use rehydrate_core::engine::Engine;
use rehydrate_core::scoring::Weights;
use rehydrate_core::selection::{PackMode, Request, SignalMode, Vectors};
use rehydrate_core::tokens::Counter;

const TEXT: &str = "the stove is warm";

fn is_answered(terms: bool, bags: bool, signals: SignalMode) -> bool {
    let conversation = Conversation {
        pieces: vec![Piece { text: TEXT, kind: PieceKind::Text }],
        messages: vec![Message { pieces: 0..1, media_tokens: 0, structural: 1.0, role: Role::User, unit: 0 }],
        units: vec![Unit { pinned: false, may_lead: true }],
    };
    let needs = Needs { model: Some(StaticModel::builtin()), bags, terms, ..Needs::default() };
    let prepared = Engine::new(1 << 20).prepare(conversation, Counter::Words, None, needs).expect("columns that fit");
    let request = Request {
        query: Some("stove"),
        query_weight: 1.0,
        asks: true,
        vectors: Some(Vectors { dim: 2, messages: &[1.0, 0.0], positions: None, query: Some(&[0.0, 1.0]) }),
        memory_coverage: None,
        weights: Weights { recency: 0.2, semantic: 0.6, novelty: 0.2 },
        signals,
        packing: PackMode::Greedy,
        reply: None,
        target_tokens: 10,
    };
    prepared.select(&request).is_ok()
}

#[test]
fn beside_vectors_of_the_callers_a_calibrated_query_wants_the_texts_prepared_too() {
    assert!(!is_answered(true, false, SignalMode::Calibrated));
    assert!(!is_answered(false, true, SignalMode::Calibrated));
    assert!(is_answered(true, true, SignalMode::Calibrated));
}

#[test]
fn raw_signals_of_the_callers_vectors_want_nothing_of_the_texts() {
    assert!(is_answered(true, false, SignalMode::Raw));
}

#[test]
fn texts_that_two_threads_read_are_read_as_by_one() {
    let texts: Vec<String> =
        (0..400).map(|n| format!("step {n}: src/part_{n}.rs holds order {} ", n * n).repeat(8)).collect();
    let message =
        |n: usize| Message { pieces: n..n + 1, media_tokens: 0, structural: 1.0, role: Role::Assistant, unit: n };
    let conversation = |count: usize| Conversation {
        pieces: texts[..count].iter().map(|text| Piece { text, kind: PieceKind::Text }).collect(),
        messages: (0..count).map(message).collect(),
        units: vec![Unit { pinned: false, may_lead: true }; count],
    };
    let needs = Needs { model: Some(StaticModel::builtin()), bags: true, terms: true, mentions: true, vectors: false };
    let request = Request {
        query: Some("which order does part_77 hold?"),
        query_weight: 1.0,
        asks: true,
        vectors: None,
        memory_coverage: None,
        weights: Weights { recency: 0.2, semantic: 0.6, novelty: 0.2 },
        signals: SignalMode::Calibrated,
        packing: PackMode::Coverage,
        reply: None,
        target_tokens: 8_000,
    };
    let prepare = |engine: &Engine, count: usize| {
        engine.prepare(conversation(count), Counter::Words, None, needs).expect("columns that fit")
    };
    // All at once is enough for two threads; one text after the other is not.
    let (at_once, one_by_one) = (Engine::new(1 << 26), Engine::new(1 << 26));
    let mut slowly = prepare(&one_by_one, 1);
    (2..=texts.len()).for_each(|count| slowly = prepare(&one_by_one, count));
    let quickly = prepare(&at_once, texts.len());
    assert_eq!(quickly.message_tokens(), slowly.message_tokens());
    let (quickly, slowly) = (quickly.select(&request).unwrap(), slowly.select(&request).unwrap());
    assert_eq!((quickly.packing, quickly.message_scores), (slowly.packing, slowly.message_scores));
}

#[test]
fn one_query_after_another_finds_what_each_alone_would_and_what_a_selection_measures() {
    let texts =
        ["the stove is warm", "port 8443 is staging's", "", "Anna feeds the penguins at noon", "warm tea, please"];
    let message = |n: usize| Message { pieces: n..n + 1, media_tokens: 0, structural: 1.0, role: Role::User, unit: n };
    let conversation = || Conversation {
        pieces: texts.iter().map(|text| Piece { text, kind: PieceKind::Text }).collect(),
        messages: (0..texts.len()).map(message).collect(),
        units: vec![Unit { pinned: false, may_lead: true }; texts.len()],
    };
    let needs = Needs { model: Some(StaticModel::builtin()), bags: true, terms: true, ..Needs::default() };
    let prepare = || Engine::new(1 << 20).prepare(conversation(), Counter::Words, None, needs).expect("it fits");
    let asked_often = prepare();
    let rows = [1.0, 0.0, 0.0, 1.0, f32::NAN, f32::NAN, 0.6, 0.8, 0.8, 0.6];
    let own = Vectors { dim: 2, messages: &rows, positions: None, query: Some(&[0.0, 1.0]) };
    for (query, vectors) in [("which port is staging?", None), ("warm", Some(own)), ("penguins", None), ("warm", None)]
    {
        let (relevances, confidence) = asked_often.relevances(query, vectors).unwrap();
        assert_eq!((relevances.clone(), confidence), prepare().relevances(query, vectors).unwrap(), "{query}");
        assert!(relevances.contains(&1.0) && relevances.iter().all(|relevance| (0.0..=1.0).contains(relevance)));
        let request = Request {
            query: Some(query),
            query_weight: 1.0,
            asks: true,
            vectors,
            memory_coverage: None,
            weights: Weights { recency: 0.3, semantic: 0.4, novelty: 0.3 },
            signals: SignalMode::Calibrated,
            packing: PackMode::Greedy,
            reply: None,
            target_tokens: 0,
        };
        for (signals, relevance) in asked_often.select(&request).unwrap().signals.iter().zip(relevances) {
            assert_eq!(signals.semantic, relevance, "{query}");
            // The weight of the best message over an irrelevant one: 24, as a logarithm (DESIGN.md, relevance).
            let odds = (-24.0 * confidence * (1.0 - relevance)).exp();
            assert!((signals.odds - odds).abs() < 1e-12, "{query}: {} {odds}", signals.odds);
        }
    }
    let without_words = Needs { model: Some(StaticModel::builtin()), bags: true, ..Needs::default() };
    let unprepared = Engine::new(1 << 20).prepare(conversation(), Counter::Words, None, without_words).unwrap();
    assert!(unprepared.relevances("warm", None).is_err());
}
