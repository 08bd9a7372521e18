//! Index files: written whole, checked whole when opened, and dispensable.
//!
//! They are read, not mapped: cutting a mapped file ends every process that reads it (SIGBUS), and nothing keeps others
//! from doing so. The held bytes are bounded (`index_cache.rs`).
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use rusqlite::{Params, Statement, Transaction};

use super::files::{self, random};
use super::namespace::Namespace;
use super::patience::{lock, try_lock};
use super::use_count;
use crate::index::{Segment, VectorIndex};

/// Beside the store's file.
const FOLDER: &str = "-index";
const ENDING: &str = ".segment";
const LOCK: &str = "lock";

/// The name of an index file: plain, and made by us. A table or a folder of somebody else may hold any other name, and
/// with it the path of a file that is not ours to read or to remove.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FileName(String);

impl FileName {
    /// None for a name that isn't one of our index files.
    pub fn of(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(ENDING)?;
        (!stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| Self(name.to_owned()))
    }

    fn new() -> Self {
        Self(format!("{:016x}{:016x}{ENDING}", random(), random()))
    }
}

/// The table's row of an index file, which holds the items whose sequence number is in `(low, high]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub low: i64,
    pub high: i64,
    /// None if the table names something else: the file counts as damaged.
    pub file: Option<FileName>,
    pub checksum: [u8; 16],
    pub bytes: i64,
    pub items: i64,
}

/// The index files of a namespace, oldest first, each after the one before. A row with a range that we never make is
/// left out: its items are read from the table. Any other error in a row only makes its file a damaged one, so that the
/// range stays and gives the same answers.
pub(super) fn rows(transaction: &Transaction<'_>, namespace: &Namespace) -> rusqlite::Result<Vec<Row>> {
    let query = "SELECT low, high, file, checksum, bytes, items FROM segments WHERE namespace = ?1 ORDER BY high";
    let row = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Row> {
        let file = row.get::<_, String>(2).ok().and_then(|name| FileName::of(&name));
        let (checksum, number) = (row.get(3).unwrap_or_default(), |column| row.get(column).unwrap_or(0));
        Ok(Row { low: row.get(0)?, high: row.get(1)?, file, checksum, bytes: number(4), items: number(5) })
    };
    let mut statement = transaction.prepare_cached(query)?;
    let mut found = statement.query([namespace.id])?;
    let (mut rows, mut filed) = (Vec::new(), 0);
    while let Some(values) = found.next()? {
        let follows = |row: &Row| (filed..row.high).contains(&row.low) && row.high <= namespace.sequence;
        if let Some(row) = row(values).ok().filter(follows) {
            filed = row.high;
            rows.push(row);
        }
    }
    Ok(rows)
}

/// The files in the first column of a query.
pub(super) fn names_in(statement: &mut Statement<'_>, parameters: impl Params) -> rusqlite::Result<Vec<FileName>> {
    let mut found = statement.query(parameters)?;
    let mut names = Vec::new();
    while let Some(row) = found.next()? {
        names.extend(row.get::<_, String>(0).ok().and_then(|name| FileName::of(&name)));
    }
    Ok(names)
}

/// Have `row` take the place of `replaced`.
pub(super) fn replace(
    tx: &Transaction<'_>,
    namespace: &mut Namespace,
    replaced: &[Row],
    row: &Row,
) -> rusqlite::Result<()> {
    for old in replaced {
        tx.prepare_cached("DELETE FROM segments WHERE namespace = ?1 AND high = ?2")?
            .execute((namespace.id, old.high))?;
    }
    // In place of a row of the same range that says nothing: it was not among those that were read.
    let insert = "INSERT OR REPLACE INTO segments (namespace, low, high, file, checksum, bytes, items) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let Row { low, high, file, checksum, bytes, items } = row;
    let file = file.as_ref().map(|FileName(name)| name);
    tx.prepare_cached(insert)?.execute((namespace.id, low, high, file, checksum, bytes, items))?;
    if *low == 0 {
        // Nothing older is left that these would have to be deleted from.
        let delete = "DELETE FROM tombstones WHERE namespace = ?1 AND rev <= ?2";
        tx.prepare_cached(delete)?.execute((namespace.id, high))?;
        namespace.pruned = namespace.pruned.max(*high);
    }
    namespace.generation += 1;
    namespace.save(tx)
}

/// The folder of a store's index files.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    path: PathBuf,
    /// The way to find vectors in its files.
    pub vectors: VectorIndex,
}

impl Folder {
    pub fn of(store: &Path, vectors: VectorIndex) -> Self {
        Self { path: files::sibling(store, FOLDER), vectors }
    }

    /// The segment in a file. None if it is missing, damaged, or not the one in the table.
    pub fn open(&self, row: &Row) -> Option<Segment> {
        let path = self.path_of(row.file.as_ref().filter(|_| self.is_own())?);
        // Opening a pipe would wait for a writer.
        let data = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
        let length = data.len();
        if length != u64::try_from(row.bytes).ok()? {
            return None;
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(length).ok()?).ok()?;
        File::open(path).ok()?.take(length).read_to_end(&mut bytes).ok()?;
        if checksum(&bytes) != row.checksum {
            return None;
        }
        Segment::open(Arc::new(bytes)).ok().map(|segment| segment.with(self.vectors))
    }

    /// Whether it isn't a link: a stranger's link may lead anywhere, and files there are not ours to make or to remove.
    fn is_own(&self) -> bool {
        !self.path.is_symlink()
    }

    fn make(&self) -> io::Result<()> {
        if self.is_own() { files::make_folder(&self.path) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    fn path_of(&self, FileName(name): &FileName) -> PathBuf {
        self.path.join(name)
    }

    /// Write a new file: its name and checksum.
    pub fn write(&self, bytes: &[u8]) -> io::Result<(FileName, [u8; 16])> {
        self.write_once(bytes).or_else(|error| {
            if !matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory) {
                return Err(error);
            }
            self.mend();
            self.write_once(bytes)
        })
    }

    fn write_once(&self, bytes: &[u8]) -> io::Result<(FileName, [u8; 16])> {
        self.make()?;
        let name = FileName::new();
        let path = self.path_of(&name);
        let written = files::private(OpenOptions::new().write(true).create_new(true))
            .open(&path)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| files::sync_folder(&self.path));
        if written.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        written.map(|()| (name, checksum(bytes)))
    }

    /// Remove files that are no longer current. Returns those that stay. A process that has one open keeps it.
    pub fn remove<'a>(&self, names: impl IntoIterator<Item = &'a FileName>) -> Vec<PathBuf> {
        let own = names.into_iter().filter(|_| self.is_own());
        own.map(|name| self.path_of(name)).filter(|path| !remove(path)).collect()
    }

    /// Remove files that no table names: they were left by a process that ended during its work. Returns those that
    /// stay, or the folder itself if it cannot be listed. Only under [`Folder::lock`].
    pub fn sweep(&self, is_current: impl Fn(&FileName) -> bool) -> Vec<PathBuf> {
        if !self.is_own() {
            return Vec::new();
        }
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if is_nothing(&error) => return Vec::new(),
            Err(_) => return vec![self.path.clone()],
        };
        let mut remaining = Vec::new();
        for entry in entries {
            let Ok(entry) = entry else {
                remaining.push(self.path.clone());
                continue;
            };
            let name = entry.file_name().to_str().and_then(FileName::of);
            if name.is_some_and(|name| !is_current(&name)) && !remove(&entry.path()) {
                remaining.push(entry.path());
            }
        }
        remaining
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its place is empty.
    pub fn is_absent(&self) -> bool {
        self.path.symlink_metadata().is_err_and(|error| is_nothing(&error))
    }

    /// Whether this thread holds the lock: a signal handler that waited for it would wait forever.
    pub fn is_locked_here(&self) -> bool {
        let here = thread::current().id();
        lock(&HELD).iter().any(|(thread, folder, _)| *thread == here && *folder == self.path)
    }

    fn lock_file(&self) -> io::Result<File> {
        self.make()?;
        let path = self.path.join(LOCK);
        if files::is_special(&path) || path.is_symlink() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        files::private(OpenOptions::new().write(true).create(true).truncate(false)).open(path)
    }

    /// Remove what is in place of the folder and of the lock, and let their owner use them: by their names they are
    /// ours, and everything in them can be made again.
    pub fn mend(&self) {
        if self.is_own() && self.path.is_dir() {
            files::allow_owner(&self.path);
            files::allow_owner(&self.path.join(LOCK));
        } else {
            remove(&self.path);
        }
        let lock = self.path.join(LOCK);
        if lock.is_symlink() || !lock.is_file() {
            remove(&lock);
        }
    }

    /// Have no other process build at the same time; None if one does.
    pub fn lock(&self) -> io::Result<Option<Lock>> {
        let file = self.lock_file().or_else(|_| {
            self.mend();
            self.lock_file()
        })?;
        match file.try_lock() {
            Ok(()) => {
                lock(&HELD).push((thread::current().id(), self.path.clone(), file));
                Ok(Some(Lock { folder: self.path.clone() }))
            }
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// The locks of this process: the threads that hold them, the folders, and the files. Used inside the fork guard only.
static HELD: Mutex<Vec<(ThreadId, PathBuf, File)>> = Mutex::new(Vec::new());

/// In a forked process, which has the files open too: it would hold the locks for as long as it lives, if its parent
/// ended without releasing them.
pub(super) fn forget_locks() {
    if let Some(mut held) = try_lock(&HELD) {
        held.clear();
    }
}

/// Held while index files are built, by the thread that took it.
pub(super) struct Lock {
    folder: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let inside = use_count::enter(&self.folder);
        if inside.is_err() && !use_count::is_home() {
            return; // it is the parent's
        }
        let here = thread::current().id();
        let mut held = lock(&HELD);
        if let Some(at) = held.iter().position(|(thread, folder, _)| *thread == here && *folder == self.folder) {
            // Closing alone is not enough: a process that was just forked has the file open too.
            let _ = held.swap_remove(at).2.unlock();
        }
    }
}

/// Remove a file, or an empty folder in a file's place. Returns whether nothing is there any more.
fn remove(path: &Path) -> bool {
    let removed = if path.symlink_metadata().is_ok_and(|data| data.is_dir()) {
        std::fs::remove_dir(path)
    } else {
        std::fs::remove_file(path)
    };
    removed.is_ok() || path.symlink_metadata().is_err_and(|error| is_nothing(&error))
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn checksum(bytes: &[u8]) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128(bytes).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use crate::store::{NewItem, Options, SearchRequest, Store};

    #[test]
    fn an_index_file_that_is_cut_or_written_to_while_it_is_open_ends_nothing_and_changes_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("memory.db"), Options::default()).unwrap();
        let items: Vec<NewItem> = (0..300).map(|i| NewItem::new(format!("note {i} about penguins"), 0)).collect();
        store.add("alice", &items, None).unwrap();
        let found = || {
            let hits = store.search("alice", &SearchRequest::new("note 77", 5)).unwrap();
            hits.into_iter().map(|hit| (hit.item.handle, hit.score)).collect::<Vec<_>>()
        };
        store.flush().unwrap();
        let expected = found();
        for spoil in ["cut", "empty", "overwrite"] {
            let held = store.snapshot("alice").unwrap().unwrap();
            assert!(held.ranges.iter().any(|range| range.row.is_some()), "{spoil}: nothing is read from a file");
            let files = std::fs::read_dir(folder.path().join("memory.db-index")).unwrap().flatten();
            for file in files.map(|file| file.path()).filter(|path| path.extension().is_some()) {
                let bytes = std::fs::read(&file).unwrap();
                let open = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
                match spoil {
                    "cut" => open.set_len(bytes.len() as u64 / 2).unwrap(),
                    "empty" => open.set_len(0).unwrap(),
                    _ => std::fs::write(&file, vec![b'x'; bytes.len()]).unwrap(),
                }
            }
            // Both are held: by a search under way, and by the next search.
            assert!(held.ranges.iter().all(|range| range.segment.ids().len() == 300), "{spoil}");
            assert_eq!(found(), expected, "{spoil}");
            assert_eq!(store.verify().unwrap().damaged, 1, "{spoil}");
            assert_eq!(found(), expected, "{spoil}, read again");
            store.flush().unwrap();
            assert_eq!(found(), expected, "{spoil}, built again");
            let report = store.verify().unwrap();
            assert_eq!((report.problems, report.damaged), (vec![], 0), "{spoil}");
        }
    }
}
