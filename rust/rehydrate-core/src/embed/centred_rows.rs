//! Vectors less their mean, compared with one query after another.
use super::{dot, is_present, normalize};

/// Rows of one space, from which their mean is subtracted.
pub(crate) struct CentredRows {
    rows: Vec<f32>,
    /// Whether each row was given. A missing one is zeros, and not part of the mean.
    is_present: Vec<bool>,
    mean: Vec<f32>,
}

impl CentredRows {
    /// Subtract the mean of the `rows`, each of `dim` components, from each, and scale each to length 1.
    pub fn new(mut rows: Vec<f32>, dim: usize) -> Self {
        let is_present: Vec<bool> = rows.chunks_exact(dim).map(is_present).collect();
        let mut mean = vec![0.0_f32; dim];
        let mut present = 0.0_f32;
        for (row, _) in rows.chunks_exact(dim).zip(&is_present).filter(|(_, is_present)| **is_present) {
            present += 1.0;
            mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        mean.iter_mut().for_each(|x| *x /= present.max(1.0));
        for (row, _) in rows.chunks_exact_mut(dim).zip(&is_present).filter(|(_, is_present)| **is_present) {
            row.iter_mut().zip(&mean).for_each(|(x, m)| *x -= m);
            normalize(row);
        }
        Self { rows, is_present, mean }
    }

    /// Cosine of each row with `query`, from which the mean is subtracted too; NaN for missing rows.
    pub fn cosines(&self, mut query: Vec<f32>) -> Vec<f64> {
        query.iter_mut().zip(&self.mean).for_each(|(x, m)| *x -= m);
        normalize(&mut query);
        let rows = self.rows.chunks_exact(self.mean.len()).zip(&self.is_present);
        rows.map(|(row, &is_present)| if is_present { f64::from(dot(row, &query)) } else { f64::NAN }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_subtracted_from_rows_and_query() {
        let rows = CentredRows::new(vec![1.0, 1.0, 1.0, -1.0, 0.0, 0.0], 2);
        for _ in 0..2 {
            let cosines = rows.cosines(vec![1.0, 1.0]);
            assert_eq!(cosines[..2], [1.0, -1.0]);
            assert!(cosines[2].is_nan(), "a row of zeros isn't an opinion");
        }
    }
}
