//! A transcript of Claude Code is a tree: which of its lines the conversation went on from, and in which order.
//!
//! After a rewind the file holds what the user took back; results of parallel calls hang off the way; a line may be
//! written before its parent. The conversation is the way from the newest leaf to the root, with the other lines of its
//! messages and the results of its calls. A parent that is not in the file breaks the way: it goes on from the line before.
//! `tests/formats/reading_twin.py` has the algorithm in Python, and `tests/formats/test_transcript_tree.py` the law.
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::fields::{Fields, listed, text_of};
use super::strings::Id;
use super::transcript::{Kind, content_of, is_empty, is_of_subagent, kind_of};
use crate::interned::interned;

type Name = Vec<u8>;

/// Where a line hangs.
#[derive(Clone)]
enum Parent {
    /// On nothing that it names.
    None,
    /// On nothing: it is the first.
    Root,
    Named(Name),
}

/// A line that the model saw, as far as the tree asks.
#[derive(Default)]
struct Spoken {
    index: usize,
    is_assistant: bool,
    /// A text of the user's: only there a conversation begins, or is taken up again.
    is_prompt: bool,
    /// What a harness adds to what is before it.
    is_attached: bool,
    message: Option<Name>,
    calls: Vec<Name>,
    answers: Vec<Name>,
    source: Option<Name>,
    time: Option<String>,
}

impl Spoken {
    /// Whether somebody speaks with it, after what was said and answered before.
    fn is_turn(&self) -> bool {
        self.is_assistant || (self.answers.is_empty() && !self.is_attached)
    }
}

/// What a line hangs on, among the lines that the model saw.
#[derive(Clone, Copy, PartialEq)]
enum Above {
    Root,
    /// A line of this number.
    Spoken(usize),
    /// A line that is not in the file, by its number.
    Missing(usize),
    /// Nothing that is named; so many lines that the model saw are before the gap.
    Gap(usize),
}

/// The lines on the branch of the newest leaf, by index, in the order of the conversation; None where no line names
/// another: the order of the file is all there is.
pub fn branch_of(entries: &[Bound<'_, PyAny>]) -> PyResult<Option<Vec<usize>>> {
    let lines = read(entries)?;
    if !lines.named {
        return Ok(None);
    }
    let above = lines.above();
    Ok(Tree { spoken: &lines.spoken, above: &above.of, missing: &above.missing }.branch())
}

/// The indices of a transcript's lines that the conversation went on from, in its order; None where no line names
/// another.
#[pyfunction]
pub fn transcript_branch(entries: Vec<Bound<'_, PyAny>>) -> PyResult<Option<Vec<usize>>> {
    branch_of(&entries)
}

/// A line of any kind: its parent, and its number among those that the model saw.
struct Node {
    parent: Parent,
    spoken: Option<usize>,
    /// How many lines that the model saw are before it.
    rank: usize,
}

struct Lines {
    nodes: Vec<Node>,
    by_name: HashMap<Name, usize>,
    spoken: Vec<Spoken>,
    named: bool,
}

fn read(entries: &[Bound<'_, PyAny>]) -> PyResult<Lines> {
    let mut found: Vec<(Parent, Option<Spoken>, bool)> = Vec::with_capacity(entries.len());
    let mut by_name: HashMap<Name, usize> = HashMap::with_capacity(entries.len());
    let (mut has_main, mut has_sidechain) = (false, false);
    for (index, entry) in entries.iter().enumerate() {
        let py = entry.py();
        let entry = Fields::needed(entry, index, String::new)?;
        if let Some(name) = name_of(entry, interned!(py, "uuid"))? {
            match by_name.entry(name) {
                Occupied(_) => continue, // a resumed session repeats lines
                Vacant(place) => place.insert(found.len()),
            };
        }
        let spoken = spoken_of(entry, index)?;
        let is_sidechain = is_of_subagent(entry)?;
        has_main |= spoken.is_some() && !is_sidechain;
        has_sidechain |= is_sidechain;
        found.push((parent_of(entry)?, spoken, is_sidechain));
    }
    let mut lines = Lines { nodes: Vec::with_capacity(found.len()), by_name, spoken: Vec::new(), named: false };
    let mut numbers: Vec<Option<usize>> = Vec::with_capacity(found.len());
    for (parent, spoken, is_sidechain) in found {
        if is_sidechain && has_main {
            numbers.push(None);
            continue;
        }
        numbers.push(Some(lines.nodes.len()));
        let rank = lines.spoken.len();
        lines.named |= matches!(parent, Parent::Named(_));
        lines.nodes.push(Node { parent, spoken: spoken.is_some().then_some(rank), rank });
        lines.spoken.extend(spoken);
    }
    if has_sidechain && has_main {
        let by_name = std::mem::take(&mut lines.by_name);
        lines.by_name = by_name.into_iter().filter_map(|(name, at)| Some((name, numbers[at]?))).collect();
    }
    Ok(lines)
}

fn name_of<'py>(entry: Fields<'_, 'py>, key: &Bound<'py, PyString>) -> PyResult<Option<Name>> {
    let Some(text) = entry.text(key)? else { return Ok(None) };
    Ok(Some(Id::of(text)?.as_bytes().to_vec()))
}

fn parent_of(entry: Fields<'_, '_>) -> PyResult<Parent> {
    let py = entry.as_any().py();
    if let Some(parent) = name_of(entry, interned!(py, "parentUuid"))? {
        return Ok(Parent::Named(parent));
    }
    // The first line after a compaction names what is before it so.
    if let Some(parent) = name_of(entry, interned!(py, "logicalParentUuid"))? {
        return Ok(Parent::Named(parent));
    }
    let is_boundary =
        entry.text(interned!(py, "subtype"))?.is_some_and(|subtype| text_of(&subtype) == "compact_boundary");
    let key = interned!(py, "parentUuid");
    let is_root = !is_boundary && entry.get(key)?.is_none() && entry.has(key)?;
    Ok(if is_root { Parent::Root } else { Parent::None })
}

fn spoken_of(entry: Fields<'_, '_>, index: usize) -> PyResult<Option<Spoken>> {
    let py = entry.as_any().py();
    let kind = kind_of(entry)?;
    let Some(content) = content_of(entry, kind)? else { return Ok(None) };
    if is_empty(Some(&content))? {
        return Ok(None);
    }
    let mut of = Spoken { index, is_assistant: kind == Kind::Assistant, ..Spoken::default() };
    of.source = name_of(entry, interned!(py, "sourceToolUseID"))?;
    let time = entry.text(interned!(py, "timestamp"))?;
    of.time = time.and_then(|time| time.to_str().ok().map(str::to_owned));
    if of.is_assistant
        && let Some(message) = entry.get(interned!(py, "message"))?
        && let Some(message) = Fields::of(&message)
    {
        of.message = name_of(message, interned!(py, "id"))?;
    }
    let mut results = 0;
    for block in listed(Some(&content))? {
        let Some(block) = Fields::of(&block) else { continue };
        match block.kind()?.name().as_ref() {
            "tool_result" => {
                results += 1;
                of.answers.extend(name_of(block, interned!(py, "tool_use_id"))?);
            }
            kind if kind.ends_with("tool_use") => of.calls.extend(name_of(block, interned!(py, "id"))?),
            _ => {}
        }
    }
    let is_summary = entry.is_set(interned!(py, "isCompactSummary"))?;
    of.is_attached = kind == Kind::Queued || entry.is_set(interned!(py, "isMeta"))?;
    of.is_prompt = kind == Kind::User && results == 0 && !is_summary;
    Ok(Some(of))
}

/// Of a line whose way is being followed.
const ON_THE_WAY: Above = Above::Gap(usize::MAX);

struct AllAbove {
    /// Of each line that the model saw.
    of: Vec<Above>,
    /// Of each missing line how many lines that the model saw are before the first that hangs on it.
    missing: Vec<usize>,
}

impl Lines {
    /// What each line that the model saw hangs on, past the lines that it did not see.
    fn above(&self) -> AllAbove {
        let mut missing: HashMap<&[u8], usize> = HashMap::new();
        let mut ranks: Vec<usize> = Vec::new();
        let mut known: Vec<Option<Above>> = vec![None; self.nodes.len()];
        let mut of = vec![Above::Root; self.spoken.len()];
        for start in 0..self.nodes.len() {
            let (mut way, mut at) = (Vec::new(), start);
            let found = loop {
                let node = &self.nodes[at];
                match known[at] {
                    Some(ON_THE_WAY) => break Above::Gap(self.nodes[way.last().copied().unwrap_or(at)].rank),
                    Some(found) => break found,
                    None => known[at] = Some(ON_THE_WAY),
                }
                way.push(at);
                match &node.parent {
                    Parent::None => break Above::Gap(node.rank),
                    Parent::Root => break Above::Root,
                    Parent::Named(name) => match self.by_name.get(name) {
                        None => {
                            let next = ranks.len();
                            let number = *missing.entry(name).or_insert(next);
                            if number == next {
                                ranks.push(node.rank);
                            }
                            ranks[number] = ranks[number].min(node.rank);
                            break Above::Missing(number);
                        }
                        Some(&parent) if known[parent] == Some(ON_THE_WAY) => break Above::Gap(node.rank),
                        Some(&parent) => match self.nodes[parent].spoken {
                            Some(number) => break Above::Spoken(number),
                            None => at = parent,
                        },
                    },
                }
            };
            for at in way {
                known[at] = Some(found);
            }
            if let Some(number) = self.nodes[start].spoken {
                of[number] = found;
            }
        }
        AllAbove { of, missing: ranks }
    }
}

struct Tree<'a> {
    spoken: &'a [Spoken],
    above: &'a [Above],
    missing: &'a [usize],
}

impl Tree<'_> {
    fn branch(&self) -> Option<Vec<usize>> {
        let tip = self.tip()?;
        let (way, passed) = self.way(tip);
        let mut is_in = vec![false; self.spoken.len()];
        way.iter().for_each(|&at| is_in[at] = true);
        self.add_what_belongs(&way, &mut is_in);
        self.add_what_hangs_on_nothing_known(&passed, &mut is_in);
        Some(self.ordered(&way, &is_in).into_iter().map(|at| self.spoken[at].index).collect())
    }

    /// The newest line on which no other hangs: by time where all say theirs alike, else by place.
    ///
    /// The result of a parallel call may be written after what the model went on with: then that is the end.
    fn tip(&self) -> Option<usize> {
        let mut is_leaf = vec![true; self.spoken.len()];
        for above in self.above {
            if let Above::Spoken(parent) = above {
                is_leaf[*parent] = false;
            }
        }
        let mut leaves: Vec<usize> = (0..self.spoken.len()).filter(|&at| is_leaf[at]).collect();
        let times: Vec<&str> = leaves.iter().filter_map(|&at| self.spoken[at].time.as_deref()).collect();
        if times.len() == leaves.len() && times.iter().all(|time| time.len() == times[0].len()) {
            leaves.sort_by_key(|&at| (self.spoken[at].time.as_deref(), at));
        }
        let Some(&newest) = leaves.last() else { return self.spoken.len().checked_sub(1) };
        let unfinished = self.unfinished();
        let Some(message) = unfinished[newest] else { return Some(newest) };
        let mut known = vec![None; self.spoken.len()];
        let mut goes_on = |leaf: usize| self.goes_on_from(message, leaf, &unfinished, &mut known);
        leaves.iter().rev().copied().find(|&leaf| goes_on(leaf)).or(Some(newest))
    }

    /// Of each line the message that it belongs to with nothing behind it: a line of it, a result, what a harness added.
    fn unfinished(&self) -> Vec<Option<&Name>> {
        let mut known: Vec<Option<Option<&Name>>> = vec![None; self.spoken.len()];
        for start in 0..self.spoken.len() {
            let (mut path, mut at) = (Vec::new(), start);
            let found = loop {
                if let Some(found) = known[at] {
                    break found;
                }
                known[at] = Some(None);
                path.push(at);
                let line = &self.spoken[at];
                if line.is_assistant {
                    break line.message.as_ref();
                }
                match self.above[at] {
                    Above::Spoken(parent) if !line.is_turn() => at = parent,
                    _ => break None,
                }
            };
            path.iter().for_each(|&at| known[at] = Some(found));
        }
        known.into_iter().map(Option::flatten).collect()
    }

    /// Whether the way from a line passes a message after another turn.
    fn goes_on_from(
        &self,
        message: &Name,
        leaf: usize,
        unfinished: &[Option<&Name>],
        known: &mut [Option<bool>],
    ) -> bool {
        let (mut path, mut at) = (Vec::new(), leaf);
        let found = loop {
            if let Some(found) = known[at] {
                break found;
            }
            known[at] = Some(false); // a circle goes on from nothing
            path.push(at);
            let line = &self.spoken[at];
            if line.is_assistant && line.message.as_ref() == Some(message) {
                break false;
            }
            let Above::Spoken(parent) = self.above[at] else { break false };
            if line.is_turn() && unfinished[parent] == Some(message) {
                break true;
            }
            at = parent;
        };
        path.iter().for_each(|&at| known[at] = Some(found));
        found
    }

    /// The way from a line to the first one, and which missing lines it passed.
    fn way(&self, tip: usize) -> (Vec<usize>, Vec<bool>) {
        let mut free: Vec<usize> = (0..=self.spoken.len()).collect(); // free[n]: one more than a line below n that is not on it
        let mut passed = vec![false; self.missing.len()];
        let (mut way, mut next) = (Vec::new(), Some(tip));
        while let Some(at) = next {
            way.push(at);
            free[at + 1] = at;
            let is_on_way = |free: &[usize], at: usize| free[at + 1] != at + 1;
            next = match self.above[at] {
                Above::Spoken(parent) if !is_on_way(&free, parent) => Some(parent),
                Above::Root if self.spoken[at].is_prompt => None,
                Above::Missing(number) => {
                    // Behind a result it was a call, and what else hangs on it are other calls and results.
                    passed[number] = self.spoken[at].is_turn();
                    before(&mut free, self.missing[number])
                }
                Above::Gap(rank) => before(&mut free, rank),
                _ => before(&mut free, at),
            };
        }
        (way, passed)
    }

    /// Add the other lines of the messages on the way, results of their calls, and what a harness adds to any of these.
    fn add_what_belongs(&self, way: &[usize], is_in: &mut [bool]) {
        let spoken = self.spoken;
        let messages: HashSet<&Name> = way.iter().filter_map(|&at| spoken[at].message.as_ref()).collect();
        let answered: HashSet<&Name> = way.iter().flat_map(|&at| &spoken[at].answers).collect();
        for at in 0..spoken.len() {
            let follows =
                || matches!(self.above[at], Above::Spoken(parent) if is_in[parent] && spoken[parent].is_assistant);
            let belongs = spoken[at].message.as_ref().map_or_else(follows, |message| messages.contains(message));
            is_in[at] |= spoken[at].is_assistant && belongs;
        }
        let calls: HashSet<&Name> =
            (0..spoken.len()).filter(|&at| is_in[at]).flat_map(|at| &spoken[at].calls).collect();
        for at in 0..spoken.len() {
            let answers = spoken[at].answers.iter().any(|answer| calls.contains(answer) && !answered.contains(answer));
            is_in[at] |= answers || spoken[at].source.as_ref().is_some_and(|source| calls.contains(source));
        }
        for at in 0..spoken.len() {
            let is_below = matches!(self.above[at], Above::Spoken(parent) if is_in[parent]);
            is_in[at] |= spoken[at].is_attached && is_below;
        }
    }

    /// Add lines of which nobody can tell that they were taken back: they hang on a line that is missing.
    fn add_what_hangs_on_nothing_known(&self, passed: &[bool], is_in: &mut [bool]) {
        let mut stays: Vec<Option<bool>> = is_in.iter().map(|&is_in| is_in.then_some(false)).collect();
        for start in 0..self.spoken.len() {
            let (mut path, mut at) = (Vec::new(), start);
            let found = loop {
                if let Some(found) = stays[at] {
                    break found;
                }
                stays[at] = Some(true); // a circle names nothing known
                path.push(at);
                match self.above[at] {
                    Above::Spoken(parent) => at = parent,
                    Above::Root => break false,
                    // With a result nobody takes up a conversation: its call is missing too.
                    Above::Missing(number) => break !passed[number] || !self.spoken[at].is_turn(),
                    Above::Gap(_) => break true,
                }
            };
            path.iter().for_each(|&at| stays[at] = Some(found));
        }
        for (at, is_in) in is_in.iter_mut().enumerate() {
            *is_in |= stays[at] == Some(true);
        }
    }

    /// The order of the file, but for a line before its parent, and for a result after what the model went on with.
    fn ordered(&self, way: &[usize], is_in: &[bool]) -> Vec<usize> {
        let mut hung: HashMap<usize, Vec<usize>> = HashMap::new();
        let next_turns = self.next_turns(way);
        let mut place_on_way: HashMap<usize, usize> = HashMap::new();
        way.iter().enumerate().for_each(|(place, &at)| {
            place_on_way.insert(at, place);
        });
        // Per line off the way, the place on it where it hangs.
        let mut places: Vec<Option<Option<usize>>> = vec![None; self.spoken.len()];
        for start in (0..self.spoken.len()).filter(|&at| is_in[at]) {
            let (mut path, mut at) = (Vec::new(), start);
            let place = loop {
                if let Some(place) = place_on_way.get(&at) {
                    break Some(*place);
                }
                if let Some(place) = places[at] {
                    break place;
                }
                places[at] = Some(None);
                path.push(at);
                match self.above[at] {
                    Above::Spoken(parent) if is_in[parent] => at = parent,
                    _ => break None,
                }
            };
            for at in path {
                places[at] = Some(place);
                if let Some(turn) = place.and_then(|place| next_turns[place]) {
                    hung.entry(turn).or_default().push(at);
                }
            }
        }
        let mut is_out = vec![false; self.spoken.len()];
        let mut order = Vec::new();
        for start in (0..self.spoken.len()).filter(|&at| is_in[at]) {
            let mut stack = vec![(start, false)];
            while let Some((at, is_ready)) = stack.pop() {
                if is_ready {
                    order.push(at);
                    continue;
                }
                if std::mem::replace(&mut is_out[at], true) {
                    continue;
                }
                stack.push((at, true));
                // What is pushed last comes out first.
                stack.extend(hung.remove(&at).unwrap_or_default().into_iter().rev().map(|each| (each, false)));
                if let Above::Spoken(parent) = self.above[at]
                    && is_in[parent]
                {
                    stack.push((parent, false));
                }
            }
        }
        order
    }

    /// Per place on the way, the line with which the conversation goes on after that message and its results.
    fn next_turns(&self, way: &[usize]) -> Vec<Option<usize>> {
        let mut turns: Vec<Option<usize>> = vec![None; way.len()];
        let mut messages: Vec<Option<&Name>> = vec![None; way.len()];
        let mut current = None;
        for place in (0..way.len()).rev() {
            if self.spoken[way[place]].is_assistant {
                current = self.spoken[way[place]].message.as_ref();
            }
            messages[place] = current;
        }
        for place in 1..way.len() {
            let next = &self.spoken[way[place - 1]];
            let is_same = if next.is_assistant {
                next.message.as_ref() == messages[place]
            } else {
                next.is_attached || !next.answers.is_empty()
            };
            turns[place] = if is_same { turns[place - 1] } else { Some(way[place - 1]) };
        }
        turns
    }
}

/// The last line before the first `rank` that is not on the way.
fn before(free: &mut [usize], rank: usize) -> Option<usize> {
    let mut at = rank;
    while free[at] != at {
        free[at] = free[free[at]];
        at = free[at];
    }
    at.checked_sub(1)
}
