//! Writing: every change is one transaction that gives each item it touches a new sequence number.
use rusqlite::{OptionalExtension, Transaction};

use super::item::{Added, Key, MAX_NAME_BYTES, NewItem, handle_of, join, key_in, key_of, verify_name};
use super::namespace::{Names, Namespace, Role};
use super::problem::{Attempt, count_at};
use super::purge::note_traces;
use crate::embed::is_present;
use crate::error::Error;
use crate::interrupt::poll;

/// One transaction's changes of one namespace.
pub(super) struct WriteTransaction<'a> {
    pub transaction: &'a Transaction<'a>,
    pub namespace: Namespace,
    pub now_ms: i64,
    clock: i64,
}

impl<'a> WriteTransaction<'a> {
    pub fn begin(transaction: &'a Transaction<'a>, namespace: Namespace, now_ms: i64) -> Attempt<Self> {
        let clock = transaction.prepare_cached("SELECT rev FROM clock")?.query_row([], |row| count_at(row, 0))?;
        // The last number of the file: after its own writes, the clock would give a number that indexes have passed
        // already.
        let clock = clock.max(namespace.sequence);
        Ok(Self { transaction, namespace, now_ms, clock })
    }

    fn next_sequence(&mut self) -> i64 {
        self.clock += 1;
        self.namespace.sequence = self.clock;
        self.clock
    }

    /// Write the state of the clock and the namespace.
    pub fn finish(self) -> Attempt<()> {
        self.transaction.prepare_cached("UPDATE clock SET rev = ?1")?.execute([self.clock])?;
        Ok(self.namespace.save(self.transaction)?)
    }

    /// The live item under `key`.
    fn find(&self, key: Key) -> Attempt<Option<i64>> {
        let query = "SELECT id FROM items WHERE namespace = ?1 AND handle = ?2 AND (expires IS NULL OR expires > ?3)";
        let row = (self.namespace.id, key, self.now_ms);
        Ok(self.transaction.prepare_cached(query)?.query_row(row, |row| row.get(0)).optional()?)
    }

    /// The live item that a handle names.
    ///
    /// # Errors
    /// A handle of nothing: a link to it would say nothing.
    fn must_find(&self, handle: &str) -> Attempt<i64> {
        let found = self.find(key_in(handle)?)?;
        Ok(found.ok_or_else(|| {
            Error::Argument(format!(
                "no item {handle} in this namespace; link items that are there, or leave the link out"
            ))
        })?)
    }

    /// Those of `handles` that are there.
    pub fn find_all(&self, handles: &[String]) -> Attempt<Vec<i64>> {
        let mut ids = Vec::with_capacity(handles.len());
        for handle in handles {
            ids.extend(self.find(key_in(handle)?)?);
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Hold the namespace to one model: vectors of two are never compared.
    pub fn settle_space(&mut self, space: &str, dim: usize) -> Attempt<()> {
        verify_name("space", space, MAX_NAME_BYTES)?;
        let dim = dim as i64;
        match &self.namespace.space {
            None => {
                self.namespace.space = Some(space.to_owned());
                self.namespace.dim = dim;
            }
            Some(settled) if settled == space && self.namespace.dim == dim => {}
            Some(settled) => {
                return Err(Error::Argument(format!(
                    "vectors of {space:?} ({dim} components) where this namespace has those of {settled:?} ({}); use that \
                     model, or another namespace",
                    self.namespace.dim
                ))
                .into());
            }
        }
        Ok(())
    }

    /// Add items; one that is there already stays as it is, but for links.
    pub fn add(&mut self, name: &str, items: &[NewItem], space: Option<&str>) -> Attempt<Vec<Added>> {
        if let Some(dim) = items.iter().find_map(|item| item.vector.as_ref()).map(Vec::len) {
            let space = space
                .ok_or_else(|| Error::Argument("vectors without a space; name the model that they come from".into()))?;
            self.settle_space(space, dim)?;
        }
        let mut names = Names::default();
        let mut added = Vec::with_capacity(items.len());
        for item in items {
            poll()?;
            if item.vector.as_ref().is_some_and(|vector| vector.len() as i64 != self.namespace.dim) {
                return Err(Error::Argument("vectors of different lengths; give those of one model".into()).into());
            }
            added.push(self.add_one(name, item, &mut names)?);
        }
        // Now that all are there: items of one call may link each other.
        for (item, &(source, _)) in items.iter().zip(&added) {
            for (relation, handle) in &item.links {
                let target = self.must_find(handle)?;
                self.link(source, relation, target)?;
            }
        }
        Ok(added.into_iter().map(|(_, added)| added).collect())
    }

    fn add_one(&mut self, name: &str, item: &NewItem, names: &mut Names) -> Attempt<(i64, Added)> {
        let mut attempt = 0;
        let (key, found) = loop {
            let key = key_of(name, &item.source, &item.text, attempt);
            match self.occupant(key)? {
                Some((id, true, _)) => {
                    // An expired item makes room.
                    self.delete(&[id])?;
                    break (key, None);
                }
                Some((id, false, text)) if text == item.text => break (key, Some(id)),
                Some(_) => attempt += 1,
                None => break (key, None),
            }
        };
        let id = match found {
            Some(id) => id,
            None => self.insert(key, item, names)?,
        };
        Ok((id, Added { handle: handle_of(key), is_new: found.is_none() }))
    }

    /// The item that has the key, whether it has expired, and its text.
    fn occupant(&self, key: Key) -> Attempt<Option<(i64, bool, Vec<u8>)>> {
        let query = "SELECT items.id, items.expires <= ?3, bodies.text FROM items JOIN bodies USING (id) \
                     WHERE namespace = ?1 AND handle = ?2";
        let row = (self.namespace.id, key, self.now_ms);
        let mut statement = self.transaction.prepare_cached(query)?;
        let found = statement
            .query_row(row, |row| Ok((row.get(0)?, row.get::<_, Option<bool>>(1)?.unwrap_or_default(), row.get(2)?)));
        Ok(found.optional()?)
    }

    fn insert(&mut self, key: Key, item: &NewItem, names: &mut Names) -> Attempt<i64> {
        let id = self.next_sequence();
        let (transaction, namespace) = (self.transaction, self.namespace.id);
        let mut number = |role, name: &str| names.number(transaction, namespace, role, name);
        let bytes = item.held_bytes() as i64;
        let mut statement = transaction.prepare_cached(
            "INSERT INTO items (id, namespace, rev, handle, tier, source, kind, session, tool, principal, trust, confidence, \
             time, created, expires, bytes) VALUES (?1, ?2, ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?;
        statement.execute((
            id,
            namespace,
            key,
            item.tier as u8,
            number(Role::Source, &item.source)?,
            number(Role::Kind, &item.kind)?,
            number(Role::Thread, &item.thread)?,
            number(Role::Tool, &item.tool)?,
            number(Role::Principal, &item.principal)?,
            item.trust,
            item.confidence,
            item.time_ms,
            self.now_ms,
            item.expires_ms,
            bytes,
        ))?;
        let parents = Some(join(&item.parents)).filter(|parents| !parents.is_empty());
        let vector = item.vector.as_deref().filter(|vector| is_present(vector)).map(bytes_of);
        transaction
            .prepare_cached(
                "INSERT INTO bodies (id, parents, meta, redactions, vector, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute((id, parents, &item.meta_json, &item.redactions_json, vector, &item.text))?;
        self.namespace.items += 1;
        self.namespace.bytes += bytes;
        Ok(id)
    }

    /// Link two items; whether the link is new.
    pub fn link(&self, source: i64, relation: &str, target: i64) -> Attempt<bool> {
        let insert = "INSERT OR IGNORE INTO links (source, relation, target) VALUES (?1, ?2, ?3)";
        Ok(self.transaction.prepare_cached(insert)?.execute((source, relation, target))? > 0)
    }

    /// Link the items that two handles name.
    pub fn link_handles(&self, source: &str, relation: &str, target: &str) -> Attempt<bool> {
        self.link(self.must_find(source)?, relation, self.must_find(target)?)
    }

    /// Delete items of this namespace, and note that this leaves traces; how many were there.
    pub fn delete(&mut self, ids: &[i64]) -> Attempt<usize> {
        let transaction = self.transaction;
        let mut deleted = 0;
        for &id in ids {
            poll()?;
            let bytes = transaction
                .prepare_cached("DELETE FROM items WHERE id = ?1 AND namespace = ?2 RETURNING bytes")?
                .query_row((id, self.namespace.id), |row| count_at(row, 0))
                .optional()?;
            let Some(bytes) = bytes else { continue };
            transaction.prepare_cached("DELETE FROM bodies WHERE id = ?1")?.execute([id])?;
            transaction.prepare_cached("DELETE FROM links WHERE source = ?1")?.execute([id])?;
            transaction.prepare_cached("DELETE FROM links WHERE target = ?1")?.execute([id])?;
            let sequence = self.next_sequence();
            transaction
                .prepare_cached("INSERT INTO tombstones (namespace, rev, id) VALUES (?1, ?2, ?3)")?
                .execute((self.namespace.id, sequence, id))?;
            self.namespace.items -= 1;
            self.namespace.bytes -= bytes;
            deleted += 1;
        }
        if deleted > 0 {
            note_traces(transaction)?;
        }
        Ok(deleted)
    }

    /// Give items a tier; how many had another one.
    pub fn set_tier(&mut self, ids: &[i64], tier: u8) -> Attempt<usize> {
        let mut changed = 0;
        for &id in ids {
            poll()?;
            let sequence = self.next_sequence();
            let update = "UPDATE items SET tier = ?2, rev = ?3 WHERE id = ?1 AND tier <> ?2";
            changed += self.transaction.prepare_cached(update)?.execute((id, tier, sequence))?;
        }
        Ok(changed)
    }

    /// Give items vectors, `dim` numbers each.
    pub fn set_vectors(&mut self, ids: &[Option<i64>], vectors: &[f32], dim: usize) -> Attempt<usize> {
        let mut changed = 0;
        for (&id, vector) in ids.iter().zip(vectors.chunks_exact(dim)) {
            poll()?;
            let Some(id) = id else { continue };
            self.set_vector(id, Some(vector).filter(|vector| is_present(vector)).map(bytes_of))?;
            changed += 1;
        }
        Ok(changed)
    }

    fn set_vector(&mut self, id: i64, vector: Option<Vec<u8>>) -> Attempt<()> {
        let sequence = self.next_sequence();
        let before: Option<i64> = self
            .transaction
            .prepare_cached("SELECT length(vector) FROM bodies WHERE id = ?1")?
            .query_row([id], |row| row.get(0))?;
        let more = vector.as_ref().map_or(0, Vec::len) as i64 - before.unwrap_or(0);
        self.transaction.prepare_cached("UPDATE bodies SET vector = ?2 WHERE id = ?1")?.execute((id, vector))?;
        self.transaction
            .prepare_cached("UPDATE items SET rev = ?2, bytes = bytes + ?3 WHERE id = ?1")?
            .execute((id, sequence, more))?;
        self.namespace.bytes += more;
        Ok(())
    }

    /// Remove all vectors, and the model that the namespace is bound to. Returns how many items had one.
    pub fn drop_vectors(&mut self) -> Attempt<usize> {
        let ids: Vec<i64> = self
            .transaction
            .prepare(
                "SELECT id FROM items JOIN bodies USING (id) WHERE namespace = ?1 AND vector IS NOT NULL ORDER BY id",
            )?
            .query_map([self.namespace.id], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for &id in &ids {
            poll()?;
            self.set_vector(id, None)?;
        }
        (self.namespace.space, self.namespace.dim) = (None, 0);
        Ok(ids.len())
    }

    /// The live items that handles name, in their order.
    pub fn find_each(&self, handles: &[String]) -> Attempt<Vec<Option<i64>>> {
        handles.iter().map(|handle| self.find(key_in(handle)?)).collect()
    }
}

/// Count the uses of items by searches. That isn't a change of them: it takes no sequence number.
pub(super) fn count_uses(transaction: &Transaction<'_>, uses: &[(i64, u64)], now_ms: i64) -> Attempt<()> {
    for &(id, count) in uses {
        transaction.prepare_cached("UPDATE items SET uses = uses + ?2, used = ?3 WHERE id = ?1")?.execute((
            id,
            count as i64,
            now_ms,
        ))?;
    }
    Ok(())
}

fn bytes_of(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// The vector that [`bytes_of`] wrote.
pub(super) fn vector_of(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&number| f32::from_le_bytes(number)).collect()
}
