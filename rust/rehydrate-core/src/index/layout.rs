//! The layout of a segment in bytes: a header, a table of sections, sections of little-endian numbers.
use std::fmt;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"RHYSEGMT";
/// The number of the format. A segment with another number is thrown away and made again.
const VERSION: u32 = 11;
/// Magic, version, number of sections, length of the whole, checksum of all that follows.
const HEADER: usize = 8 + 4 + 4 + 8 + 8;
const ALIGN: usize = 8;

/// The reason why bytes aren't a segment. Nothing is lost: the items are in the store, and the segment is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("index segment: {0}; it is rebuilt from the items")]
pub struct Damaged(pub(super) &'static str);

macro_rules! sections {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The sections of a segment, in their order in the file.
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Section { $($(#[$doc])* $name),* }
        impl Section {
            pub const COUNT: usize = [$(Section::$name),*].len();
        }
    };
}

sections! {
    /// u64: ids by ordinal.
    Ids,
    /// u32: ordinals by ascending id.
    ById,
    /// u64: ids deleted from older segments, ascending.
    Tombstones,
    /// i64 a number: when.
    Time,
    /// u32.
    Source,
    /// u32.
    Kind,
    /// u32.
    ThreadOf,
    /// u8.
    Tier,
    /// u8.
    Trust,
    /// i64.
    Expires,
    /// u64: the term of the first word of a leading `Name: `, 0 for none.
    Speaker,
    /// u8: 1 for a text that ends in a short question.
    Asks,
    /// u16: number of terms, saturating.
    Length,
    /// u64: the sum of all lengths; dimensions of the caller's vectors; the number of entries with a vector of the
    /// built-in model and of the caller's; the marks of both models.
    Counts,
    /// u64: hashes of terms, ascending.
    Terms,
    /// u32: the number of entries that have each.
    TermCount,
    /// u64: the beginning of the postings of each, with one more number for the end.
    TermAt,
    /// Ordinals and counts of each term.
    Postings,
    /// u32: the term that a word of the vocabulary counts as.
    WordTerm,
    /// u8: how many distinct trigrams a word has, saturating.
    WordTrigrams,
    /// u32: hashes of trigrams, ascending.
    Trigrams,
    /// u32: the beginning of the words of each, with one more number for the end.
    TrigramAt,
    /// u32: words of the vocabulary.
    TrigramWords,
    /// u32: the beginning of the bag of each entry, with one more number for the end.
    BagAt,
    /// u32: bags of the built-in model's tokens.
    Bags,
    /// u16: tokens of the built-in model that occur, ascending.
    Tokens,
    /// u32: the number of entries that have each.
    TokenCount,
    /// u8: the weight of each token of the built-in model in this segment's vectors.
    TokenWeights,
    /// The built-in model's vectors.
    BuiltinRows,
    BuiltinScale,
    BuiltinResidualNorm,
    BuiltinMean,
    BuiltinSum,
    BuiltinCentroids,
    BuiltinCentroidScale,
    BuiltinLists,
    BuiltinOrder,
    BuiltinSlots,
    BuiltinGraph,
    /// The caller's vectors.
    OwnRows,
    OwnScale,
    OwnResidualNorm,
    OwnMean,
    OwnSum,
    OwnCentroids,
    OwnCentroidScale,
    OwnLists,
    OwnOrder,
    OwnSlots,
    OwnGraph,
}

/// The sections of one space.
#[derive(Clone, Copy)]
pub(super) struct VectorSections {
    pub rows: Section,
    pub scale: Section,
    pub residual_norm: Section,
    pub mean: Section,
    pub sum: Section,
    pub centroids: Section,
    pub centroid_scale: Section,
    pub lists: Section,
    pub order: Section,
    pub slots: Section,
    pub graph: Section,
}

/// The built-in model's vectors.
pub(super) const BUILTIN: VectorSections = VectorSections {
    rows: Section::BuiltinRows,
    scale: Section::BuiltinScale,
    residual_norm: Section::BuiltinResidualNorm,
    mean: Section::BuiltinMean,
    sum: Section::BuiltinSum,
    centroids: Section::BuiltinCentroids,
    centroid_scale: Section::BuiltinCentroidScale,
    lists: Section::BuiltinLists,
    order: Section::BuiltinOrder,
    slots: Section::BuiltinSlots,
    graph: Section::BuiltinGraph,
};

/// The caller's vectors.
pub(super) const OWN: VectorSections = VectorSections {
    rows: Section::OwnRows,
    scale: Section::OwnScale,
    residual_norm: Section::OwnResidualNorm,
    mean: Section::OwnMean,
    sum: Section::OwnSum,
    centroids: Section::OwnCentroids,
    centroid_scale: Section::OwnCentroidScale,
    lists: Section::OwnLists,
    order: Section::OwnOrder,
    slots: Section::OwnSlots,
    graph: Section::OwnGraph,
};

/// Puts sections together.
pub(super) struct Writer {
    sections: Vec<Vec<u8>>,
}

impl Writer {
    pub fn new() -> Self {
        Self { sections: vec![Vec::new(); Section::COUNT] }
    }

    pub fn put<T: Fixed>(&mut self, section: Section, numbers: impl IntoIterator<Item = T>) {
        let bytes = &mut self.sections[section as usize];
        numbers.into_iter().for_each(|number| number.push(bytes));
    }

    pub fn bytes(&mut self, section: Section, bytes: Vec<u8>) {
        self.sections[section as usize] = bytes;
    }

    pub fn finish(self) -> Vec<u8> {
        let table = HEADER + 16 * Section::COUNT;
        let padded = |length: usize| length.next_multiple_of(ALIGN);
        let total = table + self.sections.iter().map(|section| padded(section.len())).sum::<usize>();
        let mut out = Vec::with_capacity(total);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((Section::COUNT as u32).to_le_bytes());
        out.extend((total as u64).to_le_bytes());
        out.extend([0; 8]);
        let mut at = table;
        for section in &self.sections {
            out.extend((at as u64).to_le_bytes());
            out.extend((section.len() as u64).to_le_bytes());
            at += padded(section.len());
        }
        for section in &self.sections {
            out.extend(section);
            out.resize(padded(out.len()), 0);
        }
        seal(&mut out);
        out
    }
}

/// Write the checksum of all that follows the header.
pub(super) fn seal(out: &mut [u8]) {
    let checksum = xxh3_64(&out[HEADER..]);
    out[HEADER - 8..HEADER].copy_from_slice(&checksum.to_le_bytes());
}

/// Have the table say that a section is elsewhere.
#[cfg(test)]
pub(super) fn place(out: &mut [u8], section: usize, at: usize, length: usize) {
    let entry = &mut out[HEADER + 16 * section..][..16];
    entry[..8].copy_from_slice(&(at as u64).to_le_bytes());
    entry[8..].copy_from_slice(&(length as u64).to_le_bytes());
}

/// The place of each section.
#[derive(Clone, Debug)]
pub(super) struct Layout(Vec<Range<usize>>);

impl Layout {
    /// Read the table of `bytes`, whose every bit the checksum vouches for.
    pub fn read(bytes: &[u8]) -> Result<Self, Damaged> {
        if bytes.len() < HEADER || &bytes[..8] != MAGIC {
            return Err(Damaged("it does not begin as a segment does"));
        }
        let head = Column::<u32>::new(&bytes[8..16]);
        let totals = Column::<u64>::new(&bytes[16..HEADER]);
        if head.get(0) != VERSION || head.get(1) as usize != Section::COUNT {
            return Err(Damaged("another version of the format"));
        }
        if totals.get(0) != bytes.len() as u64 {
            return Err(Damaged("cut short or too long"));
        }
        if totals.get(1) != xxh3_64(&bytes[HEADER..]) {
            return Err(Damaged("the checksum is another"));
        }
        let table = bytes.get(HEADER..HEADER + 16 * Section::COUNT).ok_or(Damaged("no table of sections"))?;
        let table = Column::<u64>::new(table);
        let range = |section: usize| {
            let (at, length) = (table.get(2 * section), table.get(2 * section + 1));
            let end = at.checked_add(length).filter(|&end| end <= bytes.len() as u64);
            end.map(|end| at as usize..end as usize).ok_or(Damaged("a section is outside"))
        };
        Ok(Self((0..Section::COUNT).map(range).collect::<Result<_, _>>()?))
    }

    #[cfg(test)]
    pub fn range(&self, section: usize) -> Range<usize> {
        self.0[section].clone()
    }

    /// The place of a section.
    pub fn at(&self, section: Section) -> Range<usize> {
        self.0[section as usize].clone()
    }

    pub fn of<'a>(&self, bytes: &'a [u8], section: Section) -> &'a [u8] {
        &bytes[self.at(section)]
    }
}

/// A number of a fixed width.
pub(super) trait Fixed: Copy + fmt::Debug {
    type Bytes: Copy + fmt::Debug;
    fn of(bytes: Self::Bytes) -> Self;
    fn split(bytes: &[u8]) -> &[Self::Bytes];
    fn push(self, out: &mut Vec<u8>);
}

macro_rules! fixed {
    ($($number:ty),*) => {$(
        impl Fixed for $number {
            type Bytes = [u8; size_of::<$number>()];
            #[inline(always)]
            fn of(bytes: Self::Bytes) -> Self { Self::from_le_bytes(bytes) }
            fn split(bytes: &[u8]) -> &[Self::Bytes] { bytes.as_chunks().0 }
            fn push(self, out: &mut Vec<u8>) { out.extend(self.to_le_bytes()); }
        }
    )*};
}

fixed!(u8, u16, u32, u64, i64, f32);

/// Numbers that are read in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<'a, T: Fixed>(&'a [T::Bytes]);

impl<'a, T: Fixed> Column<'a, T> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(T::split(bytes))
    }

    #[inline(always)]
    pub fn len(self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    pub fn get(self, index: usize) -> T {
        T::of(self.0[index])
    }

    pub fn iter(self) -> impl ExactSizeIterator<Item = T> + Clone + use<'a, T> {
        self.0.iter().map(|&bytes| T::of(bytes))
    }

    /// The numbers as they are.
    pub fn raw(self) -> &'a [T::Bytes] {
        self.0
    }

    pub fn range(self, range: Range<usize>) -> Self {
        Self(&self.0[range])
    }
}

impl<T: Fixed + Ord> Column<'_, T> {
    /// The place of `number` in ascending numbers.
    pub fn find(self, number: T) -> Option<usize> {
        self.0.binary_search_by(|&bytes| T::of(bytes).cmp(&number)).ok()
    }
}
