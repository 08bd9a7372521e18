//! Reads what a turn added, by rules, and applies it. Trust follows the source.
//!
//! Only the user's words become a preference, and only the user's or the assistant's a decision. A tool's result
//! becomes an error at most.
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use std::sync::Arc;

use super::items::{
    ASSISTANT_TRUST, DECISION, ERROR, FILE, Item, Items, NOTE, Operation, OperationKind, PLAN, PREFERENCE, REQUEST,
    Span, Status, TASK, TOOL_TRUST, USER_TRUST,
};
use super::raw::{self, Raw};
use crate::analysis::directives::DirectiveSpan;
use crate::caps::{decoded, encoded};
use crate::conversation::{PieceKind, Role};
use crate::interrupt::checkpoint;
use crate::notes::{
    Heading, Subjects, SummaryLine, decisions, exit_code, first_error, is_correction, labelled, sentences,
    summary_lines,
};

/// Entries without a reference, after which an open error or a task fades.
const FADES_AFTER: i64 = 120;
/// The strength of a preference whose words contain no directive.
const LEAST_STRENGTH: i64 = 2;
/// The beginning of results whose call failed.
const OWN_ERRORS: [&str; 3] = ["error", "traceback", "<tool_use_error"];
const STOPS: [&str; 7] = [".", "!", "?", "。", "！", "？", "؟"];
const MAX_PLAN: usize = 12;

const AGAIN: &[u8] = b"said again";
const PLANNED: &[u8] = b"planned";
pub(super) const RAN: &[u8] = b"ran";
const LOOKED_UP: &[u8] = b"looked up";

/// A message of a new entry.
#[derive(Clone, Debug)]
pub struct Said<'a> {
    /// The index of its entry.
    pub entry: i64,
    pub role: Role,
    pub pieces: Vec<SaidPiece<'a>>,
    pub calls: Vec<&'a [u8]>,
    pub answers: Vec<&'a [u8]>,
    pub is_user_turn: bool,
}

/// One text of a message.
#[derive(Clone, Debug)]
pub struct SaidPiece<'a> {
    pub text: &'a [u8],
    pub kind: PieceKind,
    /// The subjects of a call, for its input.
    pub about: Vec<About>,
}

/// A subject of a call: the action, and its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    pub used: Raw,
    pub text: Raw,
}

/// The items that a thread must not lose, read from its messages in order.
#[derive(Debug, Default)]
pub struct ContextStore {
    pub(super) items: Items,
    /// By the id of a call that is not answered.
    calls: FxHashMap<Raw, Vec<About>>,
    /// The subjects of the preferences.
    subjects: Subjects,
}

/// A text of a message, and its place in the thread.
#[derive(Clone, Copy)]
struct Source<'a> {
    entry: i64,
    piece: i64,
    text: &'a [u8],
}

impl Source<'_> {
    /// The span of a part of it.
    fn span(&self, part: &Range<usize>) -> Span {
        let start = raw::chars(&self.text[..part.start]);
        Span::of(self.entry, self.piece, start, &self.text[part.clone()])
    }

    /// The span of a text in a call's input. None if JSON writes it in another way.
    fn span_of(&self, text: &[u8]) -> Option<Span> {
        let start = raw::find(self.text, text)?;
        Some(self.span(&(start..start + text.len())))
    }
}

impl ContextStore {
    /// The items, and the log of their changes.
    #[must_use]
    pub fn items(&self) -> &Items {
        &self.items
    }

    /// Forget all but the first `operations`. The calls that wait for their results stay.
    pub fn back_to(&mut self, operations: usize) {
        self.begin_again(self.items.first(operations));
    }

    /// Take back everything that these entries gave rise to, and restore what that had ended. The log keeps all of it.
    pub fn leave_out(&mut self, entries: FxHashSet<i64>) {
        if let Some(items) = self.items.without(entries) {
            self.begin_again(items);
        }
    }

    /// The operations of the entries before this one, and the entries that are left out. A store `of` them is as it was
    /// before the entry was read, without entries that were left out since.
    #[must_use]
    pub fn before(&self, entry: i64) -> (Vec<Operation>, FxHashSet<i64>) {
        self.items.before(entry)
    }

    /// The store of these operations; those of the entries `left_out` change nothing.
    #[must_use]
    pub fn of(operations: Vec<Operation>, left_out: FxHashSet<i64>) -> Self {
        Self { items: Items::new(operations, left_out), ..Self::default() }
    }

    fn begin_again(&mut self, items: Items) {
        self.items = items;
        self.subjects = Subjects::default();
    }

    /// Do the earlier operations.
    pub fn replay(&mut self, operations: Vec<Operation>) {
        for operation in operations {
            self.items.apply(operation);
        }
    }

    /// Note the calls in messages that were read before: their results may still come.
    pub fn note_calls(&mut self, messages: Vec<Said<'_>>) {
        for message in messages {
            let mut calls = message.calls.into_iter();
            for piece in message.pieces {
                if piece.kind == PieceKind::ToolInput {
                    self.note_call(calls.next().unwrap_or_default(), piece.about);
                }
            }
        }
    }

    fn note_call(&mut self, call: &[u8], mut about: Vec<About>) {
        about.retain(|about| *about.used != *PLANNED);
        self.calls.insert(call.into(), about);
    }

    /// Read new messages, in order.
    pub fn read(&mut self, messages: Vec<Said<'_>>) {
        let before = self.items.log().len();
        for message in messages {
            checkpoint();
            self.read_message(message);
        }
        if self.items.log().len() == before {
            return;
        }
        let Some(now) = self.items.log().last().map(|last| last.entry) else { return };
        let open = self.items.live(Heading::Context).chain(self.items.live(Heading::TaskState));
        let is_old = |item: &&Arc<Item>| {
            (item.is(ERROR) || item.is(TASK)) && now.saturating_sub(item.last_entry()) > FADES_AFTER
        };
        let faded: Vec<i64> = open.filter(is_old).map(|item| item.id).collect();
        self.replay(faded.into_iter().map(|id| Operation::of(OperationKind::Fade, id, now)).collect());
    }

    fn read_message(&mut self, message: Said<'_>) {
        let Said { entry, role, is_user_turn, .. } = message;
        let (mut calls, mut answers) = (message.calls.into_iter(), message.answers.into_iter());
        for (number, SaidPiece { text, kind, about }) in message.pieces.into_iter().enumerate() {
            let source = Source { entry, piece: number as i64, text };
            match kind {
                PieceKind::ToolInput => self.read_call(source, about, calls.next().unwrap_or_default()),
                PieceKind::ToolResult => self.read_result(source, answers.next().unwrap_or_default()),
                PieceKind::Text if role != Role::System => self.read_text(source, role, is_user_turn),
                PieceKind::Text | PieceKind::Thinking => {}
            }
        }
        for call in answers {
            self.read_result(Source { entry, piece: 0, text: b"" }, call); // with nothing: such a result is not a piece
        }
    }

    // Text

    fn read_text(&mut self, source: Source<'_>, role: Role, is_user: bool) {
        if is_user {
            let points = decoded(source.text);
            if let Some(lines) = summary_lines(&points) {
                return self.take_over(source, &points, lines);
            }
            self.read_request(source);
            self.read_directives(source);
            self.read_labelled(source);
        } else if role == Role::User {
            return; // a harness speaks
        }
        let trust = if is_user { USER_TRUST } else { ASSISTANT_TRUST };
        let mut places = Places::of(source);
        for part in decisions(&raw::plain(source.text)) {
            let (text, span) = places.part(part);
            self.add_once(Item::new(Heading::Decisions, DECISION, text, span, trust));
        }
    }

    /// Takes over the lines of one of our summaries, once. From now on they come from that message. `points` is its
    /// text.
    fn take_over(&mut self, source: Source<'_>, points: &[u32], lines: Vec<SummaryLine>) {
        for SummaryLine { heading, kind, text: place, uses } in lines {
            let kind = kind.as_bytes();
            let text = &*encoded(&points[place.clone()]);
            let span = Span::of(source.entry, source.piece, place.start as i64, text);
            let trust = match kind {
                ERROR => TOOL_TRUST,
                PLAN | TASK | DECISION | FILE => ASSISTANT_TRUST,
                _ => USER_TRUST,
            };
            let mut item = Item::new(heading, kind, text, span, trust);
            if kind == FILE {
                item.key = text.into();
            }
            if kind == PREFERENCE {
                item.strength = strength_of(text);
            }
            item.uses = uses.into_iter().map(|used| (encoded(&points[used]).into(), source.entry)).collect();
            self.add_once(item);
        }
    }

    /// The last request is the state of the task; a plan was for the one before. A task that a model saw stays until it is
    /// settled.
    fn read_request(&mut self, source: Source<'_>) {
        let part = raw::stripped(source.text);
        if part.is_empty() {
            return;
        }
        let new = self.items.next_id();
        let before = self.items.live(Heading::TaskState).filter(|item| !item.is(TASK));
        let before: Vec<i64> = before.map(|item| item.id).collect();
        self.replay(before.into_iter().map(|id| Operation::supersede(id, new, source.entry)).collect());
        let (text, span) = (&source.text[part.clone()], source.span(&part));
        let mut request = Item::new(Heading::TaskState, REQUEST, text, span, USER_TRUST);
        request.key = format!("{}.{}", source.entry, source.piece).into_bytes().into();
        self.items.add(request);
    }

    fn read_directives(&mut self, source: Source<'_>) {
        let mut places = Places::of(source);
        for DirectiveSpan { range, strength, is_plain, subject } in raw::directives(source.text) {
            if !is_plain {
                continue;
            }
            let after = &source.text[range.end..];
            let stop = STOPS.iter().find(|stop| after.starts_with(stop.as_bytes())).map_or(0, |stop| stop.len());
            let (text, span) = places.part(range.start..range.end + stop);
            let item = Item::new(Heading::Preferences, PREFERENCE, text, span, USER_TRUST);
            let is_new = self.items.find(Heading::Preferences, &item.key).is_none();
            if is_new && is_correction(&raw::plain(text)) {
                let new = self.items.next_id();
                if let Some(contradicted) = self.nearest(&subject) {
                    self.items.apply(Operation::supersede(contradicted, new, source.entry));
                }
            }
            self.add_once(Item { strength: strength.into(), ..item });
        }
    }

    /// The preference that a correction is about: the best match, the last of equals.
    fn nearest(&mut self, subject: &[u32]) -> Option<i64> {
        let Self { items, subjects, .. } = self;
        for item in items.live(Heading::Preferences).rev() {
            if subjects.has(item.id as u64) {
                break; // those before it were read with it
            }
            subjects.add(item.id as u64, &raw::counted(&item.text));
        }
        let nearest = subjects.nearest(subject, |id| items.holds(Heading::Preferences, id as i64));
        nearest.map(|id| id as i64)
    }

    /// Text that the user labelled and that is not a rule: a fact, a goal.
    fn read_labelled(&mut self, source: Source<'_>) {
        let mut places = Places::of(source);
        for part in labelled(&raw::plain(source.text)) {
            let (text, span) = places.part(part);
            let read = raw::plain(text);
            let is_rule = |part: Range<usize>| {
                let key = raw::key_of(&text[part]);
                self.items.find(Heading::Preferences, &key).is_some()
            };
            if !sentences(&read).all(is_rule) {
                self.add_once(Item::new(Heading::Context, NOTE, text, span, USER_TRUST));
            }
        }
    }

    // Tools

    fn read_call(&mut self, source: Source<'_>, about: Vec<About>, call: &[u8]) {
        let planned = about.iter().filter(|about| *about.used == *PLANNED).take(MAX_PLAN);
        let planned: Vec<&[u8]> = planned.map(|about| &*about.text).collect();
        if !planned.is_empty() {
            self.read_plan(source, &planned);
        }
        for About { used, text } in &about {
            if ![PLANNED, RAN, LOOKED_UP].contains(&&**used) {
                self.read_file(source, used, text);
            }
        }
        self.note_call(call, about);
    }

    fn read_plan(&mut self, source: Source<'_>, steps: &[&[u8]]) {
        let keys: Vec<Raw> = steps.iter().map(|step| raw::key_of(step)).collect();
        let new = self.items.next_id();
        let done = self.items.live(Heading::TaskState).filter(|item| item.is(PLAN) && !keys.contains(&item.key));
        let done: Vec<i64> = done.map(|item| item.id).collect();
        let resolve = |id| Operation { other: Some(new), ..Operation::of(OperationKind::Resolve, id, source.entry) };
        self.replay(done.into_iter().map(resolve).collect());
        for step in steps {
            if let Some(span) = source.span_of(step) {
                self.add_once(Item::new(Heading::TaskState, PLAN, step, span, ASSISTANT_TRUST));
            }
        }
    }

    fn read_file(&mut self, source: Source<'_>, used: &[u8], path: &[u8]) {
        if let Some(known) = self.items.find(Heading::Files, path) {
            self.items.apply(Operation::promote(known.id, source.entry, used));
        } else if let Some(span) = source.span_of(path) {
            let mut file = Item::new(Heading::Files, FILE, path, span, ASSISTANT_TRUST);
            file.key = path.into();
            file.uses.push((used.into(), source.entry));
            self.items.add(file);
        }
    }

    fn read_result(&mut self, source: Source<'_>, call: &[u8]) {
        let about = self.calls.remove(call).unwrap_or_default();
        let text = raw::plain(source.text);
        // An error in what is read may be another's.
        let is_read = !about.is_empty() && about.iter().all(|about| *about.used != *RAN);
        let error = if (!is_read || begins_with_error(&text)) && exit_code(&text) != Some(0) {
            first_error(&text)
        } else {
            None
        };
        let subject = about.iter().map(|about| &*about.text).collect::<Vec<_>>().join(&b' ');
        let mut key = raw::key_of(&subject);
        if key.is_empty() {
            key = call.into();
        }
        // A note may have the same words.
        let known = self.items.find(Heading::Context, &key).filter(|known| known.is(ERROR));
        let open = known.filter(|known| known.status == Status::Live);
        let Some(part) = error else {
            if let Some(open) = open {
                self.items.apply(Operation::of(OperationKind::Resolve, open.id, source.entry));
            }
            return;
        };
        let text = &source.text[part.clone()];
        if let Some(open) = open {
            let is_same = *open.text == *text;
            let operation = if is_same {
                Operation::promote(open.id, source.entry, b"again")
            } else {
                Operation::supersede(open.id, self.items.next_id(), source.entry)
            };
            self.items.apply(operation);
            if is_same {
                return;
            }
        }
        let new = Item::new(Heading::Context, ERROR, text, source.span(&part), TOOL_TRUST);
        self.items.add(Item { key, ..new });
    }

    /// Add an item, or note that it was said again.
    fn add_once(&mut self, item: Item) {
        match self.items.find(item.heading, &item.key) {
            Some(known) if known.status != Status::Superseded => {
                if !known.is(PLAN) {
                    self.items.apply(Operation::promote(known.id, item.span.entry, AGAIN));
                }
            }
            _ => self.items.add(item),
        }
    }
}

/// The strength of a user's directive.
pub(super) fn strength_of(preference: &[u8]) -> i64 {
    let strengths = raw::directives(preference).into_iter().map(|directive| directive.strength.into());
    strengths.max().unwrap_or(LEAST_STRENGTH)
}

fn begins_with_error(text: &str) -> bool {
    const LONGEST: usize = 15;
    let begin: String = text.trim_start_matches(raw::is_space).chars().take(LONGEST).collect();
    OWN_ERRORS.iter().any(|start| begin.to_lowercase().starts_with(start))
}

/// Counts the characters of a text once, for parts of it in order.
struct Places<'a> {
    source: Source<'a>,
    byte: usize,
    chars: i64,
}

impl<'a> Places<'a> {
    fn of(source: Source<'a>) -> Self {
        Self { source, byte: 0, chars: 0 }
    }

    /// The text of a part, and its span. Parts are in the order of their beginnings.
    fn part(&mut self, part: Range<usize>) -> (&'a [u8], Span) {
        let Source { entry, piece, text } = self.source;
        self.chars += raw::chars(&text[self.byte..part.start]);
        self.byte = part.start;
        let said = &text[part];
        (said, Span::of(entry, piece, self.chars, said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(entry: i64, role: Role, text: &str) -> Said<'_> {
        let pieces = vec![SaidPiece { text: text.as_bytes(), kind: PieceKind::Text, about: Vec::new() }];
        Said { entry, role, pieces, calls: Vec::new(), answers: Vec::new(), is_user_turn: role == Role::User }
    }

    fn call<'a>(entry: i64, used: &str, text: &'a str) -> Said<'a> {
        let about = vec![About { used: used.as_bytes().into(), text: text.as_bytes().into() }];
        let pieces = vec![SaidPiece { text: text.as_bytes(), kind: PieceKind::ToolInput, about }];
        Said { entry, role: Role::Assistant, pieces, calls: vec![b"1"], answers: Vec::new(), is_user_turn: false }
    }

    fn result(entry: i64, text: &str) -> Said<'_> {
        let pieces = vec![SaidPiece { text: text.as_bytes(), kind: PieceKind::ToolResult, about: Vec::new() }];
        Said { entry, role: Role::User, pieces, calls: Vec::new(), answers: vec![b"1"], is_user_turn: false }
    }

    fn store(messages: Vec<Said<'_>>) -> ContextStore {
        let mut store = ContextStore::default();
        store.read(messages);
        store
    }

    fn texts(store: &ContextStore, heading: Heading) -> Vec<String> {
        store.items().live(heading).map(|item| raw::plain(&item.text).into_owned()).collect()
    }

    #[test]
    fn what_contradicts_a_preference_supersedes_it() {
        let said = store(vec![
            message(0, Role::User, " Éa. Always answer in French.\nGOAL: ship it. It is due on Friday."),
            message(1, Role::Assistant, "We decided to use SQLite. Always use tabs."),
            message(2, Role::User, "From now on, always answer in German instead of French."),
        ]);
        let preferences = texts(&said, Heading::Preferences);
        let german = "From now on, always answer in German instead of French.";
        assert_eq!(preferences.last().map(String::as_str), Some(german));
        assert!(!preferences.contains(&"Always answer in French.".to_owned()));
        assert_eq!(texts(&said, Heading::Decisions), ["We decided to use SQLite."]);
        assert_eq!(texts(&said, Heading::Context), ["GOAL: ship it. It is due on Friday."]);
        let old = &said.items().all()[1];
        assert_eq!((old.span.start, old.span.end, old.status), (5, 29, Status::Superseded));
        assert!(old.strength >= LEAST_STRENGTH);
    }

    #[test]
    fn an_error_is_open_until_its_call_succeeds() {
        let failed = || vec![call(0, "ran", "make"), result(1, "x\nValueError: no port")];
        assert_eq!(texts(&store(failed()), Heading::Context), ["ValueError: no port"]);
        let mut mended = failed();
        mended.extend([call(2, "ran", "make"), result(3, "")]);
        assert_eq!(texts(&store(mended), Heading::Context), [""; 0]);
        let read = vec![call(0, "read", "a.py"), result(1, "x\nValueError: no port")];
        assert_eq!(texts(&store(read), Heading::Context), [""; 0]);
        let mut old = failed();
        old.push(message(200, Role::User, "Go."));
        assert_eq!(texts(&store(old), Heading::Context), [""; 0]);
    }

    #[test]
    fn a_plan_holds_until_the_next_one() {
        let said = store(vec![message(0, Role::User, "Go."), call(1, "planned", "Fix it"), call(2, "planned", "Test")]);
        assert_eq!(texts(&said, Heading::TaskState), ["Go.", "Test"]);
    }
}
