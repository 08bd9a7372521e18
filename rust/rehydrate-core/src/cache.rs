//! A bounded cache keyed by content hash, shared by all threads of a process.
mod handed;

use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHasher;

pub(crate) use handed::Handed;

/// The hash of a text: 128 bits, so that two texts of one process never meet.
pub type ContentHash = u128;

/// Hash of `text`, distinguished by `domain` where the same text is read in two ways.
#[must_use]
pub fn content_hash(text: &str, domain: u64) -> ContentHash {
    bytes_hash(text.as_bytes(), domain)
}

/// The same of bytes.
#[must_use]
pub fn bytes_hash(bytes: &[u8], domain: u64) -> ContentHash {
    xxhash_rust::xxh3::xxh3_128_with_seed(bytes, domain)
}

/// A value that a cache can hold: cheap to clone (an `Arc` inside), and of a known size.
pub trait Cached: Clone {
    /// Bytes of memory it takes, with its allocation and without its slot in the cache.
    fn held_bytes(&self) -> usize;
}

const SHARDS: usize = 16;

type Map<V> = std::collections::HashMap<ContentHash, V, BuildHasherDefault<FxHasher>>;

/// Values by content hash, at most about `capacity_bytes` of them.
///
/// Two generations per shard replace a true LRU list: a hit in the old generation is moved to the young one, and when
/// the young one has half the capacity the old one is dropped. A value in use stays alive through its clones.
pub struct ContentCache<V> {
    shards: [Mutex<Shard<V>>; SHARDS],
    young_bytes_limit: AtomicUsize,
}

struct Shard<V> {
    young: Map<V>,
    old: Map<V>,
    young_bytes: usize,
}

impl<V: Cached> ContentCache<V> {
    /// Bytes that a value's slot in the cache takes: its key, itself and a control byte in tables that grow by
    /// doubling, so between 7/16 and 7/8 full.
    pub const SLOT_BYTES: usize = (size_of::<(ContentHash, V)>() + 1) * 3 / 2;

    /// An empty cache that holds about `capacity_bytes`.
    #[must_use]
    pub fn new(capacity_bytes: usize) -> Self {
        let shard = || Mutex::new(Shard { young: Map::default(), old: Map::default(), young_bytes: 0 });
        Self { shards: std::array::from_fn(|_| shard()), young_bytes_limit: AtomicUsize::new(share(capacity_bytes)) }
    }

    /// Hold at most about this many bytes from now on. Older values beyond that are forgotten first.
    pub fn set_capacity(&self, capacity_bytes: usize) {
        let limit = share(capacity_bytes);
        self.young_bytes_limit.store(limit, Ordering::Relaxed);
        for shard in &self.shards {
            lock(shard).shrink(limit);
        }
    }

    /// The value under `key` if it `suffices`.
    pub fn find(&self, key: ContentHash, suffices: impl Fn(&V) -> bool) -> Option<V> {
        let limit = self.young_bytes_limit.load(Ordering::Relaxed);
        self.shard(key).get(key, limit).filter(suffices)
    }

    /// The value under `key` if it `suffices`, or else what `grow` makes of it, or of nothing. `grow` runs outside the
    /// lock; when two threads make the same value, the first one in wins.
    pub fn get_or_grow(
        &self,
        key: ContentHash,
        suffices: impl Fn(&V) -> bool,
        grow: impl FnOnce(Option<&V>) -> V,
    ) -> V {
        let limit = self.young_bytes_limit.load(Ordering::Relaxed);
        let found = self.shard(key).get(key, limit);
        match found {
            Some(value) if suffices(&value) => value,
            found => {
                let grown = grow(found.as_ref());
                self.shard(key).insert(key, grown, suffices, limit)
            }
        }
    }

    /// Number of values held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sum(|shard| shard.young.len() + shard.old.len())
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes held, by the values' own account.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.sum(|shard| shard.young.values().chain(shard.old.values()).map(charge).sum())
    }

    /// Forget everything.
    pub fn clear(&self) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            (shard.young, shard.old, shard.young_bytes) = (Map::default(), Map::default(), 0);
        }
    }

    fn sum(&self, of_shard: impl Fn(&Shard<V>) -> usize) -> usize {
        self.shards.iter().map(|shard| of_shard(&lock(shard))).sum()
    }

    fn shard(&self, key: ContentHash) -> MutexGuard<'_, Shard<V>> {
        lock(&self.shards[(key % SHARDS as u128) as usize])
    }
}

/// A panic while the lock was held leaves at worst a wrong byte count: the cache goes on.
fn lock<V>(shard: &Mutex<Shard<V>>) -> MutexGuard<'_, Shard<V>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that the young generation of one shard may hold.
fn share(capacity_bytes: usize) -> usize {
    capacity_bytes / 2 / SHARDS
}

fn charge<V: Cached>(value: &V) -> usize {
    value.held_bytes() + ContentCache::<V>::SLOT_BYTES
}

impl<V: Cached> Shard<V> {
    fn get(&mut self, key: ContentHash, limit: usize) -> Option<V> {
        if let Some(value) = self.young.get(&key) {
            return Some(value.clone());
        }
        let value = self.old.remove(&key)?;
        Some(self.insert(key, value, |_| true, limit))
    }

    /// Hold at most `limit` bytes per generation, even if that means holding nothing.
    fn shrink(&mut self, limit: usize) {
        if self.old.values().map(charge).sum::<usize>() > limit {
            self.old = Map::default();
        }
        if self.young_bytes > limit {
            (self.young, self.young_bytes) = (Map::default(), 0);
        }
    }

    /// Put `value` in, unless the present value `suffices`. Returns the value that is there then.
    fn insert(&mut self, key: ContentHash, value: V, suffices: impl Fn(&V) -> bool, limit: usize) -> V {
        let charged = charge(&value);
        if self.young_bytes + charged > limit && !self.young.is_empty() {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        match self.young.get_mut(&key) {
            Some(there) if suffices(there) => return there.clone(),
            Some(there) => {
                self.young_bytes = self.young_bytes.saturating_sub(charge(there));
                *there = value.clone();
            }
            None => {
                self.young.insert(key, value.clone());
            }
        }
        self.young_bytes += charged;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that says it takes ten bytes.
    #[derive(Clone, Debug, PartialEq)]
    struct Ten(u128);

    impl Cached for Ten {
        fn held_bytes(&self) -> usize {
            10
        }
    }

    const CHARGE: usize = 10 + ContentCache::<Ten>::SLOT_BYTES;

    #[test]
    fn a_value_is_made_once_while_it_suffices() {
        let cache = ContentCache::new(1 << 20);
        let key = content_hash("text", 0);
        assert_eq!(cache.get_or_grow(key, |_| true, |_| Ten(1)), Ten(1));
        assert_eq!(cache.get_or_grow(key, |_| true, |_| Ten(2)), Ten(1));
        assert_eq!(cache.get_or_grow(key, |value| value.0 > 1, |before| Ten(before.unwrap().0 + 1)), Ten(2));
        assert_eq!((cache.len(), cache.held_bytes()), (1, CHARGE));
    }

    #[test]
    fn the_same_text_in_two_domains_is_two_keys() {
        assert_ne!(content_hash("text", 0), content_hash("text", 1));
    }

    #[test]
    fn a_smaller_capacity_holds_at_once_and_a_larger_one_from_then_on() {
        let cache = ContentCache::new(SHARDS * 2 * 10 * CHARGE);
        let fill = |round: u128| {
            for key in 0..1_000 {
                cache.get_or_grow(round * 1_000 + key, |_| true, |_| Ten(key));
            }
        };
        fill(0);
        let full = cache.held_bytes();
        let smaller = SHARDS * 2 * 3 * CHARGE;
        cache.set_capacity(smaller);
        assert!(cache.held_bytes() <= smaller);
        fill(1);
        assert!(!cache.is_empty() && cache.held_bytes() <= smaller);
        cache.set_capacity(SHARDS * 2 * 40 * CHARGE);
        fill(2);
        assert!(cache.held_bytes() > full);
    }

    #[test]
    fn what_is_used_survives_and_the_rest_is_bounded() {
        let capacity = SHARDS * 2 * 10 * CHARGE;
        let cache = ContentCache::new(capacity);
        let hot = 0_u128;
        for round in 0..1_000_u128 {
            cache.get_or_grow(hot, |_| true, |_| Ten(round));
            cache.get_or_grow((round + 1) * SHARDS as u128, |_| true, |_| Ten(round));
        }
        assert_eq!(cache.get_or_grow(hot, |_| true, |_| Ten(7)), Ten(0), "the value in steady use was dropped");
        assert!(cache.len() <= 20, "{} values where 20 fit", cache.len());
        assert!(cache.held_bytes() <= capacity);
    }
}
