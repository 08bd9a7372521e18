//! The file: whose it is, what isn't a store, what a purge and a stranger leave in it.
#[cfg(unix)]
use std::path::Path;

use rehydrate_core::error::StoreProblem;
use rehydrate_core::store::{NewItem, Options, Purge, Store};

use super::fixture::{StoreFixture, add, corpus, from, item, kind_of, texts};

#[test]
fn files_and_folders_are_their_owners_alone() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    add(&store, "alice", &["text"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(store.path()), mode(store.path().parent().unwrap())), (0o600, 0o700));
        assert_eq!(mode(&store.path().with_file_name("memory.db-wal")), 0o600);
    }
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let open = |options| Store::open(&path, options).map(drop);
    for content in [&b"short"[..], &[7; 5000], b"SQLite format 3\0 and then nothing of the kind"] {
        std::fs::write(&path, content).unwrap();
        assert_eq!(kind_of(open(Options::default())), StoreProblem::NotAStore);
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    std::fs::remove_file(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE t (x)").unwrap();
    drop(other);
    assert_eq!(kind_of(open(Options::default())), StoreProblem::NotAStore);
    std::fs::remove_file(&path).unwrap();
    let reading = Options { is_read_only: true, ..Options::default() };
    assert_eq!(kind_of(open(reading)), StoreProblem::Other, "there is nothing to read");
    open(Options::default()).unwrap();
    let store = rusqlite::Connection::open(&path).unwrap();
    store.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(store);
    assert_eq!(kind_of(open(Options::default())), StoreProblem::Newer);
}

#[cfg(unix)]
#[test]
fn what_lies_beside_a_store_and_is_no_file_is_refused_without_waiting_for_it() {
    let pipe = |path: &Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    };
    for ending in ["", "-wal", "-shm", "-journal"] {
        for is_read_only in [false, true] {
            let fixture = StoreFixture::new();
            add(&fixture.open(), "alice", &["text"]);
            let path = fixture.path().with_file_name(format!("memory.db{ending}"));
            let _ = std::fs::remove_file(&path);
            pipe(&path);
            let opened = Store::open(&fixture.path(), Options { is_read_only, ..Options::default() });
            assert_eq!(kind_of(opened.map(drop)), StoreProblem::NotAStore, "{ending}");
            assert!(path.symlink_metadata().is_ok());
        }
    }
    // The lock of the index is ours: it is made again.
    let fixture = StoreFixture::new();
    let store = fixture.open();
    store.add("alice", &corpus(50), None).unwrap();
    let folder = fixture.path().with_file_name("memory.db-index");
    std::fs::create_dir_all(&folder).unwrap();
    let _ = std::fs::remove_file(folder.join("lock"));
    pipe(&folder.join("lock"));
    store.flush().unwrap();
    assert_eq!(store.stats("alice").unwrap().pending, 0);
}

#[test]
fn a_journal_that_names_another_file_is_refused_and_removes_nothing() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("key");
    std::fs::write(&victim, "years of work").unwrap();
    let fixture = StoreFixture::new();
    add(&fixture.open(), "alice", &["text"]);
    // As SQLite ends the journal of a transaction over several files.
    let name = victim.to_str().unwrap().as_bytes();
    let sum: u32 = name.iter().map(|&byte| u32::from(byte)).sum();
    let mut journal = vec![1_u8; 512];
    journal.extend(0x4000_0001_u32.to_be_bytes().iter().chain(name));
    journal.extend((name.len() as u32).to_be_bytes().iter().chain(&sum.to_be_bytes()));
    journal.extend([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    for is_read_only in [false, true] {
        std::fs::write(fixture.path().with_file_name("memory.db-journal"), &journal).unwrap();
        let opened = Store::open(&fixture.path(), Options { is_read_only, ..Options::default() });
        assert_eq!(kind_of(opened.map(drop)), StoreProblem::NotAStore);
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "years of work");
    }
    std::fs::remove_file(fixture.path().with_file_name("memory.db-journal")).unwrap();
    assert_eq!(texts(&fixture.open(), "alice"), ["text"]);
}

#[test]
fn triggers_and_views_of_a_stranger_do_nothing() {
    let fixture = StoreFixture::new();
    add(&fixture.open(), "alice", &["text"]);
    let edit = rusqlite::Connection::open(fixture.path()).unwrap();
    edit.execute_batch(
        "CREATE TRIGGER spy AFTER INSERT ON bodies BEGIN UPDATE bodies SET text = x'00' WHERE id = new.id; END;
         CREATE TRIGGER gone AFTER INSERT ON items BEGIN DELETE FROM items WHERE id < new.id; END;",
    )
    .unwrap();
    drop(edit);
    let store = fixture.open();
    add(&store, "alice", &["more"]);
    assert_eq!(texts(&store, "alice"), ["text", "more"]);
}

#[test]
fn a_store_opened_for_reading_reads_and_does_not_write() {
    let fixture = StoreFixture::new();
    let writer = fixture.open();
    let handles = add(&writer, "alice", &["text"]);
    let reader = fixture.with(Options { is_read_only: true, ..Options::default() });
    assert!(reader.get("alice", &handles).unwrap()[0].is_some());
    assert_eq!(kind_of(reader.add("alice", &[item("more")], None)), StoreProblem::ReadOnly);
    assert_eq!(kind_of(reader.forget("alice", &handles)), StoreProblem::ReadOnly);
    add(&writer, "alice", &["more"]);
    assert_eq!(texts(&reader, "alice"), ["text", "more"]);
}

#[test]
fn a_closed_store_says_so() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let handles = add(&store, "alice", &["text"]);
    store.close().unwrap();
    store.close().unwrap();
    assert_eq!(kind_of(store.get("alice", &handles)), StoreProblem::Closed);
    assert_eq!(kind_of(store.add("alice", &[item("x")], None)), StoreProblem::Closed);
}

#[test]
fn a_purge_leaves_no_byte_of_the_texts_in_any_file() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let mut random = 7_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    // Sizes that fit a page, that overflow it, and deletions in between, so that rows move.
    for round in 0..30 {
        let items: Vec<NewItem> = (0..40)
            .map(|i| {
                let secret = next(2) == 0;
                let word = if secret { "xyzzy" } else { "plain" };
                let text = format!("{word}-{round}-{i} ").repeat(1 + next(400) as usize);
                from(if secret { "secret.md" } else { "other.md" }, &text)
            })
            .collect();
        let added = store.add("alice", &items, None).unwrap().added;
        let some: Vec<String> = added.into_iter().filter(|_| next(3) == 0).map(|added| added.handle).collect();
        store.forget("alice", &some).unwrap();
    }
    let holds = |word: &str| memchr::memmem::find(&fixture.bytes(), word.as_bytes()).is_some();
    assert!(holds("xyzzy") && holds("secret.md"));
    assert!(store.purge("alice", &Purge::Source("secret.md".into())).unwrap() > 100);
    assert!(!holds("xyzzy") && !holds("secret.md"));
    assert!(holds("plain"));
    assert_eq!(store.purge("alice", &Purge::Source("secret.md".into())).unwrap(), 0);
    add(&store, "bob", &["his own"]);
    assert!(store.purge("alice", &Purge::Namespace).unwrap() > 100);
    assert!(!holds("plain") && !holds("alice"));
    assert_eq!(store.namespaces().unwrap(), ["bob"]);
    assert_eq!(texts(&store, "bob"), ["his own"]);
}

#[test]
fn a_text_that_was_altered_in_the_file_is_reported() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    store.add("alice", &corpus(100), None).unwrap();
    store.checkpoint().unwrap();
    assert_eq!(store.verify().unwrap().problems, [""; 0]);
    drop(store);
    let mut bytes = std::fs::read(fixture.path()).unwrap();
    let at = memchr::memmem::find(&bytes, b"number n77x").unwrap();
    bytes[at] = b'N';
    std::fs::write(fixture.path(), bytes).unwrap();
    let report = fixture.open().verify().unwrap();
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].contains("mem_"), "{report:?}");
}
