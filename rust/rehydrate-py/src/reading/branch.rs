//! A transcript of Claude Code is a tree: the lines that the conversation went on from, and their order.
//!
//! After a rewind the file holds what the user took back; results of parallel calls are off the main path; a line may
//! be written before its parent. The conversation is the path from the newest leaf to the root, with the other lines of
//! its messages and the results of its calls. A parent that is not in the file breaks the path: it goes on from the
//! line before. `tests/formats/tree_twin.py` has the algorithm in Python, and `tests/formats/test_transcript_tree.py`
//! the law.
mod tree;

use std::collections::hash_map::Entry::{Occupied, Vacant};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyString;
use rustc_hash::FxHashMap;

use self::tree::Tree;
use super::fields::{Fields, listed, text_of};
use super::strings::Numbers;
use super::transcript::{Kind, Line, is_of_subagent};
use crate::interned::interned;

/// The number of an id.
type Name = usize;

/// The parent of a line.
#[derive(Clone, Copy)]
enum Parent {
    /// It names no parent.
    None,
    /// It has no parent: it is the first.
    Root,
    Named(Name),
}

/// A line that the model saw, as far as the tree asks.
struct Spoken {
    is_assistant: bool,
    /// A text of the user: only there a conversation begins, or is resumed.
    is_prompt: bool,
    /// Added by a harness to the line before it.
    is_attached: bool,
    message: Option<Name>,
    calls: Vec<Name>,
    answers: Vec<Name>,
    source: Option<Name>,
    time: Option<PyBackedStr>,
}

impl Spoken {
    fn of(line: &Line<'_>, ids: &mut Numbers) -> PyResult<Self> {
        let py = line.entry.py();
        let entry = Fields::needed(&line.entry, line.index, String::new)?;
        let (mut calls, mut answers, mut results) = (Vec::new(), Vec::new(), 0);
        for block in listed(Some(&line.content))? {
            let Some(block) = Fields::of(&block) else { continue };
            match block.kind()?.name().as_ref() {
                "tool_result" => {
                    results += 1;
                    answers.extend(name_of(ids, block, interned!(py, "tool_use_id"))?);
                }
                kind if kind.ends_with("tool_use") => calls.extend(name_of(ids, block, interned!(py, "id"))?),
                _ => {}
            }
        }
        let is_summary = entry.is_set(interned!(py, "isCompactSummary"))?;
        Ok(Self {
            is_assistant: line.is_assistant(),
            is_prompt: line.kind == Kind::User && results == 0 && !is_summary,
            is_attached: line.kind == Kind::Queued || entry.is_set(interned!(py, "isMeta"))?,
            message: line.message.clone().map(|id| ids.of(id)).transpose()?,
            calls,
            answers,
            source: line.source.clone().map(|id| ids.of(id)).transpose()?,
            time: entry.text(interned!(py, "timestamp"))?.and_then(|time| PyBackedStr::try_from(time).ok()),
        })
    }

    /// Whether somebody speaks in it, after earlier words and answers.
    fn is_turn(&self) -> bool {
        self.is_assistant || (self.answers.is_empty() && !self.is_attached)
    }
}

/// The parent of a line, among the lines that the model saw.
#[derive(Clone, Copy, PartialEq)]
enum Above {
    Root,
    /// A line of this number.
    Spoken(usize),
    /// A line that is not in the file, by its number.
    Missing(usize),
    /// Nothing that is named. The number is that of the lines before the gap that the model saw.
    Gap(usize),
}

/// A line of any kind.
struct Node {
    parent: Parent,
    is_sidechain: bool,
    /// Its number among the lines that the model saw.
    spoken: Option<usize>,
    /// The number of lines before it that the model saw.
    rank: usize,
}

/// The lines of a file, of any kind, as a tree.
#[derive(Default)]
pub struct Nodes {
    ids: Numbers,
    by_name: FxHashMap<Name, usize>,
    of: Vec<Node>,
    /// Whether the lines of subagents do not count.
    without_sidechains: bool,
}

impl Nodes {
    /// Take the next line, and return its number. None if an earlier line has its name: a resumed session repeats
    /// lines.
    pub fn add(&mut self, entry: Fields<'_, '_>) -> PyResult<Option<usize>> {
        let number = self.of.len();
        if let Some(name) = name_of(&mut self.ids, entry, interned!(entry.as_any().py(), "uuid"))? {
            match self.by_name.entry(name) {
                Occupied(_) => return Ok(None),
                Vacant(place) => place.insert(number),
            };
        }
        let (parent, is_sidechain) = (parent_of(&mut self.ids, entry)?, is_of_subagent(entry)?);
        self.of.push(Node { parent, is_sidechain, spoken: None, rank: 0 });
        Ok(Some(number))
    }

    /// Whether a subagent wrote a line.
    pub fn is_sidechain(&self, node: usize) -> bool {
        self.of[node].is_sidechain
    }

    /// Leave out the lines of subagents.
    pub fn leave_out_sidechains(&mut self) {
        self.without_sidechains = true;
    }

    fn is_in(&self, node: &Node) -> bool {
        !(node.is_sidechain && self.without_sidechains)
    }

    /// The positions of the lines on the branch of the newest leaf, in the order of the conversation, among those that
    /// the model saw. None if no line names another: then there is only the order of the file.
    pub fn branch(mut self, lines: &[Line<'_>]) -> PyResult<Option<Vec<usize>>> {
        if !self.of.iter().any(|node| self.is_in(node) && matches!(node.parent, Parent::Named(_))) {
            return Ok(None);
        }
        let spoken = lines.iter().map(|line| Spoken::of(line, &mut self.ids)).collect::<PyResult<Vec<_>>>()?;
        let mut rank = 0;
        for (at, node) in self.of.iter_mut().enumerate() {
            node.rank = rank;
            if lines.get(rank).is_some_and(|line| line.node == at) {
                node.spoken = Some(rank);
                rank += 1;
            }
        }
        let above = self.above(spoken.len());
        Ok(Tree { spoken: &spoken, above: &above.of, missing: &above.missing }.branch())
    }

    /// The parent of each line that the model saw, past the lines that it did not see.
    fn above(&self, spoken: usize) -> AllAbove {
        let mut missing: FxHashMap<Name, usize> = FxHashMap::default();
        let mut ranks: Vec<usize> = Vec::new();
        let mut known: Vec<Option<Above>> = vec![None; self.of.len()];
        let mut of = vec![Above::Root; spoken];
        for start in (0..self.of.len()).filter(|&at| self.is_in(&self.of[at])) {
            let (mut way, mut at, mut circle) = (Vec::new(), start, None);
            let found = loop {
                let node = &self.of[at];
                match known[at] {
                    Some(found) => break found,
                    None => known[at] = Some(ON_THE_WAY),
                }
                way.push(at);
                match node.parent {
                    Parent::None => break Above::Gap(node.rank),
                    Parent::Root => break Above::Root,
                    Parent::Named(name) => match self.by_name.get(&name).filter(|&&at| self.is_in(&self.of[at])) {
                        None => {
                            let next = ranks.len();
                            let number = *missing.entry(name).or_insert(next);
                            if number == next {
                                ranks.push(node.rank);
                            }
                            ranks[number] = ranks[number].min(node.rank);
                            break Above::Missing(number);
                        }
                        Some(&parent) if known[parent] == Some(ON_THE_WAY) => {
                            circle = way.iter().position(|&at| at == parent);
                            break Above::Gap(node.rank);
                        }
                        Some(&parent) => match self.of[parent].spoken {
                            Some(number) => break Above::Spoken(number),
                            None => at = parent,
                        },
                    },
                }
            };
            for &at in &way {
                known[at] = Some(found);
            }
            // Each line of a circle has the gap before itself, unless the model saw the one that the walk began with.
            let circle: &[usize] = circle.and_then(|first| way.get(first..)).unwrap_or_default();
            for pair in circle.windows(2) {
                let spoken = self.of[circle[0]].spoken;
                known[pair[1]] = Some(spoken.map_or(Above::Gap(self.of[pair[0]].rank), Above::Spoken));
            }
            if let Some(number) = self.of[start].spoken {
                of[number] = if found == Above::Spoken(number) { self.gap_in_circle(start) } else { found };
            }
        }
        AllAbove { of, missing: ranks }
    }

    /// The gap before a line that hangs on itself, past lines that the model did not see.
    fn gap_in_circle(&self, start: usize) -> Above {
        let parent = |at: usize| match self.of[at].parent {
            Parent::Named(name) => self.by_name.get(&name).copied(),
            _ => None,
        };
        let mut last = start;
        while let Some(at) = parent(last).filter(|&at| at != start) {
            last = at;
        }
        Above::Gap(self.of[last].rank)
    }
}

fn name_of<'py>(ids: &mut Numbers, entry: Fields<'_, 'py>, key: &Bound<'py, PyString>) -> PyResult<Option<Name>> {
    entry.text(key)?.map(|name| ids.of(name)).transpose()
}

fn parent_of(ids: &mut Numbers, entry: Fields<'_, '_>) -> PyResult<Parent> {
    let py = entry.as_any().py();
    // The first line after a compaction names its parent in the second way.
    for key in [interned!(py, "parentUuid"), interned!(py, "logicalParentUuid")] {
        if let Some(parent) = name_of(ids, entry, key)? {
            return Ok(Parent::Named(parent));
        }
    }
    let is_boundary =
        entry.text(interned!(py, "subtype"))?.is_some_and(|subtype| text_of(&subtype) == "compact_boundary");
    let key = interned!(py, "parentUuid");
    let is_root = !is_boundary && entry.get(key)?.is_none() && entry.has(key)?;
    Ok(if is_root { Parent::Root } else { Parent::None })
}

/// Marks a line whose path is being followed.
const ON_THE_WAY: Above = Above::Gap(usize::MAX);

struct AllAbove {
    /// The line above each line that the model saw.
    of: Vec<Above>,
    /// For each missing line, the number of lines that the model saw before its first child.
    missing: Vec<usize>,
}
