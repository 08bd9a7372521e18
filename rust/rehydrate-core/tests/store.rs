//! The store: what is added is there, once, whatever else happens to the file.
#![cfg(feature = "store")]
use std::path::{Path, PathBuf};
use std::time::Duration;

use rehydrate_core::error::{Error, StoreProblem};
use rehydrate_core::store::{Filter, Limits, NewItem, Options, Paging, Purge, SearchRequest, Store, Tier};
use tempfile::TempDir;

const FIRST_PAGE: Paging = Paging { cursor: None, limit: 1_000_000, newest_first: false };

/// A store in a folder of its own.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("deep/er/memory.db")
    }

    fn open(&self) -> Store {
        self.with(Options::default())
    }

    fn with(&self, options: Options) -> Store {
        Store::open(&self.path(), options).unwrap()
    }

    /// All bytes of all files.
    fn bytes(&self) -> Vec<u8> {
        fn collect(folder: &Path, bytes: &mut Vec<u8>) {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    collect(&entry.path(), bytes);
                } else {
                    bytes.extend(std::fs::read(entry.path()).unwrap());
                }
            }
        }
        let mut bytes = Vec::new();
        collect(self.folder.path(), &mut bytes);
        bytes
    }
}

fn item(text: &str) -> NewItem {
    NewItem::new(text, 1_000)
}

fn from(source: &str, text: &str) -> NewItem {
    NewItem { source: source.into(), ..item(text) }
}

fn add(store: &Store, namespace: &str, texts: &[&str]) -> Vec<String> {
    let items: Vec<NewItem> = texts.iter().map(|text| item(text)).collect();
    store.add(namespace, &items, None).unwrap().added.into_iter().map(|added| added.handle).collect()
}

fn texts(store: &Store, namespace: &str) -> Vec<String> {
    let page = store.list(namespace, &Filter::default(), FIRST_PAGE).unwrap();
    page.items.into_iter().map(|item| String::from_utf8(item.text).unwrap()).collect()
}

fn kind_of<T: std::fmt::Debug>(result: Result<T, Error>) -> StoreProblem {
    match result.unwrap_err() {
        Error::Store { kind, .. } => kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_added_comes_back_byte_for_byte_after_reopening() {
    let place = Place::new();
    let every_field = NewItem {
        text: vec![0, 0xED, 0xA0, 0x80, b'\n', 0xFF],
        kind: "fact".into(),
        tier: Tier::Hot,
        source: "notes.md".into(),
        session: "s1".into(),
        tool: "bash".into(),
        principal: "ünïcode \u{1F600}".into(),
        trust: 0.25,
        parents: vec!["p1".into(), String::new(), "a,b\n".into()],
        time_ms: -5,
        confidence: 0.125,
        expires_ms: Some(i64::MAX),
        meta_json: Some("{\"a\": 1}".into()),
        redactions_json: Some("[]".into()),
        vector: None,
        supersedes: vec![],
        contradicts: vec![],
    };
    let handle = place.open().add("alice", &[every_field.clone()], None).unwrap().added[0].handle.clone();
    let found = place.open().get("alice", &[handle.clone()]).unwrap().remove(0).unwrap();
    assert_eq!(found.handle, handle);
    assert_eq!((found.text, found.kind, found.tier), (every_field.text, every_field.kind, every_field.tier));
    assert_eq!((found.source, found.session), (every_field.source, every_field.session));
    assert_eq!((found.tool, found.principal), (every_field.tool, every_field.principal));
    assert_eq!((found.trust, found.confidence), (every_field.trust, every_field.confidence));
    assert_eq!((found.parents, found.time_ms), (every_field.parents, every_field.time_ms));
    assert_eq!((found.expires_ms, found.meta_json), (every_field.expires_ms, every_field.meta_json));
    assert_eq!((found.redactions_json, found.links), (every_field.redactions_json, vec![]));
}

#[test]
fn an_item_is_stored_once_a_source_and_namespace() {
    let place = Place::new();
    let store = place.open();
    let first = store.add("alice", &[from("a", "same"), from("b", "same"), from("a", "same")], None).unwrap().added;
    assert_eq!(first.iter().map(|added| added.is_new).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(first[0].handle, first[2].handle);
    assert_ne!(first[0].handle, first[1].handle);
    let again = place.open().add("alice", &[from("a", "same")], None).unwrap().added;
    assert_eq!((&again[0].handle, again[0].is_new), (&first[0].handle, false));
    assert!(store.add("bob", &[from("a", "same")], None).unwrap().added[0].is_new);
    assert_eq!((texts(&store, "alice").len(), texts(&store, "bob").len()), (2, 1));
}

#[test]
fn a_namespace_never_shows_what_another_one_holds() {
    let place = Place::new();
    let store = place.open();
    let alice = add(&store, "alice", &["hers"]);
    add(&store, "bob", &["his"]);
    assert_eq!(store.get("bob", &alice).unwrap(), [None]);
    assert_eq!(store.get("nobody", &alice).unwrap(), [None]);
    assert_eq!(store.forget("bob", &alice).unwrap(), 0);
    assert_eq!(store.set_tier("bob", &alice, Tier::Hot).unwrap(), 0);
    assert!(store.link("bob", &alice[0], &alice[0], "is").is_err());
    assert_eq!((texts(&store, "alice"), texts(&store, "bob")), (vec!["hers".into()], vec!["his".into()]));
    assert_eq!(store.namespaces().unwrap(), ["alice", "bob"]);
    assert!(matches!(store.get("", &alice), Err(Error::Argument(_))));
}

#[test]
fn superseding_and_contradicting_items_are_linked_both_ways() {
    let place = Place::new();
    let store = place.open();
    let old = add(&store, "alice", &["lives in Paris", "likes tea"]);
    let newer =
        NewItem { supersedes: vec![old[0].clone()], contradicts: vec![old[1].clone()], ..item("lives in Rome") };
    let new = store.add("alice", &[newer], None).unwrap().added[0].handle.clone();
    assert!(store.link("alice", &old[0], &old[1], "same person").unwrap());
    assert!(!store.link("alice", &old[0], &old[1], "same person").unwrap());
    let found = store.get("alice", &[old[0].clone(), new.clone()]).unwrap();
    let links = |at: usize| {
        let links = &found[at].as_ref().unwrap().links;
        links.iter().map(|link| (link.relation.clone(), link.handle.clone(), link.is_outgoing)).collect::<Vec<_>>()
    };
    assert_eq!(links(0), [("same person".into(), old[1].clone(), true), ("supersedes".into(), new.clone(), false)]);
    assert_eq!(links(1), [("contradicts".into(), old[1].clone(), true), ("supersedes".into(), old[0].clone(), true)]);
    let nothing = "mem_00000000000000000000000000".to_owned();
    let dangling = NewItem { supersedes: vec![nothing], ..item("x") };
    assert!(matches!(store.add("alice", &[item("y"), dangling], None), Err(Error::Argument(_))));
    assert_eq!(texts(&store, "alice").len(), 3, "a call that failed stored something");
    assert_eq!(store.forget("alice", &[new]).unwrap(), 1);
    assert_eq!(store.get("alice", &old[..1]).unwrap()[0].as_ref().unwrap().links.len(), 1);
}

#[test]
fn pages_are_in_order_and_filters_hold_on_each() {
    let place = Place::new();
    let store = place.open();
    let items: Vec<NewItem> = (0..25)
        .map(|i| NewItem {
            kind: if i % 2 == 0 { "even" } else { "odd" }.into(),
            tier: if i < 10 { Tier::Warm } else { Tier::Cold },
            time_ms: i,
            trust: i as f64 / 25.0,
            ..from(if i % 5 == 0 { "five" } else { "" }, &format!("item {i}"))
        })
        .collect();
    store.add("alice", &items, None).unwrap();
    for newest_first in [true, false] {
        let (mut cursor, mut seen) = (None, Vec::new());
        loop {
            let page = store.list("alice", &Filter::default(), Paging { cursor, limit: 10, newest_first }).unwrap();
            seen.extend(page.items.into_iter().map(|item| item.time_ms));
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        let ascending: Vec<i64> = (0..25).collect();
        assert_eq!(seen, if newest_first { ascending.into_iter().rev().collect() } else { ascending });
    }
    let times = |filter: Filter| {
        let page = store.list("alice", &filter, FIRST_PAGE).unwrap();
        page.items.into_iter().map(|item| item.time_ms).collect::<Vec<_>>()
    };
    let list = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect());
    assert_eq!(times(Filter { sources: list(&["five", "six"]), ..Filter::default() }), [0, 5, 10, 15, 20]);
    assert_eq!(
        times(Filter { kinds: list(&["odd"]), tiers: Some(vec![Tier::Warm]), ..Filter::default() }),
        [1, 3, 5, 7, 9]
    );
    assert_eq!(times(Filter { after_ms: Some(3), before_ms: Some(5), ..Filter::default() }), [3, 4]);
    assert_eq!(times(Filter { min_trust: 0.92, ..Filter::default() }), [23, 24]);
    assert_eq!(times(Filter { sources: list(&["unheard of"]), ..Filter::default() }), [0; 0]);
    assert_eq!(times(Filter { sessions: list(&[]), ..Filter::default() }), [0; 0]);
}

static NOW: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(1_000_000_000_000);
fn clock() -> i64 {
    NOW.load(std::sync::atomic::Ordering::SeqCst)
}

#[test]
fn beyond_its_limits_a_namespace_cools_and_then_drops_but_never_what_is_hot() {
    let place = Place::new();
    let limits = Limits { items: Some(100), ..Limits::NONE };
    let store = place.with(Options { limits, clock, ..Options::default() });
    let hot: Vec<NewItem> = (0..10).map(|i| NewItem { tier: Tier::Hot, ..item(&format!("hot {i}")) }).collect();
    store.add("alice", &hot, None).unwrap();
    let warm = |from: i64, to: i64| {
        (from..to).map(|i| NewItem { time_ms: i, ..item(&format!("warm {i}")) }).collect::<Vec<NewItem>>()
    };
    let within = store.add("alice", &warm(0, 90), None).unwrap();
    assert_eq!((within.demoted, within.dropped), (0, 0));
    let beyond = store.add("alice", &warm(90, 100), None).unwrap();
    assert_eq!((beyond.demoted, beyond.dropped), (35, 15), "75 hot and warm, 95 in all");
    let left = store.list("alice", &Filter::default(), FIRST_PAGE).unwrap().items;
    let of = |tier| left.iter().filter(move |item| item.tier == tier);
    assert_eq!(of(Tier::Hot).count(), 10);
    assert_eq!(of(Tier::Cold).map(|item| item.time_ms).collect::<Vec<_>>(), (15..35).collect::<Vec<_>>());
    assert_eq!(of(Tier::Warm).map(|item| item.time_ms).collect::<Vec<_>>(), (35..100).collect::<Vec<_>>());
    let trusted = NewItem { trust: 1.0, time_ms: 1, ..item("trusted") };
    let doubted = NewItem { trust: 0.0, time_ms: 2, ..item("doubted") };
    let other = place.with(Options { limits: Limits { items: Some(1), ..Limits::NONE }, ..Options::default() });
    other.add("bob", &[doubted, trusted], None).unwrap();
    assert_eq!(texts(&other, "bob"), Vec::<String>::new(), "95 per cent of one is none");
}

#[test]
fn what_is_old_cools_and_what_is_expired_is_gone() {
    let place = Place::new();
    let limits = Limits { age_ms: Some(1_000_000), ..Limits::NONE };
    NOW.store(2_000_000_000_000, std::sync::atomic::Ordering::SeqCst);
    let store = place.with(Options { limits, clock, ..Options::default() });
    let brief = NewItem { expires_ms: Some(clock() + 10), ..item("brief") };
    let handle = store.add("alice", &[brief.clone(), item("old")], None).unwrap().added[0].handle.clone();
    assert!(store.get("alice", &[handle.clone()]).unwrap()[0].is_some());
    NOW.fetch_add(1_500_000, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(store.get("alice", &[handle.clone()]).unwrap(), [None]);
    assert_eq!(texts(&store, "alice"), ["old"]);
    let report = store.add("alice", &[NewItem { expires_ms: None, ..brief }], None).unwrap();
    assert_eq!((report.added[0].is_new, report.demoted, report.dropped), (true, 1, 0));
    assert_eq!(report.added[0].handle, handle);
    NOW.fetch_add(1_500_000, std::sync::atomic::Ordering::SeqCst);
    let report = store.add("alice", &[item("new")], None).unwrap();
    assert_eq!((report.demoted, report.dropped), (1, 1));
    assert_eq!(texts(&store, "alice"), ["brief", "new"]);
}

#[test]
fn a_purge_leaves_no_byte_of_the_texts_in_any_file() {
    let place = Place::new();
    let store = place.open();
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
    let holds = |word: &str| memchr::memmem::find(&place.bytes(), word.as_bytes()).is_some();
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
fn files_and_folders_are_their_owners_alone() {
    let place = Place::new();
    let store = place.open();
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

#[test]
fn a_store_opened_for_reading_reads_and_does_not_write() {
    let place = Place::new();
    let writer = place.open();
    let handles = add(&writer, "alice", &["text"]);
    let reader = place.with(Options { is_read_only: true, ..Options::default() });
    assert!(reader.get("alice", &handles).unwrap()[0].is_some());
    assert_eq!(kind_of(reader.add("alice", &[item("more")], None)), StoreProblem::ReadOnly);
    assert_eq!(kind_of(reader.forget("alice", &handles)), StoreProblem::ReadOnly);
    add(&writer, "alice", &["more"]);
    assert_eq!(texts(&reader, "alice"), ["text", "more"]);
}

#[test]
fn a_closed_store_says_so() {
    let place = Place::new();
    let store = place.open();
    let handles = add(&store, "alice", &["text"]);
    store.close().unwrap();
    store.close().unwrap();
    assert_eq!(kind_of(store.get("alice", &handles)), StoreProblem::Closed);
    assert_eq!(kind_of(store.add("alice", &[item("x")], None)), StoreProblem::Closed);
}

#[test]
fn threads_with_connections_of_their_own_lose_nothing_and_are_never_told_it_is_locked() {
    let place = Place::new();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let path = place.path();
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
    assert_eq!(texts(&place.open(), "alice").len(), 8 * 2 * 10 + 1);
}

#[test]
fn a_writer_that_waits_too_long_is_told_who_is_in_the_way() {
    let place = Place::new();
    let store = place.with(Options { busy: Duration::from_millis(50), ..Options::default() });
    add(&store, "alice", &["text"]);
    let other = rusqlite::Connection::open(place.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(kind_of(store.add("alice", &[item("x")], None)), StoreProblem::Busy);
    assert_eq!(texts(&store, "alice"), ["text"]);
    other.execute_batch("ROLLBACK").unwrap();
    add(&store, "alice", &["x"]);
}

#[test]
fn vectors_of_two_models_do_not_meet() {
    let place = Place::new();
    let store = place.open();
    let with = |text: &str, vector: &[f32]| NewItem { vector: Some(vector.to_vec()), ..item(text) };
    let handle = store.add("alice", &[with("a", &[1.0, 0.0])], Some("minilm")).unwrap().added[0].handle.clone();
    for (vector, space) in
        [(vec![1.0, 0.0], Some("other")), (vec![1.0], Some("minilm")), (vec![f32::NAN, 0.0], Some("minilm"))]
    {
        assert!(matches!(store.add("alice", &[with("b", &vector)], space), Err(Error::Argument(_))));
    }
    assert!(matches!(store.add("bob", &[with("b", &[1.0])], None), Err(Error::Argument(_))));
    assert_eq!(store.set_vectors("alice", &[handle.clone()], &[0.0, 1.0], "minilm").unwrap(), 1);
    assert!(store.set_vectors("alice", &[handle.clone()], &[0.0, 1.0], "other").is_err());
    assert!(store.set_vectors("alice", &[handle], &[], "minilm").is_err());
}

fn found(store: &Store, namespace: &str, query: &str) -> Vec<(String, f32)> {
    let hits = store.search(namespace, &SearchRequest::new(query, 10)).unwrap();
    hits.into_iter().map(|hit| (String::from_utf8(hit.item.text).unwrap(), hit.score)).collect()
}

fn first(store: &Store, namespace: &str, query: &str) -> Option<String> {
    found(store, namespace, query).into_iter().next().map(|(text, _)| text)
}

/// Texts that words tell apart.
fn corpus(count: usize) -> Vec<NewItem> {
    let subjects = ["invoice", "penguin", "compiler", "harbour", "violin", "glacier", "pepper", "satellite"];
    let verbs = ["opened", "painted", "repaired", "counted", "forgot", "measured", "sold"];
    (0..count)
        .map(|i| {
            let (subject, verb) = (subjects[i % subjects.len()], verbs[i / 3 % verbs.len()]);
            let text =
                format!("On day {i} somebody {verb} the {subject} number n{i}x near the {}", subjects[i / 11 % 8]);
            NewItem { time_ms: i as i64, ..from(["a.md", "b.md", "c.md"][i % 3], &text) }
        })
        .collect()
}

fn segment_files(place: &Place) -> Vec<PathBuf> {
    let folder = place.path().with_file_name("memory.db-index");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "segment")).collect();
    files.sort();
    files
}

#[test]
fn what_is_added_is_found_at_once_by_every_store_and_what_is_forgotten_is_not() {
    let place = Place::new();
    let (one, two) = (place.open(), place.open());
    assert_eq!(first(&one, "alice", "penguin"), None);
    let handles = add(&one, "alice", &["the penguin likes fish", "the invoice is due on Friday"]);
    for store in [&one, &two] {
        assert_eq!(first(store, "alice", "which penguin?").as_deref(), Some("the penguin likes fish"));
        assert_eq!(found(store, "bob", "penguin"), []);
    }
    for i in 0..20 {
        add(&two, "alice", &[&format!("note number zz{i}yy")]);
        assert_eq!(first(&one, "alice", &format!("zz{i}yy")), Some(format!("note number zz{i}yy")));
    }
    two.forget("alice", &handles[..1]).unwrap();
    assert!(found(&one, "alice", "penguin").iter().all(|(text, _)| !text.contains("penguin")));
    one.purge("alice", &Purge::Namespace).unwrap();
    assert_eq!(found(&two, "alice", "invoice"), []);
    add(&two, "alice", &["the invoice came back"]);
    assert_eq!(first(&one, "alice", "invoice").as_deref(), Some("the invoice came back"));
}

#[test]
fn filters_hold_in_searches_and_short_queries_find_what_a_scan_finds() {
    let place = Place::new();
    let store = place.open();
    let items = [
        NewItem { tier: Tier::Cold, trust: 0.5, ..from("x.rs", "code a = b->c; // go") },
        NewItem { trust: 0.501, ..from("y.rs", "C# and go lang") },
        from("z.md", "我喜欢记忆 and good things"),
    ];
    store.add("alice", &items, None).unwrap();
    for (query, expected) in [
        ("->", vec!["code a = b->c; // go"]),
        ("c#", vec!["C# and go lang"]),
        ("记忆", vec!["我喜欢记忆 and good things"]),
        ("go", vec!["C# and go lang", "code a = b->c; // go", "我喜欢记忆 and good things"]),
        ("~", vec![]),
        ("", vec![]),
    ] {
        let texts: Vec<String> = found(&store, "alice", query).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, expected, "{query}");
    }
    let request = |filter| SearchRequest { filter, ..SearchRequest::new("lang things code", 10) };
    let texts = |filter: Filter| {
        let mut texts: Vec<Vec<u8>> =
            store.search("alice", &request(filter)).unwrap().into_iter().map(|hit| hit.item.text).collect();
        texts.sort();
        texts
            .into_iter()
            .map(|text| String::from_utf8(text).unwrap().chars().take(5).collect())
            .collect::<Vec<String>>()
    };
    assert_eq!(texts(Filter::default()).len(), 3);
    assert_eq!(texts(Filter { tiers: Some(vec![Tier::Cold]), ..Filter::default() }), ["code "]);
    assert_eq!(texts(Filter { sources: Some(vec!["y.rs".into()]), ..Filter::default() }), ["C# an"]);
    assert_eq!(texts(Filter { min_trust: 0.501, ..Filter::default() }).len(), 2);
    assert_eq!(texts(Filter { kinds: Some(vec!["unheard of".into()]), ..Filter::default() }), [""; 0]);
}

#[test]
fn recall_finds_the_nearest_by_either_model() {
    let place = Place::new();
    let store = place.open();
    let with = |text: &str, vector: [f32; 2]| NewItem { vector: Some(vector.to_vec()), ..item(text) };
    let items = [with("the cat sat on the mat", [1.0, 0.0]), with("stock prices fell sharply", [0.0, 1.0])];
    let added = store.add("alice", &items, Some("two")).unwrap().added;
    let near = store.recall_vectors("alice", &[&[0.9, 0.1], &[0.0, -1.0]], "two", 1, false).unwrap();
    assert_eq!(near[0][0].0, added[0].handle);
    assert!((near[0][0].1 - 0.99).abs() < 0.02, "{near:?}");
    assert!(store.recall_vectors("alice", &[&[1.0, 0.0]], "other", 1, false).is_err());
    assert_eq!(store.recall_vectors("bob", &[&[1.0, 0.0]], "two", 1, false).unwrap(), [vec![]]);
    if cfg!(feature = "builtin-model") {
        let near = store.recall("alice", &["a kitten on a rug", "markets"], 1, false).unwrap();
        assert_eq!((&near[0][0].0, &near[1][0].0), (&added[0].handle, &added[1].handle));
    }
}

#[test]
fn index_files_damaged_in_any_way_change_no_result() {
    let place = Place::new();
    let store = place.open();
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
        let files = segment_files(&place);
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
        let store = place.open();
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
fn a_text_that_was_altered_in_the_file_is_reported() {
    let place = Place::new();
    let store = place.open();
    store.add("alice", &corpus(100), None).unwrap();
    store.checkpoint().unwrap();
    assert_eq!(store.verify().unwrap().problems, [""; 0]);
    drop(store);
    let mut bytes = std::fs::read(place.path()).unwrap();
    let at = memchr::memmem::find(&bytes, b"number n77x").unwrap();
    bytes[at] = b'N';
    std::fs::write(place.path(), bytes).unwrap();
    let report = place.open().verify().unwrap();
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].contains("mem_"), "{report:?}");
}

#[test]
fn changes_and_merges_leave_the_index_equal_to_the_rows() {
    let place = Place::new();
    let store = place.open();
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
fn searching_while_others_write_shows_every_acknowledged_item() {
    let place = Place::new();
    place.open();
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let place = &place;
            scope.spawn(move || {
                let store = place.open();
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
    let report = place.open().verify().unwrap();
    assert_eq!((report.items, report.problems), (45, vec![]));
}
