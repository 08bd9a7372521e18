//! A text in at most this many tokens: cut by its kind, to the size that fills the room.
use super::code_points::{boundary, lossy};
use super::json::looks_like_json;
use super::json_lines::cap_json_lines;
use super::json_values::cap_json;
use super::kinds::{Kind, kind_of_lines};
use super::lines::{Excerpt, split};
use super::{code::cap_code, diff::cap_diff, list::cap_list, log::cap_log, matches::cap_matches};
use crate::interrupt::checkpoint;
use crate::tokens::Counter;

/// How a text is capped.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// In which its tokens are counted.
    pub counter: Counter,
    /// Tokens that it may have, with its notice.
    pub limit: i64,
    /// The part of these for the notice.
    pub notice: i64,
    /// The name of the tool that returned it.
    pub tool: &'a str,
    /// Rows of a list that is cut, from its start.
    pub rows: usize,
    /// Last lines of a log that is cut.
    pub log_lines: usize,
}

/// A text that is shown in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capped {
    /// The shown part, in code points.
    pub body: Vec<u32>,
    pub kind: Kind,
    /// Tokens that are left out.
    pub omitted: i64,
}

/// The text in at most the tokens of its limit, its notice included; None if it fits whole.
///
/// A capped text fits, so capping it again changes nothing, whatever it says. Takes time in proportion to the text.
#[must_use]
pub fn cap(text: &[u32], options: &Options<'_>) -> Option<Capped> {
    let tokens = |text: &[u32]| i64::from(options.counter.count(&lossy(text)));
    let total = tokens(text);
    if total <= options.limit {
        return None;
    }
    let room = options.limit - options.notice;
    let first_size = (room * text.len() as i64).div_euclid(total).clamp(1, text.len().max(1) as i64);
    let search = Search { room, length: text.len(), first_size: first_size as usize, tokens: &tokens };
    let mut cutter = Cutter { text, options, kind: None, is_json: looks_like_json(text) };
    let (kind, excerpt) = search
        .best(|size| cutter.cut(size))
        .or_else(|| search.best(|size| (Kind::Text, head(text, size))))
        .unwrap_or_else(|| (Kind::Text, Excerpt::default())); // each of its characters alone has too many tokens
    Some(Capped { body: excerpt.text, kind, omitted: (total - tokens(&excerpt.kept)).max(1) })
}

/// The size to which the largest must be cut so that all fit.
///
/// ```
/// assert_eq!(rehydrate_core::caps::fair_share(&[10, 200, 300], 210), 100);
/// ```
#[must_use]
pub fn fair_share(sizes: &[i64], room: i64) -> i64 {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let mut remaining = room;
    for (rank, &size) in sorted.iter().enumerate() {
        let share = remaining.div_euclid((sorted.len() - rank) as i64);
        if size > share {
            return share;
        }
        remaining -= size;
    }
    sorted.last().copied().unwrap_or_default()
}

/// The first `size` characters.
fn head(text: &[u32], size: usize) -> Excerpt {
    let head = &text[..boundary(text, size)];
    Excerpt { text: head.to_vec(), kept: head.to_vec() }
}

/// Cuts a text by its kind, which is found once.
struct Cutter<'a> {
    text: &'a [u32],
    options: &'a Options<'a>,
    is_json: bool,
    kind: Option<Kind>,
}

impl Cutter<'_> {
    /// The kind of the text, and its excerpt of about `size` characters.
    fn cut(&mut self, size: usize) -> (Kind, Excerpt) {
        let &Options { tool, rows, log_lines, .. } = self.options;
        if self.is_json {
            if let Ok(excerpt) = cap_json(self.text, size, rows) {
                return (Kind::Json, excerpt);
            }
            self.is_json = false;
        }
        let kind = *self.kind.get_or_insert_with(|| kind_of_lines(self.text, tool));
        if kind == Kind::Text {
            return (kind, head(self.text, size));
        }
        let lines = split(self.text);
        let excerpt = match kind {
            Kind::JsonLines => cap_json_lines(&lines, size, rows),
            Kind::Diff => cap_diff(&lines, size),
            Kind::Matches => cap_matches(&lines, size),
            Kind::List => cap_list(&lines, size, rows),
            Kind::Code => cap_code(&lines, size),
            Kind::Log => cap_log(&lines, size, log_lines),
            Kind::Json | Kind::Text => head(self.text, size),
        };
        (kind, excerpt)
    }
}

/// Searches for the size in characters whose excerpt has about `room` tokens.
///
/// An excerpt may have more tokens per character than the whole. So it is counted, and cut again with another size, a few
/// times. The whole is counted once.
struct Search<'a> {
    room: i64,
    length: usize,
    first_size: usize,
    tokens: &'a dyn Fn(&[u32]) -> i64,
}

impl Search<'_> {
    /// The largest excerpt that fits the room; None if none does.
    fn best(&self, mut cut: impl FnMut(usize) -> (Kind, Excerpt)) -> Option<(Kind, Excerpt)> {
        const MAX_TRIES: usize = 10;
        /// The share of the room from which an excerpt is full.
        const FULL: f64 = 0.9;
        /// The factor of each new size, so that the next excerpt is rather too small than too large.
        const MARGIN: f64 = 0.97;
        let mut best: Option<(i64, Kind, Excerpt)> = None;
        let (mut size, room) = (self.first_size, self.room as f64);
        for _ in 0..MAX_TRIES {
            checkpoint();
            let (kind, excerpt) = cut(size);
            let length = excerpt.text.len();
            if excerpt.kept.is_empty() || length > size {
                break;
            }
            let tokens = (self.tokens)(&excerpt.text);
            let share = room / tokens.max(1) as f64;
            if tokens > self.room {
                if best.is_some() {
                    break;
                }
                size = ((size as f64 * (share * MARGIN).min(MARGIN)) as usize).max(1);
                continue;
            }
            if best.as_ref().is_none_or(|&(most, _, _)| tokens > most) {
                best = Some((tokens, kind, excerpt));
            }
            // An excerpt much smaller than its size is limited by something else, such as rows.
            let is_full = tokens as f64 >= FULL * room || (length as f64) < FULL * size as f64;
            if is_full || size >= self.length {
                break;
            }
            size = self.length.min((size as f64 * share.min(2.0) * MARGIN) as usize);
        }
        best.map(|(_, kind, excerpt)| (kind, excerpt))
    }
}
