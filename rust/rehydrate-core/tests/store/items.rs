//! Items: what is added comes back, once, in its namespace, with its links, page by page.
use rehydrate_core::embed::MAX_DIM;
use rehydrate_core::error::Error;
use rehydrate_core::store::{Filter, NewItem, Paging, Purge, SearchRequest, Tier};

use super::fixture::{FIRST_PAGE, StoreFixture, add, from, item, texts};

#[test]
fn what_is_added_comes_back_byte_for_byte_after_reopening() {
    let fixture = StoreFixture::new();
    let every_field = NewItem {
        text: vec![0, 0xED, 0xA0, 0x80, b'\n', 0xFF],
        kind: "fact".into(),
        tier: Tier::Hot,
        source: "notes.md".into(),
        thread: "s1".into(),
        tool: "bash".into(),
        principal: "ünïcode \u{1F600}".into(),
        trust: 0.25,
        parents: vec!["p1".into(), String::new(), "a,b\n".into()],
        time_ms: -5,
        confidence: 0.125,
        expires_ms: Some(253_402_300_799_999),
        meta_json: Some("{\"a\": 1}".into()),
        redactions_json: Some("[]".into()),
        vector: None,
        links: vec![],
    };
    let handle = fixture.open().add("alice", std::slice::from_ref(&every_field), None).unwrap().added[0].handle.clone();
    let found = fixture.open().get("alice", std::slice::from_ref(&handle)).unwrap().remove(0).unwrap();
    assert_eq!(found.handle, handle);
    assert_eq!((found.text, found.kind, found.tier), (every_field.text, every_field.kind, every_field.tier));
    assert_eq!((found.source, found.thread), (every_field.source, every_field.thread));
    assert_eq!((found.tool, found.principal), (every_field.tool, every_field.principal));
    assert_eq!((found.trust, found.confidence), (every_field.trust, every_field.confidence));
    assert_eq!((found.parents, found.time_ms), (every_field.parents, every_field.time_ms));
    assert_eq!((found.expires_ms, found.meta_json), (every_field.expires_ms, every_field.meta_json));
    assert_eq!((found.redactions_json, found.links), (every_field.redactions_json, vec![]));
}

#[test]
fn an_item_is_stored_once_a_source_and_namespace() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let first = store.add("alice", &[from("a", "same"), from("b", "same"), from("a", "same")], None).unwrap().added;
    assert_eq!(first.iter().map(|added| added.is_new).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(first[0].handle, first[2].handle);
    assert_ne!(first[0].handle, first[1].handle);
    let again = fixture.open().add("alice", &[from("a", "same")], None).unwrap().added;
    assert_eq!((&again[0].handle, again[0].is_new), (&first[0].handle, false));
    assert!(store.add("bob", &[from("a", "same")], None).unwrap().added[0].is_new);
    assert_eq!((texts(&store, "alice").len(), texts(&store, "bob").len()), (2, 1));
}

#[test]
fn a_namespace_never_shows_what_another_one_holds() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
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
fn items_come_with_their_links_whatever_they_say_or_not_at_all() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let old = add(&store, "alice", &["lives in Paris", "likes tea"]);
    let link = |relation: &str, handle: &String| (relation.to_owned(), handle.clone());
    let newer = NewItem {
        links: vec![link("supersedes", &old[0]), link("contradicts", &old[1]), link("explains", &old[1])],
        ..item("lives in Rome")
    };
    let new = store.add("alice", &[newer], None).unwrap().added[0].handle.clone();
    assert!(store.link("alice", &old[0], &old[1], "same person").unwrap());
    assert!(!store.link("alice", &old[0], &old[1], "same person").unwrap());
    let found = store.get("alice", &[old[0].clone(), new.clone()]).unwrap();
    let links = |at: usize| {
        let links = &found[at].as_ref().unwrap().links;
        links.iter().map(|link| (link.relation.clone(), link.handle.clone(), link.is_outgoing)).collect::<Vec<_>>()
    };
    assert_eq!(links(0), [("same person".into(), old[1].clone(), true), ("supersedes".into(), new.clone(), false)]);
    let of_new = [("contradicts", 1), ("explains", 1), ("supersedes", 0)];
    assert_eq!(links(1), of_new.map(|(relation, at)| (relation.to_owned(), old[at].clone(), true)));
    let nothing = "mem_00000000000000000000000000".to_owned();
    for relation in ["supersedes", "explains", ""] {
        let dangling = NewItem { links: vec![link(relation, &nothing)], ..item("x") };
        assert!(matches!(store.add("alice", &[item("y"), dangling], None), Err(Error::Argument(_))));
        assert_eq!(texts(&store, "alice").len(), 3, "a call that failed stored something");
    }
    assert_eq!(store.forget("alice", &[new]).unwrap(), 1);
    assert_eq!(store.get("alice", &old[..1]).unwrap()[0].as_ref().unwrap().links.len(), 1);
}

#[test]
fn pages_are_in_order_and_filters_hold_on_each() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
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
    assert_eq!(times(Filter { threads: list(&[]), ..Filter::default() }), [0; 0]);
}

#[test]
fn items_of_one_call_may_link_each_other() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let handles = add(&fixture.open(), "draft", &["later", "earlier"]);
    // A handle follows from namespace, source and text, so it is known before the item is there.
    store.purge("draft", &Purge::Namespace).unwrap();
    let both = [("later", &handles[1]), ("earlier", &handles[0])]
        .map(|(text, other)| NewItem { links: vec![("beside".into(), other.clone())], ..item(text) });
    let added = store.add("draft", &both, None).unwrap().added;
    assert_eq!(added.iter().map(|added| &added.handle).collect::<Vec<_>>(), handles.iter().collect::<Vec<_>>());
    assert_eq!(store.stats("draft").unwrap().links, 2);
}

#[test]
fn vectors_beyond_the_limit_are_refused_and_those_at_it_compare_right() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let vector = |dim: usize, seed: u32| -> Vec<f32> {
        (0..dim as u32).map(|at| if (at ^ seed).wrapping_mul(0x9E37_79B1) >> 31 == 0 { 1.0 } else { -1.0 }).collect()
    };
    let with = |text: &str, dim: usize, seed: u32| NewItem { vector: Some(vector(dim, seed)), ..item(text) };
    for dim in [MAX_DIM + 1, MAX_DIM + 256, 3 * MAX_DIM] {
        let (row, number) = (vector(dim, 1), dim.to_string());
        let asked = SearchRequest { vector: Some((&row, "wide")), ..SearchRequest::new("alpha", 3) };
        for refused in [
            store.add("alice", &[with("alpha", dim, 1)], Some("wide")).map(drop),
            store.search("alice", &asked).map(drop),
            store.recall_vectors("alice", &[&row], "wide", 3, false).map(drop),
            store.set_vectors("alice", &[format!("mem_{}", "0".repeat(26))], &row, "wide").map(drop),
        ] {
            let said = refused.unwrap_err().to_string();
            assert!(said.contains(&number) && said.contains("the limit is 8192;"), "{said}");
        }
    }
    let items = [with("alpha", MAX_DIM, 1), with("beta", MAX_DIM, 2), with("gamma", MAX_DIM, 3)];
    store.add("alice", &items, Some("wide")).unwrap();
    for (seed, text) in [(1, "alpha"), (2, "beta"), (3, "gamma")] {
        let near = store.recall_vectors("alice", &[&vector(MAX_DIM, seed)], "wide", 1, false).unwrap();
        let (handle, cosine) = near[0][0].clone();
        assert!((cosine - 1.0).abs() < 0.001, "{cosine}");
        assert_eq!(store.get("alice", &[handle]).unwrap()[0].as_ref().unwrap().text, text.as_bytes());
    }
}

#[test]
fn a_vector_of_zeros_counts_no_bytes() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let zeros = NewItem { vector: Some(vec![0.0; 8]), ..item("alpha") };
    let added = store.add("alice", &[zeros], Some("small")).unwrap().added;
    assert_eq!(store.stats("alice").unwrap().bytes, "alpha".len() as u64);
    store.set_vectors("alice", &[added[0].handle.clone()], &[1.0; 8], "small").unwrap();
    assert_eq!(store.stats("alice").unwrap().bytes, "alpha".len() as u64 + 4 * 8);
}
