//! The store as its callers see it: opening, closing, and one transaction per call.
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::background::Background;
use super::builder::BuildContext;
use super::connections::Connections;
use super::index_cache::IndexCache;
use super::item::{self, Added, Filter, Item, NewItem, Tier, verify_namespace, verify_relation};
use super::limits::Limits;
use super::namespace::{Namespace, ResolvedFilter};
use super::notes::{NOTED_USES, Notes};
use super::patience::lock;
use super::purge::{self, Purge};
use super::read::{Page, Paging, ReadTransaction};
use super::segments::Folder;
use super::write::{self, WriteTransaction};
use super::{problem, use_count};
use crate::embed::verify_dim;
use crate::error::{Error, Result};
use crate::index::VectorIndex;

/// Bytes of indexes in memory, by default: a million short items take about half of it.
pub const DEFAULT_INDEX_BYTES: u64 = 1 << 30;

/// Options for opening a store.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Nothing is written, not even indexes.
    pub is_read_only: bool,
    /// The time that a call waits for others that hold the file.
    pub busy: Duration,
    /// The limits of a namespace.
    pub limits: Limits,
    /// Bytes of indexes that stay in memory. Beyond that the least recently used go. The one in use stays.
    pub index_bytes: u64,
    /// The way to find the nearest vectors.
    pub vectors: VectorIndex,
    /// The time, in milliseconds since 1970.
    pub clock: fn() -> i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            is_read_only: false,
            busy: Duration::from_secs(30),
            limits: Limits::default(),
            index_bytes: DEFAULT_INDEX_BYTES,
            vectors: VectorIndex::default(),
            clock: system_clock,
        }
    }
}

/// The outcome of an addition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Additions {
    /// Per item, its handle and whether it is new.
    pub added: Vec<Added>,
    /// Items that the limits made cold.
    pub demoted: usize,
    /// Items that the limits took away.
    pub dropped: usize,
}

/// An open store. Calls may come from any number of threads.
///
/// ```
/// use rehydrate_core::store::{NewItem, Options, Store};
///
/// let folder = tempfile::tempdir().unwrap();
/// let store = Store::open(&folder.path().join("memory.db"), Options::default())?;
/// let item = NewItem::new("the deployment key rotates on Fridays", 0);
/// let added = store.add("alice", &[item], None)?.added;
/// let found = store.get("alice", &[added[0].handle.clone()])?;
/// assert_eq!(found[0].as_ref().unwrap().text, b"the deployment key rotates on Fridays");
/// # Ok::<(), rehydrate_core::error::Error>(())
/// ```
pub struct Store {
    pub(super) connections: Arc<Connections>,
    pub(super) options: Options,
    pub(super) build_context: BuildContext,
    pub(super) background: Background,
    notes: Mutex<Notes>,
}

/// The time that closing waits for new items to be indexed, so that the next process need not do it.
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);
/// The time that closing waits for the thread that builds indexes. Dropping waits less: nobody expects a wait there.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
const DROP_PATIENCE: Duration = Duration::from_millis(200);

impl Store {
    /// Open the store at `path`, which is made if there is none.
    ///
    /// # Errors
    /// A file that isn't a store, is of a later version, is damaged or cannot be opened.
    pub fn open(path: &Path, options: Options) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|error| problem::io(path, &error))?;
        let connections = Connections::open(path, options.is_read_only, options.busy)?;
        let folder = Folder::of(&connections.path, options.vectors);
        let index_cache = Arc::new(IndexCache::new(options.index_bytes));
        let build_context = BuildContext { connections: Arc::clone(&connections), folder, index_cache };
        Ok(Self { connections, options, build_context, background: Background::default(), notes: Mutex::default() })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.connections.path
    }

    /// Whether nothing can be written through it.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.options.is_read_only
    }

    /// The limits of a namespace.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.options.limits
    }

    /// The store's clock, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        (self.options.clock)()
    }

    /// Add items, all of them or none. An item is there already if its namespace has the same text from the same
    /// source. `space` names the model of the vectors.
    ///
    /// # Errors
    /// Items outside their limits, links to items that are not there, vectors of another model, and what keeps a file from
    /// being written. After any error nothing of the call was stored.
    pub fn add(&self, namespace: &str, items: &[NewItem], space: Option<&str>) -> Result<Additions> {
        verify_namespace(namespace)?;
        items.iter().try_for_each(NewItem::verify)?;
        if items.is_empty() {
            return Ok(Additions { added: Vec::new(), demoted: 0, dropped: 0 });
        }
        let now_ms = (self.options.clock)();
        let (additions, is_file_wanted) = self.connections.write(|transaction| {
            let row = Namespace::find_or_make(transaction, namespace)?;
            let mut writing = WriteTransaction::begin(transaction, row, now_ms)?;
            let added = writing.add(namespace, items, space)?;
            // Not before what may be refused, which would lose them; but the limits go by them.
            self.write_uses(transaction, now_ms)?;
            let (demoted, dropped) = writing.enforce(&self.options.limits)?;
            writing.finish()?;
            Ok((Additions { added, demoted, dropped }, self.is_file_wanted(namespace, items.len())))
        })?;
        if is_file_wanted {
            self.background.want(&self.build_context, namespace)?;
        }
        Ok(additions)
    }

    /// Count how often searches showed items.
    fn write_uses(&self, transaction: &rusqlite::Transaction<'_>, now_ms: i64) -> problem::Attempt<()> {
        let uses: Vec<(i64, u64)> = std::mem::take(&mut lock(&self.notes).uses).into_iter().collect();
        write::count_uses(transaction, &uses, now_ms)
    }

    pub(super) fn note_uses(&self, ids: impl Iterator<Item = i64>) -> Result<()> {
        if self.options.is_read_only {
            return Ok(());
        }
        let _inside = use_count::enter(self.path())?;
        let uses = &mut lock(&self.notes).uses;
        if uses.len() < NOTED_USES {
            ids.for_each(|id| *uses.entry(id).or_default() += 1);
        }
        Ok(())
    }

    /// Whether `more` items make it time for another index file.
    pub(super) fn is_file_wanted(&self, namespace: &str, more: usize) -> bool {
        lock(&self.notes).is_file_wanted(namespace, more)
    }

    /// The items with these handles. None for a handle that this namespace doesn't have.
    ///
    /// # Errors
    /// Strings that aren't handles, and what keeps a file from being read.
    pub fn get(&self, namespace: &str, handles: &[String]) -> Result<Vec<Option<Item>>> {
        verify_namespace(namespace)?;
        let now_ms = (self.options.clock)();
        self.connections.read(|transaction| {
            let Some(mut reading) = ReadTransaction::begin(transaction, namespace, now_ms)? else {
                handles.iter().try_for_each(|handle| item::key_in(handle).map(drop))?;
                return Ok(vec![None; handles.len()]);
            };
            handles.iter().map(|handle| reading.get(handle)).collect()
        })
    }

    /// A page of the items that pass a filter.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn list(&self, namespace: &str, filter: &Filter, paging: Paging) -> Result<Page> {
        verify_namespace(namespace)?;
        let now_ms = (self.options.clock)();
        self.connections.read(|transaction| {
            let Some(mut reading) = ReadTransaction::begin(transaction, namespace, now_ms)? else {
                return Ok(Page { items: Vec::new(), cursor: None });
            };
            let filter = ResolvedFilter::of(filter, transaction, reading.namespace.id)?;
            reading.list(&filter, paging)
        })
    }

    /// Delete items. Returns how many there were. Their texts may stay in unused parts of the file, in SQLite's log and
    /// in index files: the next [`Store::purge`] of anything in the namespace removes them.
    ///
    /// # Errors
    /// Strings that aren't handles, and what keeps a file from being written.
    pub fn forget(&self, namespace: &str, handles: &[String]) -> Result<usize> {
        self.change(namespace, 0, |writing| {
            let ids = writing.find_all(handles)?;
            writing.delete(&ids)
        })
    }

    /// Delete the items of a source or a thread, or all of a namespace, and leave no byte of the texts in any file, nor of
    /// the namespace's items that were deleted before, nor of names that no item has any more. Returns how many items
    /// there were. This writes the whole file again: [`Store::forget`] is for everyday use.
    ///
    /// # Errors
    /// A file that cannot be written. With [`crate::error::StoreProblem::Busy`] the items may be gone already and
    /// only traces be left, because others use the file all the time, or are building an index: purge again. With
    /// [`crate::error::StoreProblem::Remains`] the items are gone, and the files that are named, which hold traces of them,
    /// could not be removed.
    pub fn purge(&self, namespace: &str, what: &Purge) -> Result<usize> {
        verify_namespace(namespace)?;
        let now_ms = (self.options.clock)();
        let purged = self.connections.write(|transaction| purge::purge(transaction, namespace, what, now_ms))?;
        self.build_context.index_cache.forget(&self.connections, Some(namespace))?;
        let swept = self.build_context.sweep_all(&purged.files);
        self.erase_traces()?;
        let remaining = swept?;
        if remaining.is_empty() { Ok(purged.items) } else { Err(purge::remains(self.path(), purged.items, &remaining)) }
    }

    /// Remove what deletions left in unused parts of the file and in the log.
    pub(super) fn erase_traces(&self) -> Result<()> {
        if let Some(noted) = self.connections.read(purge::traces)? {
            self.connections.rewrite()?;
            self.connections.checkpoint()?;
            self.connections.write(|transaction| purge::clear_traces(transaction, noted))?;
        }
        Ok(())
    }

    /// Give items a tier; how many had another one.
    ///
    /// # Errors
    /// As [`Store::forget`].
    pub fn set_tier(&self, namespace: &str, handles: &[String], tier: Tier) -> Result<usize> {
        self.change(namespace, 0, |writing| {
            let ids = writing.find_all(handles)?;
            writing.set_tier(&ids, tier as u8)
        })
    }

    /// Give items vectors of the model `space`, a row each. Returns how many of the items are there.
    ///
    /// # Errors
    /// Rows that do not fit, vectors of another model than the namespace has, and as [`Store::forget`].
    pub fn set_vectors(&self, namespace: &str, handles: &[String], vectors: &[f32], space: &str) -> Result<usize> {
        let dim = vectors.len().checked_div(handles.len()).unwrap_or(0);
        if dim * handles.len() != vectors.len() || (dim == 0 && !handles.is_empty()) {
            let (numbers, rows) = (vectors.len(), handles.len());
            return Err(Error::Argument(format!("{numbers} numbers for {rows} items; give each a row of one length")));
        }
        verify_dim(dim)?;
        if vectors.iter().any(|x| !x.is_finite()) {
            return Err(Error::Argument("a vector holds NaN or infinity; give zeros for no vector".into()));
        }
        self.change(namespace, 0, |writing| {
            if handles.is_empty() {
                return Ok(0);
            }
            writing.settle_space(space, dim)?;
            let ids = writing.find_each(handles)?;
            writing.set_vectors(&ids, vectors, dim)
        })
    }

    /// Remove the vectors of all items of a namespace, and the model that it is bound to, so that another one may take
    /// its place. Returns how many items had one. The built-in model still finds them.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn drop_vectors(&self, namespace: &str) -> Result<usize> {
        let dropped = self.change(namespace, 0, |writing| writing.drop_vectors())?;
        // The part that all vectors have in common is in every index file.
        self.discard(namespace)?;
        self.background.want(&self.build_context, namespace)?;
        Ok(dropped)
    }

    /// Link two items; whether the link is new.
    ///
    /// # Errors
    /// Items that are not there, and as [`Store::forget`].
    pub fn link(&self, namespace: &str, source: &str, target: &str, relation: &str) -> Result<bool> {
        verify_relation(relation)?;
        item::key_in(source)?;
        let unknown =
            || Error::Argument(format!("no item {source} in namespace {namespace:?}; link items that are there"));
        self.change(namespace, None, |writing| writing.link_handles(source, relation, target).map(Some))?
            .ok_or_else(unknown)
    }

    /// All namespaces, by name.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn namespaces(&self) -> Result<Vec<String>> {
        self.connections.read(|transaction| {
            let mut statement = transaction.prepare_cached("SELECT name FROM namespaces ORDER BY name")?;
            Ok(statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// The sources of a namespace's items, by name.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn sources(&self, namespace: &str) -> Result<Vec<String>> {
        verify_namespace(namespace)?;
        let now_ms = (self.options.clock)();
        self.connections.read(|transaction| {
            let mut statement = transaction.prepare_cached(
                "SELECT name FROM names WHERE id IN (SELECT source FROM items WHERE namespace = \
                 (SELECT id FROM namespaces WHERE name = ?1) AND (expires IS NULL OR expires > ?2)) ORDER BY name",
            )?;
            Ok(statement.query_map((namespace, now_ms), |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Copy SQLite's log into the file and empty it.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn checkpoint(&self) -> Result<()> {
        self.connections.checkpoint()
    }

    /// Close it, when the writes that are under way have ended. Every later call but this one is refused. If a signal
    /// handler calls it during a call of the same thread, it returns at once, and that call closes the store when it
    /// ends.
    ///
    /// # Errors
    /// A process that may not use the store.
    pub fn close(&self) -> Result<()> {
        if !self.connections.is_used_here() {
            self.background.finish(&self.build_context, LEAVE_PATIENCE);
            self.background.stop(&self.build_context, CLOSE_PATIENCE);
            self.write_last_uses();
        }
        self.background.stop(&self.build_context, Duration::ZERO);
        self.connections.close()
    }

    /// The same without waiting: a call under way closes the store when it ends.
    pub fn abandon(&self) {
        if self.connections.is_closed() {
            return;
        }
        self.background.stop(&self.build_context, DROP_PATIENCE);
        self.write_last_uses();
        let _ = self.connections.try_close();
    }

    /// Only if it does not wait: a missing count does no harm.
    fn write_last_uses(&self) {
        let is_noted = use_count::enter(self.path()).is_ok_and(|_inside| !lock(&self.notes).uses.is_empty());
        if is_noted {
            let now_ms = (self.options.clock)();
            let _ = self.connections.write_within(Duration::ZERO, |transaction| self.write_uses(transaction, now_ms));
        }
    }

    /// One transaction on a namespace that exists. Returns `nothing` if it does not.
    fn change<T>(
        &self,
        namespace: &str,
        nothing: T,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> problem::Attempt<T>,
    ) -> Result<T> {
        verify_namespace(namespace)?;
        let now_ms = (self.options.clock)();
        self.connections.write(|transaction| {
            let Some(row) = Namespace::find(transaction, namespace)? else { return Ok(nothing) };
            let mut writing = WriteTransaction::begin(transaction, row, now_ms)?;
            let done = work(&mut writing)?;
            writing.finish()?;
            Ok(done)
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.abandon();
    }
}

fn system_clock() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
