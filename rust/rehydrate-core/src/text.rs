//! What is derived from one text and cached by its content: token count, WordPiece bag, terms, features.
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use crate::blocks::{self, Division};
use crate::cache::{ContentHash, content_hash};
use crate::embed::builtin::{Bag, StaticModel};
use crate::features::{self, Mentions};
use crate::lexical::{self, Terms};
use crate::tokens::Counter;
use crate::unit::{Piece, PieceKind};

/// From this many distinct tokens on, a text's plain vector is cached: a kilobyte instead of adding as many rows again.
const LONG_TEXT_TOKENS: usize = 256;

/// Everything derived from one text, each part on first use.
#[derive(Default)]
pub struct TextAnalysis {
    counts: [OnceLock<u32>; 4],
    bag: OnceLock<Bag>,
    /// Sum of the bag's plain token vectors, kept for long texts only: there it saves the most and weighs the least.
    sum: OnceLock<Box<[f32]>>,
    terms: OnceLock<Terms>,
    mentions: OnceLock<Mentions>,
    division: OnceLock<Option<Arc<Division>>>,
}

impl TextAnalysis {
    /// What a cached analysis is charged for: its parts grow with the text, in measured proportion (DESIGN.md, caches).
    #[must_use]
    pub fn cost_bytes(text: &str) -> usize {
        256 + 2 * text.len()
    }

    /// Key of a piece: tool inputs are read as JSON, so the same text elsewhere is another key.
    #[must_use]
    pub fn key(piece: Piece<'_>) -> ContentHash {
        content_hash(piece.text, u64::from(piece.kind == PieceKind::ToolInput))
    }

    /// The counter's raw count of the text: words, characters or tokens.
    pub fn count(&self, piece: Piece<'_>, counter: Counter) -> u32 {
        *self.counts[counter as usize].get_or_init(|| counter.raw_count(piece.text))
    }

    /// The blocks of the text, if it is long enough to be divided.
    pub fn division(&self, text: &str) -> Option<Arc<Division>> {
        self.division.get_or_init(|| blocks::divide(text).map(Arc::new)).clone()
    }

    /// Derive what `needs` asks for and is not there yet.
    pub fn fill(&self, piece: Piece<'_>, needs: Needs) {
        if let Some(model) = needs.bags {
            self.bag.get_or_init(|| model.bag(&readable(piece)));
        }
        if needs.terms {
            self.terms.get_or_init(|| lexical::terms(&readable(piece)));
        }
        if needs.mentions {
            self.mentions.get_or_init(|| features::mentions(&readable(piece)));
        }
    }

    /// The WordPiece bag of the text, once it has been asked for.
    #[must_use]
    pub fn bag(&self) -> Option<&Bag> {
        self.bag.get()
    }

    /// Add the plain vectors of the text's tokens to `out`.
    pub fn add_to(&self, out: &mut [f32], model: &StaticModel) {
        let Some(bag) = self.bag.get() else { return };
        if bag.len() < LONG_TEXT_TOKENS {
            return model.add(bag, |_| 1.0, out);
        }
        let sum = self.sum.get_or_init(|| {
            let mut sum = vec![0.0; out.len()];
            model.add(bag, |_| 1.0, &mut sum);
            sum.into()
        });
        out.iter_mut().zip(sum).for_each(|(out, sum)| *out += sum);
    }

    /// The words of the text for BM25, once they have been asked for.
    #[must_use]
    pub fn terms(&self) -> Option<&Terms> {
        self.terms.get()
    }

    /// The names the text mentions, once they have been asked for.
    #[must_use]
    pub fn mentions(&self) -> Option<&Mentions> {
        self.mentions.get()
    }
}

/// Which derived parts a profile needs; the others are never computed.
#[derive(Clone, Copy, Default)]
pub struct Needs {
    /// WordPiece bags, for this model.
    pub bags: Option<&'static StaticModel>,
    /// Words, for BM25.
    pub terms: bool,
    /// Names, for coverage packing.
    pub mentions: bool,
}

/// The text with the escapes of a JSON tool input undone, so that `\nname` is read as a line break and `name`.
fn readable(piece: Piece<'_>) -> Cow<'_, str> {
    if piece.kind == PieceKind::ToolInput && piece.text.contains('\\') {
        Cow::Owned(unescape_json(piece.text))
    } else {
        Cow::Borrowed(piece.text)
    }
}

fn unescape_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (plain, length) = match after.as_bytes().first() {
            Some(b'n') => ('\n', 1),
            Some(b't') => ('\t', 1),
            Some(b'r') => ('\r', 1),
            Some(b'b' | b'f') => (' ', 1),
            Some(&quoted @ (b'"' | b'\\' | b'/')) => (char::from(quoted), 1),
            Some(b'u') => match after.get(1..5).and_then(|hex| u32::from_str_radix(hex, 16).ok()) {
                Some(code) => (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 5),
                None => ('\\', 0),
            },
            _ => ('\\', 0),
        };
        out.push(plain);
        rest = &after[length..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_a_tool_input_are_undone() {
        assert_eq!(unescape_json(r#"a\nb\t"c\" \\ \/ \u00e9 \ud800 \x \"#), "a\nb\t\"c\" \\ / é \u{FFFD} \\x \\");
    }

    #[test]
    fn only_tool_inputs_are_read_as_json() {
        let text = r"a\nb";
        let key = |kind| TextAnalysis::key(Piece { text, kind });
        assert_eq!(readable(Piece { text, kind: PieceKind::Text }), text);
        assert_eq!(readable(Piece { text, kind: PieceKind::ToolInput }), "a\nb");
        assert_ne!(key(PieceKind::Text), key(PieceKind::ToolInput));
        assert_eq!(key(PieceKind::Text), key(PieceKind::ToolResult));
    }
}
