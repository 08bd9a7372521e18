//! Search and recall: what is there is found at once, by words and by the vectors of one model.
use rehydrate_core::error::Error;
use rehydrate_core::store::{Filter, NewItem, Purge, SearchRequest, Store, Tier};

use super::fixture::{StoreFixture, add, first, found, from, item, texts};

#[test]
fn what_is_added_is_found_at_once_by_every_store_and_what_is_forgotten_is_not() {
    let fixture = StoreFixture::new();
    let (one, two) = (fixture.open(), fixture.open());
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
    let fixture = StoreFixture::new();
    let store = fixture.open();
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
fn signs_with_a_vector_find_what_holds_them_first_and_then_what_is_near() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let with = |text: &str, vector: &[f32]| NewItem { vector: Some(vector.to_vec()), ..item(text) };
    let items = [with("the violin costs eight hundred", &[1.0, 0.1]), with("this has -> an arrow", &[0.0, 1.0])];
    store.add("alice", &[&items[..], &[with("lunch was at noon", &[0.9, 0.4])]].concat(), Some("minilm")).unwrap();
    let search = |vector: &'static [f32], space, limit| {
        let request = SearchRequest { vector: Some((vector, space)), ..SearchRequest::new("->", limit) };
        store.search("alice", &request)
    };
    let hits = search(&[1.0, 0.0], "minilm", 2).unwrap();
    let texts: Vec<&[u8]> = hits.iter().map(|hit| hit.item.text.as_slice()).collect();
    assert_eq!(texts, [items[1].text.as_slice(), items[0].text.as_slice()]);
    assert!(hits[0].score > hits[1].score && hits[0].text == 1.0);
    assert_eq!(search(&[1.0, 0.0], "minilm", 1).unwrap()[0].item.text, items[1].text);
    assert!(search(&[1.0, 0.0], "other", 1).is_err(), "of another model");
}

#[test]
fn vectors_of_two_models_do_not_meet() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let with = |text: &str, vector: &[f32]| NewItem { vector: Some(vector.to_vec()), ..item(text) };
    let handle = store.add("alice", &[with("a", &[1.0, 0.0])], Some("minilm")).unwrap().added[0].handle.clone();
    for (vector, space) in
        [(vec![1.0, 0.0], Some("other")), (vec![1.0], Some("minilm")), (vec![f32::NAN, 0.0], Some("minilm"))]
    {
        assert!(matches!(store.add("alice", &[with("b", &vector)], space), Err(Error::Argument(_))));
    }
    assert!(matches!(store.add("bob", &[with("b", &[1.0])], None), Err(Error::Argument(_))));
    assert_eq!(store.set_vectors("alice", std::slice::from_ref(&handle), &[0.0, 1.0], "minilm").unwrap(), 1);
    assert!(store.set_vectors("alice", std::slice::from_ref(&handle), &[0.0, 1.0], "other").is_err());
    assert!(store.set_vectors("alice", &[handle], &[], "minilm").is_err());
}

#[test]
fn a_namespace_whose_vectors_were_dropped_takes_those_of_any_model() {
    let fixture = StoreFixture::new();
    let (store, other) = (fixture.open(), fixture.open());
    let with = |text: &str, vector: &[f32]| NewItem { vector: Some(vector.to_vec()), ..item(text) };
    let items = [with("north", &[1.0, 0.0]), with("east", &[0.0, 1.0]), item("nowhere")];
    let handles: Vec<String> =
        store.add("alice", &items, Some("old")).unwrap().added.into_iter().map(|added| added.handle).collect();
    let nearest = |store: &Store, space: &str, vector: &[f32]| {
        let near = store.recall_vectors("alice", &[vector], space, 3, false).unwrap().remove(0);
        near.into_iter().map(|(handle, _)| handle).collect::<Vec<_>>()
    };
    store.flush().unwrap();
    for store in [&store, &other] {
        assert_eq!(nearest(store, "old", &[1.0, 0.1]), handles[..2]);
    }
    assert_eq!((store.drop_vectors("alice").unwrap(), store.drop_vectors("bob").unwrap()), (2, 0));
    for store in [&store, &other] {
        // These vectors have as many components as the old ones, but aren't compared with them.
        assert_eq!(nearest(store, "new", &[1.0, 0.1]), [""; 0]);
    }
    store.set_vectors("alice", &handles[1..], &[1.0, 0.0, 0.5, 0.5], "new").unwrap();
    for store in [&store, &other] {
        assert_eq!(nearest(store, "new", &[1.0, 0.1]), handles[1..]);
        assert!(store.recall_vectors("alice", &[&[1.0, 0.0]], "old", 1, false).is_err());
    }
    let stats = store.stats("alice").unwrap();
    assert_eq!((stats.vectors, stats.space.as_deref(), stats.items), (2, Some("new"), 3));
    assert_eq!((store.verify().unwrap().problems, texts(&store, "alice").len()), (vec![], 3));
}

#[test]
fn recall_finds_the_nearest_by_either_model() {
    let fixture = StoreFixture::new();
    let store = fixture.open();
    let with = |text: &str, vector: [f32; 2]| NewItem { vector: Some(vector.to_vec()), ..item(text) };
    let items = [with("the cat sat on the mat", [1.0, 0.0]), with("stock prices fell sharply", [0.0, 1.0])];
    let added = store.add("alice", &items, Some("two")).unwrap().added;
    let near = store.recall_vectors("alice", &[&[0.9, 0.1], &[0.0, -1.0]], "two", 1, false).unwrap();
    assert_eq!(near[0][0].0, added[0].handle);
    assert!((near[0][0].1 - 0.99).abs() < 0.02, "{near:?}");
    assert!(store.recall_vectors("alice", &[&[1.0, 0.0]], "other", 1, false).is_err());
    assert_eq!(store.recall_vectors("bob", &[&[1.0, 0.0]], "two", 1, false).unwrap(), [vec![]]);
    let near = store.recall("alice", &["a kitten on a rug", "markets"], 1, false).unwrap();
    assert_eq!((&near[0][0].0, &near[1][0].0), (&added[0].handle, &added[1].handle));
}
