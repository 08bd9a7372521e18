//! Purging items of a source, a thread or a whole namespace, with its threads. No byte of their texts stays in any
//! file.
use std::path::{Path, PathBuf};

use rusqlite::Transaction;

use super::namespace::{Namespace, Role, find_name};
use super::problem::{self, Attempt};
use super::segments::{self, FileName};
use super::threads;
use super::write::WriteTransaction;
use crate::error::{Error, StoreProblem};

/// The part of a namespace that is purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// All that came from one source.
    Source(String),
    /// All that was learned in one thread.
    Thread(String),
    /// Everything, its threads too.
    Namespace,
}

/// The outcome of a purge.
#[derive(Debug, Default)]
pub(super) struct Purged {
    pub items: usize,
    /// Index files that held something of it and are not current any more.
    pub files: Vec<FileName>,
}

/// Take it away, and note that traces are left.
pub(super) fn purge(transaction: &Transaction<'_>, name: &str, what: &Purge, now_ms: i64) -> Attempt<Purged> {
    let purged = take(transaction, name, what, now_ms)?;
    let threads = if *what == Purge::Namespace { threads::delete_all(transaction, name)? } else { 0 };
    if purged.items + threads > 0 {
        note_traces(transaction)?;
    }
    Ok(purged)
}

/// Note that deleted texts left traces, which a purge finally removes.
pub(super) fn note_traces(transaction: &Transaction<'_>) -> Attempt<()> {
    transaction.execute("UPDATE clock SET traces = 1", [])?;
    Ok(())
}

/// Whether a purge, maybe one that was cut short, left traces.
pub(super) fn has_traces(transaction: &Transaction<'_>) -> Attempt<bool> {
    Ok(transaction.query_row("SELECT traces FROM clock", [], |row| row.get(0))?)
}

/// Note that no traces are left.
pub(super) fn clear_traces(transaction: &Transaction<'_>) -> Attempt<()> {
    transaction.execute("UPDATE clock SET traces = 0", [])?;
    Ok(())
}

/// The error for files that hold traces and could not be removed.
pub(super) fn remains(store: &Path, items: usize, files: &[PathBuf]) -> Error {
    let named: Vec<String> = files.iter().take(NAMED_FILES).map(|file| file.display().to_string()).collect();
    let more = files.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    problem::store(
        store,
        StoreProblem::Remains,
        format!("{items} items are gone, but files that hold traces of them stay: {}{more}", named.join(", ")),
        "remove them, or let this user write in their folder, and purge again",
    )
}

/// Files that an error names.
const NAMED_FILES: usize = 5;

fn take(transaction: &Transaction<'_>, name: &str, what: &Purge, now_ms: i64) -> Attempt<Purged> {
    let Some(namespace) = Namespace::find(transaction, name)? else { return Ok(Purged::default()) };
    let (role, value) = match what {
        Purge::Source(source) => (Role::Source, source),
        Purge::Thread(thread) => (Role::Thread, thread),
        Purge::Namespace => return whole(transaction, &namespace),
    };
    let Some(number) = find_name(transaction, namespace.id, role, value)? else { return Ok(Purged::default()) };
    let column = if role == Role::Source { "source" } else { "session" };
    let ids: Vec<i64> = transaction
        .prepare(&format!("SELECT id FROM items WHERE namespace = ?1 AND {column} = ?2 ORDER BY id"))?
        .query_map((namespace.id, number), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let Some(&oldest) = ids.first() else { return Ok(Purged::default()) };
    let mut writing = WriteTransaction::begin(transaction, namespace, now_ms)?;
    let items = writing.delete(&ids)?;
    transaction.execute("DELETE FROM names WHERE id = ?1", [number])?;
    // An item was never in a segment that ends before its first sequence number.
    let mut delete = transaction.prepare("DELETE FROM segments WHERE namespace = ?1 AND high >= ?2 RETURNING file")?;
    let files = segments::names_in(&mut delete, (writing.namespace.id, oldest))?;
    writing.namespace.generation += 1;
    writing.finish()?;
    Ok(Purged { items, files })
}

fn whole(transaction: &Transaction<'_>, namespace: &Namespace) -> Attempt<Purged> {
    let mut delete = transaction.prepare("DELETE FROM segments WHERE namespace = ?1 RETURNING file")?;
    let files = segments::names_in(&mut delete, [namespace.id])?;
    for statement in [
        "DELETE FROM links WHERE source IN (SELECT id FROM items WHERE namespace = ?1)",
        "DELETE FROM links WHERE target IN (SELECT id FROM items WHERE namespace = ?1)",
        "DELETE FROM bodies WHERE id IN (SELECT id FROM items WHERE namespace = ?1)",
        "DELETE FROM tombstones WHERE namespace = ?1",
        "DELETE FROM names WHERE namespace = ?1",
        "DELETE FROM namespaces WHERE id = ?1",
    ] {
        transaction.execute(statement, [namespace.id])?;
    }
    let items = transaction.execute("DELETE FROM items WHERE namespace = ?1", [namespace.id])?;
    Ok(Purged { items, files })
}
