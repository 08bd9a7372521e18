//! Which index of vectors is used: inverted lists, a graph, or for each segment the one that is quicker at its size.

/// From so many rows on one question takes less than half the time that lists take. A graph takes several times as long to make
/// as all the rest of a segment, and is made again when segments become one: smaller ones get none.
const GRAPH_WINS_FROM: usize = 1 << 18;
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
