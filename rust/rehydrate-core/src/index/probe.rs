//! A query's vector against the rows of one segment: exact cosines, choice of inverted lists.
use std::ops::Range;

use super::quantise::{BLOCK, MAX_VALUE, Quantised, int_dot, int_dots};
use super::vector_rows::Rows;
use crate::embed::int_products::{TILE, int_products};
use crate::embed::{dot, is_present};

/// A query against the rows of one segment.
pub(super) struct Probe {
    /// Rows are multiplied with it.
    quantised: Quantised,
    /// The mean's share of every cosine; 0 if the mean is taken from both sides.
    along_mean: f32,
    /// Whether the rows' mean is taken from both sides.
    centred: bool,
    /// The query less the mean, of length 1: lists are chosen by it.
    direction: Quantised,
}

impl Probe {
    /// `vector` has length 1. `centred`: the rows' mean is subtracted from both sides.
    pub fn new(vector: &[f32], rows: &Rows<'_>, centred: bool) -> Option<Self> {
        if rows.dim != vector.len() || !is_present(vector) {
            return None;
        }
        let towards = rows.direction(vector);
        let direction = Quantised::of(&towards);
        if centred {
            let quantised = direction.clone();
            return is_present(&towards).then_some(Self { quantised, along_mean: 0.0, centred, direction });
        }
        let mean: Vec<f32> = rows.mean.iter().collect();
        Some(Self { quantised: Quantised::of(vector), along_mean: dot(&mean, vector), centred, direction })
    }

    /// The cosine with the row of an ordinal; None if there is none.
    pub fn cosine(&self, rows: &Rows<'_>, ordinal: usize) -> Option<f32> {
        let slot = rows.slot(ordinal);
        let row = &rows.rows[slot * rows.dim..][..rows.dim];
        (rows.scale.get(slot) != 0.0).then(|| self.of_product(int_dot(row, &self.quantised.values), rows, slot))
    }

    /// The cosine with the row at a slot by its product.
    #[inline(always)]
    pub fn of_product(&self, product: i32, rows: &Rows<'_>, slot: usize) -> f32 {
        let along = product as f32 * self.quantised.scale * rows.scale.get(slot);
        let cosine = if self.centred { along / rows.residual_norm.get(slot) } else { along + self.along_mean };
        cosine.clamp(-1.0, 1.0)
    }

    /// The products of some queries with each row of a block.
    pub fn products(probes: [&Self; TILE], rows: &Rows<'_>, block: &Range<usize>, out: &mut [[i32; TILE]; BLOCK]) {
        let values = probes.map(|probe| probe.quantised.values.as_slice());
        int_products(rows.at(block).chunks_exact(rows.dim), values, out);
    }

    /// The products of one query with each row of a block.
    pub fn products_alone(&self, rows: &Rows<'_>, block: &Range<usize>, out: &mut [i32; BLOCK]) {
        int_dots(rows.at(block), rows.dim, &self.quantised.values, out);
    }

    /// The query less the mean in bytes, as rows are.
    pub fn byte_direction(&self) -> Vec<i8> {
        let steps = f32::from(i8::MAX) / MAX_VALUE;
        self.direction.values.iter().map(|&value| (f32::from(value) * steps).round() as i8).collect()
    }

    /// The lists nearest to the query that hold rows to be found, the nearest first: `number` of them, or more if there
    /// are fewer than `wanted` rows in these. `held` counts the rows of a list that may be found.
    pub fn lists(
        &self,
        rows: &Rows<'_>,
        number: usize,
        wanted: usize,
        mut held: impl FnMut(usize) -> usize,
    ) -> Vec<usize> {
        let mut products = vec![0; rows.lists()];
        int_dots(rows.centroids, rows.dim, &self.direction.values, &mut products);
        let along = |(list, &product): (usize, &i32)| (product as f32 * rows.centroid_scale.get(list), list);
        let mut along: Vec<(f32, usize)> = products.iter().enumerate().map(along).collect();
        let near = number.min(along.len());
        if near < along.len() {
            along.select_nth_unstable_by(near, |a, b| b.0.total_cmp(&a.0));
        }
        let (near, far) = along.split_at_mut(near);
        let (mut lists, mut found) = (Vec::with_capacity(near.len()), 0);
        let is_enough = |lists: usize, found: usize| lists >= number && found >= wanted;
        for part in [near, far] {
            if is_enough(lists.len(), found) {
                break;
            }
            part.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
            for &mut (_, list) in part {
                if is_enough(lists.len(), found) {
                    break;
                }
                let held = held(list);
                found += held;
                lists.extend((held > 0).then_some(list));
            }
        }
        lists
    }
}
