//! Matching of Anthropic's calls and results, turn by turn.
use std::collections::BTreeMap;

use super::anthropic::{Block, Kind, Message};
use super::ledger::{Ledger, Waiting};
use super::{Violation, broken};

/// The calls and results of the turns so far.
#[derive(Default)]
pub struct Pairing<'a> {
    pub found: Vec<Violation>,
    ledger: Ledger<'a>,
    /// The calls of the turn before: how many of each index.
    waiting: Waiting<'a, BTreeMap<usize, usize>>,
    /// The index of each server's call that runs.
    of_server: Waiting<'a, usize>,
}

impl<'a> Pairing<'a> {
    /// Take a turn of the assistant.
    pub fn assistant_turn(&mut self, messages: &[&'a Message]) {
        self.settle();
        for block in messages.iter().flat_map(|message| &message.blocks) {
            self.call(block);
        }
    }

    /// Take a turn of the user.
    pub fn user_turn(&mut self, messages: &[&'a Message]) {
        let mut only_results = true;
        let mut answering = None; // the message that holds the results of this turn
        for message in messages {
            for block in &message.blocks {
                if block.kind != Kind::ToolResult {
                    only_results = false;
                    continue;
                }
                let Some(answer) = &block.id else { continue }; // reported as missing_id
                if !self.answer(block.index, answer) {
                    continue;
                }
                let holder = *answering.get_or_insert(message.index);
                if !only_results {
                    let end = "' must come before all other blocks";
                    self.found.push(broken!(block.index, "results_not_first", "the result of '", answer, end));
                } else if holder != message.index {
                    let end = format!("' must be in message {holder}");
                    self.found.push(broken!(block.index, "results_not_together", "the result of '", answer, &end));
                }
            }
        }
        // A turn of nothing but results may be the list's end: an open loop so far.
        if !only_results {
            self.settle();
            for (call, index) in self.of_server.take() {
                let (begin, end) = ("no result of the server's tool for '", "' before the user's next turn");
                self.found.push(broken!(index, "unanswered_tool_call", begin, call, end));
            }
        }
    }

    /// Report the calls that can no longer be answered.
    pub fn settle(&mut self) {
        for (call, indices) in self.waiting.take() {
            let all = indices.into_iter().flat_map(|(index, count)| std::iter::repeat_n(index, count));
            let end = "' has no tool_result in the next message";
            self.found.extend(all.map(|index| broken!(index, "unanswered_tool_call", "tool_use '", call, end)));
        }
    }

    fn call(&mut self, block: &'a Block) {
        match &block.kind {
            Kind::ToolUse | Kind::ServerToolUse | Kind::McpToolUse => {
                let Some(call) = &block.id else { return }; // reported as missing_id
                if self.ledger.call(call) {
                    self.found.push(broken!(block.index, "duplicate_id", "tool_use id '", call, "' was used before"));
                }
                if block.kind == Kind::ToolUse {
                    *self.waiting.entry(call).entry(block.index).or_insert(0) += 1;
                } else {
                    *self.of_server.entry(call) = block.index;
                }
            }
            Kind::ServerResult(kind) => {
                let Some(call) = block.id.as_ref().filter(|call| self.ledger.knows(call)) else {
                    let what = "no server tool call before this ";
                    self.found.push(broken!(block.index, "server_result_without_call", what, kind));
                    return;
                };
                if self.ledger.answer(call) {
                    self.found.push(broken!(block.index, "duplicate_result", "a second ", kind, " for '", call, "'"));
                }
                self.of_server.remove(call);
            }
            _ => {}
        }
    }

    /// Whether this result answers a call of the turn before.
    fn answer(&mut self, index: usize, answer: &'a [u8]) -> bool {
        if self.ledger.answer(answer) {
            self.found.push(broken!(index, "duplicate_result", "a second tool_result for '", answer, "'"));
            return false;
        }
        let Some(calls) = self.waiting.get_mut(answer).filter(|calls| !calls.is_empty()) else {
            let end = "' in the message before this result";
            self.found.push(broken!(index, "tool_result_without_call", "no tool_use '", answer, end));
            return false;
        };
        // The latest call before it, as in grouping: merged lines may bring in a later one.
        let latest = calls.range(..index).next_back().or_else(|| calls.last_key_value()).map(|(call, _)| *call);
        if let Some(call) = latest
            && let Some(count) = calls.get_mut(&call)
        {
            *count -= 1;
            if *count == 0 {
                calls.remove(&call);
            }
        }
        true
    }
}
