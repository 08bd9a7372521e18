//! Scores by words of all entries of a view, and the weight of each set of a query's words.

/// Trigrams are sought for this many words of a query: a bit each.
pub(super) const WORDS: usize = 32;

/// Scores of an entry by the words of a query.
#[derive(Clone, Copy, Default)]
pub(super) struct WordScore {
    /// BM25.
    pub text: f32,
    /// The query words that it holds, as words or as parts of words.
    pub words: u32,
}

/// Scores by entry. They are kept from search to search: fresh pages of zeros would cost more than most searches.
#[derive(Default)]
pub(super) struct ScoreBuffer {
    pub scored: Vec<WordScore>,
    /// The missing weight of words that are held in part. All zeros except for [`ScoreBuffer::partial`].
    pub lacking: Vec<f32>,
    pub partial: Vec<u32>,
    /// By word of a vocabulary, the trigrams shared with a word of the query; zeros in between.
    pub shared: Vec<u8>,
}

impl ScoreBuffer {
    /// Bytes an entry takes.
    pub const ENTRY_BYTES: usize = size_of::<WordScore>() + size_of::<f32>();

    /// All zeros, one an entry.
    pub fn clear(&mut self, entries: usize) {
        self.scored.clear();
        self.scored.resize(entries, WordScore::default());
        self.partial.drain(..).for_each(|entry| self.lacking[entry as usize] = 0.0);
        self.lacking.resize(entries, 0.0);
    }

    /// The weight of the query's words that an entry holds.
    #[inline(always)]
    pub fn held(&self, entry: usize, weights: &WordWeights) -> f32 {
        weights.of(self.scored[entry].words) - self.lacking[entry]
    }

    /// The same as a share of all words.
    pub fn trigram(&self, entry: usize, weights: &WordWeights) -> f32 {
        (self.held(entry, weights) / weights.sum).max(0.0)
    }
}

/// The largest BM25 of some entries, and all words that any of them holds.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(super) fn most(scored: &[WordScore]) -> (f32, u32) {
    // Bits of numbers that are not negative are ordered as they are, and integers need no care for NaN.
    let (mut text, mut words) = (0, 0);
    for entry in scored {
        text = text.max(entry.text.to_bits().cast_signed());
        words |= entry.words;
    }
    (f32::from_bits(text.cast_unsigned()), words)
}

/// The weight of each set of a query's words, eight words at a time.
pub(super) struct WordWeights {
    tables: [[f32; 256]; WORDS / 8],
    sum: f32,
}

impl WordWeights {
    pub fn new(rarity: &[f32]) -> Self {
        let mut tables = [[0.0; 256]; WORDS / 8];
        for (table, rarity) in tables.iter_mut().zip(rarity.chunks(8)) {
            let of_set = |set: usize| (0..).zip(rarity).filter(|(bit, _)| set >> bit & 1 == 1).map(|(_, x)| x).sum();
            *table = std::array::from_fn(of_set);
        }
        let sum: f32 = rarity.iter().sum();
        Self { tables, sum: if sum > 0.0 { sum } else { 1.0 } }
    }

    #[inline(always)]
    pub fn of(&self, words: u32) -> f32 {
        let [first, rest @ ..] = words.to_le_bytes();
        let mut weight = self.tables[0][usize::from(first)];
        if words > 0xFF {
            weight += self.tables[1..].iter().zip(rest).map(|(table, byte)| table[usize::from(byte)]).sum::<f32>();
        }
        weight
    }
}
