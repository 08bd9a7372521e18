//! The continuous context store: what a thread must not lose, as a log of operations over verbatim spans.
//!
//! Rules read each turn ([`ContextStore::read`]), a model may propose more ([`ContextStore::propose`]), and what holds is
//! written as markdown within a budget ([`ContextStore::render`]).
mod asking;
mod commands;
mod items;
mod markdown;
mod missing;
mod names;
mod proposals;
mod quoting;
mod raw;
mod reading;

pub use crate::notes::Heading;
pub use asking::{
    MAX_PROPOSALS, MAX_TRANSCRIPT, NOT_INSTRUCTIONS, fenced, mark_of, nonce, proposal_prompt, summary_prompt,
};
pub use commands::{Command, Commands};
pub use items::{Item, Items, Operation, OperationKind, Span, Status};
pub use markdown::{Markdown, within};
pub use names::names_in;
pub use proposals::{Proposal, Refusal};
pub use quoting::{quoted, shortened};
pub use raw::{Raw, byte_of, digest, key_of, stripped};
pub use reading::{About, ContextStore, Said, SaidPiece};
