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
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.errors import (
    MissingPackageError,
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg_pool import ConnectionPool

    from rehydrate.memory.postgres.cursor import Cursor

T = TypeVar("T")

STATEMENT_SECONDS = 30
PATIENCE_SECONDS = 30
LONG_SECONDS = 3_600
_KEPT_CONNECTIONS = 8
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
_KEYS_KEPT = "interval '1 hour'"
_CLEANS_ONE_IN = 500
# A filtered HNSW search goes on until enough rows of the namespace are found.
_VECTOR_SETTINGS = (
    ", set_config('hnsw.iterative_scan', 'relaxed_order', true), "
    "set_config('hnsw.ef_search', '64', true)"
)


def shown(url: str) -> str:
    """Return a URL without its password and its options.

    >>> shown("postgresql://app:secret@db:5432/memories?sslmode=require")
    'postgresql://app@db:5432/memories'
    """
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    return f"{parts.scheme}://{name + '@' if name else ''}{host}{parts.path}"


class Connections:
    """A pool that opens with the first use, and anew in a forked child."""

    def __init__(
        self,
        url: str,
        *,
        read_only: bool,
        statement_seconds: float = STATEMENT_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Check that the packages are there; connect later."""
        try:
            import psycopg  # noqa: F401
            import psycopg_pool  # noqa: F401
        except ImportError:
            raise MissingPackageError(
                "psycopg[binary,pool]", "keeps a memory on PostgreSQL"
            ) from None
        self.server = shown(url)
        self.read_only = read_only
        self.has_vectors = False
        """Whether pgvector's settings apply; the store says so."""
        self._url = url
        self._statement_seconds = statement_seconds
        self._patience = patience_seconds
        self._pool: ConnectionPool[Any] | None = None
        self._home = 0
        self._closed = False
        self._lock = ForkSafeLock()

    @contextmanager
    def single(self) -> Iterator[Connection[Any]]:
        """A connection of its own, for migrations."""
        import psycopg

        try:
            connection = psycopg.connect(self._url, autocommit=True, connect_timeout=10)
        except psycopg.OperationalError as error:
            raise self._unreachable(error) from error
        with connection:
            yield connection

    def read(self, namespace: str, work: Callable[[Cursor], T], *, long: bool = False) -> T:
        """Run `work` in a read-only transaction that sees one moment."""
        return self._attempts(lambda _: self._once(namespace, work, reads=True, long=long))

    def write(self, namespace: str, work: Callable[[Cursor], T], *, long: bool = False) -> T:
        """Run `work` in a transaction and return its result, which JSON can hold."""
        if self.read_only:
            raise StoreReadOnlyError(
                self.server, "it was opened read-only", "open it with read_only=False"
            )
        key = uuid.uuid4()

        def keyed(attempt: int) -> T:
            return self._once(
                namespace,
                lambda cursor: _with_key(cursor, key, namespace, attempt, work),
                long=long,
            )

        return self._attempts(keyed)

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None and self._home == os.getpid():
            pool.close()

    def _once(
        self,
        namespace: str,
        work: Callable[[Cursor], T],
        *,
        reads: bool = False,
        long: bool = False,
    ) -> T:
        seconds = LONG_SECONDS if long else self._statement_seconds
        with self._opened().connection(timeout=self._patience) as connection:
            try:
                # A statement is sent along with the next one whose rows are read, so a transaction
                # waits for the network as often as it reads, and once more for its end.
                with connection.pipeline(), connection.cursor() as cursor:
                    cursor.execute(
                        "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY" if reads else "BEGIN"
                    )
                    cursor.execute(
                        "SELECT set_config('rehydrate.namespace', %s, true), "
                        "set_config('statement_timeout', %s, true)"
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

    def _attempts(self, attempt: Callable[[int], T]) -> T:
        import psycopg
        from psycopg_pool import PoolClosed, PoolTimeout

        errors = psycopg.errors
        end = time.monotonic() + self._patience
        pause = _FIRST_PAUSE
        for number in range(1, 1_000_000):
            try:
                return attempt(number)
            except PoolClosed as error:
                raise self._is_closed() from error
            except PoolTimeout as error:
                raise self._unreachable(error) from error
            except (errors.QueryCanceled, errors.LockNotAvailable) as error:
                raise StoreBusyError(
                    self.server,
                    f"a statement took longer than {self._statement_seconds:g} s",
                    "try again, or give PostgresStore more statement_seconds",
                ) from error
            except errors.DiskFull as error:
                raise StoreFullError(
                    self.server, "no room left on its disk", "make room, then try again"
                ) from error
            except errors.ReadOnlySqlTransaction as error:
                raise StoreReadOnlyError(
                    self.server, "the server takes no writes", "use the primary server"
                ) from error
            except errors.InsufficientPrivilege as error:
                raise StoreError(
                    self.server, str(error).strip(), "grant the role what docs/postgres.md lists"
                ) from error
            except psycopg.Error as error:
                if not _is_passing(error):
                    raise StoreError(
                        self.server,
                        str(error).strip(),
                        "report it, if it is no fault of the server",
                    ) from error
                if time.monotonic() > end:
                    raise self._unreachable(error) from error
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    def _opened(self) -> ConnectionPool[Any]:
        from psycopg_pool import ConnectionPool

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
                    max_size=_KEPT_CONNECTIONS,
                    kwargs={"autocommit": True, "connect_timeout": 10},
                    open=True,
                    name="rehydrate",
                    reconnect_timeout=self._patience,
                )
            return self._pool

    def _is_closed(self) -> StoreClosedError:
        return StoreClosedError(self.server, "it was closed", "open it again")

    def _unreachable(self, error: Exception) -> StoreError:
        first = str(error).strip().splitlines()
        problem = first[0] if first else type(error).__name__
        return StoreBusyError(self.server, problem, "check that the server runs, then try again")


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


def _is_passing(error: Exception) -> bool:
    """Return whether trying again may help: a conflict, or a lost connection."""
    import psycopg

    code: str | None = getattr(error, "sqlstate", None)
    if code is not None:
        # 40: conflicts; 08: connections; 57P: the server stops or starts; 53300: too many clients.
        return code.startswith(("40", "08", "57P")) or code == "53300"
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
