//! Index files: no damage shows in a result, and however they came about they hold the rows.
use std::path::PathBuf;

use rehydrate_core::store::{NewItem, Purge, Store, Tier};

use super::fixture::{StoreFixture, add, corpus, found, item};

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
