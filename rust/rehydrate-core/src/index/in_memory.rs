//! An index in memory only, for a store that keeps its items elsewhere. It is made of entries and grows by entries.
//!
//! ```
//! use rehydrate_core::index::{InMemoryIndex, Meta, OwnedEntry, Query};
//!
//! let entry = |id, text: &str| OwnedEntry { id, text: text.into(), meta: Meta::default(), vector: None };
//! let index = InMemoryIndex::default().with(vec![entry(1, "Rex barked"), entry(2, "Lunch was at noon")], Vec::new());
//! let less = index.with(Vec::new(), vec![1]);
//! assert_eq!(index.view().search(&Query::new("who barked?", 1))[0].id, 1);
//! assert!(less.view().search(&Query::new("barked", 1)).iter().all(|hit| hit.id != 1));
//! ```
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::entry::{Entry, Meta, Settings};
use super::segment::Segment;
use super::vector_index::VectorIndex;
use super::view::View;

/// An entry that owns its text.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedEntry {
    pub id: u64,
    pub meta: Meta,
    pub text: String,
    /// A vector of the caller's model; all vectors of one index have one length.
    pub vector: Option<Vec<f32>>,
}

/// Entries that were indexed together, kept to be indexed again with later ones.
#[derive(Clone)]
struct Level {
    entries: Arc<Vec<OwnedEntry>>,
    deleted: Arc<Vec<u64>>,
    segment: Arc<Segment>,
}

/// The index of some entries. It is cheap to grow: the old part is shared and stays as it is.
pub struct InMemoryIndex {
    levels: Vec<Level>,
    view: View,
}

impl Default for InMemoryIndex {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl InMemoryIndex {
    fn of(levels: Vec<Level>) -> Self {
        let view = view(&levels);
        Self { levels, view }
    }

    /// The same with more entries and fewer: an entry replaces the one with its id, and `deleted` ids are gone. Levels
    /// at least double in size, so an entry is indexed again only a few times.
    #[must_use]
    pub fn with(&self, mut entries: Vec<OwnedEntry>, mut deleted: Vec<u64>) -> Self {
        let mut levels = self.levels.clone();
        while let Some(last) = levels.pop_if(|last| last.entries.len() <= 2 * entries.len()) {
            let gone: FxHashSet<u64> = deleted.iter().copied().collect();
            let mut merged = last.entries.to_vec();
            merged.retain(|entry| !gone.contains(&entry.id));
            merged.append(&mut entries); // of two with one id the later one counts
            entries = merged;
            deleted.extend(last.deleted.iter());
        }
        let older = (!levels.is_empty()).then(|| view(&levels));
        let settings = Settings {
            dim: entries.iter().find_map(|entry| entry.vector.as_ref()).map(Vec::len),
            space: 0,
            older: older.as_ref().map(View::statistics),
            index: VectorIndex::Lists,
        };
        let borrowed: Vec<Entry<'_>> = entries
            .iter()
            .map(|entry| Entry { id: entry.id, meta: entry.meta, text: &entry.text, vector: entry.vector.as_deref() })
            .collect();
        let bytes = Segment::build(&borrowed, &deleted, &settings);
        // A new segment is never damaged.
        if let Ok(segment) = Segment::open(Arc::new(bytes)) {
            levels.push(Level { entries: Arc::new(entries), deleted: Arc::new(deleted), segment: Arc::new(segment) });
        }
        Self::of(levels)
    }

    /// The index for search and recall.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Bytes of memory, about.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let entry = |entry: &OwnedEntry| {
            size_of::<OwnedEntry>() + entry.text.len() + entry.vector.as_ref().map_or(0, |row| row.len() * 4)
        };
        let entries: usize = self.levels.iter().flat_map(|level| level.entries.iter()).map(entry).sum();
        self.view.held_bytes() + entries
    }
}

fn view(levels: &[Level]) -> View {
    View::new(levels.iter().map(|level| Arc::clone(&level.segment)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Filter, Query};

    fn entry(id: u64, text: &str) -> OwnedEntry {
        OwnedEntry { id, meta: Meta::default(), text: text.into(), vector: None }
    }

    fn found(index: &InMemoryIndex, query: &str) -> Vec<u64> {
        let mut ids: Vec<u64> = index.view().search(&Query::new(query, 100)).iter().map(|hit| hit.id).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn grown_one_by_one_it_finds_what_is_there_now() {
        let mut index = InMemoryIndex::default();
        assert!(found(&index, "apple").is_empty());
        for id in 0..40 {
            index = index.with(vec![entry(id, &format!("apple number {id}"))], Vec::new());
        }
        assert_eq!(found(&index, "apple"), (0..40).collect::<Vec<_>>());
        assert!(index.levels.len() <= 7, "{}", index.levels.len());
        index = index.with(vec![entry(3, "pear")], vec![5, 39]);
        let left: Vec<u64> = (0..39).filter(|&id| id != 5).collect();
        assert_eq!((found(&index, "apple"), index.view().len()), (left, 38));
        assert_eq!(index.view().search(&Query::new("pear", 1))[0].id, 3);
    }

    #[test]
    fn a_deletion_outlives_a_merge() {
        let first = InMemoryIndex::default().with((0..10).map(|id| entry(id, "apple")).collect(), Vec::new());
        let index = first.with(vec![entry(20, "apple")], vec![4]).with(vec![entry(21, "apple")], Vec::new());
        assert_eq!(found(&index, "apple"), [0, 1, 2, 3, 5, 6, 7, 8, 9, 20, 21]);
        assert_eq!(found(&first, "apple").len(), 10);
    }

    #[test]
    fn a_search_keeps_to_the_ids_that_are_allowed() {
        let index = InMemoryIndex::default().with((0..10).map(|id| entry(id, "apple")).collect(), Vec::new());
        let filter = Filter { allowed: Some(&[2, 7]), ..Filter::default() };
        let hits = index.view().search(&Query { filter, ..Query::new("apple", 10) });
        let mut ids: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [2, 7]);
    }
}
