//! The index of a memory: immutable segments of entries, and a view over them that finds relevant and similar entries.
//!
//! ```text
//! Entry, Entry, …  -> Segment::build -> bytes -> Segment::open -> View::new([oldest, …, newest]) -> search, recall
//! ```
//! No files and no database here: bytes in, bytes out. A segment can be made again from the entries, so damage loses
//! nothing: [`Segment::open`] refuses it and the caller builds again.
//!
//! ```
//! use std::sync::Arc;
//! use rehydrate_core::index::{Entry, Meta, Query, Segment, Settings, View};
//!
//! let entry = |id, text| Entry { id, text, meta: Meta::default(), vector: None };
//! let entries = [entry(1, "The invoice is due on Friday"), entry(2, "Rex barked at the postman")];
//! let bytes = Segment::build(&entries, &[], &Settings::default());
//! let view = View::new(vec![Arc::new(Segment::open(Arc::new(bytes)).unwrap())]);
//! assert_eq!(view.search(&Query::new("when is the invoice due?", 1))[0].id, 1);
//! ```
mod build;
mod entry;
mod exact_match_boost;
mod graph;
mod in_memory;
mod inverted_lists;
mod knn;
mod layout;
mod neighbours;
mod postings;
mod probe;
mod quantise;
mod query;
mod score_buffer;
mod search;
mod segment;
mod segment_reader;
mod statistics;
mod terms;
mod text_match;
mod top_k;
mod vector_index;
mod vector_rows;
mod vector_writer;
mod verify;
mod view;

pub use self::entry::{Entry, Meta, Settings};
pub use self::in_memory::{InMemoryIndex, OwnedEntry};
pub use self::knn::{KnnTarget, Recall};
pub use self::layout::Damaged;
pub use self::query::{Filter, Hit, Query};
pub use self::segment::{Bytes, Segment};
pub use self::statistics::Statistics;
pub use self::vector_index::VectorIndex;
pub use self::view::View;
pub use crate::scoring::rank_fusion::Fusion;

#[cfg(test)]
mod tests;
