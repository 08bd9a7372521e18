//! Secrets in texts: keys, tokens and passwords. One pass finds the places where any may be.
//!
//! Every kind takes linear time: a repeat is bounded, or is followed by nothing, or cannot begin again inside itself.
mod assigned;
pub(crate) mod base64;
mod checks;
mod commands;
mod literals;
mod private_key;
mod reading;
mod table;

use std::iter::successors;

use once_cell::race::OnceBox;
use rustc_hash::FxHashSet;

use crate::caps::code_points;
use crate::interrupt::Pace;
use assigned::{PASSWORD, next_in_list};
use literals::LiteralMatcher;
use table::{ENCODED, KINDS};

/// A secret in a text: its first character and its end, and its kind's place in [`kinds`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Secret {
    pub start: usize,
    pub end: usize,
    pub kind: usize,
}

/// The names of all kinds of secrets; the more exact ones come first.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// The secrets of a text except those of the kinds that are `off`, in order. Overlapping ones are one, of the most
/// exact of their kinds.
#[must_use]
pub fn secrets(text: &str, off: &[usize]) -> Vec<Secret> {
    let mut found = plain_secrets(text);
    if !off.contains(&ENCODED) {
        let encoded =
            base64::runs(text).filter(|run| !plain_secrets(&base64::decoded_text(&text[run.clone()])).is_empty());
        found.extend(encoded.map(|run| Secret { start: run.start, end: run.end, kind: ENCODED }));
    }
    found.retain(|secret| !off.contains(&secret.kind));
    found.sort_unstable();
    let mut merged: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found {
        match merged.last_mut().filter(|before| secret.start < before.end) {
            Some(before) => {
                before.end = before.end.max(secret.end);
                before.kind = before.kind.min(secret.kind);
            }
            None => merged.push(secret),
        }
    }
    let (mut bytes, mut characters) = (0, 0);
    for place in merged.iter_mut().flat_map(|secret| [&mut secret.start, &mut secret.end]) {
        characters += text[bytes..*place].chars().count();
        (bytes, *place) = (*place, characters);
    }
    merged
}

/// A label in a text, in place of a secret: its first character and its end, and the name of its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    pub start: usize,
    pub end: usize,
    pub name: String,
}

impl Label {
    fn text(&self) -> String {
        format!("[redacted:{}]", self.name)
    }

    /// Whether the text has it there.
    #[must_use]
    pub fn is_in(&self, text: &[u32]) -> bool {
        text.get(self.start..self.end).is_some_and(|part| *part == *code_points(&self.text()))
    }
}

/// The text with labels in place of these secrets, and all its labels. `known` are those that it already has.
#[must_use]
pub fn labelled(text: &[u32], secrets: Vec<Secret>, known: Vec<Label>) -> (Vec<u32>, Vec<Label>) {
    let named = |Secret { start, end, kind }| Label { start, end, name: KINDS[kind].name.into() };
    let mut spans: Vec<Label> = secrets.into_iter().map(named).chain(known).collect();
    spans.sort_unstable();
    let (mut out, mut labels, mut read) = (Vec::with_capacity(text.len()), Vec::new(), 0);
    for Label { start, end, name } in spans {
        if start < read {
            continue; // an earlier label inside of a secret found now
        }
        out.extend_from_slice(&text[read..start]);
        let mut label = Label { start: out.len(), end: 0, name };
        out.extend(code_points(&label.text()));
        label.end = out.len();
        labels.push(label);
        read = end;
    }
    out.extend_from_slice(&text[read..]);
    (out, labels)
}

/// The secrets that are written as they are, by kind, in bytes.
fn plain_secrets(text: &str) -> Vec<Secret> {
    static LITERALS: OnceBox<LiteralMatcher> = OnceBox::new();
    let literals = LITERALS.get_or_init(|| {
        let literals: Vec<Vec<String>> = KINDS.iter().map(|kind| kind.literals().collect()).collect();
        Box::new(LiteralMatcher::new(&literals))
    });
    let found = literals.find(text);
    found.into_iter().flat_map(|found| of_kind(text, found.group, found.starts.into_iter())).collect()
}

/// The secrets of a kind that begin at these places, or at most as many characters before them as the kind's lead.
fn of_kind(text: &str, index: usize, starts: impl Iterator<Item = usize>) -> Vec<Secret> {
    let kind = &KINDS[index];
    let has_needed =
        |needed: &str| text.as_bytes().windows(needed.len()).any(|part| part.eq_ignore_ascii_case(needed.as_bytes()));
    if !kind.needs.is_empty() && !has_needed(kind.needs) {
        return Vec::new();
    }
    let (mut secrets, mut read, mut tried, mut pace) = (Vec::new(), 0, FxHashSet::default(), Pace::default());
    for start in starts {
        pace.step_by(64);
        // The text before the literal is ASCII.
        let mut places = (read.max(start.saturating_sub(kind.lead))..=start).filter(|&at| text.is_char_boundary(at));
        let found = places.find_map(|at| Some((at, kind.read(text, at, &mut tried)?)));
        let Some((start, first)) = found else { continue };
        for found in successors(Some(first), |before| next_in_list(text, before)) {
            pace.step_by(found.end - read.max(start));
            read = found.end;
            // A list is read past its short texts.
            let is_long = !found.is_in_list || found.value.len() >= PASSWORD;
            if is_long && kind.is_secret(text, start, &found) {
                secrets.push(Secret { start: found.value.start, end: found.value.end, kind: index });
            }
        }
    }
    secrets
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::table::Kind;
    use super::*;

    fn named(text: &str, off: &[&str]) -> Vec<(usize, usize, &'static str)> {
        let off: Vec<usize> = off.iter().filter_map(|off| kinds().position(|name| name == *off)).collect();
        secrets(text, &off).iter().map(|it| (it.start, it.end, KINDS[it.kind].name)).collect()
    }

    #[test]
    fn labels_take_the_place_of_secrets_and_of_labels_inside_of_them() {
        let text = code_points("記 pwd=hunter22 [redacted:jwt] é");
        let label = |start, end, name: &str| Label { start, end, name: name.into() };
        let known = label(15, 29, "jwt");
        assert!(known.is_in(&text) && !label(15, 28, "jwt").is_in(&text) && !label(30, 90, "jwt").is_in(&text));
        let secret = |start, end| Secret { start, end, kind: 0 };
        let name = KINDS[0].name;
        let (out, labels) = labelled(&text, vec![secret(6, 14)], vec![known.clone()]);
        let expected = format!("記 pwd=[redacted:{name}] [redacted:jwt] é");
        assert_eq!(out, code_points(&expected));
        let end = 6 + 11 + name.len();
        assert_eq!(labels, [label(6, end, name), label(end + 1, end + 15, "jwt")]);
        assert_eq!(labelled(&text, vec![secret(6, 29)], vec![known]).1, [label(6, end, name)]);
    }

    #[test]
    fn secrets_are_found_in_characters_and_overlapping_ones_are_one() {
        assert_eq!(named("記憶 password=hunter22, pwd=hunter23", &[]), [(12, 20, "password"), (26, 34, "password")]);
        assert_eq!(named("password=hunter22", &["password"]), []);
        let token = "API_TOKEN=ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5";
        assert_eq!(named(token, &[]), [(10, 50, "github_token")]);
        assert_eq!(named(token, &["github_token"]), [(10, 50, "secret")]);
        assert_eq!(named("K=REJfUEFTU1dPUkQ9SHVudGVyMiF4OQo= é", &[]), [(2, 34, "encoded_secret")]);
        assert_eq!(named("https://u:hunter2@host", &[]), [(10, 17, "url_password")]);
        assert_eq!(named("-u admin:hunter22", &[]), []);
        assert_eq!(named("cURL -u admin:hunter22", &[]), [(14, 22, "basic_credentials")]);
    }

    /// Parts of texts: the beginnings of kinds, their continuations, their surroundings.
    fn parts() -> Vec<String> {
        let others = [
            "=hunter22",
            ": 'Hunter2!x9'",
            "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9b",
            "\"",
            "'",
            "`",
            ": ",
            "=",
            "-",
            "_",
            ".",
            "~",
            "\n",
            "\t",
            "é",
            "記",
            "0123456789",
            "\\n",
            "page",
            "://a:b",
            "@",
            "Bearer ",
            " -p ",
            " is ",
            "8Q~",
            "12→",
            "curl ",
            "-----BEGIN PRIVATE KEY-----",
            "; a=b",
            "value: ",
            "</",
        ];
        KINDS.iter().flat_map(Kind::literals).chain(others.map(String::from)).collect()
    }

    proptest! {
        #[test]
        fn looking_at_the_literals_only_finds_all_that_the_patterns_find(
            parts in prop::collection::vec((prop::sample::select(parts()), any::<bool>()), 0..12)
        ) {
            let cased = parts.iter().map(|(part, is_upper)| if *is_upper { part.to_ascii_uppercase() } else { part.clone() });
            let text: String = cased.collect();
            let everywhere = |(index, _)| of_kind(&text, index, text.char_indices().map(|(at, _)| at));
            let mut found: Vec<Secret> = KINDS.iter().enumerate().flat_map(everywhere).collect();
            let mut looked_for = plain_secrets(&text);
            found.sort_unstable();
            looked_for.sort_unstable();
            prop_assert_eq!(looked_for, found, "{:?}", text);
        }
    }
}
