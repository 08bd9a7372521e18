//! Segments as one: what newer ones replace or delete is masked in older ones.
use std::sync::{Arc, Mutex};

use once_cell::race::OnceBox;

use super::layout::{Column, Section};
use super::matching::Dense;
use super::segment::Segment;
use super::statistics::Statistics;
use super::{Filter, Meta};
use crate::embed::builtin::PackedBag;
use crate::lexical::{B, K1};

/// A segment within a view.
pub(super) struct Part {
    pub segment: Arc<Segment>,
    /// Entries of the view are numbered on from segment to segment: where this one begins.
    pub base: usize,
    /// By ordinal, whether a newer segment replaces or deletes it; empty: none.
    pub deleted: Vec<bool>,
}

impl Part {
    pub fn is_live(&self, ordinal: usize) -> bool {
        !self.deleted.get(ordinal).copied().unwrap_or(false)
    }
}

/// Searches at once that find their scores' place kept.
const DENSE_KEPT: usize = 4;

/// What some segments hold together, at one moment. Cheap to make and to throw away.
pub struct View {
    pub(super) parts: Vec<Part>,
    /// Number of entries, deleted ones too.
    pub(super) entries: usize,
    pub(super) live: usize,
    /// Average number of terms of a live entry.
    pub(super) average_length: f32,
    statistics: OnceBox<Statistics>,
    share_of_one: OnceBox<Vec<f32>>,
    /// Left by searches for the next ones.
    dense: Mutex<Vec<Dense>>,
}

impl View {
    /// A view over segments, the newest last.
    #[must_use]
    pub fn new(segments: Vec<Arc<Segment>>) -> Self {
        let mut base = 0;
        let mut parts: Vec<Part> = Vec::with_capacity(segments.len());
        for segment in segments {
            for older in &mut parts {
                mask(older, &segment);
            }
            let length = segment.len();
            parts.push(Part { segment, base, deleted: Vec::new() });
            base += length;
        }
        let (mut live, mut total) = (base, 0);
        for part in &parts {
            total += part.segment.total_length();
            let length = part.segment.column::<u16>(Section::Length);
            for (ordinal, _) in part.deleted.iter().enumerate().filter(|(_, deleted)| **deleted) {
                live -= 1;
                total -= u64::from(length.get(ordinal));
            }
        }
        let average_length = (total as f64 / live.max(1) as f64).max(1e-9) as f32;
        let (statistics, share_of_one) = (OnceBox::new(), OnceBox::new());
        Self { parts, entries: base, live, average_length, statistics, share_of_one, dense: Mutex::default() }
    }

    /// Number of entries that can be found.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Bytes of memory: its segments, what is worked out once, and what searches leave for the next ones.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let segments: usize = self.parts.iter().map(|part| part.segment.held_bytes() + part.deleted.len()).sum();
        let vocabulary = self.parts.first().map_or(0, |part| part.segment.section(Section::TokenWeights).len());
        let once = size_of::<f32>() * (usize::from(u16::MAX) + vocabulary);
        let searches = self.dense.try_lock().map_or(1, |kept| kept.len().max(1));
        segments + once + searches * Dense::ENTRY_BYTES * self.entries
    }

    /// What the entries have in common, for [`super::Settings::older`].
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        self.statistics.get_or_init(|| {
            let mut all = Statistics::default();
            let mut packed = Vec::new();
            for part in &self.parts {
                part.segment.add_to(&mut all);
                if all.token_count.is_empty() {
                    continue;
                }
                for (ordinal, _) in part.deleted.iter().enumerate().filter(|(_, deleted)| **deleted) {
                    packed.clear();
                    part.segment.bag(ordinal, &mut packed);
                    PackedBag::read(&packed).ids().for_each(|token| all.token_count[token as usize] -= 1);
                }
            }
            all.entries = self.live as u32;
            Box::new(all)
        })
    }

    /// By the length of an entry, what a term that stands there once gives of the most that it can give: BM25's division, made
    /// once a view.
    pub(super) fn share_of_one(&self) -> &[f32] {
        self.share_of_one.get_or_init(|| {
            let (least, per_term) = (K1 * (1.0 - B), K1 * B / f64::from(self.average_length));
            let share = |length: u16| (1.0 / (1.0 + least + per_term * f64::from(length))) as f32;
            Box::new((0..=u16::MAX).map(share).collect())
        })
    }

    /// Zeros for every entry. Nobody waits for another's: a lock that is held (in another thread, or, after a fork, for
    /// ever) means new ones.
    pub(super) fn take_dense(&self) -> Dense {
        let mut dense = self.dense.try_lock().ok().and_then(|mut kept| kept.pop()).unwrap_or_default();
        dense.clear(self.entries);
        dense
    }

    pub(super) fn keep_dense(&self, dense: Dense) {
        if let Ok(mut kept) = self.dense.try_lock()
            && kept.len() < DENSE_KEPT
        {
            kept.push(dense);
        }
    }

    /// The part and the ordinal of an entry.
    pub(super) fn locate(&self, entry: usize) -> (&Part, usize) {
        let part = self.parts.partition_point(|part| part.base <= entry) - 1;
        let part = &self.parts[part];
        (part, entry - part.base)
    }

    /// The nearest live entries of the same source before (false) or after (true) one, nearest first: their distances by id
    /// and themselves, in place of what `found` holds.
    pub(super) fn neighbours(&self, entry: usize, after: bool, number: usize, found: &mut Vec<(u64, usize)>) {
        let (home, ordinal) = self.locate(entry);
        let source = home.segment.column::<u32>(Section::Source).get(ordinal);
        let id = home.segment.column::<u64>(Section::Ids).get(ordinal);
        found.clear();
        for part in &self.parts {
            let (sources, ids) =
                (part.segment.column::<u32>(Section::Source), part.segment.column::<u64>(Section::Ids));
            let last = sources.len().wrapping_sub(1);
            if sources.len() == 0 || source < sources.get(0) || source > sources.get(last) {
                continue;
            }
            // Another version of the entry itself may stand here, deleted.
            let here = if std::ptr::eq(part, home) { ordinal } else { part.segment.place(source, id) };
            let near = |&at: &usize| sources.get(at) == source;
            let take = |at: usize| (ids.get(at).abs_diff(id), part.base + at);
            let is_other = |at: &usize| part.is_live(*at) && ids.get(*at) != id;
            if after {
                let those = (here..sources.len()).take_while(near).filter(is_other);
                found.extend(those.take(number).map(take));
            } else {
                let those = (0..here).rev().take_while(near).filter(is_other);
                found.extend(those.take(number).map(take));
            }
        }
        found.sort_unstable();
        found.truncate(number);
    }
}

/// Mark what `newer` replaces or deletes.
fn mask(older: &mut Part, newer: &Segment) {
    let Part { segment, deleted, .. } = older;
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

/// What may be found of a part.
pub(super) struct Gate<'a> {
    part: &'a Part,
    expires: Column<'a, i64>,
    filter: &'a Filter<'a>,
    now_ms: i64,
    /// Whether only what is deleted or expired is held back.
    pub is_open: bool,
}

impl<'a> Gate<'a> {
    pub fn new(part: &'a Part, filter: &'a Filter<'a>, now_ms: i64) -> Self {
        let expires = part.segment.column(Section::Expires);
        Self { part, expires, filter, now_ms, is_open: filter.is_open() }
    }

    #[inline]
    pub fn passes(&self, ordinal: usize) -> bool {
        if !self.part.is_live(ordinal) || self.expires.get(ordinal) <= self.now_ms {
            return false;
        }
        self.is_open || {
            let meta: Meta = self.part.segment.meta(ordinal as u32);
            self.filter.passes(self.part.segment.column::<u64>(Section::Ids).get(ordinal), &meta)
        }
    }
}
