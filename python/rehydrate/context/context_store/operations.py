"""Operations and items of the context store: what was laid down, done and left open in a thread.

The store is an append-only log of operations. Its items are what they add up to, which the engine
computes, and the markdown is written anew from the items, so nothing decays by being rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

CHANGES = frozenset({"edited", "created", "deleted"})
"""Uses that change a file."""
ASSISTANT_TRUST = 0.75
"""Of what the model said: it is not an instruction, and it may be wrong."""


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

    @property
    def handle(self) -> str:
        """What ``fetch_whole`` reads the entry by."""
        return f"#{self.entry}"


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


class Operation(NamedTuple):
    """One step of the store's log."""

    kind: str
    """add, supersede, resolve, promote, fade."""
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
