//! Index files: no damage shows in a result, and however they came about they hold the rows.
use std::path::PathBuf;

use rehydrate_core::error::StoreProblem;
use rehydrate_core::store::{Filter, NewItem, Options, Purge, Store, Tier};

use super::fixture::{FIRST_PAGE, StoreFixture, add, corpus, found, from, item, kind_of, texts};

fn segment_files(fixture: &StoreFixture) -> Vec<PathBuf> {
    let folder = fixture.path().with_file_name("memory.db-index");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "segment")).collect();
    files.sort();
    files
}

#[test]
fn index_files_damaged_in_any_way_change_no_result() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    for chunk in corpus(600).chunks(150) {
        store.add("alice", chunk, None).unwrap();
        store.flush().unwrap();
    }
    add(&store, "alice", &["the newest penguin is in no file"]);
    let queries = ["penguin repaired", "n77x", "somebody counted the violin", "glacier", "day 300"];
    let answers = |store: &Store| queries.map(|query| found(store, "alice", query));
    let expected = answers(&store);
    assert!(expected.iter().all(|hits| !hits.is_empty()));
    drop(store);
    let mut random = 11_usize;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for round in 0..60 {
        let files = segment_files(&fixture);
        assert!(!files.is_empty());
        let file = &files[next(files.len())];
        let mut bytes = std::fs::read(file).unwrap();
        match round % 6 {
            0 => std::fs::remove_file(file).unwrap(),
            1 => std::fs::write(file, &bytes[..next(bytes.len())]).unwrap(),
            2 => {
                let at = next(bytes.len());
                bytes[at] ^= 1 << next(8);
                std::fs::write(file, &bytes).unwrap();
            }
            3 => std::fs::copy(file, &files[next(files.len())]).map(drop).unwrap(),
            4 => {
                bytes.extend_from_slice(b"more");
                std::fs::write(file, &bytes).unwrap();
            }
            _ => {
                let from = next(bytes.len());
                bytes[from..].fill(0);
                std::fs::write(file, &bytes).unwrap();
            }
        }
        let store = fixture.open();
        assert_eq!(answers(&store), expected, "round {round}");
        if round % 2 == 0 {
            let report = store.verify().unwrap();
            assert_eq!(report.problems, [""; 0]);
        }
        store.flush().unwrap();
        let report = store.verify().unwrap();
        assert_eq!((report.items, report.problems, report.damaged), (601, vec![], 0), "round {round}");
        assert_eq!(answers(&store), expected, "round {round}, built again");
    }
}

/// Change the table of index files as a stranger may.
fn edit(fixture: &StoreFixture, statement: &str) {
    let connection = rusqlite::Connection::open(fixture.path()).unwrap();
    connection.execute_batch(statement).unwrap();
}

#[test]
fn a_table_that_names_somebody_elses_files_has_none_of_them_read_or_removed() {
    let outside = tempfile::tempdir().unwrap();
    let (file, folder) = (outside.path().join("key"), outside.path().join("documents"));
    let absolute = file.to_str().unwrap().to_owned();
    let names = [absolute.clone(), folder.to_str().unwrap().to_owned(), "../key".into(), "../documents".into()];
    let more = ["lock", ".", "..", "", "/", "a/b.segment", "../ab.segment", "ab.segment/..", "\u{e9}.segment"];
    type Act = (&'static str, fn(&Store));
    let act: [Act; 5] = [
        ("search", |store| assert_eq!(found(store, "alice", "n77x").len(), 10)),
        ("purge", |store| assert_eq!(store.purge("alice", &Purge::Namespace).unwrap(), 200)),
        ("verify", |store| assert_eq!(store.verify().unwrap().problems, [""; 0])),
        ("flush", |store| store.flush().unwrap()),
        ("rebuild", |store| assert_eq!(store.rebuild(None).unwrap(), 200)),
    ];
    for (what, act) in act {
        for name in names.iter().map(String::as_str).chain(more) {
            let fixture = StoreFixture::new();
            let store = fixture.open();
            store.add("alice", &corpus(200), None).unwrap();
            store.flush().unwrap();
            store.close().unwrap();
            // "../" leads out of the store's folder.
            let beside = fixture.path().with_file_name("key");
            for kept in [&file, &beside] {
                std::fs::write(kept, "years of work").unwrap();
            }
            for kept in [&folder, &fixture.path().with_file_name("documents")] {
                std::fs::create_dir_all(kept).unwrap();
                std::fs::write(kept.join("thesis"), "years of work").unwrap();
            }
            std::fs::write(fixture.path().with_file_name("ab.segment"), "not an index file of ours").unwrap();
            edit(&fixture, &format!("UPDATE segments SET file = '{name}'"));
            act(&fixture.open());
            for kept in [&file, &folder.join("thesis"), &beside, &fixture.path().with_file_name("documents/thesis")] {
                assert_eq!(std::fs::read_to_string(kept).unwrap(), "years of work", "{what}, {name:?}: {kept:?}");
            }
            assert!(fixture.path().with_file_name("ab.segment").exists(), "{what}, {name:?}");
        }
    }
}

#[test]
fn what_somebody_put_in_the_index_folder_is_left_alone() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    store.add("alice", &corpus(200), None).unwrap();
    store.flush().unwrap();
    let file = segment_files(&fixture).remove(0);
    let others = ["notes.txt", "thesis.segment", "ab.segment.bak"].map(|name| file.with_file_name(name));
    for other in &others {
        std::fs::write(other, "years of work").unwrap();
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    std::fs::write(file.join("thesis"), "years of work").unwrap();
    assert_eq!(found(&store, "alice", "n77x").len(), 10);
    assert_eq!(kind_of(store.purge("alice", &Purge::Namespace)), StoreProblem::Remains);
    assert!(others.iter().chain([&file.join("thesis")]).all(|kept| kept.exists()));
    std::fs::remove_file(file.join("thesis")).unwrap();
    store.purge("alice", &Purge::Namespace).unwrap();
    assert!(!file.exists() && others.iter().all(|kept| kept.exists()));
}

#[test]
fn a_purge_leaves_no_byte_of_what_was_deleted_before_nor_its_index_files_and_names() {
    let source = |name: &str| Purge::Source(name.into());
    let all = [source("secret.md"), source("other.md"), Purge::Thread("secret.md".into()), Purge::Namespace];
    for (what, is_rebuilt) in all.into_iter().flat_map(|what| [(what.clone(), false), (what, true)]) {
        let fixture = StoreFixture::new();
        let store = fixture.open();
        add(&store, "alice", &["plain"]);
        store.flush().unwrap();
        let kept = segment_files(&fixture);
        let named = |i: usize| NewItem { principal: "Annabel".into(), ..from("secret.md", &format!("xyzzy {i}")) };
        let items: Vec<NewItem> = (0..50).map(named).collect();
        let added = store.add("alice", &items, None).unwrap().added;
        store.flush().unwrap();
        let holds = |word: &str| memchr::memmem::find(&fixture.bytes(), word.as_bytes()).is_some();
        let files = segment_files(&fixture);
        let handles: Vec<String> = added.into_iter().map(|added| added.handle).collect();
        assert_eq!(store.forget("alice", &handles).unwrap(), 50);
        if is_rebuilt {
            store.rebuild(None).unwrap();
        }
        assert!(holds("xyzzy") && holds("Annabel") && holds("secret.md"));
        let rest = usize::from(what == Purge::Namespace);
        assert_eq!(store.purge("alice", &what).unwrap(), rest, "{what:?}");
        assert!(!holds("xyzzy") && !holds("Annabel") && !holds("secret.md"), "{what:?}");
        let stays = |file: &PathBuf| rest == 0 && !is_rebuilt && kept.contains(file);
        assert!(files.iter().all(|file| file.exists() == stays(file)), "{what:?}");
        assert_eq!(store.purge("alice", &what).unwrap(), 0);
        let report = fixture.open().verify().unwrap();
        assert_eq!((report.items, report.problems, report.damaged), (1 - rest as u64, vec![], 0), "{what:?}");
    }
}

#[test]
fn another_process_that_has_the_index_in_memory_follows_a_purge() {
    let fixture = StoreFixture::new();
    let (store, other) = (fixture.open(), fixture.open());
    let mut kept = 0;
    for round in 0..6 {
        let secret: Vec<NewItem> = (0..7).map(|i| from("secret.md", &format!("xyzzy {round} {i}"))).collect();
        let handles: Vec<String> =
            store.add("alice", &secret, None).unwrap().added.into_iter().map(|a| a.handle).collect();
        add(&store, "alice", &[&format!("plain {round}")]);
        kept += 1;
        if round % 2 == 0 {
            other.flush().unwrap();
        }
        assert!(!found(&other, "alice", "xyzzy").is_empty());
        store.forget("alice", &handles[..3]).unwrap();
        if round % 3 == 0 {
            assert!(!found(&other, "alice", "xyzzy").is_empty());
        }
        let what = if round < 4 { Purge::Source("secret.md".into()) } else { Purge::Thread("none".into()) };
        store.purge("alice", &what).unwrap();
        let left = if round < 4 { 0 } else { 4 * (round - 3) };
        let shown = found(&other, "alice", "xyzzy").into_iter().filter(|(text, _)| text.starts_with("xyzzy")).count();
        assert_eq!(shown, left.min(10), "round {round}");
        let report = other.verify().unwrap();
        assert_eq!((report.items as usize, report.problems, report.damaged), (kept + left, vec![], 0), "round {round}");
    }
}

#[test]
fn names_of_purged_items_go_and_names_of_others_stay() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let named = |thread: &str, who: &str, text: &str| NewItem {
        thread: thread.into(),
        principal: who.into(),
        tool: "Read".into(),
        ..from(&format!("{who}.md"), text)
    };
    let items = [named("one", "Annabel", "xyzzy"), named("one", "Bob", "plugh"), named("two", "Bob", "plain")];
    store.add("alice", &items, None).unwrap();
    store.add("other", &items[..1], None).unwrap();
    assert_eq!(store.purge("other", &Purge::Thread("one".into())).unwrap(), 1);
    let before = store.list("alice", &Filter::default(), FIRST_PAGE).unwrap().items;
    assert_eq!(store.purge("alice", &Purge::Thread("one".into())).unwrap(), 2);
    let holds = |word: &str| memchr::memmem::find(&fixture.bytes(), word.as_bytes()).is_some();
    assert!(!holds("Annabel") && holds("Bob.md"));
    assert_eq!(store.list("alice", &Filter::default(), FIRST_PAGE).unwrap().items, before[2..]);
}

#[test]
fn numbers_in_the_table_of_index_files_that_nobody_of_ours_wrote_change_no_result() {
    let (largest, least) = (i64::MAX, i64::MIN);
    for change in [
        format!("low = {least}"),
        "low = -1".into(),
        "low = high".into(),
        format!("high = {largest}"),
        "high = -5".into(),
        format!("low = {least}, high = {largest}"),
        format!("bytes = {largest}"),
        "bytes = -1".into(),
        "items = -1".into(),
        "checksum = 'text'".into(),
        "checksum = zeroblob(3)".into(),
        "file = x'00ff'".into(),
        "low = 'text'".into(),
        "file = zeroblob(100000)".into(),
    ] {
        let fixture = StoreFixture::new();
        let store = fixture.open();
        store.add("alice", &corpus(200), None).unwrap();
        store.flush().unwrap();
        let expected = found(&store, "alice", "n77x");
        store.close().unwrap();
        edit(&fixture, &format!("UPDATE segments SET {change}"));
        let store = fixture.open();
        assert_eq!(found(&store, "alice", "n77x"), expected, "{change}");
        add(&store, "alice", &["the newest penguin"]);
        store.flush().unwrap();
        let report = store.verify().unwrap();
        assert_eq!((report.problems, report.damaged, report.items), (vec![], 0, 201), "{change}");
        assert_eq!(store.stats("alice").unwrap().pending, 0, "{change}");
    }
}

#[test]
fn numbers_of_the_truth_that_nobody_of_ours_wrote_are_a_typed_error() {
    let (largest, least) = (i64::MAX, i64::MIN);
    for change in [
        format!("namespaces SET dim = {largest}, space = 'x'"),
        "namespaces SET dim = -1, space = 'x'".into(),
        format!("namespaces SET rev = {least}"),
        format!("namespaces SET rev = {largest}"),
        format!("namespaces SET items = {least}"),
        format!("namespaces SET bytes = {largest}"),
        format!("namespaces SET generation = {largest}"),
        format!("namespaces SET pruned = {least}"),
        format!("clock SET rev = {largest}"),
        format!("items SET bytes = {least}"),
        format!("threads SET records = {largest}"),
        format!("threads SET id = {largest}"),
        format!("threads SET bytes = {least}"),
        "items SET handle = x'00' WHERE id = (SELECT max(id) FROM items)".into(),
        "namespaces SET rev = 'text'".into(),
    ] {
        let fixture = StoreFixture::new();
        let store = fixture.open();
        store.add("alice", &corpus(50), None).unwrap();
        let record = rehydrate_core::store::Record { kind: 1, time: 0.0, body: "said".into() };
        store.append_records("alice", "t", 0, std::slice::from_ref(&record)).unwrap();
        store.flush().unwrap();
        store.close().unwrap();
        edit(&fixture, &format!("UPDATE {change}"));
        let store = fixture.with(Options::default());
        let is_corrupt = |problem: Option<StoreProblem>| problem.is_none_or(|problem| problem == StoreProblem::Corrupt);
        let problem = |result: rehydrate_core::error::Result<()>| result.err().map(|error| kind_of::<()>(Err(error)));
        let request = rehydrate_core::store::SearchRequest::new("n7x", 5);
        let problems = [
            problem(store.search("alice", &request).map(drop)),
            problem(store.add("alice", &[item("another")], None).map(drop)),
            problem(store.records("alice", "t", 0, 9).map(drop)),
            problem(store.append_records("alice", "t", 1, &[record]).map(drop)),
            problem(store.purge_thread("alice", "t").map(drop)),
            problem(store.stats("alice").map(drop)),
            match store.verify() {
                Ok(report) => (!report.problems.is_empty()).then_some(StoreProblem::Corrupt),
                error => problem(error.map(drop)),
            },
            problem(store.purge("alice", &Purge::Namespace).map(drop)),
        ];
        assert!(problems.into_iter().all(is_corrupt), "{change}: {problems:?}");
        assert!(problems.into_iter().any(|problem| problem.is_some()), "{change}: nobody said so");
    }
}

#[test]
fn index_files_altered_under_right_checksums_lose_nothing_and_are_made_anew() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    store.add("alice", &corpus(300), None).unwrap();
    store.add("bob", &corpus(20), None).unwrap();
    store.flush().unwrap();
    let queries = ["penguin repaired", "n77x", "somebody counted the violin"];
    let answers = |store: &Store| queries.map(|query| found(store, "alice", query));
    let expected = answers(&store);
    drop(store);
    let table = 16 * 48;
    for section in 0..48 {
        for byte in [0x00, 0xFF, 0x05] {
            // The larger file, of alice.
            let file = segment_files(&fixture).into_iter().max_by_key(|file| file.metadata().unwrap().len()).unwrap();
            let mut bytes = std::fs::read(&file).unwrap();
            let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
            let (at, length) = (number(32 + 16 * section), number(32 + 16 * section + 8));
            assert!(at >= 32 + table && at + length <= bytes.len());
            bytes[at..at + length].fill(byte);
            let sum = xxhash_rust::xxh3::xxh3_64(&bytes[32..]);
            bytes[24..32].copy_from_slice(&sum.to_le_bytes());
            std::fs::write(&file, &bytes).unwrap();
            let sum = xxhash_rust::xxh3::xxh3_128(&bytes).to_be_bytes();
            let connection = rusqlite::Connection::open(fixture.path()).unwrap();
            let name = file.file_name().unwrap().to_str().unwrap();
            connection.execute("UPDATE segments SET checksum = ?1 WHERE file = ?2", (sum, name)).unwrap();
            drop(connection);
            let store = fixture.open();
            for hits in answers(&store) {
                assert!(hits.iter().all(|(text, _)| text.contains("near the")), "section {section}, {byte}");
            }
            store.verify().unwrap();
            store.rebuild(Some("alice")).unwrap();
            assert_eq!(answers(&store), expected, "section {section}, {byte}");
            assert_eq!((texts(&store, "alice").len(), texts(&store, "bob").len()), (300, 20));
        }
    }
}

#[test]
fn index_files_that_hold_other_items_than_there_are_count_for_nothing() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    store.add("alice", &corpus(300), None).unwrap();
    store.flush().unwrap();
    let expected = found(&store, "alice", "n77x");
    // A file of fewer items, under the name and the checksum of the right one.
    let other = StoreFixture::new();
    let small = other.open();
    small.add("alice", &corpus(30), None).unwrap();
    small.flush().unwrap();
    let bytes = std::fs::read(segment_files(&other).remove(0)).unwrap();
    let sum = xxhash_rust::xxh3::xxh3_128(&bytes).to_be_bytes();
    for is_read_only in [true, false] {
        std::fs::write(segment_files(&fixture).remove(0), &bytes).unwrap();
        let connection = rusqlite::Connection::open(fixture.path()).unwrap();
        connection.execute("UPDATE segments SET checksum = ?1, bytes = ?2", (sum, bytes.len() as i64)).unwrap();
        drop(connection);
        let store = fixture.with(Options { is_read_only, ..Options::default() });
        assert_eq!(found(&store, "alice", "n77x"), expected, "read only: {is_read_only}");
        store.flush().ok();
    }
    let report = fixture.open().verify().unwrap();
    assert_eq!((report.problems, report.damaged), (vec![], 0), "made anew already");
}

#[test]
fn changes_and_merges_leave_the_index_equal_to_the_rows() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let handles: Vec<String> =
        store.add("alice", &corpus(200), None).unwrap().added.into_iter().map(|added| added.handle).collect();
    for round in 0..12 {
        let some = |from: usize| handles[from..from + 3].to_vec();
        store.forget("alice", &some(round * 3)).unwrap();
        store.set_tier("alice", &some(100 + round * 3), Tier::Cold).unwrap();
        add(&store, "alice", &[&format!("round {round}")]);
        if round % 2 == 0 {
            store.flush().unwrap();
        }
        let report = store.verify().unwrap();
        assert_eq!((report.problems, report.damaged), (vec![], 0), "round {round}");
    }
    let stats = store.stats("alice").unwrap();
    assert_eq!((stats.items, stats.cold), (200 - 36 + 12, 36));
    store.flush().unwrap();
    assert_eq!(store.stats("alice").unwrap().pending, 0);
    let before = found(&store, "alice", "penguin violin");
    assert_eq!(store.rebuild(Some("alice")).unwrap(), stats.items);
    assert_eq!(store.rebuild(None).unwrap(), stats.items);
    let after = found(&store, "alice", "penguin violin");
    let texts = |hits: &[(String, f32)]| hits.iter().map(|(text, _)| text.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&before), texts(&after));
    let deleted = store.purge("alice", &Purge::Source("a.md".into())).unwrap();
    assert!(deleted > 30);
    let report = store.verify().unwrap();
    assert_eq!((report.items, report.problems, report.damaged), (stats.items - deleted as u64, vec![], 0));
}

#[test]
fn an_index_of_another_model_is_made_again_and_never_compared_with() {
    let with = |text: &str, vector: [f32; 2]| NewItem { vector: Some(vector.to_vec()), ..item(text) };
    let fixture = StoreFixture::new();
    let store = fixture.open();
    store.add("alice", &[with("east", [1.0, 0.0]), with("north", [0.0, 1.0])], Some("before")).unwrap();
    store.flush().unwrap();
    assert_eq!(store.stats("alice").unwrap().indexed, 2);
    drop(store);
    // A process that changed the model, of the same shape, and was killed before it threw the index away.
    let file = rusqlite::Connection::open(fixture.path()).unwrap();
    let turned: Vec<u8> = [0.0_f32, 1.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    file.execute("UPDATE bodies SET vector = ?1 WHERE text = CAST('east' AS BLOB)", [turned]).unwrap();
    let turned: Vec<u8> = [1.0_f32, 0.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    file.execute("UPDATE bodies SET vector = ?1 WHERE text = CAST('north' AS BLOB)", [turned]).unwrap();
    file.execute("UPDATE namespaces SET space = 'after'", []).unwrap();
    drop(file);
    let store = fixture.open();
    let nearest = |store: &Store| {
        let near = store.recall_vectors("alice", &[&[1.0, 0.0]], "after", 1, false).unwrap();
        let (handle, cosine) = near[0][0].clone();
        assert!(cosine > 0.99, "{cosine}");
        String::from_utf8(store.get("alice", &[handle]).unwrap()[0].clone().unwrap().text).unwrap()
    };
    assert_eq!(nearest(&store), "north");
    store.flush().unwrap();
    assert_eq!(nearest(&store), "north");
    let report = store.verify().unwrap();
    assert_eq!((report.problems, report.damaged), (vec![], 0), "the file was built again");
}

#[cfg(unix)]
#[test]
fn a_store_has_one_index_whatever_link_leads_to_it() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    add(&store, "alice", &["the xyzzy of alice"]);
    store.flush().unwrap();
    let link = fixture.path().with_file_name("link.db");
    std::os::unix::fs::symlink(fixture.path(), &link).unwrap();
    let by_link = Store::open(&link, Options::default()).unwrap();
    assert_eq!(by_link.verify().unwrap().damaged, 0);
    by_link.purge("alice", &Purge::Namespace).unwrap();
    assert!(segment_files(&fixture).is_empty());
}
