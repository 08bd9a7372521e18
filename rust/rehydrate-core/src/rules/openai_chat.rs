//! The rules of OpenAI's chat completions.
//!
//! Ollama's calls have an object as their arguments and no id. Its results have no id either, only the name of the tool
//! (<https://docs.ollama.com/capabilities/tool-calling>, 2026-11). They are paired by name and order, and break no
//! rule.
use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::ledger::{Ledger, Waiting};
use super::plain;
use super::{Name, Violation, broken, by_index};

const ROLES: &str = "['assistant', 'developer', 'function', 'system', 'tool', 'user']";

/// The fields of a message that the rules read.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub of: plain::Message,
    pub speaker: Speaker,
}

/// The speaker, with the fields that are only read of that speaker's messages.
#[derive(Clone, Debug)]
pub enum Speaker {
    /// A tool: the id of the call that it answers, and the tool that it names.
    Tool { answer: Option<Name>, tool: Option<Name> },
    Other {
        calls: Vec<Call>,
        /// Whether it has a refusal, or speech.
        speaks_otherwise: bool,
        /// Whether its list of calls is empty.
        has_empty_calls: bool,
    },
}

impl Default for Speaker {
    fn default() -> Self {
        Self::Other { calls: Vec::new(), speaks_otherwise: false, has_empty_calls: false }
    }
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub enum Call {
    Of(Name),
    /// Ollama's, of this tool, with its own id or one that no provider makes: a result may name the tool alone.
    Ollama {
        id: Name,
        tool: Name,
    },
    /// It has no id.
    Nameless,
}

/// Every violation.
#[must_use]
pub fn violations(messages: &[Message]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut ledger = Ledger::default();
    let mut waiting: Waiting<'_, usize> = Waiting::default(); // the calls of the message that tool messages follow
    let mut ollamas = Ollamas::default();
    for message in messages {
        let index = message.of.index;
        found.extend(message.of.misplaced_pair());
        found.extend(message.of.unknown_role(ROLES));
        match &message.speaker {
            Speaker::Tool { answer, tool } => {
                let answer = answer.as_deref().or_else(|| ollamas.waiting_for(tool.as_deref()));
                match answer {
                    None => {
                        let what = "a tool message has no tool_call_id";
                        found.push(broken!(index, "tool_message_without_call", what));
                    }
                    Some(answer) => {
                        ollamas.remove(answer);
                        if ledger.answer(answer) {
                            let what = "a second tool message for '";
                            found.push(broken!(index, "duplicate_result", what, answer, "'"));
                        } else if waiting.remove(answer).is_none() {
                            let end = "' in the assistant message that this one follows";
                            found.push(broken!(index, "tool_message_without_call", "no tool call '", answer, end));
                        }
                    }
                }
                if message.of.is_null {
                    let what = "the content of a tool message is null";
                    found.push(broken!(index, "null_content_without_calls", what));
                }
            }
            Speaker::Other { calls, speaks_otherwise, has_empty_calls } => {
                for (call, asked) in waiting.take() {
                    let end = "' has no tool message directly after its message";
                    found.push(broken!(asked, "unanswered_tool_call", "tool call '", call, end));
                }
                if *has_empty_calls {
                    found.push(broken!(index, "empty_tool_calls", "tool_calls is an empty list; leave it out"));
                }
                if message.of.is_null && calls.is_empty() && !speaks_otherwise {
                    let what = "content is null, which only an assistant message with tool calls may have";
                    found.push(broken!(index, "null_content_without_calls", what));
                }
                ollamas = Ollamas::of(calls);
                for id in ids(calls) {
                    ledger.call(id);
                    if waiting.get_mut(id).is_some() {
                        let end = "' is in one message twice";
                        found.push(broken!(index, "duplicate_id", "tool call id '", id, end));
                    }
                    *waiting.entry(id) = index;
                }
                let nameless = calls.iter().filter(|call| matches!(call, Call::Nameless));
                found.extend(nameless.map(|_| broken!(index, "missing_id", "a tool call has no id")));
            }
        }
    }
    by_index(found)
}

/// The ids of calls, without empty ones: the client's own before those that it left out.
fn ids(calls: &[Call]) -> impl Iterator<Item = &[u8]> {
    let own = calls.iter().filter_map(|call| if let Call::Of(id) = call { Some(id.as_slice()) } else { None });
    let own = own.filter(|id| !id.is_empty());
    let ollamas =
        calls.iter().filter_map(|call| if let Call::Ollama { id, .. } = call { Some(id.as_slice()) } else { None });
    own.chain(ollamas)
}

/// Ollama's calls of one message that wait for their results.
#[derive(Default)]
struct Ollamas<'a> {
    /// In their order.
    waiting: BTreeMap<usize, &'a [u8]>,
    numbers: FxHashMap<&'a [u8], usize>,
    /// The numbers of each tool's; those that no longer wait are skipped.
    by_tool: FxHashMap<&'a [u8], VecDeque<usize>>,
}

impl<'a> Ollamas<'a> {
    fn of(calls: &'a [Call]) -> Self {
        let mut made = Self::default();
        for (number, call) in calls.iter().enumerate() {
            if let Call::Ollama { id, tool } = call {
                made.waiting.insert(number, id);
                made.numbers.insert(id, number);
                made.by_tool.entry(tool).or_default().push_back(number);
            }
        }
        made
    }

    /// The call that a result without an id answers: the first waiting one of the tool it names, else the first of all.
    fn waiting_for(&mut self, tool: Option<&[u8]>) -> Option<&'a [u8]> {
        let waiting = &self.waiting;
        let of_tool = tool.and_then(|tool| self.by_tool.get_mut(tool)).and_then(|numbers| {
            while numbers.front().is_some_and(|number| !waiting.contains_key(number)) {
                numbers.pop_front();
            }
            numbers.front().and_then(|number| waiting.get(number))
        });
        of_tool.or_else(|| waiting.values().next()).copied()
    }

    fn remove(&mut self, id: &[u8]) {
        if let Some(number) = self.numbers.get(id) {
            self.waiting.remove(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(speakers: Vec<Speaker>) -> Vec<(usize, &'static str)> {
        let message = |(index, speaker)| Message { of: plain::Message { index, ..plain::Message::default() }, speaker };
        let messages: Vec<Message> = speakers.into_iter().enumerate().map(message).collect();
        violations(&messages).into_iter().map(|each| (each.index, each.rule)).collect()
    }

    fn calls(calls: Vec<Call>) -> Speaker {
        Speaker::Other { calls, speaks_otherwise: false, has_empty_calls: false }
    }

    fn tool(answer: &str, tool: &str) -> Speaker {
        let some = |name: &str| (!name.is_empty()).then(|| name.into());
        Speaker::Tool { answer: some(answer), tool: some(tool) }
    }

    #[test]
    fn tool_messages_directly_follow_their_calls() {
        let call = || calls(vec![Call::Of(b"a".into())]);
        assert_eq!(rules(vec![call(), tool("a", "")]), []);
        assert_eq!(rules(vec![call(), Speaker::default()]), [(0, "unanswered_tool_call")]);
        assert_eq!(rules(vec![call(), tool("a", ""), tool("a", "")]), [(2, "duplicate_result")]);
        assert_eq!(rules(vec![call(), tool("b", "")]), [(1, "tool_message_without_call")]);
    }

    #[test]
    fn ollamas_results_answer_by_name_and_order() {
        let ollama = |id: &str, tool: &str| Call::Ollama { id: id.into(), tool: tool.into() };
        let made = || calls(vec![ollama("1", "tide"), ollama("2", "berth"), ollama("3", "tide")]);
        let none = Vec::new();
        assert_eq!(rules(vec![made(), tool("", "berth"), tool("", "tide"), tool("", "")]), none);
        let late = vec![made(), tool("", "tide"), tool("", ""), tool("", ""), tool("", "tide")];
        assert_eq!(rules(late), [(4, "tool_message_without_call")]);
    }
}
