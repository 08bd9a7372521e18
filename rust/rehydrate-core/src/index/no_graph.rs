//! No graph: `usearch` is not compiled in.
use std::ops::Range;

use super::inverted_lists::StoredRows;
use super::segment::Bytes;

pub(super) const NOT_MADE: &[u8] = &[0];

#[derive(Default)]
pub(super) struct Graph;

pub(super) fn link(_: &StoredRows<'_>) -> Vec<u8> {
    NOT_MADE.to_vec()
}

pub(super) fn fits(bytes: &[u8], _: usize, _: impl Fn(u64) -> bool) -> bool {
    bytes.is_empty() || bytes == NOT_MADE
}

impl Graph {
    #[expect(clippy::unused_self, reason = "as the other's")]
    pub fn walk(
        &self,
        _: &Bytes,
        _: Range<usize>,
        _: &[i8],
        _: usize,
        _: impl Fn(usize) -> bool,
    ) -> Option<Vec<usize>> {
        None
    }
}
