//! A namespace's index in memory: its files, and the newest items, which are in no file yet.
//!
//! Each indexed range holds the items whose sequence number is in `(low, high]`. If a file is missing or damaged, it is
//! made from the rows again, so a search never notices.
use std::sync::Arc;

use rusqlite::Transaction;

use super::builder::FILED_ITEMS;
use super::connections::Connections;
use super::namespace::{Namespace, fingerprint_of};
use super::problem::Attempt;
use super::segments::{Folder, Row, rows};
use super::write::vector_of;
use crate::error::{Error, Result};
use crate::index::{Entry, Meta, Segment, Settings, VectorIndex, View};
use crate::interrupt::checkpoint;

/// Rows that are read in one go: a fork waits for no more.
const PAGE_ROWS: usize = 4096;
/// The most times that new changes are looked for if writers never pause.
const ROUNDS: usize = 20;
/// Items of one range, so that building it takes bounded memory.
pub(super) const MAX_SEGMENT_ITEMS: usize = 1 << 18;

/// Items of a range of sequence numbers, indexed.
#[derive(Clone)]
pub(super) struct IndexedRange {
    pub low: i64,
    pub high: i64,
    pub segment: Arc<Segment>,
    /// Its place on disk.
    pub row: Option<Row>,
}

impl IndexedRange {
    /// Whether its vectors are of the model that the namespace is bound to: those of two models are never compared. A
    /// range without vectors fits any.
    fn is_of(&self, namespace: &Namespace) -> bool {
        self.segment.space().is_none_or(|space| Some(space) == namespace.space_fingerprint())
    }

    /// Whether its file should have a graph of its vectors, and has none.
    pub fn lacks_graph(&self) -> bool {
        self.row.is_some() && self.segment.lacks_graph()
    }
}

/// A namespace's index as of one sequence number.
pub(super) struct IndexSnapshot {
    pub namespace: i64,
    pub generation: i64,
    pub sequence: i64,
    /// The mark of the model that the namespace was held to.
    pub space: Option<u64>,
    pub ranges: Vec<IndexedRange>,
    pub view: View,
    /// Files that the table names and that could not be used.
    pub damaged: usize,
    /// Whether files could be read and held other items than there are.
    pub is_false: bool,
}

impl IndexSnapshot {
    /// Whether files or graphs are to be made: they are missing or damaged.
    pub fn lacks_files(&self) -> bool {
        let unfiled = self.ranges.iter().filter(|range| range.row.is_none()).map(|range| range.segment.len());
        self.damaged > 0 || unfiled.sum::<usize>() >= FILED_ITEMS || self.ranges.iter().any(IndexedRange::lacks_graph)
    }

    /// Bytes of memory, with what searches keep for the next ones.
    pub fn held_bytes(&self) -> u64 {
        self.view.held_bytes() as u64
    }

    /// Whether it is the range in the row.
    pub fn is_current(&self, row: &Namespace) -> bool {
        (self.namespace, self.generation, self.sequence) == (row.id, row.generation, row.sequence)
    }
}

fn view(ranges: &[IndexedRange]) -> View {
    View::new(ranges.iter().map(|range| Arc::clone(&range.segment)).collect())
}

/// A range of sequence numbers: indexed, or to be made from the rows.
pub(super) struct PlannedRange {
    pub low: i64,
    pub high: i64,
    pub indexed: Option<IndexedRange>,
    /// A file should hold it, and is missing or damaged.
    pub is_damaged: bool,
}

/// The indexed ranges that were in memory before.
#[derive(Clone, Copy, Default)]
pub(super) struct InMemory<'a> {
    pub ranges: &'a [IndexedRange],
    pub generation: i64,
}

impl InMemory<'_> {
    /// The ranges that cover `(low, high]`, and the rest of it.
    ///
    /// A range in memory hides what was deleted in its range, and may show what was deleted later. So it is only valid
    /// as long as no one removed the tombstones that newer ranges need to hide that, or that it should have read
    /// itself.
    fn cover(self, covered: &mut Vec<PlannedRange>, row: &Namespace, low: i64, high: i64) {
        let mut low = low;
        for range in self.ranges.iter().filter(|range| range.row.is_none()) {
            let is_good = (self.generation == row.generation || range.low >= row.pruned) && range.is_of(row);
            if is_good && range.low == low && range.high <= high {
                low = range.high;
                covered.push(PlannedRange {
                    low: range.low,
                    high: range.high,
                    indexed: Some(range.clone()),
                    is_damaged: false,
                });
            }
        }
        if low < high {
            covered.push(PlannedRange { low, high, indexed: None, is_damaged: false });
        }
    }
}

/// The ranges from sequence number 0 to `row.sequence`, with the ranges that are in memory or in files.
///
/// The range of a damaged file stays a separate range: made from the same rows again, it gives the same answers.
pub(super) fn plan_ranges(folder: &Folder, row: &Namespace, files: &[Row], known: InMemory<'_>) -> Vec<PlannedRange> {
    let (mut covered, mut low) = (Vec::new(), 0);
    for file in files {
        checkpoint();
        known.cover(&mut covered, row, low, file.low);
        let is_here = |range: &&IndexedRange| range.row.as_ref() == Some(file);
        let range = known.ranges.iter().find(is_here).cloned().or_else(|| {
            let segment = Arc::new(folder.open(file)?);
            Some(IndexedRange { low: file.low, high: file.high, segment, row: Some(file.clone()) })
        });
        let range = range.filter(|range| range.is_of(row));
        let first = covered.len();
        match range {
            Some(range) => {
                covered.push(PlannedRange {
                    low: range.low,
                    high: range.high,
                    indexed: Some(range),
                    is_damaged: false,
                });
            }
            None => known.cover(&mut covered, row, file.low, file.high),
        }
        covered[first..].iter_mut().for_each(|range| {
            range.is_damaged = range.indexed.as_ref().is_none_or(|range| range.row.is_none());
        });
        low = file.high;
    }
    known.cover(&mut covered, row, low, row.sequence);
    covered
}

/// An item as a row has it.
struct Loaded {
    id: u64,
    meta: Meta,
    text: String,
    vector: Option<Vec<f32>>,
}

/// Items and deletions of a range of sequence numbers.
#[derive(Default)]
pub(super) struct Rows {
    items: Vec<Loaded>,
    deleted: Vec<u64>,
    dim: usize,
    space: Option<u64>,
    /// The end of the range that they cover.
    pub high: i64,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Those in `(low, high]`, page by page: a row that changes between two pages gets a sequence number beyond `high`
    /// and is in the next range. Ends early after `limit` items.
    pub fn read(connections: &Connections, namespace: i64, low: i64, high: i64, limit: usize) -> Result<Self> {
        let mut rows = Self { high: low, ..Self::default() };
        while rows.high < high && rows.len() < limit {
            checkpoint();
            let page = (limit - rows.len()).min(PAGE_ROWS);
            let next = connections.read(|transaction| Self::page(transaction, namespace, rows.high, high, page))?;
            rows.items.extend(next.items);
            rows.deleted.extend(next.deleted);
            (rows.high, rows.dim, rows.space) = (next.high, next.dim, next.space);
        }
        Ok(rows)
    }

    fn page(transaction: &Transaction<'_>, namespace: i64, low: i64, high: i64, limit: usize) -> Attempt<Self> {
        let mut rows = Self { high, ..Self::default() };
        if let Some((space, dim)) = Namespace::space_of(transaction, namespace)? {
            (rows.dim, rows.space) = (usize::try_from(dim).unwrap_or(0), Some(fingerprint_of(&space, dim)));
        }
        let mut statement = transaction.prepare_cached(
            "SELECT id, rev, time, source, kind, session, tier, trust, expires, text, vector FROM items JOIN bodies USING (id) \
             WHERE namespace = ?1 AND rev > ?2 AND rev <= ?3 ORDER BY rev LIMIT ?4",
        )?;
        let mut found = statement.query((namespace, low, high, limit as i64))?;
        while let Some(row) = found.next()? {
            let meta = Meta {
                time_ms: row.get(2)?,
                source: row.get(3)?,
                kind: row.get(4)?,
                thread: row.get(5)?,
                tier: row.get(6)?,
                trust: step_of(row.get(7)?),
                expires_ms: row.get::<_, Option<i64>>(8)?.unwrap_or(i64::MAX),
            };
            let text = String::from_utf8_lossy(row.get_ref(9)?.as_blob().unwrap_or_default()).into_owned();
            let vector = row.get_ref(10)?.as_blob_or_null().ok().flatten().map(vector_of);
            rows.items.push(Loaded { id: row.get::<_, i64>(0)?.unsigned_abs(), meta, text, vector });
            rows.high = row.get(1)?;
        }
        if rows.items.len() < limit {
            rows.high = high;
        }
        let mut statement =
            transaction.prepare_cached("SELECT id FROM tombstones WHERE namespace = ?1 AND rev > ?2 AND rev <= ?3")?;
        let deleted = statement.query_map((namespace, low, rows.high), |row| row.get::<_, i64>(0))?;
        rows.deleted = deleted.map(|id| id.map(i64::unsigned_abs)).collect::<rusqlite::Result<_>>()?;
        Ok(rows)
    }

    /// The bytes of a segment of them, to come after `older` ranges.
    pub fn build(&self, older: &[IndexedRange], index: VectorIndex) -> Vec<u8> {
        let entries: Vec<Entry<'_>> = self
            .items
            .iter()
            .map(|item| Entry { id: item.id, meta: item.meta, text: &item.text, vector: item.vector.as_deref() })
            .collect();
        let mut deleted = self.deleted.clone();
        deleted.sort_unstable();
        let older = (!older.is_empty()).then(|| view(older));
        let settings = Settings {
            dim: Some(self.dim).filter(|&dim| dim > 0),
            space: self.space.unwrap_or_default(),
            older: older.as_ref().map(View::statistics),
            index,
        };
        Segment::build(&entries, &deleted, &settings)
    }
}

/// A trust of 0 to 1 in 255 steps.
pub(super) fn step_of(trust: f64) -> u8 {
    (trust.clamp(0.0, 1.0) * 255.0).round() as u8
}

/// A namespace's row and its index files, in one state. None if it does not exist.
pub(super) fn state(connections: &Connections, name: &str) -> Result<Option<(Namespace, Vec<Row>)>> {
    connections.read(|transaction| {
        let Some(row) = Namespace::find(transaction, name)? else { return Ok(None) };
        let files = rows(transaction, &row)?;
        Ok(Some((row, files)))
    })
}

/// The index of a namespace as it is now, made with the ranges in `before`.
///
/// Files that can be read but hold another number of items than there are do not count: somebody else wrote them.
pub(super) fn refresh(
    connections: &Connections,
    folder: &Folder,
    name: &str,
    before: Option<&IndexSnapshot>,
) -> Result<Option<IndexSnapshot>> {
    let Some((snapshot, items)) = assemble(connections, folder, name, before, true)? else { return Ok(None) };
    let holds =
        |snapshot: &IndexSnapshot, items: Option<i64>| items.is_none_or(|items| items == snapshot.view.len() as i64);
    if holds(&snapshot, items) || snapshot.ranges.iter().all(|range| range.row.is_none()) {
        return Ok(Some(snapshot));
    }
    let Some((of_rows, items)) = assemble(connections, folder, name, None, false)? else { return Ok(None) };
    // If the rows have another number too, the namespace's own is wrong.
    Ok(Some(if holds(&of_rows, items) { IndexSnapshot { is_false: true, ..of_rows } } else { snapshot }))
}

/// The result of [`refresh`] if the files are valid, or without a check of them, and the number of items in that state.
fn assemble(
    connections: &Connections,
    folder: &Folder,
    name: &str,
    before: Option<&IndexSnapshot>,
    reads_files: bool,
) -> Result<Option<(IndexSnapshot, Option<i64>)>> {
    let state = || {
        let read = state(connections, name)?;
        Ok::<_, Error>(read.map(|(row, files)| (row, if reads_files { files } else { Vec::new() })))
    };
    let Some((mut row, mut files)) = state()? else { return Ok(None) };
    let before = before.filter(|snapshot| snapshot.namespace == row.id);
    let mut ranges: Vec<IndexedRange> = before.map_or_else(Vec::new, |snapshot| snapshot.ranges.clone());
    let mut generation = before.map_or(row.generation, |snapshot| snapshot.generation);
    for round in 1.. {
        let planned = plan_ranges(folder, &row, &files, InMemory { ranges: &ranges, generation });
        let damaged = planned.iter().filter(|range| range.is_damaged).count();
        let filed = files.last().map_or(0, |file| file.high);
        let mut made = Vec::with_capacity(planned.len());
        for range in planned {
            match range.indexed {
                Some(range) => made.push(range),
                None => append(connections, row.id, &mut made, (range.low, range.high), filed)?,
            }
        }
        // The transaction took a while. Rows written meanwhile are a range of their own, until a moment when none came.
        let Some((now, now_files)) = state()?.filter(|(now, _)| now.id == row.id) else {
            return Ok(None);
        };
        let is_settled = (now.sequence, now.generation) == (row.sequence, row.generation);
        if is_settled || round == ROUNDS {
            let view = view(&made);
            let (namespace, generation, sequence, space) =
                (row.id, row.generation, row.sequence, row.space_fingerprint());
            let is_false = false;
            let snapshot =
                IndexSnapshot { namespace, generation, sequence, space, ranges: made, view, damaged, is_false };
            return Ok(Some((snapshot, is_settled.then_some(row.items))));
        }
        (ranges, generation) = (made, row.generation);
        (row, files) = (now, now_files);
    }
    Ok(None)
}

/// Make ranges of `(low, high]` after those that are there. Small ranges beyond the files become one, and the sizes of
/// those that stay at least double, so that an item is indexed again only a few times.
fn append(
    connections: &Connections,
    namespace: i64,
    ranges: &mut Vec<IndexedRange>,
    (low, high): (i64, i64),
    filed: i64,
) -> Result<()> {
    let mut rows = Rows::read(connections, namespace, low, high, MAX_SEGMENT_ITEMS)?;
    let (mut start, mut items) = (low, rows.len());
    while let Some(last) = ranges.last()
        && last.low >= filed
        && last.high == start
        && last.segment.len() <= 2 * items.max(1)
        && last.segment.len() + items <= MAX_SEGMENT_ITEMS / 4
    {
        (start, items) = (last.low, items + last.segment.len());
        ranges.pop();
    }
    if start < low {
        rows = Rows::read(connections, namespace, start, high, MAX_SEGMENT_ITEMS)?;
    }
    loop {
        // A new segment is never damaged.
        let segment = Segment::open(Arc::new(rows.build(ranges, VectorIndex::Lists)))
            .map_err(|damaged| Error::Model(damaged.to_string()))?;
        ranges.push(IndexedRange { low: start, high: rows.high, segment: Arc::new(segment), row: None });
        if rows.high >= high {
            return Ok(());
        }
        start = rows.high;
        rows = Rows::read(connections, namespace, start, high, MAX_SEGMENT_ITEMS)?;
    }
}
