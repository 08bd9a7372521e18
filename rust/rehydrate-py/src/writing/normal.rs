//! Neutral messages as every provider accepts them: with ids that all accept, and each result right after its call.
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::conversation::{Role, Spoken, in_place};

use super::neutral::{Answer, Key, Message, Part, Sources, key_of};
use crate::reading::Source;

/// Take the media out of results at the end that others of their turn still follow. If the provider accepts no media in
/// a result, they come after all results: sent now, they would be in the way of the next one, and change the prefix.
pub fn hold_media_back(messages: &mut [Message<'_>]) -> PyResult<()> {
    let Some((last, before)) = messages.split_last_mut() else { return Ok(()) };
    let answered = last.answers().map(|answer| key_of(answer.id.as_ref())).collect::<PyResult<HashSet<_>>>()?;
    let mut is_whole = true;
    for call in before.last().into_iter().flat_map(Message::calls) {
        is_whole &= answered.contains(&key_of(call.id.as_ref())?);
    }
    for part in last.parts.iter_mut().filter(|_| !is_whole) {
        if let Part::Result(answer) = part {
            answer.parts.retain(|part| !matches!(part, Part::Media(_)));
        }
    }
    Ok(())
}

/// Normalise ids to those that every provider accepts, and put each result right after its call.
///
/// A result belongs to the first call of its id without one, in the latest turn that has some. All results of an
/// assistant turn are in one message after it. A result without a call stays in place: it was broken before. A system
/// message never comes between a call and its results.
pub fn normalized<'py>(py: Python<'py>, mut messages: Vec<Message<'py>>) -> PyResult<Vec<Message<'py>>> {
    let (mut ids, mut before) = (Ids::default(), None);
    for message in &mut messages {
        ids.turn += usize::from(message.role == Role::Assistant && before != Some(Role::Assistant));
        before = Some(message.role);
        if message.entry.is_none() {
            let first = message.first();
            for part in &mut message.parts {
                ids.rename(py, part, first)?;
            }
        }
    }
    if messages.iter().any(|each| each.role == Role::System) {
        let spoken = messages.iter().map(spoken).collect::<PyResult<Vec<_>>>()?;
        let mut messages: Vec<_> = messages.into_iter().map(Some).collect();
        let placed = in_place(&spoken).into_iter().filter_map(|at| messages[at].take()).collect();
        return with_grouped_results(placed);
    }
    with_grouped_results(messages)
}

fn spoken(message: &Message<'_>) -> PyResult<Spoken<Key>> {
    Ok(Spoken {
        role: message.role,
        calls: message.calls().map(|call| key_of(call.id.as_ref())).collect::<PyResult<_>>()?,
        answers: message.answers().map(|answer| key_of(answer.id.as_ref())).collect::<PyResult<_>>()?,
    })
}

/// The ids of calls, each of them once.
#[derive(Default)]
struct Ids {
    taken: HashSet<String>,
    numbers: HashMap<String, usize>,
    /// The number of the assistant's turn.
    turn: usize,
    latest: HashMap<Key, Called>,
}

/// The new ids of the calls with one id in the latest turn that has some. Those with a result are gone, but for the
/// last.
#[derive(Default)]
struct Called {
    turn: usize,
    names: VecDeque<String>,
}

impl Ids {
    fn rename<'py>(&mut self, py: Python<'py>, part: &mut Part<'py>, source: usize) -> PyResult<()> {
        match part {
            Part::Call(call) => {
                let name = self.take(known_characters(call.id.as_ref(), source)?);
                let called = self.latest.entry(key_of(call.id.as_ref())?).or_default();
                if called.turn != self.turn {
                    *called = Called { turn: self.turn, names: VecDeque::new() };
                }
                called.names.push_back(name.clone());
                call.id = Some(PyString::new(py, &name));
            }
            Part::Result(answer) => {
                let name = match self.latest.get_mut(&key_of(answer.id.as_ref())?) {
                    Some(Called { names, .. }) if names.len() > 1 => names.pop_front(),
                    called => called.and_then(|called| called.names.front().cloned()),
                };
                let name = name.map_or_else(|| known_characters(answer.id.as_ref(), source), Ok)?;
                answer.id = Some(PyString::new(py, &name));
            }
            Part::Text(_) | Part::Media(_) => {}
        }
        Ok(())
    }

    /// The name, or the first with a number that is free.
    fn take(&mut self, wanted: String) -> String {
        let mut number = self.numbers.get(&wanted).copied().unwrap_or(1);
        let mut name = wanted.clone();
        while self.taken.contains(&name) {
            number += 1;
            name = format!("{wanted}-{number}");
        }
        self.numbers.insert(wanted, number);
        self.taken.insert(name.clone());
        name
    }
}

/// An id of the characters that every provider accepts, or one with the number of its entry if there is none.
fn known_characters(id: Option<&Bound<'_, PyString>>, source: usize) -> PyResult<String> {
    let id = id.map(|id| Source::of(id.clone())).transpose()?;
    let id = id.as_ref().map_or("", Source::as_str);
    if id.is_empty() {
        return Ok(format!("call_{source}"));
    }
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    Ok(id.chars().map(|c| if is_known(c) { c } else { '_' }).collect())
}

/// The results of one turn's calls, each with the entries that it is of.
type Results<'py> = Vec<(Answer<'py>, Sources)>;

fn with_grouped_results(messages: Vec<Message<'_>>) -> PyResult<Vec<Message<'_>>> {
    let mut run_of: HashMap<Key, usize> = HashMap::new();
    let (mut runs, mut before) = (Vec::with_capacity(messages.len()), None);
    let mut run = 0;
    for message in &messages {
        // Only the assistant's runs are joined: the borders of other runs make no difference.
        if before.is_some_and(|before| before != message.role) {
            run += 1;
        }
        before = Some(message.role);
        runs.push(run);
        if message.role == Role::Assistant {
            for call in message.calls() {
                run_of.insert(key_of(call.id.as_ref())?, run);
            }
        }
    }
    if run_of.is_empty() {
        return Ok(messages);
    }
    let calling: HashSet<usize> = run_of.values().copied().collect();
    let mut results: HashMap<usize, Results<'_>> = HashMap::new();
    let mut kept: Vec<Vec<Message<'_>>> = std::iter::repeat_with(Vec::new).take(run + 1).collect();
    for (message, run) in messages.into_iter().zip(runs) {
        kept[run].extend(without_results(message, &run_of, &mut results)?);
    }
    let mut gathered = Vec::new();
    for (run, here) in kept.into_iter().enumerate() {
        if calling.contains(&run) && here.len() > 1 {
            // Their results follow right after them.
            let sources: Sources = here.iter().flat_map(|each| each.sources.iter().copied()).collect();
            let parts = here.into_iter().flat_map(|each| each.parts).collect();
            gathered.push(Message::new(Role::Assistant, parts, sources));
        } else {
            gathered.extend(here);
        }
        if let Some(found) = results.remove(&run) {
            let sources: BTreeSet<usize> = found.iter().flat_map(|(_, sources)| sources.iter().copied()).collect();
            let parts = found.into_iter().map(|(answer, _)| Part::Result(answer)).collect();
            gathered.push(Message::new(Role::User, parts, sources.into_iter().collect()));
        }
    }
    Ok(gathered)
}

/// The message without results of known calls, which move to their turn. None if nothing is left.
fn without_results<'py>(
    mut message: Message<'py>,
    run_of: &HashMap<Key, usize>,
    results: &mut HashMap<usize, Results<'py>>,
) -> PyResult<Option<Message<'py>>> {
    if message.answers().next().is_none() {
        return Ok(Some(message));
    }
    let parts = std::mem::take(&mut message.parts);
    for part in parts {
        if let Part::Result(answer) = &part
            && let Some(run) = run_of.get(&key_of(answer.id.as_ref())?)
        {
            let Part::Result(answer) = part else { continue };
            results.entry(*run).or_default().push((answer, message.sources.clone()));
        } else {
            message.parts.push(part);
        }
    }
    Ok((!message.parts.is_empty()).then_some(message))
}
