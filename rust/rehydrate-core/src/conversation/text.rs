//! The analysis of one text, cached by its content: token counts, WordPiece bag, terms, mentions.
use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;

use crate::analysis::directives;
use crate::analysis::features::{self, PackedMentions};
use crate::analysis::words::{self, PackedTerms};
use crate::cache::{Cached, ContentHash, content_hash};
use crate::conversation::unit::{Piece, PieceKind};
use crate::embed::Embedder;
use crate::embed::builtin::{PackedBag, StaticModel, pack_bag};
use crate::interrupt::Pace;
use crate::tokens::Counter;

/// From this many distinct tokens on, a text's plain vector is cached: a kilobyte instead of adding as many rows again.
const LONG_TEXT_TOKENS: usize = 256;

/// Everything derived from one text so far, in one allocation: ten thousand short texts would otherwise take more room
/// for pointers than for what they point to.
///
/// The first word is a bit set of the parts that are there. A word follows for each of them, in the order of
/// [`Section`]: a count itself, or the length in words of a section. Then come the sections, as their modules pack
/// them.
///
/// It never changes. If more of a text is needed, a new one takes over the present parts.
#[derive(Clone)]
pub struct TextAnalysis(Arc<[u32]>);

/// The sections of an analysis, by their bits.
#[derive(Clone, Copy, PartialEq)]
enum Section {
    Mentions = 8,
    Terms = 9,
    Bag = 10,
    /// Sum of the bag's plain token vectors, for long texts only: there it saves the most and weighs the least.
    Sum = 11,
    /// Strengths of directives, of what users say only.
    Directives = 12,
}

/// The bits under the sections', one a counter.
const COUNT_BITS: u32 = 0xFF;

const SECTIONS: [Section; 5] = [Section::Mentions, Section::Terms, Section::Bag, Section::Sum, Section::Directives];

impl TextAnalysis {
    /// Key of a piece: tool inputs are read as JSON, so the same text elsewhere is another key.
    #[must_use]
    pub fn key(piece: Piece<'_>) -> ContentHash {
        content_hash(piece.text, u64::from(piece.kind == PieceKind::ToolInput))
    }

    /// Derive the parts in `wanted` from `piece`, and take over those of `before`.
    #[must_use]
    pub fn derive(piece: Piece<'_>, wanted: &Wanted, before: Option<&Self>) -> Self {
        let mut present = before.map_or(0, |before| before.0[0]);
        let mut directory = vec![0];
        for &counter in Counter::ALL {
            let there = before.and_then(|before| before.count(counter));
            let count = there.or_else(|| (wanted.counter == Some(counter)).then(|| counter.raw_count(piece.text)));
            present |= u32::from(count.is_some()) << counter as u32;
            directory.extend(count);
        }
        let readable = readable(piece);
        let mut sections = Vec::new();
        for section in SECTIONS {
            let start = sections.len();
            if let Some(there) = before.and_then(|before| before.section(section)) {
                sections.extend_from_slice(there);
            } else if wanted.has(section) {
                match (section, wanted.needs.model) {
                    (Section::Mentions, _) => features::pack(&features::mentions(&readable), &mut sections),
                    (Section::Directives, _) => sections.extend(directives::strengths(&readable)),
                    (Section::Terms, _) => words::terms(&readable).pack(&mut sections),
                    (Section::Bag, Some(model)) => pack_bag(&model.bag(&readable), &mut sections),
                    (Section::Sum, Some(model)) => {
                        let bag =
                            before.and_then(Self::bag).map_or_else(|| model.bag(&readable), |bag| bag.iter().collect());
                        if bag.len() < LONG_TEXT_TOKENS {
                            continue;
                        }
                        sections.extend(plain_sum(model, bag.iter().copied()).into_iter().map(f32::to_bits));
                    }
                    _ => continue,
                }
            } else {
                continue;
            }
            present |= 1 << section as u32;
            directory.push(u32::try_from(sections.len() - start).expect("under 16 GiB"));
        }
        directory[0] = present;
        directory.append(&mut sections);
        Self(directory.into())
    }

    /// Whether all that `wanted` names is here.
    #[must_use]
    pub fn suffices(&self, wanted: &Wanted) -> bool {
        let missing = wanted.bits() & !self.0[0];
        // A short text has no sum of its own.
        let short = || self.bag().is_some_and(|bag| bag.len() < LONG_TEXT_TOKENS);
        missing == 0 || (missing == 1 << Section::Sum as u32 && short())
    }

    /// The counter's raw count of the text, once it has been asked for: words, characters or tokens.
    #[must_use]
    pub fn count(&self, counter: Counter) -> Option<u32> {
        let bit = 1 << counter as u32;
        (self.0[0] & bit != 0).then(|| self.0[1 + (self.0[0] & (bit - 1)).count_ones() as usize])
    }

    /// The WordPiece bag of the text, once it has been asked for.
    #[must_use]
    pub(crate) fn bag(&self) -> Option<PackedBag<'_>> {
        self.section(Section::Bag).map(PackedBag::read)
    }

    /// The words of the text for BM25, once they have been asked for.
    #[must_use]
    pub(crate) fn terms(&self) -> Option<PackedTerms<'_>> {
        self.section(Section::Terms).map(PackedTerms::read)
    }

    /// The names the text mentions, once they have been asked for.
    #[must_use]
    pub(crate) fn mentions(&self) -> Option<PackedMentions<'_>> {
        self.section(Section::Mentions).map(PackedMentions::read)
    }

    /// Read the beginning of each text. They are spread over memory, and none of these reads waits for another, as it
    /// does where what is read decides what comes next.
    pub(crate) fn look_at(texts: &[Self]) {
        black_box(texts.iter().fold(0, |seen, text| seen ^ text.0[0]));
    }

    /// The mentions in each of a few texts.
    pub(crate) fn mentions_of(texts: &[Self]) -> impl Iterator<Item = PackedMentions<'_>> {
        Self::look_at(texts);
        texts.iter().filter_map(Self::mentions)
    }

    /// The strengths of the directives in the text, once they have been asked for.
    #[must_use]
    pub(crate) fn directives(&self) -> Option<&[u32]> {
        self.section(Section::Directives)
    }

    /// Add the plain vectors of the text's tokens to `out`.
    pub(crate) fn add_to(&self, out: &mut [f32], model: &StaticModel) {
        if let Some(sum) = self.section(Section::Sum) {
            out.iter_mut().zip(sum).for_each(|(out, &sum)| *out += f32::from_bits(sum));
            return;
        }
        let Some(bag) = self.bag() else { return };
        if bag.len() < LONG_TEXT_TOKENS {
            return model.add(bag.iter(), |_| 1.0, out);
        }
        // In the form in which it would be cached, so that the cache changes no bit of the result.
        let sum = plain_sum(model, bag.iter());
        out.iter_mut().zip(sum).for_each(|(out, sum)| *out += sum);
    }

    fn section(&self, section: Section) -> Option<&[u32]> {
        let words = &*self.0;
        let (present, bit) = (words[0], 1 << section as u32);
        if present & bit == 0 {
            return None;
        }
        let counts = (present & COUNT_BITS).count_ones() as usize;
        let before = (present & (bit - 1)).count_ones() as usize;
        let entries = present.count_ones() as usize;
        let skipped: u32 = words[1 + counts..=before].iter().sum();
        let start = 1 + entries + skipped as usize;
        Some(&words[start..start + words[1 + before] as usize])
    }
}

impl Cached for TextAnalysis {
    fn held_bytes(&self) -> usize {
        // Two reference counts, and what an allocator adds: its own word, and rounding up to the next 16 bytes.
        (size_of_val(&*self.0) + 2 * size_of::<usize>() + size_of::<usize>()).next_multiple_of(16)
    }
}

/// The derived parts that a call needs. The others are never computed.
#[derive(Clone, Copy, Default)]
pub struct Needs {
    /// The static model that gives vectors, if any does.
    pub model: Option<&'static StaticModel>,
    /// WordPiece bags of all texts, for comparisons. Without this only the newest text is read, which shows whether the
    /// model works.
    pub bags: bool,
    /// Plain vectors, which are the same in every conversation.
    pub vectors: bool,
    /// Words, for BM25.
    pub terms: bool,
    /// Names, for coverage packing.
    pub mentions: bool,
}

/// The analysis that is wanted of one text.
#[derive(Clone, Copy, Default)]
pub struct Wanted {
    /// The count, unless the caller counts.
    pub counter: Option<Counter>,
    /// The derived parts.
    pub needs: Needs,
    /// Whether a user says it.
    pub is_users: bool,
}

impl Wanted {
    fn has(&self, section: Section) -> bool {
        self.bits() & 1 << section as u32 != 0
    }

    fn bits(&self) -> u32 {
        let needs = &self.needs;
        let with_model = |needed: bool| needed && needs.model.is_some();
        let directives = needs.mentions && self.is_users;
        let sections = [
            needs.mentions,
            needs.terms,
            with_model(needs.bags || needs.vectors),
            with_model(needs.vectors),
            directives,
        ];
        let count = self.counter.map_or(0, |counter| 1 << counter as u32);
        SECTIONS.iter().zip(sections).fold(count, |bits, (&section, wanted)| bits | u32::from(wanted) << section as u32)
    }
}

fn plain_sum(model: &StaticModel, bag: impl Iterator<Item = (u16, u16)>) -> Vec<f32> {
    let mut sum = vec![0.0; model.dim()];
    model.add(bag, |_| 1.0, &mut sum);
    sum
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
    let mut pace = Pace::default();
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
        pace.step();
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
