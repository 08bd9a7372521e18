//! The growth of a text in a tokenizer, checked before it reads the text: a few replacements of replacements would take
//! all memory for a short one.
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};

/// The most characters that a tokenizer may make of one.
const MAX_GROWTH: f64 = 256.0;

/// Refuse a `tokenizer.json` that makes too much of a text. Anything that isn't a tokenizer passes: its reader reports
/// that.
///
/// # Errors
/// [`Error::ModelFile`].
pub fn check(path: &Path, content: &[u8]) -> Result<()> {
    let file: Value = serde_json::from_slice(content).unwrap_or_default();
    let growth =
        growth(&file["normalizer"]).zip(growth(&file["pre_tokenizer"])).map_or(1.0, |(one, other)| one * other);
    if growth <= MAX_GROWTH {
        return Ok(());
    }
    Err(Error::ModelFile {
        path: path.display().to_string(),
        problem: format!("makes up to {} characters of one; the limit is {MAX_GROWTH}", growth.round()),
        remedy: "get the model again, or make it in a checkout: python -m tools.convert".into(),
    })
}

/// The most characters that one may become in a step of a tokenizer and in the steps inside it. None if it isn't a
/// step.
fn growth(step: &Value) -> Option<f64> {
    if !step.is_object() {
        return Some(1.0);
    }
    let inside = ["normalizers", "pretokenizers"].map(|name| step[name].as_array());
    let mut product = 1.0;
    for step in inside.into_iter().flatten().flatten() {
        product *= growth(step)?;
    }
    let own = match step["type"].as_str().unwrap_or_default() {
        "Replace" => {
            let (replaced, content) = (length(&step["pattern"]["String"]).unwrap_or(0.0), length(&step["content"])?);
            // A regular expression may match between any two characters.
            if replaced > 0.0 { (content / replaced).max(1.0) } else { 1.0 + content }
        }
        "Prepend" => 1.0 + length(&step["prepend"])?,
        "Precompiled" => longest(&decoded(step["precompiled_charsmap"].as_str()?))?,
        _ => 1.0,
    };
    Some(product * own)
}

fn length(text: &Value) -> Option<f64> {
    Some(text.as_str()?.chars().count() as f64)
}

/// The longest text that `SentencePiece`'s table puts in place of a character.
fn longest(table: &[u8]) -> Option<f64> {
    let (trie, rest) = table.split_first_chunk()?;
    let texts = rest.get(u32::from_le_bytes(*trie) as usize..).unwrap_or_default();
    texts.split(|&byte| byte == 0).map(|text| text.len().max(1) as f64).reduce(f64::max)
}

/// The bytes of a text in base64. Other characters are skipped.
fn decoded(text: &str) -> Vec<u8> {
    let (mut out, mut bits, mut held) = (Vec::new(), 0, 0_u32);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth_of(step: &str) -> Option<f64> {
        growth(&serde_json::from_str(step).unwrap())
    }

    #[test]
    fn steps_inside_of_steps_multiply() {
        let twice = r#"{"type": "Replace", "pattern": {"String": "a"}, "content": "bb"}"#;
        let many = format!(r#"{{"type": "Sequence", "normalizers": [{}]}}"#, [twice; 9].join(","));
        assert_eq!((growth_of(twice), growth_of(&many)), (Some(2.0), Some(512.0)));
        let file = |step: &str| format!(r#"{{"normalizer": {step}, "pre_tokenizer": null}}"#);
        let path = Path::new("tokenizer.json");
        assert!(check(path, file(twice).as_bytes()).is_ok());
        let error = check(path, file(&many).as_bytes()).unwrap_err().to_string();
        assert!(error.contains("makes up to 512 characters of one; the limit is 256"), "{error}");
    }

    #[test]
    fn a_pattern_may_match_anywhere_and_a_prefix_adds() {
        assert_eq!(growth_of(r#"{"type": "Replace", "pattern": {"Regex": ""}, "content": "éé"}"#), Some(3.0));
        assert_eq!(growth_of(r#"{"type": "Prepend", "prepend": "_"}"#), Some(2.0));
        assert_eq!(growth_of(r#"{"type": "Lowercase"}"#), Some(1.0));
        assert_eq!(growth_of(r#"{"type": "Replace", "pattern": {"String": "abcd"}, "content": "e"}"#), Some(1.0));
    }

    #[test]
    fn a_table_says_what_it_puts_in_a_characters_place() {
        // Four bytes of a trie, then "abc" and "d".
        let table = r#"{"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAABhYmMAZAA="}"#;
        assert_eq!(growth_of(table), Some(3.0));
    }

    #[test]
    fn what_is_no_tokenizer_is_left_to_its_reader() {
        let path = Path::new("tokenizer.json");
        for odd in ["", "{", "[]", "7", r#"{"normalizer": {"type": "Prepend"}}"#, r#"{"normalizer": {"type": 3}}"#] {
            assert!(check(path, odd.as_bytes()).is_ok(), "{odd}");
        }
    }
}
