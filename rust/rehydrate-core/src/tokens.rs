//! Counting tokens: two estimates that cost next to nothing and the exact counts of two encodings.
//!
//! ```
//! use rehydrate_core::tokens::Counter;
//!
//! assert_eq!(Counter::Words.count("hello brave new world"), 6);
//! assert_eq!(Counter::from_name("chars"), Some(Counter::Chars));
//! ```

mod class;
mod encoding;
mod layout;
mod merge;
mod split;
mod vocabulary;

pub(crate) use encoding::HANDED;

use crate::interrupt::stretches;

/// A way to count the tokens of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// An estimate: 1.3 tokens a word.
    Words,
    /// An estimate: 3.5 characters a token.
    Chars,
    /// Exactly `o200k_base`, the encoding of GPT-4o and its successors.
    O200kBase,
    /// Exactly `cl100k_base`, the encoding of GPT-4 and GPT-3.5.
    Cl100kBase,
}

impl Counter {
    /// Every counter of this build.
    pub const ALL: &[Self] = &[Self::Words, Self::Chars, Self::O200kBase, Self::Cl100kBase];

    /// The name by which users choose it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Chars => "chars",
            Self::O200kBase => "o200k_base",
            Self::Cl100kBase => "cl100k_base",
        }
    }

    /// The counter of this name; `None` if this build has none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|counter| counter.name() == name)
    }

    /// The tokens of a text. Special tokens in it are plain text. Counts beyond `u32` saturate.
    #[must_use]
    pub fn count(self, text: &str) -> u32 {
        self.tokens_of(self.raw_count(text))
    }

    /// The raw count of one text, before it becomes tokens: words, characters, or tokens already.
    ///
    /// The raw counts of a message's parts are added up before [`Counter::tokens_of`] rounds them, once.
    #[must_use]
    pub fn raw_count(self, text: &str) -> u32 {
        saturate(match self {
            Self::Words => words(text),
            Self::Chars => chars(text),
            Self::O200kBase => encoding::o200k_base(text),
            Self::Cl100kBase => encoding::cl100k_base(text),
        })
    }

    /// The tokens that a sum of raw counts makes.
    #[must_use]
    pub fn tokens_of(self, raw_count: u32) -> u32 {
        match self {
            Self::Words => tokens_of_words(raw_count as usize),
            Self::Chars => tokens_of_chars(raw_count as usize),
            Self::O200kBase | Self::Cl100kBase => raw_count,
        }
    }
}

/// The words of a text: separated by white space, as Python's `str.split()` sees it.
#[must_use]
pub fn words(text: &str) -> usize {
    let is_blank = |c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c);
    stretches(text).map(|stretch| stretch.split(is_blank).filter(|word| !word.is_empty()).count()).sum()
}

/// The Unicode scalar values of a text.
#[must_use]
pub fn chars(text: &str) -> usize {
    text.chars().count()
}

/// `ceil(1.3 * words)`. A message's words are added up over its parts first.
#[must_use]
pub fn tokens_of_words(words: usize) -> u32 {
    saturate(words.saturating_mul(13).div_ceil(10))
}

/// `ceil(chars / 3.5)`. A message's characters are added up over its parts first.
#[must_use]
pub fn tokens_of_chars(chars: usize) -> u32 {
    saturate(chars.saturating_mul(2).div_ceil(7))
}

fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
