//! Vectors of one space, read in place in a segment.
use std::ops::Range;

use super::layout::{Column, VectorSections};
use super::segment::Segment;
use crate::embed::normalize;

/// Rows less their mean, read in place, each in its slot: in the order of ordinals, or inverted list by inverted list.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub dim: usize,
    pub rows: &'a [u8],
    /// 0 for an entry without a vector.
    pub scale: Column<'a, f32>,
    /// The length of a row less the mean.
    pub residual_norm: Column<'a, f32>,
    pub mean: Column<'a, f32>,
    pub centroids: &'a [u8],
    pub centroid_scale: Column<'a, f32>,
    /// The beginning of each list's rows, with one more number for the end. Empty if there are no lists.
    pub lists: Column<'a, u32>,
    pub order: Column<'a, u32>,
    pub slots: Column<'a, u32>,
}

impl<'a> Rows<'a> {
    /// The rows of a segment in one space; None if it has none.
    pub fn of(segment: &'a Segment, sections: VectorSections) -> Option<Self> {
        let mean = segment.column::<f32>(sections.mean);
        (mean.len() > 0).then(|| Self {
            dim: mean.len(),
            rows: segment.section(sections.rows),
            scale: segment.column(sections.scale),
            residual_norm: segment.column(sections.residual_norm),
            mean,
            centroids: segment.section(sections.centroids),
            centroid_scale: segment.column(sections.centroid_scale),
            lists: segment.column(sections.lists),
            order: segment.column(sections.order),
            slots: segment.column(sections.slots),
        })
    }

    pub fn len(&self) -> usize {
        self.scale.len()
    }

    /// A vector less the mean, of length 1; zeros if it is the mean.
    pub fn direction(&self, vector: &[f32]) -> Vec<f32> {
        let mut direction: Vec<f32> = vector.iter().zip(self.mean.iter()).map(|(x, mean)| x - mean).collect();
        normalize(&mut direction);
        direction
    }

    /// The rows at some slots.
    pub fn at(&self, slots: &Range<usize>) -> &'a [u8] {
        &self.rows[slots.start * self.dim..slots.end * self.dim]
    }

    /// Number of lists; 0: all rows are compared.
    pub fn lists(&self) -> usize {
        self.lists.len().saturating_sub(1)
    }

    /// The ordinal of the row at `slot`.
    #[inline]
    pub fn ordinal(&self, slot: usize) -> usize {
        if self.order.len() == 0 { slot } else { self.order.get(slot) as usize }
    }

    /// The slot of the row of an ordinal.
    pub fn slot(&self, ordinal: usize) -> usize {
        if self.slots.len() == 0 { ordinal } else { self.slots.get(ordinal) as usize }
    }

    /// The rows of a list.
    pub fn list(&self, list: usize) -> Range<usize> {
        self.lists.get(list) as usize..self.lists.get(list + 1) as usize
    }
}
