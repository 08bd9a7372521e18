//! From SQLite's and the operating system's errors to the core's: the file, the problem, the remedy.
use std::fs::OpenOptions;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use rusqlite::ErrorCode;

use super::files;
use crate::error::{Error, StoreProblem};

/// The failure of a piece of work with a connection: SQLite's error or our own.
pub(super) enum Failure {
    Sqlite(rusqlite::Error),
    Core(Error),
}

/// A piece of work with a connection.
pub(super) type Attempt<T> = std::result::Result<T, Failure>;

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Core(error)
    }
}

impl Failure {
    /// The error for whoever uses the store at `path`.
    pub fn at(self, path: &Path) -> Error {
        match self {
            Self::Sqlite(error) => sqlite(path, &error),
            Self::Core(error) => error,
        }
    }
}

/// An error of the store at `path`.
pub(super) fn store(path: &Path, kind: StoreProblem, problem: impl Into<String>, remedy: impl Into<String>) -> Error {
    Error::Store { kind, path: path.display().to_string(), problem: problem.into(), remedy: remedy.into() }
}

/// The error for whoever uses the store.
pub(super) fn sqlite(path: &Path, error: &rusqlite::Error) -> Error {
    let code = error.sqlite_error_code();
    if code == Some(ErrorCode::OperationInterrupted) {
        return Error::Interrupted; // nobody but our own handler interrupts it
    }
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    let (kind, remedy) = match code {
        _ if matches!(
            error,
            FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..)
        ) =>
        {
            (StoreProblem::Corrupt, "restore the file from a copy or an export")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            (StoreProblem::Busy, "let the process that holds it finish, or wait longer (busy_seconds)")
        }
        Some(ErrorCode::DiskFull) => (StoreProblem::Full, "free some space; what was stored before stays readable"),
        Some(ErrorCode::ReadOnly) => {
            (StoreProblem::ReadOnly, "open it where its file and folder may be written; reading goes on")
        }
        Some(ErrorCode::DatabaseCorrupt) => (StoreProblem::Corrupt, "restore the file from a copy or an export"),
        Some(ErrorCode::NotADatabase) => {
            (StoreProblem::NotAStore, "name a file of a store, or one that is not there yet")
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => (
            StoreProblem::Other,
            "check that the folder exists and that this user may write in it, or open it for reading only",
        ),
        Some(ErrorCode::SystemIoFailure) if has_no_room(path) => {
            (StoreProblem::Full, "free some space; what was stored before stays readable")
        }
        _ => (StoreProblem::Other, "check the disk and the file system"),
    };
    store(path, kind, error.to_string(), remedy)
}

/// A number of the file that counts something, at a column: 0 or more, and small enough that sums of it fit.
pub(super) fn count_at(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<i64> {
    count_within(row, column, i64::MAX >> 2)
}

/// The same up to a limit.
pub(super) fn count_within(row: &rusqlite::Row<'_>, column: usize, limit: i64) -> rusqlite::Result<i64> {
    let number = row.get(column)?;
    if (0..=limit).contains(&number) {
        Ok(number)
    } else {
        Err(rusqlite::Error::IntegralValueOutOfRange(column, number))
    }
}

/// A time in the file, at a column, in milliseconds since 1970: in the years 1 to 9999, which callers can show.
pub(super) fn moment_at(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<i64> {
    moment(column, row.get(column)?)
}

/// The same of a number that was read.
pub(super) fn moment(column: usize, milliseconds: i64) -> rusqlite::Result<i64> {
    if (-62_135_596_800_000..253_402_300_800_000).contains(&milliseconds) {
        Ok(milliseconds)
    } else {
        Err(rusqlite::Error::IntegralValueOutOfRange(column, milliseconds))
    }
}

/// A share of the file, at a column: 0 to 1.
pub(super) fn share_at(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<f64> {
    let share: f64 = row.get(column)?;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err(rusqlite::Error::IntegralValueOutOfRange(column, share as i64))
    }
}

/// The same for files of our own.
pub(super) fn io(path: &Path, error: &io::Error) -> Error {
    let (kind, remedy) = match error.kind() {
        kind if is_full(kind) => (StoreProblem::Full, "free some space"),
        io::ErrorKind::ReadOnlyFilesystem => (StoreProblem::ReadOnly, "open it where it may be written"),
        _ => (StoreProblem::Other, "check that the folder exists and that this user may read and write in it"),
    };
    store(path, kind, error.to_string(), remedy)
}

/// SQLite reports some writes to a full disk, and writes beyond a file's largest size, as failures of the disk. A write
/// of our own shows whether it is one of these.
fn has_no_room(path: &Path) -> bool {
    let length = |ending: &str| files::sibling(path, ending).metadata().map_or(0, |data| data.len());
    let probe = files::sibling(path, &format!("-{:016x}.probe", files::random()));
    let written = files::private(OpenOptions::new().write(true).create_new(true)).open(&probe).and_then(|mut file| {
        file.seek(SeekFrom::Start(length("").max(length("-wal"))))?;
        file.write_all(&[0; 64 << 10])?;
        file.sync_all()
    });
    let _ = std::fs::remove_file(&probe);
    written.is_err_and(|error| is_full(error.kind()))
}

fn is_full(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// Whether trying again may help.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(error, Error::Store { kind: StoreProblem::Busy, .. })
}
