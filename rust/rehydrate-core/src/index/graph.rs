//! A graph of a segment's rows (HNSW; Malkov and Yashunin 2018), which `usearch` links, saves and walks.
//!
//! The time of a walk hardly grows with the rows, while that of a scan of lists does. The graph is in the segment with
//! everything else: one checksum covers both, and it goes where the segment goes. Its rows are those of the segment,
//! less their mean and in bytes. The rows that a walk finds are compared again by the same products as those of a scan.
//!
//! Of equal rows one is linked and leads to the others: they would link each other alone, and a walk that meets many of
//! them would see nothing else. So the section begins with the next equal row of each, as a ring, before what `usearch`
//! saves.
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use once_cell::race::OnceBox;
use rustc_hash::FxHashMap;
use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

use super::inverted_lists::StoredRows;
use super::layout::Column;
use super::segment::Bytes;
use crate::embed::int_products::byte_cosine;
use crate::interrupt::{Pace, checkpoint};

/// Links of a node, twice as many on the lowest level.
const LINKS: usize = 16;
/// Nodes that are looked at to link a new one.
const LINKED_AMONG: usize = 96;
/// 2^64 by the golden ratio: multiples of it are far apart.
const SCATTER: u64 = 0x9E37_79B9_7F4A_7C15;
/// Searches at once: more wait for one of these to end.
const WALKS: usize = 16;
const PAUSE: Duration = Duration::from_micros(50);

/// In place of a graph that could not be made, so that it is not tried again: lists serve as well.
pub(super) const NOT_MADE: &[u8] = &[0];

/// The bytes of a graph of the rows that are there.
pub(super) fn link(stored: &StoredRows<'_>) -> Vec<u8> {
    let (mut nodes, ring) = distinct(stored);
    // Rows come source by source. Topics that are linked one after the other hardly lead to each other.
    nodes.sort_unstable_by_key(|&at| (at as u64).wrapping_mul(SCATTER));
    let linked = || -> Option<Vec<u8>> {
        let mut graph = empty(stored.dim)?;
        measure(&mut graph, stored.dim);
        graph.reserve_capacity_and_threads(nodes.len(), 1).ok()?;
        let mut row = Vec::with_capacity(stored.dim);
        for &at in &nodes {
            checkpoint();
            row.clear();
            row.extend(stored.row(at).iter().map(|byte| byte.cast_signed()));
            graph.add(at as u64, &row).ok()?;
        }
        let mut bytes: Vec<u8> = ring.iter().flat_map(|next| next.to_le_bytes()).collect();
        let ring_bytes = bytes.len();
        bytes.resize(ring_bytes + graph.serialized_length(), 0);
        graph.save_to_buffer(&mut bytes[ring_bytes..]).ok()?;
        Some(bytes)
    };
    linked().unwrap_or_else(|| NOT_MADE.to_vec())
}

/// The first of each set of equal rows, and for each row the next one of its set: the first for the last.
fn distinct(stored: &StoredRows<'_>) -> (Vec<usize>, Vec<u32>) {
    let mut ring: Vec<u32> = (0..stored.scale.len() as u32).collect();
    let (mut first_of, mut nodes, mut pace) = (FxHashMap::default(), Vec::new(), Pace::default());
    for at in (0..ring.len()).filter(|&at| stored.scale[at] != 0.0) {
        pace.step_by(stored.dim);
        match first_of.entry(stored.row(at)) {
            Entry::Occupied(first) => ring.swap(at, *first.get()),
            Entry::Vacant(first) => {
                first.insert(at);
                nodes.push(at);
            }
        }
    }
    (nodes, ring)
}

/// A row and those that are equal to it.
fn equals(ring: Column<'_, u32>, row: usize) -> impl Iterator<Item = usize> {
    let next = move |&at: &usize| Some(ring.get(at) as usize).filter(|&next| next != row);
    std::iter::successors(Some(row), next)
}

fn empty(dim: usize) -> Option<Index> {
    let options = IndexOptions {
        dimensions: dim,
        metric: MetricKind::Cos,
        quantization: ScalarKind::I8,
        connectivity: LINKS,
        expansion_add: LINKED_AMONG,
        ..IndexOptions::default()
    };
    Index::new(&options).ok()
}

/// Makes the index compare rows by our product: its own is compiled for the oldest processors.
#[expect(unsafe_code, reason = "usearch hands two vectors of the length that it was made for as pointers")]
fn measure(index: &mut Index, dim: usize) {
    index.change_metric::<i8>(Box::new(move |a, b| {
        // SAFETY: each is a row of this index or the query, whose length it has checked: `dim` bytes.
        let (a, b) = unsafe { (std::slice::from_raw_parts(a.cast(), dim), std::slice::from_raw_parts(b.cast(), dim)) };
        1.0 - byte_cosine(a, b)
    }));
}

/// The graph of one space of a segment, opened when it is first walked.
#[derive(Default)]
pub(super) struct Graph {
    opened: OnceBox<Opened>,
}

/// A graph as one process walks it. A forked child's copy of its parent's may be locked forever, so the child opens its
/// own.
struct Opened {
    process: u32,
    index: Index,
    walks: AtomicUsize,
    of_child: OnceBox<Opened>,
    /// The bytes that the index reads.
    _bytes: Bytes,
}

/// The right to walk, given back when dropped.
struct Walk<'a>(&'a Opened);

impl Graph {
    /// The ordinals of about `number` rows that are nearest to `direction`, of those that pass, and of all that equal
    /// them. `at` is the place of the graph of `rows` rows in `bytes`. None if it can't be walked.
    pub fn walk(
        &self,
        bytes: &Bytes,
        (at, rows): (Range<usize>, usize),
        direction: &[i8],
        number: usize,
        passes: impl Fn(usize) -> bool,
    ) -> Option<Vec<usize>> {
        let ring_end = at.start + 4 * rows;
        let ring = Column::<u32>::new(&(**bytes).as_ref()[at.start..ring_end]);
        let walk = self.opened(bytes, ring_end..at.end)?.enter();
        let leads = |node: u64| equals(ring, node as usize).any(&passes);
        let found = walk.0.index.filtered_search(direction, number, leads).ok()?;
        let found = found.keys.into_iter().flat_map(|node| equals(ring, node as usize));
        Some(found.filter(|&row| passes(row)).collect())
    }

    fn opened(&self, bytes: &Bytes, at: Range<usize>) -> Option<&Opened> {
        let process = std::process::id();
        let mut place = &self.opened;
        loop {
            let open = || Opened::of(Arc::clone(bytes), at.clone()).map(Box::new).ok_or(());
            let opened = place.get_or_try_init(open).ok()?;
            if opened.process == process {
                return Some(opened);
            }
            place = &opened.of_child;
        }
    }
}

impl Opened {
    #[expect(unsafe_code, reason = "the index looks into bytes that it does not own: a copy would double them")]
    fn of(bytes: Bytes, at: Range<usize>) -> Option<Self> {
        let saved = &(*bytes).as_ref()[at];
        let dim = usize::try_from(Index::metadata_from_buffer(saved).ok()?.dimensions).ok()?;
        let mut index = empty(dim)?;
        index.reserve_capacity_and_threads(0, WALKS).ok()?;
        // SAFETY: `_bytes` keeps them where they are for as long as the index is there, and nobody changes them.
        unsafe { index.view_from_buffer(saved) }.ok()?;
        measure(&mut index, dim);
        let (process, walks, of_child) = (std::process::id(), AtomicUsize::new(0), OnceBox::new());
        Some(Self { process, index, walks, of_child, _bytes: Arc::clone(&bytes) })
    }

    fn enter(&self) -> Walk<'_> {
        let one_more = |walks| (walks < WALKS).then_some(walks + 1);
        while self.walks.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).is_err() {
            std::thread::sleep(PAUSE);
        }
        Walk(self)
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.0.walks.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether the bytes are a graph of `rows` rows of `dim` components, whose nodes are ordinals for which `is_row` holds.
/// `usearch` checks lengths when it opens them, and follows links without checks.
pub(super) fn fits(bytes: &[u8], (dim, rows): (usize, usize), is_row: impl Fn(u64) -> bool) -> bool {
    if bytes.is_empty() || bytes == NOT_MADE {
        return true;
    }
    let Some((ring, saved)) = bytes.split_at_checked(4 * rows) else { return false };
    let of_bytes = Index::metadata_from_buffer(saved)
        .is_ok_and(|head| head.dimensions == dim as u64 && head.quantization == ScalarKind::I8);
    is_ring(Column::new(ring)) && of_bytes && Nodes::of(saved, dim).is_some_and(|nodes| nodes.fit(is_row))
}

/// Whether each row comes next once: then whoever follows it comes back.
fn is_ring(ring: Column<'_, u32>) -> bool {
    let mut seen = vec![false; ring.len()];
    ring.iter().all(|next| seen.get_mut(next as usize).is_some_and(|seen| !std::mem::replace(seen, true)))
}

/// The nodes that `usearch` saves after the rows and its own header: five numbers, the level of each node, the nodes.
struct Nodes<'a> {
    levels: Column<'a, u16>,
    tape: &'a [u8],
}

const HEAD: usize = 64;
/// The size of a node without its links: key and level.
const NODE: usize = 8 + 2;

fn list_bytes(links: usize) -> usize {
    4 + 4 * links
}

impl<'a> Nodes<'a> {
    fn of(bytes: &'a [u8], dim: usize) -> Option<Self> {
        let shape = Column::<u32>::new(bytes.get(..8)?);
        if shape.get(1) as usize != dim {
            return None;
        }
        let (header, rest) = bytes.get(8 + shape.get(0) as usize * dim + HEAD..)?.split_at_checked(5 * 8)?;
        let header = Column::<u64>::new(header);
        let size = usize::try_from(header.get(0)).ok()?;
        let is_ours = header.get(1) == LINKS as u64 && header.get(2) == 2 * LINKS as u64;
        let (levels, tape) = rest.split_at_checked(size.checked_mul(2)?)?;
        (is_ours && size == shape.get(0) as usize).then(|| Self { levels: Column::new(levels), tape })
    }

    fn fit(&self, is_row: impl Fn(u64) -> bool) -> bool {
        let mut pace = Pace::default();
        let mut tape = self.tape;
        let mut node = |level: u16| -> Option<()> {
            pace.step_by(LINKS);
            let (head, mut rest) = tape.split_at_checked(NODE)?;
            let is_own = is_row(u64::from_le_bytes(*head.first_chunk()?)) && head[8..] == level.to_le_bytes();
            for of in 0..=level {
                let links = if of == 0 { 2 * LINKS } else { LINKS };
                let (list, after) = rest.split_at_checked(list_bytes(links))?;
                let list = Column::<u32>::new(list);
                let leads = |&to: &u32| (to as usize) < self.levels.len() && self.levels.get(to as usize) >= of;
                let count = list.get(0) as usize;
                if count > links || !list.range(1..1 + count).iter().all(|to| leads(&to)) {
                    return None;
                }
                rest = after;
            }
            tape = rest;
            is_own.then_some(())
        };
        self.levels.iter().all(|level| level < i16::MAX as u16 && node(level).is_some()) && tape.is_empty()
    }
}
