"""The rule-based updater: reads what a turn added, and says what changes in the store.

It calls no model. Trust follows the source: only what the user says becomes a preference, and only
what the user or the assistant says a decision; what a tool returned becomes an error at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rehydrate import _engine
from rehydrate.context.context_store.cues import (
    LOOKED_UP,
    PLANNED,
    RAN,
    Subject,
    decisions,
    first_error,
    labelled,
    sentences,
    subjects,
)
from rehydrate.context.context_store.operations import (
    TASK,
    Heading,
    Item,
    Items,
    Operation,
    OperationKind,
    Span,
    Status,
    key_of,
)
from rehydrate.context.context_store.rendering import SummaryLine, lines_in
from rehydrate.messages import Message, Piece, PieceKind
from rehydrate.prompt.originals import TRUST as TOOL_TRUST
from rehydrate.prompt.section import FULL_TRUST

ASSISTANT_TRUST = 0.75
"""Of what the model said: it is not an instruction, and it may be wrong."""
FADES_AFTER = 120
"""Entries without a reference, after which an open error or a task fades."""
LEAST_STRENGTH = 2
"""Of a preference in whose words the engine sees none."""
_TRUST = {
    "plan": ASSISTANT_TRUST,
    TASK: ASSISTANT_TRUST,
    "decision": ASSISTANT_TRUST,
    "file": ASSISTANT_TRUST,
    "error": TOOL_TRUST,
}
"""Of what a summary says, by kind; what the user said is under preferences, requests and notes."""
_OWN_ERRORS = ("error", "traceback", "<tool_use_error")
"""How results begin whose call failed."""
_STOPS = frozenset(".!?。！？؟")
_MAX_PLAN = 12


class Updater:
    """Reads messages in order. It holds only what a later message needs of an earlier one."""

    def __init__(self, items: Items) -> None:
        """Take the items that its operations change."""
        self._items = items
        self._calls: dict[str, list[tuple[str, str]]] = {}
        """By the id of a call that is not answered: the kind and the text of its subjects."""
        self._subjects = _engine.Subjects()
        """What the preferences are about: each is read once."""

    def on(self, items: Items) -> Updater:
        """Return an updater of other items that knows the same calls."""
        updater = Updater(items)
        updater._calls = self._calls
        return updater

    def note_calls(self, messages: Iterable[Message]) -> None:
        """Note the calls in messages that were read before: their results may be still to come."""
        for message in messages:
            calls = iter(message.calls)
            for piece in message.pieces:
                if piece.kind is PieceKind.TOOL_INPUT:
                    self._calls[next(calls, "")] = _about(subjects(piece.text))

    def read(self, messages: Iterable[Message]) -> None:
        """Apply what the messages change to the items."""
        items = self._items
        before = len(items.operations)
        for message in messages:
            for operation in self._of_message(message):
                items.apply(operation)
        if len(items.operations) > before:
            now = items.operations[-1].entry
            for item in (*items.live(Heading.CONTEXT), *items.live(Heading.TASK_STATE)):
                if item.kind in ("error", TASK) and now - item.last_entry > FADES_AFTER:
                    items.apply(Operation(OperationKind.FADE, item.id, now))

    def _of_message(self, message: Message) -> Iterator[Operation]:
        calls, answers = iter(message.calls), iter(message.answers)
        for number, piece in enumerate(message.pieces):
            if piece.kind is PieceKind.TOOL_INPUT:
                yield from self._of_call(message, number, piece, next(calls, ""))
            elif piece.kind is PieceKind.TOOL_RESULT:
                yield from self._of_result(message, number, piece, next(answers, ""))
            elif piece.kind is PieceKind.TEXT and message.role != "system":
                yield from self._of_text(message, number, piece)
        for call in answers:  # with nothing: such a result is not a piece
            yield from self._of_result(message, 0, Piece("", PieceKind.TOOL_RESULT), call)

    # Text

    def _of_text(self, message: Message, number: int, piece: Piece) -> Iterator[Operation]:
        is_user = message.is_user_turn
        if is_user and (lines := lines_in(piece.text)) is not None:
            yield from self._taken_over(message, number, lines)
            return
        if is_user:
            yield from self._request(message, number, piece)
            yield from self._directives(message, number, piece)
            yield from self._notes(message, number, piece)
        elif message.role == "user":
            return  # a harness speaks
        trust = FULL_TRUST if is_user else ASSISTANT_TRUST
        for start, text in decisions(piece.text):
            span = Span.of(message.index, number, start, text)
            yield from self._add_once(Item.new(Heading.DECISIONS, "decision", text, span, trust))

    def _taken_over(
        self, message: Message, number: int, lines: Iterable[SummaryLine]
    ) -> Iterator[Operation]:
        """What a summary of ours tells, once; it is from that message now."""
        for heading, kind, text, start, uses in lines:
            span = Span.of(message.index, number, start, text)
            item = Item.new(
                heading,
                kind,
                text,
                span,
                _TRUST.get(kind, FULL_TRUST),
                key=text if kind == "file" else None,
                strength=strength_of(text) if kind == "preference" else 0,
                uses=tuple([(use, message.index) for use in uses]),
            )
            yield from self._add_once(item)

    def _request(self, message: Message, number: int, piece: Piece) -> Iterator[Operation]:
        """The last request is the state of the task; a plan was for the one before. A task that a
        model saw stays until it is settled."""
        text = piece.text.strip()
        if not text:
            return
        span = Span.of(message.index, number, piece.text.index(text), text)
        new = self._items.next_id
        for item in self._items.live(Heading.TASK_STATE):
            if item.kind != TASK:
                yield _superseded(item, new, message.index)
        key = f"{message.index}.{number}"
        request = Item.new(Heading.TASK_STATE, "request", text, span, FULL_TRUST, key=key)
        yield self._items.addition(request)

    def _directives(self, message: Message, number: int, piece: Piece) -> Iterator[Operation]:
        for start, end, strength, is_plain, subject in _engine.directives(piece.text):
            if not is_plain:
                continue
            stop = end + (piece.text[end : end + 1] in _STOPS)
            text = piece.text[start:stop]
            span = Span.of(message.index, number, start, text)
            is_new = self._items.find(Heading.PREFERENCES, key_of(text)) is None
            if is_new and _engine.is_correction(text):
                new = self._items.next_id
                contradicted = self._nearest(subject)
                if contradicted is not None:
                    yield _superseded(contradicted, new, message.index)
            heading, trust = Heading.PREFERENCES, FULL_TRUST
            laid_down = Item.new(heading, "preference", text, span, trust, strength=strength)
            yield from self._add_once(laid_down)

    def _nearest(self, subject: list[int]) -> Item | None:
        """Return the preference that a correction is most about, the last of several, if it is
        about one."""
        live = self._items.live_ids[Heading.PREFERENCES]
        for id_ in reversed(live):
            if id_ in self._subjects:
                break  # those before it were read with it
            item = self._items.get(id_)
            self._subjects.add(id_, "" if item is None else item.text)
        nearest = self._subjects.nearest(subject, live)
        return None if nearest is None else self._items.get(nearest)

    def _notes(self, message: Message, number: int, piece: Piece) -> Iterator[Operation]:
        """What the user labelled, and is not a rule: a fact, a goal."""
        for start, text in labelled(piece.text):
            laid_down = (
                self._items.find(Heading.PREFERENCES, key_of(each.text)) for each in sentences(text)
            )
            if not all(laid_down):
                span = Span.of(message.index, number, start, text)
                yield from self._add_once(Item.new(Heading.CONTEXT, "note", text, span, FULL_TRUST))

    # Tools

    def _of_call(
        self, message: Message, number: int, piece: Piece, call: str
    ) -> Iterator[Operation]:
        found = list(subjects(piece.text))
        planned = [text for use, text in found if use == PLANNED]
        if planned:
            yield from self._plan(message, number, piece, planned[:_MAX_PLAN])
        for use, text in found:
            if use not in (PLANNED, RAN, LOOKED_UP):
                yield from self._file(message, number, piece, use, text)
        self._calls[call] = _about(found)

    def _plan(
        self, message: Message, number: int, piece: Piece, steps: Sequence[str]
    ) -> Iterator[Operation]:
        keys = {key_of(step) for step in steps}
        new = self._items.next_id
        for item in self._items.live(Heading.TASK_STATE):
            if item.kind == "plan" and item.key not in keys:
                yield Operation(OperationKind.RESOLVE, item.id, message.index, other=new)
        for step in steps:
            span = _span_of(message.index, number, piece, step)
            if span is not None:
                plan = Item.new(Heading.TASK_STATE, "plan", step, span, ASSISTANT_TRUST)
                yield from self._add_once(plan)

    def _file(
        self, message: Message, number: int, piece: Piece, use: str, path: str
    ) -> Iterator[Operation]:
        known = self._items.find(Heading.FILES, path)
        if known is not None:
            yield Operation(OperationKind.PROMOTE, known.id, message.index, use=use)
            return
        span = _span_of(message.index, number, piece, path)
        if span is not None:
            heading, uses = Heading.FILES, ((use, message.index),)
            file = Item.new(heading, "file", path, span, ASSISTANT_TRUST, key=path, uses=uses)
            yield self._items.addition(file)

    def _of_result(
        self, message: Message, number: int, piece: Piece, call: str
    ) -> Iterator[Operation]:
        about = self._calls.pop(call, [])
        # An error in what is read may be another's.
        is_read = bool(about) and all(use != RAN for use, _ in about)
        may_fail = not is_read or piece.text.lstrip().lower().startswith(_OWN_ERRORS)
        error = first_error(piece.text) if may_fail and _engine.exit_code(piece.text) != 0 else None
        key = key_of(" ".join(text for _, text in about)) or call
        open_ = self._items.find(Heading.CONTEXT, key)
        if open_ is not None and open_.kind != "error":
            open_ = None  # a note of the same words
        if error is None:
            if open_ is not None and open_.status is Status.LIVE:
                yield Operation(OperationKind.RESOLVE, open_.id, message.index)
            return
        span = Span.of(message.index, number, error.start, error.text)
        if open_ is not None and open_.status is Status.LIVE:
            if open_.text == error.text:
                yield Operation(OperationKind.PROMOTE, open_.id, message.index, use="again")
                return
            yield _superseded(open_, self._items.next_id, message.index)
        new = Item.new(Heading.CONTEXT, "error", error.text, span, TOOL_TRUST, key=key)
        yield self._items.addition(new)

    def _add_once(self, item: Item) -> Iterator[Operation]:
        """Add an item, or note that it was said again."""
        known = self._items.find(item.heading, item.key)
        if known is None or known.status is Status.SUPERSEDED:
            yield self._items.addition(item)
        elif known.kind != "plan":
            yield Operation(OperationKind.PROMOTE, known.id, item.span.entry, use="said again")


def strength_of(preference: str) -> int:
    """Return the strength of what a user laid down."""
    strengths = [directive.strength for directive in _engine.directives(preference)]
    return max(strengths, default=LEAST_STRENGTH)


def _about(found: Iterable[Subject]) -> list[tuple[str, str]]:
    """Return what a call is about, by which an error and what mends it are known to be of one
    thing."""
    return [(use, text) for use, text in found if use != PLANNED]


def _superseded(item: Item, by: int, entry: int) -> Operation:
    return Operation(OperationKind.SUPERSEDE, item.id, entry, other=by)


def _span_of(entry: int, number: int, piece: Piece, text: str) -> Span | None:
    """Return the span of a text in a call's input; None where JSON writes it otherwise."""
    start = piece.text.find(text)
    return None if start < 0 else Span.of(entry, number, start, text)
