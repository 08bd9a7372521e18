//! Cells: rows that point the same way lie together, so that a search looks into a few cells in place of all rows.
//!
//! Spherical k-means (Dhillon and Modha 2001) on a sample of the centred rows, then each row into its nearest cell. Rows
//! are stored cell by cell: what is looked at together lies together.
use crate::embed::{dot, is_present, normalize};
use crate::interrupt::checkpoint;

use super::rows::{BLOCK, Steps, whole_dots};
use super::sketch;

/// Below this many rows all are looked at: under a millisecond.
const FROM: usize = 4_096;
/// Rows of the sample for each cell.
const SAMPLED: usize = 32;
const ROUNDS: usize = 5;

/// Rows in cells.
pub(super) struct Cells {
    /// Directions of the cells, each of length 1, one after the other.
    pub centres: Vec<f32>,
    /// Where the rows of each begin, one more for the end; rows that are none come after it.
    pub at: Vec<u32>,
    /// The ordinal of each row in its new place.
    pub order: Vec<u32>,
}

/// Rows as they are being stored, and what centres them.
pub(super) struct Gathered<'a> {
    pub dim: usize,
    pub rows: &'a [u8],
    pub scale: &'a [f32],
    pub spread: &'a [f32],
    pub mean: &'a [f32],
}

/// How many cells so many rows are worth: about the square root, so that as much time goes into choosing cells as into
/// looking through them.
fn worth(rows: usize) -> usize {
    ((rows as f64).sqrt() * 1.5) as usize
}

impl Gathered<'_> {
    /// Put the rows in cells; None where there are too few of them.
    pub fn cells(&self) -> Option<Cells> {
        let present: Vec<u32> = (0..self.scale.len() as u32).filter(|&at| self.scale[at as usize] != 0.0).collect();
        if present.len() < FROM {
            return None;
        }
        let cells = worth(present.len());
        let sampled = (cells * SAMPLED).min(present.len());
        let sample: Vec<u32> = (0..sampled).map(|at| present[at * present.len() / sampled]).collect();
        let mut centres = vec![0.0; cells * self.dim];
        for (cell, centre) in centres.chunks_exact_mut(self.dim).enumerate() {
            self.add_centred(sample[cell * sampled / cells] as usize, centre);
            normalize(centre);
        }
        for _ in 0..ROUNDS {
            let nearest = self.nearest(&centres, &sample);
            let mut moved = vec![0.0; centres.len()];
            for (&row, &cell) in sample.iter().zip(&nearest) {
                self.add_centred(row as usize, &mut moved[cell as usize * self.dim..][..self.dim]);
            }
            for (centre, moved) in centres.chunks_exact_mut(self.dim).zip(moved.chunks_exact_mut(self.dim)) {
                normalize(moved);
                if is_present(moved) {
                    centre.copy_from_slice(moved);
                }
            }
        }
        let cell_of = self.nearest(&centres, &present);
        Some(self.arrange(centres, &present, &cell_of))
    }

    /// Sort rows by cell, those that are none last.
    fn arrange(&self, centres: Vec<f32>, present: &[u32], cell_of: &[u32]) -> Cells {
        let cells = centres.len() / self.dim;
        let mut at = vec![0_u32; cells + 1];
        cell_of.iter().for_each(|&cell| at[cell as usize + 1] += 1);
        (0..cells).for_each(|cell| at[cell + 1] += at[cell]);
        let mut next = at.clone();
        let mut order = vec![0; present.len()];
        for (&row, &cell) in present.iter().zip(cell_of) {
            let place = &mut next[cell as usize];
            order[*place as usize] = row;
            *place += 1;
        }
        order.extend((0..self.scale.len() as u32).filter(|&row| self.scale[row as usize] == 0.0));
        Cells { centres, at, order }
    }

    /// Sketches of the centred rows in that order.
    pub fn sketches(&self, order: &[u32]) -> Vec<u64> {
        let mut sketches = Vec::with_capacity(order.len() * sketch::words(self.dim));
        let (mut centred, mut turned) = (vec![0.0; self.dim], Vec::new());
        for &row in order {
            centred.fill(0.0);
            if self.scale[row as usize] != 0.0 {
                self.add_centred(row as usize, &mut centred);
            }
            sketch::push(&centred, &mut turned, &mut sketches);
        }
        sketches
    }

    /// Add the centred row to `out`.
    fn add_centred(&self, at: usize, out: &mut [f32]) {
        let (scale, inverse) = (self.scale[at], 1.0 / self.spread[at]);
        let row = &self.rows[at * self.dim..][..self.dim];
        for ((sum, &x), mean) in out.iter_mut().zip(row).zip(self.mean) {
            *sum += (f32::from(x.cast_signed()) * scale - mean) * inverse;
        }
    }

    /// The cell of each of some rows.
    fn nearest(&self, centres: &[f32], rows: &[u32]) -> Vec<u32> {
        let centres: Vec<(Steps, f32)> =
            centres.chunks_exact(self.dim).map(|centre| (Steps::of(centre), dot(centre, self.mean))).collect();
        let mut nearest = Vec::with_capacity(rows.len());
        let mut gathered = Vec::with_capacity(BLOCK * self.dim);
        let mut products = vec![0; BLOCK];
        for rows in rows.chunks(64) {
            checkpoint();
            gathered.clear();
            rows.iter().for_each(|&at| gathered.extend(&self.rows[at as usize * self.dim..][..self.dim]));
            let mut best = vec![(f32::NEG_INFINITY, 0_u32); rows.len()];
            for (cell, (steps, along_mean)) in (0..).zip(&centres) {
                let products = &mut products[..rows.len()];
                whole_dots(&gathered, self.dim, &steps.steps, products);
                for ((best, &product), &row) in best.iter_mut().zip(&*products).zip(rows) {
                    let along = product as f32 * steps.scale * self.scale[row as usize] - along_mean;
                    if along > best.0 {
                        *best = (along, cell);
                    }
                }
            }
            nearest.extend(best.iter().map(|(_, cell)| *cell));
        }
        nearest
    }
}
