//! The rules of OpenAI's Responses API, for a list of items that is sent whole.
//!
//! Calls and outputs pair by `call_id` at any distance, the output after the call. A turn is a run of the model's items and
//! the outputs after them; only the last turn may hold an unanswered call.
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Name, Role, Violation, broken, by_index};

const ROLES: &str = "['assistant', 'developer', 'system', 'user']";
/// Calls that the client must answer; a server answers all others itself.
const CLIENT_CALLS: [&[u8]; 6] =
    [b"function_call", b"custom_tool_call", b"computer_call", b"local_shell_call", b"shell_call", b"apply_patch_call"];
/// Other calls that have an output of their own, which a server must have made.
const ANSWERED: [&[u8]; 2] = [b"program", b"tool_search_call"];

/// The fields of an item that the rules read.
#[derive(Clone, Debug)]
pub struct Item {
    pub index: usize,
    /// Its type, `message` if it has none.
    pub kind: Name,
    /// The model's, a tool's, or that of a message.
    pub role: Role,
    /// The id of its call, or of the call that it answers.
    pub call: Option<Name>,
    pub answer: Option<Name>,
    /// Its own id.
    pub id: Option<Name>,
    pub of: Of,
}

/// The fields of a message, and of reasoning, that the rules read.
#[derive(Clone, Debug)]
pub enum Of {
    Message {
        /// The role as it is written.
        role: Name,
        /// Whether the API knows the role.
        is_known: bool,
        is_null: bool,
        /// The types of the parts that only the other side may write.
        misplaced: Vec<Name>,
    },
    Reasoning {
        has_summary: bool,
    },
    Other,
}

/// Whether the client must answer a call of this type.
#[must_use]
pub fn is_clients(kind: &[u8]) -> bool {
    CLIENT_CALLS.contains(&kind)
}

/// The type of the call of an output's type.
#[must_use]
pub fn call_of(kind: &[u8]) -> &[u8] {
    kind.strip_suffix(b"_output").unwrap_or(kind)
}

/// Whether only the other side may write a part of this type.
#[must_use]
pub fn is_misplaced(part: &[u8], in_assistants: bool) -> bool {
    if in_assistants {
        matches!(part, b"input_text" | b"input_image" | b"input_file" | b"input_audio")
    } else {
        matches!(part, b"output_text" | b"refusal")
    }
}

/// Every violation.
#[must_use]
pub fn violations(items: &[Item]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut ids = FxHashSet::default();
    let mut pairing = Pairing::default();
    for item in items {
        pairing.add(item);
        message_rules(item, &mut found);
        // The shell's first output type has the id of its call.
        let id = item.id.as_ref().filter(|_| item.kind != b"local_shell_call_output");
        if let Some(id) = id.filter(|id| !ids.insert(id.as_slice())) {
            found.push(broken!(item.index, "duplicate_id", "an item with the id '", id, "' came before"));
        }
    }
    reasoning_rules(items, &mut found);
    pairing.settle();
    found.append(&mut pairing.found);
    by_index(found)
}

fn message_rules(item: &Item, found: &mut Vec<Violation>) {
    let Of::Message { role, is_known, is_null, misplaced } = &item.of else { return };
    if !is_known {
        let end = "' is unknown, it must be one of ";
        found.push(broken!(item.index, "unknown_role", "role '", role, end, ROLES));
    }
    if *is_null {
        found.push(broken!(item.index, "null_content_without_calls", "content is null"));
    }
    for part in misplaced {
        let of = "' is in a message of the ";
        found.push(broken!(item.index, "misplaced_block", "a part of type '", part, of, role, "'s"));
    }
}

fn reasoning_rules(items: &[Item], found: &mut Vec<Violation>) {
    let mut following: Option<&Item> = None; // the next item that isn't reasoning
    for item in items.iter().rev() {
        let Of::Reasoning { has_summary } = item.of else {
            following = Some(item);
            continue;
        };
        if following.is_none_or(|next| next.role != Role::Assistant) {
            let what = "a reasoning item is not followed by the item that it led to";
            found.push(broken!(item.index, "reasoning_without_item", what));
        }
        if !has_summary {
            let what = "a reasoning item has no summary; an empty list will do";
            found.push(broken!(item.index, "reasoning_without_summary", what));
        }
    }
}

/// The number of the model's turn, and of the client's messages before it: a program goes on after the outputs of the
/// calls that it made.
#[derive(Clone, Copy, Default)]
struct Turn {
    models: usize,
    clients: usize,
}

/// Matching of calls and outputs, turn by turn.
#[derive(Default)]
struct Pairing<'a> {
    found: Vec<Violation>,
    /// The calls of each id that wait, with their turns.
    waiting: FxHashMap<&'a [u8], Vec<(&'a Item, Turn)>>,
    answered: FxHashSet<&'a [u8]>,
    now: Turn,
    is_answering: bool,
}

impl<'a> Pairing<'a> {
    fn add(&mut self, item: &'a Item) {
        let is_tools = item.role == Role::Other(b"tool".to_vec());
        if item.role == Role::Assistant {
            self.now.models += usize::from(self.is_answering);
        } else if !is_tools {
            self.now = Turn { models: self.now.models + 1, clients: self.now.clients + 1 };
        }
        self.is_answering = is_tools;
        if let Some(call) = &item.call {
            if self.waiting.contains_key(call.as_slice()) {
                self.found.push(broken!(item.index, "duplicate_id", "the call id '", call, "' was used before"));
            }
            self.waiting.entry(call).or_default().push((item, self.now));
        } else if let Some(answer) = &item.answer {
            self.answer(item.index, answer);
        } else if is_clients(call_of(&item.kind)) {
            self.found.push(broken!(item.index, "missing_id", "a ", &item.kind, " has no call_id"));
        }
    }

    fn answer(&mut self, index: usize, answer: &'a [u8]) {
        if self.waiting.get_mut(answer).and_then(Vec::pop).is_some() {
            self.answered.insert(answer);
        } else if self.answered.contains(answer) {
            self.found.push(broken!(index, "duplicate_result", "a second output for '", answer, "'"));
        } else {
            let end = "' before this output";
            self.found.push(broken!(index, "tool_result_without_call", "no call '", answer, end));
        }
    }

    /// Report the calls that can no longer be answered: all but those of the last turn.
    fn settle(&mut self) {
        for (call, pending) in &self.waiting {
            for (item, turn) in pending {
                let is_over = match item.kind.as_slice() {
                    kind if is_clients(kind) => turn.models < self.now.models,
                    kind => ANSWERED.contains(&kind) && turn.clients < self.now.clients,
                };
                if is_over {
                    self.found.push(broken!(item.index, "unanswered_tool_call", "no output for call '", call, "'"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(index: usize, kind: &str, role: &str, id: &str) -> Item {
        let (call, answer) = if role == "tool" { (None, Some(id.into())) } else { (Some(id.into()), None) };
        let is_call = kind.starts_with("function_call");
        let of = if kind == "reasoning" { Of::Reasoning { has_summary: true } } else { Of::Other };
        Item {
            index,
            kind: kind.into(),
            role: Role::of(role.into()),
            call: call.filter(|_| is_call),
            answer: answer.filter(|_| is_call),
            id: None,
            of,
        }
    }

    fn rules(items: &[(&str, &str, &str)]) -> Vec<(usize, &'static str)> {
        let items = items.iter().enumerate().map(|(index, (kind, role, id))| item(index, kind, role, id));
        violations(&items.collect::<Vec<_>>()).into_iter().map(|each| (each.index, each.rule)).collect()
    }

    #[test]
    fn only_the_last_turn_may_hold_an_open_call() {
        let (call, output) = (("function_call", "assistant", "a"), ("function_call_output", "tool", "a"));
        let user = ("note", "user", "");
        assert_eq!(rules(&[user, call]), []);
        assert_eq!(rules(&[user, call, user]), [(1, "unanswered_tool_call")]);
        assert_eq!(rules(&[user, call, output, user]), []);
        assert_eq!(rules(&[output]), [(0, "tool_result_without_call")]);
        assert_eq!(rules(&[call, output, output]), [(2, "duplicate_result")]);
    }

    #[test]
    fn reasoning_is_followed_by_what_it_led_to() {
        let reasoning = ("reasoning", "assistant", "");
        assert_eq!(rules(&[reasoning, ("note", "assistant", "")]), []);
        assert_eq!(rules(&[reasoning, ("note", "user", "")]), [(0, "reasoning_without_item")]);
        assert_eq!(rules(&[reasoning]), [(0, "reasoning_without_item")]);
    }
}
