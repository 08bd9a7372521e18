//! The shelves that are in memory, one a namespace, each refreshed by one thread at a time.
//!
//! The lock is taken inside the gate only and for a moment, so that no fork leaves it locked.
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::ThreadId;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::connections::{Connections, lock};
use super::segments::Folder;
use super::shelf::{self, Shelf};
use super::{gate, namespace::Namespace};
use crate::error::Result;
use crate::interrupt::poll;

const PAUSE: Duration = Duration::from_micros(300);

/// The shelves of one store: so many bytes of them, those that were used last.
pub(super) struct Shelves {
    most_bytes: u64,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    by_name: FxHashMap<String, Place>,
    /// Counts what is asked for.
    clock: u64,
}

#[derive(Default)]
struct Place {
    shelf: Option<Arc<Shelf>>,
    /// The thread that is refreshing it, and its process: a forked child does not have that thread.
    refreshing: Option<(u32, ThreadId)>,
    used: u64,
}

fn this_thread() -> (u32, ThreadId) {
    (std::process::id(), std::thread::current().id())
}

impl Shelves {
    pub fn new(most_bytes: u64) -> Self {
        Self { most_bytes, places: Mutex::default() }
    }

    /// The shelf of a namespace as it is now; None where it does not exist.
    pub fn get(&self, connections: &Connections, folder: &Folder, name: &str) -> Result<Option<Arc<Shelf>>> {
        loop {
            let row = connections.read(|transaction| Namespace::find(transaction, name).map_err(Into::into))?;
            let Some(row) = row else { return Ok(None) };
            let before = {
                let _inside = gate::enter(&connections.path)?;
                let mut places = lock(&self.places);
                places.clock += 1;
                let used = places.clock;
                let place = places.by_name.entry(name.to_owned()).or_default();
                place.used = used;
                let here = this_thread();
                match &place.shelf {
                    Some(shelf) if shelf.is_current(&row) => return Ok(Some(Arc::clone(shelf))),
                    // A signal handler amid a refresh would wait for the thread that it runs on.
                    shelf if place.refreshing == Some(here) => Some((shelf.clone(), None)),
                    shelf if place.refreshing.is_none_or(|(process, _)| process != here.0) => {
                        let before = shelf.clone();
                        place.refreshing = Some(here);
                        Some((before, Some(Turn { of: self, connections, name })))
                    }
                    _ => None,
                }
            };
            match before {
                Some((before, turn)) => {
                    let shelf = shelf::refresh(connections, folder, name, before.as_deref())?.map(Arc::new);
                    if let Some(turn) = turn {
                        turn.done(shelf.clone())?;
                    }
                    return Ok(shelf);
                }
                None => {
                    poll()?;
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// What is in memory of a namespace, as it was.
    pub fn peek(&self, connections: &Connections, name: &str) -> Result<Option<Arc<Shelf>>> {
        let _inside = gate::enter(&connections.path)?;
        Ok(lock(&self.places).by_name.get(name).and_then(|place| place.shelf.clone()))
    }

    /// Forget a namespace, or all.
    pub fn forget(&self, connections: &Connections, name: Option<&str>) -> Result<()> {
        let _inside = gate::enter(&connections.path)?;
        let mut places = lock(&self.places);
        places.by_name.retain(|key, place| {
            if name.is_none_or(|name| name == key) {
                place.shelf = None;
            }
            place.shelf.is_some() || place.refreshing.is_some()
        });
        Ok(())
    }
}

impl Places {
    /// Let go of what was not used for longest, until all of it together is small enough; `name` stays.
    fn shrink(&mut self, name: &str, most_bytes: u64) {
        let held = |place: &Place| place.shelf.as_ref().map_or(0, |shelf| shelf.held_bytes());
        let mut bytes: u64 = self.by_name.values().map(held).sum();
        if bytes <= most_bytes {
            return;
        }
        let others = self.by_name.iter().filter(|(key, place)| *key != name && place.refreshing.is_none());
        let mut idle: Vec<(u64, String)> = others.map(|(key, place)| (place.used, key.clone())).collect();
        idle.sort_unstable();
        for (_, key) in idle {
            if bytes <= most_bytes {
                return;
            }
            bytes -= self.by_name.remove(&key).as_ref().map_or(0, held);
        }
    }
}

/// The right to refresh a shelf, given back when dropped.
struct Turn<'a> {
    of: &'a Shelves,
    connections: &'a Connections,
    name: &'a str,
}

impl Turn<'_> {
    fn done(self, shelf: Option<Arc<Shelf>>) -> Result<()> {
        let _inside = gate::enter(&self.connections.path)?;
        let mut places = lock(&self.of.places);
        match shelf {
            Some(shelf) => {
                if let Some(place) = places.by_name.get_mut(self.name) {
                    place.shelf = Some(shelf);
                }
                places.shrink(self.name, self.of.most_bytes);
            }
            // It was purged.
            None => drop(places.by_name.remove(self.name)),
        }
        Ok(())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let inside = gate::enter(&self.connections.path);
        let places = match self.of.places.try_lock() {
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            // In a child that may not use the store, whoever holds the lock may not exist.
            Err(TryLockError::WouldBlock) if inside.is_err() => Err(()),
            Err(TryLockError::WouldBlock) => Ok(lock(&self.of.places)),
            Ok(places) => Ok(places),
        };
        if let Ok(mut places) = places
            && let Some(place) = places.by_name.get_mut(self.name)
        {
            place.refreshing = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::store::{NewItem, Options, SearchRequest, Store};

    fn names(store: &Store) -> Vec<String> {
        let places = store.site.shelves.places.lock().unwrap();
        let mut names: Vec<String> = places.by_name.keys().cloned().collect();
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
        let one = store.shelf("a").unwrap().unwrap().held_bytes();
        drop(store);
        let store = open(2 * one + one / 2);
        for name in ["a", "b", "a", "c"] {
            ask(&store, name);
        }
        assert_eq!(names(&store), ["a", "c"]);
        drop(store);
        // One that is larger than the bound by itself can be searched all the same.
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
