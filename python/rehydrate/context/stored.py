"""Stored: a thread as its records have it; GrowingThread: its entries, to which more are added.

`continued` makes a `Thread` of it, for a context that goes on from its last prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from rehydrate import _native
from rehydrate._native import ContextStore
from rehydrate.context.history import Entries, StoredEntry
from rehydrate.context.records import Row, header, reading, rows_of
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import FormatName, Provider, own_provider

if TYPE_CHECKING:
    from rehydrate.memory.store import ThreadStore


def read_stored(
    store: ThreadStore,
    namespace: str,
    name: str,
    format: FormatName,  # noqa: A002  the field's word
    *,
    is_asked_for: bool,
) -> tuple[Stored, int]:
    """Return a thread, an empty one if there is none, and how many records it has.

    Raises InvalidArgumentError if its entries are in another format than was asked for, and
    StoreError.
    """
    rows = rows_of(store, namespace, name)
    stored = Stored.of(rows) if rows else Stored(format)
    if is_asked_for and stored.format != format:
        raise InvalidArgumentError(
            f"thread {name!r} has entries in the format {stored.format!r}, not {format!r}; "
            f"pass format={stored.format!r}"
        )
    return stored, len(rows)


@dataclass(slots=True)
class Stored:
    """A thread as its records have it."""

    format: FormatName
    entries: list[StoredEntry] = field(default_factory=list)
    state: dict[str, Any] | None = None
    """The last state, whole."""
    sent: Any = None
    """The state of the last prompt that was sent, whole."""
    waiting: dict[str, list[Any]] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    remainders: dict[str, list[Any]] = field(default_factory=dict)
    operations: list[dict[str, Any]] = field(default_factory=list)
    seen: int = 0
    """The number of entries that the context store has read."""
    summary: dict[str, Any] | None = None

    @classmethod
    @reading()
    def of(cls, rows: Sequence[Row]) -> Stored:
        """Read the records that count; raises UnreadableIRError for a later version's."""
        stored = cls(**json.loads(_native.folded_records(rows)))
        stored.entries = [StoredEntry(*each) for each in stored.entries]
        if stored.sent is True:
            stored.sent = stored.state
        return stored

    @property
    def provider(self) -> Provider | None:
        """The provider of its last prompt, else of its entries; None if these have none."""
        if self.sent is not None:
            return cast("Provider", self.sent["sent"]["provider"])
        return own_provider(self.format)

    @reading()
    def read_entries(self) -> Entries:
        """Return the entries."""
        entries = Entries(self.format)
        entries.restore(self.entries)
        return entries

    @reading()
    def context_store(self, entries: Entries) -> ContextStore:
        """Return the context store as it was written, which has read some of the entries."""
        messages = entries.at_indices(range(self.seen)).messages
        turn = min(entries.turn or 0, self.seen)
        recent = [message for message in messages if message.index >= turn]
        store = ContextStore()
        store.replay(self.operations, messages, self.seen, recent)
        return store

    @reading()
    def entries_and_store(self) -> tuple[Entries, ContextStore]:
        """Return the entries and the context store, which has read all of them."""
        entries = self.read_entries()
        store = self.context_store(entries)
        entries.read_into(store)
        return entries, store


class GrowingThread:
    """The entries of a stored thread, to which more are added; no prompt is made of it.

    A `Context` of the thread gets StoreConflictError after that, as from another context's writes.
    """

    def __init__(
        self,
        store: ThreadStore,
        namespace: str,
        name: str,
        format: FormatName,  # noqa: A002  the field's word
        clock: Callable[[], float],
    ) -> None:
        """Read what is there; raises InvalidArgumentError for another format, and StoreError."""
        stored, self._records = read_stored(store, namespace, name, format, is_asked_for=True)
        self.entries = stored.read_entries()
        self.entries.is_stored = True
        self._store = stored.context_store(self.entries)
        self._append = partial(store.append_records, namespace, name)
        self._clock = clock

    def add(self, entries: Sequence[Any]) -> None:
        """Add entries at the end, all or none of them; they are on disk when it returns."""
        length = len(self.entries)
        try:
            self.entries.extend(entries, self._clock())
            begun = [] if self._records else [header(self.entries.format)]
            rows = [record.row for record in (*begun, *self.entries.records_from(length))]
            self._append(self._records, rows)
        except BaseException:
            self.entries.back_to(length)
            raise
        self._records += len(rows)

    @property
    def store(self) -> ContextStore:
        """The context store, which has read all entries."""
        self.entries.read_into(self._store)
        return self._store
