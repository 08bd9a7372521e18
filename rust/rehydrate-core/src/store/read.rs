//! Reading: items by handle, by number and page by page, in one state of the file.
use rusqlite::{OptionalExtension, Transaction};

use super::item::{Item, Key, Link, Tier, handle_of, key_in, split};
use super::namespace::{Names, Namespace, ResolvedFilter};
use super::problem::{Attempt, moment, moment_at, share_at};

/// A namespace in one state of the file.
pub(super) struct ReadTransaction<'a> {
    pub transaction: &'a Transaction<'a>,
    pub namespace: Namespace,
    pub now_ms: i64,
    name: &'a str,
    names: Names,
}

/// A page of items, and where the next one begins if there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    pub items: Vec<Item>,
    pub cursor: Option<i64>,
}

/// The page to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paging {
    /// The cursor of the previous page; None for the first.
    pub cursor: Option<i64>,
    /// Items on a page.
    pub limit: usize,
    pub newest_first: bool,
}

impl<'a> ReadTransaction<'a> {
    /// None if nothing was ever added to the namespace.
    pub fn begin(transaction: &'a Transaction<'a>, name: &'a str, now_ms: i64) -> Attempt<Option<Self>> {
        let namespace = Namespace::find(transaction, name)?;
        Ok(namespace.map(|namespace| Self { transaction, namespace, now_ms, name, names: Names::default() }))
    }

    /// The item that a handle names.
    pub fn get(&mut self, handle: &str) -> Attempt<Option<Item>> {
        let query = "SELECT id FROM items WHERE namespace = ?1 AND handle = ?2 AND (expires IS NULL OR expires > ?3)";
        let row = (self.namespace.id, key_in(handle)?, self.now_ms);
        let id = self.transaction.prepare_cached(query)?.query_row(row, |row| row.get(0)).optional()?;
        id.map_or(Ok(None), |id| self.item(id))
    }

    /// The item with that number, if it is this namespace's.
    pub fn item(&mut self, id: i64) -> Attempt<Option<Item>> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT handle, tier, source, kind, session, tool, principal, trust, confidence, time, created, expires, uses, \
             parents, meta, redactions, text FROM items JOIN bodies USING (id) WHERE id = ?1 AND namespace = ?2",
        )?;
        let mut rows = statement.query((id, self.namespace.id))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let mut name = |column: usize| self.names.name(self.transaction, row.get(column)?);
        let parents: Option<Vec<u8>> = row.get(13)?;
        let item = Item {
            handle: handle_of(row.get::<_, Key>(0)?),
            namespace: self.name.to_owned(),
            tier: Tier::try_from(row.get::<_, u8>(1)?)?,
            source: name(2)?,
            kind: name(3)?,
            thread: name(4)?,
            tool: name(5)?,
            principal: name(6)?,
            trust: share_at(row, 7)?,
            confidence: share_at(row, 8)?,
            time_ms: moment_at(row, 9)?,
            created_ms: moment_at(row, 10)?,
            expires_ms: row.get::<_, Option<i64>>(11)?.map(|expires| moment(11, expires)).transpose()?,
            uses: row.get::<_, i64>(12)?.unsigned_abs(),
            parents: split(&parents.unwrap_or_default()),
            meta_json: row.get(14)?,
            redactions_json: row.get(15)?,
            text: row.get(16)?,
            links: self.links(id)?,
        };
        Ok(Some(item))
    }

    /// The trust in that item, if it is this namespace's: much cheaper than all of it.
    pub fn trust(&self, id: i64) -> Attempt<Option<f64>> {
        let mut statement =
            self.transaction.prepare_cached("SELECT trust FROM items WHERE id = ?1 AND namespace = ?2")?;
        Ok(statement.query_row((id, self.namespace.id), |row| share_at(row, 0)).optional()?)
    }

    fn links(&self, id: i64) -> Attempt<Vec<Link>> {
        let mut statement = self.transaction.prepare_cached(
            "SELECT relation, handle, 1 FROM links JOIN items ON items.id = links.target WHERE links.source = ?1 UNION ALL \
             SELECT relation, handle, 0 FROM links JOIN items ON items.id = links.source WHERE links.target = ?1",
        )?;
        let links = statement.query_map([id], |row| {
            Ok(Link { relation: row.get(0)?, handle: handle_of(row.get::<_, Key>(1)?), is_outgoing: row.get(2)? })
        })?;
        Ok(links.collect::<rusqlite::Result<_>>()?)
    }

    /// Items that pass the filter, in the order in which they were stored.
    pub fn list(&mut self, filter: &ResolvedFilter, paging: Paging) -> Attempt<Page> {
        let condition = filter.condition(self.namespace.id, self.now_ms);
        let (direction, beyond, start) =
            if paging.newest_first { ("DESC", "<", i64::MAX) } else { ("ASC", ">", i64::MIN) };
        let query =
            format!("SELECT id FROM items WHERE {condition} AND id {beyond} ?1 ORDER BY id {direction} LIMIT ?2");
        let limit = i64::try_from(paging.limit).unwrap_or(i64::MAX);
        let ids: Vec<i64> = self
            .transaction
            .prepare(&query)?
            .query_map((paging.cursor.unwrap_or(start), limit), |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let mut items = Vec::with_capacity(ids.len());
        for &id in &ids {
            items.extend(self.item(id)?);
        }
        let is_full = ids.len() == paging.limit && paging.limit > 0;
        Ok(Page { items, cursor: ids.last().copied().filter(|_| is_full) })
    }
}
