//! Segments as one: what newer ones replace or delete is masked in older ones.
use std::sync::{Arc, Mutex};

use once_cell::race::OnceBox;

use super::layout::Section;
use super::matching::Dense;
use super::segment::Segment;
use super::statistics::Statistics;
use super::{Filter, Meta};
use crate::embed::builtin::PackedBag;

/// A segment within a view.
pub(super) struct Part {
    pub segment: Arc<Segment>,
    /// Entries of the view are numbered on from segment to segment: where this one begins.
    pub base: usize,
    /// By ordinal, whether a newer segment replaces or deletes it; empty: none.
    pub dead: Vec<bool>,
}

impl Part {
    pub fn is_live(&self, ordinal: usize) -> bool {
        !self.dead.get(ordinal).copied().unwrap_or(false)
    }
}

/// Searches at once that find their scores' place kept.
const DENSE_KEPT: usize = 4;

/// What some segments hold together, at one moment. Cheap to make and to throw away.
pub struct View {
    pub(super) parts: Vec<Part>,
    /// Number of entries, dead ones too.
    pub(super) entries: usize,
    pub(super) live: usize,
    /// Average number of terms of a live entry.
    pub(super) average_length: f32,
    statistics: OnceBox<Statistics>,
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
            parts.push(Part { segment, base, dead: Vec::new() });
            base += length;
        }
        let (mut live, mut total) = (base, 0);
        for part in &parts {
            total += part.segment.total_length();
            let length = part.segment.column::<u16>(Section::Length);
            for (ordinal, _) in part.dead.iter().enumerate().filter(|(_, dead)| **dead) {
                live -= 1;
                total -= u64::from(length.get(ordinal));
            }
        }
        let average_length = (total as f64 / live.max(1) as f64).max(1e-9) as f32;
        Self { parts, entries: base, live, average_length, statistics: OnceBox::new(), dense: Mutex::default() }
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
                for (ordinal, _) in part.dead.iter().enumerate().filter(|(_, dead)| **dead) {
                    packed.clear();
                    part.segment.bag(ordinal, &mut packed);
                    PackedBag::read(&packed).ids().for_each(|token| all.token_count[token as usize] -= 1);
                }
            }
            all.entries = self.live as u32;
            Box::new(all)
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

    /// The nearest live entries of the same source before (false) or after (true) one, nearest first.
    pub(super) fn neighbours(&self, entry: usize, after: bool, number: usize) -> Vec<usize> {
        let (home, ordinal) = self.locate(entry);
        let source = home.segment.column::<u32>(Section::Source).get(ordinal);
        let id = home.segment.column::<u64>(Section::Ids).get(ordinal);
        let mut found: Vec<(u64, usize)> = Vec::with_capacity(number);
        for part in &self.parts {
            let (sources, ids) =
                (part.segment.column::<u32>(Section::Source), part.segment.column::<u64>(Section::Ids));
            // Another version of the entry itself may stand here, dead.
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
        found.into_iter().take(number).map(|(_, entry)| entry).collect()
    }
}

/// Mark what `newer` replaces or deletes.
fn mask(older: &mut Part, newer: &Segment) {
    let Part { segment, dead, .. } = older;
    let mut mark = |id| {
        if let Some(ordinal) = segment.find(id) {
            if dead.is_empty() {
                dead.resize(segment.len(), false);
            }
            dead[ordinal as usize] = true;
        }
    };
    newer.gone().for_each(&mut mark);
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
    filter: &'a Filter<'a>,
    now_ms: i64,
    open: bool,
}

impl<'a> Gate<'a> {
    pub fn new(part: &'a Part, filter: &'a Filter<'a>, now_ms: i64) -> Self {
        Self { part, filter, now_ms, open: filter.is_open() }
    }

    #[inline]
    pub fn passes(&self, ordinal: usize) -> bool {
        let segment = &self.part.segment;
        if !self.part.is_live(ordinal) || segment.column::<i64>(Section::Expires).get(ordinal) <= self.now_ms {
            return false;
        }
        self.open || {
            let meta: Meta = segment.meta(ordinal as u32);
            self.filter.passes(segment.column::<u64>(Section::Ids).get(ordinal), &meta)
        }
    }
}
