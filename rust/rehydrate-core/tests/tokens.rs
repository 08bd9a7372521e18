//! Token counts against tiktoken's (golden) and against the `bpe-openai` crate (everything else).

mod depth;

use rehydrate_core::tokens::{Counter, chars, tokens_of_chars, tokens_of_words, words};

#[test]
fn words_are_what_pythons_str_split_finds() {
    // Each count is `len(text.split())` in Python 3.11.
    for (text, expected) in [
        ("", 0),
        (" \n", 0),
        ("one", 1),
        ("  two words ", 2),
        ("a\u{1c}b\u{1d}c\u{1e}d\u{1f}e", 5),
        ("a\u{85}b\u{a0}c\u{1680}d\u{2003}e\u{2028}f\u{2029}g\u{202f}h\u{205f}i\u{3000}j\u{b}k\u{c}l", 12),
        ("a\u{200b}b\u{feff}c\u{180e}d\0e", 1),
    ] {
        assert_eq!(words(text), expected, "{text:?}");
    }
}

#[test]
fn estimates_round_up_in_whole_numbers() {
    assert_eq!([0, 1, 2, 10, 11].map(tokens_of_words), [0, 2, 3, 13, 15]);
    assert_eq!([0, 1, 3, 4, 7, 8, 35].map(tokens_of_chars), [0, 1, 1, 2, 2, 3, 10]);
    assert_eq!([tokens_of_words(usize::MAX), tokens_of_chars(usize::MAX)], [u32::MAX; 2]);
    assert_eq!(chars("e\u{301}日🤖"), 4);
    assert_eq!(Counter::Chars.count("12345678"), 3);
}

#[test]
fn every_counter_is_found_by_its_name() {
    for &counter in Counter::ALL {
        assert_eq!(Counter::from_name(counter.name()), Some(counter));
    }
    assert_eq!(Counter::from_name("o200k"), None);
}

mod exact {
    use bpe_openai::Tokenizer;
    use proptest::prelude::*;
    use rehydrate_core::tokens::Counter;

    use super::depth::deep;

    fn encodings() -> [(Counter, &'static Tokenizer); 2] {
        [(Counter::O200kBase, bpe_openai::o200k_base()), (Counter::Cl100kBase, bpe_openai::cl100k_base())]
    }

    fn assert_counts(text: &str) {
        for (counter, reference) in encodings() {
            assert_eq!(counter.count(text) as usize, reference.count(text), "{} of {text:?}", counter.name());
        }
    }

    /// Text, then what tiktoken 0.14.0 counts: `len(encoding.encode_ordinary(text))` for o200k_base and cl100k_base.
    const GOLDEN: &[(&str, u32, u32)] = &[
        ("", 0, 0),
        ("hello world", 2, 2),
        ("Hello, World! It's 2026.", 9, 10),
        ("I'M you'RE we'Ll he'D they've", 11, 11),
        ("aſ'ſ 'ſa K'K x'K", 13, 16),
        ("<|endoftext|> is plain text", 10, 10),
        ("fn main() {\n    println!(\"{}\", x);\n}\n", 10, 10),
        ("{\"id\": 12345678, \"path\": \"/usr/lib/x86_64\", \"ok\": true}", 24, 24),
        ("a\r\n\r\n  b\t\tc   \n   ", 8, 8),
        ("   ", 1, 1),
        ("\n\n\n", 1, 1),
        ("http://example.org/a/b//c?d=e#f", 13, 13),
        ("====----////\n\n////", 5, 5),
        ("日本語のテキストを数える", 9, 12),
        ("Привет, как дела?", 6, 8),
        ("שלום עולם", 2, 10),
        ("e\u{301}\u{301} \u{301}x .\u{301}", 8, 8),
        ("ǅungla ǅ ǄUNGLA", 13, 13),
        ("👩\u{200d}👩\u{200d}👧\u{200d}👦 🤖🇩🇪", 17, 27),
        ("\u{0}\u{0}a\u{0}", 3, 4),
        ("x = [1,22,333,4444,55555]", 15, 15),
        ("getHTTPResponseCode snake_case_name SCREAMING_CASE", 11, 11),
        ("٣٤٥٦ ⅷ ½½½½", 12, 16),
        ("\u{a0}\u{a0}x\u{2003}y\u{3000}", 6, 7),
        ("supercalifragilisticexpialidocious antidisestablishmentarianism", 16, 17),
        ("SGVsbG8gV29ybGQhIFRoaXMgaXMgYmFzZTY0IGVuY29kZWQgdGV4dA==", 38, 39),
    ];

    #[test]
    fn golden_texts_count_as_tiktoken_counts_them() {
        for &(text, o200k, cl100k) in GOLDEN {
            assert_eq!(Counter::O200kBase.count(text), o200k, "o200k_base of {text:?}");
            assert_eq!(Counter::Cl100kBase.count(text), cl100k, "cl100k_base of {text:?}");
        }
    }

    /// `vocabularies/` has each token by rank, its length in a byte before it, as `build.rs` reads it.
    #[test]
    fn the_vocabularies_are_those_of_the_reference() {
        for (counter, reference) in encodings() {
            let tokens = (0..reference.bpe.num_tokens() as u32).map(|rank| reference.bpe.token_bytes(rank));
            let expected: Vec<u8> = tokens.flat_map(|token| [&[token.len() as u8], token].concat()).collect();
            let path = format!("{}/vocabularies/{}.bin", env!("CARGO_MANIFEST_DIR"), counter.name());
            assert!(std::fs::read(&path).unwrap() == expected, "{path} has other tokens than bpe-openai");
        }
    }

    #[test]
    fn every_token_that_is_text_counts_as_in_the_reference() {
        for (_, reference) in encodings() {
            for rank in (0..reference.bpe.num_tokens() as u32).step_by(if deep() { 1 } else { 7 }) {
                if let Ok(token) = std::str::from_utf8(reference.bpe.token_bytes(rank)) {
                    assert_counts(token);
                    assert_counts(&format!("{token}{token}"));
                }
            }
        }
    }

    #[test]
    fn every_character_counts_as_in_the_reference() {
        // All of the planes in which characters are assigned, and a sample of those that have none.
        let assigned = (char::MIN..='\u{3FFFF}').chain('\u{E0000}'..='\u{E0FFF}');
        let all = assigned.chain(('\u{40000}'..=char::MAX).step_by(257));
        for c in all.filter(|&c| deep() || c < '\u{3400}' || u32::from(c) % 16 == 0) {
            assert_counts(&format!("{c} {c}a{c}b\n{c}{c}"));
        }
    }

    /// tiktoken now takes white space up to the end of a text as one piece (`\s++$`) in cl100k_base, where the pattern
    /// that this crate follows ends a piece after the last newline. Both count the same as long as no token spans that end.
    #[test]
    fn no_token_of_cl100k_base_goes_on_with_blanks_after_a_newline_and_ends_there() {
        let bpe = &bpe_openai::cl100k_base().bpe;
        for token in (0..bpe.num_tokens() as u32).map(|rank| bpe.token_bytes(rank)) {
            let Ok(token) = std::str::from_utf8(token) else { continue };
            let blank = token.chars().all(char::is_whitespace);
            assert!(!blank || !token.contains(['\r', '\n']) || token.ends_with(['\r', '\n']), "{token:?}");
        }
    }

    #[test]
    fn long_runs_count_as_in_the_reference() {
        for unit in ["a", " ", "\n", "=", "/", "0", "é", "日", "ab", "x\u{301}", "─", "🤖", " \n", "A", "\0"] {
            for times in [15, 16, 17, 95, 96, 97, 127, 128, 129, 1000, 40_000] {
                assert_counts(&unit.repeat(times));
            }
        }
    }

    #[test]
    fn counts_do_not_depend_on_what_was_counted_before() {
        // More words than the cache has places, twice, so that entries are evicted and met again.
        let texts: Vec<String> = (0..60_000).map(|i| format!(" w{i:x}q{}", "zyx".repeat(i % 9))).collect();
        let expected: Vec<usize> = texts.iter().map(|text| bpe_openai::o200k_base().count(text.as_str())).collect();
        for _ in 0..2 {
            for (text, &expected) in texts.iter().zip(&expected) {
                assert_eq!(Counter::O200kBase.count(text) as usize, expected, "{text:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

        #[test]
        fn any_text_counts_as_in_the_reference(text in any::<String>()) {
            assert_counts(&text);
        }

        #[test]
        fn long_words_count_as_in_the_reference(
            text in prop_oneof!["[a-z]{1,400}", "[ab]{1,400}", "[a-zA-Z0-9+/]{1,400}", "[一-龥]{1,200}", "[а-яё]{1,200}", "[-=_*#]{1,300}", "[\\p{M}a]{1,100}"],
        ) {
            assert_counts(&text);
        }

        #[test]
        fn joined_tokens_count_as_in_the_reference(ranks in prop::collection::vec(0..199_998u32, 0..60)) {
            let bytes = bpe_openai::o200k_base().bpe.decode_tokens(&ranks);
            assert_counts(&String::from_utf8_lossy(&bytes));
        }
    }
}
