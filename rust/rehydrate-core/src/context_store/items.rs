//! Items and operations: the directives, the work and the open points of a thread, as a log and its resulting state.
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::raw::{self, Raw, digest};
use crate::notes::Heading;

/// A task that is still open, as a model saw it.
pub(super) const TASK: &[u8] = b"task";
pub(super) const REQUEST: &[u8] = b"request";
pub(super) const PLAN: &[u8] = b"plan";
pub(super) const DECISION: &[u8] = b"decision";
pub(super) const PREFERENCE: &[u8] = b"preference";
pub(super) const FILE: &[u8] = b"file";
pub(super) const NOTE: &[u8] = b"note";
pub(super) const ERROR: &[u8] = b"error";

/// Uses that change a file.
const CHANGES: [&[u8]; 3] = [b"edited", b"created", b"deleted"];
/// Maximum uses kept with one item; the others are in the log.
const MAX_USES: usize = 6;

/// Trust in a speaker's words.
pub(super) const USER_TRUST: f64 = 1.0;
pub(super) const ASSISTANT_TRUST: f64 = 0.75;
pub(super) const TOOL_TRUST: f64 = 0.5;

/// The states of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Live,
    Superseded,
    Resolved,
    Faded,
}

impl Status {
    pub const ALL: [Self; 4] = [Self::Live, Self::Superseded, Self::Resolved, Self::Faded];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Superseded => "superseded",
            Self::Resolved => "resolved",
            Self::Faded => "faded",
        }
    }
}

/// The place of a text in the thread, in characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    pub entry: i64,
    pub piece: i64,
    pub start: i64,
    pub end: i64,
    /// 64 bits of the text, hexadecimal.
    pub digest: String,
}

impl Span {
    pub(super) fn of(entry: i64, piece: i64, start: i64, text: &[u8]) -> Self {
        Self { entry, piece, start, end: start + raw::chars(text), digest: digest(text) }
    }

    /// Whether both have a part of one text.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        (self.entry, self.piece) == (other.entry, other.piece) && self.start < other.end && other.start < self.end
    }
}

/// One thing in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub id: i64,
    pub heading: Heading,
    pub kind: Raw,
    /// Two items of one heading and key are the same thing.
    pub key: Raw,
    pub text: Raw,
    pub span: Span,
    pub trust: f64,
    pub strength: i64,
    /// Its uses, each with its entry.
    pub uses: Vec<(Raw, i64)>,
    pub status: Status,
    /// The item that holds instead of it.
    pub other: Option<i64>,
}

impl Item {
    /// An item that has no id yet.
    pub(super) fn new(heading: Heading, kind: &[u8], text: &[u8], span: Span, trust: f64) -> Self {
        Self {
            id: 0,
            heading,
            kind: kind.into(),
            key: raw::key_of(text),
            text: text.into(),
            span,
            trust,
            strength: 0,
            uses: Vec::new(),
            status: Status::Live,
            other: None,
        }
    }

    pub(super) fn is(&self, kind: &[u8]) -> bool {
        *self.kind == *kind
    }

    /// The last entry that referred to it.
    #[must_use]
    pub fn last_entry(&self) -> i64 {
        self.uses.iter().map(|&(_, entry)| entry).fold(self.span.entry, i64::max)
    }

    /// Whether it is a file that was changed.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.uses.iter().any(|(used, _)| changes(used))
    }

    /// Do an operation on it.
    fn change(&mut self, operation: &Operation) {
        match operation.kind {
            OperationKind::Supersede => (self.status, self.other) = (Status::Superseded, operation.other),
            OperationKind::Resolve => {
                self.status = Status::Resolved;
                self.note_use(b"resolved", operation.entry);
            }
            OperationKind::Fade => self.status = Status::Faded,
            OperationKind::Add | OperationKind::Promote => {
                if self.status == Status::Faded {
                    self.status = Status::Live;
                }
                self.note_use(&operation.used, operation.entry);
            }
        }
    }

    fn note_use(&mut self, used: &[u8], entry: i64) {
        self.uses.push((used.into(), entry));
        if self.uses.len() > MAX_USES {
            // A read never pushes out a change of the file.
            let gone = self.uses.iter().position(|(used, _)| !changes(used));
            self.uses.remove(gone.unwrap_or(0));
        }
    }
}

pub(super) fn changes(used: &[u8]) -> bool {
    CHANGES.contains(&used)
}

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    Add,
    Supersede,
    Resolve,
    Promote,
    Fade,
}

impl OperationKind {
    pub const ALL: [Self; 5] = [Self::Add, Self::Supersede, Self::Resolve, Self::Promote, Self::Fade];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Supersede => "supersede",
            Self::Resolve => "resolve",
            Self::Promote => "promote",
            Self::Fade => "fade",
        }
    }
}

/// One step of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    pub kind: OperationKind,
    /// The id of the item.
    pub item: i64,
    /// The entry that gave rise to it.
    pub entry: i64,
    pub added: Option<Arc<Item>>,
    /// The item that holds instead.
    pub other: Option<i64>,
    /// The use of the item.
    pub used: Raw,
}

impl Operation {
    pub(super) fn of(kind: OperationKind, item: i64, entry: i64) -> Self {
        Self { kind, item, entry, added: None, other: None, used: Raw::default() }
    }

    pub(super) fn supersede(item: i64, by: i64, entry: i64) -> Self {
        Self { other: Some(by), ..Self::of(OperationKind::Supersede, item, entry) }
    }

    pub(super) fn promote(item: i64, entry: i64, used: &[u8]) -> Self {
        Self { used: used.into(), ..Self::of(OperationKind::Promote, item, entry) }
    }
}

/// A log of operations, and the items that they add up to.
#[derive(Debug, Default)]
pub struct Items {
    log: Vec<Operation>,
    /// The entries whose operations change nothing.
    left_out: FxHashSet<i64>,
    last_id: i64,
    /// In the order in which they were added.
    all: Vec<Arc<Item>>,
    places: FxHashMap<i64, usize>,
    by_key: FxHashMap<(Heading, Raw), i64>,
    /// The ids of the valid items under each heading, in the order in which they became valid.
    live: [BTreeMap<u64, i64>; 5],
    since: FxHashMap<(Heading, i64), u64>,
    steps: u64,
}

impl Items {
    /// Do these operations. Those of the entries `left_out` are in the log and change nothing, but their ids are not
    /// used again.
    #[must_use]
    pub fn new(operations: Vec<Operation>, left_out: FxHashSet<i64>) -> Self {
        let mut items = Self { left_out, ..Self::default() };
        for operation in operations {
            if !items.left_out.contains(&operation.entry) {
                items.apply(operation);
                continue;
            }
            if let Some(added) = &operation.added {
                items.last_id = items.last_id.max(added.id);
            }
            items.log.push(operation);
        }
        items
    }

    /// All operations, in order.
    #[must_use]
    pub fn log(&self) -> &[Operation] {
        &self.log
    }

    /// The items of the first `operations`.
    pub(super) fn first(&self, operations: usize) -> Self {
        Self::new(self.log[..operations.min(self.log.len())].to_vec(), self.left_out.clone())
    }

    /// The items without those that these entries made. None if that changes nothing.
    pub(super) fn without(&self, entries: FxHashSet<i64>) -> Option<Self> {
        (entries != self.left_out).then(|| Self::new(self.log.clone(), entries))
    }

    /// The operations of the entries before this one, and the entries that are left out.
    pub(super) fn before(&self, entry: i64) -> (Vec<Operation>, FxHashSet<i64>) {
        let operations = self.log.iter().filter(|operation| operation.entry < entry);
        (operations.cloned().collect(), self.left_out.clone())
    }

    /// All items, in the order in which they were added.
    #[must_use]
    pub fn all(&self) -> &[Arc<Item>] {
        &self.all
    }

    pub(super) fn next_id(&self) -> i64 {
        self.last_id.saturating_add(1)
    }

    pub(super) fn get(&self, id: i64) -> Option<&Arc<Item>> {
        self.places.get(&id).map(|&place| &self.all[place])
    }

    /// The item of a key, if there is one.
    pub(super) fn find(&self, heading: Heading, key: &[u8]) -> Option<&Arc<Item>> {
        self.by_key.get(&(heading, key.into())).and_then(|&id| self.get(id))
    }

    /// The items of a heading that hold.
    pub fn live(&self, heading: Heading) -> impl DoubleEndedIterator<Item = &Arc<Item>> {
        self.live[heading as usize].values().filter_map(|&id| self.get(id))
    }

    pub(super) fn holds(&self, heading: Heading, id: i64) -> bool {
        self.since.contains_key(&(heading, id))
    }

    /// The operation that adds an item, with the next id.
    pub(super) fn addition(&self, item: Item) -> Operation {
        let id = self.next_id();
        let operation = Operation::of(OperationKind::Add, id, item.span.entry);
        Operation { added: Some(Arc::new(Item { id, ..item })), ..operation }
    }

    pub(super) fn add(&mut self, item: Item) {
        self.apply(self.addition(item));
    }

    /// Do one step; an operation about an item that is not there changes nothing.
    pub fn apply(&mut self, operation: Operation) {
        let place = match &operation.added {
            Some(added) => {
                self.by_key.insert((added.heading, added.key.clone()), added.id);
                self.last_id = self.last_id.max(added.id);
                Some(self.put(Arc::clone(added)))
            }
            None => self.places.get(&operation.item).copied(),
        };
        if let Some(place) = place {
            if operation.added.is_none() {
                // The log has the item as it was added, so its first change copies it, and no other.
                Arc::make_mut(&mut self.all[place]).change(&operation);
            }
            self.note_status(place);
        }
        self.log.push(operation);
    }

    /// Put an item in its place, and return that.
    fn put(&mut self, item: Arc<Item>) -> usize {
        let place = *self.places.entry(item.id).or_insert(self.all.len());
        match self.all.get_mut(place) {
            Some(there) => *there = item,
            None => self.all.push(item),
        }
        place
    }

    /// Note whether the item in this place holds.
    fn note_status(&mut self, place: usize) {
        let item = &self.all[place];
        let (heading, id) = (item.heading, item.id);
        let live = &mut self.live[heading as usize];
        if item.status != Status::Live {
            if let Some(since) = self.since.remove(&(heading, id)) {
                live.remove(&since);
            }
        } else if !self.since.contains_key(&(heading, id)) {
            self.steps += 1;
            self.since.insert((heading, id), self.steps);
            live.insert(self.steps, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(heading: Heading, text: &str, entry: i64) -> Item {
        let text = text.as_bytes();
        Item::new(heading, NOTE, text, Span::of(entry, 0, 0, text), USER_TRUST)
    }

    #[test]
    fn operations_add_up_to_items() {
        let mut items = Items::default();
        items.add(item(Heading::Preferences, "Use Tabs.", 0));
        items.add(item(Heading::Preferences, "Use spaces.", 4));
        items.apply(Operation::supersede(1, 2, 4));
        items.apply(Operation::of(OperationKind::Fade, 9, 4)); // of nothing
        let live: Vec<i64> = items.live(Heading::Preferences).map(|item| item.id).collect();
        assert_eq!((live, items.log().len(), items.next_id()), (vec![2], 4, 3));
        let old = items.find(Heading::Preferences, b"use tabs.").unwrap();
        assert_eq!((old.status, old.other), (Status::Superseded, Some(2)));
        let without = items.without(FxHashSet::from_iter([4])).unwrap();
        let live: Vec<i64> = without.live(Heading::Preferences).map(|item| item.id).collect();
        assert_eq!((live, without.log().len(), without.next_id()), (vec![1], 4, 3));
        assert!(without.without(FxHashSet::from_iter([4])).is_none());
        assert_eq!((without.first(3).log(), without.first(9).log().len()), (&items.log()[..3], 4));
        let before = |items: &Items| {
            let (log, left_out) = items.before(4);
            Items::new(log, left_out)
        };
        let live: Vec<i64> = before(&items).live(Heading::Preferences).map(|item| item.id).collect();
        assert_eq!((live, before(&items).log().len()), (vec![1], 1));
        assert!(before(&items.without(FxHashSet::from_iter([0])).unwrap()).all().is_empty());
    }

    #[test]
    fn what_changed_a_file_is_never_pushed_out() {
        let mut items = Items::default();
        items.add(item(Heading::Files, "a.py", 0));
        for entry in 0..12 {
            items.apply(Operation::promote(1, entry, if entry == 0 { b"edited" } else { b"read" }));
        }
        let file = items.get(1).unwrap();
        assert_eq!((file.uses.len(), &*file.uses[0].0, file.last_entry()), (MAX_USES, &b"edited"[..], 11));
        assert!(file.is_changed());
        items.apply(Operation::of(OperationKind::Fade, 1, 12));
        assert!(!items.holds(Heading::Files, 1));
        items.apply(Operation::promote(1, 13, b"read"));
        assert!(items.holds(Heading::Files, 1));
    }
}
