//! Which index of vectors is used: inverted lists, a graph, or for each segment the one that is quicker at its size.

/// Rows below which lists find as many in less time, and are made in a hundredth of it.
const GRAPH_WINS_FROM: usize = 1 << 16;
/// Below this many rows all are looked at.
const GRAPH_AT_ALL_FROM: usize = 4_096;

/// How the nearest vectors are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VectorIndex {
    /// By a graph where a segment is so large that it wins, else by lists.
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
        match self {
            Self::Auto => Some(GRAPH_WINS_FROM),
            Self::Lists => None,
            Self::Usearch => Some(GRAPH_AT_ALL_FROM),
        }
    }
}
