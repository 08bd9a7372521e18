//! The context engine's core: it counts, embeds, scores and packs conversations. It knows nothing of Python.
pub mod error;
