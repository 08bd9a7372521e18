//! Snippets: the part of a text around a query's matches, cut between sentences or lines.
//!
//! One pass over the text for the query's words, and a second one for the query as it is if it holds none of them. Both
//! are linear and may be interrupted: no lock is held here.
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::interrupt::{Pace, stretches};

/// About 200 tokens.
const SNIPPET_BYTES: usize = 800;
/// The distance that a cut may move to the end of a sentence.
const REACH_BYTES: usize = 200;
/// Bytes of a query that are looked for: a snippet shows less than that.
const QUERY_BYTES: usize = 4_096;

/// The bytes of `text` to show for `query`: all of a short text, else the stretch with most of the query's words, in
/// which rarer ones weigh more.
#[must_use]
pub fn snippet(text: &str, query: &str) -> Range<usize> {
    if text.len() <= SNIPPET_BYTES + REACH_BYTES {
        return 0..text.len();
    }
    let query = &query[..floor(query, QUERY_BYTES)];
    let mut wanted: FxHashMap<String, usize> = FxHashMap::default();
    for_each_word(query, |_, word| {
        let number = wanted.len();
        wanted.entry(word.to_owned()).or_insert(number);
    });
    let mut matches: Vec<Match> = Vec::new();
    let mut start = 0;
    for stretch in stretches(text) {
        for_each_word(stretch, |at, word| {
            matches.extend(wanted.get(word).map(|&word| Match { at: start + at, word }));
        });
        start += stretch.len();
    }
    if matches.is_empty() {
        matches.extend(find_lower(text, query.trim()).map(|at| Match { at, word: 0 }));
    }
    let Some(at) = densest(&matches) else { return cut(text, 0..SNIPPET_BYTES) };
    // A little of the text before it says what it is about.
    let start = at.saturating_sub(SNIPPET_BYTES / 4).min(text.len() - SNIPPET_BYTES);
    cut(text, start..start + SNIPPET_BYTES)
}

/// The place of the query itself in a text, in any case: Knuth, Morris and Pratt, over lower-cased characters, since
/// lower-casing changes lengths. No character is read twice.
fn find_lower(text: &str, query: &str) -> Option<usize> {
    let wanted: Vec<char> = query.chars().flat_map(char::to_lowercase).collect();
    if wanted.is_empty() {
        return None;
    }
    // The length of the part of `wanted` that still matches if another character follows this many of its characters.
    let mut still = vec![0; wanted.len()];
    let mut matched = 0;
    for at in 1..wanted.len() {
        while matched > 0 && wanted[at] != wanted[matched] {
            matched = still[matched - 1];
        }
        matched += usize::from(wanted[at] == wanted[matched]);
        still[at] = matched;
    }
    // The beginnings of the text's last characters.
    let mut begins = vec![0; wanted.len()];
    let mut pace = Pace::default();
    matched = 0;
    let letters = text.char_indices().flat_map(|(at, letter)| letter.to_lowercase().map(move |lower| (at, lower)));
    for (number, (at, letter)) in letters.enumerate() {
        pace.step();
        begins[number % wanted.len()] = at;
        while matched > 0 && letter != wanted[matched] {
            matched = still[matched - 1];
        }
        matched += usize::from(letter == wanted[matched]);
        if matched == wanted.len() {
            return Some(begins[(number + 1) % wanted.len()]);
        }
    }
    None
}

/// A word of the query if it is in a text.
struct Match {
    at: usize,
    /// The number of the word in the query.
    word: usize,
}

/// The first match of the stretch of a snippet's length with the greatest weight of different words.
fn densest(matches: &[Match]) -> Option<usize> {
    let words = matches.iter().map(|found| found.word + 1).max()?;
    let (mut counts, mut inside) = (vec![0_u32; words], vec![0_u32; words]);
    matches.iter().for_each(|found| counts[found.word] += 1);
    let reach = SNIPPET_BYTES * 3 / 4;
    let (mut best, mut first) = (0.0_f64, None);
    let (mut weight, mut end) = (0.0, 0);
    for start in matches {
        while end < matches.len() && matches[end].at < start.at + reach {
            let word = matches[end].word;
            inside[word] += 1;
            weight += if inside[word] == 1 { 1.0 / f64::from(counts[word]) } else { 0.0 };
            end += 1;
        }
        // As good and nearby: then the heaviest words are at the beginning, not just before the cut.
        let is_near = first.is_some_and(|first: usize| start.at < first + reach);
        if weight > best + 1e-9 || (is_near && weight > best - 1e-9) {
            (best, first) = (weight, Some(start.at));
        }
        inside[start.word] -= 1;
        weight -= if inside[start.word] == 0 { 1.0 / f64::from(counts[start.word]) } else { 0.0 };
    }
    first
}

/// `range` with both ends moved to the ends of sentences or lines nearby, else to white space, else between characters.
fn cut(text: &str, range: Range<usize>) -> Range<usize> {
    let start = if range.start == 0 { 0 } else { boundary(text, range.start.saturating_sub(REACH_BYTES / 2)) };
    let end = if range.end >= text.len() { text.len() } else { boundary(text, range.end - REACH_BYTES / 2) };
    start..end.max(start)
}

/// The first place from `from` on at which something ends, within reach.
fn boundary(text: &str, from: usize) -> usize {
    let from = floor(text, from);
    let window = &text[from..floor(text, (from + REACH_BYTES).min(text.len()))];
    let mut letters = window.char_indices().peekable();
    let mut blank = None;
    while let Some((at, letter)) = letters.next() {
        let next_is_blank = letters.peek().is_none_or(|(_, next)| next.is_whitespace());
        let after = at + letter.len_utf8();
        if letter == '\n' || matches!(letter, '。' | '！' | '？') {
            return from + after;
        }
        if matches!(letter, '.' | '!' | '?') && next_is_blank {
            return from + after + letters.peek().map_or(0, |(_, next)| next.len_utf8());
        }
        if letter.is_whitespace() && blank.is_none() {
            blank = Some(from + after);
        }
    }
    blank.unwrap_or(from)
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Call `found` with each lower-cased word and where it begins: runs of letters and digits, and CJK characters one by one.
fn for_each_word(text: &str, mut found: impl FnMut(usize, &str)) {
    let bytes = text.as_bytes();
    let mut word = String::new(); // one for all: most words of a text are none of the query's
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        word.clear();
        while let Some(&byte) = bytes.get(at) {
            if byte.is_ascii() {
                if !byte.is_ascii_alphanumeric() {
                    break;
                }
                word.push(char::from(byte.to_ascii_lowercase()));
                at += 1;
                continue;
            }
            let Some(letter) = text[at..].chars().next().filter(|letter| letter.is_alphanumeric()) else { break };
            let is_alone = crate::analysis::scripts::is_unspaced(letter);
            if is_alone && !word.is_empty() {
                break;
            }
            word.extend(letter.to_lowercase());
            at += letter.len_utf8();
            if is_alone {
                break;
            }
        }
        if at > start {
            found(start, &word);
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_its_own_snippet() {
        assert_eq!(snippet("short", "query"), 0..5);
    }

    #[test]
    fn a_snippet_shows_where_the_words_are_and_is_cut_between_sentences() {
        let filler = "Nothing of interest is said here. ".repeat(60);
        let text = format!("{filler}The deployment key rotates on Fridays. {filler}");
        let range = snippet(&text, "when does the deployment key rotate?");
        let shown = &text[range.clone()];
        assert!(shown.contains("deployment key rotates on Fridays"), "{shown}");
        assert!(shown.starts_with(char::is_uppercase) && shown.trim_end().ends_with('.'), "{shown}");
        assert!(range.len() < SNIPPET_BYTES + 2 * REACH_BYTES);
    }

    #[test]
    fn rare_words_weigh_more_than_common_ones() {
        let text = format!("{} zebra {}", "the cat sat. ".repeat(100), "the cat sat. ".repeat(100));
        assert!(text[snippet(&text, "the cat zebra")].contains("zebra"));
    }

    #[test]
    fn signs_and_scripts_are_shown_too() {
        let text = format!("{}x->next = 0; {}", "word ".repeat(300), "word ".repeat(300));
        assert!(text[snippet(&text, "->")].contains("->"));
        let text = format!("{}我喜欢记忆。{}", "天气很好。".repeat(200), "天气很好。".repeat(200));
        assert!(text[snippet(&text, "记忆")].contains("记忆"));
        let text = "İ".repeat(2000) + "needle" + &"ß".repeat(2000);
        assert!(text[snippet(&text, "NEEDLE")].contains("needle"));
    }

    #[test]
    fn the_query_is_found_where_the_plain_search_finds_it() {
        let plain = |text: &str, query: &str| {
            let wanted: Vec<char> = query.chars().flat_map(char::to_lowercase).collect();
            let letters: Vec<(usize, char)> =
                text.char_indices().flat_map(|(at, c)| c.to_lowercase().map(move |lower| (at, lower))).collect();
            let is_here = |window: &&[(usize, char)]| window.iter().map(|(_, c)| c).eq(&wanted);
            letters.windows(wanted.len()).find(is_here).map(|window| window[0].0)
        };
        let texts = ["aabaabaaab", "ABABABC", "xİxiİß", "--- -- ----", "", "é\u{301}É"];
        let queries = ["a", "aab", "aaab", "ababc", "i\u{307}", "----", "-- -", "É", "xyz", "ß"];
        for text in texts {
            for query in queries {
                assert_eq!(find_lower(text, query), plain(text, query), "{query:?} in {text:?}");
            }
        }
    }

    #[test]
    fn a_long_query_that_nearly_matches_everywhere_takes_a_pass_and_not_one_for_each_place() {
        // Trying each place would take 32 billion comparisons: minutes, while a pass takes a moment.
        let query = "-".repeat(QUERY_BYTES);
        let text = ("-".repeat(QUERY_BYTES - 1) + " ").repeat(2_000) + &query;
        assert!(text[snippet(&text, &query)].ends_with('-'));
        assert_eq!(find_lower(&text, &query), Some(text.len() - query.len()));
    }

    #[test]
    fn a_query_without_an_end_is_looked_for_by_its_beginning() {
        let text = format!("{}needle{}", "hay ".repeat(2_000), " hay".repeat(2_000));
        let query = format!("needle {}", "thread ".repeat(100_000));
        assert!(text[snippet(&text, &query)].contains("needle"));
    }

    #[test]
    fn every_query_on_every_text_cuts_between_characters() {
        for text in ["é".repeat(3000), "\u{1F600} ".repeat(900), "a\n".repeat(1500), "字".repeat(1000)] {
            for query in ["", "é", "a", "\u{1F600}", "字", "zzz", "."] {
                let range = snippet(&text, query);
                assert!(text.get(range.clone()).is_some_and(|shown| !shown.is_empty()), "{range:?}");
            }
        }
    }
}
