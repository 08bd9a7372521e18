//! WordPiece: no panic, ids within the vocabulary, and nothing to the left of white space changes what is to its right.
#![no_main]
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use rehydrate_core::embed::wordpiece::WordPiece;

fn tokenizer() -> &'static WordPiece {
    static TOKENIZER: OnceLock<WordPiece> = OnceLock::new();
    TOKENIZER
        .get_or_init(|| WordPiece::from_vocab(include_str!("../../rehydrate-core/model/vocab.txt")).expect("valid"))
}

fn ids(text: &str) -> Vec<u16> {
    let mut ids = Vec::new();
    tokenizer().encode_into(text, &mut ids);
    ids
}

fuzz_target!(|text: &str| {
    let whole = ids(text);
    assert!(whole.iter().all(|&id| usize::from(id) < tokenizer().vocab_size()));
    assert_eq!(ids(text), whole, "the word cache changes the ids of {text:?}");
    let mut by_words = Vec::new();
    text.split([' ', '\n', '\t', '\r']).for_each(|word| tokenizer().encode_into(word, &mut by_words));
    assert_eq!(by_words, whole, "words of {text:?} are not independent");
    // A vocabulary out of nowhere is refused or works.
    if let Ok(tokenizer) = WordPiece::from_vocab(text) {
        let mut ids = Vec::new();
        tokenizer.encode_into(text, &mut ids);
        assert!(ids.iter().all(|&id| usize::from(id) < tokenizer.vocab_size()));
    }
});
