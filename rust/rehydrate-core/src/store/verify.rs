//! Maintenance of a store: its counts, its soundness, and new indexes.
use std::time::Duration;

use rusqlite::Transaction;
use rustc_hash::FxHashSet;

use super::builder::{BuildContext, Extent};
use super::facade::Store;
use super::files::sibling;
use super::index_snapshot::{InMemory, IndexSnapshot, plan_ranges, state};
use super::item::{Key, handle_of, is_key_of, verify_namespace};
use super::namespace::Namespace;
use super::problem::Attempt;
use super::segments::{names_in, rows};
use crate::error::Result;
use crate::interrupt::{checkpoint, poll};

/// Counts of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    pub items: u64,
    /// The bytes of texts, vectors and notes.
    pub bytes: u64,
    pub hot: u64,
    pub warm: u64,
    pub cold: u64,
    pub links: u64,
    /// Items with vectors of the caller's model.
    pub vectors: u64,
    /// That model, and the components of its vectors.
    pub space: Option<String>,
    pub dim: u64,
    /// The number of items that limits have made cold so far, and of those that limits and expiry removed.
    pub demoted: u64,
    pub dropped: u64,
    /// Items in index files, and files.
    pub indexed: u64,
    pub segments: u64,
    pub index_bytes: u64,
    /// Items that no index file holds yet: they are found all the same.
    pub pending: u64,
    /// The bytes of the whole store's file and log.
    pub file_bytes: u64,
}

/// The result of a check of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Items that were looked at.
    pub items: u64,
    /// Faults of the truth. Empty if there are none.
    pub problems: Vec<String>,
    /// Index files that were damaged, are thrown away and made again.
    pub damaged: u64,
}

impl Store {
    /// Counts of a namespace; all zeros if nothing was ever added.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn stats(&self, namespace: &str) -> Result<Stats> {
        verify_namespace(namespace)?;
        let mut stats = self.connections.read(|transaction| {
            let Some(row) = Namespace::find(transaction, namespace)? else { return Ok(Stats::default()) };
            let count = |query: &str| -> Attempt<u64> {
                Ok(transaction.prepare_cached(query)?.query_row([row.id], |row| row.get::<_, i64>(0))?.unsigned_abs())
            };
            let files = rows(transaction, &row)?;
            let filed = files.last().map_or(0, |file| file.high);
            let pending = "SELECT count(*) FROM items WHERE namespace = ?1 AND rev > ?2";
            let pending: i64 = transaction.prepare_cached(pending)?.query_row((row.id, filed), |row| row.get(0))?;
            Ok(Stats {
                items: row.items.unsigned_abs(),
                bytes: row.bytes.unsigned_abs(),
                hot: count("SELECT count(*) FROM items WHERE namespace = ?1 AND tier = 0")?,
                warm: count("SELECT count(*) FROM items WHERE namespace = ?1 AND tier = 1")?,
                cold: count("SELECT count(*) FROM items WHERE namespace = ?1 AND tier = 2")?,
                links: count("SELECT count(*) FROM links JOIN items ON items.id = links.source WHERE namespace = ?1")?,
                vectors: if row.space.is_some() {
                    count("SELECT count(vector) FROM items JOIN bodies USING (id) WHERE namespace = ?1")?
                } else {
                    0
                },
                space: row.space,
                dim: row.dim.unsigned_abs(),
                demoted: row.demoted.unsigned_abs(),
                dropped: row.dropped.unsigned_abs(),
                indexed: (row.items - pending).max(0).unsigned_abs(),
                segments: files.len() as u64,
                index_bytes: files.iter().map(|file| file.bytes.unsigned_abs()).sum(),
                pending: pending.unsigned_abs(),
                file_bytes: 0,
            })
        })?;
        let length = |ending: &str| sibling(self.path(), ending).metadata().map_or(0, |data| data.len());
        stats.file_bytes = length("") + length("-wal");
        Ok(stats)
    }

    /// Check everything: SQLite's own structures, that the tables agree with each other, that every text is the one
    /// that was added, that every record of a thread is as it was written, and that every index holds exactly the
    /// present items. Faults of an index are repaired, faults of the truth are reported.
    ///
    /// # Errors
    /// A file that cannot be read at all.
    pub fn verify(&self) -> Result<Report> {
        let mut report = Report { problems: self.connections.read(check_tables)?, ..Report::default() };
        report.problems.extend(self.damaged_threads()?);
        for name in self.namespaces()? {
            let Some((row, files)) = state(&self.connections, &name)? else { continue };
            // Read from the disk again, whatever is in memory.
            let planned = plan_ranges(&self.build_context.folder, &row, &files, InMemory::default());
            let damaged = planned.iter().filter(|range| range.is_damaged).count();
            if damaged > 0 {
                report.damaged += damaged as u64;
                self.build_context.index_cache.forget(&self.connections, Some(&name))?;
            }
            report.items += row.items.unsigned_abs();
            report.problems.extend(self.altered_texts(&name, row.id)?);
            if !self.is_index_right(&name)? {
                report.damaged += 1;
                if self.options.is_read_only {
                    continue;
                }
                self.discard(&name)?;
                if !self.is_index_right(&name)? {
                    report.problems.push(format!("namespace {name:?}: the index differs from the items"));
                }
            }
        }
        Ok(report)
    }

    /// Items whose text is not the one that their handle was made of.
    fn altered_texts(&self, name: &str, namespace: i64) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let mut last = Some(0);
        while let Some(from) = last {
            poll()?;
            let (altered, next) = self.connections.read(|transaction| {
                let mut statement = transaction.prepare_cached(
                    "SELECT items.id, handle, coalesce(names.name, ''), text FROM items JOIN bodies USING (id) \
                     LEFT JOIN names ON names.id = source WHERE items.namespace = ?1 AND items.id > ?2 ORDER BY items.id LIMIT 4096",
                )?;
                let mut rows = statement.query((namespace, from))?;
                let (mut altered, mut next) = (Vec::new(), None);
                while let Some(row) = rows.next()? {
                    let (key, source): (Key, String) = (row.get(1)?, row.get(2)?);
                    next = Some(row.get::<_, i64>(0)?);
                    if !is_key_of(key, name, &source, row.get_ref(3)?.as_bytes().unwrap_or_default()) {
                        altered.push(format!("namespace {name:?}: the text of {} is not what was added", handle_of(key)));
                    }
                }
                Ok((altered, next))
            })?;
            problems.extend(altered);
            last = next;
        }
        Ok(problems)
    }

    /// Whether the index of a namespace holds its items and nothing else, as of one moment.
    fn is_index_right(&self, name: &str) -> Result<bool> {
        loop {
            let BuildContext { index_cache, folder, .. } = &self.build_context;
            let Some(snapshot) = index_cache.get(&self.connections, folder, name)? else { return Ok(true) };
            let compared = self.connections.read(|transaction| {
                let row = Namespace::find(transaction, name)?;
                if !row.is_some_and(|row| snapshot.is_current(&row)) {
                    return Ok(None);
                }
                let mut statement =
                    transaction.prepare_cached("SELECT id FROM items WHERE namespace = ?1 ORDER BY id")?;
                let ids =
                    statement.query_map([snapshot.namespace], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))?;
                Ok(Some(ids.collect::<rusqlite::Result<Vec<u64>>>()? == live_ids(&snapshot) && !snapshot.is_false))
            })?;
            if let Some(is_right) = compared {
                return Ok(is_right);
            }
            poll()?;
        }
    }

    /// Make the indexes again, of one namespace or of all. Returns the number of items in them.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub fn rebuild(&self, namespace: Option<&str>) -> Result<u64> {
        let names = match namespace {
            Some(name) => {
                verify_namespace(name)?;
                vec![name.to_owned()]
            }
            None => self.namespaces()?,
        };
        let mut items = 0;
        for name in &names {
            self.discard(name)?;
            self.build_context.build_pending(name, 1, Extent::All, true)?;
            items += self.snapshot(name)?.map_or(0, |snapshot| snapshot.view.len() as u64);
        }
        self.sweep()?;
        Ok(items)
    }

    /// Write index files of all items that no file holds yet, and of damaged ones, and wait for that.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub fn flush(&self) -> Result<()> {
        for name in self.namespaces()? {
            self.build_context.build_pending(&name, 1, Extent::All, true)?;
        }
        Ok(())
    }

    /// Throw the index files of a namespace away.
    pub(super) fn discard(&self, name: &str) -> Result<()> {
        let files = self.connections.write(|transaction| {
            let Some(mut row) = Namespace::find(transaction, name)? else { return Ok(Vec::new()) };
            let mut delete = transaction.prepare("DELETE FROM segments WHERE namespace = ?1 RETURNING file")?;
            let files = names_in(&mut delete, [row.id])?;
            row.generation += 1;
            row.save(transaction)?;
            Ok(files)
        })?;
        self.build_context.index_cache.forget(&self.connections, Some(name))?;
        self.build_context.folder.remove(&files);
        Ok(())
    }

    /// Remove the files of a process that ended in the middle of its work.
    pub(super) fn sweep(&self) -> Result<()> {
        match self.build_context.lock(Duration::ZERO) {
            Ok(Some(_lock)) => self.build_context.sweep().map(drop),
            _ => Ok(()), // the builder does it
        }
    }
}

/// The ids that can be found in a snapshot, ascending.
fn live_ids(snapshot: &IndexSnapshot) -> Vec<u64> {
    let mut hidden = FxHashSet::default();
    let mut live = Vec::with_capacity(snapshot.view.len());
    for range in snapshot.ranges.iter().rev() {
        checkpoint();
        live.extend(range.segment.ids().filter(|id| !hidden.contains(id)));
        hidden.extend(range.segment.ids());
        hidden.extend(range.segment.tombstones());
    }
    live.sort_unstable();
    live
}

/// Contradictions in the tables.
fn check_tables(transaction: &Transaction<'_>) -> Attempt<Vec<String>> {
    let mut problems: Vec<String> = transaction
        .prepare("PRAGMA integrity_check")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    problems.retain(|line| line != "ok");
    let laws = [
        ("items without a text", "SELECT count(*) FROM items WHERE id NOT IN (SELECT id FROM bodies)"),
        ("texts without an item", "SELECT count(*) FROM bodies WHERE id NOT IN (SELECT id FROM items)"),
        ("items of no namespace", "SELECT count(*) FROM items WHERE namespace NOT IN (SELECT id FROM namespaces)"),
        ("items ahead of the clock", "SELECT count(*) FROM items WHERE rev > (SELECT rev FROM clock) OR rev < id"),
        (
            "links to items that are not there",
            "SELECT count(*) FROM links WHERE source NOT IN (SELECT id FROM items) OR target NOT IN (SELECT id FROM items)",
        ),
        (
            "namespaces that count wrongly",
            "SELECT count(*) FROM namespaces AS n WHERE items <> (SELECT count(*) FROM items WHERE namespace = n.id) OR \
             bytes <> (SELECT total(bytes) FROM items WHERE namespace = n.id)",
        ),
        ("items of no tier", "SELECT count(*) FROM items WHERE tier NOT IN (0, 1, 2)"),
    ];
    for (what, query) in laws {
        poll()?;
        let count: i64 = transaction.query_row(query, [], |row| row.get(0))?;
        if count > 0 {
            problems.push(format!("{count} {what}"));
        }
    }
    Ok(problems)
}
