//! What may be found: conditions on entries, and the entries of a segment that pass them.
use super::entry::Meta;
use super::layout::{Column, Section};
use super::segment_reader::SegmentReader;

/// Conditions on entries; one passes that meets every condition that is set.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    pub sources: Option<&'a [u32]>,
    pub kinds: Option<&'a [u32]>,
    pub sessions: Option<&'a [u32]>,
    /// Bit `1 << tier` for each tier.
    pub tiers: Option<u8>,
    /// At this time or later.
    pub after_ms: Option<i64>,
    /// Before this time.
    pub before_ms: Option<i64>,
    pub min_trust: u8,
    /// These ids alone, ascending.
    pub allowed: Option<&'a [u64]>,
}

impl Filter<'_> {
    /// Whether everything passes.
    pub(super) fn is_open(&self) -> bool {
        let Self { sources, kinds, sessions, tiers, after_ms, before_ms, min_trust, allowed } = self;
        let lists = [sources, kinds, sessions].into_iter().all(|list| list.is_none());
        lists && tiers.is_none() && after_ms.is_none() && before_ms.is_none() && *min_trust == 0 && allowed.is_none()
    }

    /// Whether an entry passes.
    #[must_use]
    pub fn passes(&self, id: u64, meta: &Meta) -> bool {
        let among = |list: Option<&[u32]>, number| list.is_none_or(|list| list.contains(&number));
        meta.trust >= self.min_trust
            && self.tiers.is_none_or(|tiers| tiers.checked_shr(u32::from(meta.tier)).unwrap_or(0) & 1 == 1)
            && self.after_ms.is_none_or(|after| meta.time_ms >= after)
            && self.before_ms.is_none_or(|before| meta.time_ms < before)
            && among(self.sources, meta.source)
            && among(self.kinds, meta.kind)
            && among(self.sessions, meta.session)
            && self.allowed.is_none_or(|allowed| allowed.binary_search(&id).is_ok())
    }
}

/// Decides which entries of a segment may be found: live, not expired, and passing a filter.
pub(super) struct DocFilter<'a> {
    reader: &'a SegmentReader,
    expires: Column<'a, i64>,
    filter: &'a Filter<'a>,
    now_ms: i64,
    /// Whether only what is deleted or expired is held back.
    pub is_open: bool,
}

impl<'a> DocFilter<'a> {
    pub fn new(reader: &'a SegmentReader, filter: &'a Filter<'a>, now_ms: i64) -> Self {
        let expires = reader.segment.column(Section::Expires);
        Self { reader, expires, filter, now_ms, is_open: filter.is_open() }
    }

    #[inline]
    pub fn passes(&self, ordinal: usize) -> bool {
        if !self.reader.is_live(ordinal) || self.expires.get(ordinal) <= self.now_ms {
            return false;
        }
        self.is_open || {
            let meta: Meta = self.reader.segment.meta(ordinal as u32);
            self.filter.passes(self.reader.segment.column::<u64>(Section::Ids).get(ordinal), &meta)
        }
    }
}
