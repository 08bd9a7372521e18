//! Inverted lists: similar rows are stored together, so that a search reads a few lists instead of all rows.
//!
//! Spherical k-means (Dhillon and Modha 2001) on a sample of the rows less their mean, then each row into its nearest
//! list. Rows are stored list by list, since they are read together.
use crate::embed::int_products::{TILE, int_products};
use crate::embed::{is_present, normalize};
use crate::interrupt::checkpoint;

use super::quantise::{BLOCK, Quantised};

/// Below this many rows all are looked at: under a millisecond.
const MIN_ROWS: usize = 4_096;
/// Rows of the sample for each list.
const SAMPLES_PER_LIST: usize = 32;
const KMEANS_ROUNDS: usize = 5;

/// Rows in lists.
pub(super) struct InvertedLists {
    /// Directions of the lists, each of length 1, one after the other.
    pub centroids: Vec<f32>,
    /// The beginning of each list's rows, with one more number for the end. Rows of zeros come after it.
    pub at: Vec<u32>,
    /// The ordinal of each row by its slot.
    pub order: Vec<u32>,
}

/// Rows less their mean as they are being stored.
pub(super) struct StoredRows<'a> {
    pub dim: usize,
    pub rows: &'a [u8],
    pub scale: &'a [f32],
    pub residual_norm: &'a [f32],
}

/// The number of lists for so many rows. With half as many, twice the rows would be needed for as many of the nearest;
/// with twice as many, no fewer.
fn list_count(rows: usize) -> usize {
    ((rows as f64).sqrt() * 3.0) as usize
}

impl StoredRows<'_> {
    pub fn row(&self, at: usize) -> &[u8] {
        &self.rows[at * self.dim..][..self.dim]
    }

    /// Put the rows in lists; None if there are too few of them.
    pub fn lists(&self) -> Option<InvertedLists> {
        let present: Vec<u32> = (0..self.scale.len() as u32).filter(|&at| self.scale[at as usize] != 0.0).collect();
        if present.len() < MIN_ROWS {
            return None;
        }
        let lists = list_count(present.len());
        let sampled = (lists * SAMPLES_PER_LIST).min(present.len());
        let sample: Vec<u32> = (0..sampled).map(|at| present[at * present.len() / sampled]).collect();
        let mut centroids = vec![0.0; lists * self.dim];
        for (list, centroid) in centroids.chunks_exact_mut(self.dim).enumerate() {
            self.add_direction(sample[list * sampled / lists] as usize, centroid);
            normalize(centroid);
        }
        for _ in 0..KMEANS_ROUNDS {
            let nearest = self.nearest(&centroids, &sample);
            let mut moved = vec![0.0; centroids.len()];
            for (&row, &list) in sample.iter().zip(&nearest) {
                self.add_direction(row as usize, &mut moved[list as usize * self.dim..][..self.dim]);
            }
            for (centroid, moved) in centroids.chunks_exact_mut(self.dim).zip(moved.chunks_exact_mut(self.dim)) {
                normalize(moved);
                if is_present(moved) {
                    centroid.copy_from_slice(moved);
                }
            }
        }
        let list_of = self.nearest(&centroids, &present);
        Some(self.arrange(centroids, &present, &list_of))
    }

    /// Sort rows by list, missing rows last. A list without rows goes: if many rows are the same, many lists point
    /// the same way, one has all the rows, and a search would read the others.
    fn arrange(&self, mut centroids: Vec<f32>, present: &[u32], list_of: &[u32]) -> InvertedLists {
        let mut next = vec![0_u32; centroids.len() / self.dim];
        list_of.iter().for_each(|&list| next[list as usize] += 1);
        let (mut at, mut held) = (vec![0_u32], 0);
        for (list, slot) in next.iter_mut().enumerate() {
            let (begin, rows) = (at[held], *slot);
            *slot = begin;
            if rows > 0 {
                at.push(begin + rows);
                centroids.copy_within(list * self.dim..(list + 1) * self.dim, held * self.dim);
                held += 1;
            }
        }
        centroids.truncate(held * self.dim);
        let mut order = vec![0; present.len()];
        for (&row, &list) in present.iter().zip(list_of) {
            let slot = &mut next[list as usize];
            order[*slot as usize] = row;
            *slot += 1;
        }
        order.extend((0..self.scale.len() as u32).filter(|&row| self.scale[row as usize] == 0.0));
        InvertedLists { centroids, at, order }
    }

    /// Add the row, of length 1, to `out`.
    fn add_direction(&self, at: usize, out: &mut [f32]) {
        let step = self.scale[at] / self.residual_norm[at];
        let row = self.row(at);
        out.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f32::from(x.cast_signed()) * step);
    }

    /// The list of each of some rows.
    fn nearest(&self, centroids: &[f32], rows: &[u32]) -> Vec<u32> {
        let mut centroids: Vec<Quantised> = centroids.chunks_exact(self.dim).map(Quantised::of).collect();
        // The last tile is filled with copies, which are no nearer than their original.
        while let (false, Some(last)) = (centroids.len().is_multiple_of(TILE), centroids.last()) {
            centroids.push(last.clone());
        }
        let mut nearest = Vec::with_capacity(rows.len());
        let mut products = [[0; TILE]; BLOCK];
        for rows in rows.chunks(BLOCK) {
            checkpoint();
            let row = |&at: &u32| self.row(at as usize);
            let mut best = vec![(f32::NEG_INFINITY, 0_u32); rows.len()];
            for (first, tile) in (0..).step_by(TILE).zip(centroids.as_chunks::<TILE>().0) {
                let values = tile.each_ref().map(|centroid| centroid.values.as_slice());
                int_products(rows.iter().map(row), values, &mut products);
                for (best, products) in best.iter_mut().zip(&products) {
                    for ((list, centroid), &product) in (first..).zip(tile).zip(products) {
                        let along = product as f32 * centroid.scale;
                        if along > best.0 {
                            *best = (along, list);
                        }
                    }
                }
            }
            nearest.extend(best.iter().map(|(_, list)| *list));
        }
        nearest
    }
}
