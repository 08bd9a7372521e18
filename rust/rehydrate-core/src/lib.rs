//! The context engine's core: it counts, embeds, scores and packs conversations. It knows nothing of Python.
//!
//! ```text
//! Conversation -> Engine::prepare -> Prepared -> Prepared::select -> Selection
//!   texts, messages,  counts and analyses   asks again and     signals, scores,   what is kept,
//!   atomic units      every text, cached    again cost little  packing, repair    and why
//! ```
//!
//! Modules import one way, from the top of this list to the bottom:
//!
//! ```text
//! store          memories in one SQLite file           selection     scores, packing and repair together
//! index          the search index of a memory          scoring       relevance, coverage, one objective
//! context_store  what a thread must not lose: a log of operations, and what it adds up to
//! batches        many texts counted or embedded        linting       what a prompt wastes
//! retention      what a compaction keeps of what is needed later
//! sessions       coding agents' sessions as texts      hook_settings hooks in an agent's settings
//! engine         the facade: conversations prepared    conversation  columns, analyses, parts of long texts
//! excerpts       long texts in blocks                  packing       into a token budget
//! notes          what notes are read from: texts, commands, summaries
//! json_stream    JSON values in a stream of bytes      prompt_cache  what a provider's cache reads and writes
//! event_stream   server-sent events in one             failures    what a provider's error means
//! memory_files   how a model sees its memory's files    json_spans   where the values of a JSON text are
//! door           requests that a proxy on this machine takes
//! caps, redact   tool results shown in part, secrets in texts     rules    what providers' APIs refuse
//! reports        cells in columns, and what moved
//! times          one time, as people write it          thread_log    what a thread's records add up to
//! model_names    models, as gateways spell them
//! terminal       texts that a terminal shows           docstring   what describes a function
//! embed          texts to vectors                      tokens        counts
//! analysis       scripts, words, names, directives     cache, fork, interrupt, error
//! ```
pub mod analysis;
pub mod batches;
pub mod cache;
pub mod caps;
pub mod context_store;
pub mod conversation;
pub mod docstring;
pub mod door;
pub mod embed;
pub mod engine;
pub mod error;
pub mod event_stream;
pub mod excerpts;
pub mod failures;
pub mod fork;
pub mod hook_settings;
pub mod index;
pub mod interrupt;
pub mod json_spans;
pub mod json_stream;
pub mod linting;
pub mod media;
pub mod memory_files;
pub mod model_names;
pub mod notes;
pub mod packing;
pub mod prompt_cache;
pub mod redact;
pub mod reports;
pub mod retention;
pub mod rules;
pub mod scoring;
pub mod selection;
pub mod sessions;
pub mod store;
pub mod terminal;
pub mod thread_log;
pub mod times;
pub mod tokens;

#[cfg(test)]
#[path = "../tests/depth/mod.rs"]
mod depth;
