//! A store in a folder of its own, and what tests put in and take out.
use std::path::{Path, PathBuf};

use rehydrate_core::error::{Error, StoreProblem};
use rehydrate_core::store::{Filter, NewItem, Options, Paging, SearchRequest, Store};
use tempfile::TempDir;

pub const FIRST_PAGE: Paging = Paging { cursor: None, limit: 1_000_000, newest_first: false };

/// A store in a folder of its own.
pub struct StoreFixture {
    folder: TempDir,
}

impl StoreFixture {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("deep/er/memory.db")
    }

    pub fn open(&self) -> Store {
        self.with(Options::default())
    }

    pub fn with(&self, options: Options) -> Store {
        Store::open(&self.path(), options).unwrap()
    }

    /// All bytes of all files.
    pub fn bytes(&self) -> Vec<u8> {
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

pub fn item(text: &str) -> NewItem {
    NewItem::new(text, 1_000)
}

pub fn from(source: &str, text: &str) -> NewItem {
    NewItem { source: source.into(), ..item(text) }
}

pub fn add(store: &Store, namespace: &str, texts: &[&str]) -> Vec<String> {
    let items: Vec<NewItem> = texts.iter().map(|text| item(text)).collect();
    store.add(namespace, &items, None).unwrap().added.into_iter().map(|added| added.handle).collect()
}

pub fn texts(store: &Store, namespace: &str) -> Vec<String> {
    let page = store.list(namespace, &Filter::default(), FIRST_PAGE).unwrap();
    page.items.into_iter().map(|item| String::from_utf8(item.text).unwrap()).collect()
}

pub fn found(store: &Store, namespace: &str, query: &str) -> Vec<(String, f32)> {
    let hits = store.search(namespace, &SearchRequest::new(query, 10)).unwrap();
    hits.into_iter().map(|hit| (String::from_utf8(hit.item.text).unwrap(), hit.score)).collect()
}

pub fn first(store: &Store, namespace: &str, query: &str) -> Option<String> {
    found(store, namespace, query).into_iter().next().map(|(text, _)| text)
}

/// Texts that words tell apart.
pub fn corpus(count: usize) -> Vec<NewItem> {
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

pub fn kind_of<T: std::fmt::Debug>(result: Result<T, Error>) -> StoreProblem {
    match result.unwrap_err() {
        Error::Store { kind, .. } => kind,
        other => panic!("{other:?}"),
    }
}
