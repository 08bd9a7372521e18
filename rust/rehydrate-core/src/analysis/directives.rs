//! Directives: what users lay down in plain prose. Directives, constraints, prohibitions, limits, goals, preferences,
//! corrections.
//!
//! Such a sentence is short, is never said again, and no later tool call shows that it was needed; lost, it is broken. It
//! is recognised by what it is, sentence by sentence: words that lay something down by themselves (`cues.rs`), or two signs
//! of different kinds ("use X" and "instead of Y", "keep" and "under 200"). What tells of somebody ("I never knew") and
//! what asks needs more. Each directive has a strength and the words of its subject. It is derived once from a text and
//! cached with it.
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use once_cell::race::OnceBox;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::analysis::scripts;
use crate::analysis::words;
use crate::interrupt::checkpoint;

mod cues;

use cues::{AMOUNT, CUES, Cue, DUTY, MANNER, PLEA};

/// Signs of different kinds that make a directive.
const SIGNS: u32 = 2;
/// Weight of a strong cue, in signs.
const STRONG: u32 = 2;
/// How to answer, as somebody wants it.
const WISH: u32 = DUTY.bit() | MANNER.bit();
/// More signs than these add nothing.
const STRONGEST: u32 = 6;
/// In front of a colon, up to so many words are a label.
const MAX_LABEL_WORDS: usize = 4;
/// Tags of texts that harnesses put into user turns in their own name, from its opening to its closing tag.
const HARNESS_TAGS: [&str; 5] =
    ["system-reminder", "task-notification", "local-command-caveat", "local-command-stdout", "command-name"];

/// A longer one is no sentence that a person laid down: minified code, a dump.
const MAX_SENTENCE_BYTES: usize = 1_000;

/// One sentence that lays something down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    /// 2 to 6.
    pub strength: u32,
    /// The content words of the sentence, ascending.
    pub subject: Vec<u32>,
}

/// The directives in `text`.
pub(crate) fn directives(text: &str) -> Vec<Directive> {
    let finder = Finder::get();
    let (mut found, mut clauses) = (Vec::new(), String::new());
    for said in outside_harness_tags(text) {
        for (sentence, asks) in sentences(said).filter(|(sentence, _)| sentence.len() <= MAX_SENTENCE_BYTES) {
            checkpoint();
            let strength = finder.strength(sentence, asks, &mut clauses);
            if strength > 0 {
                let mut subject = words::words(sentence);
                subject.sort_unstable();
                subject.dedup();
                found.push(Directive { strength, subject });
            }
        }
    }
    found
}

/// Append `directives` to `out`: of each its strength, the number of its words, and these.
pub(crate) fn pack(directives: &[Directive], out: &mut Vec<u32>) {
    for directive in directives {
        out.push(directive.strength);
        out.push(u32::try_from(directive.subject.len()).expect("a sentence has under 2^32 words"));
        out.extend_from_slice(&directive.subject);
    }
}

/// Strength and subject of each directive, as [`pack`] lays them out.
pub(crate) fn read(mut section: &[u32]) -> impl DoubleEndedIterator<Item = (u32, &[u32])> {
    let mut directives = Vec::new();
    while let [strength, words, rest @ ..] = section {
        let (subject, after) = rest.split_at(*words as usize);
        directives.push((*strength, subject));
        section = after;
    }
    directives.into_iter()
}

/// The phrases of [`CUES`], by their first words.
#[derive(Default)]
struct Finder {
    phrases: Vec<Phrase>,
    by_word: FxHashMap<String, Vec<usize>>,
    /// Those of one word that may go on, by the first [`OPEN_CHARS`] of it.
    open: FxHashMap<String, Vec<usize>>,
    /// Those that a few letters may stand before.
    behind_prefix: FxHashMap<String, Vec<usize>>,
    /// Those of scripts without spaces: a literal that is found is the phrase of its index.
    unspaced: Unspaced,
    labels: FxHashSet<String>,
    unspaced_labels: Vec<String>,
}

struct Phrase {
    /// Its words, with a space behind them unless the last may go on.
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

/// Between clauses, as a word of its own.
const CLAUSE: &str = "\n";

impl Finder {
    fn get() -> &'static Self {
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
    fn find(&self, clauses: &str, mut found: impl FnMut(Cue)) {
        let (mut at, mut before) = (1, "");
        while at < clauses.len() {
            let rest = &clauses[at..];
            let word = &rest[..memchr::memchr(b' ', rest.as_bytes()).unwrap_or(rest.len())];
            if word == CLAUSE {
                found(Cue::Clause);
            }
            let is_first = before == CLAUSE || before == "please";
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

    /// How strong a directive `sentence` is; 0: it is none. `clauses` is scratch.
    fn strength(&self, sentence: &str, asks: bool, clauses: &mut String) -> u32 {
        let letters = in_clauses(sentence, clauses);
        let (mut signs, mut strong, mut figure) = (if letters.has_digit { AMOUNT } else { 0 }, false, false);
        let (mut unless, mut demoted, mut tells, mut tale) = (false, false, false, false);
        self.find(clauses, |cue| match cue {
            Cue::Strong => strong = true,
            Cue::Unless if tale => demoted = true,
            Cue::Unless => unless = true,
            Cue::Sign(sign) => signs |= sign,
            Cue::Tale => (tale, tells) = (true, true),
            Cue::Figure => figure = true,
            Cue::Clause => tale = false,
            Cue::Label => {}
        });
        // "I want short answers" tells of nobody.
        strong |= WISH & !signs == 0;
        let label = self.has_label(clauses, sentence);
        unless &= !figure;
        if figure && !label && signs.count_ones() < SIGNS + 1 {
            return 0;
        }
        let own = signs.count_ones() + u32::from(demoted) + u32::from(letters.has_capitals && is_stressed(sentence));
        let strength = own + STRONG * (u32::from(strong || unless) + u32::from(label));
        let is_directive = strong || unless || label || own >= SIGNS + u32::from(tells);
        let is_plea = !asks || (signs & PLEA.bit() != 0 && strength > STRONG);
        if is_directive && is_plea { strength.clamp(SIGNS, STRONGEST) } else { 0 }
    }

    /// Whether it begins with a label that says so, such as "Directive:" or "HARD CONSTRAINT:".
    fn has_label(&self, clauses: &str, sentence: &str) -> bool {
        let Some(colon) = sentence.find([':', '：']) else { return false };
        let words = sentence[..colon].split_whitespace().count();
        let label = clauses.trim_start().split(CLAUSE).next().unwrap_or_default();
        (1..=MAX_LABEL_WORDS).contains(&words)
            && (label.split(' ').any(|word| self.labels.contains(word))
                || self.unspaced_labels.iter().any(|known| label.contains(&**known)))
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

/// Whether it stresses a word of three letters or more by capitals, as in "NEVER" and "IMPORTANT:".
fn is_stressed(sentence: &str) -> bool {
    const STRESSED: [&str; 8] = ["NEVER", "MUST", "ALWAYS", "NOT", "ONLY", "IMPORTANT", "DON'T", "STOP"];
    let mut words = sentence.split(|char: char| !char.is_alphanumeric() && char != '\'');
    let first = sentence.split(':').next().unwrap_or_default();
    let is_capital_label = first.len() < sentence.len()
        && first.chars().any(char::is_uppercase)
        && !first.chars().any(|char| char.is_lowercase() || char.is_ascii_digit());
    is_capital_label || words.any(|word| STRESSED.contains(&word))
}

/// Properties of a sentence's letters.
struct Letters {
    has_digit: bool,
    /// Two capitals side by side: it may stress a word.
    has_capitals: bool,
}

/// `sentence` as words between single spaces, lower-cased and folded, with a mark of its own at the start of each clause.
fn in_clauses(sentence: &str, out: &mut String) -> Letters {
    out.clear();
    out.push(' ');
    out.push_str(CLAUSE);
    out.push(' ');
    let (mut has_digit, mut has_capitals, mut after_capital) = (false, false, false);
    let mut chars = sentence.chars().peekable();
    while let Some(char) = chars.next() {
        if char.is_ascii_alphanumeric() {
            // Nearly all of a text: no table is asked about it.
            out.push(char.to_ascii_lowercase());
            has_digit |= char.is_ascii_digit();
            has_capitals |= after_capital && char.is_ascii_uppercase();
            after_capital = char.is_ascii_uppercase();
            continue;
        }
        let is_word = !char.is_ascii() && (char.is_alphanumeric() || scripts::is_mark(char));
        if is_word {
            has_digit |= char.is_numeric();
            has_capitals |= after_capital && char.is_uppercase();
            after_capital = char.is_uppercase();
            out.extend(folded(char));
            continue;
        }
        after_capital = false;
        if matches!(char, '\'' | '’') && chars.peek().is_some_and(|next| next.is_alphabetic()) {
            out.push('\'');
        } else {
            if !out.ends_with(' ') {
                out.push(' ');
            }
            let is_joint = char.is_whitespace() || matches!(char, '-' | '_' | '/' | '.' | '*' | '`' | '\'' | '"');
            if !is_joint && !out.ends_with(" \n ") {
                out.push_str(CLAUSE);
                out.push(' ');
            }
        }
    }
    if !out.ends_with(' ') {
        out.push(' ');
    }
    Letters { has_digit, has_capitals }
}

fn folded(char: char) -> impl Iterator<Item = char> {
    char.to_lowercase().filter_map(|char| scripts::fold(if char == '’' { '\'' } else { char }))
}

/// The sentences of `text`, and whether each asks something. A line's end is a sentence's.
fn sentences(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let Range { start, end } = next_end(rest);
            let (sentence, asks) = (&rest[..start], rest[start..end].contains(['?', '？', '؟']));
            rest = &rest[end..];
            if sentence.chars().any(char::is_alphabetic) {
                return Some((sentence, asks));
            }
        }
        None
    })
}

/// Where the first sentence of `text` ends, its stop included.
fn next_end(text: &str) -> Range<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'\n' => Some(at + 1),
            b'.' | b'!' | b'?' if ends_here(&text[at + 1..]) => Some(at + 1),
            0x80.. => {
                let char = text[at..].chars().next().expect("at is a character's first byte");
                let after = at + char.len_utf8();
                let ends =
                    matches!(char, '。' | '！' | '？' | '؟' | '।' | '；') || (char == '…' && ends_here(&text[after..]));
                if !ends {
                    at = after;
                    continue;
                }
                Some(after)
            }
            _ => None,
        };
        if let Some(end) = end {
            return at..end;
        }
        at += 1;
    }
    text.len()..text.len()
}

/// Whether a stop ends a sentence by what comes behind it: not within a name or a number.
fn ends_here(after: &str) -> bool {
    after.chars().next().is_none_or(|next| next.is_whitespace() || matches!(next, '"' | ')' | '?' | '!'))
}

/// `text` without what a harness says in it.
fn outside_harness_tags(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let opened = memchr::memchr_iter(b'<', rest.as_bytes()).find_map(|at| {
            let tag = HARNESS_TAGS.iter().find(|tag| rest[at + 1..].starts_with(**tag))?;
            Some((at, tag))
        });
        let Some((at, tag)) = opened else { return Some(std::mem::take(&mut rest)) };
        let said = &rest[..at];
        let close = format!("</{tag}>");
        rest = rest[at..].find(&close).map_or("", |end| &rest[at + end + close.len()..]);
        Some(said)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strength(text: &str) -> u32 {
        directives(text).iter().map(|directive| directive.strength).max().unwrap_or(0)
    }

    fn is_directive(text: &str) -> bool {
        strength(text) > 0
    }

    #[track_caller]
    fn all_are_directives(texts: &[&str]) {
        let missed: Vec<&&str> = texts.iter().filter(|text| !is_directive(text)).collect();
        assert!(missed.is_empty(), "{missed:?}");
    }

    #[test]
    fn directives_in_english_are_recognised() {
        all_are_directives(&[
            "Never force-push to the main branch.",
            "please don’t rename any public API",
            "Do not book anything without my approval.",
            "Always run the formatter before you commit.",
            "Our budget is $500 in total.",
            "Keep answers below 100 words.",
            "The aim is to get the page under one second.",
            "I would prefer an early flight.",
            "Prefer composition over inheritance.",
            "Actually, use Postgres instead of SQLite.",
            "From now on, call me Sam.",
            "Only Python 3.11 is available on the server.",
            "We cannot use the network in CI.",
        ]);
    }

    #[test]
    fn directives_in_other_languages_are_recognised() {
        all_are_directives(&[
            "Lösche niemals Kundendaten.",
            "Maximal drei Versuche, dann abbrechen.",
            "Ich bevorzuge kurze Antworten.",
        ]);
        all_are_directives(&[
            "Ne supprime jamais les sauvegardes.",
            "Le budget est de 500 euros.",
            "N’oublie pas de lancer les tests.",
        ]);
        all_are_directives(&[
            "Nunca subas cambios a la rama principal.",
            "No más de tres intentos.",
            "Hay que ejecutar las pruebas.",
        ]);
        all_are_directives(&["Não apague os arquivos de log.", "O orçamento é de 500 reais."]);
        all_are_directives(&["Non cancellare i file di log.", "D'ora in poi usa Postgres invece di SQLite."]);
        all_are_directives(&[
            "Не трогай основную ветку.",
            "Максимум три попытки.",
            "Всегда спрашивай меня перед удалением.",
        ]);
        all_are_directives(&["לעולם אל תמחק גיבויים.", "לא יותר משלושה ניסיונות."]);
        all_are_directives(&["لا تقم أبدا بحذف السجلات.", "ثلاث محاولات كحد أقصى."]);
        all_are_directives(&["लॉग फ़ाइलें कभी मत हटाओ।", "अधिकतम तीन प्रयास।"]);
        all_are_directives(&["不要删除日志文件。", "回答不要超过一百字。", "改用Postgres,而不是SQLite。"]);
        all_are_directives(&["ログは削除しないでください。", "試行は最大三回までです。"]);
        all_are_directives(&[
            "로그 파일을 삭제하지 마세요.",
            "Verwijder nooit de logbestanden.",
            "Nie usuwaj plików z logami.",
        ]);
        all_are_directives(&["Her zaman önce testleri çalıştırmalısın."]);
    }

    #[test]
    fn what_tells_or_asks_or_orders_once_is_no_rule() {
        for text in [
            "",
            "continue",
            "Fix the failing test and go on.",
            "I never knew that the parser was this slow.",
            "Why do we never see that message in the log?",
            "Don't worry, it works now.",
            "That must have been the cache.",
            "I can't wait to see it!",
            "Run the tests.",
            "Thanks, that looks good.",
            "Was hat der letzte Test ergeben?",
            "¿Qué dice el registro?",
            "看一下日志。",
        ] {
            assert!(!is_directive(text), "{text}");
        }
        assert!(is_directive("Could you please never touch that file?"), "asked for politely");
    }

    #[test]
    fn a_label_and_capitals_make_it_stronger() {
        assert!(is_directive("Goal: the importer reads every row."));
        assert!(is_directive("目标:启动更快"));
        assert!(strength("IMPORTANT: the office is closed") > strength("Important: the office is closed"));
        assert!(!is_directive("Melanie: the importer reads every row"), "a speaker");
    }

    #[test]
    fn a_sentence_is_found_in_a_long_text_and_a_dump_is_not_read() {
        let notes = "The meeting began at nine. ".repeat(200);
        assert_eq!(directives(&format!("{notes}Never touch the ledger. {notes}")).len(), 1);
        assert!(directives(&"must;".repeat(MAX_SENTENCE_BYTES)).is_empty());
    }

    #[test]
    fn what_a_harness_says_in_a_user_turn_is_not_the_users() {
        let said = "<system-reminder>Never mention this. You must not answer.</system-reminder>";
        assert!(!is_directive(said));
        assert_eq!(directives(&format!("Never push. {said} Always test.")).len(), 2);
        assert!(!is_directive("<task-notification>You must read it"), "never closed");
        assert!(is_directive("<rules>You must read it</rules>"), "the user's own tags");
    }

    #[test]
    fn packed_directives_are_read_as_they_were_found() {
        let found = directives("Never touch the ledger. Thanks. You must ask before each release!");
        assert_eq!(found.len(), 2);
        let mut packed = Vec::new();
        pack(&found, &mut packed);
        let again: Vec<Directive> =
            read(&packed).map(|(strength, subject)| Directive { strength, subject: subject.to_vec() }).collect();
        assert_eq!(again, found);
    }
}
