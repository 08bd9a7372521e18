//! One segment within a view, with what newer segments replace or delete masked.
use std::sync::Arc;

use super::segment::Segment;

/// A segment within a view.
pub(super) struct SegmentReader {
    pub segment: Arc<Segment>,
    /// Entries of the view are numbered on from segment to segment: where this one begins.
    pub base: usize,
    /// By ordinal, whether a newer segment replaces or deletes it; empty: none.
    pub deleted: Vec<bool>,
}

impl SegmentReader {
    pub fn is_live(&self, ordinal: usize) -> bool {
        !self.deleted.get(ordinal).copied().unwrap_or(false)
    }
}

/// Mark what `newer` replaces or deletes.
pub(super) fn mask(older: &mut SegmentReader, newer: &Segment) {
    let SegmentReader { segment, deleted, .. } = older;
    let mut mark = |id| {
        if let Some(ordinal) = segment.find(id) {
            if deleted.is_empty() {
                deleted.resize(segment.len(), false);
            }
            deleted[ordinal as usize] = true;
        }
    };
    newer.tombstones().for_each(&mut mark);
    if let (Some((low, high)), Some((own_low, own_high))) = (segment.id_range(), newer.id_range())
        && low <= own_high
        && own_low <= high
    {
        newer.ids().filter(|id| (low..=high).contains(id)).for_each(&mut mark);
    }
}
