//! The built-in static model: a text's vector is the weighted sum of its tokens' vectors, no network to run.
//!
//! Its vocabulary is English. Text in other scripts becomes n-grams of letters. Each of these is a token too, by its
//! hash, with a row of random signs (feature hashing, Weinberger and others 2009; random projection). Such texts are as
//! similar as the n-grams they share; two that share none are not similar.
use once_cell::race::OnceBox;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::analysis::bit_packing::{self, Numbers};
use crate::analysis::scripts::{self, Script};
use crate::analysis::stems;
use crate::embed::int_products::{TILE, int_products};
use crate::embed::wordpiece::WordPiece;
use crate::embed::{Embedder, normalize};
use crate::error::{Error, Result};
use crate::interrupt::{self, Pace, stretches};

/// The distinct WordPiece tokens of a text and their counts, by ascending id. This is cached by content, not the
/// vector: the weights of the tokens depend on the conversation around the text.
pub type Bag = Box<[(u16, u16)]>;

/// Append `bag` to `out`: its counts over one, then its ids, two a word.
pub(crate) fn pack_bag(bag: &Bag, out: &mut Vec<u32>) {
    bit_packing::push(out, bag.iter().map(|&(_, count)| u32::from(count) - 1));
    out.extend(
        bag.chunks(2).map(|pair| u32::from(pair[0].0) | pair.get(1).map_or(0, |second| u32::from(second.0) << 16)),
    );
}

/// A bag as [`pack_bag`] lays it out.
#[derive(Clone, Copy)]
pub(crate) struct PackedBag<'a> {
    ids: &'a [u32],
    more: Numbers<'a>,
}

impl<'a> PackedBag<'a> {
    pub fn read(section: &'a [u32]) -> Self {
        let (more, ids) = Numbers::split(section);
        Self { ids, more }
    }

    /// The bag in all of `section`, for a vocabulary of this many tokens. None if it isn't a bag.
    pub fn verified(section: &'a [u32], vocabulary: usize) -> Option<Self> {
        let bag = Some(section).filter(|section| Numbers::is_at(section)).map(Self::read)?;
        let is_whole = bag.ids.len() == bag.len().div_ceil(2) && bag.more.iter().all(|more| more < u32::from(u16::MAX));
        let mut least = 0;
        let mut ascends = |id: u16| {
            let fits = (least..vocabulary).contains(&usize::from(id));
            least = usize::from(id) + 1;
            fits
        };
        (is_whole && bag.ids().all(&mut ascends)).then_some(bag)
    }

    pub fn len(self) -> usize {
        self.more.len()
    }

    /// The distinct ids, ascending.
    #[expect(clippy::cast_possible_truncation, reason = "two ids of 16 bits a word")]
    pub fn ids(self) -> impl Iterator<Item = u16> + use<'a> {
        let ids = self.ids;
        (0..self.len()).map(move |at| (ids[at / 2] >> (16 * (at % 2))) as u16)
    }

    /// Ids and counts.
    #[expect(clippy::cast_possible_truncation, reason = "counts of 16 bits")]
    pub fn iter(self) -> impl Iterator<Item = (u16, u16)> + use<'a> {
        self.ids().zip(self.more.iter().map(|more| more as u16 + 1))
    }
}

const MAGIC: &[u8; 8] = b"RHYSTAT1";
const HEADER_BYTES: usize = 16;
/// The number of tokens that n-grams of other scripts share. Of 100 in a message and 100 in a memory, less than one is
/// the same by chance.
const HASHED_TOKENS: usize = 1 << 14;

/// Token vectors distilled from a sentence transformer (`tools/distill`), int8 rows with one scale each.
pub struct StaticModel {
    space: String,
    /// A hash of all that it is made of.
    mark: u64,
    wordpiece: WordPiece,
    dim: usize,
    scales: Vec<f32>,
    rows: &'static [u8],
    /// `1 / |row|` in the rows' own whole numbers; 0 for a row of zeros.
    inverse_norms: Vec<f32>,
    /// Tokens without a meaning of their own: stop words, punctuation, special tokens.
    filler: Vec<bool>,
    /// Tokens by hash, after those of the vocabulary.
    hashed: usize,
    /// A component of their rows, which are on average as long as the others.
    hashed_component: f32,
}

impl StaticModel {
    /// The model compiled into this library, distilled from all-MiniLM-L6-v2, 256 dimensions.
    #[must_use]
    pub fn builtin() -> &'static Self {
        static MODEL: OnceBox<StaticModel> = OnceBox::new();
        MODEL.get_or_init(|| Box::new(compiled_in()))
    }

    /// A model from its vocabulary (one token a line) and its vectors: the magic `RHYSTAT1`, the number of tokens and
    /// of dimensions as `u32`, one `f32` scale a token, then the `i8` rows; all little endian.
    ///
    /// # Errors
    /// [`Error::Model`] when the two do not belong together or the file is cut short.
    pub fn from_parts(space: &str, vocab: &str, vectors: &'static [u8]) -> Result<Self> {
        Self::with_tokenizer(WordPiece::from_vocab(vocab)?, space, vocab, vectors)
    }

    fn with_tokenizer(wordpiece: WordPiece, space: &str, vocab: &str, vectors: &'static [u8]) -> Result<Self> {
        if vectors.len() < HEADER_BYTES || &vectors[..8] != MAGIC {
            return Err(Error::Model("not a static model: the magic RHYSTAT1 is missing".into()));
        }
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| vectors[at + i])) as usize;
        let (tokens, dim) = (word(8), word(12));
        if tokens != wordpiece.vocab_size() {
            return Err(Error::Model(format!(
                "{tokens} vectors for a vocabulary of {}; rebuild both with tools/distill",
                wordpiece.vocab_size()
            )));
        }
        let scales_end = HEADER_BYTES + 4 * tokens;
        if vectors.len() != scales_end + tokens * dim {
            return Err(Error::Model(format!(
                "{} bytes where {tokens} rows of {dim} need {}",
                vectors.len(),
                scales_end + tokens * dim
            )));
        }
        let scales = vectors[HEADER_BYTES..scales_end]
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        let rows = &vectors[scales_end..];
        let inverse_norms = inverse_norms(rows, dim);
        let known = || inverse_norms.iter().zip(&scales).filter(|(inverse, _)| **inverse > 0.0);
        let length: f32 = known().map(|(inverse, scale): (&f32, &f32)| scale / inverse).sum();
        let hashed_component = length / (known().count().max(1) as f32 * (dim.max(1) as f32).sqrt());
        Ok(Self {
            space: space.into(),
            mark: xxh3_64_with_seed(vectors, xxh3_64(vocab.as_bytes())),
            wordpiece,
            dim,
            scales,
            rows,
            inverse_norms,
            filler: vocab.lines().map(is_filler).collect(),
            hashed: HASHED_TOKENS.min(usize::from(u16::MAX) - tokens),
            hashed_component,
        })
    }

    /// The mark that distinguishes it from any other model, also from one of the same shape after another training.
    #[must_use]
    pub const fn mark(&self) -> u64 {
        self.mark
    }

    /// The bag of tokens of `text`.
    #[must_use]
    pub fn bag(&self, text: &str) -> Bag {
        let mut ids = Vec::with_capacity(text.len() / 3);
        stretches(text).for_each(|stretch| self.encode_into(stretch, &mut ids));
        count_runs(ids)
    }

    fn encode_into(&self, text: &str, ids: &mut Vec<u16>) {
        let mut foreign = scripts::foreign_runs(text).peekable();
        if foreign.peek().is_none() {
            return self.wordpiece.encode_into(text, ids);
        }
        let mut known = String::with_capacity(text.len());
        let mut at = 0;
        let mut pace = Pace::default();
        for (range, script) in foreign {
            known.push_str(&text[at..range.start]);
            known.push(' ');
            at = range.end;
            let form = scripts::form(&text[range]);
            let mut take = |gram: &str| {
                pace.step();
                if !scripts::is_filler(gram, script) {
                    ids.extend(self.hashed(gram));
                }
            };
            match script {
                Script::Spaced if scripts::is_filler(&form, script) => {}
                Script::Spaced => scripts::form_and_grams(&form, script).for_each(take),
                _ => scripts::grams(&form, script).for_each(&mut take),
            }
        }
        known.push_str(&text[at..]);
        self.wordpiece.encode_into(&known, ids);
    }

    /// The token of an n-gram.
    #[expect(clippy::cast_possible_truncation, reason = "ids are 16 bits wide")]
    fn hashed(&self, gram: &str) -> Option<u16> {
        let slot = xxh3_64(gram.as_bytes()).checked_rem(self.hashed as u64)?;
        Some((self.known() as u64 + slot) as u16)
    }

    /// The size of the vocabulary: lower ids are its tokens, higher ids are hashed.
    fn known(&self) -> usize {
        self.scales.len()
    }

    /// Whether a token is an n-gram's: it is like itself and no other.
    #[must_use]
    pub fn is_hashed(&self, token: u16) -> bool {
        usize::from(token) >= self.known()
    }

    /// Add to `out` the vectors of the tokens of `bag`, each times its count and `weight` of its id.
    pub fn add(&self, bag: impl Iterator<Item = (u16, u16)>, weight: impl Fn(u16) -> f32, out: &mut [f32]) {
        debug_assert_eq!(out.len(), self.dim);
        let mut hashed = Vec::new();
        let mut known = Vec::with_capacity(bag.size_hint().1.unwrap_or(0));
        for (id, count) in bag {
            let weight = f32::from(count) * weight(id);
            match self.scales.get(usize::from(id)) {
                Some(scale) => known.push((id, weight * scale)),
                None => hashed.push((id, weight * self.hashed_component)),
            }
        }
        add_rows(out, self.rows, &known);
        hashed.into_iter().for_each(|(id, component)| add_signs(out, id, component));
    }

    /// The vector of one text by itself: length 1, or zeros if nothing of it is known.
    #[must_use]
    pub fn vector(&self, bag: impl Iterator<Item = (u16, u16)>, weight: impl Fn(u16) -> f32) -> Vec<f32> {
        let mut vector = vec![0.0; self.dim];
        self.add(bag, weight, &mut vector);
        normalize(&mut vector);
        vector
    }

    /// Write the cosines of each of `others` with all `tokens`, none of them hashed, into `out`, one after the other.
    pub fn similarities(&self, tokens: &[u16], others: &[u16], out: &mut [f32]) {
        let row = |token: u16| &self.rows[usize::from(token) * self.dim..][..self.dim];
        let norm = |token: u16| self.inverse_norms[usize::from(token)];
        let mut products = vec![[0; TILE]; others.len()];
        let mut wide = vec![0; TILE * self.dim];
        for (first, tile) in tokens.chunks(TILE).enumerate() {
            for (wide, &token) in wide.chunks_exact_mut(self.dim).zip(tile) {
                wide.iter_mut().zip(row(token)).for_each(|(wide, x)| *wide = i16::from(x.cast_signed()));
            }
            let values = std::array::from_fn(|at| &wide[at * self.dim..][..self.dim]);
            int_products(others.iter().map(|&other| row(other)), values, &mut products);
            for ((out, &other), products) in out.chunks_exact_mut(tokens.len()).zip(others).zip(&products) {
                for ((out, &token), &product) in out[first * TILE..].iter_mut().zip(tile).zip(products) {
                    *out = product as f32 * norm(token) * norm(other);
                }
            }
        }
    }

    /// Whether a token has no meaning of its own: a stop word, a punctuation mark, a special token.
    #[must_use]
    pub fn is_filler(&self, token: u16) -> bool {
        self.filler.get(usize::from(token)).is_some_and(|&is_filler| is_filler)
    }

    /// Number of tokens, hashed ones included: every id is below.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.known() + self.hashed
    }
}

impl Embedder for StaticModel {
    fn space(&self) -> &str {
        &self.space
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn embed(&self, texts: &[&str], out: &mut [f32]) -> Result<()> {
        for (text, row) in texts.iter().zip(out.chunks_exact_mut(self.dim)) {
            row.copy_from_slice(&self.vector(self.bag(text).into_iter(), |_| 1.0));
        }
        Ok(())
    }
}

fn compiled_in() -> StaticModel {
    let model = StaticModel::with_tokenizer(
        WordPiece::builtin(),
        "builtin/all-MiniLM-L6-v2-static-256",
        include_str!("../../model/vocab.txt"),
        include_bytes!("../../model/static.bin"),
    );
    model.expect("the model compiled in is the one the tests load")
}

/// `out += weight * row` for each weighted token. Compiled for several instruction sets, chosen at run time; without
/// fused multiply-add, so that every machine gives the same bits.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
fn add_rows(out: &mut [f32], rows: &[u8], weighted: &[(u16, f32)]) {
    let dim = out.len();
    // Some components at a time, over all tokens, so that their sums stay in registers.
    for (stretch, out) in out.chunks_mut(STRETCH).enumerate() {
        let Some(sums) = out.first_chunk_mut::<STRETCH>() else {
            for &(id, weight) in weighted {
                let start = id as usize * dim + stretch * STRETCH;
                for (sum, &component) in out.iter_mut().zip(&rows[start..]) {
                    *sum += weight * f32::from(component.cast_signed());
                }
            }
            continue;
        };
        let mut kept = *sums;
        for &(id, weight) in weighted {
            let start = id as usize * dim + stretch * STRETCH;
            let Some(row) = rows[start..].first_chunk::<STRETCH>() else { continue };
            for at in 0..STRETCH {
                kept[at] += weight * f32::from(row[at].cast_signed());
            }
        }
        *sums = kept;
    }
}

/// Components that are summed at once: eight registers of eight.
const STRETCH: usize = 64;

/// Add the row of a hashed token: the same signs on every machine and in every version, since rows are kept in files.
fn add_signs(out: &mut [f32], id: u16, component: f32) {
    for (seed, out) in (0_u64..).zip(out.chunks_mut(64)) {
        add_signed(out, xxh3_64_with_seed(&id.to_le_bytes(), seed), component);
    }
}

/// Add `component` with the sign of a bit of `signs`, without a branch: that would be predicted wrong half the time.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
fn add_signed(out: &mut [f32], signs: u64, component: f32) {
    for (index, sum) in out.iter_mut().enumerate() {
        let sign = ((signs >> index) as u32 & 1) << 31;
        *sum += f32::from_bits(component.to_bits() ^ sign);
    }
}

/// `1 / |row|` of each row; 0 for a row of zeros. Of 8 MB it would take a third of the time in which the model loads.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
fn inverse_norms(rows: &[u8], dim: usize) -> Vec<f32> {
    let inverse_norm = |row: &[u8]| 1.0 / (int_dot(row, row) as f32).sqrt();
    rows.chunks_exact(dim).map(inverse_norm).map(|x| if x.is_finite() { x } else { 0.0 }).collect()
}

/// Inner product of two int8 rows, exact.
#[inline(always)]
fn int_dot(a: &[u8], b: &[u8]) -> i32 {
    a.iter().zip(b).map(|(x, y)| i32::from(x.cast_signed()) * i32::from(y.cast_signed())).sum()
}

fn is_filler(token: &str) -> bool {
    let special = token.len() > 2 && token.starts_with('[') && token.ends_with(']');
    special || stems::is_stop_word(token) || !token.chars().any(char::is_alphanumeric)
}

/// Distinct ids with their counts (saturating), by ascending id.
fn count_runs(mut ids: Vec<u16>) -> Bag {
    interrupt::sort(&mut ids);
    ids.chunk_by(|a, b| a == b).map(|run| (run[0], u16::try_from(run.len()).unwrap_or(u16::MAX))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCAB: &str = "[UNK]\ncat\ndog\n";

    fn model_bytes(tokens: u32, dim: u32, scales: &[f32], rows: &[i8]) -> &'static [u8] {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(tokens.to_le_bytes());
        bytes.extend(dim.to_le_bytes());
        scales.iter().for_each(|s| bytes.extend(s.to_le_bytes()));
        bytes.extend(rows.iter().map(|&r| r.cast_unsigned()));
        bytes.leak()
    }

    #[test]
    fn a_vector_is_the_normalised_weighted_sum_of_its_tokens() {
        let bytes = model_bytes(3, 2, &[0.0, 0.5, 2.0], &[0, 0, 8, 0, 0, -3]);
        let model = StaticModel::from_parts("test", VOCAB, bytes).unwrap();
        let mut out = [0.0; 2];
        model.embed(&["cat cat dog"], &mut out).unwrap(); // 2 * 0.5 * (8, 0) + 2.0 * (0, -3) = (8, -6)
        assert_eq!(out, [0.8, -0.6]);
        model.embed(&[""], &mut out).unwrap();
        assert_eq!(out, [0.0, 0.0]);
    }

    #[test]
    fn a_file_that_does_not_fit_is_refused() {
        let whole = model_bytes(3, 2, &[0.0; 3], &[0; 6]);
        for (bytes, complaint) in [
            (&b"RHYSTAT0"[..], "magic"),
            (&whole[..whole.len() - 1], "bytes where"),
            (model_bytes(2, 2, &[0.0; 2], &[0; 4]), "vocabulary of 3"),
        ] {
            let message = StaticModel::from_parts("test", VOCAB, bytes.to_vec().leak()).err().unwrap().to_string();
            assert!(message.contains(complaint), "{message}");
        }
    }

    #[test]
    fn a_packed_bag_is_read_as_it_was_counted() {
        for ids in [vec![], vec![7], vec![3, 3, 9], vec![1, 2, 2, 2, 2, 30_000]] {
            let (bag, mut packed) = (count_runs(ids), Vec::new());
            pack_bag(&bag, &mut packed);
            assert_eq!(PackedBag::read(&packed).iter().collect::<Vec<_>>(), bag.to_vec());
        }
    }
}
