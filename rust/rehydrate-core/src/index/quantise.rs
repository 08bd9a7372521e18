//! Vectors in whole numbers: rows of bytes, queries of 16 bits, and their exact products.
use crate::embed::MAX_DIM;
use crate::embed::int_products::product;

/// Rows that are compared at once.
pub(super) const BLOCK: usize = 128;

/// A vector that rows are compared with, in whole steps.
#[derive(Clone)]
pub(super) struct Quantised {
    pub values: Vec<i16>,
    pub scale: f32,
}

/// The largest value: as fine as possible, while sums of [`MAX_DIM`] products with bytes stay below 2^31.
pub(super) const MAX_VALUE: f32 = 2047.0;
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

/// A row that is smaller in every component becomes zeros. Its step is still a number.
const LEAST_COMPONENT: f32 = 1e-12;

/// Append `row`, which is `vector` less a mean, in steps of a byte. Returns the step, for which the product with the
/// vector itself is right, and the value to use as the row's length, for which its cosine with the row is 1.
pub(super) fn push_int8(row: &[f32], vector: &[f32], out: &mut Vec<u8>) -> (f32, f32) {
    // The largest component takes all steps of a byte.
    let steps = 127.0 / row.iter().fold(LEAST_COMPONENT, |largest, x| largest.max(x.abs()));
    let (mut square, mut own, mut whole, mut right) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
    for (x, full) in row.iter().zip(vector) {
        let byte = (x * steps).round();
        square += f64::from(x * x);
        own += f64::from(x * byte);
        whole += f64::from(full * byte);
        right += f64::from(full * x);
        out.push((byte as i8).cast_unsigned());
    }
    let step = if right > 0.0 && whole > 0.0 { right / whole } else { f64::from(1.0 / steps) };
    let step = if (step as f32).is_normal() { step } else { f64::from(1.0 / steps) };
    (step as f32, if square > 0.0 { (step * own / square.sqrt()) as f32 } else { 0.0 })
}

/// The products of each row with `values`. Exact: bytes times numbers up to [`MAX_VALUE`].
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(super) fn int_dots(rows: &[u8], dim: usize, values: &[i16], out: &mut [i32]) {
    for (out, row) in out.iter_mut().zip(rows.chunks_exact(dim)) {
        *out = product(row, values);
    }
}

#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(super) fn int_dot(row: &[u8], values: &[i16]) -> i32 {
    product(row, values)
}
