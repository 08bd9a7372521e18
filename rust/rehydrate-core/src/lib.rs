//! The context engine's core: it counts, embeds, scores and packs conversations. It knows nothing of Python.
//!
//! ```text
//! unit::Conversation -> engine::Engine::prepare -> prepared::Prepared -> Prepared::select -> selection::Selection
//!   texts, messages,      counts and analyses         asks again and       signals, scores,     what is kept,
//!   atomic units          every text, cached          again cost little    packing, repair      and why
//! ```
pub mod blocks;
pub mod cache;
mod coverage;
mod directive_worth;
mod directives;
pub mod embed;
pub mod engine;
pub mod error;
pub mod features;
pub mod first_turn_repair;
mod fuse;
pub mod index;
pub mod interrupt;
mod items;
pub mod lexical;
#[cfg(feature = "store")]
pub mod literal_matcher;
mod objective;
pub mod outline;
pub mod pack;
mod packed;
pub mod parts;
pub mod prepared;
mod relevance;
pub mod score;
mod scripts;
mod select;
pub mod selection;
mod semantic;
mod soft_match;
#[cfg(feature = "store")]
pub mod store;
pub mod text;
pub mod tokens;
pub mod unit;
mod user_turn_reserve;
