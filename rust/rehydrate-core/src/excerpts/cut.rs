//! Cuts: at the strongest of the possible places, in blocks of about one size.

/// A text of at least this many bytes is divided.
pub const MIN_BYTES: usize = 600;
/// A line, an element of JSON or a record of more bytes than this is cut inside.
pub(super) const LONG_BYTES: usize = 2 * MIN_BYTES;
/// A text has at most this many blocks.
pub const MAX_BLOCKS: usize = 512;

/// The unit in which the blocks of a text are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Whole lines, by their numbers if they have some.
    Lines,
    /// Elements of one JSON array.
    Elements,
    /// Members of one JSON object.
    Members,
    /// Characters, if single lines are too long to be kept whole.
    Characters,
}

/// A block has at least this many bytes, so that leaving it out saves more than its marker costs.
const MIN_BLOCK_BYTES: usize = 150;
/// The size that is aimed at if all places are equally good.
const USUAL_BLOCK_BYTES: usize = 300;
/// A block ends by then if there is any place to end it.
const MAX_BLOCK_BYTES: usize = 600;

/// The quality of a place for a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// Inside something that belongs together: only if a block would grow too large.
    Within,
    /// Between two lines, words or elements like any others.
    Plain,
    /// The end of something: a sentence, an inner block of code.
    Weak,
    /// Between two paragraphs or definitions.
    Strong,
    /// Between two things that are complete in themselves: hunks, records, files. A block ends at the first one it
    /// meets.
    Hard,
}

/// A place where the text may be cut.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    at: usize,
    strength: Strength,
    /// The number of lines or elements that begin before it.
    index: usize,
}

/// Places where a text may be cut, ascending, and never too many for a huge text.
pub(super) struct Candidates {
    candidates: Vec<Candidate>,
    total: usize,
    growth: usize,
}

impl Candidates {
    /// None yet, for a text of this many bytes.
    pub fn new(text_bytes: usize) -> Self {
        Self { candidates: Vec::new(), total: 0, growth: text_bytes.div_ceil(MIN_BLOCK_BYTES * MAX_BLOCKS).max(1) }
    }

    /// The least bytes of a block.
    pub fn min_bytes(&self) -> usize {
        MIN_BLOCK_BYTES * self.growth
    }

    /// Offer the place before byte `at`. `index` lines or elements begin before it. Of places that are close together
    /// the strongest is kept.
    pub fn offer(&mut self, at: usize, strength: Strength, index: usize) {
        let candidate = Candidate { at, strength, index };
        match self.candidates.last_mut() {
            Some(last) if at - last.at < self.growth * MIN_BLOCK_BYTES / 8 => {
                if strength > last.strength {
                    *last = candidate;
                }
            }
            _ => self.candidates.push(candidate),
        }
    }

    /// Say how many lines or elements there are in all.
    pub fn finish(mut self, total: usize) -> Self {
        self.total = total;
        self
    }

    /// The number of all lines or elements.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The chosen places with their indices, ascending: every block but the last has at least the least size, and there
    /// are fewer than [`MAX_BLOCKS`].
    pub fn cuts(&self, text_bytes: usize) -> Vec<(usize, usize)> {
        let (min, usual, max) = (self.min_bytes(), USUAL_BLOCK_BYTES * self.growth, MAX_BLOCK_BYTES * self.growth);
        let mut cuts = Vec::new();
        let (mut start, mut from) = (0, 0);
        while text_bytes - start >= 2 * min {
            while self.candidates.get(from).is_some_and(|candidate| candidate.at < start + min) {
                from += 1;
            }
            let window = self.candidates[from..].iter().take_while(|candidate| candidate.at <= start + max);
            let better = |best: Candidate, next: &Candidate| {
                let is_better = next.strength > best.strength
                    || (next.strength == best.strength
                        && next.strength < Strength::Hard
                        && (next.at - start).abs_diff(usual) < (best.at - start).abs_diff(usual));
                if is_better { *next } else { best }
            };
            let Some(&first) = self.candidates.get(from) else { break };
            let cut = window.fold(first, better);
            if text_bytes - cut.at < min {
                break;
            }
            cuts.push((cut.at, cut.index));
            start = cut.at;
        }
        cuts
    }
}
