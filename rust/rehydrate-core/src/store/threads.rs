//! Threads: append-only logs of conversations, record by record, next to the memories of their namespace.
use std::path::Path;

use rusqlite::{OptionalExtension, Row, Transaction};
use xxhash_rust::xxh3::Xxh3;

use super::facade::Store;
use super::item::{MAX_NAME_BYTES, verify_name, verify_namespace};
use super::problem::{self, Attempt, count_at, count_within, moment, moment_at};
use super::purge::note_traces;
use crate::error::{Error, Result, StoreProblem};
use crate::interrupt::{Pace, poll};

/// Made with the first thread: a store without any stays as older versions of this crate made it. A record's id is its
/// thread's number and its own in one, so a thread is in one place.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS threads (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        created INTEGER NOT NULL,
        changed INTEGER NOT NULL,
        records INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0,
        UNIQUE (namespace, name)
    );
    CREATE TABLE IF NOT EXISTS records (
        id INTEGER PRIMARY KEY,
        kind INTEGER NOT NULL,
        time REAL NOT NULL,
        hash BLOB NOT NULL,
        body BLOB NOT NULL
    );
";
/// Bits of a record's id that are its number.
const NUMBER_BITS: u32 = 31;
/// Records that a check reads at once.
const PAGE: usize = 4_096;
/// The most records of a thread.
const MAX_RECORDS: u64 = 1 << NUMBER_BITS;

/// A thread without its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadInfo {
    pub name: String,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    pub changed_ms: i64,
    pub records: u64,
    /// The bytes of their bodies.
    pub bytes: u64,
}

/// One step of a thread. Its meaning is the caller's.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub kind: u8,
    /// Seconds since 1970.
    pub time: f64,
    pub body: String,
}

impl Record {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let body = String::from_utf8(row.get(4)?).unwrap_or_default();
        let time: f64 = row.get(2)?;
        moment(2, milliseconds(time))?;
        Ok(Self { kind: row.get(1)?, time, body })
    }

    /// 128 bits by which damage shows.
    fn hash(&self, id: i64) -> [u8; 16] {
        let mut hasher = Xxh3::new();
        hasher.update(&id.to_le_bytes());
        hasher.update(&[self.kind]);
        hasher.update(&self.time.to_le_bytes());
        hasher.update(self.body.as_bytes());
        hasher.digest128().to_be_bytes()
    }
}

/// A thread's row.
struct Thread {
    id: i64,
    info: ThreadInfo,
}

impl Thread {
    const COLUMNS: &str = "id, name, created, changed, records, bytes";

    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let info = ThreadInfo {
            name: row.get(1)?,
            created_ms: moment_at(row, 2)?,
            changed_ms: moment_at(row, 3)?,
            records: count_within(row, 4, MAX_RECORDS.cast_signed())?.unsigned_abs(),
            bytes: count_at(row, 5)?.unsigned_abs(),
        };
        Ok(Self { id: count_within(row, 0, i64::MAX >> NUMBER_BITS)?, info })
    }

    fn find(transaction: &Transaction<'_>, namespace: &str, name: &str) -> Attempt<Option<Self>> {
        if !has_tables(transaction)? {
            return Ok(None);
        }
        let query = format!("SELECT {} FROM threads WHERE namespace = ?1 AND name = ?2", Self::COLUMNS);
        Ok(transaction.prepare_cached(&query)?.query_row((namespace, name), Self::of).optional()?)
    }

    fn record_id(&self, number: u64) -> i64 {
        // Added: `MAX_RECORDS` itself is the beginning of the next thread, and is not in the bits of any number.
        (self.id << NUMBER_BITS) + number.cast_signed()
    }

    /// Write records from a number on, and the row.
    fn write(mut self, transaction: &Transaction<'_>, records: &[Record], now_ms: i64) -> Attempt<ThreadInfo> {
        let mut insert = transaction
            .prepare_cached("INSERT INTO records (id, kind, time, hash, body) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for record in records {
            let id = self.record_id(self.info.records);
            insert.execute((id, record.kind, record.time, record.hash(id), record.body.as_bytes()))?;
            self.info.records += 1;
            self.info.bytes += record.body.len() as u64;
        }
        self.save(transaction, now_ms)
    }

    fn save(mut self, transaction: &Transaction<'_>, now_ms: i64) -> Attempt<ThreadInfo> {
        self.info.changed_ms = now_ms;
        let Self { id, info: ThreadInfo { records, bytes, .. } } = &self;
        transaction
            .prepare_cached("UPDATE threads SET changed = ?2, records = ?3, bytes = ?4 WHERE id = ?1")?
            .execute((id, now_ms, records.cast_signed(), bytes.cast_signed()))?;
        Ok(self.info)
    }
}

impl Store {
    /// A thread of a namespace, if there is one of that name.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn thread(&self, namespace: &str, name: &str) -> Result<Option<ThreadInfo>> {
        verify_thread(namespace, name)?;
        self.connections.read(|transaction| Ok(Thread::find(transaction, namespace, name)?.map(|thread| thread.info)))
    }

    /// All threads of a namespace, the last changed first.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn threads(&self, namespace: &str) -> Result<Vec<ThreadInfo>> {
        verify_namespace(namespace)?;
        self.connections.read(|transaction| {
            if !has_tables(transaction)? {
                return Ok(Vec::new());
            }
            let query =
                format!("SELECT {} FROM threads WHERE namespace = ?1 ORDER BY changed DESC, id DESC", Thread::COLUMNS);
            let mut statement = transaction.prepare_cached(&query)?;
            let threads = statement.query_map([namespace], |row| Ok(Thread::of(row)?.info))?;
            Ok(threads.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Append records, all of them or none, to a thread that has `expected` of them. With 0 the thread is made.
    ///
    /// # Errors
    /// [`StoreProblem::Conflict`] where the thread has another number of records: somebody else wrote. And what keeps a file
    /// from being written.
    pub fn append_records(&self, namespace: &str, name: &str, expected: u64, records: &[Record]) -> Result<ThreadInfo> {
        verify_thread(namespace, name)?;
        verify_times(records)?;
        let now_ms = (self.options.clock)();
        self.connections.write(|transaction| {
            let found = Thread::find(transaction, namespace, name)?;
            let thread = match found {
                None if expected == 0 => make(transaction, namespace, name, now_ms)?,
                found => self.unchanged(found, name, expected)?,
            };
            self.append(transaction, thread, records, now_ms)
        })
    }

    fn append(
        &self,
        transaction: &Transaction<'_>,
        thread: Thread,
        records: &[Record],
        now_ms: i64,
    ) -> Attempt<ThreadInfo> {
        if thread.info.records + records.len() as u64 > MAX_RECORDS {
            let problem = format!("thread {:?} has as many records as one may have, {MAX_RECORDS}", thread.info.name);
            return Err(problem::store(self.path(), StoreProblem::Full, problem, "go on in a new thread").into());
        }
        thread.write(transaction, records, now_ms)
    }

    /// Damage in the records of all threads.
    pub(super) fn damaged_threads(&self) -> Result<Vec<String>> {
        let names = self.connections.read(|transaction| {
            if !has_tables(transaction)? {
                return Ok(Vec::new());
            }
            let mut statement = transaction.prepare("SELECT namespace, name FROM threads ORDER BY id")?;
            let names = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(names.collect::<rusqlite::Result<Vec<(String, String)>>>()?)
        })?;
        let mut problems = Vec::new();
        for (namespace, name) in names {
            let mut from = 0;
            loop {
                poll()?;
                match self.records(&namespace, &name, from, PAGE) {
                    Ok(page) if page.len() == PAGE => from += PAGE as u64,
                    Ok(_) => break,
                    Err(Error::Store { kind: StoreProblem::Corrupt, problem, .. }) => {
                        problems.push(format!("namespace {namespace:?}: {problem}"));
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(problems)
    }

    /// At most `limit` records of a thread from a number on, in their order.
    ///
    /// # Errors
    /// [`StoreProblem::Corrupt`] for a record that is missing or not as it was written, and a file that cannot be read.
    pub fn records(&self, namespace: &str, name: &str, from: u64, limit: usize) -> Result<Vec<Record>> {
        verify_thread(namespace, name)?;
        self.connections.read(|transaction| {
            let Some(thread) = Thread::find(transaction, namespace, name)? else { return Ok(Vec::new()) };
            self.read_records(transaction, &thread, from, thread.info.records.min(from.saturating_add(limit as u64)))
        })
    }

    fn read_records(&self, transaction: &Transaction<'_>, thread: &Thread, from: u64, to: u64) -> Attempt<Vec<Record>> {
        let mut statement = transaction
            .prepare_cached("SELECT id, kind, time, hash, body FROM records WHERE id >= ?1 AND id < ?2 ORDER BY id")?;
        let mut rows = statement.query((thread.record_id(from.min(to)), thread.record_id(to)))?;
        let mut records = Vec::new();
        let mut pace = Pace::default();
        while let Some(row) = rows.next()? {
            pace.step_by(1);
            let number = from + records.len() as u64;
            // A column of another type is damage too.
            match (row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(3), Record::of(row)) {
                (id, Ok(hash), Ok(record)) if id == thread.record_id(number) && hash == record.hash(id) => {
                    records.push(record);
                }
                _ => return Err(self.damaged(&thread.info.name, number).into()),
            }
        }
        let number = from + records.len() as u64;
        if number < to { Err(self.damaged(&thread.info.name, number).into()) } else { Ok(records) }
    }

    /// Put other bodies in place of some records, for texts that must not stay in them, and append records. No byte of
    /// the old bodies stays in any file, nor of those that an earlier call replaced before it was cut off.
    ///
    /// # Errors
    /// As [`Store::append_records`]; numbers that the thread doesn't have.
    pub fn replace_records(
        &self,
        namespace: &str,
        name: &str,
        expected: u64,
        bodies: &[(u64, String)],
        added: &[Record],
    ) -> Result<()> {
        verify_thread(namespace, name)?;
        verify_times(added)?;
        let now_ms = (self.options.clock)();
        self.connections.write(|transaction| {
            let found = Thread::find(transaction, namespace, name)?;
            let mut thread = self.unchanged(found, name, expected)?;
            for (number, body) in bodies {
                let Some(mut record) =
                    self.read_records(transaction, &thread, *number, expected.min(number + 1))?.pop()
                else {
                    return Err(Error::Argument(format!(
                        "thread {name:?} has no record {number}; name one below {expected}"
                    ))
                    .into());
                };
                thread.info.bytes = thread.info.bytes.saturating_sub(record.body.len() as u64) + body.len() as u64;
                record.body.clone_from(body);
                let id = thread.record_id(*number);
                transaction.prepare_cached("UPDATE records SET hash = ?2, body = ?3 WHERE id = ?1")?.execute((
                    id,
                    record.hash(id),
                    body.as_bytes(),
                ))?;
            }
            if bodies.is_empty() && added.is_empty() {
                return Ok(());
            }
            if !bodies.is_empty() {
                note_traces(transaction)?;
            }
            self.append(transaction, thread, added, now_ms).map(drop)
        })?;
        self.erase_traces()
    }

    /// Delete a thread, and leave no byte of it in any file. Returns the number of its records.
    ///
    /// # Errors
    /// As [`Store::purge`].
    pub fn purge_thread(&self, namespace: &str, name: &str) -> Result<u64> {
        verify_thread(namespace, name)?;
        let purged = self.connections.write(|transaction| {
            let Some(thread) = Thread::find(transaction, namespace, name)? else { return Ok(0) };
            delete(transaction, &thread)?;
            note_traces(transaction)?;
            Ok(thread.info.records)
        })?;
        self.erase_traces()?;
        Ok(purged)
    }

    /// The thread, if it has the records that the caller read.
    fn unchanged(&self, found: Option<Thread>, name: &str, expected: u64) -> Result<Thread> {
        match found {
            Some(thread) if thread.info.records == expected => Ok(thread),
            found => Err(thread_conflict(self.path(), name, expected, found.map(|thread| thread.info.records))),
        }
    }

    fn damaged(&self, name: &str, number: u64) -> Error {
        problem::store(
            self.path(),
            StoreProblem::Corrupt,
            format!("record {number} of thread {name:?} is not as it was written"),
            "restore the file from a copy or an export",
        )
    }
}

/// Delete all threads of a namespace; how many there were.
pub(super) fn delete_all(transaction: &Transaction<'_>, namespace: &str) -> Attempt<usize> {
    if !has_tables(transaction)? {
        return Ok(0);
    }
    let query = format!("SELECT {} FROM threads WHERE namespace = ?1", Thread::COLUMNS);
    let threads: Vec<Thread> =
        transaction.prepare_cached(&query)?.query_map([namespace], Thread::of)?.collect::<rusqlite::Result<_>>()?;
    threads.iter().try_for_each(|thread| delete(transaction, thread))?;
    Ok(threads.len())
}

fn delete(transaction: &Transaction<'_>, thread: &Thread) -> Attempt<()> {
    let (first, end) = (thread.record_id(0), thread.record_id(MAX_RECORDS));
    transaction.execute("DELETE FROM records WHERE id >= ?1 AND id < ?2", (first, end))?;
    transaction.execute("DELETE FROM threads WHERE id = ?1", [thread.id])?;
    Ok(())
}

fn make(transaction: &Transaction<'_>, namespace: &str, name: &str, now_ms: i64) -> Attempt<Thread> {
    if !has_tables(transaction)? {
        transaction.execute_batch(TABLES)?;
    }
    transaction
        .prepare_cached("INSERT INTO threads (namespace, name, created, changed) VALUES (?1, ?2, ?3, ?3)")?
        .execute((namespace, name, now_ms))?;
    Thread::find(transaction, namespace, name)?.ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
}

fn has_tables(transaction: &Transaction<'_>) -> Attempt<bool> {
    let query = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'threads'";
    Ok(transaction.prepare_cached(query)?.query_row([], |row| row.get::<_, i64>(0))? > 0)
}

/// The error for a thread that has another number of records than the caller read. None: it is not there.
#[must_use]
pub fn thread_conflict(path: &Path, name: &str, expected: u64, has: Option<u64>) -> Error {
    let (problem, remedy) = match (expected, has) {
        (0, Some(_)) => (format!("there is a thread {name:?} already"), "open that one, or take another name"),
        (_, None) => (format!("thread {name:?} is not there any more"), "open it again"),
        (_, Some(has)) => (
            format!("thread {name:?} has {has} records, not the {expected} that were read: others wrote to it"),
            "open it again; nothing of this call was written",
        ),
    };
    problem::store(path, StoreProblem::Conflict, problem, remedy)
}

fn verify_thread(namespace: &str, name: &str) -> Result<()> {
    verify_namespace(namespace)?;
    if name.is_empty() {
        return Err(Error::Argument("thread is empty; name the conversation that is meant".into()));
    }
    verify_name("thread", name, MAX_NAME_BYTES)
}

fn verify_times(records: &[Record]) -> Result<()> {
    records.iter().try_for_each(|record| verify_time(record.time))
}

/// Refuse the time of a record that no reader could show.
///
/// # Errors
/// Any but seconds since 1970, within the years 1 to 9999.
pub fn verify_time(time: f64) -> Result<()> {
    if time.is_finite() && moment(2, milliseconds(time)).is_ok() {
        return Ok(());
    }
    let remedy = "pass seconds since 1970, within the years 1 to 9999 of UTC";
    Err(Error::Argument(format!("a record's time is {time:?}; {remedy}")))
}

fn milliseconds(time: f64) -> i64 {
    (time * 1e3) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Options;

    fn record(body: &str) -> Record {
        Record { kind: 1, time: 0.25, body: body.into() }
    }

    #[test]
    fn records_are_appended_in_order_by_one_writer_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db"), Options::default()).unwrap();
        assert!(store.threads("alice").unwrap().is_empty() && store.records("alice", "t", 0, 9).unwrap().is_empty());
        let first = [record("a"), record("b")];
        assert_eq!(store.append_records("alice", "t", 0, &first).unwrap().records, 2);
        for expected in [0, 1, 3] {
            let refused = store.append_records("alice", "t", expected, &[record("x")]).unwrap_err();
            assert!(matches!(refused, Error::Store { kind: StoreProblem::Conflict, .. }), "{refused}");
        }
        assert_eq!(store.append_records("alice", "t", 2, &[record("c")]).unwrap().bytes, 3);
        store.append_records("bob", "t", 0, &[record("bob's")]).unwrap();
        let bodies = |from, limit| -> Vec<String> {
            store.records("alice", "t", from, limit).unwrap().into_iter().map(|record| record.body).collect()
        };
        assert_eq!(
            (bodies(0, 9), bodies(1, 1), bodies(7, 2)),
            (vec!["a".into(), "b".into(), "c".into()], vec!["b".into()], vec![])
        );
        assert_eq!(store.threads("alice").unwrap()[0].records, 3);
        assert_eq!(store.purge_thread("alice", "t").unwrap(), 3);
        assert!(store.thread("alice", "t").unwrap().is_none() && store.thread("bob", "t").unwrap().is_some());
    }

    #[test]
    fn what_is_replaced_or_purged_leaves_no_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let store = Store::open(&path, Options::default()).unwrap();
        let secret = "hunter2-and-more".repeat(300);
        store.append_records("alice", "t", 0, &[record("a"), record(&secret), record("c")]).unwrap();
        store.replace_records("alice", "t", 3, &[(1, "[gone]".into())], &[]).unwrap();
        assert_eq!(store.records("alice", "t", 1, 1).unwrap(), [record("[gone]")]);
        // Both an even and an odd id: a range that ends at the next thread's id has a different sum for each.
        for thread in ["u", "v", "w"] {
            store.append_records("alice", thread, 0, &[record(&secret)]).unwrap();
        }
        for thread in ["u", "v", "w"] {
            store.purge_thread("alice", thread).unwrap();
        }
        assert_eq!(store.records("alice", "t", 0, 9).unwrap().len(), 3);
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap_or_default();
            assert!(!bytes.windows(7).any(|window| window == b"hunter2"));
        }
    }

    #[test]
    fn damage_is_reported_and_never_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let store = Store::open(&path, Options::default()).unwrap();
        store.append_records("alice", "t", 0, &[record("a"), record("b"), record("c")]).unwrap();
        store.close().unwrap();
        let edit = rusqlite::Connection::open(&path).unwrap();
        edit.execute("UPDATE records SET body = x'78' WHERE body = x'62'", []).unwrap();
        drop(edit);
        let store = Store::open(&path, Options::default()).unwrap();
        let refused = store.records("alice", "t", 0, 9).unwrap_err();
        assert!(
            matches!(refused, Error::Store { kind: StoreProblem::Corrupt, .. })
                && refused.to_string().contains("record 1")
        );
        assert_eq!(store.records("alice", "t", 2, 9).unwrap(), [record("c")]);
        let problems = store.verify().unwrap().problems;
        assert_eq!(problems, [r#"namespace "alice": record 1 of thread "t" is not as it was written"#]);
    }

    #[test]
    fn a_time_that_could_not_be_read_again_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db"), Options::default()).unwrap();
        for time in [1e300, -1e300, f64::NAN, f64::INFINITY, 253_402_300_800.0] {
            let refused = store.append_records("alice", "t", 0, &[Record { time, ..record("a") }]).unwrap_err();
            assert!(refused.to_string().contains("years 1 to 9999"), "{refused}");
        }
        assert!(store.thread("alice", "t").unwrap().is_none());
    }

    #[test]
    fn what_is_replaced_and_what_is_added_are_one_change() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db"), Options::default()).unwrap();
        store.append_records("alice", "t", 0, &[record("a"), record("b")]).unwrap();
        store.replace_records("alice", "t", 2, &[(0, "x".into())], &[record("c")]).unwrap();
        assert_eq!(store.records("alice", "t", 0, 9).unwrap(), [record("x"), record("b"), record("c")]);
        store.replace_records("alice", "t", 3, &[(0, "y".into()), (9, "y".into())], &[record("d")]).unwrap_err();
        assert_eq!(store.records("alice", "t", 0, 9).unwrap(), [record("x"), record("b"), record("c")]);
    }
}
