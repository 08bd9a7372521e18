//! The branch of the newest leaf among the lines that the model saw.
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Above, Name, Spoken};

/// The lines that the model saw, and what is above each of them.
pub struct Tree<'a> {
    pub spoken: &'a [Spoken],
    pub above: &'a [Above],
    pub missing: &'a [usize],
}

impl Tree<'_> {
    /// The lines on the branch of the newest leaf, in the order of the conversation. None without lines.
    pub fn branch(&self) -> Option<Vec<usize>> {
        let tip = self.tip()?;
        let (way, passed) = self.way(tip);
        let mut is_in = vec![false; self.spoken.len()];
        way.iter().for_each(|&at| is_in[at] = true);
        self.add_what_belongs(&way, &mut is_in);
        self.add_what_hangs_on_nothing_known(&passed, &mut is_in);
        Some(self.ordered(&way, &is_in))
    }

    /// The newest line without a child: by time if all lines have one in the same form, else by place.
    ///
    /// The result of a parallel call may be written after the message that the model went on with: then that is the
    /// end.
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

    /// For each line the message that it belongs to with nothing after it: a line of it, a result, a harness's
    /// addition.
    fn unfinished(&self) -> Vec<Option<Name>> {
        let mut known: Vec<Option<Option<Name>>> = vec![None; self.spoken.len()];
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
                    break line.message;
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
        message: Name,
        leaf: usize,
        unfinished: &[Option<Name>],
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
            if line.is_assistant && line.message == Some(message) {
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

    /// The path from a line to the first one, and the missing lines that it passed.
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
                    // After a result it was a call, and the other children of its line are other calls and results.
                    passed[number] = self.spoken[at].is_turn();
                    before(&mut free, self.missing[number])
                }
                Above::Gap(rank) => before(&mut free, rank),
                _ => before(&mut free, at),
            };
        }
        (way, passed)
    }

    /// Add the other lines of the messages on the path, results of their calls, and a harness's additions to any of
    /// these.
    fn add_what_belongs(&self, way: &[usize], is_in: &mut [bool]) {
        let spoken = self.spoken;
        let messages: FxHashSet<Name> = way.iter().filter_map(|&at| spoken[at].message).collect();
        let answered: FxHashSet<&Name> = way.iter().flat_map(|&at| &spoken[at].answers).collect();
        for at in 0..spoken.len() {
            let follows =
                || matches!(self.above[at], Above::Spoken(parent) if is_in[parent] && spoken[parent].is_assistant);
            let belongs = spoken[at].message.map_or_else(follows, |message| messages.contains(&message));
            is_in[at] |= spoken[at].is_assistant && belongs;
        }
        let calls: FxHashSet<&Name> =
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

    /// Add lines whose parent is missing: they may have been taken back or not.
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
                    // No one resumes a conversation with a result: its call is missing too.
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

    /// The order of the file, except for a line before its parent, and for a result after the message that the model
    /// went on with.
    fn ordered(&self, way: &[usize], is_in: &[bool]) -> Vec<usize> {
        let mut hung: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        let next_turns = self.next_turns(way);
        let mut place_on_way: FxHashMap<usize, usize> = FxHashMap::default();
        way.iter().enumerate().for_each(|(place, &at)| {
            place_on_way.insert(at, place);
        });
        // Per line off the path, the place on the path of its nearest ancestor.
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
                // Last in, first out.
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

    /// Per place on the path, the line with which the conversation goes on after that message and its results.
    fn next_turns(&self, way: &[usize]) -> Vec<Option<usize>> {
        let mut turns: Vec<Option<usize>> = vec![None; way.len()];
        let mut messages: Vec<Option<Name>> = vec![None; way.len()];
        let mut current = None;
        for place in (0..way.len()).rev() {
            if self.spoken[way[place]].is_assistant {
                current = self.spoken[way[place]].message;
            }
            messages[place] = current;
        }
        for place in 1..way.len() {
            let next = &self.spoken[way[place - 1]];
            let is_same = if next.is_assistant {
                next.message == messages[place]
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
