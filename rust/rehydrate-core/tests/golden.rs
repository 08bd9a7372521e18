//! The golden cases that `tests/test_golden.py` reads too.
use rehydrate_core::conversation::Needs;
use rehydrate_core::conversation::{Conversation, Message, Piece, PieceKind, Role, Unit};
use rehydrate_core::engine::Engine;
use rehydrate_core::scoring::Weights;
use rehydrate_core::selection::{PackMode, Request, SignalMode, Vectors};
use rehydrate_core::tokens::Counter;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    query_vector: Option<Vec<f32>>,
    target_ratio: f64,
    messages: Vec<Row>,
    scores: Vec<f64>,
    kept: Vec<usize>,
}

#[derive(Deserialize)]
struct Row {
    role: String,
    words: usize,
    vector: Vec<f32>,
    coverage: f64,
}

fn role_and_weight(role: &str) -> (Role, f64) {
    match role {
        "system" => (Role::System, 2.0),
        "user" => (Role::User, 1.0),
        "assistant" => (Role::Assistant, 0.8),
        "tool" => (Role::Tool, 0.5),
        _ => (Role::Other, 0.6),
    }
}

#[test]
fn chitta_reproduces_the_scores_worked_out_by_hand() {
    let golden: Golden = toml::from_str(include_str!("../../../tests/golden/chitta.toml")).unwrap();
    for case in golden.case {
        let texts: Vec<String> = case.messages.iter().map(|row| "word ".repeat(row.words)).collect();
        let last_user = case.messages.iter().rposition(|row| row.role == "user");
        let conversation = Conversation {
            pieces: texts.iter().map(|text| Piece { text, kind: PieceKind::Text }).collect(),
            messages: case.messages.iter().enumerate().map(|(unit, row)| message(unit, row)).collect(),
            units: (0..texts.len()).map(|unit| Unit { pinned: Some(unit) == last_user, may_lead: true }).collect(),
        };
        let engine = Engine::new(1 << 20);
        let prepared = engine.prepare(conversation, Counter::Words, None, Needs::default()).unwrap();
        let before: u32 = prepared.message_tokens().iter().sum();
        let vectors: Vec<f32> = case.messages.iter().flat_map(|row| row.vector.clone()).collect();
        let coverage: Vec<f64> = case.messages.iter().map(|row| row.coverage).collect();
        let selection = prepared
            .select(&Request {
                query: case.query_vector.as_ref().map(|_| "a query"),
                query_weight: 1.0,
                asks: true,
                reply: None,
                vectors: Some(Vectors {
                    dim: 2,
                    messages: &vectors,
                    positions: None,
                    query: case.query_vector.as_deref(),
                }),
                memory_coverage: Some(&coverage),
                weights: Weights::default(),
                signals: SignalMode::Raw,
                packing: PackMode::Greedy,
                target_tokens: (f64::from(before) * case.target_ratio + 1e-9) as u64,
            })
            .unwrap();
        for (unit, (&score, &expected)) in selection.message_scores.iter().zip(&case.scores).enumerate() {
            assert!((score - expected).abs() < 1e-6, "{}: message {unit} scores {score}, not {expected}", case.name);
        }
        let kept: Vec<usize> = (0..texts.len()).filter(|&unit| selection.packing.kept[unit]).collect();
        assert_eq!(kept, case.kept, "{}", case.name);
    }
}

fn message(unit: usize, row: &Row) -> Message {
    let (role, structural) = role_and_weight(&row.role);
    Message { pieces: unit..unit + 1, media_tokens: 0, structural, role, unit }
}
