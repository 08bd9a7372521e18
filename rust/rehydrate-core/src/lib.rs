//! The context engine's core: it counts, embeds, scores and packs conversations. It knows nothing of Python.
//!
//! ```text
//! unit::Conversation -> engine::Engine::prepare -> prepared::Prepared -> Prepared::select -> selection::Selection
//!   texts, messages,      counts and analyses         asks again and       signals, scores,     what is kept,
//!   atomic units          every text, cached          again cost little    packing, repair      and why
//! ```
pub mod analysis;
pub mod cache;
pub mod conversation;
pub mod embed;
pub mod engine;
pub mod error;
pub mod excerpts;
pub mod index;
pub mod interrupt;
pub mod packing;
pub mod scoring;
pub mod selection;
#[cfg(feature = "store")]
pub mod store;
pub mod tokens;
