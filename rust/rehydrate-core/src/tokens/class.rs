//! Character classes that the encodings' split patterns ask for.

use unicode_general_category::{GeneralCategory as Category, get_general_category};

/// A set of properties; a character has several.
pub type Class = u8;

/// `\p{L}`.
pub const LETTER: Class = 1;
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`: the beginning of a word in o200k_base.
pub const HEAD: Class = 2;
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`: the continuation of a word in o200k_base.
pub const TAIL: Class = 4;
/// `\p{M}`.
pub const MARK: Class = 8;
/// `\p{N}`.
pub const NUMBER: Class = 16;
/// `\s`.
pub const SPACE: Class = 32;
/// `[\r\n]`.
pub const NEWLINE: Class = 64;
/// In [`OF_BYTE`]: the byte is part of a longer character, ask [`of`].
pub const WIDE: Class = 128;

/// The class of each ASCII character; [`WIDE`] for the other bytes.
pub static OF_BYTE: [Class; 256] = {
    let mut table = [WIDE; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = match byte as u8 {
            b'a'..=b'z' => LETTER | TAIL,
            b'A'..=b'Z' => LETTER | HEAD,
            b'0'..=b'9' => NUMBER,
            b'\r' | b'\n' => SPACE | NEWLINE,
            b'\t' | 0x0b | 0x0c | b' ' => SPACE,
            _ => 0,
        };
        byte += 1;
    }
    table
};

/// The class of a character.
#[inline]
pub fn of(character: char) -> Class {
    if character.is_ascii() {
        return OF_BYTE[character as usize];
    }
    match get_general_category(character) {
        Category::LowercaseLetter => LETTER | TAIL,
        Category::UppercaseLetter | Category::TitlecaseLetter => LETTER | HEAD,
        Category::ModifierLetter | Category::OtherLetter => LETTER | HEAD | TAIL,
        Category::NonspacingMark | Category::SpacingMark | Category::EnclosingMark => MARK | HEAD | TAIL,
        Category::DecimalNumber | Category::LetterNumber | Category::OtherNumber => NUMBER,
        _ if character.is_whitespace() => SPACE,
        _ => 0,
    }
}
