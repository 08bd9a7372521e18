//! Items that a text in place of a conversation must have, and doesn't.
use super::items::{FILE, Item, Status, changes};
use super::proposals::is_permanent;
use super::raw::{Raw, find, flat};
use super::reading::ContextStore;
use super::within;
use crate::notes::WORD_FOR_WORD;
use crate::tokens::Counter;

/// Names of one summary that are marked.
const MAX_MARKED: usize = 20;

impl ContextStore {
    /// The addition to a summary, in at most `room` tokens: a mark on the names that were `invented`, and the items
    /// that must not be lost and are not in it.
    #[must_use]
    pub fn addition(&self, summary: &[u8], invented: &[Raw], room: i64, counter: Counter) -> Vec<u8> {
        let mut lines = Vec::new();
        if !invented.is_empty() {
            let (marked, more) = invented.split_at(invented.len().min(MAX_MARKED));
            let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            let names = marked.iter().map(|name| &**name).collect::<Vec<_>>().join(&b", "[..]);
            lines.push([b"[Not found in the conversation, do not rely on: ", &*names, more.as_bytes(), b"]"].concat());
        }
        let missing = self.missing(summary, room, counter);
        if !missing.is_empty() {
            lines.push(WORD_FOR_WORD.trim().into());
            lines.extend(missing);
        }
        lines.join(&b'\n')
    }

    /// Items that must not be lost and are not in a text, word for word: the strongest that fit into this many tokens,
    /// and the handles of the others.
    fn missing(&self, text: &[u8], room: i64, counter: Counter) -> Vec<Vec<u8>> {
        let text = flat(text);
        let items = self.items().all().iter();
        let mut missing: Vec<&Item> = items
            .map(AsRef::as_ref)
            .filter(|item| must_stay(item) && find(&text, &flat(&item.text)).is_none())
            .collect();
        if missing.is_empty() {
            return Vec::new();
        }
        missing.sort_by_key(|item| std::cmp::Reverse((item.strength, item.last_entry())));
        let lines: Vec<_> = missing.into_iter().map(|item| (item.span.entry, line(item))).collect();
        within(room, &lines, counter)
    }
}

fn must_stay(item: &Item) -> bool {
    item.status == Status::Live && if item.is(FILE) { item.is_changed() } else { is_permanent(item.heading) }
}

fn line(item: &Item) -> Vec<u8> {
    let changed = item.uses.iter().filter(|(used, _)| changes(used));
    let mut uses: Vec<u8> =
        changed.flat_map(|(used, entry)| [b" ", &**used, format!(" #{entry}").as_bytes()].concat()).collect();
    if uses.is_empty() {
        uses = format!(" (#{})", item.span.entry).into_bytes();
    }
    [b"- ", &*item.kind, b": ", &flat(&item.text), &uses].concat()
}

#[cfg(test)]
mod tests {
    use super::super::reading::{About, Said, SaidPiece};
    use super::*;
    use crate::conversation::{PieceKind, Role};

    #[test]
    fn what_is_laid_down_and_files_that_were_changed_must_stay() {
        let piece = |text: &'static str, kind, about| SaidPiece { text: text.as_bytes(), kind, about };
        let said = |entry, role, piece, calls| Said {
            entry,
            role,
            pieces: vec![piece],
            calls,
            answers: Vec::new(),
            is_user_turn: role == Role::User,
        };
        let about = About { used: b"edited".as_slice().into(), text: b"a.py".as_slice().into() };
        let mut store = ContextStore::default();
        store.read(vec![
            said(0, Role::User, piece("Never use  tabs. Why?", PieceKind::Text, vec![]), vec![]),
            said(1, Role::Assistant, piece("Edit {\"path\":\"a.py\"}", PieceKind::ToolInput, vec![about]), vec![b"1"]),
        ]);
        let lines = store.missing(b"Nothing.", 400, Counter::O200kBase);
        let lines: Vec<_> = lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
        assert_eq!(lines, ["- preference: Never use tabs. (#0)", "- file: a.py edited #1"]);
        assert_eq!(store.missing(b"He said: Never use\ntabs. And a.py.", 400, Counter::O200kBase), [] as [Vec<u8>; 0]);
        let names: Vec<Raw> = (10..32).map(|number: i32| number.to_string().into_bytes().into()).collect();
        let added = store.addition(b"Nothing.", &names, 400, Counter::O200kBase);
        let added = String::from_utf8_lossy(&added);
        let (mark, rest) = added.split_once('\n').unwrap();
        assert!(
            mark.starts_with("[Not found in the conversation, do not rely on: 10, 11, ")
                && mark.ends_with("29 and 2 more]")
        );
        assert_eq!(rest, format!("Also, word for word:\n{}", lines.join("\n")));
    }
}
