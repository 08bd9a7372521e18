//! The WordPiece tokenizer compared with its slow twin, the `tokenizers` crate: the same ids for every text.

mod depth;
mod twin;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread;

use depth::deep;
use proptest::prelude::*;
use rehydrate_core::embed::wordpiece::WordPiece;
use tokenizers::Model;
use twin::{Twin, twin};

const VOCAB: &str = include_str!("../model/vocab.txt");
static FAST: LazyLock<WordPiece> = LazyLock::new(|| WordPiece::from_vocab(VOCAB).unwrap());
static TWIN: LazyLock<Twin> = LazyLock::new(|| twin(VOCAB));

fn ids(text: &str) -> Vec<u16> {
    let mut ids = Vec::new();
    FAST.encode_into(text, &mut ids);
    ids
}

fn twin_ids(text: &str) -> Vec<u16> {
    let encoding = TWIN.encode_fast(text, false).unwrap();
    encoding.get_ids().iter().map(|&id| id as u16).collect()
}

fn tokens(text: &str) -> Vec<String> {
    ids(text).into_iter().map(|id| TWIN.get_model().id_to_token(u32::from(id)).unwrap()).collect()
}

#[track_caller]
fn assert_equal(text: &str) {
    assert!(ids(text) == twin_ids(text), "{text:?}\n fast {:?}\n twin {:?}", tokens(text), twin_ids(text));
}

/// Encodes many texts with the twin as one (it is slow to start), each on a line of its own.
///
/// Neither tokenizer looks across a line's end, as the tests of single texts show; which text differs is found after.
#[track_caller]
fn assert_all_equal(texts: &[String]) {
    for batch in texts.chunks(1_024) {
        if ids(&batch.join("\n")) != twin_ids(&batch.join("\n")) {
            batch.iter().for_each(|text| assert_equal(text));
            panic!("the texts are equal one by one, not joined: {batch:?}");
        }
        let one_by_one: Vec<u16> = batch.iter().flat_map(|text| ids(text)).collect();
        assert!(one_by_one == ids(&batch.join("\n")), "texts change their neighbours: {batch:?}");
    }
}

/// All of the planes in which characters are assigned, and a sample of those that have none.
///
/// Beyond the scripts of words a sample of one in sixteen, unless everything is tried.
fn every_char() -> impl Iterator<Item = char> {
    let assigned = ('\0'..='\u{3FFFF}').chain('\u{E0000}'..='\u{E0FFF}');
    let all = assigned.chain(('\u{40000}'..=char::MAX).step_by(257));
    let deep = deep();
    all.filter(move |&c| deep || c < '\u{3400}' || u32::from(c) % 16 == 0)
}

#[test]
fn every_character_alone_is_encoded_as_the_twin_does() {
    assert_all_equal(&every_char().map(String::from).collect::<Vec<_>>());
}

#[test]
fn every_character_between_letters_is_encoded_as_the_twin_does() {
    assert_all_equal(&every_char().map(|char| format!("a{char}b")).collect::<Vec<_>>());
    assert_all_equal(&every_char().map(|char| format!("{char}Z9")).collect::<Vec<_>>());
}

#[test]
fn every_character_beside_marks_that_change_places_is_encoded_as_the_twin_does() {
    // U+302E (class 224) is kept; U+0301 (230) and U+0323 (220) are stripped, but only after the marks were sorted.
    assert_all_equal(&every_char().map(|char| format!("\u{302E}{char}\u{1D165}\u{323}")).collect::<Vec<_>>());
}

#[test]
fn every_token_of_the_vocabulary_is_encoded_as_the_twin_does() {
    let tokens: Vec<String> = VOCAB.lines().map(String::from).collect();
    assert_all_equal(&tokens);
    let words: Vec<String> = tokens.iter().map(|token| token.trim_start_matches("##").to_string()).collect();
    let glued: Vec<String> =
        words.iter().zip(words.iter().rev()).map(|(a, b)| format!("{a}{}", b.to_uppercase())).collect();
    assert_all_equal(&words);
    assert_all_equal(&glued);
}

#[test]
fn special_tokens_in_a_text_are_plain_text() {
    assert_eq!(tokens("[CLS] a[MASK]"), ["[", "cl", "##s", "]", "a", "[", "mask", "]"]);
    for special in ["[CLS]", "[SEP]", "[UNK]", "[PAD]", "[unused7]", "x[SEP]y", "##ing", "##"] {
        assert_equal(special);
    }
}

#[test]
fn odd_texts_are_encoded_as_the_twin_does() {
    for text in [
        "",
        " \t\r\n\u{b}\u{c}\u{1c}\u{85}\u{a0}\u{2028}\u{3000}",
        "İstanbul ISTANBUL ıI ǅ ŉ ﬁn ẞ Straße ΌΔΟΣ ὈΔΥΣΣΕΎΣ ΣΑΣ",
        "naïve café cafe\u{301} ca\u{301}\u{323}fe A\u{30A} Å Ａｌｐｈａ",
        "中文字符 mixed中文and\u{F900}text\u{2F800}x 日本語テキスト ﾃｷｽﾄ パ",
        "שָׁלוֹם עולם (שלום) «עברית» مرحبا بالعالم السَّلَامُ हिन्दी में ไทย தமிழ்",
        "한국어 각\u{11A8} \u{1100}\u{1161}\u{11A8} 가\u{302E}",
        "👍🏽 👨‍👩‍👧‍👦 🇮🇱 ☎️ ©®™ → ✓ ── │ … “q” ‘q’ —–- （x） 【y】",
        "a\0b\u{FFFD}c\u{AD}d\u{200D}e\u{FEFF}f\u{E000}g\u{7F}h\u{85}i",
        "\0\0\0 \0 x\0 \0x é\0 \0é",
        "\u{1D15F}\u{1D165}\u{1D16E} \u{16FF0}\u{302F}\u{302E}\u{301} a\u{1D165}\u{F900}\u{302E}",
        "snake_case camelCase HTTPServer2 x86_64 0xDEADBEEF 3.14159 1e-9 a.b.c /usr/lib/x.so",
        "{\"k\": [1, 2, {\"x\": null}], \"path\": \"C:\\\\tmp\"}",
    ] {
        assert_equal(text);
        assert_equal(&text.repeat(40));
    }
}

#[test]
fn words_around_every_limit_of_length_are_encoded_as_the_twin_does() {
    for stem in ["a", "e5", "Un", "é", "ß", "\u{301}e", "한", "x\0", "Ж", "𝒳", "\u{302E}"] {
        let texts: Vec<String> = (0..=130).map(|length| stem.chars().cycle().take(length).collect()).collect();
        assert_all_equal(&texts);
        assert_all_equal(&texts.iter().map(|text| format!("({text}é! {text} {text}\u{1})")).collect::<Vec<_>>());
    }
}

#[test]
fn a_text_is_read_the_same_wherever_it_lies_in_a_longer_one() {
    let text = "The café's unbelievable HTTP2Server_x, 中文!";
    for before in 0..40 {
        for after in 0..20 {
            assert_equal(&format!("{}{text}{}", " ".repeat(before), ".".repeat(after)));
        }
    }
}

#[test]
fn a_large_mixed_corpus_is_encoded_as_the_twin_does() {
    let some = sources().into_iter().step_by(if deep() { 1 } else { 8 });
    let mut texts: Vec<String> = some.map(|path| fs::read_to_string(path).unwrap()).collect();
    texts.extend(scripts());
    assert!(texts.iter().map(String::len).sum::<usize>() > 500_000);
    for text in &texts {
        assert_equal(text);
        assert_equal(&text.to_uppercase());
        assert_equal(&format!("{text:?}"));
    }
}

/// The crate's own files.
fn sources() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let extension = path.extension().unwrap_or_default();
            if path.is_dir() {
                walk(&path, found);
            } else if ["rs", "toml", "txt", "md"].iter().any(|&wanted| wanted == extension) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new(env!("CARGO_MANIFEST_DIR")), &mut found);
    found.sort();
    found
}

/// A text for each script: its characters as words of many lengths, in an order that a fixed generator gives.
fn scripts() -> Vec<String> {
    let ranges = [
        0x20..0x250,
        0x300..0x370,
        0x370..0x400,
        0x400..0x530,
        0x590..0x600,
        0x600..0x780,
        0x900..0xE80,
        0xF00..0x1100,
        0x1100..0x1200,
        0x1E00..0x2000,
        0x2000..0x2C00,
        0x3000..0x3400,
        0x4E00..0x5200,
        0xAC00..0xB000,
        0xF900..0x10000,
        0x1D100..0x1D800,
        0x1F300..0x1FB00,
        0x2F800..0x2FA20,
    ];
    let mut state = 1u32;
    let mut below = move |limit: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % limit
    };
    let mut texts = Vec::new();
    for range in ranges {
        let mut text = String::new();
        for _ in 0..2_000 {
            for _ in 0..=below(9) {
                text.extend(char::from_u32(range.start + below(range.end - range.start)));
            }
            text.push_str([" ", "\n", ", ", "(", "_", " the ", "s ", "\u{a0}"][below(8) as usize]);
        }
        texts.push(text);
    }
    texts
}

/// Bits of text: what agents read and write, and what tokenizers get wrong.
fn fragment() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z]{1,12}",
        2 => "[a-z]{1,8}(_[a-z]{1,8}){0,3}",
        2 => "[A-Z][a-z]{2,6}([A-Z][a-z]{2,6}){0,3}\\(",
        2 => "[0-9a-f]{1,40}",
        1 => "[a-z0-9]{96,104}",
        1 => "[a-zé한]{90,104}",
        2 => "[!-/:-@\\[-`{-~]{1,6}",
        3 => "[ \\t\\r\\n]{1,9}",
        1 => "[\\x00-\\x1f\\x7f-\\u{a0}]{1,3}",
        1 => "[\\u{fffd}\\u{200b}-\\u{200f}\\u{e000}\\u{feff}]{1,3}",
        2 => "[À-ɏ]{1,9}",
        2 => "[\\u{300}-\\u{36f}\\u{591}-\\u{5c7}\\u{302a}-\\u{302f}\\u{1d165}-\\u{1d172}]{1,4}",
        1 => "[α-ωΑ-Ωά-ώ]{1,9}",
        1 => "[а-яА-Я]{1,12}",
        1 => "[א-ת]{1,9}",
        1 => "[一-龥ぁ-んァ-ン]{1,9}",
        1 => "[가-힣]{1,5}",
        1 => "[\\u{2000}-\\u{2bff}]{1,4}",
        1 => "[\\u{1f300}-\\u{1faff}]{1,3}",
        1 => any::<char>().prop_map(String::from),
        1 => any::<String>(),
        1 => proptest::sample::select(VOCAB.lines().collect::<Vec<_>>()).prop_map(String::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if deep() { 4_096 } else { 512 }))]

    #[test]
    fn any_text_is_encoded_as_the_twin_does(fragments in prop::collection::vec(fragment(), 0..24)) {
        let text = fragments.concat();
        prop_assert_eq!(ids(&text), twin_ids(&text), "{:?}", text);
    }

    #[test]
    fn any_vocabulary_is_used_as_the_twin_uses_it(
        tokens in prop::collection::btree_set("(##)?[abé漢!#]{1,4}", 0..40),
        text in "[abcABé漢!# \\u{301}]{0,40}",
    ) {
        let vocab: String = tokens.iter().map(|token| format!("{token}\n")).chain(["[UNK]\n".into()]).collect();
        let mut ids = Vec::new();
        WordPiece::from_vocab(&vocab).unwrap().encode_into(&text, &mut ids);
        let encoding = twin(&vocab).encode_fast(text.as_str(), false).unwrap();
        prop_assert_eq!(ids.into_iter().map(u32::from).collect::<Vec<_>>(), encoding.get_ids(), "{}", vocab);
    }
}

#[test]
fn ids_are_appended_to_what_is_there() {
    let mut ids = vec![9, 9];
    FAST.encode_into("hello", &mut ids);
    assert_eq!(ids, [9, 9, 7592]);
}

#[test]
fn the_vocabulary_has_as_many_tokens_as_its_file_has_lines() {
    assert_eq!(FAST.vocab_size(), 30_522);
}

#[test]
fn threads_that_share_tokenizers_do_not_disturb_each_other() {
    let other = WordPiece::from_vocab("[UNK]\nhello\n##lo\nhel\n").unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(ids("hello Hello"), [7592, 7592]);
                    let mut ids = Vec::new();
                    other.encode_into("hello hello world", &mut ids);
                    assert_eq!(ids, [1, 1, 0]);
                }
            });
        }
    });
}

#[test]
fn a_bad_vocabulary_is_refused_with_its_line() {
    let message = |vocab: &str| WordPiece::from_vocab(vocab).err().expect("refused").to_string();
    assert!(message("a\nb\n").contains("[UNK]"));
    assert!(message("").contains("[UNK]"));
    assert!(message("[UNK]\na\n##b\na\n").contains("line 4: token \"a\" is on line 2 already"));
    assert!(message("[UNK]\n##b\nb\n##b\n").contains("line 4: token \"##b\" is on line 2 already"));
    assert!(message("[UNK]\n\na\n").contains("line 2 is empty"));
    let tokens = |count: u32| (0..count).map(|n| format!("t{n}\n")).chain(["[UNK]\n".into()]).collect::<String>();
    assert!(message(&tokens(65_535)).contains("line 65536: more than 65535 tokens"));
    assert_eq!(WordPiece::from_vocab(&tokens(65_534)).unwrap().vocab_size(), 65_535);
}
