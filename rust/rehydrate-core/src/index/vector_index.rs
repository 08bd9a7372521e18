//! The kind of a vector index: inverted lists, or a graph.

/// Below this many rows all are looked at.
const GRAPH_AT_ALL_FROM: usize = 4_096;

/// The way to find the nearest vectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VectorIndex {
    /// By what is quicker: lists, at each size that was measured (100,000 to 1,000,000 vectors). A walk takes 0.8 to 1.3 of
    /// the time of a scan, more for many at once, and its graph takes six to ten times as long to make.
    #[default]
    Auto,
    /// By inverted lists, always; a graph that is there is left alone.
    Lists,
    /// By a graph of `usearch`, but for segments so small that all rows are compared.
    Usearch,
}

impl VectorIndex {
    /// The number of a segment's vectors from which it gets a graph; None: never.
    #[must_use]
    pub fn graph_from(self) -> Option<usize> {
        (self == Self::Usearch).then_some(GRAPH_AT_ALL_FROM)
    }
}
