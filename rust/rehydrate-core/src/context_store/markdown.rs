//! The store as markdown, within a budget of tokens.
//!
//! The state of the task comes first in the budget, then the working set: files, open errors and commands, the last first.
//! Preferences, the strongest first, decisions and notes follow; if the room of one is short, the others become one
//! line of handles. Names take what is left.
use std::cmp::Ordering;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::commands::Command;
use super::items::{ERROR, FILE, Item, PLAN, REQUEST, TASK};
use super::raw;
use super::reading::ContextStore;
use crate::batches;
use crate::engine::Engine;
use crate::notes::{Heading, NAMES};
use crate::tokens::Counter;

/// Files take at most a third of the room that the state of the task leaves, errors and commands a third of what is left
/// then.
const WORKING_SET_PART: i64 = 3;
/// Characters of one item; its handle leads to the rest.
const MAX_ITEM: i64 = 300;
const MAX_REQUEST: i64 = 1_200;

/// By how much they are worth, and whether they are the working set.
const BY_WORTH: [(Heading, bool); 6] = [
    (Heading::TaskState, false),
    (Heading::Files, true),
    (Heading::Context, true),
    (Heading::Preferences, false),
    (Heading::Decisions, false),
    (Heading::Context, false),
];

type Line = Vec<u8>;

/// The lines under each heading.
#[derive(Clone, Debug)]
pub struct Markdown {
    lines: [Vec<Line>; 5],
    counter: Counter,
}

impl ContextStore {
    /// The items in this many tokens, with the commands that were run.
    #[must_use]
    pub fn render(&self, mut room: i64, commands: &[&Command], counter: Counter) -> Markdown {
        let mut lines: [Vec<Line>; 5] = Default::default();
        for (heading, is_working_set) in BY_WORTH {
            let part = if is_working_set { room.div_euclid(WORKING_SET_PART) } else { room };
            let entries = self.entries(heading, part, commands, is_working_set);
            let mut written = within(part, &entries, counter);
            if is_working_set && heading == Heading::Context {
                let left = part - tokens(&written, counter);
                written.extend(self.ran(commands, left, counter));
            }
            if !written.is_empty() {
                let title = format!("## {}", heading.name()).into_bytes();
                room -= tokens(&[title], counter) + tokens(&written, counter);
                lines[heading as usize].append(&mut written);
            }
        }
        Markdown { lines, counter }
    }

    /// The entries and lines under a heading, the most useful first.
    fn entries(&self, heading: Heading, room: i64, commands: &[&Command], is_working_set: bool) -> Vec<(i64, Line)> {
        let longest = if heading == Heading::TaskState { room.min(MAX_REQUEST) } else { MAX_ITEM };
        let mut live: Vec<&Arc<Item>> = self.items.live(heading).collect();
        match heading {
            Heading::Files => live.sort_by_key(|item| std::cmp::Reverse((item.is_changed(), item.last_entry()))),
            Heading::TaskState => live.sort_by_key(|item| (!item.is(REQUEST), item.id)),
            _ => live.sort_by(|one, other| by_worth(other, one)),
        }
        if heading == Heading::Context {
            live.retain(|item| item.is(ERROR) == is_working_set);
        }
        let ran: FxHashMap<i64, &Command> = commands.iter().map(|command| (command.answered, *command)).collect();
        live.iter().map(|item| (item.span.entry, line(item, longest, ran.get(&item.span.entry).copied()))).collect()
    }

    /// The outcomes of commands, the last first, except those whose error is open.
    fn ran(&self, commands: &[&Command], mut room: i64, counter: Counter) -> Vec<Line> {
        let errors = self.items.live(Heading::Context).filter(|item| item.is(ERROR));
        let open: FxHashSet<i64> = errors.map(|item| item.span.entry).collect();
        let mut shown = Vec::new();
        for Command { text, outcome, answered } in commands.iter().copied().rev() {
            let handle = format!(" (#{answered})");
            let line = [b"- ran ", &**text, b": ", &**outcome, handle.as_bytes()].concat();
            room -= tokens(std::slice::from_ref(&line), counter);
            if room < 0 {
                break;
            }
            if !open.contains(answered) {
                shown.push(line);
            }
        }
        shown
    }
}

fn by_worth(one: &Item, other: &Item) -> Ordering {
    let by_trust = one.trust.partial_cmp(&other.trust).unwrap_or(Ordering::Equal);
    one.strength.cmp(&other.strength).then(by_trust).then(one.last_entry().cmp(&other.last_entry()))
}

fn line(item: &Item, longest: i64, ran: Option<&Command>) -> Line {
    if item.is(FILE) {
        let mut last: Vec<(&[u8], i64)> = Vec::new(); // of each use
        for (used, entry) in &item.uses {
            match last.iter_mut().find(|(known, _)| **known == **used) {
                Some((_, known)) => *known = *entry,
                None => last.push((used, *entry)),
            }
        }
        let uses = last.into_iter().map(|(used, entry)| [used, format!(" #{entry}").as_bytes()].concat());
        return [b"- ", &*item.text, b": ", &*uses.collect::<Vec<_>>().join(&b"; "[..])].concat();
    }
    let mut text = raw::flat(&item.text);
    if let Some(command) = ran.filter(|_| item.is(ERROR)) {
        text = [&*command.text, b": ", &*text].concat();
    }
    let mut mark = "";
    if raw::chars(&text) > longest {
        text.truncate(raw::byte_of(&text, (longest - 1).max(0) as usize));
        mark = "…";
    }
    let label = match &*item.kind {
        PLAN | TASK => "[ ] ",
        ERROR => "open error: ",
        _ => "",
    };
    let handle = format!("{mark} (#{})", item.span.entry);
    [b"- ", label.as_bytes(), &text, handle.as_bytes()].concat()
}

/// The lines that fit into this many tokens, each of an entry; the others become one line of handles.
#[must_use]
pub fn within(room: i64, entries: &[(i64, Line)], counter: Counter) -> Vec<Line> {
    const LEAST: i64 = 24;
    const BESIDE_HANDLES: i64 = 12;
    let mut left = room.saturating_sub(tokens(&[b"## heading".to_vec()], counter));
    let (mut shown, mut rest) = (Vec::new(), Vec::new());
    for (entry, line) in entries {
        if rest.is_empty() {
            let needed = tokens(std::slice::from_ref(line), counter);
            if needed <= left {
                left -= needed;
                shown.push(line.clone());
                continue;
            }
        }
        rest.push(*entry);
    }
    if rest.is_empty() || left <= 0 {
        return shown;
    }
    let count = rest.len();
    rest.sort_unstable();
    rest.dedup();
    let written = |entries: &[i64]| entries.iter().map(|entry| format!("#{entry}")).collect::<Vec<_>>().join(" ");
    let mut handles = &rest[..];
    let mut line = written(handles);
    while !handles.is_empty() && tokens(&[line.clone().into_bytes()], counter) > LEAST.max(left - BESIDE_HANDLES) {
        handles = &handles[handles.len() / 3 + 1..];
        line = format!("... {}", written(handles));
    }
    shown.push(format!("- {count} more: {line}").into_bytes());
    shown
}

/// The tokens of lines, each with its end.
fn tokens(lines: &[Line], counter: Counter) -> i64 {
    let read: Vec<_> = lines.iter().map(|line| raw::counted(line)).collect();
    let rows: Vec<_> = read.iter().map(|line| Some(&**line)).collect();
    let counts = batches::counts(Engine::shared(), &rows, counter);
    counts.into_iter().flatten().map(i64::from).sum::<i64>() + lines.len() as i64
}

impl Markdown {
    /// Without names.
    #[must_use]
    pub fn text(&self) -> Line {
        self.joined(None)
    }

    /// The number of tokens of `budget` that are left for names.
    #[must_use]
    pub fn room_for_names(&self, budget: i64) -> i64 {
        let title = format!("## {}", Heading::Context.name()).into_bytes();
        budget - tokens(&[self.text(), title, NAMES.into()], self.counter)
    }

    /// With names, and lines of them.
    #[must_use]
    pub fn with_names(&self, names: &[u8]) -> Line {
        self.joined((!names.is_empty()).then_some(names))
    }

    fn joined(&self, names: Option<&[u8]>) -> Line {
        let mut parts: Vec<&[u8]> = Vec::new();
        let titles = Heading::ALL.map(|heading| format!("## {}", heading.name()));
        for (heading, title) in Heading::ALL.into_iter().zip(&titles) {
            let lines = &self.lines[heading as usize];
            let names = names.filter(|_| heading == Heading::Context);
            if !lines.is_empty() || names.is_some() {
                parts.push(title.as_bytes());
                parts.extend(lines.iter().map(|line| &**line));
                parts.extend(names.map(|_| NAMES.as_bytes()));
                parts.extend(names);
            }
        }
        parts.join(&b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context_store::items::{Item, Span};

    #[test]
    fn what_does_not_fit_becomes_a_line_of_handles() {
        let entries: Vec<(i64, Line)> = (0..40).map(|entry| (entry % 20, b"- a few words".to_vec())).collect();
        let shown = within(30, &entries, Counter::Words);
        let last = String::from_utf8_lossy(shown.last().unwrap()).into_owned();
        assert!(shown.len() > 2 && last.starts_with(&format!("- {} more: ", 41 - shown.len())), "{last}");
        assert!(within(0, &entries, Counter::Words).is_empty());
    }

    #[test]
    fn the_strongest_is_first_and_names_come_last() {
        let mut store = ContextStore::default();
        for (strength, text) in [(2, "Use\n tabs."), (5, "Never push.")] {
            let text = text.as_bytes();
            let span = Span::of(strength, 0, 0, text);
            let item = Item::new(Heading::Preferences, b"preference", text, span, 1.0);
            store.items.add(Item { strength, ..item });
        }
        let error = Item::new(Heading::Context, ERROR, b"E: x", Span::of(7, 0, 0, b"E: x"), 0.5);
        store.items.add(error);
        let command = |answered| Command { text: b"make".to_vec(), outcome: b"ok".to_vec(), answered };
        let written = store.render(400, &[&command(4), &command(7)], Counter::Words);
        let text = String::from_utf8_lossy(&written.with_names(b"read: x")).into_owned();
        let lines = [
            "## Important Context",
            "- open error: make: E: x (#7)",
            "- ran make: ok (#4)",
            NAMES,
            "read: x",
            "## User Preferences",
            "- Never push. (#5)",
            "- Use tabs. (#2)",
        ];
        assert_eq!(text, lines.join("\n"));
        assert!(written.room_for_names(400) < 400);
    }
}
