//! The snapshots that are in memory, one per namespace, each refreshed by one thread at a time.
//!
//! The lock is only taken inside the fork guard and for a moment, so no fork leaves it locked.
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::ThreadId;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::connections::Connections;
use super::index_snapshot::{self, IndexSnapshot};
use super::namespace::Namespace;
use super::patience::lock;
use super::segments::Folder;
use super::use_count;
use crate::error::Result;
use crate::interrupt::poll;

const PAUSE: Duration = Duration::from_micros(300);

/// The snapshots of one store that were used last, up to a number of bytes.
pub(super) struct IndexCache {
    most_bytes: u64,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    by_name: FxHashMap<String, Slot>,
    /// Counts the requests.
    clock: u64,
}

#[derive(Default)]
struct Slot {
    snapshot: Option<Arc<IndexSnapshot>>,
    /// The thread that is refreshing it, and its process: a forked child does not have that thread.
    refreshing: Option<(u32, ThreadId)>,
    used: u64,
}

fn this_thread() -> (u32, ThreadId) {
    (std::process::id(), std::thread::current().id())
}

impl IndexCache {
    pub fn new(most_bytes: u64) -> Self {
        Self { most_bytes, slots: Mutex::default() }
    }

    /// The snapshot of a namespace as it is now; None if it does not exist.
    pub fn get(&self, connections: &Connections, folder: &Folder, name: &str) -> Result<Option<Arc<IndexSnapshot>>> {
        loop {
            let row = connections.read(|transaction| Namespace::find(transaction, name).map_err(Into::into))?;
            let Some(row) = row else { return Ok(None) };
            let before = {
                let _inside = use_count::enter(&connections.path)?;
                let mut slots = lock(&self.slots);
                slots.clock += 1;
                let used = slots.clock;
                let slot = slots.by_name.entry(name.to_owned()).or_default();
                slot.used = used;
                let here = this_thread();
                match &slot.snapshot {
                    Some(snapshot) if snapshot.is_current(&row) => return Ok(Some(Arc::clone(snapshot))),
                    // A signal handler during a refresh would wait for the thread that it runs on.
                    snapshot if slot.refreshing == Some(here) => Some((snapshot.clone(), None)),
                    snapshot if slot.refreshing.is_none_or(|(process, _)| process != here.0) => {
                        let before = snapshot.clone();
                        slot.refreshing = Some(here);
                        Some((before, Some(Turn { of: self, connections, name })))
                    }
                    _ => None,
                }
            };
            match before {
                Some((before, turn)) => {
                    let snapshot = index_snapshot::refresh(connections, folder, name, before.as_deref())?.map(Arc::new);
                    if let Some(turn) = turn {
                        turn.done(snapshot.clone())?;
                    }
                    return Ok(snapshot);
                }
                None => {
                    poll()?;
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// The snapshot in memory of a namespace, as it was.
    pub fn peek(&self, connections: &Connections, name: &str) -> Result<Option<Arc<IndexSnapshot>>> {
        let _inside = use_count::enter(&connections.path)?;
        Ok(lock(&self.slots).by_name.get(name).and_then(|slot| slot.snapshot.clone()))
    }

    /// Forget a namespace, or all.
    pub fn forget(&self, connections: &Connections, name: Option<&str>) -> Result<()> {
        let _inside = use_count::enter(&connections.path)?;
        let mut slots = lock(&self.slots);
        slots.by_name.retain(|key, slot| {
            if name.is_none_or(|name| name == key) {
                slot.snapshot = None;
            }
            slot.snapshot.is_some() || slot.refreshing.is_some()
        });
        Ok(())
    }
}

impl Slots {
    /// Release the least recently used, until all of them together are small enough. `name` stays.
    fn shrink(&mut self, name: &str, most_bytes: u64) {
        let held = |slot: &Slot| slot.snapshot.as_ref().map_or(0, |snapshot| snapshot.held_bytes());
        let mut bytes: u64 = self.by_name.values().map(held).sum();
        if bytes <= most_bytes {
            return;
        }
        let others = self.by_name.iter().filter(|(key, slot)| *key != name && slot.refreshing.is_none());
        let mut idle: Vec<(u64, String)> = others.map(|(key, slot)| (slot.used, key.clone())).collect();
        idle.sort_unstable();
        for (_, key) in idle {
            if bytes <= most_bytes {
                return;
            }
            bytes -= self.by_name.remove(&key).as_ref().map_or(0, held);
        }
    }
}

/// The right to refresh a snapshot, given back when dropped.
struct Turn<'a> {
    of: &'a IndexCache,
    connections: &'a Connections,
    name: &'a str,
}

impl Turn<'_> {
    fn done(self, snapshot: Option<Arc<IndexSnapshot>>) -> Result<()> {
        let _inside = use_count::enter(&self.connections.path)?;
        let mut slots = lock(&self.of.slots);
        match snapshot {
            Some(snapshot) => {
                if let Some(slot) = slots.by_name.get_mut(self.name) {
                    slot.snapshot = Some(snapshot);
                }
                slots.shrink(self.name, self.of.most_bytes);
            }
            // It was purged.
            None => drop(slots.by_name.remove(self.name)),
        }
        Ok(())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let inside = use_count::enter(&self.connections.path);
        let slots = match self.of.slots.try_lock() {
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            // In a child that may not use the store, the holder of the lock may not exist.
            Err(TryLockError::WouldBlock) if inside.is_err() => Err(()),
            Err(TryLockError::WouldBlock) => Ok(lock(&self.of.slots)),
            Ok(slots) => Ok(slots),
        };
        if let Ok(mut slots) = slots
            && let Some(slot) = slots.by_name.get_mut(self.name)
        {
            slot.refreshing = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::store::{NewItem, Options, SearchRequest, Store};

    fn names(store: &Store) -> Vec<String> {
        let slots = store.build_context.index_cache.slots.lock().unwrap();
        let mut names: Vec<String> = slots.by_name.keys().cloned().collect();
        names.sort();
        names
    }

    #[test]
    fn indexes_in_memory_are_bounded_by_their_bytes_and_those_used_last_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.db");
        let open = |index_bytes| Store::open(&path, Options { index_bytes, ..Options::default() }).unwrap();
        let ask = |store: &Store, name: &str| {
            let hits = store.search(name, &SearchRequest::new("a note about penguins", 3)).unwrap();
            assert_eq!(hits.len(), 1, "{name}");
        };
        let store = open(u64::MAX);
        for name in ["a", "b", "c"] {
            store.add(name, &[NewItem::new(format!("note {name} about penguins"), 0)], None).unwrap();
            ask(&store, name);
        }
        assert_eq!(names(&store), ["a", "b", "c"]);
        let one = store.snapshot("a").unwrap().unwrap().held_bytes();
        drop(store);
        let store = open(2 * one + one / 2);
        for name in ["a", "b", "a", "c"] {
            ask(&store, name);
        }
        assert_eq!(names(&store), ["a", "c"]);
        drop(store);
        // A snapshot that is larger than the bound by itself can still be searched.
        let store = open(1);
        for name in ["a", "b"] {
            ask(&store, name);
        }
        assert_eq!(names(&store), ["b"]);
        store.purge("b", &crate::store::Purge::Namespace).unwrap();
        assert!(store.search("b", &SearchRequest::new("note", 3)).unwrap().is_empty());
        assert!(names(&store).is_empty());
    }
}
