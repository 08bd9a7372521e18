//! Sketches: one bit a dimension of a rotated vector. How many bits two sketches differ in tells their angle well enough
//! to pass over most rows without their product (Charikar 2002).
use std::f32::consts::PI;

/// Bits in a sketch of vectors with so many components: the rotation needs a power of two.
fn bits(dim: usize) -> usize {
    dim.next_power_of_two().max(64)
}

/// Words of a sketch.
pub(super) fn words(dim: usize) -> usize {
    bits(dim) / 64
}

/// Append the sketch of `vector`; `rotated` is scratch.
///
/// The rotation, signs and a Walsh-Hadamard transform, makes every bit say as much as any other, whatever the components of
/// the vectors are.
pub(super) fn push(vector: &[f32], rotated: &mut Vec<f32>, out: &mut Vec<u64>) {
    rotated.clear();
    rotated.extend((0_u32..).zip(vector).map(|(at, &x)| if sign(at) { -x } else { x }));
    rotated.resize(bits(vector.len()), 0.0);
    let mut half = 1;
    while half < rotated.len() {
        for pair in rotated.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                (*low, *high) = (*low + *high, *low - *high);
            }
        }
        half *= 2;
    }
    let word = |components: &[f32]| (0..).zip(components).fold(0, |word, (bit, &x)| word | u64::from(x < 0.0) << bit);
    out.extend(rotated.chunks_exact(64).map(word));
}

/// A fixed sequence of signs without a pattern.
fn sign(at: u32) -> bool {
    (at.wrapping_add(1).wrapping_mul(0x9E37_79B1) ^ 0x5bd1_e995).count_ones() % 2 == 1
}

/// Standard deviations of a sketch's error that a row is given the benefit of.
const ERROR_DEVIATIONS: f32 = 1.0;

/// In how many bits a row whose cosine is beyond `floor` may differ.
pub(super) fn max_distance(floor: f32, dim: usize) -> u32 {
    if floor <= -1.0 {
        return u32::MAX;
    }
    let bits = bits(dim) as f32;
    let share = floor.min(1.0).acos() / PI;
    (bits * share + ERROR_DEVIATIONS * (bits * share * (1.0 - share)).sqrt()).ceil() as u32 + 1
}

/// By distance, the largest cosine of which [`max_distance`] lets it pass. A table already there is kept.
pub(super) fn cosine_bounds(dim: usize, table: &mut Vec<f32>) {
    let bits = bits(dim);
    if table.len() == bits + 1 {
        return;
    }
    table.clear();
    table.extend((0..=bits).map(|distance| {
        let share = distance as f32 / bits as f32;
        let doubt = ERROR_DEVIATIONS * (share * (1.0 - share) / bits as f32).sqrt() + 1.0 / bits as f32;
        ((share - doubt).max(0.0) * PI).cos()
    }));
}

/// In how many bits each of the sketches in `rows` differs from `sketch`.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512vpopcntdq", "x86_64+avx2+popcnt"))]
pub(super) fn distances(rows: &[[u8; 8]], sketch: &[u64], out: &mut [u32]) {
    match sketch.len() {
        4 => each::<4>(rows, sketch, out),
        8 => each::<8>(rows, sketch, out),
        words => {
            for (out, row) in out.iter_mut().zip(rows.chunks_exact(words)) {
                *out = row.iter().zip(sketch).map(|(&x, y)| (u64::from_le_bytes(x) ^ y).count_ones()).sum();
            }
        }
    }
}

/// For the usual lengths: the compiler unrolls.
#[inline(always)]
fn each<const WORDS: usize>(rows: &[[u8; 8]], sketch: &[u64], out: &mut [u32]) {
    let Ok(sketch) = <&[u64; WORDS]>::try_from(sketch) else { return };
    for (out, row) in out.iter_mut().zip(rows.as_chunks::<WORDS>().0) {
        let mut sum = 0;
        for word in 0..WORDS {
            sum += (u64::from_le_bytes(row[word]) ^ sketch[word]).count_ones();
        }
        *out = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::{dot, normalize};

    fn vector(seed: u32, dim: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(747_796_405) + 1;
        let mut vector: Vec<f32> = (0..dim)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect();
        normalize(&mut vector);
        vector
    }

    #[test]
    fn rows_as_near_as_the_floor_are_rarely_passed_over() {
        for dim in [64, 100, 256, 384] {
            let (mut passed_over, mut unlike) = (0, 0);
            for seed in 0..200 {
                let (a, noise) = (vector(seed, dim), vector(seed + 1_000, dim));
                let mut b: Vec<f32> = a.iter().zip(&noise).map(|(a, noise)| 0.6 * a + 0.8 * noise).collect();
                normalize(&mut b);
                let mut sketches = Vec::new();
                [&a, &b, &noise].into_iter().for_each(|vector| push(vector, &mut Vec::new(), &mut sketches));
                let bytes: Vec<[u8; 8]> = sketches.iter().map(|word| word.to_le_bytes()).collect();
                let mut apart = [0; 3];
                distances(&bytes, &sketches[..words(dim)], &mut apart);
                assert_eq!(apart[0], 0);
                let limit = max_distance(dot(&a, &b), dim);
                passed_over += u32::from(apart[1] > limit);
                unlike += u32::from(apart[2] > limit);
            }
            assert!(passed_over <= 50, "{dim}: {passed_over} of 200");
            assert!(unlike >= 190, "{dim}: only {unlike} of 200");
        }
    }
}
