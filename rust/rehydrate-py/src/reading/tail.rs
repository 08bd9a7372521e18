//! The cut of a conversation: a summary takes the place of the head, and the tail stays word for word.
use pyo3::prelude::*;
use rehydrate_core::conversation::Role;
use rustc_hash::FxHashSet;

use super::columns::Columns;
use super::conversation::Conversation;

/// The least size of a tail.
struct Least<'a> {
    messages: usize,
    tokens: i64,
    /// The tokens of each entry, by its index; empty if no tokens are needed.
    counts: &'a [i64],
}

/// The unit with which the shortest tail begins that is large enough and may begin so. Never the first.
fn tail_start(of: &Columns, least: &Least<'_>, can_begin: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut messages, mut tokens) = (0, 0);
    (1..of.unit_len()).rev().find(|&unit| {
        let members = of.units.members(unit);
        messages += members.len();
        let counts = members.iter().map(|&at| least.counts.get(of.of.rows[at].index).copied().unwrap_or_default());
        tokens += counts.sum::<i64>();
        messages >= least.messages && (least.tokens == 0 || tokens >= least.tokens) && can_begin(unit)
    })
}

/// Whether a unit begins with the user's words.
fn begins_user_turn(of: &Columns, unit: usize) -> bool {
    of.opens_with_user(unit) && of.units.members(unit).iter().any(|&at| of.of.rows[at].is_user_turn)
}

fn begins_with_assistant(of: &Columns, unit: usize) -> bool {
    of.units.members(unit).first().is_some_and(|&at| of.role(at) == Role::Assistant)
}

/// The messages before a unit, unit after unit.
fn head(of: &Columns, unit: usize) -> impl Iterator<Item = usize> {
    (0..unit).flat_map(|unit| of.units.members(unit)).copied()
}

/// Whether the provider needs one of these messages in its place.
fn is_bound(conversation: &Conversation, mut indices: impl Iterator<Item = usize>) -> bool {
    let bound: FxHashSet<usize> = conversation.facts.bound.iter().copied().collect();
    indices.any(|index| bound.contains(&index))
}

/// The index of the first message that stays: at least the last `keep_last` do, with at least this many tokens.
///
/// They begin with a plain user turn, or with a message of the assistant if no such turn has anything before it, as in
/// a long job. No tool pair is split. None if that leaves nothing before, or if the provider needs the messages before.
#[pyfunction]
pub fn first_kept(conversation: &Conversation, keep_last: usize, tokens: Vec<i64>, least_tokens: i64) -> Option<usize> {
    let of = &conversation.columns;
    let least = Least { messages: keep_last, tokens: least_tokens, counts: &tokens };
    let unit = tail_start(of, &least, |unit| begins_user_turn(of, unit))
        .or_else(|| tail_start(of, &least, |unit| begins_with_assistant(of, unit)))?;
    let index = |at: usize| of.of.rows[at].index;
    let is_something = head(of, unit).any(|at| of.role(at) != Role::System);
    (is_something && !is_bound(conversation, head(of, unit).map(index))).then(|| index(of.units.members(unit)[0]))
}

/// The index of the message with which a tail of at least the last `keep_last` messages and a plain user turn begins,
/// and the indices of the messages before it, unit after unit. None if a summary can replace nothing.
#[pyfunction]
pub fn head_and_tail(conversation: &Conversation, keep_last: usize) -> Option<(usize, Vec<usize>)> {
    let of = &conversation.columns;
    let least = Least { messages: keep_last, tokens: 0, counts: &[] };
    let unit = tail_start(of, &least, |unit| begins_user_turn(of, unit))?;
    let index = |at: usize| of.of.rows[at].index;
    let said: Vec<usize> = head(of, unit).filter(|&at| of.role(at) != Role::System).map(index).collect();
    let can_go = !said.is_empty() && !is_bound(conversation, said.iter().copied());
    can_go.then(|| (index(of.units.members(unit)[0]), said))
}
