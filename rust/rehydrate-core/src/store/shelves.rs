//! The shelves that are in memory, one a namespace, each refreshed by one thread at a time.
//!
//! The lock is taken inside the gate only and for a moment, so that no fork leaves it locked.
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::connections::{Connections, lock};
use super::segments::Folder;
use super::shelf::{self, Shelf};
use super::{gate, namespace::Namespace};
use crate::error::Result;
use crate::interrupt::poll;

/// Namespaces that stay in memory.
const KEPT: usize = 256;
const PAUSE: Duration = Duration::from_micros(300);

/// The shelves of one store.
#[derive(Default)]
pub(super) struct Shelves {
    places: Mutex<FxHashMap<String, Place>>,
}

#[derive(Default)]
struct Place {
    shelf: Option<Arc<Shelf>>,
    /// The process whose thread is refreshing it: a forked child does not have that thread.
    refreshing: Option<u32>,
    used: u64,
}

impl Shelves {
    /// The shelf of a namespace as it is now; None where it does not exist.
    pub fn get(&self, connections: &Connections, folder: &Folder, name: &str) -> Result<Option<Arc<Shelf>>> {
        loop {
            let row = connections.read(|transaction| Namespace::find(transaction, name).map_err(Into::into))?;
            let Some(row) = row else { return Ok(None) };
            let before = {
                let _inside = gate::enter(&connections.path)?;
                let mut places = lock(&self.places);
                let clock = places.values().map(|place| place.used).max().unwrap_or(0);
                let place = places.entry(name.to_owned()).or_default();
                place.used = clock + 1;
                match &place.shelf {
                    Some(shelf) if shelf.is_current(&row) => return Ok(Some(Arc::clone(shelf))),
                    shelf if place.refreshing != Some(std::process::id()) => {
                        let before = shelf.clone();
                        place.refreshing = Some(std::process::id());
                        Some((before, Turn { of: self, connections, name }))
                    }
                    _ => None,
                }
            };
            match before {
                Some((before, turn)) => {
                    let shelf = shelf::refresh(connections, folder, name, before.as_deref())?.map(Arc::new);
                    turn.done(shelf.clone())?;
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
        Ok(lock(&self.places).get(name).and_then(|place| place.shelf.clone()))
    }

    /// Forget a namespace, or all.
    pub fn forget(&self, connections: &Connections, name: Option<&str>) -> Result<()> {
        let _inside = gate::enter(&connections.path)?;
        let mut places = lock(&self.places);
        places
            .iter_mut()
            .filter(|(key, _)| name.is_none_or(|name| name == *key))
            .for_each(|(_, place)| place.shelf = None);
        Ok(())
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
        if let Some(place) = places.get_mut(self.name) {
            place.shelf = shelf;
        }
        let idle = |place: &Place| place.refreshing.is_none();
        while places.len() > KEPT
            && let Some(oldest) = places
                .iter()
                .filter(|(_, place)| idle(place))
                .min_by_key(|(_, place)| place.used)
                .map(|(name, _)| name.clone())
        {
            places.remove(&oldest);
        }
        Ok(())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Without the gate only where this process may not use the store any more.
        let _inside = gate::enter(&self.connections.path);
        if let Some(place) = lock(&self.of.places).get_mut(self.name) {
            place.refreshing = None;
        }
    }
}
