//! Index files: written whole, checked whole when opened, and dispensable.
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use memmap2::Mmap;
use rusqlite::Transaction;

use super::namespace::Namespace;
use super::{files, random};
use crate::index::{Bytes, Segment};

/// Files beyond this are mapped into memory: processes share them, and what is seldom looked at may leave it. Smaller ones
/// are read: whatever happens to them later does not matter.
const MAPPED_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 64 << 20 };
/// Beside the store's file.
const FOLDER: &str = "-index";
const ENDING: &str = ".segment";
const LOCK: &str = "lock";

/// What the table says of an index file, which holds the items whose rev is in `(low, high]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub low: i64,
    pub high: i64,
    pub file: String,
    pub checksum: [u8; 16],
    pub bytes: i64,
    pub items: i64,
}

/// The index files of a namespace, oldest first.
pub(super) fn rows(transaction: &Transaction<'_>, namespace: i64) -> rusqlite::Result<Vec<Row>> {
    let query = "SELECT low, high, file, checksum, bytes, items FROM segments WHERE namespace = ?1 ORDER BY high";
    let row = |row: &rusqlite::Row<'_>| {
        let (low, high, file) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Row { low, high, file, checksum: row.get(3)?, bytes: row.get(4)?, items: row.get(5)? })
    };
    transaction.prepare_cached(query)?.query_map([namespace], row)?.collect()
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
    let insert =
        "INSERT INTO segments (namespace, low, high, file, checksum, bytes, items) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let Row { low, high, file, checksum, bytes, items } = row;
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

/// A file in memory. To read what somebody cut off it ends the process (SIGBUS), so whoever reads asks first.
pub(super) struct Mapped {
    map: Mmap,
    file: File,
    modified: SystemTime,
}

impl Mapped {
    fn new(file: File) -> io::Result<Self> {
        let modified = file.metadata()?.modified()?;
        // SAFETY: the file is ours alone (mode 0600) and never written to after it was given its name: it is replaced by
        // files of other names, and removing it leaves what is mapped as it is. Strangers may still write to it: see
        // `is_untouched`.
        let map = unsafe { Mmap::map(&file) }?;
        Ok(Self { map, file, modified })
    }

    /// Whether nobody wrote to the file or cut it since it was opened. Who does so amid a search is not noticed.
    pub fn is_untouched(&self) -> bool {
        let is_same = |data: std::fs::Metadata| {
            data.len() == self.map.len() as u64 && data.modified().is_ok_and(|modified| modified == self.modified)
        };
        self.file.metadata().is_ok_and(is_same)
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

/// The folder of a store's index files.
#[derive(Debug, Clone)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub fn of(store: &Path) -> Self {
        Self(files::beside(store, FOLDER))
    }

    /// The segment in a file, and the map that it lies in, if it does; None where it is missing, damaged, or another one than
    /// the table means.
    pub fn open(&self, row: &Row) -> Option<(Segment, Option<Arc<Mapped>>)> {
        // Names in the table are ours, but a table can be damaged too.
        let is_plain = row.file.strip_suffix(ENDING)?.bytes().all(|byte| byte.is_ascii_hexdigit());
        let path = self.0.join(&row.file);
        // Opening a pipe would wait for somebody who writes to it.
        let data = path.symlink_metadata().ok().filter(|data| is_plain && data.is_file())?;
        let length = data.len();
        if length != u64::try_from(row.bytes).ok()? {
            return None;
        }
        let mut file = File::open(path).ok()?;
        let (bytes, mapped): (Bytes, _) = if length > MAPPED_BYTES {
            let mapped = Arc::new(Mapped::new(file).ok()?);
            (Arc::clone(&mapped) as Bytes, Some(mapped))
        } else {
            let mut bytes = Vec::with_capacity(usize::try_from(length).ok()?);
            file.read_to_end(&mut bytes).ok()?;
            (Arc::new(bytes), None)
        };
        if checksum((*bytes).as_ref()) != row.checksum {
            return None;
        }
        Some((Segment::open(bytes).ok()?, mapped))
    }

    /// Write a new file: its name and checksum.
    pub fn write(&self, bytes: &[u8]) -> io::Result<(String, [u8; 16])> {
        self.write_once(bytes).or_else(|error| {
            if error.kind() != io::ErrorKind::PermissionDenied {
                return Err(error);
            }
            self.mend();
            self.write_once(bytes)
        })
    }

    fn write_once(&self, bytes: &[u8]) -> io::Result<(String, [u8; 16])> {
        files::make_folder(&self.0)?;
        let name = format!("{:016x}{:016x}{ENDING}", random(), random());
        let path = self.0.join(&name);
        let written = files::private(OpenOptions::new().write(true).create_new(true))
            .open(&path)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| files::sync_folder(&self.0));
        if written.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        written.map(|()| (name, checksum(bytes)))
    }

    /// Remove files that are not current any more. Who has one open keeps it.
    pub fn remove<'a>(&self, names: impl IntoIterator<Item = &'a String>) {
        for name in names {
            take_away(&self.0.join(name));
        }
    }

    /// Remove what no table names: left by a process that ended amid its work. Only under [`Folder::lock`].
    pub fn sweep(&self, is_current: impl Fn(&str) -> bool) {
        let Ok(entries) = std::fs::read_dir(&self.0) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.ends_with(ENDING) && !is_current(name)) {
                take_away(&entry.path());
            }
        }
    }

    fn lock_file(&self) -> io::Result<File> {
        files::make_folder(&self.0)?;
        files::private(OpenOptions::new().write(true).create(true).truncate(false)).open(self.0.join(LOCK))
    }

    /// Take away what stands in the folder's place and in the lock's, and let their owner use them: by their names they are
    /// ours, and hold nothing that cannot be made again.
    fn mend(&self) {
        if self.0.is_dir() {
            files::allow_owner(&self.0);
            files::allow_owner(&self.0.join(LOCK));
        } else {
            take_away(&self.0);
        }
        if !self.0.join(LOCK).is_file() {
            take_away(&self.0.join(LOCK));
        }
    }

    /// Have no other process build at the same time; None where one does.
    pub fn lock(&self) -> io::Result<Option<Lock>> {
        let file = self.lock_file().or_else(|_| {
            self.mend();
            self.lock_file()
        })?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Held while index files are built.
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Not by closing alone: a process forked meanwhile has the file open too.
        let _ = self.0.unlock();
    }
}

/// Remove a file, or a folder that stands in a file's place.
fn take_away(path: &Path) {
    if path.symlink_metadata().is_ok_and(|data| data.is_dir()) {
        let _ = std::fs::remove_dir_all(path);
    } else {
        let _ = std::fs::remove_file(path);
    }
}

fn checksum(bytes: &[u8]) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128(bytes).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use crate::store::{NewItem, Options, SearchRequest, Store};

    #[test]
    fn a_mapped_file_that_is_cut_or_written_to_is_not_looked_into_any_more() {
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
            let shelf = store.shelf("alice").unwrap().unwrap();
            assert!(shelf.parts.iter().any(|part| part.mapped.is_some()), "{spoil}: no file is mapped");
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
            assert_eq!(found(), expected, "{spoil}");
            store.flush().unwrap();
            assert_eq!(found(), expected, "{spoil}, built again");
            let report = store.verify().unwrap();
            assert_eq!((report.problems, report.damaged), (vec![], 0), "{spoil}");
        }
    }
}
