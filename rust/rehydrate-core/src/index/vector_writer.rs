//! Vectors of one space on their way into a segment: int8 rows with a scale each, residual norms, inverted lists of many.
use super::inverted_lists::StoredRows;
use super::layout::{VectorSections, Writer};
use super::quantise::{Quantised, int_dot, push_int8};
use super::sketch;
use crate::embed::{dot, is_present};

/// The square of a mean's length from which all rows are one: nothing would be left of them without it.
const MAX_MEAN_SQUARE: f32 = 0.999;

/// Rows being gathered, one an ordinal.
pub(super) struct RowsWriter {
    dim: usize,
    rows: Vec<u8>,
    scale: Vec<f32>,
    sum: Vec<f32>,
    present: u32,
}

impl RowsWriter {
    pub fn new(dim: usize, rows: usize) -> Self {
        Self {
            dim,
            rows: Vec::with_capacity(dim * rows),
            scale: Vec::with_capacity(rows),
            sum: vec![0.0; dim],
            present: 0,
        }
    }

    /// Append the row of the next ordinal: of length 1, or not [`is_present`]: none.
    pub fn push(&mut self, row: &[f32]) {
        if row.len() != self.dim || !is_present(row) {
            self.rows.resize(self.rows.len() + self.dim, 0);
            self.scale.push(0.0);
            return;
        }
        self.scale.push(push_int8(row, &mut self.rows));
        self.sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        self.present += 1;
    }

    /// Write them out; returns how many there are. `older` are the sum and number of the rows of older segments.
    pub fn finish(self, older: Option<(&[f32], u32)>, sections: VectorSections, writer: &mut Writer) -> u32 {
        let Self { dim, rows, scale, sum, present } = self;
        let mut mean = sum.clone();
        let mut counted = present;
        if let Some((sum, number)) = older.filter(|(sum, _)| sum.len() == dim) {
            mean.iter_mut().zip(sum).for_each(|(mean, sum)| *mean += sum);
            counted += number;
        }
        mean.iter_mut().for_each(|x| *x /= counted.max(1) as f32);
        if dot(&mean, &mean) > MAX_MEAN_SQUARE {
            mean.fill(0.0);
        }
        let quantised = Quantised::of(&mean);
        let square = dot(&mean, &mean);
        let residual_norm_of = |(row, &scale): (&[u8], &f32)| {
            let along = int_dot(row, &quantised.values) as f32 * quantised.scale * scale;
            if scale == 0.0 { 0.0 } else { (1.0 - 2.0 * along + square).max(1e-6).sqrt() }
        };
        let residual_norm: Vec<f32> = rows.chunks_exact(dim.max(1)).zip(&scale).map(residual_norm_of).collect();
        let gathered = StoredRows { dim, rows: &rows, scale: &scale, residual_norm: &residual_norm, mean: &mean };
        if let Some(lists) = gathered.lists() {
            let mut slots = vec![0_u32; lists.order.len()];
            (0..).zip(&lists.order).for_each(|(slot, &ordinal)| slots[ordinal as usize] = slot);
            let moved = |column: &[f32]| lists.order.iter().map(|&at| column[at as usize]).collect::<Vec<_>>();
            writer.put(sections.residual_norm, moved(&residual_norm));
            writer.put(sections.scale, moved(&scale));
            let row = |&at: &u32| &rows[at as usize * dim..][..dim];
            writer.bytes(sections.rows, lists.order.iter().flat_map(row).copied().collect());
            let mut centroids = Vec::with_capacity(lists.centroids.len());
            let scales: Vec<f32> =
                lists.centroids.chunks_exact(dim).map(|row| push_int8(row, &mut centroids)).collect();
            writer.bytes(sections.centroids, centroids);
            writer.put(sections.centroid_scale, scales);
            let (mut rotated, mut sketches) = (Vec::new(), Vec::new());
            lists.centroids.chunks_exact(dim).for_each(|centroid| sketch::push(centroid, &mut rotated, &mut sketches));
            writer.put(sections.centroid_sketches, sketches);
            writer.put(sections.sketches, gathered.sketches(&lists.order));
            writer.put(sections.lists, lists.at);
            writer.put(sections.order, lists.order);
            writer.put(sections.slots, slots);
        } else {
            writer.put(sections.residual_norm, residual_norm);
            writer.put(sections.scale, scale);
            writer.bytes(sections.rows, rows);
        }
        writer.put(sections.mean, mean);
        writer.put(sections.sum, sum);
        present
    }
}
