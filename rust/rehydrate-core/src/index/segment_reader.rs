//! One segment within a view. Entries that newer segments replace or delete are masked, and a filter hides more.
use std::sync::Arc;

use super::entry::Meta;
use super::layout::{Column, Section};
use super::query::Filter;
use super::segment::Segment;

/// A segment within a view.
pub(super) struct SegmentReader {
    pub segment: Arc<Segment>,
    /// The number in the view of this segment's first entry. Entries are numbered on from segment to segment.
    pub base: usize,
    /// By ordinal, whether a newer segment replaces or deletes it. Empty if none does.
    pub deleted: Vec<bool>,
}

impl SegmentReader {
    pub fn is_live(&self, ordinal: usize) -> bool {
        !self.deleted.get(ordinal).copied().unwrap_or(false)
    }
}

/// Mark the entries that `newer` replaces or deletes.
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

/// Decides which entries of a segment may be found: live, not expired, and passing a filter.
pub(super) struct DocFilter<'a> {
    reader: &'a SegmentReader,
    expires: Column<'a, i64>,
    filter: &'a Filter<'a>,
    now_ms: i64,
    /// Whether only deleted or expired entries are hidden.
    is_open: bool,
    /// Whether every entry may be found.
    pub hides_none: bool,
}

impl<'a> DocFilter<'a> {
    pub fn new(reader: &'a SegmentReader, filter: &'a Filter<'a>, now_ms: i64) -> Self {
        let (expires, is_open) = (reader.segment.column(Section::Expires), filter.is_open());
        let hides_none = is_open && reader.deleted.is_empty() && reader.segment.first_expiry_ms > now_ms;
        Self { reader, expires, filter, now_ms, is_open, hides_none }
    }

    #[inline]
    pub fn passes(&self, ordinal: usize) -> bool {
        if self.hides_none {
            return true;
        }
        if !self.reader.is_live(ordinal) || self.expires.get(ordinal) <= self.now_ms {
            return false;
        }
        self.is_open || {
            let meta: Meta = self.reader.segment.meta(ordinal as u32);
            self.filter.passes(self.reader.segment.column::<u64>(Section::Ids).get(ordinal), &meta)
        }
    }
}
