//! The splitters: the end of the next piece of a text, as the encodings' patterns would match it.
//!
//! Each splitter has two halves: one over ASCII bytes, which gives up as soon as it meets a wider character, and one
//! over characters, which can do everything. The patterns are quoted where they are implemented; `tests/tokens.rs`
//! holds both halves against the regular expressions themselves.

use crate::interrupt::Pace;

use super::class::{self, Class, HEAD, LETTER, MARK, NEWLINE, NUMBER, OF_BYTE, SPACE, TAIL, WIDE};

/// The end of the piece of o200k_base that starts at `start`. `start` must be before the end, at the end of a piece.
#[inline(always)]
pub fn o200k_base(text: &str, start: usize) -> usize {
    ascii::o200k_base(text.as_bytes(), start).unwrap_or_else(|| wide::o200k_base(text, start))
}

/// The end of the piece of cl100k_base that starts at `start`. `start` must be before the end, at the end of a piece.
#[inline(always)]
pub fn cl100k_base(text: &str, start: usize) -> usize {
    ascii::cl100k_base(text.as_bytes(), start).unwrap_or_else(|| wide::cl100k_base(text, start))
}

/// The length of a contraction: `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`. Ignoring case, `ſ` is an `s` too.
#[inline]
fn contraction(bytes: &[u8], start: usize) -> usize {
    if bytes.get(start) != Some(&b'\'') {
        return 0;
    }
    match bytes[start + 1..] {
        [b's' | b'S' | b't' | b'T' | b'm' | b'M' | b'd' | b'D', ..] => 2,
        [b'r' | b'R' | b'v' | b'V', b'e' | b'E', ..] | [b'l' | b'L', b'l' | b'L', ..] => 3,
        [0xc5, 0xbf, ..] => 3,
        _ => 0,
    }
}

/// The half that knows ASCII only. `None`: a wider character decides.
mod ascii {
    use super::*;

    #[inline(always)]
    pub fn o200k_base(bytes: &[u8], start: usize) -> Option<usize> {
        let first = class_at(bytes, start);
        if first & LETTER != 0 {
            return o200k_word(bytes, start);
        }
        let second = class_at(bytes, start + 1);
        if (first & (NEWLINE | NUMBER | WIDE) == 0) && second & LETTER != 0 {
            return o200k_word(bytes, start + 1);
        }
        rest(bytes, start, first, second, |byte| matches!(byte, b'\r' | b'\n' | b'/'))
    }

    #[inline(always)]
    pub fn cl100k_base(bytes: &[u8], start: usize) -> Option<usize> {
        let first = class_at(bytes, start);
        if first & LETTER != 0 {
            return cl100k_word(bytes, start);
        }
        let second = class_at(bytes, start + 1);
        if (first & (NEWLINE | NUMBER | WIDE) == 0) && second & LETTER != 0 {
            return match contraction(bytes, start) {
                0 => cl100k_word(bytes, start + 1),
                len => Some(start + len),
            };
        }
        rest(bytes, start, first, second, |byte| matches!(byte, b'\r' | b'\n'))
    }

    /// A run of capitals, then a run of small letters, then a contraction. ASCII has no letter that is both.
    #[inline(always)]
    fn o200k_word(bytes: &[u8], start: usize) -> Option<usize> {
        let mut end = start;
        while class_at(bytes, end) & HEAD != 0 {
            end += 1;
        }
        end = small_letters(bytes, end);
        match byte_at(bytes, end) {
            b'\'' => Some(end + contraction(bytes, end)),
            0x80.. => None,
            _ => Some(end),
        }
    }

    #[inline(always)]
    fn cl100k_word(bytes: &[u8], start: usize) -> Option<usize> {
        let end = letters(bytes, start);
        (byte_at(bytes, end) < 0x80).then_some(end)
    }

    /// Rules that the two encodings share: numbers, runs of other characters, white space.
    #[inline(always)]
    fn rest(bytes: &[u8], start: usize, first: Class, second: Class, trails: impl Fn(u8) -> bool) -> Option<usize> {
        if (first | second) & WIDE != 0 {
            None
        } else if first & NUMBER != 0 {
            number(bytes, start, second)
        } else if first & SPACE == 0
            || bytes[start] == b' ' && second & (SPACE | NUMBER) == 0 && start + 1 < bytes.len()
        {
            others(bytes, start + 1, trails)
        } else {
            space(bytes, start)
        }
    }

    /// `\p{N}{1,3}`
    #[inline(always)]
    fn number(bytes: &[u8], start: usize, second: Class) -> Option<usize> {
        if second & NUMBER == 0 {
            return Some(start + 1);
        }
        let third = class_at(bytes, start + 2);
        if third & WIDE != 0 {
            return None;
        }
        Some(start + 2 + usize::from(third & NUMBER != 0))
    }

    /// `[^\s\p{L}\p{N}]*[\r\n/]*`
    #[inline(always)]
    fn others(bytes: &[u8], start: usize, trails: impl Fn(u8) -> bool) -> Option<usize> {
        let mut end = start;
        while end < bytes.len() && OF_BYTE[usize::from(bytes[end])] == 0 {
            end += 1;
        }
        if byte_at(bytes, end) >= 0x80 {
            return None;
        }
        while end < bytes.len() && trails(bytes[end]) {
            end += 1;
        }
        Some(end)
    }

    /// `\s*[\r\n]+|\s+(?!\S)|\s+`
    #[inline(always)]
    fn space(bytes: &[u8], start: usize) -> Option<usize> {
        let mut end = start;
        let mut after_newline = start;
        loop {
            end = spaces(bytes, end);
            let class = class_at(bytes, end);
            if class & SPACE == 0 {
                if class & WIDE != 0 {
                    return None;
                }
                break;
            }
            end += 1;
            if class & NEWLINE != 0 {
                after_newline = end;
            }
        }
        Some(if after_newline > start {
            after_newline
        } else if end == bytes.len() || end == start + 1 {
            end
        } else {
            end - 1
        })
    }

    /// The end of a run of `a` to `z`.
    #[inline(always)]
    fn small_letters(bytes: &[u8], start: usize) -> usize {
        run(bytes, start, |chunk| outside(chunk, b'a', b'z'), |byte| byte.is_ascii_lowercase())
    }

    /// The end of a run of `a` to `z` and `A` to `Z`.
    #[inline(always)]
    fn letters(bytes: &[u8], start: usize) -> usize {
        run(bytes, start, |chunk| outside(chunk | (EACH * 0x20), b'a', b'z'), |byte| byte.is_ascii_alphabetic())
    }

    /// The end of a run of blanks.
    #[inline(always)]
    fn spaces(bytes: &[u8], start: usize) -> usize {
        run(bytes, start, |chunk| outside(chunk, b' ', b' '), |byte| byte == b' ')
    }

    const EACH: u64 = 0x0101_0101_0101_0101;

    /// The end of a run, eight bytes at a time. `outside` sets the high bit of each byte that ends it.
    #[inline(always)]
    fn run(bytes: &[u8], mut end: usize, outside: impl Fn(u64) -> u64, inside: impl Fn(u8) -> bool) -> usize {
        while let Some(chunk) = bytes.get(end..end + 8) {
            let outside = outside(u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
            if outside != 0 {
                return end + outside.trailing_zeros() as usize / 8;
            }
            end += 8;
        }
        while end < bytes.len() && inside(bytes[end]) {
            end += 1;
        }
        end
    }

    /// The high bit of each byte that is not within `low..=high`, both ASCII.
    #[inline(always)]
    fn outside(chunk: u64, low: u8, high: u8) -> u64 {
        let seven = chunk & (EACH * 0x7f);
        let reaches_low = seven + EACH * u64::from(0x80 - low);
        let passes_high = seven + EACH * u64::from(0x7f - high);
        (chunk | passes_high | !reaches_low) & (EACH * 0x80)
    }

    /// The byte at a place. After the end 0, which ends every run but that of other characters.
    #[inline(always)]
    fn byte_at(bytes: &[u8], at: usize) -> u8 {
        bytes.get(at).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn class_at(bytes: &[u8], at: usize) -> Class {
        OF_BYTE[usize::from(byte_at(bytes, at))]
    }
}

/// The half that knows every character.
mod wide {
    use super::*;

    #[cold]
    #[inline(never)]
    pub fn o200k_base(text: &str, start: usize) -> usize {
        let (first, second_at) = next(text, start).expect("before the end");
        let word_end = match first {
            // A mark may be the sign before a word as well as the first character of one.
            _ if first & MARK != 0 => o200k_small_word(text, second_at).or_else(|| o200k_small_word(text, start)),
            _ if first & LETTER != 0 => o200k_word(text, start),
            _ if first & (NEWLINE | NUMBER) != 0 => None,
            _ => o200k_word(text, second_at),
        };
        match word_end {
            Some(end) => end + contraction(text.as_bytes(), end),
            None => rest(text, start, &['\r', '\n', '/']),
        }
    }

    #[cold]
    #[inline(never)]
    pub fn cl100k_base(text: &str, start: usize) -> usize {
        let (first, second_at) = next(text, start).expect("before the end");
        let word_start = if first & LETTER != 0 { start } else { second_at };
        let word_end = run(text, word_start, |class| class & LETTER != 0);
        match contraction(text.as_bytes(), start) {
            0 if first & (NEWLINE | NUMBER) == 0 && word_end > word_start => word_end,
            0 => rest(text, start, &['\r', '\n']),
            len => start + len,
        }
    }

    fn o200k_word(text: &str, start: usize) -> Option<usize> {
        o200k_small_word(text, start).or_else(|| {
            let end = run(text, start, |class| class & HEAD != 0);
            (end > start).then_some(end)
        })
    }

    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
    ///
    /// The first run is greedy. If nothing is left for the second, the first gives back as much as the second needs:
    /// down to the last character that may be in either.
    fn o200k_small_word(text: &str, start: usize) -> Option<usize> {
        let mut after_either = None;
        let mut end = start;
        let mut pace = Pace::default();
        while let Some((class, after)) = next(text, end) {
            pace.step();
            if class & HEAD == 0 {
                break;
            }
            end = after;
            if class & TAIL != 0 {
                after_either = Some(end);
            }
        }
        let small_end = run(text, end, |class| class & TAIL != 0);
        if small_end > end { Some(small_end) } else { after_either }
    }

    /// Rules that the two encodings share: numbers, runs of other characters, white space.
    fn rest(text: &str, start: usize, trail: &[char]) -> usize {
        let (first, second_at) = next(text, start).expect("before the end");
        if first & NUMBER != 0 {
            // `\p{N}{1,3}`
            return text[start..]
                .char_indices()
                .take(3)
                .take_while(|&(_, c)| class::of(c) & NUMBER != 0)
                .last()
                .map_or(start, |(at, c)| start + at + c.len_utf8());
        }
        // ` ?[^\s\p{L}\p{N}]+[\r\n/]*`
        let others_start = if text.as_bytes()[start] == b' ' { second_at } else { start };
        let others_end = run(text, others_start, |class| class & (SPACE | LETTER | NUMBER) == 0);
        if others_end > others_start {
            return text.len() - text[others_end..].trim_start_matches(trail).len();
        }
        // `\s*[\r\n]+|\s+(?!\S)|\s+`
        let space_end = run(text, start, |class| class & SPACE != 0);
        let space = &text[start..space_end];
        if let Some(newline) = space.rfind(['\r', '\n']) {
            return start + newline + 1;
        }
        let last = space.chars().next_back().map_or(0, char::len_utf8);
        if space_end == text.len() || last == space.len() { space_end } else { space_end - last }
    }

    fn run(text: &str, start: usize, inside: impl Fn(Class) -> bool) -> usize {
        let mut end = start;
        let mut pace = Pace::default();
        while let Some((class, after)) = next(text, end)
            && inside(class)
        {
            pace.step();
            end = after;
        }
        end
    }

    /// The class of the character at a place, and the start of the next one.
    #[inline]
    fn next(text: &str, at: usize) -> Option<(Class, usize)> {
        let character = text[at..].chars().next()?;
        Some((class::of(character), at + character.len_utf8()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Cuts a text with a splitter and with the regular expressions and compares the pieces.
    fn assert_pieces(text: &str) {
        assert_cut(text, o200k_base, bpe_openai::o200k_base());
        assert_cut(text, cl100k_base, bpe_openai::cl100k_base());
    }

    fn assert_cut(text: &str, piece_end: impl Fn(&str, usize) -> usize, reference: &bpe_openai::Tokenizer) {
        let mut start = 0;
        for piece in reference.split(text) {
            let end = piece_end(text, start);
            assert_eq!(text.get(start..end), Some(piece), "in {text:?} at {start}");
            start = end;
        }
        assert_eq!(start, text.len(), "in {text:?}");
    }

    #[test]
    fn every_character_splits_like_the_patterns_in_every_neighbourhood() {
        let deep = crate::depth::deep();
        for c in char::MIN..=char::MAX {
            // Beyond the first two planes there are ideographs, tags and nothing. Every ideograph is still tried, but
            // its neighbours only on a sample, and of unassigned characters only a sample. If CI does not ask for more,
            // a sample of the characters beyond the scripts of words is enough too.
            let tried = u32::from(c) % 64 == 0 || ('\u{E0000}'..'\u{E0200}').contains(&c);
            if (c >= '\u{40000}' || (c >= '\u{3400}' && !deep)) && !tried {
                continue;
            }
            if c < '\u{20000}' || tried {
                assert_pieces(&format!(
                    "{c}a{c}A{c}Ab{c} {c}  {c} x{c}\n{c}\r\n {c}1{c}23.{c}/'{c}x'{c}S{c}'s{c}{c}A {c}{c}"
                ));
            }
            assert_pieces(&format!("{c}a"));
            assert_pieces(&format!("{c}\n"));
            assert_pieces(&format!(" \t{c}"));
        }
    }

    #[test]
    fn a_text_may_end_anywhere() {
        let text = "It's  HTTPServer's 12345 ...\r\n\t foo'LL \u{301}a ǅ日本٣٤٥٦\u{2003}\u{a0}x//\n\n  ";
        for (start, _) in text.char_indices() {
            for (end, _) in text.char_indices().skip_while(|&(at, _)| at < start) {
                assert_pieces(&text[start..end]);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

        #[test]
        fn any_mix_of_classes_splits_like_the_patterns(
            parts in prop::collection::vec(
                prop_oneof![
                    8 => prop::sample::select(vec![
                        "'", "'s", "'S", "'ſ", "'t", "'rE", "'Ve", "'M", "'ll", "'lL", "'l", "'D", "K", "ſ", " ", "  ", "\t",
                        "\n", "\r", "\r\n", "/", "//", ".", "(", "\0", "a", "bcdefghij", "A", "BC", "0", "12", "3456", "\u{301}",
                        "\u{903}", "ǅ", "ʰ", "é", "É", "日", "本語", "٣", "ⅷ", "½", "🤖", "\u{200d}", "\u{a0}", "\u{85}",
                        "\u{2028}", "\u{3000}", "\u{1c}", "\u{ad}", "_", "-----", "\"", "  \n", "\n  ", "x'", "X's",
                    ]).prop_map(str::to_owned),
                    1 => any::<char>().prop_map(String::from),
                ],
                0..40,
            ),
        ) {
            assert_pieces(&parts.concat());
        }
    }
}
