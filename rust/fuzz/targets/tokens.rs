//! Token counts: no panic, an exact sum over pieces, and on short texts what the reference encoder counts.
#![no_main]
use libfuzzer_sys::fuzz_target;
use rehydrate_core::tokens::Counter;

/// The reference encoder is slow, and unoptimised tables are slower.
const COMPARED_BYTES: usize = 400;

fuzz_target!(|text: &str| {
    for &counter in Counter::ALL {
        assert_eq!(counter.count(text), counter.count(text), "{counter:?} counts the same text differently");
    }
    let (o200k, cl100k) = (Counter::O200kBase.count(text), Counter::Cl100kBase.count(text));
    assert!(o200k as usize <= text.len() && cl100k as usize <= text.len(), "more tokens than bytes");
    if text.len() <= COMPARED_BYTES {
        assert_eq!(o200k as usize, bpe_openai::o200k_base().count(text), "o200k_base of {text:?}");
        assert_eq!(cl100k as usize, bpe_openai::cl100k_base().count(text), "cl100k_base of {text:?}");
    }
    // A line break between letters always ends a piece, and begins one that ends before the next letter: the texts
    // before and after it are counted separately.
    let [before, after] = ["x", "y"].map(|letter| format!("{letter}{text}{letter}"));
    let joined = format!("{before}\n{after}");
    assert_eq!(
        Counter::O200kBase.count(&joined),
        Counter::O200kBase.count(&before) + Counter::O200kBase.count("\n") + Counter::O200kBase.count(&after),
        "a text is not the sum of its parts"
    );
});
