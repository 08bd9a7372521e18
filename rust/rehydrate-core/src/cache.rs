//! A bounded cache keyed by content hash, shared by all threads of a process.
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHasher;

use crate::text::TextAnalysis;

/// The hash of a text: 128 bits, so that two texts of one process never meet.
pub type ContentHash = u128;

/// Hash of `text`, told apart by `domain` where the same text is read in two ways.
#[must_use]
pub fn content_hash(text: &str, domain: u64) -> ContentHash {
    xxhash_rust::xxh3::xxh3_128_with_seed(text.as_bytes(), domain)
}

const SHARDS: usize = 16;

type Map<V> = std::collections::HashMap<ContentHash, Arc<V>, BuildHasherDefault<FxHasher>>;

/// Values by content hash, at most about `capacity_bytes` of them.
///
/// Two generations a shard stand in for a true LRU list: a hit in the old generation is moved to the young one, and
/// when the young one has taken half the capacity the old one is dropped whole. A value in use stays alive through its
/// `Arc`.
pub struct ContentCache<V> {
    shards: [Mutex<Shard<V>>; SHARDS],
    young_bytes_limit: usize,
}

/// A cache that nobody else can use until this is dropped.
pub struct Held<'a, V = TextAnalysis> {
    _shards: [MutexGuard<'a, Shard<V>>; SHARDS],
}

struct Shard<V> {
    young: Map<V>,
    old: Map<V>,
    young_bytes: usize,
}

impl<V> ContentCache<V> {
    /// An empty cache that holds about `capacity_bytes`.
    #[must_use]
    pub fn new(capacity_bytes: usize) -> Self {
        let shard = || Mutex::new(Shard { young: Map::default(), old: Map::default(), young_bytes: 0 });
        Self { shards: std::array::from_fn(|_| shard()), young_bytes_limit: capacity_bytes / 2 / SHARDS }
    }

    /// The value under `key`, or what `make` yields, charged with `cost_bytes`. `make` runs outside the lock; when two
    /// threads make the same value, the first one in wins.
    pub fn get_or_insert_with(&self, key: ContentHash, cost_bytes: usize, make: impl FnOnce() -> V) -> Arc<V> {
        if let Some(hit) = self.shard(key).get(key, cost_bytes, self.young_bytes_limit) {
            return hit;
        }
        let made = Arc::new(make());
        self.shard(key).insert(key, made, cost_bytes, self.young_bytes_limit)
    }

    /// Number of values held.
    #[must_use]
    pub fn len(&self) -> usize {
        (0..SHARDS as u128).map(|shard| self.shard(shard)).map(|shard| shard.young.len() + shard.old.len()).sum()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forget everything.
    pub fn clear(&self) {
        for shard in 0..SHARDS as u128 {
            let mut shard = self.shard(shard);
            shard.young.clear();
            shard.old.clear();
            shard.young_bytes = 0;
        }
    }

    /// All locks at once. Nobody else ever holds two, and what is done under one takes no other lock and is short.
    #[must_use]
    pub fn hold(&self) -> Held<'_, V> {
        Held { _shards: std::array::from_fn(|shard| self.shard(shard as u128)) }
    }

    fn shard(&self, key: ContentHash) -> MutexGuard<'_, Shard<V>> {
        // A panic while the lock was held leaves at worst a wrong byte count: the cache goes on.
        self.shards[(key % SHARDS as u128) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Shard<V> {
    fn get(&mut self, key: ContentHash, cost_bytes: usize, limit: usize) -> Option<Arc<V>> {
        if let Some(value) = self.young.get(&key) {
            return Some(Arc::clone(value));
        }
        let value = self.old.remove(&key)?;
        Some(self.insert(key, value, cost_bytes, limit))
    }

    fn insert(&mut self, key: ContentHash, value: Arc<V>, cost_bytes: usize, limit: usize) -> Arc<V> {
        if self.young_bytes + cost_bytes > limit && !self.young.is_empty() {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        let kept = self.young.entry(key).or_insert_with(|| {
            self.young_bytes += cost_bytes;
            value
        });
        Arc::clone(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once() {
        let cache = ContentCache::new(1 << 20);
        let key = content_hash("text", 0);
        let first = cache.get_or_insert_with(key, 10, || 1);
        let second = cache.get_or_insert_with(key, 10, || 2);
        assert_eq!((*first, *second, cache.len()), (1, 1, 1));
    }

    #[test]
    fn the_same_text_in_two_domains_is_two_keys() {
        assert_ne!(content_hash("text", 0), content_hash("text", 1));
    }

    #[test]
    fn what_is_used_survives_and_the_rest_is_bounded() {
        let cache = ContentCache::new(SHARDS * 2 * 100);
        let hot = 0_u128;
        for round in 0..1_000_u128 {
            cache.get_or_insert_with(hot, 10, || round);
            cache.get_or_insert_with((round + 1) * SHARDS as u128, 10, || round);
        }
        assert_eq!(*cache.get_or_insert_with(hot, 10, || 7), 0, "the value in steady use was dropped");
        assert!(cache.len() <= 20, "{} values of 10 bytes in 200 bytes", cache.len());
    }
}
