"""StoredEntries: the entries of a stored thread, for a host's session, without a `Context`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time
from typing import TYPE_CHECKING, Any

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.context.history import Entries
from rehydrate.context.records import (
    Kind,
    Record,
    as_records,
    entries_of,
    header,
    kept_entries,
    numbered_entries,
    rows_of,
)
from rehydrate.errors import InvalidArgumentError, InvalidMessageError, StoreConflictError
from rehydrate.formats._reading import compact_json
from rehydrate.prompt.counting import text_tokens
from rehydrate.prompt.serialize import plain

if TYPE_CHECKING:
    from rehydrate.context.threads import Threads


_PAGE = 4_096
_MAX_TRIES = 100
"""Each try that fails is one that another writer won."""


class StoredEntries:
    """The entries of one thread of a store, for any number of threads and processes at once.

    They are read and written without a `Context`: one of the same thread gets StoreConflictError
    after such a write, and must be opened again.
    """

    def __init__(
        self,
        threads: Threads,
        thread: str,
        *,
        format: str,  # noqa: A002  the field's word
        namespace: str | None = None,
        id_of: Callable[[Any], str | None] | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        """Take an open store, the thread's name and the format of its entries.

        With ``id_of``, an entry whose id the thread has already is not written again.
        """
        self._store = threads.native
        self._namespace = threads.namespace_for(namespace, "StoredEntries", thread)
        self._thread = thread
        self._format = format
        self._clock = clock
        self._id_of = id_of
        self._lock = ForkSafeLock()
        self._created: int | None = None
        """The time at which the thread was begun, to recognise another one of the same name."""
        self._read = 0
        """The number of records whose ids these are: they are read once."""
        self._ids: set[str] = set()

    def all(self) -> list[Any]:
        """Return the entries in order; [] if there is no such thread."""
        rows = rows_of(self._store, self._namespace, self._thread)
        return entries_of([entry for _, entry in numbered_entries(rows)], self._format)

    def extend(self, entries: Sequence[Any]) -> None:
        """Add entries at the end, all or none of them; they are on disk when it returns.

        Raises InvalidArgumentError for a thread in another format, and StoreError.
        """
        added = self._records(entries) if self._id_of is None else []
        for _ in range(_MAX_TRIES):
            written = self._written()
            if self._id_of is not None:
                added = self._records(self._new_of(entries, written, self._id_of))
                if not added:
                    return
            records = added if written else [header(self._format), *added]
            if self._append(written, records):
                return
        raise StoreConflictError(
            self._store.path,
            f"thread {self._thread!r} is written by others all the time",
            "try again",
        )

    def pop(self) -> Any | None:
        """Take the last entry back and return it; None if there is none.

        What was made from it goes too. Its bytes stay in the file until `clear`.
        """
        while True:
            rows = rows_of(self._store, self._namespace, self._thread)
            entries = numbered_entries(rows)
            if not entries:
                return None
            number, last = entries[-1]
            undo = Record(Kind.UNDO, self._clock(), {"to": number})
            if self._append(len(rows), [undo]):
                return entries_of([last], self._format)[0]

    def clear(self) -> None:
        """Delete the thread; no byte of it stays."""
        self._store.purge_thread(self._namespace, self._thread)

    def _new_of(
        self, entries: Sequence[Any], written: int, id_of: Callable[[Any], str | None]
    ) -> list[Any]:
        """Return the entries without those whose id is among the first ``written`` records, or
        came before in the list. An entry without an id is always new."""
        with self._lock:
            self._read_ids(written, id_of)
        seen: set[str] = set()
        new = []
        for entry in entries:
            name = id_of(entry)
            if name is not None:
                if name in self._ids or name in seen:
                    continue
                seen.add(name)
            new.append(entry)
        return new

    def _read_ids(self, written: int, id_of: Callable[[Any], str | None]) -> None:
        found = self._store.thread(self._namespace, self._thread)
        created = None if found is None else found[1]
        if created != self._created or written < self._read:  # it is another thread of this name
            self._created, self._read, self._ids = created, 0, set()
        while self._read < written:
            limit = min(_PAGE, written - self._read)
            page = self._store.records(self._namespace, self._thread, start=self._read, limit=limit)
            if not page:
                return
            for record in as_records(page):
                name = id_of(record.content["entry"]) if record.kind is Kind.ENTRY else None
                if name is not None:
                    self._ids.add(name)
            self._read += len(page)

    def _written(self) -> int:
        """Return how many records the thread has; raises for one in another format."""
        found = self._store.thread(self._namespace, self._thread)
        if found is None or not found[3]:
            return 0
        (first,) = self._store.records(self._namespace, self._thread, start=0, limit=1)
        format = as_records([first])[0].content.get("format")  # noqa: A001
        if format != self._format:
            raise InvalidArgumentError(
                f"thread {self._thread!r} has entries in the format {format!r}, not "
                f"{self._format!r}; choose another name"
            )
        return found[3]

    def _append(self, written: int, records: Sequence[Record]) -> bool:
        """Write the records after this many; return False if others wrote meanwhile."""
        rows = [record.row for record in records]
        try:
            self._store.append_records(self._namespace, self._thread, written, rows)
        except StoreConflictError:
            return False
        return True

    def _records(self, entries: Sequence[Any]) -> list[Record]:
        """Return the records of entries, with their tokens.

        An entry that is not a message of the format is kept as it is: it is the caller's.
        """
        now = self._clock()
        read = Entries(self._format, is_stored=True)
        try:
            read.extend(entries, now)
        except InvalidMessageError:
            values = kept_entries(entries, "plain")
            counts = text_tokens([compact_json(value) for value in values])
        else:
            values = [plain(read.at(index)) for index in range(len(read))]
            counts = [read.stored_at(index).tokens for index in range(len(read))]
        return [
            Record(Kind.ENTRY, now, {"entry": value, "tokens": count})
            for value, count in zip(values, counts, strict=True)
        ]
