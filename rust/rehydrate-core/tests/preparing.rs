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
