//! One immutable piece of an index, read in place.
use std::sync::Arc;

use super::build;
use super::entry::{Entry, Meta, Settings};
use super::graph::{Graph, NOT_MADE};
use super::layout::{self, Column, Damaged, Fixed, Layout, Section, VectorSections};
use super::postings::Postings;
use super::statistics::Statistics;
use super::vector_index::VectorIndex;
use super::verify::verify;

/// Bytes that stay where they are: a vector, a memory map.
pub type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// An immutable piece of an index: entries, and the ids that it deletes from older segments.
pub struct Segment {
    bytes: Bytes,
    layout: Layout,
    len: usize,
    /// The time when the first of its entries expires.
    pub(super) first_expiry_ms: i64,
    /// The graphs of the built-in model's vectors and of the caller's.
    graphs: [Graph; 2],
    walked_from: usize,
}

impl Segment {
    /// The bytes of a segment of `entries`. It replaces the entries of the same ids in older segments, and deletes
    /// `tombstones` from them. Of two entries with one id the later counts.
    #[must_use]
    pub fn build(entries: &[Entry<'_>], tombstones: &[u64], settings: &Settings<'_>) -> Vec<u8> {
        build::build(entries, tombstones, settings)
    }

    /// Read the bytes of [`Segment::build`]. The checksum covers every byte, and no offset leads outside, even in
    /// forged bytes.
    ///
    /// # Errors
    /// [`Damaged`] where the bytes are not, to the last bit, what was written by this version.
    pub fn open(bytes: Bytes) -> Result<Self, Damaged> {
        let layout = Layout::read((*bytes).as_ref())?;
        let mut segment =
            Self { bytes, layout, len: 0, first_expiry_ms: i64::MAX, graphs: Default::default(), walked_from: 0 };
        segment.len = segment.column::<u64>(Section::Ids).len();
        verify(&segment)?;
        segment.first_expiry_ms = segment.column(Section::Expires).iter().min().unwrap_or(i64::MAX);
        Ok(segment)
    }

    /// The mark of the caller's model whose vectors it holds; None if it holds none.
    #[must_use]
    pub fn space(&self) -> Option<u64> {
        (self.count(3) > 0).then(|| self.count(5))
    }

    /// Bytes it takes.
    pub(super) fn held_bytes(&self) -> usize {
        (*self.bytes).as_ref().len()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Ids in the order of ordinals: by source, then by id.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.column(Section::Ids).iter()
    }

    /// Ids that this segment deletes from older ones, ascending.
    pub fn tombstones(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.column(Section::Tombstones).iter()
    }

    /// The ordinal of an id.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<u32> {
        let (ids, by_id) = (self.column::<u64>(Section::Ids), self.column::<u32>(Section::ById));
        let (mut from, mut to) = (0, by_id.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            if ids.get(by_id.get(middle) as usize) < id { from = middle + 1 } else { to = middle }
        }
        (from < by_id.len()).then(|| by_id.get(from)).filter(|&ordinal| ids.get(ordinal as usize) == id)
    }

    /// An entry's metadata.
    ///
    /// # Panics
    /// On an ordinal beyond the last.
    #[must_use]
    pub fn meta(&self, ordinal: u32) -> Meta {
        let at = ordinal as usize;
        Meta {
            time_ms: self.column(Section::Time).get(at),
            source: self.column(Section::Source).get(at),
            kind: self.column(Section::Kind).get(at),
            thread: self.column(Section::ThreadOf).get(at),
            tier: self.column(Section::Tier).get(at),
            trust: self.column(Section::Trust).get(at),
            expires_ms: self.column(Section::Expires).get(at),
        }
    }

    /// The least and the largest id.
    pub(super) fn id_range(&self) -> Option<(u64, u64)> {
        let (ids, by_id) = (self.column::<u64>(Section::Ids), self.column::<u32>(Section::ById));
        let last = by_id.len().checked_sub(1)?;
        Some((ids.get(by_id.get(0) as usize), ids.get(by_id.get(last) as usize)))
    }

    /// The same, whose graphs are walked as `index` says.
    #[must_use]
    pub fn with(self, index: VectorIndex) -> Self {
        Self { walked_from: index.graph_from().unwrap_or(usize::MAX), ..self }
    }

    /// Whether a space that should have a graph has none.
    #[must_use]
    pub fn lacks_graph(&self) -> bool {
        let lacks = |sections: VectorSections| {
            self.present(sections) >= self.walked_from && self.section(sections.graph).is_empty()
        };
        lacks(layout::BUILTIN) || lacks(layout::OWN)
    }

    /// Whether a space has a graph to walk.
    pub(super) fn is_walked(&self, sections: VectorSections) -> bool {
        self.present(sections) >= self.walked_from && self.section(sections.graph).len() > NOT_MADE.len()
    }

    /// The number of entries that have a vector of a space.
    fn present(&self, sections: VectorSections) -> usize {
        self.count(if sections.graph as usize == Section::OwnGraph as usize { 3 } else { 2 }) as usize
    }

    /// [`Graph::walk`] over the rows of one space.
    pub(super) fn walk(
        &self,
        sections: VectorSections,
        direction: &[i8],
        number: usize,
        passes: impl Fn(usize) -> bool,
    ) -> Option<Vec<usize>> {
        let graph = &self.graphs[usize::from(sections.graph as usize == Section::OwnGraph as usize)];
        let at = (self.layout.at(sections.graph), self.len);
        graph.walk(&self.bytes, at, direction, number, passes)
    }

    pub(super) fn section(&self, section: Section) -> &[u8] {
        self.layout.of((*self.bytes).as_ref(), section)
    }

    pub(super) fn column<T: Fixed>(&self, section: Section) -> Column<'_, T> {
        Column::new(self.section(section))
    }

    pub(super) fn count(&self, at: usize) -> u64 {
        self.column::<u64>(Section::Counts).get(at)
    }

    /// The sum of all lengths.
    pub(super) fn total_length(&self) -> u64 {
        self.count(0)
    }

    /// The place where the entries with a source and an id from `(source, id)` on begin.
    pub(super) fn lower_bound(&self, source: u32, id: u64) -> usize {
        let (sources, ids) = (self.column::<u32>(Section::Source), self.column::<u64>(Section::Ids));
        let (mut from, mut to) = (0, self.len);
        while from < to {
            let middle = usize::midpoint(from, to);
            if (sources.get(middle), ids.get(middle)) < (source, id) { from = middle + 1 } else { to = middle }
        }
        from
    }

    /// The index of a term.
    pub(super) fn find_term(&self, hash: u64) -> Option<usize> {
        self.column::<u64>(Section::Terms).find(hash)
    }

    /// The postings of a term.
    pub(super) fn postings(&self, hash: u64) -> Postings<'_> {
        self.find_term(hash).map_or(Postings::default(), |term| self.postings_at(term))
    }

    /// The number of entries that have a term, without reading its postings.
    pub(super) fn entries_with(&self, hash: u64) -> usize {
        self.find_term(hash).map_or(0, |term| self.column::<u32>(Section::TermCount).get(term) as usize)
    }

    /// The postings of the term at that index.
    pub(super) fn postings_at(&self, term: usize) -> Postings<'_> {
        let at = self.column::<u64>(Section::TermAt);
        let bytes = &self.section(Section::Postings)[at.get(term) as usize..at.get(term + 1) as usize];
        Postings { bytes, entries: self.column::<u32>(Section::TermCount).get(term) }
    }

    /// The words of the vocabulary that hold a trigram.
    pub(super) fn words_with(&self, trigram: u32) -> Column<'_, u32> {
        let at = self.column::<u32>(Section::TrigramAt);
        let range = self
            .column::<u32>(Section::Trigrams)
            .find(trigram)
            .map_or(0..0, |found| at.get(found) as usize..at.get(found + 1) as usize);
        self.column::<u32>(Section::TrigramWords).range(range)
    }

    /// The packed bag of an entry, appended to `out`.
    pub(super) fn bag(&self, ordinal: usize, out: &mut Vec<u32>) {
        let at = self.column::<u32>(Section::BagAt);
        out.extend(
            self.column::<u32>(Section::Bags).range(at.get(ordinal) as usize..at.get(ordinal + 1) as usize).iter(),
        );
    }

    /// Add the counts of this segment.
    pub(super) fn add_to(&self, all: &mut Statistics) {
        all.entries += self.len as u32;
        all.builtin_present += self.count(2) as u32;
        all.own_present += self.count(3) as u32;
        all.token_count.resize(self.section(Section::TokenWeights).len(), 0);
        let tokens = self.column::<u16>(Section::Tokens).iter();
        for (token, count) in tokens.zip(self.column::<u32>(Section::TokenCount).iter()) {
            all.token_count[token as usize] += count;
        }
        let add = |sum: &mut Vec<f32>, section| {
            let own = self.column::<f32>(section);
            sum.resize(own.len().max(sum.len()), 0.0);
            sum.iter_mut().zip(own.iter()).for_each(|(sum, x)| *sum += x);
        };
        add(&mut all.builtin_sum, Section::BuiltinSum);
        add(&mut all.own_sum, Section::OwnSum);
    }
}
