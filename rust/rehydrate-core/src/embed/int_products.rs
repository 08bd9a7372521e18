//! Exact products of int8 rows with vectors of 16-bit numbers, some of both at a time.
use multiversion::multiversion;
use multiversion::target::match_target;

/// The number of vectors for which a row is read once.
pub(crate) const TILE: usize = 4;

/// The products of each row with each of some vectors, row by row, as many as `out` has room for. Rows are as long as
/// vectors.
///
/// By itself the compiler fills half of a register with sums of such products, and reads a row again for each vector.
/// This takes a half to two thirds of that time.
#[multiversion(targets("x86_64+avx2"))]
pub(crate) fn int_products<'a>(rows: impl Iterator<Item = &'a [u8]>, values: [&[i16]; TILE], out: &mut [[i32; TILE]]) {
    match_target! {
        "x86_64+avx2" => avx2::int_products(rows, values, out),
        _ => for (out, row) in out.iter_mut().zip(rows) {
            *out = values.map(|values| product(row, values));
        }
    }
}

/// The product of one row and one vector.
#[inline(always)]
pub(crate) fn product(row: &[u8], values: &[i16]) -> i32 {
    row.iter().zip(values).map(|(&x, &value)| i32::from(x.cast_signed()) * i32::from(value)).sum()
}

/// The cosine of two rows of bytes; 0 if one is zeros.
#[multiversion(targets("x86_64+avx2"))]
pub(crate) fn byte_cosine(a: &[u8], b: &[u8]) -> f32 {
    let [ab, aa, bb] = match_target! {
        "x86_64+avx2" => avx2::three_products(a, b),
        _ => three_products(a, b),
    };
    let square = aa as f32 * bb as f32;
    if square > 0.0 { ab as f32 / square.sqrt() } else { 0.0 }
}

/// The product of two rows, and of each with itself.
fn three_products(a: &[u8], b: &[u8]) -> [i32; 3] {
    a.iter().zip(b).fold([0; 3], |[ab, aa, bb], (&a, &b)| {
        let (a, b) = (i32::from(a.cast_signed()), i32::from(b.cast_signed()));
        [ab + a * b, aa + a * a, bb + b * b]
    })
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_set_epi64x, _mm_shuffle_epi32, _mm256_add_epi32,
        _mm256_castsi256_si128, _mm256_cvtepi8_epi16, _mm256_extracti128_si256, _mm256_madd_epi16, _mm256_setr_epi16,
        _mm256_setzero_si256,
    };

    use super::{TILE, product};

    /// Components in a register.
    const LANES: usize = 16;

    /// Two rows at a time, so that a vector is read once for both.
    #[target_feature(enable = "avx2")]
    pub(super) fn int_products<'a>(
        mut rows: impl Iterator<Item = &'a [u8]>,
        values: [&[i16]; TILE],
        out: &mut [[i32; TILE]],
    ) {
        let whole = values.map(|values| values.as_chunks().0);
        let rest = values[0].len() / LANES * LANES;
        for out in out.chunks_mut(2) {
            let Some(first) = rows.next() else { return };
            let second = if out.len() > 1 { rows.next() } else { None };
            // Without a second row the first is taken twice.
            let pair = [first, second.unwrap_or(first)];
            let sums = of_pair(pair.map(|row| row.as_chunks().0), whole);
            let taken = 1 + usize::from(second.is_some());
            for ((out, sums), row) in out.iter_mut().take(taken).zip(sums).zip(pair) {
                *out = sums;
                if rest < row.len() {
                    out.iter_mut().zip(values).for_each(|(sum, values)| *sum += product(&row[rest..], &values[rest..]));
                }
            }
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn three_products(a: &[u8], b: &[u8]) -> [i32; 3] {
        let ((a, rest_a), (b, rest_b)) = (a.as_chunks(), b.as_chunks());
        let mut sums = [_mm256_setzero_si256(); 3];
        for (a, b) in a.iter().zip(b) {
            let (a, b) = (widened(a), widened(b));
            for (sum, (x, y)) in sums.iter_mut().zip([(a, b), (a, a), (b, b)]) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(x, y));
            }
        }
        let rest = super::three_products(rest_a, rest_b);
        std::array::from_fn(|at| total(sums[at]) + rest[at])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn of_pair([a, b]: [&[[u8; LANES]]; 2], [q, r, s, t]: [&[[i16; LANES]]; TILE]) -> [[i32; TILE]; 2] {
        let mut sums = [[_mm256_setzero_si256(); TILE]; 2];
        for (((((a, b), q), r), s), t) in a.iter().zip(b).zip(q).zip(r).zip(s).zip(t) {
            let values = [load(q), load(r), load(s), load(t)];
            for (sums, row) in sums.iter_mut().zip([widened(a), widened(b)]) {
                for (sum, values) in sums.iter_mut().zip(values) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(row, values));
                }
            }
        }
        let mut out = [[0; TILE]; 2];
        out.iter_mut().flatten().zip(sums.iter().flatten()).for_each(|(out, &sum)| *out = total(sum));
        out
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn widened(bytes: &[u8; LANES]) -> __m256i {
        let both = u128::from_le_bytes(*bytes);
        _mm256_cvtepi8_epi16(_mm_set_epi64x((both >> 64) as i64, both as i64))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(&[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]: &[i16; LANES]) -> __m256i {
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
    fn many_products_at_a_time_are_the_products_one_by_one() {
        let plain = |at: usize| (at.wrapping_mul(2_654_435_761) >> 7) as u8;
        let extreme = |at: usize| if at.is_multiple_of(3) { 0x80 } else { 0x7f };
        for dim in [1, 2, 15, 16, 17, 100, 256, 1024] {
            let vectors: [Vec<i16>; TILE] = std::array::from_fn(|vector| {
                (0..dim).map(|at| ((at * 40_503 + vector * 977) % 4_095) as i16 - 2_047).collect()
            });
            for number in [0, 1, 2, 3, 127, 128] {
                for byte in [plain, extreme] {
                    let rows: Vec<u8> = (0..number * dim).map(byte).collect();
                    let mut found = vec![[i32::MIN; TILE]; number];
                    int_products(rows.chunks_exact(dim), vectors.each_ref().map(Vec::as_slice), &mut found);
                    for (row, found) in rows.chunks_exact(dim).zip(&found) {
                        let expected = vectors.each_ref().map(|vector| product(row, vector));
                        assert_eq!(found, &expected, "{number} rows of {dim}");
                    }
                    let mut more = vec![[i32::MIN; TILE]; number + 3];
                    int_products(rows.chunks_exact(dim), vectors.each_ref().map(Vec::as_slice), &mut more);
                    assert_eq!(more[..number], found);
                    assert!(more[number..].iter().flatten().all(|&untouched| untouched == i32::MIN));
                }
            }
        }
    }
}
