//! Division of texts into blocks: end to end they are the text, byte for byte, and there are never too many.
#![no_main]
use libfuzzer_sys::fuzz_target;
use rehydrate_core::excerpts::{MAX_BLOCKS, divide};

fn check(text: &str) {
    let Some(division) = divide(text) else { return };
    assert_eq!(Some(&division), divide(text).as_ref(), "divided twice, divided differently");
    let blocks = &division.blocks;
    assert!((1..=MAX_BLOCKS).contains(&blocks.len()), "{} blocks", blocks.len());
    let (mut byte, mut char) = (0, 0);
    for block in blocks {
        assert!(block.bytes.start == byte && block.chars.start == char, "a gap or an overlap before {block:?}");
        assert!(block.bytes.end > byte, "an empty block");
        assert_eq!(text[block.bytes.clone()].chars().count(), block.chars.len());
        (byte, char) = (block.bytes.end, block.chars.end);
    }
    assert_eq!(byte, text.len(), "the end is missing");
}

fuzz_target!(|text: &str| {
    check(text);
    // Short inputs are left whole: what is repeated is long enough, and nearly alike, as logs are.
    if !text.is_empty() {
        check(&text.repeat(5_000 / text.len() + 2));
        check(&format!("[{}]", vec![text; 60].join(",")));
        check(&vec![text; 60].join("\n"));
    }
});
