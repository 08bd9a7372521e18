//! The context engine's core: it counts, embeds, scores and packs conversations. It knows nothing of Python.
//!
//! ```text
//! unit::Conversation -> engine::Engine::prepare -> prepared::Prepared -> Prepared::select -> select::Selection
//!   texts, messages,      counts and analyses         asks again and       signals, scores,     what is kept,
//!   atomic units          every text, cached          again cost little    packing, lead        and why
//! ```
pub mod blocks;
pub mod cache;
mod coverage;
pub mod embed;
pub mod engine;
pub mod error;
pub mod features;
mod fuse;
pub mod index;
pub mod interrupt;
mod items;
mod laid_down;
pub mod lead;
pub mod lexical;
#[cfg(feature = "store")]
pub mod needles;
mod objective;
pub mod outline;
pub mod pack;
mod packed;
pub mod parts;
pub mod prepared;
pub mod relevance;
pub mod score;
mod scripts;
pub mod select;
mod semantic;
mod soft_match;
#[cfg(feature = "store")]
pub mod store;
pub mod text;
pub mod tokens;
pub mod unit;
mod voice;
