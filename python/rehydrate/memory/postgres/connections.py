"""Transactions on a pool of connections: bounded in time, tried again, each write counted once.

What the server refuses for the moment (a serialization failure, a deadlock) and what a lost
connection leaves unknown is tried again for `patience_seconds`. A write leaves its key and its
result in `memory_writes` in its own transaction, so a second attempt finds out whether the first
one was committed. Where that is still being committed, the key makes the second one wait.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

import psycopg
from psycopg import Connection
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.errors import (
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreReadOnlyError,
)
from rehydrate.memory.postgres.failures import (
    Cursor,
    is_passing,
    is_starting,
    refused,
    store_error,
    verify_url,
    was_lost,
)
from rehydrate.memory.store import shown

T = TypeVar("T")

STATEMENT_SECONDS = 30
PATIENCE_SECONDS = 30
LONG_SECONDS = 3_600
POOL_SIZE = 8
_ASK_SECONDS = 2.0
"""How long a caller waits for the pool before it asks the server itself."""
# Nothing is prepared: a pooler of transactions gives each one another session, and a plan that is
# made without the words of a query is a bad one.
_CONNECTION: dict[str, Any] = {
    "autocommit": True,
    "connect_timeout": 10,
    "prepare_threshold": None,
}
_OLDEST_SERVER = 150_000
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
_KEYS_KEPT = "interval '1 hour'"
_CLEANS_ONE_IN = 500
# Each statement has a namespace, and an index for it: the rows of others are never read through.
_READ_SETTINGS = ", set_config('enable_seqscan', 'off', true)"
# A filtered HNSW search goes on until enough rows of the namespace are found.
_VECTOR_SETTINGS = (
    ", set_config('hnsw.iterative_scan', 'relaxed_order', true), "
    "set_config('hnsw.ef_search', '64', true)"
)


class Connections:
    """A pool that opens with the first use, and anew in a forked child."""

    def __init__(
        self,
        url: str,
        *,
        read_only: bool,
        statement_seconds: float = STATEMENT_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        pool_size: int = POOL_SIZE,
    ) -> None:
        """Check the URL; connect later."""
        self.server = shown(url)
        self.read_only = read_only
        self.has_vectors = False
        """Whether pgvector's settings apply; the store says so."""
        self._url = verify_url(url)
        self._statement_seconds = statement_seconds
        self._patience = patience_seconds
        self._pool_size = pool_size
        self._pool: ConnectionPool[Any] | None = None
        self._home = 0
        self._closed = False
        self._lock = ForkSafeLock()

    @contextmanager
    def single(self) -> Iterator[Connection[Any]]:
        """A connection of its own, for migrations; a server that is starting is waited for."""
        end, pause = time.monotonic() + self._patience, _FIRST_PAUSE
        while True:
            try:
                connection = self._connect()
                break
            except psycopg.OperationalError as error:
                if not is_starting(error) or time.monotonic() > end:
                    raise refused(error, self.server) from error
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        try:
            with connection:
                verify_version(connection.info.server_version, self.server)
                yield connection
        except psycopg.Error as error:
            raise store_error(error, self.server, seconds=self._statement_seconds) from None

    def read(self, namespace: str, work: Callable[[Cursor], T], *, long: bool = False) -> T:
        """Run `work` in a read-only transaction that sees one moment."""
        seconds = self._seconds(long)
        return self._attempts(lambda _: self._once(namespace, work, seconds, reads=True), seconds)

    def write(self, namespace: str, work: Callable[[Cursor], T], *, long: bool = False) -> T:
        """Run `work` in a transaction and return its result, which JSON can hold."""
        if self.read_only:
            raise StoreReadOnlyError(
                self.server, "it was opened read-only", "open it with read_only=False"
            )
        key, seconds = uuid.uuid4(), self._seconds(long)

        def keyed(attempt: int) -> T:
            return self._once(
                namespace,
                lambda cursor: _with_key(cursor, key, namespace, attempt, work),
                seconds,
            )

        return self._attempts(keyed, seconds)

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None and self._home == os.getpid():
            pool.close()

    def _seconds(self, long: bool) -> float:
        return LONG_SECONDS if long else self._statement_seconds

    def _once(
        self,
        namespace: str,
        work: Callable[[Cursor], T],
        seconds: float,
        *,
        reads: bool = False,
    ) -> T:
        with self._lent() as connection:
            try:
                # A statement is sent along with the next one whose rows are read, so a transaction
                # waits for the network as often as it reads, and once more for its end.
                with connection.pipeline(), connection.cursor() as cursor:
                    cursor.execute(
                        "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY" if reads else "BEGIN"
                    )
                    cursor.execute(
                        "SELECT set_config('rehydrate.namespace', %s, true), "
                        "set_config('statement_timeout', %s, true), "
                        "set_config('jit', 'off', true)"
                        + (_READ_SETTINGS if reads else "")
                        + (_VECTOR_SETTINGS if self.has_vectors else ""),
                        [namespace, str(int(seconds * 1000))],
                    )
                    result = work(cast("Cursor", cursor))
                    cursor.execute("COMMIT")
            except BaseException:
                with suppress(Exception):  # the error that led here is the one to tell
                    connection.rollback()
                raise
            return result

    @contextmanager
    def _lent(self) -> Iterator[Connection[Any]]:
        """Lend a connection of the pool; raises what the server says where it gives none."""
        pool = self._opened()
        try:
            connection = pool.getconn(timeout=_ASK_SECONDS)
        except PoolTimeout:
            self._connect().close()  # the pool does not tell why; this does
            raise
        try:
            yield connection
        finally:
            pool.putconn(connection)

    def _attempts(self, attempt: Callable[[int], T], seconds: float) -> T:
        end = time.monotonic() + self._patience
        pause = _FIRST_PAUSE
        for number in range(1, 1_000_000):
            try:
                return attempt(number)
            except PoolClosed as error:
                raise self._is_closed() from error
            except PoolTimeout:
                if time.monotonic() > end:
                    raise StoreBusyError(
                        self.server,
                        f"none of {self._pool_size} connections was free for {self._patience:g} s",
                        "give PostgresStore a larger pool_size",
                    ) from None
                continue
            except psycopg.Error as error:
                if not is_passing(error) or time.monotonic() > end:
                    raise store_error(error, self.server, seconds=seconds) from None
                if was_lost(error):
                    self._opened().drain()  # the idle ones are lost too, as after a restart
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    def _connect(self) -> Connection[Any]:
        return psycopg.connect(self._url, **_CONNECTION)

    def _opened(self) -> ConnectionPool[Any]:
        with self._lock:
            if self._closed:
                raise self._is_closed()
            if self._pool is None or self._home != os.getpid():
                # A child leaves the parent's connections alone: it does not even close them.
                _inherited.append(self._pool)
                self._home = os.getpid()
                self._pool = ConnectionPool(
                    self._url,
                    min_size=0,
                    max_size=self._pool_size,
                    kwargs=_CONNECTION,
                    open=True,
                    name="rehydrate",
                    reconnect_timeout=_ASK_SECONDS / 2,  # callers ask again, and are told why
                )
            return self._pool

    def _is_closed(self) -> StoreClosedError:
        return StoreClosedError(self.server, "it was closed", "open it again")


_inherited: list[Any] = []
"""Pools of parents: dropping one would close their connections."""


def _with_key(
    cursor: Cursor,
    key: uuid.UUID,
    namespace: str,
    attempt: int,
    work: Callable[[Cursor], T],
) -> T:
    """Run a write unless an earlier attempt of it was committed; leave its key and result."""
    if attempt > 1:
        # Waits for a transaction that is still being committed under this key.
        cursor.execute(
            "INSERT INTO memory_writes (key, namespace) VALUES (%s, %s) ON CONFLICT DO NOTHING "
            "RETURNING true",
            [key, namespace],
        )
        if cursor.fetchone() is None:
            cursor.execute("SELECT result FROM memory_writes WHERE key = %s", [key])
            row = cursor.fetchone()
            assert row is not None
            found: T = row[0]
            return found
    result = work(cursor)
    cursor.execute(
        "INSERT INTO memory_writes (key, namespace, result) VALUES (%s, %s, %s) "
        "ON CONFLICT (key) DO UPDATE SET result = excluded.result",
        [key, namespace, json.dumps(result)],
    )
    if key.int % _CLEANS_ONE_IN == 0:
        cursor.execute(f"DELETE FROM memory_writes WHERE moment < now() - {_KEYS_KEPT}")
    return result


def verify_version(version: int, server: str) -> None:
    """Refuse a server that is too old; a version is 150004 for 15.4."""
    if version < _OLDEST_SERVER:
        raise StoreError(
            server,
            f"it is PostgreSQL {version // 10_000}",
            f"use PostgreSQL {_OLDEST_SERVER // 10_000} or later",
        )
