//! Messages into atomic units, a tool call with its results: `tests/golden/readings.jsonl` has the results.
use rustc_hash::FxHashMap;

use super::strings::Id;

/// The messages that are kept or dropped together. Units are ordered by their first messages.
#[derive(Clone)]
pub struct Units {
    unit_of: Vec<usize>,
    starts: Vec<usize>,
    members: Vec<usize>,
}

impl Units {
    /// `unit_of` each message, of this many units.
    pub fn new(unit_of: Vec<usize>, units: usize) -> Self {
        let mut starts = vec![0; units + 1];
        unit_of.iter().for_each(|&unit| starts[unit + 1] += 1);
        for unit in 0..units {
            starts[unit + 1] += starts[unit];
        }
        let mut next = starts.clone();
        let mut members = vec![0; unit_of.len()];
        for (at, &unit) in unit_of.iter().enumerate() {
            members[next[unit]] = at;
            next[unit] += 1;
        }
        Self { unit_of, starts, members }
    }

    /// Each message by itself.
    pub fn single(messages: usize) -> Self {
        Self::new((0..messages).collect(), messages)
    }

    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn unit_of(&self) -> &[usize] {
        &self.unit_of
    }

    /// The positions of a unit's messages, ascending.
    pub fn members(&self, unit: usize) -> &[usize] {
        &self.members[self.starts[unit]..self.starts[unit + 1]]
    }
}

/// Join each answer with its call, and the messages that `links` joins. `ids` are the calls and the answers of each
/// message, and `owners` the calls that a message belongs to, each with its place.
///
/// An answer belongs to the latest unanswered call of its id; else to the answered call; else to a later call.
pub fn group<'a>(
    messages: usize,
    ids: impl Iterator<Item = (&'a [Id], &'a [Id])>,
    owners: &[(usize, Id)],
    links: &[(usize, usize)],
) -> Units {
    let mut parent: Vec<usize> = (0..messages).collect();
    let mut calls_of: FxHashMap<&[u8], Calls> = FxHashMap::default();
    let mut early = Vec::new();
    for (position, (calls, answers)) in ids.enumerate() {
        for call in calls {
            calls_of.entry(call.as_bytes()).or_default().waiting.push(position);
        }
        for answer in answers {
            let of = calls_of.get_mut(answer.as_bytes());
            let answered = of.and_then(|of| {
                of.answered = of.waiting.pop().or(of.answered);
                of.answered
            });
            match answered {
                Some(call) => join(&mut parent, call, position),
                None => early.push((answer.as_bytes(), position)),
            }
        }
    }
    for (answer, position) in early {
        if let Some(&call) = calls_of.get(answer).and_then(|of| of.waiting.first()) {
            join(&mut parent, call, position);
        }
    }
    for (position, owner) in owners {
        let of = calls_of.get(owner.as_bytes());
        if let Some(call) = of.and_then(|of| of.answered.or(of.waiting.first().copied())) {
            join(&mut parent, call, *position);
        }
    }
    links.iter().for_each(|&(one, other)| join(&mut parent, one, other));
    let mut units = 0;
    let mut unit_of: Vec<usize> = Vec::with_capacity(messages);
    for position in 0..messages {
        let root = root(&mut parent, position);
        // A root is its unit's first message.
        unit_of.push(if root == position { units } else { unit_of[root] });
        units += usize::from(root == position);
    }
    Units::new(unit_of, units)
}

/// The calls of one id.
#[derive(Default)]
struct Calls {
    waiting: Vec<usize>,
    answered: Option<usize>,
}

fn root(parent: &mut [usize], mut position: usize) -> usize {
    while parent[position] != position {
        parent[position] = parent[parent[position]];
        position = parent[position];
    }
    position
}

fn join(parent: &mut [usize], one: usize, other: usize) {
    let (one, other) = (root(parent, one), root(parent, other));
    // The smaller is the root, so that units come out ordered by first member.
    parent[one.max(other)] = one.min(other);
}
