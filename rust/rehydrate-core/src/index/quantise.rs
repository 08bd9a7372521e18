//! Vectors in whole numbers: rows of bytes, queries of 16 bits, and their exact products.
use crate::embed::MAX_DIM;

/// Rows that are compared at once.
pub(super) const BLOCK: usize = 128;

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

/// What is smaller throughout is zeros; the step is a number all the same.
const LEAST_COMPONENT: f32 = 1e-12;

/// Append `row`, which is `vector` less a mean, in steps of a byte. Returns what a step is, so much that the product with the vector
/// itself is right, and what is to be taken for the row's length, so that its cosine with the row is 1.
pub(super) fn push_int8(row: &[f32], vector: &[f32], out: &mut Vec<u8>) -> (f32, f32) {
    let steps = int8_steps(row);
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
    (step as f32, if square > 0.0 { (step * own / square.sqrt()) as f32 } else { 0.0 })
}

/// So many steps of a byte are 1: the largest component takes all of them.
fn int8_steps(row: &[f32]) -> f32 {
    let largest = row.iter().fold(LEAST_COMPONENT, |largest, x| largest.max(x.abs()));
    127.0 / largest
}

/// The products of each row with `values`. Exact: bytes times numbers up to [`MAX_VALUE`].
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(super) fn int_dots(rows: &[u8], dim: usize, values: &[i16], out: &mut [i32]) {
    for (out, row) in out.iter_mut().zip(rows.chunks_exact(dim)) {
        *out = product(row, values);
    }
}

/// Queries that share what is read of a row.
pub(super) const TILE: usize = 4;

/// The products of each row with each of some vectors: what one row and one vector take, three of them and a half. The compiler
/// uses half of a register for sums of such products, and reads a row anew for each vector.
#[multiversion::multiversion(targets("x86_64+avx2"))]
pub(super) fn int_dots_of_tile(rows: &[u8], dim: usize, values: [&[i16]; TILE], out: &mut [[i32; BLOCK]; TILE]) {
    multiversion::target::match_target! {
        "x86_64+avx2" => avx2::int_dots_of_tile(rows, dim, values, out),
        _ => for (values, out) in values.iter().zip(out) {
            for (out, row) in out.iter_mut().zip(rows.chunks_exact(dim)) {
                *out = product(row, values);
            }
        }
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

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_set_epi64x, _mm_shuffle_epi32, _mm256_add_epi32,
        _mm256_castsi256_si128, _mm256_cvtepi8_epi16, _mm256_extracti128_si256, _mm256_madd_epi16, _mm256_setr_epi16,
        _mm256_setzero_si256,
    };

    use super::{BLOCK, TILE, product};

    /// Two rows at a time, so that what is read of a vector serves both.
    #[target_feature(enable = "avx2")]
    pub(super) fn int_dots_of_tile(rows: &[u8], dim: usize, values: [&[i16]; TILE], out: &mut [[i32; BLOCK]; TILE]) {
        let whole = values.map(|values| values[..dim].as_chunks().0);
        let number = rows.len() / dim;
        for at in (0..number).step_by(2) {
            // The last of an odd number is taken twice.
            let pair = [at, (at + 1).min(number - 1)].map(|at| &rows[at * dim..][..dim]);
            let sums = products(pair.map(|row| row.as_chunks().0), whole);
            for (place, (row, sums)) in pair.iter().zip(sums).enumerate() {
                for ((out, sum), values) in out.iter_mut().zip(sums).zip(values) {
                    let rest = dim - dim % 16;
                    out[(at + place).min(number - 1)] = sum + product(&row[rest..], &values[rest..dim]);
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn products([a, b]: [&[[u8; 16]]; 2], [q, r, s, t]: [&[[i16; 16]]; TILE]) -> [[i32; TILE]; 2] {
        let mut sums = [[_mm256_setzero_si256(); TILE]; 2];
        for (((((a, b), q), r), s), t) in a.iter().zip(b).zip(q).zip(r).zip(s).zip(t) {
            let queries = [load(q), load(r), load(s), load(t)];
            for (sums, row) in sums.iter_mut().zip([widened(a), widened(b)]) {
                for (sum, query) in sums.iter_mut().zip(queries) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(row, query));
                }
            }
        }
        let mut out = [[0; TILE]; 2];
        out.iter_mut().flatten().zip(sums.iter().flatten()).for_each(|(out, &sum)| *out = total(sum));
        out
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn widened(bytes: &[u8; 16]) -> __m256i {
        let both = u128::from_le_bytes(*bytes);
        _mm256_cvtepi8_epi16(_mm_set_epi64x((both >> 64) as i64, both as i64))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(&[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]: &[i16; 16]) -> __m256i {
        _mm256_setr_epi16(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn total(sums: __m256i) -> i32 {
        let four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
        let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b1110>(four));
        _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b01>(two)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_has_the_products_of_its_vectors_one_by_one() {
        let byte = |at: usize| (at.wrapping_mul(2_654_435_761) >> 7) as u8;
        let extreme = |at: usize| if at.is_multiple_of(3) { 0x80 } else { 0x7f };
        for dim in [1, 2, 15, 16, 17, 100, 256, 1024] {
            for number in [1, 2, 3, BLOCK - 1, BLOCK] {
                for byte in [byte, extreme] {
                    let rows: Vec<u8> = (0..number * dim).map(byte).collect();
                    let vectors: [Vec<i16>; TILE] = std::array::from_fn(|vector| {
                        (0..dim).map(|at| ((at * 40_503 + vector * 977) % 4_095) as i16 - 2_047).collect()
                    });
                    let mut tile = [[i32::MIN; BLOCK]; TILE];
                    int_dots_of_tile(&rows, dim, vectors.each_ref().map(Vec::as_slice), &mut tile);
                    for (vector, products) in vectors.iter().zip(&tile) {
                        let mut expected = [i32::MIN; BLOCK];
                        int_dots(&rows, dim, vector, &mut expected);
                        assert_eq!(products, &expected, "{number} rows of {dim}");
                    }
                }
            }
        }
    }
}
