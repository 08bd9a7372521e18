"""Operations and items of the context store: what was laid down, done and left open in a thread.

The store is an append-only log of operations. Its items are what they add up to, and the markdown
is written anew from the items, so nothing decays by being rewritten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Any, NamedTuple

from rehydrate.context.context_store.cues import CHANGES


class Heading(StrEnum):
    """The headings of the store, in their order."""

    TASK_STATE = "Task State"
    """What is being done now: always current."""
    DECISIONS = "Decisions"
    FILES = "Files & Code"
    CONTEXT = "Important Context"
    """What the user labelled, errors and what mended them; errors drift."""
    PREFERENCES = "User Preferences"
    """What the user laid down: it holds until it is contradicted."""


PERMANENT = frozenset({Heading.DECISIONS, Heading.FILES, Heading.PREFERENCES})
"""What is under these never goes: where room is short, the oldest become one line."""
KINDS = {
    Heading.TASK_STATE: "request",
    Heading.DECISIONS: "decision",
    Heading.FILES: "file",
    Heading.CONTEXT: "note",
    Heading.PREFERENCES: "preference",
}
"""The usual kind under each heading."""
TASK = "task"
"""The kind of what a model saw that is still to be done: it outlasts the request that it is of."""
MAX_KEY = 200
"""Characters."""


class Status(StrEnum):
    """What became of an item."""

    LIVE = "live"
    SUPERSEDED = "superseded"
    """A later item holds instead of it."""
    RESOLVED = "resolved"
    FADED = "faded"
    """Nothing referred to it for long; it is found by asking, and no longer shown."""


class Span(NamedTuple):
    """Where a text is in the thread, word for word."""

    entry: int
    """The index of the entry in `Context.history`."""
    piece: int
    """The number of the text among the texts of the entry."""
    start: int
    """In characters of that text."""
    end: int
    digest: str
    """64 bits of the text, hexadecimal: a span that leads elsewhere is seen."""

    @classmethod
    def of(cls, entry: int, piece: int, start: int, text: str) -> Span:
        """Return the span of this text."""
        return cls(entry, piece, start, start + len(text), digest(text))

    @property
    def handle(self) -> str:
        """What ``fetch_whole`` reads the entry by."""
        return f"#{self.entry}"

    def overlaps(self, other: Span) -> bool:
        """Return whether both have a part of one text."""
        is_there = (self.entry, self.piece) == (other.entry, other.piece)
        return is_there and self.start < other.end and other.start < self.end


def digest(text: str) -> str:
    """Return 64 bits of a text.

    >>> digest("Use tabs.")
    '57ec54747cea1e95'
    """
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in the store."""

    id: int
    heading: Heading
    kind: str
    """request, plan, task, decision, preference, file, note, error."""
    key: str
    """Two items of one heading and key are the same thing: a path, a call, a sentence."""
    text: str
    """The text of its span."""
    span: Span
    trust: float
    """1 for what the user said, less for what a tool returned."""
    strength: int = 0
    """Of what a user laid down, 2 to 6: a prohibition has more than a wish."""
    uses: tuple[tuple[str, int], ...] = ()
    """What was done with it, and in which entry: ("edited", 12); the last ones."""
    status: Status = Status.LIVE
    other: int | None = None
    """The item that holds instead of it."""

    @classmethod
    def new(
        cls,
        heading: Heading,
        kind: str,
        text: str,
        span: Span,
        trust: float,
        *,
        key: str | None = None,
        strength: int = 0,
        uses: tuple[tuple[str, int], ...] = (),
    ) -> Item:
        """Return an item that has no id yet."""
        key = key_of(text) if key is None else key
        return cls(0, heading, kind, key, text, span, trust, strength, uses)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": self.id,
            "heading": str(self.heading),
            "kind": self.kind,
            "text": self.text,
            "handle": self.span.handle,
            "span": self.span._asdict(),
            "trust": self.trust,
            "strength": self.strength,
            "uses": [{"use": use, "entry": entry} for use, entry in self.uses],
            "status": str(self.status),
            "other": self.other,
        }

    @property
    def last_entry(self) -> int:
        """The last entry that referred to it."""
        return max([self.span.entry, *(entry for _, entry in self.uses)])

    @property
    def is_changed(self) -> bool:
        """Whether it is a file that was changed."""
        return any(use in CHANGES for use, _ in self.uses)

    @property
    def flat(self) -> str:
        """Its text on one line."""
        return " ".join(self.text.split())


def key_of(text: str) -> str:
    """Return what two sayings of one thing share.

    >>> key_of("Use  Tabs.")
    'use tabs.'
    """
    return " ".join(text.casefold().split())[:MAX_KEY]


class OperationKind(StrEnum):
    """What an operation does."""

    ADD = "add"
    SUPERSEDE = "supersede"
    RESOLVE = "resolve"
    PROMOTE = "promote"
    FADE = "fade"


class Operation(NamedTuple):
    """One step of the store's log."""

    kind: OperationKind
    item: int
    """The id of the item."""
    entry: int
    """The entry that gave rise to it."""
    added: Item | None = None
    """Of an ADD."""
    other: int | None = None
    """Of a SUPERSEDE: the item that holds instead."""
    use: str = ""
    """Of a PROMOTE: what was done with the item."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values; an item's text is not in it, its span is."""
        fields: dict[str, Any] = {"op": str(self.kind), "item": self.item, "entry": self.entry}
        if self.other is not None:
            fields["other"] = self.other
        if self.use:
            fields["use"] = self.use
        if self.added is not None:
            item = self.added
            fields |= {
                "heading": str(item.heading),
                "kind": item.kind,
                "key": item.key,
                "span": list(item.span),
                "trust": item.trust,
                "strength": item.strength,
                "uses": [list(use) for use in item.uses],
            }
        return fields


_MAX_USES = 6
"""Of one item; the others are in the log."""


class Items:
    """A log of operations, and the items that they add up to."""

    def __init__(
        self, operations: Iterable[Operation] = (), left_out: Collection[int] = ()
    ) -> None:
        """Do these operations; those of the entries ``left_out`` are in the log and change nothing,
        but no other item gets an id of theirs."""
        self.operations: list[Operation] = []
        self.next_id = 1
        self._by_id: dict[int, Item] = {}
        self._by_key: dict[tuple[Heading, str], int] = {}
        self.live_ids: dict[Heading, dict[int, None]] = {heading: {} for heading in Heading}
        """The ids of what holds: a turn asks for these, and not for all that ever was."""
        for operation in operations:
            if operation.entry not in left_out:
                self.apply(operation)
                continue
            self.operations.append(operation)
            if operation.added is not None:
                self.next_id = max(self.next_id, operation.added.id + 1)

    def __iter__(self) -> Iterator[Item]:
        """Return all items, in the order in which they were added."""
        return iter(self._by_id.values())

    def get(self, id_: int) -> Item | None:
        """Return the item of an id, if there is one."""
        return self._by_id.get(id_)

    def find(self, heading: Heading, key: str) -> Item | None:
        """Return the item of a key, if there is one."""
        found = self._by_key.get((heading, key))
        return None if found is None else self._by_id[found]

    def live(self, heading: Heading) -> list[Item]:
        """Return the items of a heading that hold, in the order in which they were added."""
        return [self._by_id[id_] for id_ in self.live_ids[heading]]

    def addition(self, item: Item) -> Operation:
        """Return the operation that adds an item, with the next id."""
        id_ = self.next_id
        return Operation(OperationKind.ADD, id_, item.span.entry, replace(item, id=id_))

    def apply(self, operation: Operation) -> None:
        """Do one step; an operation about an item that is not there changes nothing."""
        self.operations.append(operation)
        item = operation.added
        if item is not None:
            self._by_key[item.heading, item.key] = item.id
            self.next_id = max(self.next_id, item.id + 1)
        else:
            item = self._by_id.get(operation.item)
            if item is None:
                return
            item = _changed(item, operation)
        self._by_id[item.id] = item
        if item.status is Status.LIVE:
            self.live_ids[item.heading].setdefault(item.id)
        else:
            self.live_ids[item.heading].pop(item.id, None)


def _changed(item: Item, operation: Operation) -> Item:
    if operation.kind is OperationKind.SUPERSEDE:
        return replace(item, status=Status.SUPERSEDED, other=operation.other)
    if operation.kind is OperationKind.RESOLVE:
        return replace(item, status=Status.RESOLVED, uses=_used(item, "resolved", operation))
    if operation.kind is OperationKind.FADE:
        return replace(item, status=Status.FADED)
    status = Status.LIVE if item.status is Status.FADED else item.status
    return replace(item, status=status, uses=_used(item, operation.use, operation))


def _used(item: Item, use: str, operation: Operation) -> tuple[tuple[str, int], ...]:
    uses = [*item.uses, (use, operation.entry)]
    if len(uses) > _MAX_USES:
        # What changed a file is never pushed out by what read it.
        del uses[next((n for n, (what, _) in enumerate(uses) if what not in CHANGES), 0)]
    return tuple(uses)


def operation_of(fields: Mapping[str, Any], text_of: Any) -> Operation:
    """Read what `Operation.to_dict` returned; ``text_of(span)`` gives an item's text."""
    added = None
    if "span" in fields:
        span = Span(*fields["span"])
        added = Item(
            fields["item"],
            Heading(fields["heading"]),
            fields["kind"],
            fields["key"],
            text_of(span),
            span,
            fields["trust"],
            fields["strength"],
            tuple([(use, entry) for use, entry in fields["uses"]]),
        )
    return Operation(
        OperationKind(fields["op"]),
        fields["item"],
        fields["entry"],
        added,
        fields.get("other"),
        fields.get("use", ""),
    )
