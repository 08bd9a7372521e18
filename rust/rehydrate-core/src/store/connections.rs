//! Connections to the file: one that writes, a few that read, and their patience with others.
//!
//! A signal handler runs on a thread that may be in the middle of a call here ([`poll`]). Its calls must not wait for
//! that thread: closing is left to the call under way, and a write during a write is refused.
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::database_file::{check_header, check_kinds, connect};
use super::files::Identity;
use super::patience::{LONGEST_PAUSE, Patience, lock, try_lock};
use super::problem::{self, Attempt};
use super::{database_file, schema, use_count};
use crate::error::{Result, StoreProblem};
use crate::interrupt::poll;

/// Readers that are kept for the next call.
const IDLE_READERS: usize = 8;

/// The connections of one store.
pub(super) struct Connections {
    pub path: PathBuf,
    pub is_read_only: bool,
    /// The file that was opened. Another one under its name is another store.
    identity: Identity,
    pub busy: Duration,
    is_closed: AtomicBool,
    writer: Mutex<Option<Connection>>,
    readers: Mutex<Vec<Connection>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

thread_local! {
    /// This thread's calls under way: their connections, by address, and how it uses them.
    static USES: RefCell<Vec<(usize, Use)>> = const { RefCell::new(Vec::new()) };
}

/// A call that is under way, inside the fork guard. The last call to leave closed connections drops them.
struct Using<'a> {
    of: &'a Connections,
    _inside: use_count::Inside,
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        USES.with_borrow_mut(Vec::pop);
        if self.of.is_closed() && !self.of.is_used_here() {
            self.of.release();
        }
    }
}

impl Connections {
    /// Open the file, and make it if there is none.
    pub fn open(path: PathBuf, is_read_only: bool, busy: Duration) -> Result<Arc<Self>> {
        let inside = use_count::enter(&path)?;
        let connections = register(|others| {
            if !is_read_only {
                database_file::make(&path)?;
            }
            let identify = || Identity::of(&path).map_err(|error| problem::io(&path, &error));
            let before = identify()?;
            check_kinds(&path)?;
            // Closing a file releases the locks that SQLite has on it, in the whole process (POSIX). So it is only read
            // here while there is no connection.
            if !others.iter().any(|other| other.identity == before) {
                check_header(&path, is_read_only)?;
            }
            // A container's file system makes another file of one that is opened for writing.
            let identity = identify()?;
            let (is_closed, writer, readers) = (AtomicBool::new(false), Mutex::default(), Mutex::default());
            Ok(Self { path, is_read_only, identity, busy, is_closed, writer, readers })
        })?;
        drop(inside);
        let mut is_new = connections.read(|transaction| schema::is_new(transaction, &connections.path))?;
        if is_new && is_read_only {
            return Err(schema::not_a_store(&connections.path));
        }
        while is_new {
            connections.enter_log_mode()?;
            connections.write(|transaction| schema::create(transaction, &connections.path))?;
            is_new = connections.read(|transaction| schema::is_new(transaction, &connections.path))?;
        }
        Ok(connections)
    }

    fn using(&self, how: Use) -> Result<Using<'_>> {
        let inside = use_count::enter(&self.path)?;
        USES.with_borrow_mut(|uses| uses.push((self.address(), how)));
        Ok(Using { of: self, _inside: inside })
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether this thread is in the middle of a call.
    pub fn is_used_here(&self) -> bool {
        USES.with_borrow(|uses| uses.iter().any(|&(address, _)| address == self.address()))
    }

    /// Everything that `work` does, or nothing. No other connection writes meanwhile.
    pub fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Attempt<T>) -> Result<T> {
        self.write_within(self.busy, work)
    }

    /// The same with a patience of its own.
    pub fn write_within<T>(&self, busy: Duration, work: impl FnOnce(&Transaction<'_>) -> Attempt<T>) -> Result<T> {
        self.check_reentry()?;
        if self.is_read_only {
            return Err(problem::store(
                &self.path,
                StoreProblem::ReadOnly,
                "the store was opened for reading",
                "open it without read_only",
            ));
        }
        let mut patience = Patience::new(&self.path, busy);
        loop {
            {
                let _using = self.using(Use::Write)?;
                self.check_open()?;
                if let Some(mut writer) = try_lock(&self.writer) {
                    self.check_open()?; // closing waits for the lock
                    let begun = self.connected(&mut writer).and_then(|writer| {
                        let begun = writer.transaction_with_behavior(TransactionBehavior::Immediate);
                        begun.map_err(|error| problem::sqlite(&self.path, &error))
                    });
                    match begun {
                        Ok(transaction) => {
                            let done = work(&transaction).map_err(|failure| failure.at(&self.path))?;
                            transaction.commit().map_err(|error| problem::sqlite(&self.path, &error))?;
                            self.check_same_file()?;
                            return Ok(done);
                        }
                        Err(error) => patience.excuse(error)?,
                    }
                }
            }
            patience.wait()?;
        }
    }

    /// The result of `work` on one state of the file. It may be called again.
    pub fn read<T>(&self, work: impl Fn(&Transaction<'_>) -> Attempt<T>) -> Result<T> {
        let mut patience = Patience::new(&self.path, self.busy);
        loop {
            {
                let _using = self.using(Use::Read)?;
                self.check_open()?;
                match self.read_once(&work) {
                    Ok(found) => return Ok(found),
                    Err(error) => patience.excuse(error)?,
                }
            }
            patience.wait()?;
        }
    }

    fn read_once<T>(&self, work: &impl Fn(&Transaction<'_>) -> Attempt<T>) -> Result<T> {
        let idle = lock(&self.readers).pop();
        let (mut connection, is_frozen) = match idle {
            Some(connection) => (connection, false),
            None => connect(&self.path, self.is_read_only)?,
        };
        let found = {
            let transaction = connection.transaction().map_err(|error| problem::sqlite(&self.path, &error))?;
            work(&transaction).map_err(|failure| failure.at(&self.path))
        };
        // A connection that met trouble is not used again.
        let mut readers = lock(&self.readers);
        if found.is_ok() && !is_frozen && readers.len() < IDLE_READERS && !self.is_closed() {
            readers.push(connection);
        }
        found
    }

    /// Copy the log into the file and empty it, which is possible between others' reads.
    pub fn checkpoint(&self) -> Result<()> {
        self.alone(|writer| {
            let is_blocked: bool = writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
            Ok((!is_blocked).then_some(()))
        })
    }

    /// Write the whole file again: SQLite clears deleted bytes, but not bytes that it moved within the file before.
    pub fn rewrite(&self) -> Result<()> {
        self.alone(|writer| {
            writer.execute_batch("PRAGMA temp_store = FILE")?;
            let rewritten = writer.execute_batch("VACUUM");
            writer.execute_batch("PRAGMA temp_store = MEMORY")?;
            rewritten.map(Some)
        })
    }

    /// Work of the writing connection that isn't a transaction. None is tried again.
    fn alone<T>(&self, work: impl Fn(&Connection) -> rusqlite::Result<Option<T>>) -> Result<T> {
        self.check_reentry()?;
        let mut patience = Patience::new(&self.path, self.busy);
        loop {
            {
                let _using = self.using(Use::Write)?;
                self.check_open()?;
                if let Some(mut writer) = try_lock(&self.writer) {
                    self.check_open()?;
                    let done = self
                        .connected(&mut writer)
                        .and_then(|writer| work(writer).map_err(|error| problem::sqlite(&self.path, &error)));
                    match done {
                        Ok(Some(done)) => return Ok(done),
                        Ok(None) => {}
                        Err(error) => patience.excuse(error)?,
                    }
                }
            }
            patience.wait()?;
        }
    }

    fn connected<'a>(&self, slot: &'a mut Option<Connection>) -> Result<&'a mut Connection> {
        Ok(match slot.take() {
            Some(connection) => slot.insert(connection),
            None => slot.insert(connect(&self.path, self.is_read_only)?.0),
        })
    }

    /// Close every connection; the next call opens one. False if one is in use.
    pub fn close_idle(&self) -> bool {
        let (Some(mut readers), Some(mut writer)) = (try_lock(&self.readers), try_lock(&self.writer)) else {
            return false;
        };
        readers.clear();
        writer.take();
        true
    }

    /// Close every connection for good, after a write that is under way. The log is copied into the file if nobody is
    /// in the way. If a signal handler calls it during a call of the same thread, that call ends first, and then
    /// closes.
    pub fn close(&self) -> Result<()> {
        self.is_closed.store(true, Ordering::SeqCst);
        while !self.is_used_here() && !self.try_close()? {
            std::thread::sleep(LONGEST_PAUSE);
            poll()?;
        }
        Ok(())
    }

    /// The same without waiting for a write, whose end then closes: false.
    pub fn try_close(&self) -> Result<bool> {
        self.is_closed.store(true, Ordering::SeqCst);
        let _inside = use_count::enter(&self.path)?;
        Ok(self.release())
    }

    fn release(&self) -> bool {
        if !use_count::is_home() {
            return true; // a child copied during a call: see `drop`
        }
        let Some(mut writer) = try_lock(&self.writer) else { return false };
        lock(&self.readers).clear();
        if let Some(writer) = writer.take() {
            let _ = writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
        true
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// A signal handler during a write would wait for the thread that it runs on.
    fn check_reentry(&self) -> Result<()> {
        if !USES.with_borrow(|uses| uses.contains(&(self.address(), Use::Write))) {
            return Ok(());
        }
        Err(problem::store(
            &self.path,
            StoreProblem::Busy,
            "a signal handler wants to write while the thread that it runs on is writing",
            "set a flag in the handler, and write when the call has returned",
        ))
    }

    fn check_open(&self) -> Result<()> {
        if self.is_closed() {
            return Err(problem::store(&self.path, StoreProblem::Closed, "the store was closed", "open it again"));
        }
        self.check_same_file()
    }

    fn check_same_file(&self) -> Result<()> {
        // SQLite would go on with a file that no longer has a name: its content is gone when it is closed.
        if Identity::of(&self.path).is_ok_and(|now| now == self.identity) {
            return Ok(());
        }
        Err(problem::store(
            &self.path,
            StoreProblem::Other,
            "the file was removed, or another one put in its place, since it was opened",
            "close the store and open it again",
        ))
    }

    /// A write-ahead log lets readers and a writer work at the same time. The file remembers it.
    fn enter_log_mode(&self) -> Result<()> {
        let mut patience = Patience::new(&self.path, self.busy);
        loop {
            {
                let _inside = use_count::enter(&self.path)?;
                let mode = connect(&self.path, self.is_read_only).and_then(|(connection, _)| {
                    let mode = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get::<_, String>(0));
                    mode.map_err(|error| problem::sqlite(&self.path, &error))
                });
                match mode {
                    Ok(mode) if mode == "wal" => return Ok(()),
                    Ok(mode) => {
                        return Err(problem::store(
                            &self.path,
                            StoreProblem::Other,
                            format!("this file system allows the journal mode {mode} only, not WAL"),
                            "put the store on a local disk",
                        ));
                    }
                    Err(error) => patience.excuse(error)?,
                }
            }
            patience.wait()?;
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        if !use_count::is_home() {
            // SQLite in a child that was copied during its work may wait forever, or take the parent's log away.
            std::mem::forget(std::mem::take(self.readers.get_mut().unwrap_or_else(PoisonError::into_inner)));
            std::mem::forget(self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// All open stores. It is only locked inside or during a fork, so never by a thread that a child lacks.
static OPEN: Mutex<Vec<Weak<Connections>>> = Mutex::new(Vec::new());

/// Make an object with connections, and have them closed before a fork. `make` gets all objects that are there already,
/// one call at a time. Called inside the guard.
fn register(make: impl FnOnce(&[Arc<Connections>]) -> Result<Connections>) -> Result<Arc<Connections>> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|other| other.strong_count() > 0);
    let others: Vec<Arc<Connections>> = open.iter().filter_map(Weak::upgrade).collect();
    let made = Arc::new(make(&others)?);
    open.push(Arc::downgrade(&made));
    Ok(made)
}

/// Close every connection; false if one is in use.
pub(super) fn close_all() -> bool {
    let open = match OPEN.try_lock() {
        Ok(open) => open,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return false,
    };
    open.iter().filter_map(Weak::upgrade).all(|connections| connections.close_idle())
}
