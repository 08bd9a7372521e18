"""ThreadRecords: append-only logs of conversations on the server, next to the memories."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from rehydrate._native import (
    check_record_time,
    check_server_name,
    check_thread_records,
    read_server_text,
    server_text,
)
from rehydrate.errors import InvalidArgumentError, StoreCorruptError
from rehydrate.memory.postgres.connections import Connections, Cursor
from rehydrate.memory.postgres.rows import now_ms
from rehydrate.memory.postgres.schema import HASH
from rehydrate.memory.store import ThreadRow

_COLUMNS = "id, name, created, changed, records, bytes"
_MAX_THREAD_BYTES = 1_024
"""A thread's name is in an index, next to its namespace."""


class ThreadRecords:
    """The threads of a server. `PostgresStore.threads` is one."""

    def __init__(self, connections: Connections) -> None:
        """Take the connections of the store."""
        self._connections = connections
        self.path = connections.server

    def thread(self, namespace: str, name: str) -> ThreadRow | None:
        """Return what a thread is, None if there is none of that name."""
        _verify(name)

        def work(cursor: Cursor) -> ThreadRow | None:
            found = _find(cursor, namespace, name)
            return None if found is None else _info(found)

        return self._connections.read(namespace, work)

    def threads(self, namespace: str) -> builtins.list[ThreadRow]:
        """Return the threads of a namespace, the last changed first."""

        def work(cursor: Cursor) -> builtins.list[ThreadRow]:
            cursor.execute(
                f"SELECT {_COLUMNS} FROM memory_threads WHERE namespace = %s "
                "ORDER BY changed DESC, id DESC",
                [namespace],
            )
            return [_info(row) for row in cursor.fetchall()]

        return self._connections.read(namespace, work)

    def append_records(
        self, namespace: str, name: str, expected: int, records: Sequence[tuple[int, float, str]]
    ) -> ThreadRow:
        """Add records after the `expected` ones; a thread of none is made.

        Raises StoreConflictError if the thread has another number of records.
        """
        _verify(name, records)

        def work(cursor: Cursor) -> builtins.list[Any]:
            now = now_ms()
            found = _find(cursor, namespace, name, lock=True)
            if found is None and expected == 0:
                cursor.execute(
                    "INSERT INTO memory_threads (namespace, name, created, changed) "
                    f"VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING {_COLUMNS}",
                    [namespace, name, now, now],
                )
                # None if another process made it meanwhile.
                found = cursor.fetchone() or _find(cursor, namespace, name, lock=True)
            self._check(name, expected, found)
            _insert(cursor, namespace, found[0], expected, records)
            size = sum(len(server_text(body).encode()) for _, _, body in records)
            cursor.execute(
                "UPDATE memory_threads SET changed = %s, records = records + %s, "
                f"bytes = bytes + %s WHERE id = %s RETURNING {_COLUMNS}",
                [now, len(records), size, found[0]],
            )
            return [*_info(cursor.fetchone())]

        name, created, changed, count, size = self._connections.write(namespace, work)
        return name, created, changed, count, size

    def records(
        self, namespace: str, name: str, *, start: int = 0, limit: int | None = None
    ) -> builtins.list[tuple[int, float, str]]:
        """Return records from a number on, in their order: kind, time, body.

        Raises StoreCorruptError if one is missing or isn't as it was written.
        """
        _verify(name)

        def work(cursor: Cursor) -> builtins.list[tuple[int, float, str]]:
            found = _find(cursor, namespace, name)
            if found is None:
                return []
            end = found[4] if limit is None else min(found[4], start + limit)
            cursor.execute(
                "SELECT number, kind, time, body FROM memory_thread_records WHERE thread = %s "
                f"AND number >= %s AND number < %s AND hash = {HASH.format(body='body')} "
                "ORDER BY number",
                [found[0], start, end],
            )
            rows = cursor.fetchall()
            if [row[0] for row in rows] != [*range(start, end)]:
                raise StoreCorruptError(
                    self.path,
                    f"a record of thread {name!r} is missing, or not as it was written",
                    "restore the database from a copy, or the thread from an export",
                )
            return [(kind, time, read_server_text(body)) for _, kind, time, body in rows]

        return self._connections.read(namespace, work)

    def replace_records(
        self,
        namespace: str,
        name: str,
        expected: int,
        bodies: Sequence[tuple[int, str]],
        added: Sequence[tuple[int, float, str]] = (),
    ) -> None:
        """Put other bodies in place of some records, and add records, all of it or nothing."""
        _verify(name, added)

        def work(cursor: Cursor) -> None:
            found = _find(cursor, namespace, name, lock=True)
            self._check(name, expected, found)
            if not bodies and not added:
                return
            for number, _ in bodies:
                if not 0 <= number < expected:
                    raise InvalidArgumentError(
                        f"thread {name!r} has no record {number}; name one below {expected}"
                    )
            cursor.execute(
                "UPDATE memory_thread_records SET body = said, "
                f"hash = {HASH.format(body='said')} "
                "FROM unnest(%s::bigint[], %s::text[]) AS new(place, said) "
                "WHERE thread = %s AND number = place",
                [
                    [number for number, _ in bodies],
                    [server_text(body) for _, body in bodies],
                    found[0],
                ],
            )
            _insert(cursor, namespace, found[0], expected, added)
            cursor.execute(
                "UPDATE memory_threads SET changed = %s, records = records + %s, bytes = (SELECT "
                "coalesce(sum(octet_length(body)), 0) FROM memory_thread_records "
                "WHERE thread = %s) WHERE id = %s",
                [now_ms(), len(added), found[0], found[0]],
            )

        self._connections.write(namespace, work)

    def purge_thread(self, namespace: str, name: str) -> int:
        """Delete a thread; return how many records it had."""
        _verify(name)

        def work(cursor: Cursor) -> int:
            cursor.execute(
                "DELETE FROM memory_threads WHERE namespace = %s AND name = %s RETURNING records",
                [namespace, name],
            )
            row = cursor.fetchone()
            return 0 if row is None else int(row[0])

        return self._connections.write(namespace, work)

    def _check(self, name: str, expected: int, found: Any) -> None:
        check_thread_records(self.path, name, expected, None if found is None else found[4])


def _verify(name: str, records: Sequence[tuple[int, float, str]] = ()) -> None:
    if not name:
        raise InvalidArgumentError("thread is empty; name the conversation that is meant")
    check_server_name("thread", name, _MAX_THREAD_BYTES)
    for _, time, _ in records:
        check_record_time(time)


def _insert(
    cursor: Cursor,
    namespace: str,
    thread: int,
    first: int,
    records: Sequence[tuple[int, float, str]],
) -> None:
    cursor.execute(
        "INSERT INTO memory_thread_records (namespace, thread, number, kind, time, body, hash) "
        f"SELECT *, {HASH.format(body='body')} FROM (SELECT %s::text AS namespace, "
        "%s::bigint AS thread, %s + place - 1 AS number, kind, time, body FROM "
        "unnest(%s::smallint[], %s::float8[], %s::text[]) "
        "WITH ORDINALITY AS new(kind, time, body, place)) AS record",
        [
            *(namespace, thread, first),
            [kind for kind, _, _ in records],
            [float(time) for _, time, _ in records],
            [server_text(body) for _, _, body in records],
        ],
    )


def _find(cursor: Cursor, namespace: str, name: str, *, lock: bool = False) -> Any:
    cursor.execute(
        f"SELECT {_COLUMNS} FROM memory_threads WHERE namespace = %s AND name = %s"
        + (" FOR UPDATE" if lock else ""),
        [namespace, name],
    )
    return cursor.fetchone()


def _info(row: Any) -> Any:
    return tuple(row[1:])
