//! BM25 (Robertson and Walker 1994): the rarity of a word, and its weight in a text by its count there.
//!
//! ```text
//! idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average length))
//! ```

/// The constants of the formula.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bm25 {
    /// The saturation: how soon more of the same word counts no more.
    pub k1: f64,
    /// The weight of a text's length, 0 to 1.
    pub b: f64,
}

/// The constants that conversations and indexes use.
pub(crate) const BM25: Bm25 = Bm25 { k1: 1.2, b: 0.75 };

/// Inverse document frequency in BM25 (Robertson and Walker 1994, floored at 0 as in Lucene): `documents` in all, a
/// word in `with_it` of them.
#[must_use]
pub(crate) fn idf(documents: usize, with_it: f64) -> f64 {
    (1.0 + (documents as f64 - with_it + 0.5) / (with_it + 0.5)).ln()
}

impl Bm25 {
    /// The weight of a word of that `idf` that occurs `count` times in a text of `length` words.
    pub fn term_weight(self, idf: f64, count: f64, length: f64, average_length: f64) -> f64 {
        let Self { k1, b } = self;
        idf * count * (k1 + 1.0) / (count + k1 * (1.0 - b + b * length / average_length))
    }

    /// The most that a word of that `idf` can weigh, however often it occurs in a text.
    pub fn max_weight(self, idf: f32) -> f32 {
        idf * (self.k1 as f32 + 1.0)
    }

    /// The share of [`Bm25::max_weight`] of a word that occurs once in a text, by the length of the text: the formula's
    /// division, made once for all texts.
    pub fn shares_of_one(self, average_length: f32) -> Vec<f32> {
        let Self { k1, b } = self;
        let (least, per_term) = (k1 * (1.0 - b), k1 * b / f64::from(average_length));
        let share = |length: u16| (1.0 / (1.0 + least + per_term * f64::from(length))) as f32;
        (0..=u16::MAX).map(share).collect()
    }

    /// The share of a word that occurs `count` times, less `share_of_one`, that of a word that occurs once.
    pub fn more_than_one(share_of_one: f32, count: f32) -> f32 {
        count / (count + 1.0 / share_of_one - 1.0) - share_of_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_by_length_are_the_formula() {
        let average = 7.0_f32;
        let shares = BM25.shares_of_one(average);
        for length in [0_u16, 1, 7, 40, 5_000] {
            for count in [1.0_f32, 2.0, 9.0] {
                let one = shares[usize::from(length)];
                let found = BM25.max_weight(1.5) * (one + Bm25::more_than_one(one, count));
                let exact = BM25.term_weight(1.5, f64::from(count), f64::from(length), f64::from(average));
                assert!((f64::from(found) - exact).abs() < 1e-5, "{length} {count}: {found} {exact}");
            }
        }
    }
}
