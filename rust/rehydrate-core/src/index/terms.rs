//! The terms by which a text is found: its words, the parts of identifiers, and n-grams in scripts without spaces; and
//! the trigrams of a word.
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::analysis::scripts::{self, Script, fold, is_mark};
use crate::analysis::stems::{is_stop_word, stem};
use crate::analysis::words::label;

/// A stretch of text between separators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run<'a> {
    /// Letters and digits.
    Word(&'a str),
    /// Letters of a script that is written without spaces.
    Unspaced(Script, &'a str),
}

/// The runs of `text` in order.
pub(super) fn runs(text: &str) -> impl Iterator<Item = Run<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let begin = rest.bytes().position(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
        rest = &rest[begin.unwrap_or(rest.len())..];
        while let Some(first) = rest.chars().next() {
            let kind = Class::of(first);
            let end = rest.find(|char| Class::of(char) != kind).unwrap_or(rest.len());
            let (run, after) = rest.split_at(end);
            rest = after;
            match kind {
                Class::Letter => return Some(Run::Word(run)),
                Class::Unspaced(script) => return Some(Run::Unspaced(script, run)),
                Class::Between => {}
            }
        }
        None
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Unspaced(Script),
    Between,
}

impl Class {
    #[inline]
    fn of(char: char) -> Self {
        if char.is_ascii() {
            return if char.is_ascii_alphanumeric() { Self::Letter } else { Self::Between };
        }
        match Script::of(char) {
            Some(script @ (Script::Ideographs | Script::Unspaced)) => Self::Unspaced(script),
            Some(Script::Latin | Script::Spaced) => Self::Letter,
            None if char.is_alphanumeric() || is_mark(char) => Self::Letter,
            None => Self::Between,
        }
    }
}

/// The terms of one word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AnalysedWord {
    /// Lower-cased and folded.
    pub form: String,
    /// The term of the word itself, then those of its parts. None for a word without a meaning of its own.
    pub terms: Vec<u64>,
}

/// Analyse a [`Run::Word`].
pub(super) fn analyse(run: &str) -> AnalysedWord {
    let mut form = String::with_capacity(run.len());
    let mut cuts = vec![0];
    let mut before: Option<char> = None;
    let mut chars = run.chars().filter_map(fold).peekable();
    while let Some(char) = chars.next() {
        let humps = |before: char| {
            let digit = before.is_numeric() != char.is_numeric();
            let hump = char.is_uppercase()
                && (before.is_lowercase() || before.is_uppercase() && chars.peek().is_some_and(|c| c.is_lowercase()));
            digit || hump
        };
        if before.is_some_and(humps) {
            cuts.push(form.len());
        }
        form.extend(char.to_lowercase());
        before = Some(char);
    }
    cuts.push(form.len());
    let mut terms = Vec::new();
    if !form.is_empty() && !is_stop_word(&form) {
        terms.push(term(form.clone()));
        if cuts.len() > 2 {
            let parts = cuts.windows(2).map(|pair| &form[pair[0]..pair[1]]);
            let telling = parts.filter(|part| part.chars().nth(1).is_some() && !is_stop_word(part));
            terms.extend(telling.map(|part| term(part.to_owned())));
        }
    }
    AnalysedWord { form, terms }
}

fn term(mut word: String) -> u64 {
    xxh3_64(stem(&mut word).as_bytes())
}

/// Terms of [`Run::Unspaced`].
pub(super) fn unspaced(script: Script, run: &str) -> impl Iterator<Item = u64> {
    scripts::shorter_and_grams(run, script).map(|gram| xxh3_64(gram.as_bytes()))
}

/// Hashes of the distinct trigrams of a lower-cased word, ascending. None for words under three characters.
pub(super) fn trigrams(form: &str) -> Vec<u32> {
    let bounds = || form.char_indices().map(|(at, _)| at).chain([form.len()]);
    let threes = bounds().zip(bounds().skip(3)).map(|(from, to)| xxh3_64(&form.as_bytes()[from..to]) as u32);
    let mut found: Vec<u32> = threes.collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The term of the first word of the speaker's label. 0 if there is none.
pub(super) fn speaker(text: &str) -> u64 {
    let first = label(text).and_then(|label| {
        runs(label).find_map(|run| if let Run::Word(word) = run { analyse(word).terms.first().copied() } else { None })
    });
    first.unwrap_or(0)
}

/// The terms and words of a query.
#[derive(Debug, Default)]
pub(super) struct QueryTerms {
    /// Distinct terms.
    pub terms: Vec<u64>,
    /// The term and the trigrams of each distinct content word. In scripts without spaces, each n-gram, without
    /// trigrams.
    pub words: Vec<(u64, Vec<u32>)>,
}

impl QueryTerms {
    pub fn of(text: &str) -> Self {
        let mut query_terms = Self::default();
        let mut seen: FxHashMap<String, ()> = FxHashMap::default();
        for run in runs(text) {
            match run {
                Run::Word(run) => {
                    let AnalysedWord { form, terms } = analyse(run);
                    if let Some(&term) = terms.first()
                        && seen.insert(form.clone(), ()).is_none()
                    {
                        query_terms.words.push((term, trigrams(&form)));
                        query_terms.terms.extend(terms);
                    }
                }
                Run::Unspaced(script, run) => {
                    let grams = scripts::grams(run, script).map(|gram| xxh3_64(gram.as_bytes()));
                    query_terms.words.extend(grams.map(|term| (term, Vec::new())));
                    query_terms.terms.extend(unspaced(script, run));
                }
            }
        }
        query_terms.terms.sort_unstable();
        query_terms.terms.dedup();
        query_terms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(word: &str) -> Vec<u64> {
        analyse(word).terms
    }

    #[test]
    fn runs_are_words_and_what_stands_without_spaces() {
        let found: Vec<Run<'_>> = runs("  Hi, parse_row2! 漢字x  é…").collect();
        let expected = ["Hi", "parse", "row2"].map(Run::Word).into_iter();
        let ideographs = Run::Unspaced(Script::Ideographs, "漢字");
        let expected = expected.chain([ideographs, Run::Word("x"), Run::Word("é")]);
        assert_eq!(found, expected.collect::<Vec<_>>());
        assert_eq!(runs("").count() + runs(" ->…").count(), 0);
    }

    #[test]
    fn an_identifier_is_found_by_its_parts() {
        for (whole, parts) in [
            ("parseRow", ["parse", "row"]),
            ("HTTPServer", ["http", "server"]),
            ("sha256", ["sha", "256"]),
            ("GetRows", ["get", "rows"]),
        ] {
            let found = terms(whole);
            assert_eq!(found.len(), 3, "{whole}");
            assert_eq!(found[1..], parts.map(|part| terms(part)[0]), "{whole}");
        }
        assert_eq!(terms("parsing").len(), 1);
        assert_eq!(terms("WORD"), terms("word"));
    }

    #[test]
    fn stop_words_say_nothing_and_points_are_left_out() {
        assert!(terms("The").is_empty());
        assert_eq!(analyse("שָׁלוֹם").form, analyse("שלום").form);
        assert_eq!(terms("שָׁלוֹם"), terms("שלום"));
    }

    #[test]
    fn ideographs_stand_alone_and_in_pairs() {
        let terms = |run| unspaced(Script::Ideographs, run).collect::<Vec<_>>();
        assert_eq!(terms("漢字典").len(), 5);
        assert!(QueryTerms::of("漢字").terms.iter().all(|term| terms("大漢字").contains(term)));
        assert_eq!(QueryTerms::of("漢字典").words.len(), 2);
        assert_eq!(QueryTerms::of("ภาษาไทย").words.len(), 5);
    }

    #[test]
    fn a_part_of_a_word_has_its_trigrams() {
        let (part, whole) = (trigrams("hydrat"), trigrams("rehydrate"));
        assert_eq!(part.len(), 4);
        assert!(part.iter().all(|trigram| whole.contains(trigram)));
        assert!(trigrams("ab").is_empty());
        assert!(trigrams("בית").iter().all(|trigram| trigrams("הבית").contains(trigram)));
    }
}
