//! A request is answered from what was prepared for it, never from what a cache happens to hold.
#![cfg(feature = "builtin-model")]
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
    let needs = Needs { model: StaticModel::builtin(), bags, terms, ..Needs::default() };
    let prepared = Engine::new(1 << 20).prepare(conversation, Counter::Words, None, needs).expect("columns that fit");
    let request = Request {
        query: Some("stove"),
        query_weight: 1.0,
        vectors: Some(Vectors { dim: 2, messages: &[1.0, 0.0], positions: None, query: Some(&[0.0, 1.0]) }),
        memory_coverage: None,
        weights: Weights { recency: 0.2, semantic: 0.6, novelty: 0.2 },
        signals,
        packing: PackMode::Greedy,
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
    let needs = Needs { model: StaticModel::builtin(), bags: true, terms: true, mentions: true, vectors: false };
    let request = Request {
        query: Some("which order does part_77 hold?"),
        query_weight: 1.0,
        vectors: None,
        memory_coverage: None,
        weights: Weights { recency: 0.2, semantic: 0.6, novelty: 0.2 },
        signals: SignalMode::Calibrated,
        packing: PackMode::Coverage,
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
