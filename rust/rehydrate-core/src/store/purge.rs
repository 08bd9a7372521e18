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
    if purged.is_some() || threads > 0 {
        note_traces(transaction)?;
    }
    Ok(purged.unwrap_or_default())
}

/// Note that deleted texts left traces, which the next purge of anything removes. Whoever deletes a text calls this.
///
/// `clock.traces` counts these notes, and is negative once they were erased: no number comes twice.
pub(super) fn note_traces(transaction: &Transaction<'_>) -> Attempt<()> {
    transaction.prepare_cached("UPDATE clock SET traces = abs(traces) + 1")?.execute([])?;
    Ok(())
}

/// The last note of traces, maybe by a purge that was cut short. None if no traces are left.
pub(super) fn traces(transaction: &Transaction<'_>) -> Attempt<Option<i64>> {
    let noted = transaction.query_row("SELECT traces FROM clock", [], |row| row.get(0))?;
    Ok(Some(noted).filter(|&noted| noted > 0))
}

/// Note that no traces are left, unless others were noted after `noted`.
pub(super) fn clear_traces(transaction: &Transaction<'_>, noted: i64) -> Attempt<()> {
    transaction.execute("UPDATE clock SET traces = -traces WHERE traces = ?1", [noted])?;
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

/// None if nothing of it was there, not even deleted.
fn take(transaction: &Transaction<'_>, name: &str, what: &Purge, now_ms: i64) -> Attempt<Option<Purged>> {
    let Some(namespace) = Namespace::find(transaction, name)? else { return Ok(None) };
    let (role, value) = match what {
        Purge::Source(source) => (Role::Source, source),
        Purge::Thread(thread) => (Role::Thread, thread),
        Purge::Namespace => return whole(transaction, &namespace).map(Some),
    };
    let id = namespace.id;
    let number = find_name(transaction, id, role, value)?;
    let column = if role == Role::Source { "source" } else { "session" };
    let ids: Vec<i64> = transaction
        .prepare(&format!("SELECT id FROM items WHERE namespace = ?1 AND {column} = ?2 ORDER BY id"))?
        .query_map((id, number), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut writing = WriteTransaction::begin(transaction, namespace, now_ms)?;
    let items = writing.delete(&ids)?;
    // An item was never in a segment that ends before its first sequence number. Those deleted before count too.
    let mut delete = transaction.prepare(
        "DELETE FROM segments WHERE namespace = ?1 AND high >= (SELECT min(id) FROM tombstones WHERE namespace = ?1) \
         RETURNING file",
    )?;
    let files = segments::names_in(&mut delete, [id])?;
    // No file is left that they are about.
    let deleted = transaction.execute("DELETE FROM tombstones WHERE namespace = ?1", [id])?;
    let names = transaction.execute(
        "DELETE FROM names WHERE namespace = ?1 AND id NOT IN (SELECT source FROM items WHERE namespace = ?1 \
         UNION SELECT kind FROM items WHERE namespace = ?1 UNION SELECT session FROM items WHERE namespace = ?1 \
         UNION SELECT tool FROM items WHERE namespace = ?1 UNION SELECT principal FROM items WHERE namespace = ?1)",
        [id],
    )?;
    if deleted + names == 0 {
        return Ok(None);
    }
    writing.namespace.pruned = writing.namespace.sequence;
    writing.namespace.generation += 1;
    writing.finish()?;
    Ok(Some(Purged { items, files }))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{NewItem, Options, Store};

    #[test]
    fn what_was_deleted_while_traces_were_erased_is_erased_by_the_next_purge() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("memory.db"), Options::default()).unwrap();
        let forget = || {
            let added = store.add("alice", &[NewItem::new("xyzzy", 0)], None).unwrap().added;
            store.forget("alice", &[added[0].handle.clone()]).unwrap();
            store.connections.read(traces).unwrap().unwrap()
        };
        let clear = |noted| store.connections.write(|transaction| clear_traces(transaction, noted)).unwrap();
        let first = forget();
        let second = forget();
        clear(first);
        assert_eq!(store.connections.read(traces).unwrap(), Some(second));
        clear(second);
        assert_eq!(store.connections.read(traces).unwrap(), None);
        let third = forget();
        clear(second);
        assert_eq!(store.connections.read(traces).unwrap(), Some(third));
        store.purge("bob", &Purge::Namespace).unwrap();
        assert_eq!(store.connections.read(traces).unwrap(), None);
    }
}
