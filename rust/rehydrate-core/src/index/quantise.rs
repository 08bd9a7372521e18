//! Vectors in whole numbers: rows of bytes, queries of 16 bits, and their exact products.
use crate::embed::MAX_DIM;

/// Rows that are compared at once.
pub(super) const BLOCK: usize = 1024;

/// A vector that rows are compared with, in whole steps.
#[derive(Clone)]
pub(super) struct Quantised {
    pub values: Vec<i16>,
    pub scale: f32,
}

/// So fine that sums of so many products with bytes stay below 2^31.
const MAX_VALUE: f32 = 2047.0;
const _: () = assert!(MAX_DIM as i64 * MAX_VALUE as i64 * 127 < 1 << 31);

impl Quantised {
    pub fn of(vector: &[f32]) -> Self {
        let largest = vector.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        if largest == 0.0 || !largest.is_finite() {
            return Self { values: vec![0; vector.len()], scale: 0.0 };
        }
        let steps = MAX_VALUE / largest;
        Self { values: vector.iter().map(|x| (x * steps).round() as i16).collect(), scale: 1.0 / steps }
    }
}

/// Append a row in steps of a byte; returns what a step is.
pub(super) fn push_int8(row: &[f32], out: &mut Vec<u8>) -> f32 {
    let largest = row.iter().fold(f32::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
    let steps = 127.0 / largest;
    out.extend(row.iter().map(|x| ((x * steps).round() as i8).cast_unsigned()));
    1.0 / steps
}

/// The products of each row with `values`. Exact: bytes times numbers up to [`MAX_VALUE`].
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(super) fn int_dots(rows: &[u8], dim: usize, values: &[i16], out: &mut [i32]) {
    for (out, row) in out.iter_mut().zip(rows.chunks_exact(dim)) {
        *out = product(row, values);
    }
}

/// The same for some of the rows.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(super) fn int_dots_at(rows: &[u8], dim: usize, at: &[u32], values: &[i16], out: &mut [i32]) {
    for (out, &at) in out.iter_mut().zip(at) {
        *out = product(&rows[at as usize * dim..][..dim], values);
    }
}

#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(super) fn int_dot(row: &[u8], values: &[i16]) -> i32 {
    product(row, values)
}

#[inline(always)]
fn product(row: &[u8], values: &[i16]) -> i32 {
    row.iter().zip(values).map(|(&x, &value)| i32::from(x.cast_signed()) * i32::from(value)).sum()
}
