//! Reading the notes of threads and memories: plain text, commands, summaries, notes of a folder.
//!
//! Everything here gives places of a text, so that its parts are kept word for word.
mod chunks;
mod commands;
mod cues;
mod files;
mod outcomes;
mod pasted;
mod sentences;
mod subjects;
mod summary;

pub use chunks::{Chunk, chunks};
pub use commands::{Subject, Use, command_subjects, patch_subjects};
pub use cues::{decisions, is_correction, refusal};
pub use files::{FrontMatter, HOT_LINES, NotePiece, front_matter, note_pieces, tier_of};
pub use outcomes::{exit_code, first_error};
pub use pasted::pasted;
pub use sentences::{MAX_SENTENCE, labelled, sentences, whole_sentences};
pub use subjects::Subjects;
pub(crate) use summary::WORD_FOR_WORD;
pub use summary::{Heading, NAMES, SummaryLine, summary_lines};
