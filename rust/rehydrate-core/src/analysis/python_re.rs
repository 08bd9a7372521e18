//! Python's reading of characters and patterns, where Python's `str` and `re` set the rule.
use once_cell::race::OnceBox;
use regex::Regex;
use unicode_general_category::{GeneralCategory as Category, get_general_category};

/// Whether Python's `str.isspace` says so.
pub(crate) fn is_space(point: u32) -> bool {
    match point {
        0x1C..=0x1F => true,
        _ => char::from_u32(point).is_some_and(char::is_whitespace),
    }
}

/// Whether Python's `str.isalpha` says so: letters, no marks.
pub(crate) fn is_alpha(point: u32) -> bool {
    use Category::{LowercaseLetter, ModifierLetter, OtherLetter, TitlecaseLetter, UppercaseLetter};
    if point < 0x80 {
        return char::from_u32(point).is_some_and(|c| c.is_ascii_alphabetic());
    }
    matches!(category(point), Some(UppercaseLetter | LowercaseLetter | TitlecaseLetter | ModifierLetter | OtherLetter))
}

/// Whether `\w` of Python's `re` matches: letters, numbers, `_`; no marks.
pub(crate) fn is_word(point: u32) -> bool {
    use Category::{DecimalNumber, LetterNumber, OtherNumber};
    if point < 0x80 {
        return point == u32::from('_') || char::from_u32(point).is_some_and(|c| c.is_ascii_alphanumeric());
    }
    is_alpha(point) || matches!(category(point), Some(DecimalNumber | LetterNumber | OtherNumber))
}

/// The runs of `\w` in a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(u32::from(c))).filter(|word| !word.is_empty())
}

/// Whether `\d` of Python's `re` matches: a decimal digit of any script.
pub(crate) fn is_digit(point: u32) -> bool {
    if point < 0x80 {
        return (0x30..0x3A).contains(&point);
    }
    category(point) == Some(Category::DecimalNumber)
}

/// Whether a line ends there for Python's `str.splitlines`.
pub(crate) fn is_line_end(point: u32) -> bool {
    matches!(point, 0x0A..=0x0D | 0x1C..=0x1E | 0x85 | 0x2028 | 0x2029)
}

/// The lines of a text without their ends, as Python's `str.splitlines` finds them.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some(at) = rest.find(|c: char| is_line_end(u32::from(c))) else {
            found.push(rest);
            break;
        };
        found.push(&rest[..at]);
        let end = &rest[at..];
        let width = if end.starts_with("\r\n") { 2 } else { end.chars().next().map_or(0, char::len_utf8) };
        rest = &end[width..];
    }
    found
}

pub(crate) fn category(point: u32) -> Option<Category> {
    char::from_u32(point).map(get_general_category)
}

/// A regular expression whose classes are Python's: what matches in any case, or `exact`, of which one may be empty.
///
/// `«` and `»` are the boundaries of a word. They take the character next to the word along, so nothing has to look
/// around. Where case does not matter, Python takes both Turkish letters for an i.
pub(crate) fn compiled(any_case: &str, exact: &str) -> Regex {
    let any_case = any_case.replace('i', "[iİı]").replace("(?-[iİı]:", "(?-i:");
    let source = match (any_case.as_str(), exact) {
        ("", exact) => exact.to_owned(),
        (any_case, "") => format!("(?i:{any_case})"),
        (any_case, exact) => format!("(?i:{any_case})|{exact}"),
    };
    let source = source
        .replace('«', r"(?:^|(?-i:\W))")
        .replace('»', r"(?:$|(?-i:\W))")
        .replace(r"\W", r"[^\w]")
        .replace(r"\S", r"[^\s]")
        .replace(r"\w", r"[\p{L}\p{N}_]")
        .replace(r"\s", r"[\p{White_Space}\x1C-\x1F]");
    Regex::new(&source).expect("it is written correctly")
}

/// The regular expression of [`compiled`], made when it is first used.
pub(crate) struct Pattern {
    any_case: &'static str,
    exact: &'static str,
    compiled: OnceBox<Regex>,
}

impl Pattern {
    pub(crate) const fn new(any_case: &'static str, exact: &'static str) -> Self {
        Self { any_case, exact, compiled: OnceBox::new() }
    }

    pub(crate) fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| Box::new(compiled(self.any_case, self.exact)))
    }

    pub(crate) fn is_match(&self, line: &str) -> bool {
        self.regex().is_match(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_python_ends_them() {
        assert_eq!(lines("a\r\nb\n\nc\u{2028}d\x0b"), ["a", "b", "", "c", "d"]);
        assert!(lines("").is_empty());
    }
}
