//! A namespace's row, its numbered names, and filters in terms of those numbers.
use std::fmt::Write;

use rusqlite::{OptionalExtension, Row, Transaction};
use rustc_hash::FxHashMap;

use super::item::{Filter, Tier};
use super::problem::{Attempt, count_at, count_within};
use crate::embed::MAX_DIM;

/// The kind of thing that a name names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Role {
    Source,
    Kind,
    Thread,
    Tool,
    Principal,
}

/// The number of the empty name, which has no row.
pub(super) const UNNAMED: u32 = 0;

/// The row of a namespace.
#[derive(Debug, Clone)]
pub(super) struct Namespace {
    pub id: i64,
    pub sequence: i64,
    pub generation: i64,
    pub items: i64,
    pub bytes: i64,
    pub demoted: i64,
    pub dropped: i64,
    pub aged_ms: i64,
    pub space: Option<String>,
    pub dim: i64,
    /// Tombstones up to this sequence number are deleted.
    pub pruned: i64,
}

impl Namespace {
    const COLUMNS: &str = "id, rev, generation, items, bytes, demoted, dropped, aged, space, dim, pruned";

    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: count_at(row, 0)?,
            sequence: count_at(row, 1)?,
            generation: count_at(row, 2)?,
            items: count_at(row, 3)?,
            bytes: count_at(row, 4)?,
            demoted: count_at(row, 5)?,
            dropped: count_at(row, 6)?,
            aged_ms: row.get(7)?,
            space: row.get(8)?,
            dim: count_within(row, 9, MAX_DIM as i64)?,
            pruned: count_at(row, 10)?,
        })
    }

    /// The namespace called `name`, if anything was ever added to it.
    pub fn find(transaction: &Transaction<'_>, name: &str) -> rusqlite::Result<Option<Self>> {
        let columns = Self::COLUMNS;
        let query = format!("SELECT {columns} FROM namespaces WHERE name = ?1");
        transaction.prepare_cached(&query)?.query_row([name], Self::of).optional()
    }

    /// The same; it is made if it is not there.
    pub fn find_or_make(transaction: &Transaction<'_>, name: &str) -> rusqlite::Result<Self> {
        transaction.prepare_cached("INSERT OR IGNORE INTO namespaces (name) VALUES (?1)")?.execute([name])?;
        Self::find(transaction, name)?.ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// The model of a namespace's vectors and their components, if it is bound to one.
    pub fn space_of(transaction: &Transaction<'_>, id: i64) -> rusqlite::Result<Option<(String, i64)>> {
        let found = transaction
            .prepare_cached("SELECT space, dim FROM namespaces WHERE id = ?1")?
            .query_row([id], |row| Ok((row.get::<_, Option<String>>(0)?, count_within(row, 1, MAX_DIM as i64)?)))
            .optional()?;
        Ok(found.and_then(|(space, dim)| Some((space?, dim))))
    }

    /// The mark of that model in an index.
    pub fn space_fingerprint(&self) -> Option<u64> {
        self.space.as_ref().map(|space| fingerprint_of(space, self.dim))
    }

    /// Write the row back.
    pub fn save(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let update = "UPDATE namespaces SET rev = ?2, generation = ?3, items = ?4, bytes = ?5, demoted = ?6, dropped = ?7, \
                      aged = ?8, space = ?9, dim = ?10, pruned = ?11 WHERE id = ?1";
        let Self { id, sequence, generation, items, bytes, demoted, dropped, aged_ms, space, dim, pruned } = self;
        let row = (id, sequence, generation, items, bytes, demoted, dropped, aged_ms, space, dim, pruned);
        transaction.prepare_cached(update)?.execute(row)?;
        Ok(())
    }
}

/// The mark that distinguishes one model's vectors from another's in an index.
pub(super) fn fingerprint_of(space: &str, dim: i64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(space.as_bytes(), dim.unsigned_abs())
}

/// The number of `name`, if it has one.
pub(super) fn find_name(tx: &Transaction<'_>, namespace: i64, role: Role, name: &str) -> rusqlite::Result<Option<u32>> {
    if name.is_empty() {
        return Ok(Some(UNNAMED));
    }
    tx.prepare_cached("SELECT id FROM names WHERE namespace = ?1 AND role = ?2 AND name = ?3")?
        .query_row((namespace, role as u8, name), |row| row.get(0))
        .optional()
}

/// Names of one namespace as they were asked for.
#[derive(Default)]
pub(super) struct Names {
    by_name: FxHashMap<(Role, String), u32>,
    by_number: FxHashMap<u32, String>,
}

impl Names {
    /// The number of `name`, which gets one if it has none.
    pub fn number(&mut self, tx: &Transaction<'_>, namespace: i64, role: Role, name: &str) -> rusqlite::Result<u32> {
        if name.is_empty() {
            return Ok(UNNAMED);
        }
        let key = (role, name.to_owned());
        if let Some(&number) = self.by_name.get(&key) {
            return Ok(number);
        }
        let number = match find_name(tx, namespace, role, name)? {
            Some(number) => number,
            None => tx
                .prepare_cached("INSERT INTO names (namespace, role, name) VALUES (?1, ?2, ?3) RETURNING id")?
                .query_row((namespace, role as u8, name), |row| row.get(0))?,
        };
        self.by_name.insert(key, number);
        Ok(number)
    }

    /// The name with the number `number`.
    pub fn name(&mut self, tx: &Transaction<'_>, number: u32) -> rusqlite::Result<String> {
        if number == UNNAMED {
            return Ok(String::new());
        }
        if let Some(name) = self.by_number.get(&number) {
            return Ok(name.clone());
        }
        let name = tx
            .prepare_cached("SELECT name FROM names WHERE id = ?1")?
            .query_row([number], |row| row.get(0))
            .optional()?;
        let name: String = name.unwrap_or_default();
        self.by_number.insert(number, name.clone());
        Ok(name)
    }
}

/// A filter with numbers for names. An unused name is left out: it matches nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct ResolvedFilter {
    pub tiers: Option<Vec<Tier>>,
    pub kinds: Option<Vec<u32>>,
    pub sources: Option<Vec<u32>>,
    pub threads: Option<Vec<u32>>,
    pub after_ms: Option<i64>,
    pub before_ms: Option<i64>,
    pub min_trust: f64,
}

impl ResolvedFilter {
    pub fn of(filter: &Filter, tx: &Transaction<'_>, namespace: i64) -> Attempt<Self> {
        let numbers = |role, names: &Option<Vec<String>>| {
            let Some(names) = names else { return Ok(None) };
            let mut numbers = Vec::with_capacity(names.len());
            for name in names {
                numbers.extend(find_name(tx, namespace, role, name)?);
            }
            Ok::<_, rusqlite::Error>(Some(numbers))
        };
        Ok(Self {
            tiers: filter.tiers.clone(),
            kinds: numbers(Role::Kind, &filter.kinds)?,
            sources: numbers(Role::Source, &filter.sources)?,
            threads: numbers(Role::Thread, &filter.threads)?,
            after_ms: filter.after_ms,
            before_ms: filter.before_ms,
            min_trust: filter.min_trust,
        })
    }

    /// As conditions on a row of `items`. They only contain numbers, so nothing has to be quoted.
    pub fn condition(&self, namespace: i64, now_ms: i64) -> String {
        let mut sql = format!("items.namespace = {namespace} AND (items.expires IS NULL OR items.expires > {now_ms})");
        let lists = [("kind", &self.kinds), ("source", &self.sources), ("session", &self.threads)];
        for (column, numbers) in lists.into_iter().filter_map(|(column, numbers)| Some((column, numbers.as_ref()?))) {
            let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let _ = write!(sql, " AND items.{column} IN ({})", numbers.join(", "));
        }
        if self.tiers.as_deref() == Some([Tier::Hot].as_slice()) {
            sql.push_str(" AND items.tier = 0"); // as the index of hot items says it
        } else if let Some(tiers) = &self.tiers {
            let tiers: Vec<String> = tiers.iter().map(|&tier| (tier as u8).to_string()).collect();
            let _ = write!(sql, " AND items.tier IN ({})", tiers.join(", "));
        }
        if let Some(after) = self.after_ms {
            let _ = write!(sql, " AND items.time >= {after}");
        }
        if let Some(before) = self.before_ms {
            let _ = write!(sql, " AND items.time < {before}");
        }
        if self.min_trust > 0.0 {
            let _ = write!(sql, " AND items.trust >= {:?}", self.min_trust.min(2.0));
        }
        sql
    }
}
