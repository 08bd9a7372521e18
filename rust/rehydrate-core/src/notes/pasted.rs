//! The parts of a text that its author did not say: in fences, in tags, quoted lines.
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::analysis::python_re::{is_space, is_word};

/// Letters of a tag's name after the first, and characters of its attributes.
const MAX_NAME: usize = 40;
const MAX_ATTRIBUTES: usize = 200;

/// Their ranges, in bytes and in order, without overlaps.
#[must_use]
pub fn pasted(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut start, mut fence) = (0, None);
    for line in text.split('\n') {
        let words = line.trim_start_matches([' ', '\t']);
        let is_indented = line.len() - words.len() > 3;
        if !is_indented && words.starts_with('>') {
            found.push(start..start + line.len());
        }
        if !is_indented && (words.starts_with("```") || words.starts_with("~~~")) {
            match fence.take() {
                Some(open) => found.push(open..start),
                None => fence = Some(start),
            }
        }
        start += line.len() + 1;
    }
    found.extend(fence.map(|open| open..text.len()));
    elements(text, &mut found);
    merged(found)
}

/// Each element, from its first opening tag to its next closing one.
fn elements(text: &str, found: &mut Vec<Range<usize>>) {
    let mut opened = FxHashMap::default();
    for start in memchr::memchr_iter(b'<', text.as_bytes()) {
        let Some(Tag { name, is_closing, end }) = tag(text, start) else { continue };
        if !is_closing {
            opened.entry(name).or_insert(start);
        } else if let Some(open) = opened.remove(name) {
            found.push(open..end);
        }
    }
}

struct Tag<'a> {
    name: &'a str,
    is_closing: bool,
    end: usize,
}

/// The tag that begins at `start`.
fn tag(text: &str, start: usize) -> Option<Tag<'_>> {
    let inside = &text[start + 1..];
    let named = inside.strip_prefix('/').unwrap_or(inside);
    let is_closing = named.len() < inside.len();
    let is_name = |char: char| is_word(char.into()) || matches!(char, ':' | '-');
    let length: usize = named.chars().take(MAX_NAME + 1).take_while(|&char| is_name(char)).map(char::len_utf8).sum();
    let (name, rest) = named.split_at(length);
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return None;
    }
    let attributes = match rest.chars().next()? {
        '>' => 0,
        space if is_space(space.into()) => {
            let most = rest.chars().take(MAX_ATTRIBUTES + 1);
            space.len_utf8()
                + most.skip(1).take_while(|char| !matches!(char, '<' | '>')).map(char::len_utf8).sum::<usize>()
        }
        _ => return None,
    };
    let end = text.len() - rest.len() + attributes;
    text[end..].starts_with('>').then_some(Tag { name, is_closing, end: end + 1 })
}

/// The ranges in order; those that touch are one.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_fences_and_elements_are_not_the_authors() {
        for (text, expected) in [
            ("Look:\n> always use tabs\nWhat is it?", &["> always use tabs"] as &[&str]),
            ("a\n```py\nx\n```\nb\n   ~~~\nc", &["```py\nx\n", "   ~~~\nc"]),
            ("x <log a=\"1\">in <log> side</log> y</log>", &["<log a=\"1\">in <log> side</log>"]),
            ("1 < 2 <b c <d>e</d> </x>", &["<d>e</d>"]),
            ("    > code", &[]),
        ] {
            let found: Vec<&str> = pasted(text).into_iter().map(|range| &text[range]).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
