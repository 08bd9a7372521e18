//! The rules of Gemini's `generateContent`, for its `contents`.
//!
//! Sources, read 2026-11-27: <https://ai.google.dev/gemini-api/docs/function-calling>,
//! <https://ai.google.dev/gemini-api/docs/thought-signatures>, the types of google-genai 2.34, and the API's own errors in
//! the issues that are named at their rules. Roles need not alternate (<https://github.com/google/adk-go/pull/1302>, 2026-08),
//! but for a turn with calls.
use super::{Name, Role, Violation, broken, by_index};

const ROLES: &str = "['function', 'model', 'user']";

/// The fields of a content that the rules read.
#[derive(Clone, Debug)]
pub struct Message {
    pub index: usize,
    /// `Assistant` is the model's; a `function`'s is the user's.
    pub role: Role,
    /// The role as it is written, if the API knows none of this name.
    pub unknown_role: Option<Name>,
    /// Whether its parts, or one of them, are a string.
    pub has_string: bool,
    pub parts: Vec<Part>,
}

/// The fields of a part that the rules read.
#[derive(Clone, Debug, Default)]
pub struct Part {
    pub is: Is,
    /// Whether it has a `thoughtSignature`.
    pub is_signed: bool,
    /// Its keys, as Python shows a list of them, if they are not one that holds data.
    pub unknown_keys: Option<Name>,
}

/// The kind of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Is {
    /// A text of no character.
    Empty,
    Call(Pair),
    Response(Pair),
    #[default]
    Other,
}

/// The id and name of a call or a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    pub id: Option<Name>,
    pub name: Option<Name>,
}

impl Pair {
    fn shown(&self) -> &[u8] {
        self.id.as_deref().or(self.name.as_deref()).unwrap_or_default()
    }

    /// Whether a response answers this call: by its id, else by the name.
    fn is_answered_by(&self, response: &Self) -> bool {
        match (&self.id, &response.id) {
            (Some(id), Some(answered)) => id == answered,
            _ => self.name == response.name,
        }
    }
}

/// Every violation.
#[must_use]
pub fn violations(messages: &[Message]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut turn = Turn::default();
    let mut before: Option<&Message> = None;
    for message in messages {
        let index = message.index;
        if message.role == Role::System {
            if before.is_some() {
                let what = "a content of the system's is amid the others; send it as the user's";
                found.push(broken!(index, "misplaced_system", what));
            }
            continue;
        }
        if let Some(role) = &message.unknown_role {
            found.push(broken!(index, "unknown_role", "role '", role, "' is none of ", ROLES));
        }
        if before.is_none() && message.role == Role::Assistant {
            let what = "the first content is the model's, it must be the user's";
            found.push(broken!(index, "first_not_user", what));
        }
        part_rules(message, &mut found);
        turn.take(message, before, &mut found);
        before = Some(message);
    }
    by_index(found)
}

fn part_rules(message: &Message, found: &mut Vec<Violation>) {
    let Message { index, role, has_string, parts, .. } = message;
    if *has_string {
        found.push(broken!(*index, "text_content", "parts must be a list of parts, each with its key, as text"));
    }
    if parts.is_empty() {
        // "contents.parts must not be empty": https://github.com/vercel/ai/issues/3775
        found.push(broken!(*index, "empty_content", "the parts are empty"));
    }
    let (mut has_other, mut has_late_response) = (false, false);
    for Part { is, is_signed, unknown_keys } in parts {
        if let Some(keys) = unknown_keys {
            let end = ", exactly one must say what it holds";
            found.push(broken!(*index, "unknown_block", "a part has the keys ", keys, end));
        }
        match is {
            Is::Empty if !is_signed => {
                // "required oneof field 'data' must have one initialized field":
                // https://github.com/router-for-me/CLIProxyAPI/issues/1292
                found.push(broken!(*index, "empty_text", "a text is empty"));
            }
            Is::Call(pair) | Is::Response(pair) => {
                let is_call = matches!(is, Is::Call(_));
                let kind = if is_call { "functionCall" } else { "functionResponse" };
                if pair.name.as_ref().is_none_or(Vec::is_empty) {
                    found.push(broken!(*index, "missing_name", "a ", kind, " has no name"));
                }
                if is_call != (*role == Role::Assistant) {
                    let end = if is_call { " of the user's" } else { " of the model's" };
                    found.push(broken!(*index, "misplaced_block", "a ", kind, " is in a content", end));
                }
                has_late_response |= !is_call && has_other;
            }
            _ => {}
        }
        has_other |= !matches!(is, Is::Response(_));
    }
    if has_late_response && *role != Role::Assistant {
        found.push(broken!(*index, "results_not_first", "a functionResponse is after other parts of its content"));
    }
    let mut calls = parts.iter().filter(|part| matches!(part.is, Is::Call(_)));
    if calls.next().is_some_and(|first| !first.is_signed) && calls.any(|later| later.is_signed) {
        let what = "a thoughtSignature is at a later call and not at the first, where it came";
        found.push(broken!(*index, "misplaced_signature", what));
    }
}

/// The calls of the last turn of the model, and whether it has responses.
#[derive(Default)]
struct Turn<'a> {
    index: usize,
    waiting: Vec<&'a Pair>,
    answered: Vec<&'a Pair>,
    has_responses: bool,
}

impl<'a> Turn<'a> {
    fn take(&mut self, message: &'a Message, before: Option<&Message>, found: &mut Vec<Violation>) {
        let index = message.index;
        let responses: Vec<&Pair> = message
            .parts
            .iter()
            .filter_map(|part| if let Is::Response(pair) = &part.is { Some(pair) } else { None })
            .collect();
        if message.role == Role::Assistant || responses.is_empty() {
            self.settle(found);
            if message.role != Role::Assistant {
                return;
            }
            let calls = message.parts.iter();
            self.waiting =
                calls.filter_map(|part| if let Is::Call(pair) = &part.is { Some(pair) } else { None }).collect();
            self.index = index;
            // "function call turn comes immediately after a user turn or after a function response turn":
            // https://github.com/google-gemini/gemini-cli/issues/26486
            if !self.waiting.is_empty() && before.is_some_and(|before| before.role == Role::Assistant) {
                let what = "a content with calls follows another of the model's; join them";
                found.push(broken!(index, "call_after_model", what));
            }
            return;
        }
        let is_late = self.has_responses;
        let mut completes = false;
        for response in responses {
            if let Some(at) = self.waiting.iter().position(|call| call.is_answered_by(response)) {
                self.answered.push(self.waiting.remove(at));
                completes |= is_late;
            } else if response.id.is_some() && self.answered.iter().any(|call| call.id == response.id) {
                let what = "a second functionResponse for '";
                found.push(broken!(index, "duplicate_result", what, response.shown(), "'"));
            } else {
                let end = "' in the content before this functionResponse";
                found.push(broken!(index, "tool_result_without_call", "no functionCall '", response.shown(), end));
            }
        }
        if completes {
            // "the number of function response parts is equal to the number of function call parts":
            // https://github.com/google-gemini/gemini-cli/issues/17208
            found.push(broken!(index, "results_not_together", "the responses of one turn are in several contents"));
        }
        self.has_responses = true;
    }

    /// The calls that still wait can no longer be answered.
    fn settle(&mut self, found: &mut Vec<Violation>) {
        for call in &self.waiting {
            let end = "' has no functionResponse in the next content";
            found.push(broken!(self.index, "unanswered_tool_call", "functionCall '", call.shown(), end));
        }
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(id: &str, name: &str) -> Pair {
        let some = |text: &str| (!text.is_empty()).then(|| text.into());
        Pair { id: some(id), name: some(name) }
    }

    fn rules(contents: Vec<(Role, Vec<Is>)>) -> Vec<(usize, &'static str)> {
        let part = |is| Part { is, ..Part::default() };
        let message = |(index, (role, parts)): (usize, (Role, Vec<Is>))| {
            let parts = parts.into_iter().map(part).collect();
            Message { index, role, unknown_role: None, has_string: false, parts }
        };
        let messages: Vec<Message> = contents.into_iter().enumerate().map(message).collect();
        violations(&messages).into_iter().map(|each| (each.index, each.rule)).collect()
    }

    #[test]
    fn responses_answer_by_id_or_by_name_and_directly_follow_their_calls() {
        let user = || (Role::User, vec![Is::Other]);
        let calls = || (Role::Assistant, vec![Is::Call(pair("1", "tide")), Is::Call(pair("", "berth"))]);
        let both = || (Role::User, vec![Is::Response(pair("", "berth")), Is::Response(pair("", "tide"))]);
        assert_eq!(rules(vec![user(), calls(), both(), user()]), []);
        assert_eq!(rules(vec![user(), calls()]), []);
        assert_eq!(rules(vec![user(), calls(), user()]), [(1, "unanswered_tool_call"), (1, "unanswered_tool_call")]);
        let one = |id: &str, name: &str| (Role::User, vec![Is::Response(pair(id, name))]);
        let apart = vec![user(), calls(), one("1", "tide"), one("", "berth")];
        assert_eq!(rules(apart), [(3, "results_not_together")]);
        let other = vec![user(), calls(), one("2", "tide"), user()];
        assert_eq!(rules(other)[2], (2, "tool_result_without_call"));
        assert_eq!(rules(vec![user(), calls(), both(), calls(), calls(), both()])[2], (4, "call_after_model"));
    }

    #[test]
    fn a_first_call_has_the_signature() {
        let call = |is_signed| Part { is: Is::Call(pair("", "f")), is_signed, unknown_keys: None };
        let said = |parts| {
            let message = |index, role, parts| Message { index, role, unknown_role: None, has_string: false, parts };
            let user = message(0, Role::User, vec![Part::default()]);
            violations(&[user, message(1, Role::Assistant, parts)]).len()
        };
        assert_eq!([said(vec![call(true), call(false)]), said(vec![call(false), call(true)])], [0, 1]);
    }
}
