//! The input of an index: entries, their metadata, and settings.
use super::statistics::Statistics;
use super::vector_index::VectorIndex;

/// Metadata of an entry; numbers for names are the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    pub time_ms: i64,
    /// Entries of one source, in the order of their ids, are neighbours.
    pub source: u32,
    pub kind: u32,
    pub thread: u32,
    /// 0 to 7: a [`super::Filter`] names several by their bits.
    pub tier: u8,
    /// 0 to 255.
    pub trust: u8,
    /// `i64::MAX`: never.
    pub expires_ms: i64,
}

impl Default for Meta {
    fn default() -> Self {
        Self { time_ms: 0, source: 0, kind: 0, thread: 0, tier: 0, trust: u8::MAX, expires_ms: i64::MAX }
    }
}

/// One text to be found.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub id: u64,
    pub meta: Meta,
    pub text: &'a str,
    /// The vector of the caller's model. One of another length than [`Settings::dim`], of zeros or not finite counts as
    /// none. The built-in model's vector is computed here.
    pub vector: Option<&'a [f32]>,
}

/// Options for building a segment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings<'a> {
    /// Components of the caller's vectors.
    pub dim: Option<usize>,
    /// A mark of the caller's model, which [`super::Segment::space`] returns.
    pub space: u64,
    /// Statistics of the namespace's other segments ([`super::View::statistics`]): a small segment alone would not know
    /// which words are common.
    pub older: Option<&'a Statistics>,
    /// Whether spaces get a graph.
    pub index: VectorIndex,
}
