//! The lines of what is left out of a conversation that together say most of what is to be asked for.
//!
//! A line is chosen as a message is: by the worth of the names and numbers in it (coverage.rs) that neither a shown text nor a
//! better line does, for each of its tokens. So a name comes with the line that says what it was for.
use std::collections::{BinaryHeap, HashMap};

use crate::analysis::features::{
    Class, DIGIT, JOINER, OTHER_ALNUM, UNDERSCORE, UPPER, WORD, char_class, mentions, runs, without_number,
};
use crate::analysis::stems::is_stop_word;
use crate::conversation::unit::PieceKind;
use crate::interrupt::checkpoint;
use crate::scoring::coverage::worth;
use crate::tokens::Counter;

/// Characters of a line; a longer one is shown in parts.
const MAX_CHARS: usize = 80;
/// Tokens of what is written around a line: its end, and most often a reference.
const FRAME_TOKENS: u32 = 3;
const MIN_SPOKEN_CHARS: usize = 3;
const MIN_TOPIC_CHARS: usize = 5;
/// A longer one is a sentence, in a script that puts no spaces between words.
const MAX_TOPIC_CHARS: usize = 20;

/// One text of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    pub text: &'a str,
    pub kind: PieceKind,
    /// The unit it is part of, ascending.
    pub unit: usize,
    /// Whether it is still there: what it mentions is not looked for.
    pub shown: bool,
}

/// A line, or a part of a long one, and the text that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub line: &'a str,
    pub text: usize,
}

/// At most `limit` lines of what is not shown, each the best beside those before it; of equal ones the newest. Where no
/// line mentions anything more, the words that people often spoke of are looked for: what a chat was about is what it
/// comes back to.
#[must_use]
pub fn lines<'a>(texts: &[Text<'a>], limit: usize) -> Vec<Line<'a>> {
    let mut mentioned: Table<u32> = Table::default();
    let mut spoken: Table<&str> = Table::default();
    let mut candidates: Vec<Candidate<'a>> = Vec::new();
    for (position, part) in texts.iter().enumerate().filter(|(_, part)| part.kind != PieceKind::Thinking) {
        checkpoint();
        let is_said = part.kind == PieceKind::Text;
        parts(part.text, |line| {
            let mut candidate = Candidate { line, text: position, mentioned: Vec::new(), spoken: Vec::new() };
            // Of lines as such only few are asked for again, and a conversation is full of them.
            for mention in mentions(line).iter().filter(|mention| mention.class != Class::Line) {
                candidate.mentioned.push(mentioned.note(mention.hash, mention.class, part));
            }
            if is_said || part.shown {
                scan_spoken(line, is_said, |word| candidate.spoken.push(spoken.note(word, Class::Name, part)));
            }
            if !part.shown && !(candidate.mentioned.is_empty() && candidate.spoken.is_empty()) {
                candidates.push(candidate);
            }
        });
    }
    let newest = texts.last().map_or(0, |part| part.unit);
    let mut found = Vec::new();
    greedy(&candidates, &mut mentioned.worths(newest, 1), |each| &each.mentioned, limit, &mut found);
    // A word spoken of once may be a slip of the pen.
    let mut words = spoken.worths(newest, 2);
    found.iter().flat_map(|&n: &usize| &candidates[n].spoken).for_each(|&word| words[word] = 0.0);
    greedy(&candidates, &mut words, |each| &each.spoken, limit, &mut found);
    found.into_iter().map(|n| Line { line: candidates[n].line, text: candidates[n].text }).collect()
}

struct Candidate<'a> {
    line: &'a str,
    text: usize,
    /// What it mentions, by number.
    mentioned: Vec<usize>,
    /// The words in it that people speak of, by number.
    spoken: Vec<usize>,
}

/// Append to `found` the candidates that are worth most for their tokens, the best first, until there are `limit`; what
/// they mention is worth nothing afterwards.
fn greedy<'a>(
    candidates: &[Candidate<'a>],
    worths: &mut [f64],
    mentioned: impl for<'c> Fn(&'c Candidate<'a>) -> &'c Vec<usize>,
    limit: usize,
    found: &mut Vec<usize>,
) {
    let rate = |candidate: &Candidate<'a>, worths: &[f64]| {
        let worth = mentioned(candidate).iter().fold(0.0, |sum, &id| sum + worths[id]);
        // The bits of numbers from 0 up are in the order of the numbers.
        (worth / f64::from(FRAME_TOKENS + Counter::Chars.count(candidate.line))).to_bits()
    };
    let rated = candidates.iter().enumerate().map(|(n, candidate)| (rate(candidate, worths), n));
    let mut heap: BinaryHeap<(u64, usize)> = rated.filter(|&(rate, _)| rate > 0).collect();
    while found.len() < limit
        && let Some((_, n)) = heap.pop()
    {
        let now = (rate(&candidates[n], worths), n);
        if heap.peek().is_some_and(|&next| next > now) {
            // Worth less since it was rated: a better line mentions some of it.
            heap.extend((now.0 > 0).then_some(now));
        } else if now.0 > 0 {
            mentioned(&candidates[n]).iter().for_each(|&id| worths[id] = 0.0);
            found.push(n);
        }
    }
}

/// What a conversation mentions, numbered in the order of first mentions.
struct Table<K> {
    numbers: HashMap<K, usize>,
    seen: Vec<Seen>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), seen: Vec::new() }
    }
}

struct Seen {
    class: Class,
    /// The last unit, and how many there are.
    unit: usize,
    units: u32,
    uses: u32,
    acted_on: bool,
    shown: bool,
}

impl<K: std::hash::Hash + Eq> Table<K> {
    /// Note a mention, and return its number.
    fn note(&mut self, key: K, class: Class, by: &Text<'_>) -> usize {
        let new = self.seen.len();
        let number = *self.numbers.entry(key).or_insert(new);
        if number == new {
            self.seen.push(Seen { class, unit: usize::MAX, units: 0, uses: 0, acted_on: false, shown: false });
        }
        let seen = &mut self.seen[number];
        seen.class = seen.class.min(class);
        seen.units += u32::from(seen.unit != by.unit);
        seen.unit = by.unit;
        seen.uses += 1;
        seen.acted_on |= by.kind == PieceKind::ToolInput;
        seen.shown |= by.shown;
        number
    }

    /// What each is worth, by number; nothing where it is shown or in fewer than `least` places.
    fn worths(&self, newest: usize, least: u32) -> Vec<f64> {
        let of = |seen: &Seen| {
            let counts = !seen.shown && seen.uses >= least;
            if counts { worth(seen.class, seen.acted_on, seen.units, newest - seen.unit) } else { 0.0 }
        };
        self.seen.iter().map(of).collect()
    }
}

/// Call `take` with the lines of a text, without the numbers of an editor; with a long one in parts, cut where no name
/// is. A run that is longer than a part names nothing.
fn parts<'a>(text: &'a str, mut take: impl FnMut(&'a str)) {
    for line in text.lines().map(|line| without_number(line).trim()) {
        let (mut start, mut end, mut chars, mut at) = (0, 0, 0, 0);
        while at < line.len() {
            let (class, length) = char_class(line, at);
            at += length;
            chars += 1;
            if class & (WORD | JOINER) == 0 {
                end = at;
            }
            if chars < MAX_CHARS || at == line.len() {
                continue;
            }
            if end > start {
                take(line[start..end].trim());
                at = end;
            } else {
                checkpoint();
                while at < line.len() && char_class(line, at).0 & (WORD | JOINER) != 0 {
                    at += char_class(line, at).1;
                }
            }
            (start, end, chars) = (at, at, 0);
        }
        take(line[start..].trim());
    }
}

/// Call `emit` with each word in `line` that people may speak of, with repeats; where it is not `said`, with each word.
fn scan_spoken<'a>(line: &'a str, is_said: bool, mut emit: impl FnMut(&'a str)) {
    runs(line, |run, classes| {
        let (start, word) = (run.start, &line[run]);
        if classes & (JOINER | DIGIT | UNDERSCORE | OTHER_ALNUM) == 0
            && (!is_said || classes & UPPER == 0 && is_topic(word) || is_spoken(line, start, word))
        {
            emit(word);
        }
    });
}

/// Whether a word in small letters, or of a script that has no others, is long enough to say what was spoken of.
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

    fn listed<'a>(texts: &[Text<'a>]) -> Vec<&'a str> {
        lines(texts, 100).into_iter().map(|line| line.line).collect()
    }

    #[test]
    fn what_was_acted_on_comes_first_then_what_is_newest() {
        let texts = [
            text("old_one", PieceKind::Text, 0),
            text("acted_on", PieceKind::ToolInput, 1),
            text("new_one", PieceKind::ToolResult, 9),
        ];
        assert_eq!(listed(&texts), ["acted_on", "new_one", "old_one"]);
        assert_eq!(lines(&texts, 1), [Line { line: "acted_on", text: 1 }]);
    }

    #[test]
    fn a_line_is_chosen_for_what_no_better_line_and_no_shown_text_mentions() {
        let shown = Text { shown: true, ..text("still_here", PieceKind::Text, 1) };
        let gone = "still_here\ngone_now other_one\ngone_now\nand so on";
        assert_eq!(listed(&[text(gone, PieceKind::Text, 0), shown]), ["gone_now other_one"]);
    }

    #[test]
    fn of_equal_lines_the_newest_is_chosen() {
        let twice = [text("same_one", PieceKind::Text, 0), text("same_one", PieceKind::Text, 3)];
        assert_eq!(lines(&twice, 9), [Line { line: "same_one", text: 1 }]);
    }

    #[test]
    fn a_long_line_is_cut_where_no_name_is_and_an_editors_number_is_no_part_of_it() {
        let long = format!("    12\t{}", "src/some_name.rs, ".repeat(9) + &"x".repeat(300) + " the_end");
        let mut found = Vec::new();
        parts(&long, |part| found.push(part));
        assert!(found.iter().all(|part| part.chars().count() <= MAX_CHARS), "{found:?}");
        assert!(found[0].starts_with("src/some_name.rs, src") && found[0].ends_with("src/some_name.rs,"));
        assert_eq!(found.last(), Some(&"the_end"));
    }

    #[test]
    fn what_was_spoken_of_often_comes_behind_all_that_is_mentioned() {
        let chat = "It was Melanie.\nMelanie saw the_house.\nHer pottery, and with Caroline, Caroline!\nA pottery.";
        assert_eq!(listed(&[text(chat, PieceKind::Text, 0)])[0], "Melanie saw the_house.");
        assert!(listed(&[text(chat, PieceKind::Text, 0)]).iter().any(|line| line.contains("Caroline")));
        let shown = Text { shown: true, ..text("Caroline made pottery", PieceKind::ToolResult, 1) };
        assert!(!listed(&[text(chat, PieceKind::Text, 0), shown]).iter().any(|line| line.contains("a pottery")));
        let result = text("with the pottery\nand the pottery", PieceKind::ToolResult, 0);
        assert!(!listed(&[result]).contains(&"pottery"), "what tools return is not spoken");
    }

    #[test]
    fn what_the_model_thought_is_not_listed() {
        assert!(listed(&[text("a_secret_thought", PieceKind::Thinking, 0)]).is_empty());
    }
}
