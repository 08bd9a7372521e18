//! The tokens of pictures and documents, from the beginnings of their bytes.
//!
//! Nothing is decoded but the header. Where the size is unknown, as at an address, a medium counts [`UNSIZED_TOKENS`].
//!
//! Which model is asked is unknown here, so each rule is that of the provider's current models; older ones scale a
//! large picture down further, and bill less. Looked up on 2026-11-28, in part in what others wrote of the pages: an
//! estimate, as the tokens of a text by another model's vocabulary are.
//!
//! - Claude: a patch of 28 by 28 pixels is a token (its page); a picture is scaled down to 2,576 pixels a side and 4,784
//!   tokens (libraries that count for it), with models before Opus 4.7 to 1,568 of each. A PDF of three pages is about
//!   7,000 tokens; requests that others counted had 2,324 to 2,481 a page of text.
//!   <https://platform.claude.com/docs/en/build-with-claude/vision>,
//!   <https://platform.claude.com/docs/en/build-with-claude/pdf-support>
//! - OpenAI: a patch of 32 by 32 pixels is 1.2 tokens. `low` is at most 512 pixels a side, `high` at most 2,500 patches,
//!   `original` is not scaled, and a request that says nothing, or `auto`, means `original`. By libraries that count for
//!   it, and counted requests of GPT-5.5 and GPT-6. <https://developers.openai.com/api/docs/guides/images-vision>
//! - Gemini 3 and 4: 1,120 tokens for a picture of any size and 560 for a page, less or more by `mediaResolution`; counted
//!   requests had 1,065 to 1,101, and 561. <https://ai.google.dev/gemini-api/docs/media-resolution>

use crate::redact::base64;

/// The tokens of a medium whose size is unknown: a little more than Claude's models before Opus 4.7 bill for any picture.
pub const UNSIZED_TOKENS: u32 = 1_600;
/// The pages of the longest PDF that a provider takes (Gemini). One that claims more is wrong.
const MOST_PAGES: u32 = 1_000;
/// Claude's, and for want of a figure OpenAI's: each sends the text of a page and a picture of it.
const PAGE_TOKENS: u32 = 2_334;
/// Bytes at each end of a PDF in which the number of its pages is looked for.
const PDF_WINDOW: usize = 16_384;
/// Bytes in which the first break of a line is looked for: the longest line of a mail.
const LONGEST_LINE: usize = 1_000;
/// Segments of a JPEG before its size.
const MOST_SEGMENTS: usize = 256;

/// A provider's way of counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vision {
    /// Also for a list that may go to any provider: of pictures that nobody scales down it is the most.
    #[default]
    Claude,
    OpenAi,
    Gemini,
}

impl Vision {
    /// The way of the provider whose format this is.
    #[must_use]
    pub fn of_format(format: &str) -> Self {
        match format {
            "openai_chat" | "openai_responses" | "codex" => Self::OpenAi,
            "gemini" => Self::Gemini,
            _ => Self::Claude,
        }
    }
}

/// How closely a picture is to be looked at, where a request says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    #[default]
    Unsaid,
    Low,
    Medium,
    High,
    UltraHigh,
}

impl Detail {
    /// The detail of this name: OpenAI's `low`, Gemini's `MEDIA_RESOLUTION_LOW`.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        match name.strip_prefix("media_resolution_").unwrap_or(&name) {
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            "ultra_high" => Self::UltraHigh,
            _ => Self::Unsaid,
        }
    }
}

/// What the bytes of a medium say about its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Pixels(u32, u32),
    Pages(u32),
}

impl Size {
    /// The tokens of a medium of this size.
    #[must_use]
    pub fn tokens(self, vision: Vision, detail: Detail) -> u32 {
        match (self, vision) {
            (Self::Pixels(..), Vision::Gemini) => gemini_tokens(detail),
            (Self::Pixels(width, height), Vision::Claude) => claude_tokens(width.max(1), height.max(1)),
            (Self::Pixels(width, height), Vision::OpenAi) => openai_tokens(width.max(1), height.max(1), detail),
            (Self::Pages(pages), Vision::Gemini) => {
                pages * if detail == Detail::Unsaid { 560 } else { gemini_tokens(detail) }
            }
            (Self::Pages(pages), _) => pages * PAGE_TOKENS,
        }
    }
}

/// The tokens of a picture for Gemini, whatever its size.
#[must_use]
pub fn gemini_tokens(detail: Detail) -> u32 {
    match detail {
        Detail::Low => 280,
        Detail::Medium => 560,
        Detail::Unsaid | Detail::High => 1_120,
        Detail::UltraHigh => 2_240,
    }
}

fn claude_tokens(width: u32, height: u32) -> u32 {
    const LONGEST_EDGE: f64 = 2_576.0;
    const MOST: u32 = 4_784;
    let patches = |scale: f64| patches(width, height, 28, scale);
    let of_edge = scale_to(LONGEST_EDGE, width.max(height));
    if patches(of_edge) <= MOST {
        return patches(of_edge);
    }
    // The largest scale that fits is found by halving.
    let (mut fits, mut too_large) = (0.0, of_edge);
    for _ in 0..24 {
        let middle = f64::midpoint(fits, too_large);
        if patches(middle) <= MOST { fits = middle } else { too_large = middle }
    }
    patches(fits)
}

fn openai_tokens(width: u32, height: u32, detail: Detail) -> u32 {
    const MOST: u32 = 2_500;
    /// 60 megapixels: a larger picture is refused (2026-10).
    const MOST_TAKEN: u32 = 60_000;
    let whole = patches(width, height, 32, 1.0);
    let patches = match detail {
        Detail::Low => patches(width, height, 32, scale_to(512.0, width.max(height))),
        Detail::High if whole > MOST => {
            let ratio = f64::from(width) / f64::from(height);
            let side = |ratio: f64| whole_number((f64::from(MOST) * ratio).sqrt().floor()).clamp(1, MOST);
            side(ratio) * side(1.0 / ratio)
        }
        _ => whole.min(MOST_TAKEN),
    };
    patches.saturating_mul(6).div_ceil(5)
}

fn scale_to(longest: f64, edge: u32) -> f64 {
    (longest / f64::from(edge)).min(1.0)
}

/// The patches with this edge that cover a picture at a scale.
fn patches(width: u32, height: u32, edge: u32, scale: f64) -> u32 {
    let along = |side: u32| whole_number((f64::from(side) * scale / f64::from(edge) - 1e-9).ceil()).max(1);
    along(width).saturating_mul(along(height))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a side of a picture is at most 2^32")]
fn whole_number(value: f64) -> u32 {
    value as u32
}

/// The bytes of a medium, as they are or in base64, of which only those are decoded that are asked for.
#[derive(Clone, Copy)]
pub enum Bytes<'a> {
    Raw(&'a [u8]),
    Base64(Lines<'a>),
}

/// Base64 in lines of one length, as mails have it, or in one line.
#[derive(Clone, Copy)]
pub struct Lines<'a> {
    text: &'a [u8],
    length: usize,
    /// The bytes between two lines.
    gap: usize,
}

impl<'a> Lines<'a> {
    fn of(text: &'a [u8]) -> Self {
        let text = text.trim_ascii();
        let start = &text[..text.len().min(LONGEST_LINE)];
        let length = start.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
        let gap = text[length..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        Self { text, length: length.max(1), gap }
    }

    /// The number of digits.
    fn len(self) -> usize {
        self.text.len() - self.text.len() / (self.length + self.gap) * self.gap
    }

    fn digit(self, number: usize) -> Option<u8> {
        let at = number + number / self.length * self.gap;
        self.text.get(at).copied().and_then(base64::digit)
    }
}

impl<'a> Bytes<'a> {
    /// The bytes in a text: base64, or a data URL of it. None for the address of something else.
    #[must_use]
    pub fn of_text(text: &'a str) -> Option<Self> {
        const LONGEST_HEADER: usize = 256;
        let bytes = text.as_bytes();
        if !bytes.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"data:")) {
            return Some(Self::Base64(Lines::of(bytes)));
        }
        let comma = bytes.iter().take(LONGEST_HEADER).position(|&byte| byte == b',')?;
        let is_base64 = bytes[..comma].to_ascii_lowercase().ends_with(b";base64");
        is_base64.then(|| Self::Base64(Lines::of(&bytes[comma + 1..])))
    }

    fn len(self) -> usize {
        match self {
            Self::Raw(bytes) => bytes.len(),
            Self::Base64(lines) => lines.len() / 4 * 3,
        }
    }

    /// The byte at a position; None after the end, and where it isn't base64.
    fn at(self, position: usize) -> Option<u8> {
        let lines = match self {
            Self::Raw(bytes) => return bytes.get(position).copied(),
            Self::Base64(lines) => lines,
        };
        let (first, within) = (position / 3 * 4, position % 3);
        let (high, low) = (lines.digit(first + within)?, lines.digit(first + within + 1)?);
        Some(match within {
            0 => (high << 2) | (low >> 4),
            1 => (high << 4) | (low >> 2),
            _ => (high << 6) | low,
        })
    }

    fn has(self, position: usize, expected: &[u8]) -> bool {
        expected.iter().enumerate().all(|(number, &byte)| self.at(position + number) == Some(byte))
    }

    /// The number in these bytes, the highest first.
    fn number(self, bytes: impl IntoIterator<Item = usize>) -> Option<u32> {
        bytes.into_iter().try_fold(0, |sum, at| Some((sum << 8) | u32::from(self.at(at)?)))
    }

    fn window(self, start: usize, end: usize) -> Vec<u8> {
        (start..end).map_while(|at| self.at(at)).collect()
    }

    /// The size of the picture or the document that these bytes are: PNG, JPEG, GIF, WebP, PDF. None for anything else.
    #[must_use]
    pub fn size(self) -> Option<Size> {
        let (width, height) = match self.at(0)? {
            0x89 if self.has(1, b"PNG\r\n\x1a\n") => (self.number(16..20)?, self.number(20..24)?),
            0xff if self.has(1, b"\xd8") => self.jpeg()?,
            b'G' if self.has(1, b"IF8") => (self.number([7, 6])?, self.number([9, 8])?),
            b'R' if self.has(1, b"IFF") && self.has(8, b"WEBPVP8") => self.webp()?,
            b'%' if self.has(1, b"PDF-") => return self.pages().map(Size::Pages),
            _ => return None,
        };
        (width > 0 && height > 0).then_some(Size::Pixels(width, height))
    }

    /// The size in the first frame header, after segments of any length.
    fn jpeg(self) -> Option<(u32, u32)> {
        let mut at = 2;
        for _ in 0..MOST_SEGMENTS {
            if self.at(at)? != 0xff {
                return None;
            }
            match self.at(at + 1)? {
                0xff => at += 1, // a fill byte
                0x01 | 0xd0..=0xd7 => at += 2,
                0xc4 | 0xc8 | 0xcc => at += 2 + self.number(at + 2..at + 4)? as usize,
                0xc0..=0xcf => return Some((self.number(at + 7..at + 9)?, self.number(at + 5..at + 7)?)),
                0xd8..=0xda => return None,
                _ => at += 2 + self.number(at + 2..at + 4)? as usize,
            }
        }
        None
    }

    fn webp(self) -> Option<(u32, u32)> {
        match self.at(15)? {
            b' ' => Some((self.number([27, 26])? & 0x3fff, self.number([29, 28])? & 0x3fff)),
            b'L' => {
                let bits = self.number([24, 23, 22, 21])?;
                Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
            }
            b'X' => Some((self.number([26, 25, 24])? + 1, self.number([29, 28, 27])? + 1)),
            _ => None,
        }
    }

    /// The pages that a PDF names near its beginning or its end: of a linearized one, or of the root of its page tree. The
    /// root may be elsewhere, or compressed.
    fn pages(self) -> Option<u32> {
        let end = self.len();
        let head = self.window(0, end.min(PDF_WINDOW));
        let linearized = memchr::memmem::find(&head[..head.len().min(1_024)], b"/Linearized");
        let linearized = linearized.and_then(|at| number_after(&head[at..], b"/N"));
        let tail = self.window(end.saturating_sub(PDF_WINDOW).max(head.len()), end + 3);
        let pages = linearized.or_else(|| [&head, &tail].into_iter().filter_map(|part| root_pages(part)).max());
        pages.map(|pages| pages.min(MOST_PAGES))
    }
}

/// The most pages that a node of the page tree in this text counts.
fn root_pages(text: &[u8]) -> Option<u32> {
    let counted = |at: usize| {
        let before = text[..at].trim_ascii_end();
        if !before.ends_with(b"/Type") {
            return None;
        }
        let start = memchr::memmem::rfind(before, b" obj").unwrap_or(0);
        let end = memchr::memmem::find(&text[at..], b"endobj").map_or(text.len(), |length| at + length);
        number_after(&text[start..end], b"/Count")
    };
    memchr::memmem::find_iter(text, b"/Pages").filter_map(counted).max()
}

/// The positive number right after a key. One at the very end of the text may be cut off: it isn't known.
fn number_after(text: &[u8], key: &[u8]) -> Option<u32> {
    memchr::memmem::find_iter(text, key).find_map(|at| {
        let rest = text[at + key.len()..].trim_ascii_start();
        let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        let number: u32 = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        (number > 0).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(width: u32, height: u32, vision: Vision, detail: Detail) -> u32 {
        Size::Pixels(width, height).tokens(vision, detail)
    }

    #[test]
    fn a_picture_counts_as_its_provider_bills_it() {
        // Counted requests of GPT-6, and of Claude 5.5 but for the last two, which it bills less (2026-10).
        for (width, height, claude, openai, high) in [
            (256, 256, 100, 77, 77),
            (512, 512, 361, 308, 308),
            (768, 768, 784, 692, 692),
            (1_024, 1_024, 1_369, 1_229, 1_229),
            (1_280, 720, 1_196, 1_104, 1_104),
            (1_920, 1_080, 2_691, 2_448, 2_448),
            (1_080, 1_920, 2_691, 2_448, 2_448),
            (2_560, 1_440, 4_784, 4_320, 2_931),
            (4_032, 3_024, 4_740, 14_364, 2_942),
        ] {
            assert_eq!(tokens(width, height, Vision::Claude, Detail::Unsaid), claude, "{width} x {height}");
            assert_eq!(tokens(width, height, Vision::OpenAi, Detail::Unsaid), openai, "{width} x {height}");
            assert_eq!(tokens(width, height, Vision::OpenAi, Detail::High), high, "{width} x {height}");
        }
        assert_eq!(tokens(4_032, 3_024, Vision::OpenAi, Detail::Low), 231);
        assert_eq!(tokens(1, 1, Vision::Claude, Detail::Unsaid), 1);
        for vision in [Vision::Claude, Vision::OpenAi, Vision::Gemini] {
            for detail in [Detail::Unsaid, Detail::Low, Detail::High] {
                assert!(tokens(u32::MAX, 1, vision, detail) > 0 && tokens(u32::MAX, u32::MAX, vision, detail) > 0);
            }
        }
    }

    #[test]
    fn no_picture_is_more_than_claude_bills_at_most() {
        for width in (1..9_000).step_by(97) {
            for height in (1..9_000).step_by(89) {
                let found = tokens(width, height, Vision::Claude, Detail::Unsaid);
                assert!(found <= 4_784, "{width} x {height}: {found}");
                if u64::from(width) * u64::from(height) > 16_000_000 && 2 * width.max(height) < 3 * width.min(height) {
                    assert!(found > 4_500, "{width} x {height}: {found}");
                }
            }
        }
    }

    #[test]
    fn geminis_count_by_resolution_alone() {
        assert_eq!(tokens(10, 10, Vision::Gemini, Detail::Unsaid), 1_120);
        assert_eq!(tokens(9_000, 10, Vision::Gemini, Detail::named("MEDIA_RESOLUTION_LOW")), 280);
        assert_eq!(Size::Pages(3).tokens(Vision::Gemini, Detail::Unsaid), 1_680);
        assert_eq!(Size::Pages(3).tokens(Vision::Claude, Detail::Unsaid), 7_002);
    }
}
