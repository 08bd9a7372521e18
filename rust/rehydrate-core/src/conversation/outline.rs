//! The names in the omitted part of a conversation, those most likely to be asked for first.
//!
//! A name here is a whole run as it was written, a path with all its folders: asking for it again needs its spelling.
//! Its worth is that of coverage.rs, so an outline lists first what a selection would miss most.
pub mod clean;
pub mod lines;
pub mod quoted;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::analysis::features::{
    DIGIT, JOINER, LOWER, MAX_RUN_BYTES, OTHER_ALNUM, UNDERSCORE, UPPER, WORD, char_class, is_joiner, runs,
};
use crate::analysis::stems::is_stop_word;
use crate::conversation::unit::PieceKind;
use crate::interrupt::checkpoint;
use crate::scoring::coverage::worth_of_name;

const MIN_CHARS: usize = 4;
const MIN_SPOKEN_CHARS: usize = 3;
const MIN_TOPIC_CHARS: usize = 5;
/// A longer one is a sentence, in a script that puts no spaces between words.
const MAX_TOPIC_CHARS: usize = 20;
/// Names of more segments are found only as a whole, so that the cost of a run stays in proportion to its length.
const MAX_SEGMENTS: usize = 8;

/// One text of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    pub text: &'a str,
    pub kind: PieceKind,
    /// The unit it is part of, ascending.
    pub unit: usize,
    /// Whether it is still there: its names are not listed.
    pub shown: bool,
}

/// A name and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub name: String,
    /// The last text that has it.
    pub last: usize,
    /// The last tool input that has it.
    pub acted: Option<usize>,
    /// Whether it is a word of conversation: a name of somebody or something, or a topic.
    pub spoken: bool,
}

/// The place of a name.
#[derive(Clone, Debug)]
struct Seen {
    last: usize,
    /// The unit of the last text.
    unit: usize,
    acted: Option<usize>,
    uses: u32,
    /// The number of units that have it.
    units: u32,
    spoken: bool,
    /// Its place in the order of all names' first mentions.
    number: usize,
}

/// The names in the texts of a conversation that are no longer there, as it grows: each text is read once.
#[derive(Debug, Default)]
pub struct Names {
    seen: HashMap<Box<str>, Seen>,
}

impl Names {
    /// Read a text; `position` is its number among all texts.
    pub fn read(&mut self, text: &str, kind: PieceKind, unit: usize, position: usize) {
        let Self { seen } = self;
        let acted = (kind == PieceKind::ToolInput).then_some(position);
        scan(text, kind == PieceKind::Text, |name, spoken| {
            let Some(known) = seen.get_mut(name) else {
                let number = seen.len();
                seen.insert(name.into(), Seen { last: position, unit, acted, uses: 1, units: 1, spoken, number });
                return;
            };
            known.units += u32::from(known.unit != unit);
            (known.last, known.unit) = (position, unit);
            known.acted = acted.or(known.acted);
            known.uses += 1;
            known.spoken &= spoken;
        });
    }

    /// The best `limit` of the names, without those that a shown text or a better name contains. Of equal worth, those
    /// used most come first, then those that came first. Words of conversation come after all others, those used most
    /// first: a chat comes back to what it was about. `newest` is the last unit.
    #[must_use]
    pub fn best<'a>(&self, shown: impl Iterator<Item = &'a str>, newest: usize, limit: usize) -> Vec<Name> {
        let is_there = self.in_shown(shown);
        let key = |seen: &Seen| {
            let worth = worth_of_name(seen.acted.is_some(), seen.units, newest - seen.unit);
            let worth = if seen.spoken { 0.0 } else { worth };
            (Reverse(seen.spoken), worth, seen.uses, Reverse(seen.number))
        };
        let gone = self.seen.iter().filter(|(_, seen)| !is_there[seen.number] && said_often(seen));
        let mut ranked: Vec<_> = gone.map(|(name, seen)| (key(seen), &**name, seen)).collect();
        ranked.sort_unstable_by(|(one, ..), (other, ..)| other.partial_cmp(one).expect("worths are numbers"));
        let mut listed = HashSet::new();
        let mut found = Vec::new();
        for (_, name, seen) in ranked {
            if found.len() == limit {
                break;
            }
            if listed.insert(name) {
                parts_of(name, |part| _ = listed.insert(part));
                found.push(Name { name: name.into(), last: seen.last, acted: seen.acted, spoken: seen.spoken });
            }
        }
        found
    }

    /// Tells for each name, by its number, whether one of these texts has it.
    fn in_shown<'a>(&self, shown: impl Iterator<Item = &'a str>) -> Vec<bool> {
        let mut is_there = vec![false; self.seen.len()];
        let mut note = |name: &str| {
            if let Some(seen) = self.seen.get(name) {
                is_there[seen.number] = true;
            }
        };
        for text in shown {
            checkpoint();
            runs(text, |run, classes| {
                if run.len() <= MAX_RUN_BYTES && classes & WORD != 0 {
                    let name = name_at(text, &run);
                    note(name);
                    if classes & JOINER != 0 {
                        parts_of(name, &mut note);
                    }
                }
            });
        }
        is_there
    }
}

/// The best `limit` of the names in the hidden texts: see [`Names::best`].
#[must_use]
pub fn names(texts: &[Text<'_>], limit: usize) -> Vec<Name> {
    let mut names = Names::default();
    let said = texts.iter().enumerate().filter(|(_, part)| part.kind != PieceKind::Thinking);
    for (position, part) in said.clone().filter(|(_, part)| !part.shown) {
        checkpoint();
        names.read(part.text, part.kind, part.unit, position);
    }
    let shown = said.filter(|(_, part)| part.shown).map(|(_, part)| part.text);
    names.best(shown, texts.last().map_or(0, |part| part.unit), limit)
}

/// A word spoken of once may be a slip of the pen.
fn said_often(seen: &Seen) -> bool {
    !seen.spoken || seen.uses > 1
}

/// Call `emit` with each name in `text`, with repeats, and whether it is a word of conversation. These are only looked
/// for in what people say, not in tool results.
fn scan<'a>(text: &'a str, is_said: bool, mut emit: impl FnMut(&'a str, bool)) {
    runs(text, |run, classes| {
        if run.len() > MAX_RUN_BYTES || classes & WORD == 0 {
            return;
        }
        let name = name_at(text, &run);
        if is_name(name) {
            // In speech well-known is a word; in a command it may be a package.
            emit(name, is_said && name.chars().all(|c| c.is_lowercase() || c == '-'));
        } else if is_said && classes & (JOINER | DIGIT | UNDERSCORE | OTHER_ALNUM) == 0 {
            let (start, word) = (run.start, &text[run]);
            let is_topic = classes & UPPER == 0 && is_topic(word);
            if is_topic || is_spoken(text, start, word) {
                emit(word, true);
            }
        }
    });
}

/// The name in a run, without the punctuation of its sentence and with the sign for a home folder before it.
fn name_at<'a>(text: &'a str, run: &Range<usize>) -> &'a str {
    let start = if text[..run.start].ends_with('~') { run.start - 1 } else { run.start };
    text[start..run.end].trim_end_matches(['.', '-']).trim_start_matches('-')
}

/// Call `take` with each part of a name between its joiners, of one segment or some.
fn parts_of<'a>(name: &'a str, mut take: impl FnMut(&'a str)) {
    let ends: Vec<usize> = name.match_indices(is_joiner).map(|(at, _)| at).chain([name.len()]).collect();
    let starts = std::iter::once(0).chain(ends.iter().map(|end| end + 1));
    for (segment, start) in starts.enumerate().take(ends.len()) {
        ends[segment..].iter().take(MAX_SEGMENTS).for_each(|&end| take(&name[start..end]));
    }
}

/// Whether a run is a path, an identifier, an id or a number: it has a digit, a hump, a joiner or an underscore between
/// word characters, or it begins at the root.
fn is_name(run: &str) -> bool {
    let (mut before, mut joined, mut chars, mut at, mut is_name) = (0, false, 0, 0, run.starts_with('/'));
    while at < run.len() {
        let (class, length) = char_class(run, at);
        let is_word = class & WORD != 0;
        let underscore = run.as_bytes()[at] == b'_';
        is_name |= class & DIGIT != 0 || (before & LOWER != 0 && class & UPPER != 0) || (joined && is_word);
        joined = (underscore || !is_word) && (before & WORD != 0);
        before = class;
        chars += 1;
        at += length;
    }
    chars >= MIN_CHARS && is_name
}

/// Whether a word in small letters, or of a script that has no others, is long enough to be a topic.
fn is_topic(word: &str) -> bool {
    (MIN_TOPIC_CHARS..=MAX_TOPIC_CHARS).contains(&word.chars().count()) && !is_stop_word(word)
}

/// Whether a word is capitalised though the sentence began before it.
fn is_spoken(text: &str, start: usize, word: &str) -> bool {
    let mut chars = word.chars();
    let is_capitalised = chars.next().is_some_and(char::is_uppercase) && chars.all(char::is_lowercase);
    if !is_capitalised || word.chars().count() < MIN_SPOKEN_CHARS {
        return false;
    }
    let Some(before) = text[..start].strip_suffix(' ') else { return false };
    before.chars().next_back().is_some_and(|last| last.is_lowercase() || last == ',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, kind: PieceKind, unit: usize) -> Text<'_> {
        Text { text, kind, unit, shown: false }
    }

    fn listed(texts: &[Text<'_>]) -> Vec<String> {
        names(texts, 100).into_iter().map(|name| name.name).collect()
    }

    #[test]
    fn names_are_whole_runs_as_they_were_written() {
        let said = "See ~/app/main.py, /etc/hosts and --dry-run; snake_case, userName, HAT017 or 2024-05-20. Not this.";
        let found = listed(&[text(said, PieceKind::ToolResult, 0)]);
        let mut sorted = found;
        sorted.sort();
        assert_eq!(
            sorted,
            ["/etc/hosts", "2024-05-20", "HAT017", "dry-run", "snake_case", "userName", "~/app/main.py"]
        );
    }

    #[test]
    fn what_was_acted_on_comes_first_then_what_is_newest() {
        let texts = [
            text("old_one acted_on", PieceKind::Text, 0),
            text("Read acted_on", PieceKind::ToolInput, 1),
            text("new_one", PieceKind::ToolResult, 9),
        ];
        assert_eq!(listed(&texts), ["acted_on", "new_one", "old_one"]);
        assert_eq!(names(&texts, 1)[0].acted, Some(1));
    }

    #[test]
    fn names_that_are_still_there_are_not_listed() {
        let shown = Text { shown: true, ..text("still_here", PieceKind::Text, 1) };
        assert_eq!(listed(&[text("still_here gone_now", PieceKind::Text, 0), shown]), ["gone_now"]);
    }

    #[test]
    fn a_name_is_not_listed_where_a_shown_text_or_a_better_name_has_it_as_a_part() {
        let shown = Text { shown: true, ..text("/home/me/src/rows.py:12 and user.userName.", PieceKind::Text, 1) };
        let gone = text("src/rows.py rows.py rows_of.py userName", PieceKind::Text, 0);
        assert_eq!(listed(&[gone, shown]), ["rows_of.py"]);
        let better = [text("rows.py other.py", PieceKind::Text, 0), text("src/rows.py", PieceKind::ToolInput, 1)];
        assert_eq!(listed(&better), ["src/rows.py", "other.py"]);
    }

    #[test]
    fn what_is_spoken_of_comes_behind_all_names() {
        let chat =
            "It was Melanie, with the pottery, and Melanie saw the_house. Her pottery, Melanie! A well-known pot.";
        let found = names(&[text(chat, PieceKind::Text, 0)], 9);
        let shown: Vec<_> = found.iter().map(|name| (name.name.as_str(), name.spoken)).collect();
        assert_eq!(shown, [("the_house", false), ("Melanie", true), ("pottery", true)]);
        let result = text("with the pottery and the pottery", PieceKind::ToolResult, 0);
        assert!(listed(&[result]).is_empty(), "what tools return is not spoken");
    }

    #[test]
    fn what_the_model_thought_names_nothing() {
        assert!(listed(&[text("a_secret_thought", PieceKind::Thinking, 0)]).is_empty());
    }
}
