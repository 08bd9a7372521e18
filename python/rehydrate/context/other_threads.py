"""The source of other stored conversations of a namespace: "a conversation last Tuesday"."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.context.history import Entries, StoredEntry
from rehydrate.context.stored_thread import records_of
from rehydrate.context.thread_records import StoredThread, effective
from rehydrate.prompt.entries import History
from rehydrate.prompt.sources.conversation import conversation

if TYPE_CHECKING:
    from collections.abc import Collection

    from rehydrate._native import Store
    from rehydrate.prompt.sources.source import HydrationSource

MAX_BYTES = 8_000_000
"""Of the threads that are searched, the last changed first: reading them takes about a second."""
NAME = "threads"


class _Place(NamedTuple):
    thread: str
    number: int


class OtherThreads:
    """The entries of the other threads of a namespace, as one history, read again when one changed.

    Threads whose entries are in another format are left out.
    """

    def __init__(self, store: Store, namespace: str, own: str, format: str) -> None:  # noqa: A002
        """Read nothing yet; ``own`` is the thread that asks."""
        self._store = store
        self._namespace = namespace
        self._own = own
        self._format = format
        self._lock = ForkSafeLock()
        self._state: Sequence[object] = ()
        self._read: tuple[History, list[datetime]] = (History(format=format), [])
        self._places: list[_Place] = []

    def entries(self) -> tuple[History, Sequence[datetime]]:
        """Return the entries and their times; the same objects until a thread changes."""
        with self._lock:
            found = [each for each in self._store.threads(self._namespace) if each[0] != self._own]
            if found != self._state:
                self._read = self._all(found)
                self._state = found
            return self._read

    def place(self, index: int) -> str:
        """Return what an entry is called: its thread and its number there."""
        thread, at = self._places[index]
        return f"{thread} #{at}"

    def _all(
        self, found: Sequence[tuple[str, int, int, int, int]]
    ) -> tuple[History, list[datetime]]:
        entries, times, places = Entries(self._format), [], []
        left = MAX_BYTES
        told: list[StoredEntry] = []
        for name, _, _, _, size in found:
            if size > left:
                break
            left -= size
            thread = StoredThread.of(effective(records_of(self._store, self._namespace, name)))
            if thread.format != self._format:
                continue
            told += thread.entries
            places += [_Place(name, index) for index in range(len(thread.entries))]
        entries.restore(told)
        times = [datetime.fromtimestamp(each.time, UTC) for each in told]
        self._places = places
        return entries.at_indices(range(len(entries))), times


def other_threads(
    others: OtherThreads, *, lookup_tools: Collection[str], max_tokens: int
) -> HydrationSource:
    """Return the source of the messages in other threads that match a query."""
    return conversation(
        others.entries,
        name=NAME,
        lookup_tools=lookup_tools,
        max_tokens=max_tokens,
        place=others.place,
    )
