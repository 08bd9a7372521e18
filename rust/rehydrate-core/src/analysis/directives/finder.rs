//! The finder of cues: which phrases are in a sentence, looked up by their first words.
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use once_cell::race::OnceBox;
use rustc_hash::{FxHashMap, FxHashSet};

use super::cues::{CUES, Cue};
use super::sentences::{CLAUSE, folded};
use crate::analysis::scripts;

/// The phrases of [`CUES`], by their first words.
#[derive(Default)]
pub(super) struct Finder {
    phrases: Vec<Phrase>,
    by_word: FxHashMap<String, Vec<usize>>,
    /// Those of one word that may go on, by the first [`OPEN_CHARS`] of it.
    open: FxHashMap<String, Vec<usize>>,
    /// Those that a few letters may come before.
    behind_prefix: FxHashMap<String, Vec<usize>>,
    /// Phrases of scripts without spaces. The index of a found literal is that of its phrase.
    unspaced: Unspaced,
    pub labels: FxHashSet<String>,
    pub unspaced_labels: Vec<String>,
}

struct Phrase {
    /// Its words, with a space after them unless the last may go on.
    words: String,
    is_first: bool,
    cue: Cue,
}

#[derive(Default)]
struct Unspaced {
    literals: Vec<String>,
    cues: Vec<Cue>,
    /// Made when the first text wants it.
    automaton: OnceBox<AhoCorasick>,
}

/// Characters by which a word that goes on is looked up.
const OPEN_CHARS: usize = 3;
/// Letters that Hebrew and Arabic write in front of a word: "and", "the", "in".
const PREFIX_CHARS: usize = 3;

impl Finder {
    pub fn get() -> &'static Self {
        static FINDER: OnceBox<Finder> = OnceBox::new();
        FINDER.get_or_init(|| Box::new(Self::new()))
    }

    fn new() -> Self {
        let mut finder = Self::default();
        for &(cue, phrases) in CUES {
            for phrase in phrases.split('|') {
                finder.add(phrase.chars().flat_map(folded).collect(), cue);
            }
        }
        finder
    }

    fn add(&mut self, phrase: String, cue: Cue) {
        match (cue, phrase.chars().next().is_some_and(scripts::is_unspaced)) {
            (Cue::Label, true) => self.unspaced_labels.push(phrase),
            (Cue::Label, false) => drop(self.labels.insert(phrase)),
            (_, true) => {
                self.unspaced.literals.push(phrase);
                self.unspaced.cues.push(cue);
            }
            (_, false) => {
                let (goes_on, rest) = phrase.strip_suffix('*').map_or((false, &*phrase), |rest| (true, rest));
                let (is_first, rest) = rest.strip_prefix('^').map_or((false, rest), |rest| (true, rest));
                let (has_prefix, rest) = rest.strip_prefix('*').map_or((false, rest), |rest| (true, rest));
                let by_first = rest.split(' ').next().unwrap_or(rest);
                let (table, key) = match (has_prefix, goes_on && by_first == rest) {
                    (true, _) => (&mut self.behind_prefix, by_first.to_owned()),
                    (false, true) => (&mut self.open, rest.chars().take(OPEN_CHARS).collect()),
                    (false, false) => (&mut self.by_word, by_first.to_owned()),
                };
                table.entry(key).or_default().push(self.phrases.len());
                let words = if goes_on { rest.to_owned() } else { format!("{rest} ") };
                self.phrases.push(Phrase { words, is_first, cue });
            }
        }
    }

    /// Call `found` with the cues in `clauses`, in reading order; [`Cue::Clause`] where a clause begins.
    pub fn find(&self, clauses: &str, mut found: impl FnMut(Cue)) {
        let (mut at, mut before) = (1, "");
        while at < clauses.len() {
            let rest = &clauses[at..];
            let word = &rest[..memchr::memchr(b' ', rest.as_bytes()).unwrap_or(rest.len())];
            if word == CLAUSE {
                found(Cue::Clause);
            }
            let is_first = matches!(before, CLAUSE | "please" | "bitte");
            let mut look_up = |table: &FxHashMap<String, Vec<usize>>, key: &str, rest: &str| {
                for phrase in table.get(key).into_iter().flatten().map(|&phrase| &self.phrases[phrase]) {
                    if (is_first || !phrase.is_first) && rest.starts_with(&*phrase.words) {
                        found(phrase.cue);
                    }
                }
            };
            look_up(&self.by_word, word, rest);
            let is_ascii = word.is_ascii();
            if !is_ascii || word.len() > OPEN_CHARS {
                let mut ends = word.char_indices().map(|(end, _)| end).skip(OPEN_CHARS);
                look_up(&self.open, &word[..ends.next().unwrap_or(word.len())], rest);
            }
            if !is_ascii && word.starts_with(|char| ('\u{590}'..'\u{700}').contains(&char)) {
                for (start, _) in word.char_indices().take(PREFIX_CHARS + 1) {
                    look_up(&self.behind_prefix, &word[start..], &rest[start..]);
                }
            }
            before = word;
            at += word.len() + 1;
        }
        if clauses.chars().any(scripts::is_unspaced) {
            let hits = self.unspaced.automaton().find_overlapping_iter(clauses);
            hits.for_each(|hit| found(self.unspaced.cues[hit.pattern().as_usize()]));
        }
    }
}

impl Unspaced {
    fn automaton(&self) -> &AhoCorasick {
        self.automaton.get_or_init(|| {
            let made = AhoCorasick::builder()
                .match_kind(MatchKind::Standard)
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .build(&self.literals);
            Box::new(made.expect("some hundred phrases, none of them empty"))
        })
    }
}
