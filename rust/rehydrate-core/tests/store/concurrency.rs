//! Several threads and stores at one file: nothing is lost, and nobody gets an error that it is locked.
use std::time::Duration;

use rehydrate_core::error::StoreProblem;
use rehydrate_core::store::{Options, Store};

use super::fixture::{StoreFixture, add, found, item, kind_of, texts};

#[test]
fn threads_with_connections_of_their_own_lose_nothing_and_are_never_told_it_is_locked() {
    let fixture = StoreFixture::new();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let path = fixture.path();
            std::thread::spawn(move || {
                // As two processes would: a store opened by each pair of threads.
                let store = Store::open(&path, Options::default()).unwrap();
                std::thread::scope(|scope| {
                    for half in 0..2 {
                        let store = &store;
                        scope.spawn(move || {
                            for i in 0..10 {
                                let text = format!("{writer} {half} {i}");
                                let handle = add(store, "alice", &[&text]).remove(0);
                                assert!(store.get("alice", &[handle]).unwrap()[0].is_some());
                                add(store, "alice", &["said by all"]);
                            }
                        });
                    }
                });
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(texts(&fixture.open(), "alice").len(), 8 * 2 * 10 + 1);
}

#[test]
fn a_writer_that_waits_too_long_is_told_who_is_in_the_way() {
    let fixture = StoreFixture::new();
    let store = fixture.with(Options { busy: Duration::from_millis(50), ..Options::default() });
    add(&store, "alice", &["text"]);
    let other = rusqlite::Connection::open(fixture.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(kind_of(store.add("alice", &[item("x")], None)), StoreProblem::Busy);
    assert_eq!(texts(&store, "alice"), ["text"]);
    other.execute_batch("ROLLBACK").unwrap();
    add(&store, "alice", &["x"]);
}

#[test]
fn searching_while_others_write_shows_every_acknowledged_item() {
    let fixture = StoreFixture::new();
    fixture.open();
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let fixture = &fixture;
            scope.spawn(move || {
                let store = fixture.open();
                for i in 0..15 {
                    let word = format!("w{writer}i{i}q");
                    add(&store, "alice", &[&format!("a word {word} of its own")]);
                    let hits = found(&store, "alice", &word);
                    assert!(hits.iter().any(|(text, _)| text.contains(&word)), "{word}: {hits:?}");
                    if i % 5 == 0 {
                        store.flush().unwrap();
                    }
                }
            });
        }
    });
    let report = fixture.open().verify().unwrap();
    assert_eq!((report.items, report.problems), (45, vec![]));
}
