//! Why a unit was kept or dropped, in words, and the beginning of its text.
use pyo3::prelude::*;
use rehydrate_core::excerpts::grouped;
use rehydrate_core::selection::Selection;

use crate::reading::{Columns, is_space};

/// A unit repeats the kept ones if at most this share of its mentions is new.
const MAX_UNSAID: f64 = 0.25;
/// From this coverage on, memory counts as holding the text of a message.
const COVERED: f64 = 0.5;
const PREVIEW_CHARACTERS: usize = 160;

/// The common part of the reasons of all dropped units.
pub struct Dropping {
    free_tokens: u64,
    by_coverage: bool,
}

impl Dropping {
    /// `target_tokens` is any whole number of Python's.
    pub fn of(core: &Selection, target_tokens: &Bound<'_, PyAny>, by_coverage: bool) -> Self {
        let target: u64 = target_tokens.extract().unwrap_or(u64::MAX);
        Self { free_tokens: target.saturating_sub(core.pinned_tokens), by_coverage }
    }
}

/// Why a unit is kept that is not pinned. `reply` is the unit that the user answers.
pub fn why_kept(core: &Selection, unit: usize, reply: Option<usize>, by_coverage: bool) -> &'static str {
    if reply == Some(unit) {
        "reply that the user answers"
    } else if core.leader == Some(unit) {
        "a user turn must come first"
    } else if core.has_directive.get(unit) == Some(&true) {
        "rule of the user"
    } else if by_coverage {
        "worth its tokens"
    } else {
        "among the best scores"
    }
}

/// Why a unit of this many tokens is dropped.
pub fn why_dropped(dropping: &Dropping, tokens: i64, core: &Selection, unit: usize) -> String {
    let coverage = core.signals[core.best_message[unit]].coverage;
    let free = dropping.free_tokens;
    if u64::try_from(tokens).is_ok_and(|tokens| tokens > free) {
        return format!("needs {} tokens where {} are free", grouped(tokens.unsigned_abs()), grouped(free));
    }
    if coverage >= COVERED {
        return format!("memory covers {:.0}% of it", coverage * 100.0);
    }
    let reason = if !dropping.by_coverage {
        "others score higher"
    } else if core.unsaid[unit] <= MAX_UNSAID {
        "most of what it mentions is kept elsewhere"
    } else {
        "others are worth more per token"
    };
    reason.to_owned()
}

/// The beginning of each reason, a name for it, and a sentence without figures.
const SHORT: [(&str, &str, &str); 14] = [
    ("most of what it mentions is kept", "said elsewhere", "most of what it mentions is kept elsewhere"),
    ("others are worth more", "outbid", "others are worth more per token"),
    ("others score higher", "outscored", "others score higher"),
    ("needs ", "too big", "needs more tokens than are free"),
    ("memory covers ", "in memory", "memory holds most of it already"),
    ("worth its tokens", "worth it", "worth its tokens"),
    ("rule of the user", "user's rule", "rules of the user"),
    ("among the best scores", "best scores", "among the best scores"),
    ("a user turn must come first", "must lead", "a user turn must come first"),
    ("last user turn", "last user turn", "the user's last turn is always kept"),
    ("reply that the user", "reply", "the reply that the user answers is always kept"),
    ("open tool loop", "open loop", "a tool loop that goes on is always kept"),
    ("system", "system", "system messages are always kept"),
    ("pinned by the caller", "pinned", "pinned with --pin"),
];
/// The last of them is always kept.
const PINS: usize = 9;

/// A reason in a few words, in a sentence without figures, and whether it is about something that is always kept.
#[pyfunction]
pub fn short_reason(reason: &str) -> (String, String, bool) {
    let place = SHORT.iter().position(|(beginning, ..)| reason.starts_with(beginning));
    let (short, sentence) = place.map_or((reason, reason), |at| (SHORT[at].1, SHORT[at].2));
    (short.to_owned(), sentence.to_owned(), place.is_some_and(|at| at >= PINS))
}

/// The beginning of the first text of these messages that has one, on one line.
pub fn preview(of: &Columns, members: &[usize]) -> String {
    for (text, _) in members.iter().flat_map(|&at| of.pieces(at)) {
        let text = text.as_str();
        let end = text.char_indices().nth(4 * PREVIEW_CHARACTERS).map_or(text.len(), |(at, _)| at);
        let words: Vec<&str> = text[..end].split(is_space).filter(|word| !word.is_empty()).collect();
        if !words.is_empty() {
            return words.join(" ").chars().take(PREVIEW_CHARACTERS).collect();
        }
    }
    String::new()
}
