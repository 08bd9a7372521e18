//! Limits and expiry: what cools, what goes, what never does.
use std::sync::atomic::{AtomicI64, Ordering};

use rehydrate_core::store::{Filter, Limits, NewItem, Options, Tier};

use super::fixture::{FIRST_PAGE, StoreFixture, item, texts};

static NOW: AtomicI64 = AtomicI64::new(1_000_000_000_000);

fn clock() -> i64 {
    NOW.load(Ordering::SeqCst)
}

#[test]
fn beyond_its_limits_a_namespace_cools_and_then_drops_but_never_what_is_hot() {
    let fixture = StoreFixture::new();
    let limits = Limits { items: Some(100), ..Limits::NONE };
    let store = fixture.with(Options { limits, clock, ..Options::default() });
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
    let other = fixture.with(Options { limits: Limits { items: Some(1), ..Limits::NONE }, ..Options::default() });
    other.add("bob", &[doubted, trusted], None).unwrap();
    assert_eq!(texts(&other, "bob"), Vec::<String>::new(), "95 per cent of one is none");
}

#[test]
fn what_is_old_cools_and_what_is_expired_is_gone() {
    let fixture = StoreFixture::new();
    let limits = Limits { age_ms: Some(1_000_000), ..Limits::NONE };
    NOW.store(2_000_000_000_000, Ordering::SeqCst);
    let store = fixture.with(Options { limits, clock, ..Options::default() });
    let brief = NewItem { expires_ms: Some(clock() + 10), ..item("brief") };
    let handle = store.add("alice", &[brief.clone(), item("old")], None).unwrap().added[0].handle.clone();
    assert!(store.get("alice", std::slice::from_ref(&handle)).unwrap()[0].is_some());
    NOW.fetch_add(1_500_000, Ordering::SeqCst);
    assert_eq!(store.get("alice", std::slice::from_ref(&handle)).unwrap(), [None]);
    assert_eq!(texts(&store, "alice"), ["old"]);
    let report = store.add("alice", &[NewItem { expires_ms: None, ..brief }], None).unwrap();
    assert_eq!((report.added[0].is_new, report.demoted, report.dropped), (true, 1, 0));
    assert_eq!(report.added[0].handle, handle);
    NOW.fetch_add(1_500_000, Ordering::SeqCst);
    let report = store.add("alice", &[item("new")], None).unwrap();
    assert_eq!((report.demoted, report.dropped), (1, 1));
    assert_eq!(texts(&store, "alice"), ["brief", "new"]);
}
