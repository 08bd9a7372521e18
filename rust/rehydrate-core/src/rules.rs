//! The rules of the providers' APIs: the violations for which each refuses the messages of a conversation.
//!
//! One module per API. Each takes the fields that its rules read of a message, and returns violations ordered by index.
//! A rule is about one unit or one message, never about the distance of two units. So a valid list stays valid, and an
//! invalid one gets no worse, when whole units are dropped.
pub mod ai_sdk;
pub mod anthropic;
pub mod bedrock;
pub mod gemini;
mod ledger;
pub mod openai_chat;
pub mod openai_responses;
mod pairing;
pub mod plain;
pub mod prefix;

/// A name that a client made up: UTF-8, in which lone surrogates may be encoded too.
pub type Name = Vec<u8>;

/// The speaker of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
    /// Also a tool, which only some APIs know.
    Other(Name),
}

impl Role {
    /// The role of this name.
    #[must_use]
    pub fn of(name: Name) -> Self {
        match name.as_slice() {
            b"system" => Self::System,
            b"user" => Self::User,
            b"assistant" => Self::Assistant,
            _ => Self::Other(name),
        }
    }

    fn name(&self) -> &[u8] {
        match self {
            Self::System => b"system",
            Self::User => b"user",
            Self::Assistant => b"assistant",
            Self::Other(name) => name,
        }
    }
}

/// One rule that one message breaks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Violation {
    /// The index of the entry in the caller's list.
    pub index: usize,
    /// Its stable name.
    pub rule: &'static str,
    /// The violation in words, for people. The names in it are the client's.
    pub message: Name,
}

/// A violation: its index, its rule, and the parts of its message.
macro_rules! broken {
    ($index:expr, $rule:literal, $($part:expr),+) => {
        $crate::rules::Violation {
            index: $index,
            rule: $rule,
            message: [$(AsRef::<[u8]>::as_ref($part)),+].concat(),
        }
    };
}
use broken;

fn by_index(mut found: Vec<Violation>) -> Vec<Violation> {
    found.sort_by_key(|each| each.index);
    found
}
