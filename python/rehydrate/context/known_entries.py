"""KnownEntries: the ids of a stored thread's entries, so that none is written twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.context.thread_records import Kind, read_record

if TYPE_CHECKING:
    from rehydrate.memory.store import ThreadStore

_PAGE = 4_096


class KnownEntries:
    """Reads the ids of a thread once, and afterwards only those of what was added since.

    Threads may share it.
    """

    def __init__(
        self, store: ThreadStore, namespace: str, thread: str, id_of: Callable[[Any], str | None]
    ) -> None:
        """Read nothing yet."""
        self._store = store
        self._namespace = namespace
        self._thread = thread
        self._id_of = id_of
        self._lock = ForkSafeLock()
        self._created: int | None = None
        self._read = 0
        self._ids: set[str] = set()

    def new_of(self, entries: Sequence[Any], written: int) -> list[Any]:
        """Return the entries without those whose id is among the first ``written`` records, or
        came before in the list. An entry without an id is always new."""
        with self._lock:
            self._catch_up(written)
        seen: set[str] = set()
        new = []
        for entry in entries:
            name = self._id_of(entry)
            if name is not None:
                if name in self._ids or name in seen:
                    continue
                seen.add(name)
            new.append(entry)
        return new

    def _catch_up(self, written: int) -> None:
        found = self._store.thread(self._namespace, self._thread)
        created = None if found is None else found[1]
        if created != self._created or written < self._read:  # it is another thread of this name
            self._created, self._read, self._ids = created, 0, set()
        while self._read < written:
            limit = min(_PAGE, written - self._read)
            page = self._store.records(self._namespace, self._thread, start=self._read, limit=limit)
            if not page:
                return
            for row in page:
                record = read_record(*row)
                if record.kind is Kind.ENTRY:
                    name = self._id_of(record.content["entry"])
                    if name is not None:
                        self._ids.add(name)
            self._read += len(page)
