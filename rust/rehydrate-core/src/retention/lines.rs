//! Lines that are typed again: the lines of a text that count, and those that another text holds.
use std::borrow::Cow;

use super::names::WantedNames;
use crate::analysis::python_re::{Pattern, lines};
use crate::sessions::one_line;

/// A shorter line, such as `return None`, is typed again by chance.
const MIN_CHARS: usize = 15;
/// The marks that an excerpt writes in place of lines.
static MARK: Pattern = Pattern::new("", r"\[\.\.\. [^\n\[]*? \.\.\.\]");

/// The lines of a text that are long enough, each run of white space in them as one blank.
pub fn lines_in(text: &str) -> impl Iterator<Item = String> {
    let is_long = |line: &str| line.chars().nth(MIN_CHARS - 1).is_some();
    lines(text).into_iter().filter(move |raw| is_long(raw)).map(one_line).filter(move |line| is_long(line))
}

/// A text without the marks of an excerpt.
#[must_use]
pub fn without_marks(text: &str) -> Cow<'_, str> {
    if text.contains("[... ") { MARK.regex().replace_all(text, "") } else { Cow::Borrowed(text) }
}

/// Lines to be looked for, all in one pass.
pub struct WantedLines(WantedNames);

impl WantedLines {
    #[must_use]
    pub fn new(lines: Vec<String>) -> Self {
        Self(WantedNames::new(lines))
    }

    #[must_use]
    pub fn lines(&self) -> &[String] {
        self.0.names()
    }

    /// The numbers of those that are in a text, alone or within a longer line. A text with escapes, as JSON has them, is
    /// searched without them too.
    #[must_use]
    pub fn found_in(&self, text: &str) -> Vec<usize> {
        if self.lines().is_empty() {
            return Vec::new();
        }
        let text = with_unescaped(text);
        let held: Vec<String> = lines(&text).into_iter().map(one_line).collect();
        self.0.found_in(&held.join("\n"))
    }
}

/// A text, and after it the same one without its escapes where it has some.
fn with_unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut both = String::with_capacity(2 * text.len() + 1);
    both.push_str(text);
    both.push('\n');
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let meant = match chars.peek() {
            Some('n' | 'r') if c == '\\' => Some('\n'),
            Some('t') if c == '\\' => Some('\t'),
            Some(&escaped @ ('"' | '\\' | '/')) if c == '\\' => Some(escaped),
            _ => None,
        };
        if meant.is_some() {
            chars.next();
        }
        both.push(meant.unwrap_or(c));
    }
    Cow::Owned(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(lines: &[&str]) -> WantedLines {
        WantedLines::new(lines.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn short_lines_do_not_count() {
        let found: Vec<String> =
            lines_in("def total(rows):\n    return  sum(rows.values())\n}\n               x").collect();
        assert_eq!(found, ["def total(rows):", "return sum(rows.values())"]);
    }

    #[test]
    fn a_line_is_found_within_a_longer_one_and_within_json() {
        let lines = wanted(&["return sum(rows)", "return min(rows)", "a \"b\" in quotes"]);
        assert_eq!(lines.found_in("7: return  sum(rows);"), [0]);
        assert_eq!(lines.found_in(r#"{"a": "x\n\treturn min(rows)\na \"b\" in quotes"}"#), [1, 2]);
        assert_eq!(wanted(&[]).found_in("x"), [0; 0]);
    }

    #[test]
    fn marks_are_left_out() {
        assert_eq!(without_marks("a\n[... 42 lines omitted, 118-159 ...]\nb [... x\n ...]"), "a\n\nb [... x\n ...]");
    }
}
