//! The lines of a search hit: wrapped to a width, with the words of the query separated, and the lines that show it
//! best.
use std::collections::BTreeSet;

use regex::Regex;

use crate::analysis::python_re::{Pattern, is_space};

/// Words of a question that say nothing about its subject.
const PLAIN: &[&str] = &[
    "a", "an", "and", "are", "at", "by", "can", "did", "do", "does", "for", "from", "had", "has", "have", "how", "i",
    "in", "is", "it", "its", "many", "me", "much", "my", "of", "on", "or", "our", "should", "that", "the", "their",
    "there", "they", "this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with",
    "would", "you", "your",
];

static WORD: Pattern = Pattern::new("", r"\w+");
/// Beginnings of lines that stay lines in Markdown: headings, lists, quotes, tables, code.
static OWN_LINE: Pattern = Pattern::new("", r"^(?:[ \t]*(?:[-*+>|#`~]|\d+[.)]\s)|\t|    )");
static BLANK_LINE: Pattern = Pattern::new("", r"\n[ \t]*\n");

/// The lines of a text; if some of a paragraph are longer than `width`, all of the paragraph as one line.
#[must_use]
pub fn paragraphs(text: &str, width: usize) -> Vec<String> {
    let text = text.replace("\r\n", "\n");
    let mut found = Vec::new();
    for block in BLANK_LINE.regex().split(&text) {
        let lines = block.split('\n').filter(|line| !line.chars().all(|c| is_space(u32::from(c))));
        if lines.clone().all(|line| line.chars().count() <= width) {
            found.extend(lines.map(str::to_owned));
            continue;
        }
        let mut joined = String::new();
        for line in lines {
            if !joined.is_empty() && OWN_LINE.is_match(line) {
                found.push(std::mem::take(&mut joined));
            }
            if !joined.is_empty() {
                joined.push(' ');
            }
            joined.push_str(line);
            if line.starts_with('#') {
                found.push(std::mem::take(&mut joined));
            }
        }
        if !joined.is_empty() {
            found.push(joined);
        }
    }
    found
}

/// Lines of a hit. In each the words of the query are separate: every second part is one.
#[derive(Debug, PartialEq, Eq)]
pub struct HitLines {
    pub lines: Vec<Vec<String>>,
    /// Whether some are left out before them, and after them.
    pub is_cut: (bool, bool),
}

/// The lines of paragraphs that only have blanks between words. Of more than `most`, those that have most of a query.
#[must_use]
pub fn hit_lines(paragraphs: &[&str], query: &str, width: usize, most: usize) -> HitLines {
    let words = words_of(query);
    let lines: Vec<String> = paragraphs.iter().flat_map(|paragraph| wrapped(paragraph, width)).collect();
    let counts: Vec<usize> = lines
        .iter()
        .map(|line| words.find_iter(line).map(|word| word.as_str().to_lowercase()).collect::<BTreeSet<_>>().len())
        .collect();
    let shown = most.min(lines.len());
    let found = |start: usize| counts[start..start + shown].iter().sum::<usize>();
    // The first of the windows that have the most.
    let start = (0..=lines.len() - shown).rev().max_by_key(|&start| found(start)).unwrap_or_default();
    let end = start + shown;
    let is_cut = (start > 0, end < lines.len());
    HitLines { lines: lines[start..end].iter().map(|line| parts(line, &words)).collect(), is_cut }
}

fn parts(line: &str, words: &Regex) -> Vec<String> {
    let mut parts = Vec::new();
    let mut end = 0;
    for word in words.find_iter(line) {
        parts.extend([line[end..word.start()].to_owned(), word.as_str().to_owned()]);
        end = word.end();
    }
    parts.push(line[end..].to_owned());
    parts
}

/// The words of a query, at the start of any word and in any case.
fn words_of(query: &str) -> Regex {
    let words: BTreeSet<String> = WORD.regex().find_iter(query).map(|word| word.as_str().to_lowercase()).collect();
    let telling: Vec<&String> = words.iter().filter(|word| !PLAIN.contains(&word.as_str())).collect();
    let mut chosen: Vec<&String> = if telling.is_empty() { words.iter().collect() } else { telling };
    chosen.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    let choice = |word: &&String| match regex::escape(word) {
        // Hebrew puts its prepositions before a word and Chinese has no gaps: anywhere there.
        escaped if !word.is_ascii() => escaped,
        escaped if word.len() > 2 => format!(r"\b{escaped}\w*"),
        escaped => format!(r"\b{escaped}\b"),
    };
    let choices: Vec<String> = chosen.iter().map(choice).collect();
    // Only signs, as in "->".
    let source = if choices.is_empty() { regex::escape(query) } else { choices.join("|") };
    // If the query has thousands of words, no hit is shown.
    Regex::new(&format!("(?i:{source})")).unwrap_or_else(|_| Regex::new(r"[^\s\S]").expect("it matches nothing"))
}

/// A text as lines of at most this many characters. A longer word is broken.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let (mut line, mut length) = (String::new(), 0);
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut rest: Vec<char> = word.chars().collect();
        let is_full = length > 0 && length + 1 + rest.len() > width;
        if is_full && rest.len() <= width {
            lines.push(std::mem::take(&mut line));
            length = 0;
        }
        let mut gap = usize::from(length > 0);
        while length + gap + rest.len() > width {
            let room = width.saturating_sub(length + gap);
            if room > 0 {
                line.push_str(&" ".repeat(gap));
                line.extend(rest.drain(..room));
            }
            lines.push(std::mem::take(&mut line));
            (length, gap) = (0, 0);
        }
        line.push_str(&" ".repeat(gap));
        length += gap + rest.len();
        line.extend(rest);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_and_long_words_broken() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("ab abcdefgh i", 5), ["ab ab", "cdefg", "h i"]);
        assert!(wrapped("", 5).is_empty());
    }

    #[test]
    fn a_paragraph_that_is_too_wide_is_one_line_and_lists_stay_lists() {
        let text = "# Head\nsome words that go\non here\n- one\n- two\n\nshort\nlines";
        assert_eq!(paragraphs(text, 15), ["# Head", "some words that go on here", "- one", "- two", "short", "lines"]);
        assert_eq!(paragraphs("a\r\nb", 15), ["a", "b"]);
    }

    #[test]
    fn the_lines_with_most_of_the_query_are_shown_with_its_words_apart() {
        let lines = ["nothing", "nothing", "the Port of staging", "nothing", "nothing"];
        let found = hit_lines(&lines, "what is the staging port?", 40, 1);
        assert_eq!(found.lines, [["the ", "Port", " of ", "staging", ""]]);
        assert_eq!(found.is_cut, (true, true));
        assert_eq!(hit_lines(&lines, "->", 40, 9).is_cut, (false, false));
        assert_eq!(hit_lines(&[], "x", 40, 9).lines.len(), 0);
    }
}
