//! A query's vector against the rows of one segment: exact scan, pruned scan, choice of inverted lists.
use std::ops::Range;

use super::quantise::{BLOCK, Quantised, int_dot, int_dots, int_dots_at};
use super::segment_reader::DocFilter;
use super::sketch;
use super::top_k::TopK;
use super::vector_rows::Rows;
use crate::embed::{dot, is_present, normalize};

/// This multiple of the wanted lists is compared by more than sketches.
const CANDIDATES_PER_LIST: usize = 4;
const MIN_CANDIDATES: usize = 80;
/// Words from which a sketch tells lists and rows apart: of fewer bits, one in some hundred rows would miss its own list.
const MIN_SKETCH_WORDS: usize = 4;

/// Room for the results of kernels.
#[derive(Default)]
pub(super) struct Scratch {
    pub products: Vec<i32>,
    distances: Vec<u32>,
    near: Vec<u32>,
    /// By distance of two sketches, what the cosine may be.
    cosine_bounds: Vec<f32>,
}

/// A query against the rows of one segment.
pub(super) struct Probe {
    quantised: Quantised,
    /// The mean's share of every product.
    along_mean: f32,
    centred: bool,
    /// The query less the mean, of length 1: what lists are chosen by.
    direction: Quantised,
    /// How far the query lies from the mean.
    residual_norm: f32,
    /// The term that [`Probe::uncentred`] adds for every row.
    mean_term: f32,
    /// Of the direction.
    sketch: Vec<u64>,
}

impl Probe {
    /// `vector` has length 1; `centred`: the rows' mean is taken from both sides.
    pub fn new(vector: &[f32], rows: &Rows<'_>, centred: bool) -> Option<Self> {
        if rows.dim != vector.len() || !is_present(vector) {
            return None;
        }
        let mean: Vec<f32> = rows.mean.iter().collect();
        let mut direction: Vec<f32> = vector.iter().zip(&mean).map(|(x, mean)| x - mean).collect();
        let residual_norm = dot(&direction, &direction).sqrt();
        normalize(&mut direction);
        if centred && !is_present(&direction) {
            return None;
        }
        let mean_term = dot(&mean, vector) + 0.5 * (1.0 - dot(&mean, &mean));
        let mut sketch = Vec::new();
        if rows.lists() > 0 {
            sketch::push(&direction, &mut Vec::new(), &mut sketch);
        }
        let towards = Quantised::of(&direction);
        let (quantised, along_mean) =
            if centred { (towards.clone(), dot(&mean, &direction)) } else { (Quantised::of(vector), 0.0) };
        Some(Self { quantised, along_mean, centred, direction: towards, residual_norm, mean_term, sketch })
    }

    /// The cosine with the row of an ordinal; None where there is none.
    pub fn cosine(&self, rows: &Rows<'_>, ordinal: usize) -> Option<f32> {
        let at = rows.slot(ordinal);
        let row = &rows.rows[at * rows.dim..][..rows.dim];
        (rows.scale.get(at) != 0.0).then(|| self.of_product(int_dot(row, &self.quantised.values), rows, at))
    }

    #[inline(always)]
    fn of_product(&self, product: i32, rows: &Rows<'_>, at: usize) -> f32 {
        let cosine = product as f32 * self.quantised.scale * rows.scale.get(at);
        let cosine = if self.centred { (cosine - self.along_mean) / rows.residual_norm.get(at) } else { cosine };
        cosine.clamp(-1.0, 1.0)
    }

    /// Offer the rows at `slots` that pass to `best`, numbered from `base`.
    pub fn scan(
        &self,
        rows: &Rows<'_>,
        slots: Range<usize>,
        doc_filter: &DocFilter<'_>,
        base: usize,
        best: &mut TopK,
        products: &mut Vec<i32>,
    ) {
        products.resize(BLOCK, 0);
        let mut from = slots.start;
        while from < slots.end {
            let block = &mut products[..BLOCK.min(slots.end - from)];
            int_dots(&rows.rows[from * rows.dim..], rows.dim, &self.quantised.values, block);
            for (slot, &product) in (from..).zip(&*block) {
                let cosine = self.of_product(product, rows, slot);
                if cosine > best.floor && rows.scale.get(slot) != 0.0 {
                    let ordinal = rows.ordinal(slot);
                    best.offer(cosine, (base + ordinal) as u32, || doc_filter.passes(ordinal));
                }
            }
            from += BLOCK;
        }
    }

    /// The same for the rows of a list, but those whose sketch is too far from the query's to be among the best are passed
    /// over.
    pub fn pruned_scan(
        &self,
        rows: &Rows<'_>,
        slots: Range<usize>,
        doc_filter: &DocFilter<'_>,
        base: usize,
        best: &mut TopK,
        scratch: &mut Scratch,
    ) {
        let words = self.sketch.len();
        scratch.distances.resize(slots.len(), 0);
        let sketches = &rows.sketches.raw()[slots.start * words..slots.end * words];
        sketch::distances(sketches, &self.sketch, &mut scratch.distances);
        // Where nothing is good enough yet, the nearest by their sketches say what is.
        let mut seen = None;
        if best.floor <= 0.0 && best.capacity() < slots.len() {
            let Scratch { distances, near, .. } = &mut *scratch;
            near.clear();
            near.extend_from_slice(distances);
            let (_, &mut nearest, _) = near.select_nth_unstable(best.capacity());
            near.clear();
            near.extend((0..).zip(&*distances).filter(|(_, distance)| **distance <= nearest).map(|(at, _)| at));
            seen = Some(nearest);
            self.scan_rows(rows, slots.start, doc_filter, base, best, scratch);
        }
        let Scratch { distances, near, cosine_bounds, .. } = &mut *scratch;
        near.clear();
        let apart = (0_u32..).zip(&*distances).filter(|(_, distance)| seen.is_none_or(|seen| **distance > seen));
        if best.floor <= 0.0 || words < MIN_SKETCH_WORDS {
            near.extend(apart.map(|(at, _)| at));
        } else if self.centred {
            let limit = sketch::max_distance(best.floor, rows.dim);
            near.extend(apart.filter(|(_, distance)| **distance <= limit).map(|(at, _)| at));
        } else {
            sketch::cosine_bounds(rows.dim, cosine_bounds);
            let residual_norms = rows.residual_norm.range(slots.clone());
            let uncentred = |(at, distance): &(u32, &u32)| {
                self.uncentred(cosine_bounds[**distance as usize], residual_norms.get(*at as usize)) > best.floor
            };
            near.extend(apart.filter(uncentred).map(|(at, _)| at));
        }
        self.scan_rows(rows, slots.start, doc_filter, base, best, scratch);
    }

    /// Offer those of the rows from `first` on that `scratch.near` names.
    fn scan_rows(
        &self,
        rows: &Rows<'_>,
        first: usize,
        doc_filter: &DocFilter<'_>,
        base: usize,
        best: &mut TopK,
        scratch: &mut Scratch,
    ) {
        let Scratch { products, near, .. } = scratch;
        products.resize(near.len().max(products.len()), 0);
        int_dots_at(&rows.rows[first * rows.dim..], rows.dim, near, &self.quantised.values, products);
        for (&at, &product) in near.iter().zip(&*products) {
            let slot = first + at as usize;
            let cosine = self.of_product(product, rows, slot);
            if cosine > best.floor {
                let ordinal = rows.ordinal(slot);
                best.offer(cosine, (base + ordinal) as u32, || doc_filter.passes(ordinal));
            }
        }
    }

    /// The cosine, mean and all, with a row that lies `residual_norm` from the mean, by what it is less the mean.
    ///
    /// Of rows x = m + s u and the query q = m + t d, all of length 1: x q = m q + s m u + s t (d u), and as x x = 1,
    /// s m u = (1 - m m - s s) / 2.
    #[inline(always)]
    fn uncentred(&self, centred: f32, residual_norm: f32) -> f32 {
        self.mean_term + residual_norm * (self.residual_norm * centred - 0.5 * residual_norm)
    }

    /// The `number` lists that point most as the query does, the nearest first: of those whose sketches are nearest.
    pub fn lists(&self, rows: &Rows<'_>, number: usize, scratch: &mut Scratch) -> Vec<u32> {
        let Scratch { products, distances, near, .. } = scratch;
        distances.resize(rows.lists(), 0);
        sketch::distances(rows.centroid_sketches.raw(), &self.sketch, distances);
        near.clear();
        near.extend(0..rows.lists() as u32);
        let candidates = (CANDIDATES_PER_LIST * number).max(MIN_CANDIDATES);
        if candidates < near.len() && self.sketch.len() >= MIN_SKETCH_WORDS {
            near.select_nth_unstable_by_key(candidates, |&list| distances[list as usize]);
            near.truncate(candidates);
        }
        products.resize(near.len().max(products.len()), 0);
        int_dots_at(rows.centroids, rows.dim, near, &self.direction.values, products);
        let along = |(&product, &list): (&i32, &u32)| (product as f32 * rows.centroid_scale.get(list as usize), list);
        let mut along: Vec<(f32, u32)> = products.iter().zip(&*near).map(along).collect();
        if number < along.len() {
            along.select_nth_unstable_by(number, |a, b| b.0.total_cmp(&a.0));
            along.truncate(number);
        }
        along.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        along.into_iter().map(|(_, list)| list).collect()
    }
}
