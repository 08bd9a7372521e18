//! Reading a text from a place in it: the building blocks of the patterns of secrets, each from the byte where it
//! begins.
use std::iter::successors;
use std::ops::{Range, RangeInclusive};

use once_cell::race::OnceBox;
use regex::Regex;

use crate::analysis::python_re;

/// A match at one place: its end, its secret part, and whether that is in quotes or after a scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    pub end: usize,
    pub value: Range<usize>,
    pub is_quoted: bool,
    pub has_scheme: bool,
    pub is_in_list: bool,
}

impl Match {
    /// One that ends with its secret.
    pub fn of(value: Range<usize>) -> Self {
        Self { end: value.end, value, is_quoted: false, has_scheme: false, is_in_list: false }
    }
}

/// A regular expression in Python's classes, matched at a given place, compiled at its first use.
///
/// Its group `secret` is removed, or the whole match if it has none. A last group `after` is only read.
pub(super) struct Pattern {
    source: &'static str,
    compiled: OnceBox<Regex>,
}

impl Pattern {
    pub const fn new(source: &'static str) -> Self {
        Self { source, compiled: OnceBox::new() }
    }

    fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| Box::new(python_re::compiled("", &format!(r"\A(?:{})", with_pieces(self.source)))))
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.regex().is_match(text)
    }

    /// The end of a match from `at`.
    pub fn end(&self, text: &str, at: usize) -> Option<usize> {
        self.regex().find(&text[at..]).map(|found| at + found.end())
    }

    pub fn at(&self, text: &str, at: usize) -> Option<Match> {
        let groups = self.regex().captures(&text[at..])?;
        let end = groups.name("after").map_or_else(|| groups[0].len(), |after| after.start());
        let value = groups.name("secret").map_or(0..end, |secret| secret.range());
        let has_scheme = groups.name("scheme").is_some();
        Some(Match { end: at + end, has_scheme, ..Match::of(at + value.start..at + value.end) })
    }
}

/// `source` with its pieces in full: `«gap»`, `«quote»`, `«space»`, and `«end»`, after which goes no letter or digit.
fn with_pieces(source: &str) -> String {
    source
        .replace("«gap»", r"(?:[ \t]|«ansi»){0,12}")
        .replace("«ansi»", r"(?:(?:\x1b|\\{1,7}(?:u001b|x1b|033|e))\[[0-9;?]{0,16}[A-Za-z])")
        .replace("«quote»", r#"(?:\\{0,7}["'`])"#)
        .replace("«space»", r"(?:\s|\\{1,7}[nrt])")
        .replace("«end»", r"(?<after>[^A-Za-z0-9]|\z)")
}

pub(super) fn char_at(text: &str, at: usize) -> Option<char> {
    text[at..].chars().next()
}

pub(super) fn char_before(text: &str, at: usize) -> Option<char> {
    text[..at].chars().next_back()
}

pub(super) fn is_word(char: char) -> bool {
    python_re::is_word(char.into())
}

pub(super) fn is_space(char: char) -> bool {
    python_re::is_space(char.into())
}

fn is_digit(char: char) -> bool {
    python_re::is_digit(char.into())
}

/// The end of `literal`, if it is at `at`.
pub(super) fn literal(text: &str, at: usize, literal: &str) -> Option<usize> {
    text.as_bytes()[at..].starts_with(literal.as_bytes()).then_some(at + literal.len())
}

/// The end of one such character.
pub(super) fn one(text: &str, at: usize, is_so: impl Fn(char) -> bool) -> Option<usize> {
    char_at(text, at).filter(|&char| is_so(char)).map(|char| at + char.len_utf8())
}

/// The end of the longest run of such characters, if there are enough of them.
pub(super) fn some(text: &str, at: usize, count: RangeInclusive<usize>, is_so: impl Fn(char) -> bool) -> Option<usize> {
    let run = text[at..].chars().take(*count.end()).take_while(|&char| is_so(char));
    let (chars, end) = run.fold((0, at), |(chars, end), char| (chars + 1, end + char.len_utf8()));
    (chars >= *count.start()).then_some(end)
}

/// The possible ends of up to `most` steps, the most steps first.
pub(super) fn repeats(at: usize, most: usize, step: impl Fn(usize) -> Option<usize>) -> Vec<usize> {
    let mut ends: Vec<usize> = successors(Some(at), |&at| step(at)).take(most + 1).collect();
    ends.reverse();
    ends
}

/// The end of the most steps, up to `most`.
pub(super) fn repeated(at: usize, most: usize, step: impl Fn(usize) -> Option<usize>) -> usize {
    successors(Some(at), |&at| step(at)).take(most + 1).last().unwrap_or(at)
}

/// The end of up to seven backslashes: as many as JSON makes when it escapes its own escapes.
fn backslashes(text: &str, at: usize) -> usize {
    repeated(at, 7, |at| literal(text, at, "\\"))
}

/// Backslashes and one of these; at least one backslash.
pub(super) fn escaped(text: &str, at: usize, names: &[&str]) -> Option<usize> {
    let end = backslashes(text, at);
    if end == at { None } else { names.iter().find_map(|name| literal(text, end, name)) }
}

/// An escape sequence of a terminal, as it is or as JSON and programs write it.
pub(super) fn ansi(text: &str, at: usize) -> Option<usize> {
    let begun = literal(text, at, "\x1b").or_else(|| escaped(text, at, &["u001b", "x1b", "033", "e"]))?;
    let parameters = some(text, literal(text, begun, "[")?, 0..=16, |char| matches!(char, '0'..='9' | ';' | '?'))?;
    one(text, parameters, |char| char.is_ascii_alphabetic())
}

/// A part of the gap between a name and its value.
pub(super) fn gap(text: &str, at: usize) -> Option<usize> {
    one(text, at, is_blank).or_else(|| ansi(text, at))
}

pub(super) fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t')
}

/// A quotation mark, as it is or escaped.
pub(super) fn quote(text: &str, at: usize) -> Option<usize> {
    one(text, backslashes(text, at), |char| matches!(char, '"' | '\'' | '`'))
}

/// White space, also as JSON writes it, once or within JSON.
pub(super) fn space(text: &str, at: usize) -> Option<usize> {
    one(text, at, is_space).or_else(|| escaped(text, at, &["n", "r", "t"]))
}

/// The number of a line, as tools write it before the line.
pub(super) fn line_number(text: &str, at: usize) -> Option<usize> {
    char_before(text, at).filter(|&char| is_space(char) || matches!(char, 'n' | '+'))?;
    let end = some(text, at, 1..=7, is_digit)?;
    one(text, end, |char| matches!(char, '→' | ':' | '\t' | '|')).or_else(|| escaped(text, end, &["u2192"]))
}
