//! Vectors of one space in a segment: int8 rows with a scale each, and how far each lies from their mean.
use super::layout::{Column, Section, Writer};
use super::search::Best;
use super::view::Gate;
use crate::embed::{dot, is_present};

/// Rows that are compared at once.
pub(super) const BLOCK: usize = 1024;

/// The sections of one space.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub rows: Section,
    pub scale: Section,
    pub spread: Section,
    pub mean: Section,
    pub sum: Section,
}

pub(super) const BUILTIN: Place = Place {
    rows: Section::BuiltinRows,
    scale: Section::BuiltinScale,
    spread: Section::BuiltinSpread,
    mean: Section::BuiltinMean,
    sum: Section::BuiltinSum,
};

pub(super) const OWN: Place = Place {
    rows: Section::OwnRows,
    scale: Section::OwnScale,
    spread: Section::OwnSpread,
    mean: Section::OwnMean,
    sum: Section::OwnSum,
};

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
        let largest = row.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        let steps = 127.0 / largest;
        self.rows.extend(row.iter().map(|x| ((x * steps).round() as i8).cast_unsigned()));
        self.scale.push(1.0 / steps);
        self.sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        self.present += 1;
    }

    /// Write them out; returns how many there are. `older` are the sum and number of the rows of older segments.
    pub fn finish(self, older: Option<(&[f32], u32)>, place: Place, writer: &mut Writer) -> u32 {
        let mut mean = self.sum.clone();
        let mut present = self.present;
        if let Some((sum, number)) = older.filter(|(sum, _)| sum.len() == self.dim) {
            mean.iter_mut().zip(sum).for_each(|(mean, sum)| *mean += sum);
            present += number;
        }
        mean.iter_mut().for_each(|x| *x /= present.max(1) as f32);
        let steps = Steps::of(&mean);
        let square = dot(&mean, &mean);
        let spread = self.rows.chunks_exact(self.dim.max(1)).zip(&self.scale).map(|(row, &scale)| {
            let along = steps.dot(row) * scale;
            if scale == 0.0 { 0.0 } else { (1.0 - 2.0 * along + square).max(1e-6).sqrt() }
        });
        writer.put(place.spread, spread);
        writer.put(place.scale, self.scale);
        writer.put(place.mean, mean);
        writer.put(place.sum, self.sum);
        writer.bytes(place.rows, self.rows);
        self.present
    }
}

/// Rows read where they lie.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub dim: usize,
    pub rows: &'a [u8],
    pub scale: Column<'a, f32>,
    pub spread: Column<'a, f32>,
    pub mean: Column<'a, f32>,
}

/// A vector that rows are compared with, in whole steps.
pub(super) struct Steps {
    steps: Vec<i16>,
    scale: f32,
}

/// So fine that sums of 8,192 products with bytes stay below 2^31.
const FINEST: f32 = 2047.0;

impl Steps {
    pub fn of(vector: &[f32]) -> Self {
        let largest = vector.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        if largest == 0.0 || !largest.is_finite() {
            return Self { steps: vec![0; vector.len()], scale: 0.0 };
        }
        let steps = FINEST / largest;
        Self { steps: vector.iter().map(|x| (x * steps).round() as i16).collect(), scale: 1.0 / steps }
    }

    pub fn dot(&self, row: &[u8]) -> f32 {
        whole_dot(row, &self.steps) as f32 * self.scale
    }
}

/// A query against the rows of one segment.
pub(super) struct Probe {
    steps: Steps,
    /// What the mean contributes to every product.
    along_mean: f32,
    centred: bool,
}

impl Probe {
    /// `vector` has length 1; `centred`: the rows' mean is taken from both sides.
    pub fn new(vector: &[f32], rows: &Rows<'_>, centred: bool) -> Option<Self> {
        if rows.dim != vector.len() || !is_present(vector) {
            return None;
        }
        if !centred {
            return Some(Self { steps: Steps::of(vector), along_mean: 0.0, centred });
        }
        let mean: Vec<f32> = rows.mean.iter().collect();
        let mut moved: Vec<f32> = vector.iter().zip(&mean).map(|(x, mean)| x - mean).collect();
        crate::embed::normalize(&mut moved);
        is_present(&moved).then(|| Self { along_mean: dot(&mean, &moved), steps: Steps::of(&moved), centred })
    }

    /// The cosine with row `at`; None where there is no row.
    #[inline]
    pub fn cosine(&self, rows: &Rows<'_>, at: usize) -> Option<f32> {
        let scale = rows.scale.get(at);
        (scale != 0.0).then(|| self.of_product(whole_dot(rows.row(at), &self.steps.steps), scale, rows, at))
    }

    #[inline(always)]
    fn of_product(&self, product: i32, scale: f32, rows: &Rows<'_>, at: usize) -> f32 {
        let cosine = product as f32 * self.steps.scale * scale;
        if self.centred { ((cosine - self.along_mean) / rows.spread.get(at)).clamp(-1.0, 1.0) } else { cosine.clamp(-1.0, 1.0) }
    }

    /// Offer the rows that pass to `best`, numbered from `base`.
    pub fn nearest(&self, rows: &Rows<'_>, gate: &Gate<'_>, base: usize, best: &mut Best, products: &mut [i32], cosines: &mut [f32]) {
        let mut from = 0;
        while from < rows.len() {
            let block = &mut cosines[..BLOCK.min(rows.len() - from)];
            self.scan(rows, from, products, block);
            for (index, &cosine) in block.iter().enumerate() {
                best.offer(cosine, (base + from + index) as u32, || gate.passes(from + index));
            }
            from += BLOCK;
        }
    }

    /// Write the cosines of rows `from..` into `out`; [`f32::NEG_INFINITY`] where there is none.
    pub fn scan(&self, rows: &Rows<'_>, from: usize, products: &mut [i32], out: &mut [f32]) {
        let products = &mut products[..out.len()];
        whole_dots(&rows.rows[from * rows.dim..], rows.dim, &self.steps.steps, products);
        for (index, (cosine, &product)) in out.iter_mut().zip(&*products).enumerate() {
            let scale = rows.scale.get(from + index);
            *cosine = if scale == 0.0 {
                f32::NEG_INFINITY
            } else {
                self.of_product(product, scale, rows, from + index)
            };
        }
    }
}

impl<'a> Rows<'a> {
    pub fn row(&self, at: usize) -> &'a [u8] {
        &self.rows[at * self.dim..][..self.dim]
    }

    pub fn len(&self) -> usize {
        self.scale.len()
    }
}

#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
fn whole_dots(rows: &[u8], dim: usize, steps: &[i16], out: &mut [i32]) {
    for (out, row) in out.iter_mut().zip(rows.chunks_exact(dim)) {
        *out = product(row, steps);
    }
}

#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
fn whole_dot(row: &[u8], steps: &[i16]) -> i32 {
    product(row, steps)
}

/// Exact: bytes times numbers up to [`FINEST`].
#[inline(always)]
fn product(row: &[u8], steps: &[i16]) -> i32 {
    row.iter().zip(steps).map(|(&x, &step)| i32::from(x.cast_signed()) * i32::from(step)).sum()
}
