//! Closing and dropping during calls: nobody waits for itself, and a drop waits for nobody.
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rehydrate_core::error::{Error, Result, StoreProblem};
use rehydrate_core::index::VectorIndex;
use rehydrate_core::interrupt::interruptible;
use rehydrate_core::store::{Options, Purge, SearchRequest, Store};

use super::fixture::{StoreFixture, add, corpus, item, kind_of, texts};

/// So long that a test which waits for it hangs.
const FOR_EVER: Duration = Duration::from_secs(1 << 20);
/// Items whose addition is asked whether to stop.
const MANY: usize = 12_000;

type Handler = Box<dyn FnMut() + Send>;

static HANDLER: Mutex<Option<Handler>> = Mutex::new(None);
/// One at a time: a question whether to stop cannot say whose it is.
static ALONE: Mutex<()> = Mutex::new(());

/// Run `work`, and `handler` once where a signal handler would run: on the same thread, during it.
fn amid<T>(handler: impl FnMut() + Send + 'static, work: impl FnOnce() -> Result<T>) -> Result<T> {
    fn ask() -> bool {
        let handler = HANDLER.lock().unwrap().take();
        if let Some(mut handler) = handler {
            // As a call from Python does, which is asked by itself.
            let handled = interruptible(
                || false,
                || {
                    handler();
                    Ok(())
                },
            );
            handled.unwrap();
        }
        false
    }
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *HANDLER.lock().unwrap() = Some(Box::new(handler));
    let done = interruptible(ask, work);
    assert!(HANDLER.lock().unwrap().take().is_none(), "nobody asked");
    done
}

fn shared(store: Store) -> &'static Store {
    Box::leak(Box::new(store))
}

#[test]
fn a_handler_that_closes_amid_a_write_lets_it_end_and_then_the_store_is_closed() {
    let fixture = StoreFixture::new();
    let store = shared(fixture.open());
    let items = corpus(MANY);
    let added = amid(|| store.close().unwrap(), || store.add("alice", &items, None)).unwrap();
    assert_eq!(added.added.len(), MANY);
    assert_eq!(kind_of(store.stats("alice")), StoreProblem::Closed);
    store.close().unwrap();
    let again = fixture.open();
    assert_eq!(again.stats("alice").unwrap().items, MANY as u64);
    assert_eq!(again.verify().unwrap().problems, [""; 0]);
}

#[test]
fn a_handler_that_writes_amid_a_write_is_refused_at_once_and_one_that_reads_reads() {
    static SAW: Mutex<Option<(Result<usize>, u64)>> = Mutex::new(None);
    let fixture = StoreFixture::new();
    let store = shared(fixture.with(Options { busy: FOR_EVER, ..Options::default() }));
    add(store, "alice", &["before"]);
    let handler = || {
        let wrote = store.add("bob", &[item("text")], None).map(|added| added.added.len());
        *SAW.lock().unwrap() = Some((wrote, store.stats("alice").unwrap().items));
    };
    amid(handler, || store.add("alice", &corpus(MANY), None)).unwrap();
    let (wrote, items) = SAW.lock().unwrap().take().unwrap();
    assert_eq!((kind_of(wrote), items), (StoreProblem::Busy, 1));
    add(store, "bob", &["text"]);
    assert_eq!(store.stats("alice").unwrap().items, MANY as u64 + 1);
}

#[test]
fn a_handler_that_searches_amid_the_refresh_of_the_same_index_finds_too() {
    static FOUND: AtomicBool = AtomicBool::new(false);
    let fixture = StoreFixture::new();
    fixture.open().add("alice", &corpus(MANY), None).unwrap();
    // One that builds no files, so that all of it is indexed during the search.
    let _ = std::fs::remove_dir_all(fixture.path().with_file_name("memory.db-index"));
    let store = shared(fixture.with(Options { is_read_only: true, ..Options::default() }));
    let search = || store.search("alice", &SearchRequest::new("who repaired the penguin n77x", 3));
    let handler = move || FOUND.store(!search().unwrap().is_empty(), Ordering::SeqCst);
    assert!(!amid(handler, search).unwrap().is_empty());
    assert!(FOUND.load(Ordering::SeqCst));
}

#[test]
fn a_handler_that_builds_amid_building_is_refused_and_does_not_wait_for_itself() {
    static SAW: Mutex<Option<Result<u64>>> = Mutex::new(None);
    let fixture = StoreFixture::new();
    let store = shared(fixture.open());
    store.add("alice", &corpus(MANY), None).unwrap();
    store.flush().unwrap();
    let handler = || *SAW.lock().unwrap() = Some(store.rebuild(None));
    amid(handler, || store.rebuild(None)).unwrap();
    // During a write of the rebuild, or while it builds: refused either way.
    assert_eq!(kind_of(SAW.lock().unwrap().take().unwrap()), StoreProblem::Busy);
}

#[test]
fn dropping_or_closing_a_store_does_not_wait_for_who_holds_the_file() {
    let fixture = StoreFixture::new();
    let (first, second) =
        (Options { busy: FOR_EVER, ..Options::default() }, Options { busy: FOR_EVER, ..Options::default() });
    let (dropped, closed) = (fixture.with(first), fixture.with(second));
    add(&dropped, "alice", &["alpha one is a note"]);
    for store in [&dropped, &closed] {
        // The use of a found item is counted with the next write.
        assert_eq!(store.search("alice", &SearchRequest::new("alpha note", 3)).unwrap().len(), 1);
    }
    let holder = rusqlite::Connection::open(fixture.path()).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    drop(dropped);
    closed.close().unwrap();
    holder.execute_batch("COMMIT").unwrap();
    drop(holder);
    assert_eq!(texts(&fixture.open(), "alice"), ["alpha one is a note"]);
}

#[test]
fn a_purge_says_that_it_is_not_done_while_others_build_and_is_done_afterwards() {
    let fixture = StoreFixture::new();
    let store = fixture.with(Options { busy: Duration::from_millis(50), ..Options::default() });
    add(&store, "alice", &["the xyzzy of alice"]);
    store.flush().unwrap();
    let index = fixture.path().with_file_name("memory.db-index");
    // As a process leaves it that reads items, builds a file of them and is killed before it says so.
    std::fs::write(index.join(format!("{:032x}.segment", 7)), "the xyzzy of alice").unwrap();
    let builder = std::fs::File::open(index.join("lock")).unwrap();
    builder.lock().unwrap();
    let refused = store.purge("alice", &Purge::Namespace);
    assert!(matches!(&refused, Err(Error::Store { remedy, .. }) if remedy.contains("purge again")), "{refused:?}");
    assert_eq!(kind_of(refused), StoreProblem::Busy);
    builder.unlock().unwrap();
    store.purge("alice", &Purge::Namespace).unwrap();
    assert!(memchr::memmem::find(&fixture.bytes(), b"xyzzy").is_none());
}

#[test]
fn a_purge_ends_a_build_that_it_makes_void() {
    let fixture = StoreFixture::new();
    let lists = fixture.open();
    lists.add("alice", &corpus(MANY), None).unwrap();
    lists.flush().unwrap();
    lists.close().unwrap();
    // A graph of so many takes longer than the purge waits.
    let busy = Duration::from_secs(2);
    let store = shared(fixture.with(Options { busy, vectors: VectorIndex::Usearch, ..Options::default() }));
    let building = std::thread::spawn(move || store.rebuild(None));
    let lock = std::fs::File::open(fixture.path().with_file_name("memory.db-index").join("lock")).unwrap();
    while lock.try_lock().is_ok() {
        lock.unlock().unwrap();
        assert!(!building.is_finished());
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(200)); // by then it has read what it builds of
    assert_eq!(store.purge("alice", &Purge::Namespace).unwrap(), MANY);
    assert_eq!(building.join().unwrap().unwrap(), 0);
    assert!(memchr::memmem::find(&fixture.bytes(), b"penguin").is_none());
}
