//! A conversation as the engine sees it: columns of texts, messages over them, atomic units over those.
use std::ops::Range;

use crate::error::{Error, Result};

/// The largest weight a role may have: sums and products of scores stay finite.
pub const MAX_WEIGHT: f64 = 1e6;

/// The kind of a text in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind {
    /// Prose of a user, an assistant or the system.
    Text,
    /// A tool call, its name and its JSON input: the agent acted on it.
    ToolInput,
    /// A tool's answer.
    ToolResult,
    /// Reasoning of the model.
    Thinking,
}

impl TryFrom<u8> for PieceKind {
    type Error = Error;

    fn try_from(code: u8) -> Result<Self> {
        [Self::Text, Self::ToolInput, Self::ToolResult, Self::Thinking]
            .get(code as usize)
            .copied()
            .ok_or_else(|| Error::Argument(format!("piece kind {code}; kinds are 0 to 3")))
    }
}

/// One text of a message.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The text itself.
    pub text: &'a str,
    /// Its kind.
    pub kind: PieceKind,
}

/// The speaker of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions: always kept, outside the budget, outside recency.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// Results of tools.
    Tool,
    /// Any other role.
    Other,
}

impl TryFrom<u8> for Role {
    type Error = Error;

    fn try_from(code: u8) -> Result<Self> {
        [Self::System, Self::User, Self::Assistant, Self::Tool, Self::Other]
            .get(code as usize)
            .copied()
            .ok_or_else(|| Error::Argument(format!("role {code}; roles are 0 to 4")))
    }
}

impl Role {
    /// Whether texts of its messages may be a user's. A message that answers tool calls is a tool's, whatever the user
    /// says in it.
    pub(crate) fn may_be_users(self) -> bool {
        matches!(self, Self::User | Self::Tool)
    }
}

/// One message: a range of pieces and what the formula asks about it.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its pieces.
    pub pieces: Range<usize>,
    /// Tokens that no text accounts for: images and other media.
    pub media_tokens: u32,
    /// Structural weight of its role.
    pub structural: f64,
    /// The speaker.
    pub role: Role,
    /// The unit it belongs to.
    pub unit: usize,
}

impl Message {
    /// Whether it is a system message.
    #[must_use]
    pub fn is_system(&self) -> bool {
        self.role == Role::System
    }
}

/// One atomic unit: kept whole or dropped whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unit {
    /// Kept whatever it costs.
    pub pinned: bool,
    /// Whether a conversation may begin with it; false if the provider wants a user turn first.
    pub may_lead: bool,
}

/// A conversation in columns.
#[derive(Clone, Debug, Default)]
pub struct Conversation<'a> {
    /// All texts, message after message.
    pub pieces: Vec<Piece<'a>>,
    /// All messages, in order.
    pub messages: Vec<Message>,
    /// All units, in the order of their first messages.
    pub units: Vec<Unit>,
}

impl Conversation<'_> {
    /// Per piece, whether a user says it: also next to tool results.
    pub(crate) fn said_by_users(&self) -> Vec<bool> {
        let mut said = vec![false; self.pieces.len()];
        for message in self.messages.iter().filter(|message| message.role.may_be_users()) {
            for at in message.pieces.clone() {
                said[at] = self.pieces[at].kind == PieceKind::Text;
            }
        }
        said
    }

    /// Check that the columns fit each other.
    ///
    /// # Errors
    /// [`Error::Argument`] naming the first index that points outside.
    pub fn verify(&self) -> Result<()> {
        for (index, message) in self.messages.iter().enumerate() {
            if message.pieces.start > message.pieces.end || message.pieces.end > self.pieces.len() {
                return Err(Error::Argument(format!(
                    "message {index} has pieces {:?} of {}",
                    message.pieces,
                    self.pieces.len()
                )));
            }
            if message.unit >= self.units.len() {
                return Err(Error::Argument(format!(
                    "message {index} is in unit {} of {}",
                    message.unit,
                    self.units.len()
                )));
            }
            if !(0.0..=MAX_WEIGHT).contains(&message.structural) {
                return Err(Error::Argument(format!(
                    "message {index} has structural weight {}; a weight is a number from 0 to {MAX_WEIGHT:e}",
                    message.structural
                )));
            }
        }
        Ok(())
    }
}
