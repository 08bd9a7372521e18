//! Everything derived from a text (names, words, escapes undone): no panic, sorted, and the same in parts as in whole.
#![no_main]
use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use rehydrate_core::analysis::{features, words};
use rehydrate_core::cache::Cached;
use rehydrate_core::conversation::{Needs, TextAnalysis, Wanted};
use rehydrate_core::conversation::{Piece, PieceKind};
use rehydrate_core::embed::builtin::StaticModel;
use rehydrate_core::tokens::Counter;

fuzz_target!(|text: &str| {
    let words = words::words(text);
    let terms = words::terms(text);
    assert!(terms.words.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(terms.length as usize, words.len());
    let counted: u64 = terms.words.iter().map(|&(_, times)| u64::from(times)).sum();
    assert_eq!(counted, words.len() as u64, "a word is counted twice or not at all");

    let mentions = features::mentions(text);
    assert!(mentions.is_sorted_by(|a, b| a.hash < b.hash));
    let hashes = |text: &str| features::mentions(text).iter().map(|mention| mention.hash).collect::<BTreeSet<_>>();
    let mut by_lines = BTreeSet::new();
    let mut words_by_lines = Vec::new();
    for line in text.split('\n') {
        by_lines.extend(hashes(line));
        words_by_lines.extend(words::words(line));
    }
    assert_eq!(by_lines, hashes(text), "names reach across lines of {text:?}");
    assert_eq!(words_by_lines, words, "words reach across lines of {text:?}");
    features::scan(text, |name| assert!(!name.is_empty()));

    let model = Some(StaticModel::builtin());
    let everything = Wanted {
        counter: Some(Counter::O200kBase),
        needs: Needs { model, bags: true, vectors: true, terms: true, mentions: true },
        is_users: true,
    };
    let only_counted = Wanted { needs: Needs::default(), ..everything };
    let compared = Wanted { needs: Needs { model, bags: true, ..Needs::default() }, ..everything };
    for kind in [PieceKind::Text, PieceKind::ToolInput] {
        let piece = Piece { text, kind };
        let whole = TextAnalysis::derive(piece, &everything, None);
        assert!(whole.suffices(&everything) && whole.suffices(&only_counted) && whole.suffices(&compared));
        let mut grown = TextAnalysis::derive(piece, &only_counted, None);
        for wanted in [compared, everything] {
            grown = TextAnalysis::derive(piece, &wanted, Some(&grown));
            assert!(grown.suffices(&wanted));
        }
        assert_eq!(grown.held_bytes(), whole.held_bytes(), "derived step by step, derived differently");
        assert_eq!(grown.count(Counter::O200kBase), whole.count(Counter::O200kBase));
    }
});
