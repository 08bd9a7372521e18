//! The file of a store: made if there is none, checked before SQLite opens it, and connected to.
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::files::{make_folder, private, sync_folder};
use super::{files, problem, schema};
use crate::error::{Result, StoreProblem};
use crate::interrupt::poll;

/// Instructions of SQLite's machine between two checks whether to stop: well under a millisecond.
const STEPS: std::ffi::c_int = 2_000;
/// The bytes with which every SQLite file begins.
const HEADER: &[u8] = b"SQLite format 3\0";

/// Make an empty file that only its owner may read, and its folder likewise, if they are not there.
pub(super) fn make(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    make_folder(folder).map_err(|error| problem::io(folder, &error))?;
    match private(OpenOptions::new().write(true).create_new(true)).open(path) {
        Ok(_) => sync_folder(folder).map_err(|error| problem::io(folder, &error)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(problem::io(path, &error)),
    }
}

/// The end of a journal that names another one, for several files at once (SQLite's file format, 3.2.1).
const NAMES_ANOTHER: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
const JOURNAL: &str = "-journal";

/// Check the files that SQLite uses.
///
/// # Errors
/// Things other than files, which nobody may open: opening a pipe waits.
pub(super) fn check_kinds(path: &Path) -> Result<()> {
    for ending in ["", "-wal", "-shm", JOURNAL] {
        let file = files::sibling(path, ending);
        if files::is_special(&file) {
            return Err(schema::not_a_store(&file));
        }
    }
    Ok(())
}

/// Before SQLite touches it: something else is not even opened.
///
/// SQLite also reads files next to the database. A journal may name a path, which SQLite removes when it has rolled the
/// journal back; no journal of ours names one.
pub(super) fn check_header(path: &Path, is_read_only: bool) -> Result<()> {
    let journal = files::sibling(path, JOURNAL);
    if ends_in(&journal, NAMES_ANOTHER).map_err(|error| problem::io(&journal, &error))? {
        let remedy = "remove it, or take the store from who made it again";
        let problem = "the journal of somebody else names a file that would be removed";
        return Err(problem::store(&journal, StoreProblem::NotAStore, problem, remedy));
    }
    // Its length is the number of bytes that can be read: a separate query may see that of a file that another process
    // is just making.
    let opened = OpenOptions::new().read(true).write(!is_read_only).open(path).or_else(|_| File::open(path));
    let read = opened.and_then(|file| {
        let mut header = Vec::new();
        file.take(HEADER.len() as u64).read_to_end(&mut header)?;
        Ok(header.is_empty() || header == HEADER)
    });
    if read.map_err(|error| problem::io(path, &error))? { Ok(()) } else { Err(schema::not_a_store(path)) }
}

fn ends_in(path: &Path, end: [u8; 8]) -> io::Result<bool> {
    let mut file = match File::open(path) {
        Ok(file) if file.metadata()?.len() >= end.len() as u64 => file,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => return Ok(false),
    };
    let mut found = [0; 8];
    file.seek(SeekFrom::End(-(end.len() as i64)))?;
    file.read_exact(&mut found)?;
    Ok(found == end)
}

/// Settings of every connection.
fn configure(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.progress_handler(STEPS, Some(|| poll().is_err()))?;
    connection.busy_timeout(Duration::ZERO)?; // waiting is done outside of the fork guard
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // We make none: those of a file come from somebody else, and would run with our statements.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA secure_delete = ON;
         PRAGMA cell_size_check = ON;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -16000;",
    )
}

fn is_unreachable(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | PermissionDenied | ReadOnly))
}

/// One connection to the file at `path`, and whether it is frozen: then it may not see what others write later.
pub(super) fn connect(path: &Path, is_read_only: bool) -> Result<(Connection, bool)> {
    let access = if is_read_only { OpenFlags::SQLITE_OPEN_READ_ONLY } else { OpenFlags::SQLITE_OPEN_READ_WRITE };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = |path: &Path, flags| {
        let mut connection = Connection::open_with_flags(path, flags)?;
        configure(&mut connection)?;
        Ok(connection)
    };
    let opened = match open(path, flags) {
        // If not even the files next to it can be made, nobody can write to it either, unless a log is there.
        Err(error) if is_read_only && is_unreachable(&error) && !files::has_log(path) => {
            let uri = files::immutable_uri(path);
            open(Path::new(&uri), flags | OpenFlags::SQLITE_OPEN_URI).map(|connection| (connection, true))
        }
        opened => opened.map(|connection| (connection, false)),
    };
    opened.map_err(|error| problem::sqlite(path, &error))
}
