//! What a text is found by: its words, the parts of identifiers, pairs of ideographs; and the trigrams of a word.
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::lexical::{is_cjk, is_stop_word, label, stem};

/// A stretch of text between separators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run<'a> {
    /// Letters and digits.
    Word(&'a str),
    /// Characters that nothing stands between.
    Ideographs(&'a str),
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
                Class::Ideograph => return Some(Run::Ideographs(run)),
                Class::Between => {}
            }
        }
        None
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Ideograph,
    Between,
}

impl Class {
    #[inline]
    fn of(char: char) -> Self {
        if char.is_ascii() {
            return if char.is_ascii_alphanumeric() { Self::Letter } else { Self::Between };
        }
        if is_cjk(char) {
            Self::Ideograph
        } else if char.is_alphanumeric() || is_point(char) {
            Self::Letter
        } else {
            Self::Between
        }
    }
}

/// Vowel points and cantillation of Hebrew and Arabic: who searches leaves them out.
fn is_point(char: char) -> bool {
    matches!(u32::from(char), 0x0591..=0x05BD | 0x05BF | 0x05C1 | 0x05C2 | 0x05C4 | 0x05C5 | 0x05C7
        | 0x064B..=0x065F | 0x0670)
}

/// What one word counts as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Analysed {
    /// Lower-cased, without points.
    pub form: String,
    /// The term of the word itself, then those of its parts. None: a word that says nothing.
    pub terms: Vec<u64>,
}

/// Analyse a [`Run::Word`].
pub(super) fn analyse(run: &str) -> Analysed {
    let mut form = String::with_capacity(run.len());
    let mut cuts = vec![0];
    let mut before: Option<char> = None;
    let mut chars = run.chars().filter(|&char| !is_point(char)).peekable();
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
    Analysed { form, terms }
}

fn term(mut word: String) -> u64 {
    xxh3_64(stem(&mut word).as_bytes())
}

/// Terms of [`Run::Ideographs`]: each by itself and each pair.
pub(super) fn ideographs(run: &str) -> impl Iterator<Item = u64> {
    let bounds = || run.char_indices().map(|(at, _)| at).chain([run.len()]);
    let singles = bounds().zip(bounds().skip(1));
    let pairs = bounds().zip(bounds().skip(2));
    singles.chain(pairs).map(|(from, to)| xxh3_64(&run.as_bytes()[from..to]))
}

/// Hashes of the distinct trigrams of a lower-cased word, ascending; none for words under three characters.
pub(super) fn trigrams(form: &str) -> Vec<u32> {
    let bounds = || form.char_indices().map(|(at, _)| at).chain([form.len()]);
    let threes = bounds().zip(bounds().skip(3)).map(|(from, to)| xxh3_64(&form.as_bytes()[from..to]) as u32);
    let mut found: Vec<u32> = threes.collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The term of the first word of the speaker's label; 0: there is none.
pub(super) fn speaker(text: &str) -> u64 {
    let first = label(text).and_then(|label| {
        runs(label).find_map(|run| if let Run::Word(word) = run { analyse(word).terms.first().copied() } else { None })
    });
    first.unwrap_or(0)
}

/// What a query asks for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Distinct terms.
    pub terms: Vec<u64>,
    /// Of each distinct telling word its term and its trigrams; of ideographs each pair, without.
    pub words: Vec<(u64, Vec<u32>)>,
}

impl Asked {
    pub fn of(text: &str) -> Self {
        let mut asked = Self::default();
        let mut seen: FxHashMap<String, ()> = FxHashMap::default();
        for run in runs(text) {
            match run {
                Run::Word(run) => {
                    let Analysed { form, terms } = analyse(run);
                    if let Some(&term) = terms.first()
                        && seen.insert(form.clone(), ()).is_none()
                    {
                        asked.words.push((term, trigrams(&form)));
                        asked.terms.extend(terms);
                    }
                }
                Run::Ideographs(run) => {
                    let characters = run.chars().count();
                    let pairs = ideographs(run).skip(if characters > 1 { characters } else { 0 });
                    asked.words.extend(pairs.map(|term| (term, Vec::new())));
                    asked.terms.extend(ideographs(run));
                }
            }
        }
        asked.terms.sort_unstable();
        asked.terms.dedup();
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(word: &str) -> Vec<u64> {
        analyse(word).terms
    }

    #[test]
    fn runs_are_words_and_ideographs() {
        let found: Vec<Run<'_>> = runs("  Hi, parse_row2! 漢字x  é…").collect();
        let expected = ["Hi", "parse", "row2"].map(Run::Word).into_iter();
        let expected = expected.chain([Run::Ideographs("漢字"), Run::Word("x"), Run::Word("é")]);
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
        assert_eq!(analyse("שָׁלוֹם").form, "שלום");
        assert_eq!(terms("שָׁלוֹם"), terms("שלום"));
    }

    #[test]
    fn ideographs_stand_alone_and_in_pairs() {
        assert_eq!(ideographs("漢字典").count(), 5);
        assert_eq!(ideographs("漢").collect::<Vec<_>>(), ideographs("漢").collect::<Vec<_>>());
        assert!(Asked::of("漢字").terms.iter().all(|term| ideographs("大漢字").any(|other| other == *term)));
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
