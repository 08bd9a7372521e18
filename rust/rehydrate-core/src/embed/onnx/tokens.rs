//! Texts to token ids through the `tokenizers` crate: cut before, special tokens as plain text, panics as errors.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tokenizers::{TruncationDirection, TruncationParams, TruncationStrategy};

use super::growth;
use crate::error::{Error, Result};

/// Bytes per token that are read at first. Enough for prose and code in one reading.
const BYTES_PER_TOKEN: usize = 8;

/// Bytes per token that are read at most, if a text is nearly all white space.
const MAX_BYTES_PER_TOKEN: usize = 512;

/// The distance before the cut within which white space is looked for, so that no word is cut in two.
const WORD_BYTES: usize = 128;

/// A `tokenizer.json`.
#[derive(Debug)]
pub struct Tokenizer {
    tokenizer: tokenizers::Tokenizer,
    path: PathBuf,
    max_tokens: usize,
    /// Tokens that every text gets: `[CLS]` and `[SEP]`.
    added: usize,
}

impl Tokenizer {
    /// Read a `tokenizer.json`. Its truncation and padding are ignored.
    pub fn load(path: &Path, max_tokens: usize) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| unusable(path, &error.to_string()))?;
        growth::check(path, &bytes)?;
        // The crate panics on some crafted files.
        let read = catch_unwind(|| tokenizers::Tokenizer::from_bytes(&bytes)).map_err(|_| unusable(path, PANICKED))?;
        let mut tokenizer = read.map_err(|error| unusable(path, &error.to_string()))?;
        let added = tokenizer.get_post_processor().map_or(0, |after| {
            use tokenizers::PostProcessor as _;
            after.added_tokens(false)
        });
        if max_tokens <= added {
            return Err(Error::Argument(format!(
                "max_tokens is {max_tokens}, with {added} special tokens in each text"
            )));
        }
        tokenizer.set_encode_special_tokens(true);
        tokenizer.with_padding(None);
        let truncation = TruncationParams {
            direction: TruncationDirection::Right,
            max_length: max_tokens,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        tokenizer.with_truncation(Some(truncation)).map_err(|error| unusable(path, &error.to_string()))?;
        Ok(Self { tokenizer, path: path.to_owned(), max_tokens, added })
    }

    /// The first `max_tokens` ids of a text, special ones included; none for a text without a token of its own.
    pub fn ids(&self, text: &str) -> Result<Vec<i64>> {
        // The crate encodes a whole text before it truncates: a megabyte would cost a second for 256 tokens.
        let mut bytes = self.max_tokens * BYTES_PER_TOKEN;
        loop {
            let head = cut(text, bytes);
            let ids = self.encode(head)?;
            let enough = ids.len() >= self.max_tokens || head.len() == text.len();
            if enough || bytes >= self.max_tokens * MAX_BYTES_PER_TOKEN {
                return Ok(if ids.len() > self.added { ids } else { Vec::new() });
            }
            bytes *= 4;
        }
    }

    fn encode(&self, text: &str) -> Result<Vec<i64>> {
        let encoded = catch_unwind(AssertUnwindSafe(|| self.tokenizer.encode_fast(text, true)));
        let encoding = encoded
            .map_err(|_| unusable(&self.path, PANICKED))?
            .map_err(|error| unusable(&self.path, &error.to_string()))?;
        Ok(encoding.get_ids().iter().map(|&id| i64::from(id)).collect())
    }
}

const PANICKED: &str = "the tokenizers crate panicked on it";

fn unusable(path: &Path, problem: &str) -> Error {
    Error::ModelFile {
        path: path.display().to_string(),
        problem: format!("cannot be used as a tokenizer: {problem}"),
        remedy: "get the model's tokenizer.json again".into(),
    }
}

/// At most the first `bytes` of a text, up to a white space if one is near.
fn cut(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    let head = &text[..end];
    match head.rfind(char::is_whitespace) {
        Some(space) if space + WORD_BYTES >= end && space > 0 => &head[..space],
        _ => head,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r###"{
        "truncation": {"direction": "Left", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
                    "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": [
            {"id": 1, "content": "[CLS]", "single_word": false, "lstrip": false, "rstrip": false,
             "normalized": false, "special": true},
            {"id": 2, "content": "[SEP]", "single_word": false, "lstrip": false, "rstrip": false,
             "normalized": false, "special": true}],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                       "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100,
                  "vocab": {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3, "a": 4, "b": 5, "[": 6, "]": 7,
                            "sep": 8}}}"###;

    fn tokenizer(max_tokens: usize) -> Tokenizer {
        let file = std::env::temp_dir().join(format!("rehydrate-tokenizer-{}-{max_tokens}.json", std::process::id()));
        std::fs::write(&file, FILE).unwrap();
        let tokenizer = Tokenizer::load(&file, max_tokens);
        std::fs::remove_file(&file).unwrap();
        tokenizer.unwrap()
    }

    #[test]
    fn special_tokens_in_a_text_are_plain_text() {
        assert_eq!(tokenizer(10).ids("a [SEP] b").unwrap(), [1, 4, 6, 8, 7, 5, 2]);
    }

    #[test]
    fn a_text_is_cut_at_the_end_and_never_padded_whatever_the_file_says() {
        assert_eq!(tokenizer(5).ids("a b a b a b").unwrap(), [1, 4, 5, 4, 2]);
        assert_eq!(tokenizer(6).ids("a").unwrap(), [1, 4, 2]);
    }

    #[test]
    fn a_text_without_a_token_of_its_own_has_none() {
        for text in ["", " \n\t", "\u{0}\u{0}"] {
            assert!(tokenizer(7).ids(text).unwrap().is_empty(), "{text:?}");
        }
    }

    #[test]
    fn words_behind_much_white_space_are_found_and_a_sea_of_it_ends() {
        let far = format!("{}b", " ".repeat(2_000));
        assert_eq!(tokenizer(8).ids(&far).unwrap(), [1, 5, 2]);
        assert!(tokenizer(9).ids(&" ".repeat(1_000_000)).unwrap().is_empty());
    }

    #[test]
    fn a_cut_ends_at_a_space_if_one_is_near_and_never_inside_a_character() {
        assert_eq!(cut("one two three", 10), "one two");
        assert_eq!(cut("one", 10), "one");
        assert_eq!(cut("ééééé", 5), "éé");
        let word = "x".repeat(400);
        assert_eq!(cut(&format!("a {word}"), 300).len(), 300);
    }
}
