//! The order of a transcript whose lines do not name a parent: calls before their results.
use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

/// The facts that decide the place of a line.
#[derive(Clone, Debug, Default)]
pub struct CallLine {
    pub is_assistant: bool,
    /// The number of its message, which other lines may have too.
    pub message: usize,
    /// The numbers of the calls that it makes and answers.
    pub calls: Vec<usize>,
    pub answers: Vec<usize>,
}

/// The places of the lines in their order, except that no result is before its call's message, and no other message of
/// the assistant is between a call and its result.
///
/// The first line stays the first: units begin in the order of the file.
#[must_use]
pub fn calls_first(lines: &[CallLine]) -> Vec<usize> {
    let mut order = Order::of(lines);
    for (number, line) in lines.iter().enumerate() {
        if !order.waiting.is_empty() && line.is_assistant && order.calls.contains_key(&line.message) {
            order.put_off.push_back(number);
            continue;
        }
        order.come_to(number);
        while order.waiting.is_empty() {
            let Some(late) = order.put_off.pop_front() else { break };
            order.come_to(late);
        }
    }
    while let Some(late) = order.put_off.pop_front() {
        order.come_to(late);
    }
    order.placed
}

struct Order<'a> {
    lines: &'a [CallLine],
    /// The calls of each message that is not placed yet.
    calls: FxHashMap<usize, Vec<usize>>,
    later: FxHashSet<usize>,
    /// The number of results of each call that are not placed yet.
    to_come: FxHashMap<usize, usize>,
    /// Calls that are placed, with a result to come.
    waiting: FxHashSet<usize>,
    /// Lines by the call that they wait for.
    held: FxHashMap<usize, Vec<usize>>,
    /// Lines of messages that wait until no call does.
    put_off: VecDeque<usize>,
    placed: Vec<usize>,
}

impl<'a> Order<'a> {
    fn of(lines: &'a [CallLine]) -> Self {
        let mut calls: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        let mut to_come: FxHashMap<usize, usize> = FxHashMap::default();
        for line in lines {
            if line.is_assistant {
                calls.entry(line.message).or_default().extend(&line.calls);
            }
            for answer in &line.answers {
                *to_come.entry(*answer).or_default() += 1;
            }
        }
        Self {
            lines,
            later: calls.values().flatten().copied().collect(),
            calls,
            to_come,
            waiting: FxHashSet::default(),
            held: FxHashMap::default(),
            put_off: VecDeque::new(),
            placed: Vec::with_capacity(lines.len()),
        }
    }

    /// Place a line, or hold it until its next call is there.
    fn place(&mut self, number: usize) {
        let line = &self.lines[number];
        let waits = line.answers.iter().find(|answer| self.later.contains(answer));
        if let Some(call) = waits.filter(|_| !self.placed.is_empty() && !line.is_assistant) {
            self.held.entry(*call).or_default().push(number);
            return;
        }
        self.placed.push(number);
        for answer in &line.answers {
            if let Some(count) = self.to_come.get_mut(answer) {
                *count = count.saturating_sub(1);
            }
        }
        for answer in &line.answers {
            if self.to_come.get(answer).is_none_or(|count| *count == 0) {
                self.waiting.remove(answer);
            }
        }
    }

    /// Place a line, and the lines that waited for it.
    fn come_to(&mut self, number: usize) {
        self.place(number);
        let line = &self.lines[number];
        if !line.is_assistant {
            return;
        }
        let made = self.calls.remove(&line.message).unwrap_or_default();
        for call in &made {
            self.later.remove(call);
        }
        for call in &made {
            if self.to_come.get(call).is_some_and(|count| *count > 0) {
                self.waiting.insert(*call);
            }
        }
        let late: Vec<usize> = made.iter().filter_map(|call| self.held.remove(call)).flatten().collect();
        for number in late {
            self.place(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(is_assistant: bool, message: usize, calls: &[usize], answers: &[usize]) -> CallLine {
        CallLine { is_assistant, message, calls: calls.into(), answers: answers.into() }
    }

    #[test]
    fn a_result_waits_for_its_call_and_other_messages_for_the_result() {
        let user = |message| line(false, message, &[], &[]);
        let result = |message, call| line(false, message, &[], &[call]);
        let call = |message, call| line(true, message, &[call], &[]);
        let cases = [
            (vec![user(0), result(1, 7), call(2, 7)], vec![0, 2, 1]),
            (vec![user(0), call(1, 7), line(true, 2, &[], &[]), result(3, 7)], vec![0, 1, 3, 2]),
            // A message of several lines is one.
            (vec![user(0), call(1, 7), result(2, 7), call(1, 8), result(3, 8)], vec![0, 1, 2, 3, 4]),
            // The first line stays the first.
            (vec![result(0, 7), call(1, 7)], vec![0, 1]),
        ];
        for (lines, order) in cases {
            assert_eq!(calls_first(&lines), order, "{lines:?}");
        }
    }
}
