//! The rows of one segment that are nearest to questions: those of the nearest inverted lists, or all allowed ones.
use std::ops::Range;

use super::layout::VectorSections;
use super::probe::Probe;
use super::quantise::BLOCK;
use super::query::Filter;
use super::segment::Segment;
use super::segment_reader::{DocFilter, SegmentReader};
use super::top_k::TopK;
use super::vector_rows::Rows;
use crate::embed::int_products::TILE;
use crate::interrupt::{Pace, checkpoint};

/// Rows by which it is judged how many may be found.
const SAMPLE: usize = 512;
/// If less than one in this many may be found, each of them is compared.
const FEW: usize = 4;
/// Rows that a walk of a graph looks for: the minimum, and the number for each wanted one.
const WALKED: usize = 64;
const WALKED_FOR_EACH: usize = 2;
/// A walk looks for at most one row in this many: lists find more in less time.
const WALKED_SHARE: usize = 64;

/// The number of inverted lists that are searched.
#[derive(Clone, Copy)]
pub(super) struct Probed {
    /// One in this many.
    pub share: usize,
    pub at_least: usize,
}

/// The rows of a segment that are searched, and which of them may be found.
pub(super) struct Haystack<'a> {
    pub rows: Rows<'a>,
    sections: VectorSections,
    segment: &'a Segment,
    doc_filter: DocFilter<'a>,
    base: usize,
}

impl<'a> Haystack<'a> {
    /// None for a segment without vectors in that space.
    pub fn new(
        reader: &'a SegmentReader,
        sections: VectorSections,
        filter: &'a Filter<'a>,
        now_ms: i64,
    ) -> Option<Self> {
        let doc_filter = DocFilter::new(reader, filter, now_ms);
        let rows = Rows::of(&reader.segment, sections)?;
        Some(Self { rows, sections, segment: &reader.segment, doc_filter, base: reader.base })
    }

    /// Offer the rows nearest to each question to its `best`. The more rows are hidden, the more lists are read, and never
    /// fewer than hold as many rows as are wanted. If few rows are left, all of them are compared.
    pub fn nearest(&self, probed: Probed, asking: &[(u32, &Probe)], best: &mut [TopK]) {
        let Self { rows, doc_filter, .. } = self;
        if rows.lists() == 0 {
            return self.scan(0..rows.len(), asking, best);
        }
        let passes = |at: &usize| doc_filter.hides_none || doc_filter.passes(at * rows.len() / SAMPLE);
        let passing = (0..SAMPLE).filter(passes).count();
        if passing * FEW < SAMPLE {
            let mut pace = Pace::default();
            for ordinal in (0..rows.len()).filter(|&ordinal| doc_filter.passes(ordinal)) {
                pace.step_by(asking.len());
                asking.iter().for_each(|(question, probe)| self.compare(probe, ordinal, &mut best[*question as usize]));
            }
            return;
        }
        // Lists answer what a walk does not.
        let is_left = |(question, probe): &(u32, &Probe)| !self.walk(probe, &mut best[*question as usize]);
        let asking: Vec<(u32, &Probe)> = asking.iter().copied().filter(is_left).collect();
        let number = (rows.lists() / probed.share).max(probed.at_least) * SAMPLE / passing;
        let mut visits: Vec<(usize, u32)> = Vec::new();
        let mut counts = vec![None; rows.lists()];
        for (at, (question, probe)) in (0..).zip(&asking) {
            checkpoint();
            let wanted = best[*question as usize].limit;
            let held = |list: usize| *counts[list].get_or_insert_with(|| self.held(rows.list(list), wanted));
            visits.extend(probe.lists(rows, number, wanted, held).into_iter().map(|list| (list, at)));
        }
        // List by list, so that all searches of one find its rows in the processor's cache.
        visits.sort_unstable();
        for visits in visits.chunk_by(|a, b| a.0 == b.0) {
            let asking: Vec<(u32, &Probe)> = visits.iter().map(|(_, at)| asking[*at as usize]).collect();
            self.scan(rows.list(visits[0].0), &asking, best);
        }
    }

    /// The number of rows at `slots` that may be found, counted up to `wanted` if some are hidden.
    fn held(&self, slots: Range<usize>, wanted: usize) -> usize {
        if self.doc_filter.hides_none {
            return slots.len();
        }
        slots.filter(|&slot| self.doc_filter.passes(self.rows.ordinal(slot))).take(wanted).count()
    }

    /// Offer the row of an ordinal that may be found.
    fn compare(&self, probe: &Probe, ordinal: usize, best: &mut TopK) {
        if let Some(cosine) = probe.cosine(&self.rows, ordinal) {
            best.offer(cosine, (self.base + ordinal) as u32, || true);
        }
    }

    /// Offer the rows that a walk of the graph finds. Returns whether it found as many as are wanted: none is made
    /// without a graph, nor where so many are wanted that lists are quicker.
    fn walk(&self, probe: &Probe, best: &mut TopK) -> bool {
        let number = best.limit.saturating_mul(WALKED_FOR_EACH).max(WALKED);
        if !self.segment.is_walked(self.sections) || number > self.rows.len() / WALKED_SHARE {
            return false;
        }
        checkpoint();
        let passes = |ordinal| self.doc_filter.passes(ordinal);
        let found = self.segment.walk(self.sections, &probe.byte_direction(), number, passes).unwrap_or_default();
        let is_enough = found.len() >= best.limit;
        if is_enough {
            found.into_iter().for_each(|ordinal| self.compare(probe, ordinal, best));
        }
        is_enough
    }

    /// Offer the rows at `slots`, block by block and some questions at a time.
    fn scan(&self, slots: Range<usize>, asking: &[(u32, &Probe)], best: &mut [TopK]) {
        let (tiles, rest) = asking.as_chunks::<TILE>();
        let mut products = [[0; TILE]; BLOCK];
        let mut alone = [0; BLOCK];
        for from in slots.clone().step_by(BLOCK) {
            checkpoint();
            let block = from..slots.end.min(from + BLOCK);
            for tile in tiles {
                Probe::products(tile.map(|(_, probe)| probe), &self.rows, &block, &mut products);
                for (at, (question, probe)) in tile.iter().enumerate() {
                    let products = products.iter().map(|products| products[at]);
                    self.offer(probe, products, &block, &mut best[*question as usize]);
                }
            }
            for (question, probe) in rest {
                probe.products_alone(&self.rows, &block, &mut alone);
                self.offer(probe, alone.iter().copied(), &block, &mut best[*question as usize]);
            }
        }
    }

    /// Offer the allowed rows of a block, whose products with a question are known.
    fn offer(&self, probe: &Probe, products: impl Iterator<Item = i32>, block: &Range<usize>, best: &mut TopK) {
        let Self { rows, doc_filter, base, .. } = self;
        for (slot, product) in block.clone().zip(products) {
            let cosine = probe.of_product(product, rows, slot);
            if cosine > best.floor && rows.scale.get(slot) != 0.0 {
                let ordinal = rows.ordinal(slot);
                best.offer(cosine, (base + ordinal) as u32, || doc_filter.passes(ordinal));
            }
        }
    }
}
