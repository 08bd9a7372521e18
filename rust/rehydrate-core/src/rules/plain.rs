//! Violations that every provider refuses in a list of roles and texts: a null content, an unknown role, blocks of
//! calls.
use super::{Name, Violation, broken};

/// The fields of a message that the rules read.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub index: usize,
    /// Its role, if the provider does not know it.
    pub unknown_role: Option<Name>,
    /// Whether blocks of its content are calls or results in Anthropic's form.
    pub has_pair: bool,
    /// Whether its content is null, or not there.
    pub is_null: bool,
}

/// Every violation.
#[must_use]
pub fn violations(messages: &[Message]) -> Vec<Violation> {
    let mut found = Vec::new();
    for message in messages {
        let roles = "['assistant', 'system', 'tool', 'user']";
        found.extend(message.unknown_role(roles));
        found.extend(message.misplaced_pair());
        if message.is_null {
            found.push(broken!(message.index, "null_content_without_calls", "content is null"));
        }
    }
    found
}

impl Message {
    pub(super) fn unknown_role(&self, known: &str) -> Option<Violation> {
        let role = self.unknown_role.as_ref()?;
        Some(broken!(self.index, "unknown_role", "role '", role, "' is unknown, it must be one of ", known))
    }

    /// Only Anthropic accepts calls or results among the blocks of a content.
    pub(super) fn misplaced_pair(&self) -> Option<Violation> {
        let what = "a call or a result among its blocks is Anthropic's; pass format='anthropic'";
        self.has_pair.then(|| broken!(self.index, "misplaced_block", what))
    }
}
