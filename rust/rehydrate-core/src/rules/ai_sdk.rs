//! The rules of the AI SDK's messages: the schema of `ModelMessage` and `UIMessage`, the results that it misses, and
//! the rules that every provider has.
//!
//! Read on 2026-11-27 in `ai` 6 and 7: `packages/ai/src/prompt/message.ts` and `content-part.ts` (parts and their roles),
//! `convert-to-language-model-prompt.ts` (`MissingToolResultsError`), `ui/validate-ui-messages.ts`, and
//! <https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message>.
use rustc_hash::{FxHashMap, FxHashSet};

use super::ledger::{Ledger, Waiting};
use super::{Name, Role, Violation, broken, by_index};

/// The fields of a message that the rules read.
#[derive(Clone, Debug)]
pub struct Message {
    pub index: usize,
    pub role: Role,
    pub content: Content,
    pub is_ui: bool,
}

#[derive(Clone, Debug)]
pub enum Content {
    Null,
    Text,
    Parts(Vec<Part>),
}

/// A part. A tool part of a UI message is a call, and its result too once it has one.
#[derive(Clone, Debug)]
pub enum Part {
    /// A string instead of a part.
    Text,
    /// One of this type, which needs no other.
    Of(Name),
    /// A type, an output or a state that the AI SDK does not have.
    Unknown(Name),
    Call {
        id: Option<Name>,
        has_name: bool,
        /// Whether no result needs to follow: the provider runs it, or the user has said whether it may be run.
        is_settled: bool,
    },
    Result {
        id: Option<Name>,
        has_name: bool,
    },
    Request {
        approval: Option<Name>,
        call: Option<Name>,
    },
    Response {
        approval: Option<Name>,
    },
}

impl Part {
    fn kind(&self) -> &[u8] {
        match self {
            Self::Text => b"text",
            Self::Of(kind) | Self::Unknown(kind) => kind,
            Self::Call { .. } => b"tool-call",
            Self::Result { .. } => b"tool-result",
            Self::Request { .. } => b"tool-approval-request",
            Self::Response { .. } => b"tool-approval-response",
        }
    }

    /// Whether a message of this role has such parts; any UI message has all.
    fn is_of(&self, role: &Role) -> bool {
        let kind = self.kind();
        match role {
            Role::System => false,
            Role::User => matches!(kind, b"text" | b"image" | b"file"),
            Role::Assistant => !matches!(kind, b"image" | b"tool-approval-response"),
            Role::Other(_) => matches!(kind, b"tool-result" | b"tool-approval-response"),
        }
    }
}

/// The calls of the message that tool messages follow; if one is settled, no result needs to follow.
type Open<'a> = Waiting<'a, (usize, bool)>;

/// Every violation.
#[must_use]
pub fn violations(messages: &[Message]) -> Vec<Violation> {
    let mut found = Vec::new();
    let (mut ledger, mut open) = (Ledger::default(), Open::default());
    let mut requests: FxHashMap<&[u8], Option<&[u8]>> = FxHashMap::default();
    for message in messages {
        let index = message.index;
        let is_tools = matches!(&message.role, Role::Other(name) if name.as_slice() == b"tool");
        found.extend(of_shape(message, is_tools));
        if !is_tools || message.is_ui {
            for (call, (asked, is_settled)) in open.take() {
                if !is_settled {
                    let end = "' has no tool-result before the next message";
                    found.push(broken!(asked, "unanswered_tool_call", "tool call '", call, end));
                }
            }
            requests.clear();
        }
        let Content::Parts(parts) = &message.content else { continue };
        let mut made = FxHashSet::default();
        for part in parts {
            match part {
                Part::Call { id, has_name, is_settled } => {
                    if !has_name {
                        found.push(broken!(index, "missing_name", "a tool call has no toolName"));
                    }
                    let Some(id) = id else {
                        found.push(broken!(index, "missing_id", "a tool call has no toolCallId"));
                        continue;
                    };
                    ledger.call(id);
                    if !made.insert(id) {
                        let end = "' is in one message twice";
                        found.push(broken!(index, "duplicate_id", "tool call id '", id, end));
                    }
                    *open.entry(id) = (index, *is_settled);
                }
                Part::Result { id, has_name } => {
                    if !has_name {
                        found.push(broken!(index, "missing_name", "a tool result has no toolName"));
                    }
                    let Some(id) = id else {
                        found.push(broken!(index, "missing_id", "a tool result has no toolCallId"));
                        continue;
                    };
                    let (is_known, is_second) = (ledger.knows(id), ledger.answer(id));
                    let was_open = open.remove(id).is_some();
                    if is_second {
                        found.push(broken!(index, "duplicate_result", "a second result for '", id, "'"));
                    } else if is_tools && !was_open {
                        let end = "' in the assistant message that this one follows";
                        found.push(broken!(index, "tool_result_without_call", "no tool call '", id, end));
                    } else if !is_known {
                        let end = "' before its result";
                        found.push(broken!(index, "server_result_without_call", "no tool call '", id, end));
                    }
                }
                Part::Request { approval, call } => {
                    if let Some(approval) = approval {
                        requests.insert(approval, call.as_deref());
                    }
                }
                Part::Response { approval } => {
                    let request = approval.as_ref().and_then(|approval| requests.get(approval.as_slice()));
                    match request {
                        Some(Some(call)) => {
                            if let Some((_, is_settled)) = open.get_mut(call) {
                                *is_settled = true;
                            }
                        }
                        Some(None) => {}
                        None => {
                            let what = "an approval answers no request of the message that it follows";
                            found.push(broken!(index, "tool_result_without_call", what));
                        }
                    }
                }
                Part::Text | Part::Of(_) | Part::Unknown(_) => {}
            }
        }
    }
    by_index(found)
}

/// Violations in the shape of a message, whatever is around it.
fn of_shape(message: &Message, is_tools: bool) -> Vec<Violation> {
    let Message { index, role, content, is_ui } = message;
    let (index, mut found) = (*index, Vec::new());
    let known = if *is_ui { "['assistant', 'system', 'user']" } else { "['assistant', 'system', 'tool', 'user']" };
    if let Role::Other(name) = role
        && (*is_ui || !is_tools)
    {
        found.push(broken!(index, "unknown_role", "role '", name, "' is unknown, it must be one of ", known));
    }
    let parts = match content {
        Content::Null if *is_ui => return [found, vec![broken!(index, "empty_content", "it has no parts")]].concat(),
        Content::Null => {
            found.push(broken!(index, "null_content_without_calls", "content is null"));
            return found;
        }
        Content::Text => {
            if is_tools || *is_ui {
                found.push(broken!(index, "text_content", "its content is a string, it must be parts"));
            }
            return found;
        }
        Content::Parts(parts) => parts,
    };
    if *is_ui && parts.is_empty() {
        found.push(broken!(index, "empty_content", "it has no parts"));
    }
    if *role == Role::System && !is_ui {
        found.push(broken!(index, "misplaced_block", "the content of a system message is a string"));
        return found;
    }
    for part in parts {
        match part {
            Part::Text => found.push(broken!(index, "text_content", "a part is a string")),
            Part::Unknown(what) => {
                found.push(broken!(index, "unknown_block", "the AI SDK has no '", what, "'"));
            }
            part if !*is_ui && (is_tools || !matches!(role, Role::Other(_))) && !part.is_of(role) => {
                let end = "' is in no message of this role";
                found.push(broken!(index, "misplaced_block", "a part '", part.kind(), end));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(messages: Vec<(&str, Vec<Part>)>) -> Vec<(usize, &'static str)> {
        let message = |(index, (role, parts)): (usize, (&str, Vec<Part>))| Message {
            index,
            role: Role::of(role.into()),
            content: Content::Parts(parts),
            is_ui: false,
        };
        let messages: Vec<Message> = messages.into_iter().enumerate().map(message).collect();
        violations(&messages).into_iter().map(|each| (each.index, each.rule)).collect()
    }

    fn call(id: &str) -> Part {
        Part::Call { id: Some(id.into()), has_name: true, is_settled: false }
    }

    fn result(id: &str) -> Part {
        Part::Result { id: Some(id.into()), has_name: true }
    }

    #[test]
    fn results_follow_their_calls() {
        let called = || ("assistant", vec![call("a"), call("b")]);
        assert_eq!(rules(vec![called(), ("tool", vec![result("b")]), ("tool", vec![result("a")])]), []);
        let late = vec![called(), ("tool", vec![result("a")]), ("user", vec![]), ("tool", vec![result("b")])];
        assert_eq!(rules(late), [(0, "unanswered_tool_call"), (3, "tool_result_without_call")]);
        assert_eq!(rules(vec![called(), ("tool", vec![result("a"), result("a")])]), [(1, "duplicate_result")]);
    }

    #[test]
    fn an_approval_settles_its_call() {
        let asked = || Part::Request { approval: Some("p".into()), call: Some("a".into()) };
        let said = |id: &str| ("tool", vec![Part::Response { approval: Some(id.into()) }]);
        let open = || ("assistant", vec![call("a"), asked()]);
        assert_eq!(rules(vec![open(), said("p"), ("user", vec![])]), []);
        assert_eq!(rules(vec![open(), said("p"), ("tool", vec![result("a")])]), []);
        assert_eq!(rules(vec![open(), said("q")]), [(1, "tool_result_without_call")]);
        assert_eq!(rules(vec![open(), ("user", vec![])]), [(0, "unanswered_tool_call")]);
    }
}
