"""The source of other stored conversations of a namespace: "a conversation last Tuesday"."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.context.history import Entries, StoredEntry
from rehydrate.context.stored_thread import records_of
from rehydrate.context.thread_records import StoredThread, effective
from rehydrate.prompt.entries import History
from rehydrate.prompt.sources.conversation import conversation

if TYPE_CHECKING:
    from collections.abc import Collection

    from rehydrate.memory.store import ThreadStore
    from rehydrate.prompt.sources.source import HydrationSource

MAX_BYTES = 8_000_000
"""Of the threads that are searched, the last changed first: reading them takes about a second."""
NAME = "threads"


_Row = tuple[str, int, int, int, int]
"""A thread as the store lists it: another row, and something in it changed."""


class OtherThreads:
    """The entries of the other threads of a namespace, as one history, read again when one changed.

    Threads whose entries are in another format are left out.
    """

    def __init__(self, store: ThreadStore, namespace: str, own: str, format: str) -> None:  # noqa: A002
        """Read nothing yet; ``own`` is the thread that asks."""
        self._store = store
        self._namespace = namespace
        self._own = own
        self._format = format
        self._lock = ForkSafeLock()
        self._found: Sequence[_Row] = ()
        self._threads: dict[str, tuple[_Row, StoredThread]] = {}
        self._read: tuple[History, list[datetime]] = (History(format=format), [])
        self._places: list[str] = []

    def entries(self) -> tuple[History, Sequence[datetime]]:
        """Return the entries and their times; the same objects until a thread changes."""
        with self._lock:
            found = [row for row in self._store.threads(self._namespace) if row[0] != self._own]
            if found != self._found:
                self._take(found)
                self._found = found
            return self._read

    def place(self, index: int) -> str:
        """Return what an entry is called: its thread and its number there."""
        return self._places[index]

    def _take(self, found: Sequence[_Row]) -> None:
        """Read the threads that changed, and put all of them together."""
        known, self._threads = self._threads, {}
        told: list[StoredEntry] = []
        places: list[str] = []
        left = MAX_BYTES
        for row in found:
            name, size = row[0], row[4]
            if size > left:
                break
            left -= size
            before = known.get(name)
            if before is None or before[0] != row:
                records = effective(records_of(self._store, self._namespace, name))
                if not records:
                    continue  # it was purged just now
                before = row, StoredThread.of(records)
            self._threads[name] = before
            thread = before[1]
            if thread.format == self._format:
                told += thread.entries
                places += [f"{name} #{number}" for number in range(len(thread.entries))]
        entries = Entries(self._format)
        entries.restore(told)
        times = [datetime.fromtimestamp(each.time, UTC) for each in told]
        self._places = places
        self._read = entries.at_indices(range(len(entries))), times


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
