//! Processes that end soon: what one has indexed the next need not index again.
use std::sync::Mutex;

use rehydrate_core::error::Error;
use rehydrate_core::interrupt::interruptible;
use rehydrate_core::store::{Options, SearchRequest, Store};

use super::fixture::{StoreFixture, corpus, found};

/// Fewer are not worth a file.
const FILED: u64 = 2048;
const MANY: usize = 12_000;

/// Items that no file holds.
fn pending(store: &Store) -> u64 {
    store.stats("alice").unwrap().pending
}

/// A store with many items and no index, as a process leaves it that was killed.
fn unindexed() -> StoreFixture {
    let fixture = StoreFixture::new();
    fixture.open().add("alice", &corpus(MANY), None).unwrap();
    std::fs::remove_dir_all(fixture.path().with_file_name("memory.db-index")).ok();
    let file = rusqlite::Connection::open(fixture.path()).unwrap();
    file.execute("DELETE FROM segments", []).unwrap();
    drop(file);
    assert_eq!(pending(&fixture.open()), MANY as u64);
    fixture
}

#[test]
fn a_search_leaves_what_it_indexed_to_the_next_process() {
    let fixture = unindexed();
    let store = fixture.open();
    assert_eq!(found(&store, "alice", "who repaired the penguin n77x").len(), 10);
    drop(store);
    let store = fixture.open();
    assert!(pending(&store) < FILED);
    assert_eq!(found(&store, "alice", "who repaired the penguin n77x").len(), 10);
    assert_eq!(store.verify().unwrap().problems, [""; 0]);
}

#[test]
fn a_search_that_is_stopped_leaves_what_it_had_indexed_by_then() {
    static SEARCHED: Mutex<Option<(&Store, u64)>> = Mutex::new(None);
    /// As soon as anything is indexed.
    fn stop() -> bool {
        let (store, before) = SEARCHED.lock().unwrap().unwrap();
        interruptible(|| false, || Ok(pending(store) < before)).unwrap()
    }
    let fixture = unindexed();
    let mut left = vec![MANY as u64];
    while left[left.len() - 1] >= FILED {
        let store: &Store = Box::leak(Box::new(fixture.open()));
        *SEARCHED.lock().unwrap() = Some((store, left[left.len() - 1]));
        match interruptible(stop, || store.search("alice", &SearchRequest::new("the penguin", 3))) {
            Ok(hits) => assert_eq!(hits.len(), 3),
            Err(error) => assert_eq!(error, Error::Interrupted),
        }
        store.close().unwrap();
        left.push(pending(&fixture.open()));
        assert!(left.len() < 20, "{left:?}");
    }
    assert!(left.is_sorted_by(|before, after| before > after), "{left:?}");
    assert_eq!(fixture.open().verify().unwrap().problems, [""; 0]);
}

#[test]
fn closing_leaves_an_index_of_what_was_added() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    store.add("alice", &corpus(3_000), None).unwrap();
    store.close().unwrap();
    assert!(pending(&fixture.open()) < FILED);
}

#[test]
fn many_small_additions_by_many_processes_are_indexed_by_whoever_searches() {
    let fixture = StoreFixture::new();
    for some in corpus(6_000).chunks(1_000) {
        let store = fixture.open();
        store.add("alice", some, None).unwrap();
        store.close().unwrap();
    }
    assert_eq!(pending(&fixture.open()), 6_000, "none of them had enough for a file");
    let store = fixture.open();
    assert_eq!(found(&store, "alice", "who painted the violin n35x").len(), 10);
    assert!(pending(&store) < FILED);
}

#[test]
fn a_store_that_nobody_may_write_to_is_searched_all_the_same() {
    let fixture = unindexed();
    let store = fixture.with(Options { is_read_only: true, ..Options::default() });
    assert_eq!(found(&store, "alice", "who repaired the penguin n77x").len(), 10);
    assert_eq!(pending(&store), MANY as u64);
}
