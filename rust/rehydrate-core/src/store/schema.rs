//! The tables of a store's file, and which files are stores.
//!
//! Every write to an item takes the next `rev` of the one clock, in the same transaction. The changes since a state are
//! the items with a greater rev. An item's id is its first rev, so it is never given twice.
use std::path::Path;

use rusqlite::Transaction;

use super::problem::{self, Attempt};
use crate::error::{Error, StoreProblem};

/// "RHYD": the kind of SQLite file.
const APPLICATION: i32 = 0x5248_5944;
/// Raised if an older version of this crate could not read the file, or would damage it.
const VERSION: i32 = 1;

/// The tables. The column `items.session` has the number of the item's thread: files keep its first name.
const TABLES: &str = "
    -- `traces` is positive while deleted texts may lie in unused parts of the file; see `note_traces`.
    CREATE TABLE clock (rev INTEGER NOT NULL, traces INTEGER NOT NULL DEFAULT 0);
    INSERT INTO clock (rev) VALUES (0);

    -- `rev` is the last write in it, `generation` counts changes of its segments.
    CREATE TABLE namespaces (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        rev INTEGER NOT NULL DEFAULT 0,
        generation INTEGER NOT NULL DEFAULT 0,
        items INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0,
        demoted INTEGER NOT NULL DEFAULT 0,
        dropped INTEGER NOT NULL DEFAULT 0,
        -- When ages were last looked at.
        aged INTEGER NOT NULL DEFAULT 0,
        -- Up to which rev tombstones are gone, because no index holds what they are about.
        pruned INTEGER NOT NULL DEFAULT 0,
        space TEXT,
        dim INTEGER NOT NULL DEFAULT 0
    );

    -- Sources, kinds, threads, tools and principals by number.
    CREATE TABLE names (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        namespace INTEGER NOT NULL,
        role INTEGER NOT NULL,
        name TEXT NOT NULL,
        UNIQUE (namespace, role, name)
    );

    CREATE TABLE items (
        id INTEGER PRIMARY KEY,
        namespace INTEGER NOT NULL,
        rev INTEGER NOT NULL,
        handle BLOB NOT NULL,
        tier INTEGER NOT NULL,
        source INTEGER NOT NULL,
        kind INTEGER NOT NULL,
        session INTEGER NOT NULL,
        tool INTEGER NOT NULL,
        principal INTEGER NOT NULL,
        trust REAL NOT NULL,
        confidence REAL NOT NULL,
        time INTEGER NOT NULL,
        created INTEGER NOT NULL,
        expires INTEGER,
        uses INTEGER NOT NULL DEFAULT 0,
        used INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX items_by_handle ON items (namespace, handle);
    CREATE UNIQUE INDEX items_by_rev ON items (namespace, rev);
    CREATE INDEX items_by_age ON items (namespace, id);
    CREATE INDEX items_that_expire ON items (namespace, expires) WHERE expires IS NOT NULL;
    -- Few of many, and asked for in every turn.
    CREATE INDEX items_that_are_hot ON items (namespace, id) WHERE tier = 0;

    -- Apart from the items, so that a new tier does not write a text again.
    CREATE TABLE bodies (
        id INTEGER PRIMARY KEY,
        parents BLOB,
        meta TEXT,
        redactions TEXT,
        vector BLOB,
        text BLOB NOT NULL
    );

    CREATE TABLE links (
        source INTEGER NOT NULL,
        relation TEXT NOT NULL,
        target INTEGER NOT NULL,
        PRIMARY KEY (source, relation, target)
    ) WITHOUT ROWID;
    CREATE INDEX links_by_target ON links (target);

    -- Items that were deleted, for indexes that still hold them.
    CREATE TABLE tombstones (
        namespace INTEGER NOT NULL,
        rev INTEGER NOT NULL,
        id INTEGER NOT NULL,
        PRIMARY KEY (namespace, rev)
    ) WITHOUT ROWID;

    -- The index files that are current: each holds the items whose rev is in (low, high].
    CREATE TABLE segments (
        namespace INTEGER NOT NULL,
        low INTEGER NOT NULL,
        high INTEGER NOT NULL,
        file TEXT NOT NULL UNIQUE,
        checksum BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        items INTEGER NOT NULL,
        PRIMARY KEY (namespace, high)
    ) WITHOUT ROWID;
";

/// Whether the file has no tables yet.
///
/// # Errors
/// A file of something else, or of a later version.
pub(super) fn is_new(transaction: &Transaction<'_>, path: &Path) -> Attempt<bool> {
    let number = |query: &str| transaction.query_row(query, [], |row| row.get::<_, i32>(0));
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    match (number("PRAGMA application_id")?, number("PRAGMA user_version")?, tables) {
        (APPLICATION, VERSION, _) => Ok(false),
        (0, 0, 0) => Ok(true),
        (APPLICATION, version, _) if version > VERSION => Err(problem::store(
            path,
            StoreProblem::Newer,
            format!("the file has format {version}, this version reads formats up to {VERSION}"),
            "upgrade rehydrate",
        )
        .into()),
        _ => Err(not_a_store(path).into()),
    }
}

/// Make the tables, unless another process just did.
pub(super) fn create(transaction: &Transaction<'_>, path: &Path) -> Attempt<()> {
    if is_new(transaction, path)? {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(())
}

/// The error for a file of something else.
pub(super) fn not_a_store(path: &Path) -> Error {
    problem::store(
        path,
        StoreProblem::NotAStore,
        "this file isn't a store",
        "name a file of a store, or one that is not there yet",
    )
}
