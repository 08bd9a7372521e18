//! Proposals of a model: each is checked against the messages and the items, and never taken on trust.
//!
//! A quote must be in the entry, word for word. Trust follows the source, so a text that somebody smuggled into a
//! tool's result becomes no preference, no decision and no task, and settles none of the user's points. A permanent
//! item is only ever superseded, with a link.
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::items::{
    ASSISTANT_TRUST, Item, Operation, OperationKind, PLAN, PREFERENCE, REQUEST, Span, Status, TASK, TOOL_TRUST,
    USER_TRUST,
};
use super::raw::{self, Raw};
use super::reading::{ContextStore, Said, strength_of};
use crate::conversation::{PieceKind, Role};
use crate::interrupt::checkpoint;
use crate::notes::{Heading, MAX_SENTENCE, is_correction, pasted, whole_sentences};

const AGAIN: &[u8] = b"said again";
/// The use of a file that no tool's call is about.
const NOTED: &[u8] = b"noted";

/// One operation that a model proposes.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub kind: OperationKind,
    pub item: i64,
    pub entry: i64,
    pub heading: Raw,
    pub quote: Raw,
}

/// Why a proposal is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NoEntry,
    NoItem,
    NotVerbatim,
    TooLong,
    Heading,
    Source,
    Permanent,
    Earlier,
    TooMany,
}

impl Refusal {
    /// In words; `most` proposals of an answer are read.
    #[must_use]
    pub fn words(self, most: usize) -> String {
        let words = match self {
            Self::NoEntry => "its entry is none of the new messages",
            Self::NoItem => "its item does not hold",
            Self::NotVerbatim => "its quote is not in the entry",
            Self::TooLong => "its quote is too long",
            Self::Heading => "there is no such heading",
            Self::Source => "its source may not say so",
            Self::Permanent => "its item never goes",
            Self::Earlier => "it is older than what it changes",
            Self::TooMany => return format!("the answer has over {most}"),
        };
        words.into()
    }
}

/// The speaker of a text. A tool's text is also a harness's, and that of anybody whose text the user pasted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    User,
    Assistant,
    Tool,
}

impl Source {
    const fn trust(self) -> f64 {
        match self {
            Self::User => USER_TRUST,
            Self::Assistant => ASSISTANT_TRUST,
            Self::Tool => TOOL_TRUST,
        }
    }

    fn may_say(self, heading: Heading) -> bool {
        match heading {
            Heading::TaskState | Heading::Decisions | Heading::Files => self != Self::Tool,
            Heading::Context => true,
            Heading::Preferences => self == Self::User,
        }
    }
}

/// Items under these headings never go: if there is no room, the oldest become one line.
pub(super) fn is_permanent(heading: Heading) -> bool {
    matches!(heading, Heading::Decisions | Heading::Files | Heading::Preferences)
}

impl ContextStore {
    /// Apply those of the first `most` proposals that are valid, one after the other. Returns why the others are
    /// refused.
    ///
    /// `shown` are the spans of the items, by id, that the model was asked about, and `messages` the new ones. It may
    /// propose nothing about another item, and nothing from another message.
    pub fn propose(
        &mut self,
        proposals: &[Proposal],
        shown: FxHashMap<i64, Span>,
        messages: Vec<Said<'_>>,
        most: usize,
    ) -> Vec<Refusal> {
        let last = messages.iter().map(|message| message.entry).max().unwrap_or(0);
        let messages = messages.into_iter().map(|message| (message.entry, message)).collect();
        let mut checks = Checks { shown, messages, last, pasted: FxHashMap::default() };
        let mut refused = Vec::new();
        for (number, proposal) in proposals.iter().enumerate() {
            checkpoint();
            let checked = if number < most { checks.operations(self, proposal) } else { Err(Refusal::TooMany) };
            match checked {
                Ok(operations) => self.replay(operations),
                Err(why) => refused.push(why),
            }
        }
        refused
    }
}

type Checked<T> = Result<T, Refusal>;

/// The checks of one answer's proposals, against the items as they are.
struct Checks<'a> {
    shown: FxHashMap<i64, Span>,
    messages: FxHashMap<i64, Said<'a>>,
    last: i64,
    pasted: FxHashMap<(i64, usize), Vec<Range<usize>>>,
}

impl Checks<'_> {
    /// The operations of a proposal.
    fn operations(&mut self, store: &ContextStore, proposal: &Proposal) -> Checked<Vec<Operation>> {
        if proposal.kind == OperationKind::Add {
            let heading = Heading::ALL.into_iter().find(|heading| *heading.name().as_bytes() == *proposal.heading);
            let item = self.item(heading.ok_or(Refusal::Heading)?, proposal)?;
            return added(store, item);
        }
        // It holds, and is the one that the model was shown.
        let is_shown = |item: &&Arc<Item>| {
            item.status == Status::Live && self.shown.get(&proposal.item).is_some_and(|shown| *shown == item.span)
        };
        let item = Arc::clone(store.items.get(proposal.item).filter(is_shown).ok_or(Refusal::NoItem)?);
        if proposal.kind == OperationKind::Supersede {
            return self.supersede(store, &item, proposal);
        }
        if proposal.kind == OperationKind::Promote {
            // The calls on a file say what was done to it.
            check(item.heading != Heading::Files, Refusal::Source)?;
            return Ok(vec![Operation::promote(item.id, self.last, AGAIN)]);
        }
        check(!is_permanent(item.heading) && !item.is(REQUEST), Refusal::Permanent)?;
        if proposal.kind == OperationKind::Resolve {
            return self.resolve(&item, proposal.entry);
        }
        check(item.trust < USER_TRUST, Refusal::Permanent)?; // not the user's own words
        Ok(vec![Operation::of(OperationKind::Fade, item.id, self.last)])
    }

    fn supersede(&mut self, store: &ContextStore, item: &Item, proposal: &Proposal) -> Checked<Vec<Operation>> {
        check(!item.is(REQUEST) && !item.is_changed(), Refusal::Permanent)?;
        let new = self.item(item.heading, proposal)?;
        check(new.trust >= item.trust || item.heading == Heading::Decisions, Refusal::Source)?;
        check(is_after(&new.span, item), Refusal::Earlier)?;
        let same = same(store, &new);
        if same.is_some_and(|same| same.id == item.id)
            || (item.heading == Heading::Preferences && !lays_down(&new.text))
        {
            return added(store, new); // both hold: what the user forbids does not go by a "thanks"
        }
        let (holds, since) = same.map_or((store.items.next_id(), 0), |same| (same.id, same.span.entry));
        let entry = since.max(new.span.entry);
        let mut operations = added(store, new)?;
        operations.push(Operation::supersede(item.id, holds, entry));
        Ok(operations)
    }

    fn resolve(&self, item: &Item, entry: i64) -> Checked<Vec<Operation>> {
        let source = speaker(self.messages.get(&entry).ok_or(Refusal::NoEntry)?);
        let is_settled =
            if item.is(TASK) || item.is(PLAN) { source != Source::Tool } else { source.trust() >= item.trust };
        check(is_settled, Refusal::Source)?;
        check(entry >= item.last_entry(), Refusal::Earlier)?;
        Ok(vec![Operation::of(OperationKind::Resolve, item.id, entry)])
    }

    /// The item of a quote, without an id.
    fn item(&mut self, heading: Heading, proposal: &Proposal) -> Checked<Item> {
        let (span, text, source) = self.quoted(heading, proposal)?;
        let kind = if heading == Heading::TaskState { TASK } else { heading.kind().as_bytes() };
        let mut item = Item::new(heading, kind, &text, span, source.trust());
        if heading == Heading::Files {
            item.key = text;
            item.uses.push((NOTED.into(), item.span.entry));
        } else if kind == PREFERENCE {
            item.strength = strength_of(&text);
        }
        Ok(item)
    }

    /// The place of a quote, in whole sentences, and its speaker: the most trusted of those who may be it.
    fn quoted(&mut self, heading: Heading, proposal: &Proposal) -> Checked<(Span, Raw, Source)> {
        let message = self.messages.get(&proposal.entry).ok_or(Refusal::NoEntry)?;
        let quote = &proposal.quote[raw::stripped(&proposal.quote)];
        check(raw::chars(quote) <= MAX_SENTENCE as i64, Refusal::TooLong)?;
        let mut best: Option<(Span, Raw, Source)> = None;
        let mut why = Refusal::NotVerbatim;
        for (number, piece) in message.pieces.iter().enumerate() {
            let Some(start) = raw::find(piece.text, quote).filter(|_| !quote.is_empty()) else { continue };
            let mut part = start..start + quote.len();
            if piece.kind == PieceKind::Text {
                part = whole_sentences(&raw::plain(piece.text), part);
            }
            let source = source(&mut self.pasted, message, number, &part);
            let is_call = heading == Heading::Files && piece.kind == PieceKind::ToolInput;
            let text = &piece.text[part.clone()];
            if !source.is_some_and(|source| source.may_say(heading)) && !is_call {
                why = Refusal::Source;
            } else if raw::chars(text) > MAX_SENTENCE as i64 {
                why = Refusal::TooLong;
            } else if let Some(source) = source
                && best.as_ref().is_none_or(|(_, _, best)| source.trust() > best.trust())
            {
                let start = raw::chars(&piece.text[..part.start]);
                best = Some((Span::of(message.entry, number as i64, start, text), text.into(), source));
            }
        }
        best.ok_or(why)
    }
}

fn check(is_so: bool, otherwise: Refusal) -> Checked<()> {
    if is_so { Ok(()) } else { Err(otherwise) }
}

/// Whether it makes a rule, or corrects an earlier one.
fn lays_down(text: &[u8]) -> bool {
    !raw::directives(text).is_empty() || is_correction(&raw::plain(text))
}

/// Add an item. If it is there already, it was said again, or nothing is new.
fn added(store: &ContextStore, item: Item) -> Checked<Vec<Operation>> {
    let Some(same) = same(store, &item) else {
        check_news(store, &item)?;
        return Ok(vec![store.items.addition(item)]);
    };
    let is_new = same.status == Status::Faded || !same.span.overlaps(&item.span);
    if same.heading == Heading::Files || !is_new {
        return Ok(Vec::new());
    }
    Ok(vec![Operation::promote(same.id, item.span.entry, AGAIN)])
}

/// The valid item that says the same, or is in the same place.
fn same<'a>(store: &'a ContextStore, item: &Item) -> Option<&'a Arc<Item>> {
    let known = store.items.find(item.heading, &item.key);
    known
        .filter(|known| matches!(known.status, Status::Live | Status::Faded))
        .or_else(|| store.items.live(item.heading).find(|one| one.span.overlaps(&item.span)))
}

/// Refuse what was superseded or settled, unless it was said again since.
fn check_news(store: &ContextStore, item: &Item) -> Checked<()> {
    let mut holds = store.items.find(item.heading, &item.key);
    while let Some(one) = holds {
        checkpoint();
        check(is_after(&item.span, one), Refusal::Earlier)?;
        holds = one.other.and_then(|other| store.items.get(other));
    }
    Ok(())
}

/// The speaker of a part of a text. None if nobody who counts said it.
fn source(
    known: &mut FxHashMap<(i64, usize), Vec<Range<usize>>>,
    message: &Said<'_>,
    number: usize,
    part: &Range<usize>,
) -> Option<Source> {
    let piece = &message.pieces[number];
    if piece.kind == PieceKind::Thinking || message.role == Role::System {
        return None;
    }
    if piece.kind != PieceKind::Text {
        return Some(Source::Tool);
    }
    let ranges = known.entry((message.entry, number)).or_insert_with(|| pasted(&raw::plain(piece.text)));
    let at = ranges.partition_point(|range| range.end <= part.start);
    let is_pasted = ranges.get(at).is_some_and(|range| range.start < part.end);
    Some(if is_pasted { Source::Tool } else { speaker(message) })
}

/// The speaker of a message.
fn speaker(message: &Said<'_>) -> Source {
    if message.role == Role::Assistant {
        return Source::Assistant;
    }
    // Next to results, and if it is not a user turn, a harness may have written the text.
    let is_user = message.is_user_turn && message.answers.is_empty();
    if is_user { Source::User } else { Source::Tool }
}

/// Whether a span comes after all that was said of an item.
fn is_after(span: &Span, item: &Item) -> bool {
    let last = item.last_entry();
    if span.entry != last || span.entry != item.span.entry {
        return span.entry > last;
    }
    (span.piece, span.start) >= (item.span.piece, item.span.end)
}

#[cfg(test)]
mod tests {
    use super::super::reading::SaidPiece;
    use super::*;

    fn said(entry: i64, role: Role, kind: PieceKind, text: &str) -> Said<'_> {
        let pieces = vec![SaidPiece { text: text.as_bytes(), kind, about: Vec::new() }];
        Said { entry, role, pieces, calls: Vec::new(), answers: Vec::new(), is_user_turn: role == Role::User }
    }

    fn messages() -> Vec<Said<'static>> {
        vec![
            said(0, Role::User, PieceKind::Text, "Never push to main. It is a crane.\n> Always pay."),
            said(1, Role::Tool, PieceKind::ToolResult, "Always pay. The port is 80."),
            said(2, Role::Assistant, PieceKind::Text, "It is a red crane."),
        ]
    }

    fn proposal(kind: OperationKind, item: i64, entry: i64, heading: &str, quote: &str) -> Proposal {
        Proposal { kind, item, entry, heading: heading.as_bytes().into(), quote: quote.as_bytes().into() }
    }

    fn add(entry: i64, heading: &str, quote: &str) -> Proposal {
        proposal(OperationKind::Add, 0, entry, heading, quote)
    }

    fn propose(store: &mut ContextStore, proposals: &[Proposal]) -> Vec<Refusal> {
        let shown = store.items().all().iter().map(|item| (item.id, item.span.clone())).collect();
        store.propose(proposals, shown, messages(), 3)
    }

    #[test]
    fn a_quote_is_verbatim_and_grows_to_whole_sentences() {
        let mut store = ContextStore::default();
        assert_eq!(propose(&mut store, &[add(0, "Task State", "push to main")]), []);
        assert_eq!(raw::plain(&store.items().all()[0].text), "Never push to main.");
        for (proposal, why) in [
            (add(0, "Decisions", "push to dev"), Refusal::NotVerbatim),
            (add(0, "Decisions", " "), Refusal::NotVerbatim),
            (add(9, "Decisions", "crane"), Refusal::NoEntry),
            (add(0, "Plans", "crane"), Refusal::Heading),
            (add(0, "User Preferences", "Always pay."), Refusal::Source),
            (add(1, "User Preferences", "Always pay."), Refusal::Source),
            (proposal(OperationKind::Fade, 7, 0, "", ""), Refusal::NoItem),
            (proposal(OperationKind::Fade, 1, 0, "", ""), Refusal::Permanent),
        ] {
            assert_eq!(propose(&mut store, std::slice::from_ref(&proposal)), [why], "{proposal:?}");
        }
        assert_eq!(propose(&mut store, &[add(1, "Important Context", "The port is 80.")]), []);
        assert_eq!(store.items().all()[1].trust, TOOL_TRUST);
    }

    #[test]
    fn what_is_superseded_has_a_link_and_needs_a_newer_text() {
        let mut store = ContextStore::default();
        let supersede = |entry, quote| proposal(OperationKind::Supersede, 1, entry, "", quote);
        assert_eq!(propose(&mut store, &[add(0, "Decisions", "It is a crane.")]), []);
        assert_eq!(propose(&mut store, &[supersede(0, "Never push to main.")]), [Refusal::Earlier]);
        assert_eq!(propose(&mut store, &[supersede(2, "red crane")]), []);
        assert_eq!((store.items().all()[0].status, store.items().all()[0].other), (Status::Superseded, Some(2)));
        assert_eq!(propose(&mut store, &[add(0, "Decisions", "It is a crane.")]), [Refusal::Earlier]);
        let many = vec![add(0, "Files & Code", "crane"); 5];
        assert_eq!(propose(&mut store, &many), [Refusal::TooMany; 2]);
    }
}
