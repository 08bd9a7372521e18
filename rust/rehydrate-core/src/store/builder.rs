//! Building index files: newest items into small ones, small ones into larger ones, damaged ones again.
//!
//! Files of about the same size become one when there are [`RATIO`] of them, so that an item is written again only a
//! few times and a search reads few files. One process builds at a time; its result becomes current in one transaction.
//!
//! Processes may be short. So many new items are filed in several steps, small ones first, before anything is merged,
//! and each step lasts. A search does so before it looks, and closing and exiting wait a little for it.
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::OptionalExtension;
use rustc_hash::FxHashSet;

use super::connections::Connections;
use super::index_cache::IndexCache;
use super::index_snapshot::{InMemory, IndexedRange, MAX_SEGMENT_ITEMS, PlannedRange, Rows, plan_ranges, state};
use super::namespace::Namespace;
use super::segments::{self, FileName, Folder, Lock, Row};
use super::{problem, use_count};
use crate::error::{Error, Result, StoreProblem};
use crate::index::VectorIndex;
use crate::interrupt::{poll, unless};

/// Items that are worth a file: fewer are indexed in a tenth of a second whenever they are needed.
pub(super) const FILED_ITEMS: usize = 2048;
/// The number of files of one size that are merged.
const RATIO: usize = 4;
const PAUSE: Duration = Duration::from_millis(5);
/// The time that a builder leaves to those who wait for its lock.
const LONG_PAUSE: Duration = Duration::from_millis(50);

/// Everything that building needs.
#[derive(Clone)]
pub(super) struct BuildContext {
    pub connections: Arc<Connections>,
    pub folder: Folder,
    pub index_cache: Arc<IndexCache>,
}

/// The files to build for a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Files for new items and for damaged ones: without them every process indexes the same items again.
    Missing,
    /// Also large files in place of small ones.
    All,
}

/// A file to build: of `(low, high]`, after `older` ranges, in place of `replaced` ones.
struct Job {
    low: i64,
    high: i64,
    older: Vec<IndexedRange>,
    replaced: Vec<Row>,
}

impl BuildContext {
    /// Build the files of a namespace until none is missing: for damaged ones and for at least `least` new items. Waits
    /// for other processes that build, if `waits`, and begins again after whoever made a build void.
    pub fn build_pending(&self, name: &str, least: usize, extent: Extent, waits: bool) -> Result<()> {
        let patience = if waits { Duration::MAX } else { Duration::ZERO };
        while !self.build_in_turn(name, least, extent, patience)? {
            // A purge wants the lock.
            std::thread::sleep(LONG_PAUSE);
            if !waits {
                break;
            }
        }
        Ok(())
    }

    /// Build under the lock. False if that is over because the namespace was purged, or its index thrown away.
    fn build_in_turn(&self, name: &str, least: usize, extent: Extent, patience: Duration) -> Result<bool> {
        let Some(_lock) = self.lock(patience)? else { return Ok(true) };
        self.sweep()?;
        // A caller that asks for large files waits for them. Otherwise the process may end at any moment, and nobody
        // waits for a graph.
        let (mut most, index) = match extent {
            Extent::All => (MAX_SEGMENT_ITEMS, self.folder.vectors),
            Extent::Missing => (FILED_ITEMS, VectorIndex::Lists),
        };
        while let Some((namespace, generation, job)) = self.next_job(name, least, most, extent)? {
            poll()?;
            if !self.build(name, (namespace, generation), &job, index)? {
                return Ok(false);
            }
            // A caller that has come this far is likely to go further.
            most = (2 * most).min(MAX_SEGMENT_ITEMS);
        }
        Ok(true)
    }

    /// Whether enough items of a namespace are neither in a file nor in memory that they are worth a file.
    pub fn is_behind(&self, name: &str) -> Result<bool> {
        let snapshot = self.index_cache.peek(&self.connections, name)?;
        self.connections.read(|transaction| {
            let Some(row) = Namespace::find(transaction, name)? else { return Ok(false) };
            let known = snapshot
                .as_ref()
                .filter(|snapshot| snapshot.namespace == row.id)
                .map_or(0, |snapshot| snapshot.sequence);
            // Every item has a sequence number of its own.
            if row.sequence - known < FILED_ITEMS as i64 {
                return Ok(false);
            }
            let filed = segments::rows(transaction, &row)?.last().map_or(0, |file| file.high);
            let query = "SELECT 1 FROM items WHERE namespace = ?1 AND rev > ?2 LIMIT 1 OFFSET ?3";
            let least = FILED_ITEMS as i64 - 1;
            let mut statement = transaction.prepare_cached(query)?;
            Ok(statement.exists((row.id, known.max(filed), least))?)
        })
    }

    /// The right to build and to sweep. None if others had it all the time.
    pub fn lock(&self, patience: Duration) -> Result<Option<Lock>> {
        let path = &self.connections.path;
        let end = Instant::now().checked_add(patience);
        loop {
            let (found, is_locked_here) = {
                let _inside = use_count::enter(path)?;
                (self.folder.lock(), self.folder.is_locked_here())
            };
            match found {
                Ok(None) if patience > Duration::ZERO && is_locked_here => {
                    return Err(problem::store(
                        path,
                        StoreProblem::Busy,
                        "a signal handler wants the index while the thread that it runs on is building it",
                        "set a flag in the handler, and call again when the call has returned",
                    ));
                }
                Ok(None) if end.is_none_or(|end| Instant::now() < end) => {
                    poll()?;
                    std::thread::sleep(PAUSE);
                }
                found => return found.map_err(|error| problem::io(path, &error)),
            }
        }
    }

    /// Remove the files of a process that ended during its work: they may hold texts that are purged by now. Runs under
    /// the lock. Returns those that stay.
    pub fn sweep(&self) -> Result<Vec<PathBuf>> {
        let current: FxHashSet<FileName> = self.connections.read(|transaction| {
            let files = segments::names_in(&mut transaction.prepare("SELECT file FROM segments")?, [])?;
            Ok(files.into_iter().collect())
        })?;
        Ok(self.folder.sweep(|name| current.contains(name)))
    }

    /// Remove `files`, and the files of an ended process. Returns those that stay. Waits for a builder: it may be
    /// writing texts that were purged meanwhile.
    ///
    /// # Errors
    /// Others who built for all the time that a call may wait.
    pub fn sweep_all(&self, files: &[FileName]) -> Result<Vec<PathBuf>> {
        if self.folder.is_absent() {
            return Ok(Vec::new());
        }
        let _lock = match self.lock(self.connections.busy) {
            Ok(Some(lock)) => lock,
            Ok(None) => {
                return Err(problem::store(
                    &self.connections.path,
                    StoreProblem::Busy,
                    format!("its index was being built for {:.1} s", self.connections.busy.as_secs_f64()),
                    "let it finish, and purge again",
                ));
            }
            Err(Error::Store { kind: StoreProblem::Other | StoreProblem::ReadOnly, .. }) => {
                let remaining = self.folder.remove(files);
                return Ok(if remaining.is_empty() { vec![self.folder.path().to_owned()] } else { remaining });
            }
            Err(error) => return Err(error),
        };
        let remove = || -> Result<Vec<PathBuf>> {
            let mut remaining = self.folder.remove(files);
            remaining.extend(self.sweep()?);
            remaining.sort();
            remaining.dedup();
            Ok(remaining)
        };
        let remaining = remove()?;
        if remaining.is_empty() {
            return Ok(remaining);
        }
        self.folder.mend();
        remove()
    }

    /// The next file to build, of at most `most` new items, with its namespace and that one's generation.
    fn next_job(&self, name: &str, least: usize, most: usize, extent: Extent) -> Result<Option<(i64, i64, Job)>> {
        let Some((row, files)) = state(&self.connections, name)? else { return Ok(None) };
        let snapshot = self.index_cache.peek(&self.connections, name)?.filter(|snapshot| snapshot.namespace == row.id);
        // New files are built of the ranges that are in memory only.
        let ranges: Vec<IndexedRange> = snapshot
            .iter()
            .flat_map(|snapshot| snapshot.ranges.iter().filter(|range| range.row.is_some()).cloned())
            .collect();
        let known = InMemory { ranges: &ranges, generation: row.generation };
        let planned = plan_ranges(&self.folder, &row, &files, known);
        let count = |low: i64, high: i64| {
            self.connections.read(|transaction| {
                let query = "SELECT count(*) FROM items WHERE namespace = ?1 AND rev > ?2 AND rev <= ?3";
                Ok(transaction.prepare_cached(query)?.query_row((row.id, low, high), |row| row.get::<_, i64>(0))?
                    as usize)
            })
        };
        let job = |from: usize, to: usize, most: usize| -> Result<_> {
            let low = planned[from].low;
            let high = self.high_of(row.id, low, planned[to].high, most)?;
            let older = planned[..from].iter().filter_map(|range| range.indexed.clone()).collect();
            // Damaged files are between the others, and are replaced together with what takes their place.
            let replaced = files.iter().filter(|file| file.high > low && file.high <= high).cloned().collect();
            Ok(Some((row.id, row.generation, Job { low, high, older, replaced })))
        };
        let filed = files.last().map_or(0, |file| file.high);
        for (at, range) in planned.iter().enumerate() {
            let items = count(range.low, range.high)?;
            match &range.indexed {
                None if range.is_damaged || range.low < filed => return job(at, at, MAX_SEGMENT_ITEMS),
                None if items >= least.max(1) => return job(at, at, most),
                // Most of it was deleted or replaced since.
                Some(range) if extent == Extent::All && range.segment.len() > 2 * items + RATIO => {
                    return job(at, at, MAX_SEGMENT_ITEMS);
                }
                _ => {}
            }
        }
        if extent == Extent::All {
            let sizes: Vec<usize> = planned.iter().map_while(size).collect();
            if let Some((newest, older)) = sizes.split_last()
                && let start = merge_start(older, *newest)
                && start < older.len()
            {
                return job(start, older.len(), MAX_SEGMENT_ITEMS);
            }
            // Last, since a merged file gets one of its own.
            let lacks_graph = |range: &PlannedRange| range.indexed.as_ref().is_some_and(IndexedRange::lacks_graph);
            if let Some(at) = planned.iter().position(lacks_graph) {
                return job(at, at, MAX_SEGMENT_ITEMS);
            }
        }
        Ok(None)
    }

    /// The number of items up to which a file of `(low, high]` may reach, if that is more than `most`.
    fn high_of(&self, namespace: i64, low: i64, high: i64, most: usize) -> Result<i64> {
        self.connections.read(|transaction| {
            let query =
                "SELECT rev FROM items WHERE namespace = ?1 AND rev > ?2 AND rev <= ?3 ORDER BY rev LIMIT 1 OFFSET ?4";
            let bounds = (namespace, low, high, most as i64 - 1);
            Ok(transaction.prepare_cached(query)?.query_row(bounds, |row| row.get(0)).optional()?.unwrap_or(high))
        })
    }

    /// Build a file and make it current, unless somebody purged the namespace, or threw its index away, meanwhile: false.
    /// Then the work ends early, as the purge waits for it.
    fn build(&self, name: &str, (namespace, generation): (i64, i64), job: &Job, index: VectorIndex) -> Result<bool> {
        let is_of = move |now: &Namespace| (now.id, now.generation) == (namespace, generation);
        let rows = Rows::read(&self.connections, namespace, job.low, job.high, usize::MAX)?;
        let (connections, of) = (Arc::clone(&self.connections), name.to_owned());
        let is_void = move || {
            let now = connections.read(|transaction| Ok(Namespace::find(transaction, &of)?));
            now.is_ok_and(|now| !now.as_ref().is_some_and(is_of))
        };
        let Some(bytes) = unless(is_void, || rows.build(&job.older, index))? else { return Ok(false) };
        poll()?;
        let written = {
            let _inside = use_count::enter(&self.connections.path)?;
            self.folder.write(&bytes)
        };
        let (file, checksum) = written.map_err(|error| problem::io(&self.connections.path, &error))?;
        let row = Row {
            low: job.low,
            high: job.high,
            file: Some(file.clone()),
            checksum,
            bytes: bytes.len() as i64,
            items: rows.len() as i64,
        };
        let swapped = self.connections.write(|transaction| {
            let Some(mut now) = Namespace::find(transaction, name)?.filter(is_of) else { return Ok(false) };
            segments::replace(transaction, &mut now, &job.replaced, &row)?;
            Ok(true)
        });
        // Files that remain are swept the next time.
        let _ = match swapped {
            Ok(true) => self.folder.remove(job.replaced.iter().filter_map(|row| row.file.as_ref())),
            Ok(false) | Err(_) => self.folder.remove([&file]),
        };
        swapped
    }
}

/// Items of a file. None for those in no file.
fn size(range: &PlannedRange) -> Option<usize> {
    range.indexed.as_ref().filter(|range| range.row.is_some()).map(|range| range.segment.len())
}

/// The first of the files, oldest first, that are merged with the newest one, of `items`.
fn merge_start(sizes: &[usize], items: usize) -> usize {
    let level = |size: usize| (size / FILED_ITEMS).max(1).ilog(RATIO);
    let mut start = sizes.len();
    for from in (0..sizes.len()).rev() {
        let newer = &sizes[from..];
        let total = newer.iter().sum::<usize>() + items;
        if total > MAX_SEGMENT_ITEMS {
            break;
        }
        let own = level(newer[0]);
        let of_level = newer.iter().filter(|&&size| level(size) == own).count() + usize::from(level(items) == own);
        if newer.iter().all(|&size| level(size) <= own) && level(items) <= own && of_level >= RATIO {
            start = from;
        } else if level(items) > own {
            // Smaller ranges go with the new items.
            start = from;
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{NewItem, Options, Store};

    #[test]
    fn files_of_one_size_are_made_one_when_there_are_four() {
        let mut sizes: Vec<usize> = Vec::new();
        let mut written = 0;
        for _ in 0..256 {
            written += FILED_ITEMS;
            let start = merge_start(&sizes, FILED_ITEMS);
            let merged = sizes.drain(start..).sum::<usize>() + FILED_ITEMS;
            written += if merged > FILED_ITEMS { merged } else { 0 };
            sizes.push(merged);
        }
        let total = 256 * FILED_ITEMS;
        assert_eq!(sizes.iter().sum::<usize>(), total);
        assert!(sizes.len() <= 3 * 4 + total / MAX_SEGMENT_ITEMS, "{sizes:?}");
        assert!(written <= 5 * total, "an item was written {} times", written / total);
        assert!(sizes.iter().all(|&size| size <= MAX_SEGMENT_ITEMS));
    }

    #[test]
    fn many_new_items_swallow_smaller_files() {
        assert_eq!(merge_start(&[100_000, 2048, 2048], 40_000), 1);
        assert_eq!(merge_start(&[], 5), 0);
        assert_eq!(merge_start(&[MAX_SEGMENT_ITEMS], 5), 1);
    }

    #[test]
    fn nobody_waits_for_a_graph_and_every_large_file_gets_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.db");
        let items: Vec<NewItem> =
            (0..3 * FILED_ITEMS).map(|i| NewItem::new(format!("note {i} about {} penguins", 7 * i), 0)).collect();
        Store::open(&path, Options::default()).unwrap().add("alice", &items, None).unwrap();
        let store = Store::open(&path, Options { vectors: VectorIndex::Usearch, ..Options::default() }).unwrap();
        store.discard("alice").unwrap();
        let context = &store.build_context;
        let lacking = || {
            let (_, files) = state(&context.connections, "alice").unwrap().unwrap();
            files.iter().map(|file| context.folder.open(file).unwrap().lacks_graph()).collect::<Vec<bool>>()
        };
        context.build_pending("alice", 1, Extent::Missing, true).unwrap();
        assert_eq!(lacking(), [false, true], "the first is too small");
        assert!(store.snapshot("alice").unwrap().unwrap().lacks_files());
        context.build_pending("alice", 1, Extent::All, true).unwrap();
        assert_eq!(lacking(), [false, false]);
        assert!(!store.snapshot("alice").unwrap().unwrap().lacks_files());
    }
}
