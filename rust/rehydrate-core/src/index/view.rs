//! Segments as one: entries that newer ones replace or delete are masked in older ones.
use std::sync::{Arc, Mutex};

use once_cell::race::OnceBox;

use super::layout::Section;
use super::score_buffer::ScoreBuffer;
use super::segment::Segment;
use super::segment_reader::{SegmentReader, mask};
use super::statistics::Statistics;
use crate::embed::builtin::PackedBag;
use crate::scoring::bm25::BM25;

/// Searches at once that find a buffer for their scores.
const KEPT_BUFFERS: usize = 4;

/// Some segments as one, at one moment. Cheap to make and to throw away.
pub struct View {
    pub(super) readers: Vec<SegmentReader>,
    /// Number of entries, deleted ones too.
    pub(super) entries: usize,
    pub(super) live: usize,
    /// Average number of terms of a live entry.
    pub(super) average_length: f32,
    statistics: OnceBox<Statistics>,
    share_of_one: OnceBox<Vec<f32>>,
    /// Left by searches for the next ones.
    buffer: Mutex<Vec<ScoreBuffer>>,
}

impl View {
    /// A view over segments, the newest last.
    #[must_use]
    pub fn new(segments: Vec<Arc<Segment>>) -> Self {
        let mut base = 0;
        let mut readers: Vec<SegmentReader> = Vec::with_capacity(segments.len());
        for segment in segments {
            for older in &mut readers {
                mask(older, &segment);
            }
            let length = segment.len();
            readers.push(SegmentReader { segment, base, deleted: Vec::new() });
            base += length;
        }
        let (mut live, mut total) = (base, 0);
        for reader in &readers {
            total += reader.segment.total_length();
            let length = reader.segment.column::<u16>(Section::Length);
            for (ordinal, _) in reader.deleted.iter().enumerate().filter(|(_, deleted)| **deleted) {
                live -= 1;
                total -= u64::from(length.get(ordinal));
            }
        }
        let average_length = (total as f64 / live.max(1) as f64).max(1e-9) as f32;
        let (statistics, share_of_one) = (OnceBox::new(), OnceBox::new());
        Self { readers, entries: base, live, average_length, statistics, share_of_one, buffer: Mutex::default() }
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

    /// Bytes of memory: its segments, values that are computed once, and values that searches keep for the next ones.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let segments: usize =
            self.readers.iter().map(|reader| reader.segment.held_bytes() + reader.deleted.len()).sum();
        let vocabulary = self.readers.first().map_or(0, |reader| reader.segment.section(Section::TokenWeights).len());
        let once = size_of::<f32>() * (usize::from(u16::MAX) + vocabulary);
        let searches = self.buffer.try_lock().map_or(1, |kept| kept.len().max(1));
        segments + once + searches * ScoreBuffer::ENTRY_BYTES * self.entries
    }

    /// The statistics of all entries, for [`super::Settings::older`].
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        self.statistics.get_or_init(|| {
            let mut all = Statistics::default();
            let mut packed = Vec::new();
            for reader in &self.readers {
                reader.segment.add_to(&mut all);
                if all.token_count.is_empty() {
                    continue;
                }
                for (ordinal, _) in reader.deleted.iter().enumerate().filter(|(_, deleted)| **deleted) {
                    packed.clear();
                    reader.segment.bag(ordinal, &mut packed);
                    PackedBag::read(&packed).ids().for_each(|token| all.token_count[token as usize] -= 1);
                }
            }
            all.entries = self.live as u32;
            Box::new(all)
        })
    }

    /// By the length of an entry, the share of its maximum that a term gives that occurs once: BM25's division, made
    /// once per view.
    pub(super) fn share_of_one(&self) -> &[f32] {
        self.share_of_one.get_or_init(|| Box::new(BM25.shares_of_one(self.average_length)))
    }

    /// Zeros for every entry. A search never waits for another's: if the lock is held (in another thread, or forever
    /// after a fork), new ones are made.
    pub(super) fn take_buffer(&self) -> ScoreBuffer {
        let mut buffer = self.buffer.try_lock().ok().and_then(|mut kept| kept.pop()).unwrap_or_default();
        buffer.clear(self.entries);
        buffer
    }

    pub(super) fn keep_buffer(&self, buffer: ScoreBuffer) {
        if let Ok(mut kept) = self.buffer.try_lock()
            && kept.len() < KEPT_BUFFERS
        {
            kept.push(buffer);
        }
    }

    /// The reader and the ordinal of an entry.
    pub(super) fn locate(&self, entry: usize) -> (&SegmentReader, usize) {
        let reader = self.readers.partition_point(|reader| reader.base <= entry) - 1;
        let reader = &self.readers[reader];
        (reader, entry - reader.base)
    }

    /// The nearest live entries of the same source before (false) or after (true) one, nearest first: their distances
    /// by id, and the entries, in place of the contents of `found`.
    pub(super) fn neighbours(&self, entry: usize, after: bool, number: usize, found: &mut Vec<(u64, usize)>) {
        let (home, ordinal) = self.locate(entry);
        let source = home.segment.column::<u32>(Section::Source).get(ordinal);
        let id = home.segment.column::<u64>(Section::Ids).get(ordinal);
        found.clear();
        for reader in &self.readers {
            let (sources, ids) =
                (reader.segment.column::<u32>(Section::Source), reader.segment.column::<u64>(Section::Ids));
            let last = sources.len().wrapping_sub(1);
            if sources.len() == 0 || source < sources.get(0) || source > sources.get(last) {
                continue;
            }
            // Another version of the entry itself may be here, deleted.
            let here = if std::ptr::eq(reader, home) { ordinal } else { reader.segment.lower_bound(source, id) };
            let near = |&at: &usize| sources.get(at) == source;
            let take = |at: usize| (ids.get(at).abs_diff(id), reader.base + at);
            let is_other = |at: &usize| reader.is_live(*at) && ids.get(*at) != id;
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
