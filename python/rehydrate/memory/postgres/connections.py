"""Transactions on a pool of connections: bounded in time, tried again, each write counted once.

What the server refuses for the moment (a serialization failure, a deadlock) and what a lost
connection leaves unknown is tried again for `patience_seconds`. A write leaves its key and its
result in `memory_writes` in its own transaction, so a second attempt finds out whether the first
one was committed. If that is still being committed, the key makes the second one wait.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._native import check_server_name, is_server_url, shown_url
from rehydrate.errors import (
    InvalidArgumentError,
    MissingPackageError,
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)

try:
    import psycopg
    from psycopg import Connection
    from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout
except ImportError:
    raise MissingPackageError("psycopg[binary,pool]", "keeps a memory on PostgreSQL") from None

T = TypeVar("T")
Cursor = psycopg.Cursor[Any]
"""A statement is sent with the next one whose rows are read, so its own number of rows isn't known:
count them by ``RETURNING``. Every value of a caller is a parameter."""

STATEMENT_SECONDS = 30
PATIENCE_SECONDS = 30
LONG_SECONDS = 3_600
POOL_SIZE = 8
MAX_NAMESPACE_BYTES = 1_024
"""A namespace is in every index, and an entry of an index has 2,700 bytes at most."""
_ASK_SECONDS = 2.0
"""The time that a caller waits for the pool before it asks the server itself."""
# Nothing is prepared: a pooler of transactions gives each one another session, and a plan that is
# made without the words of a query is a bad one.
_CONNECTION: dict[str, Any] = {
    "autocommit": True,
    "client_encoding": "UTF8",
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
    """A pool that opens with the first use, and again in a forked child."""

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
        self.server = shown_url(url)
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
        seconds = self._statement_seconds
        connection = self._attempts(lambda _: self._connect(), seconds, is_starting)
        try:
            with connection:
                verify_version(connection.info.server_version, self.server)
                verify_encoding(connection.info.parameter_status("server_encoding"), self.server)
                yield connection
        except psycopg.Error as error:
            raise store_error(error, self.server, seconds=seconds) from None

    def read(self, namespace: str | None, work: Callable[[Cursor], T], *, long: bool = False) -> T:
        """Run `work` in a read-only transaction that sees one moment; None: of no namespace."""
        if namespace is not None:
            verify_namespace(namespace)
        seconds = self._seconds(long)
        return self._attempts(
            lambda _: self._once(namespace, work, seconds, reads=True), seconds, is_passing
        )

    def write(
        self,
        namespace: str,
        work: Callable[[Cursor], T],
        *,
        long: bool = False,
        patience: float | None = None,
    ) -> T:
        """Run `work` in a transaction and return its result, which JSON can hold.

        ``patience`` is in seconds, the store's own unless given.
        """
        verify_namespace(namespace)
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

        return self._attempts(keyed, seconds, is_passing, patience)

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
        namespace: str | None,
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
                        "set_config('lock_timeout', %s, true), "
                        "set_config('jit', 'off', true)"
                        + (_READ_SETTINGS if reads else "")
                        + (_VECTOR_SETTINGS if self.has_vectors else ""),
                        [namespace or "", as_setting(seconds), as_setting(self._statement_seconds)],
                    )
                    result = work(cursor)
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

    def _attempts(
        self,
        attempt: Callable[[int], T],
        seconds: float,
        may_pass: Callable[[Exception], bool],
        patience: float | None = None,
    ) -> T:
        end = time.monotonic() + (self._patience if patience is None else patience)
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
                if not may_pass(error) or time.monotonic() > end:
                    raise store_error(error, self.server, seconds=seconds) from None
                if self._pool is not None and was_lost(error):
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
                    reconnect_timeout=_ASK_SECONDS / 2,  # callers ask again, and learn why
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


def as_setting(seconds: float) -> str:
    """Return seconds as a setting of the server; 0 would be no limit."""
    return str(max(1, int(seconds * 1000)))


def verify_encoding(encoding: str | None, server: str) -> None:
    """Refuse a database that doesn't hold every text."""
    if encoding != "UTF8":
        raise StoreError(
            server,
            f"the encoding of the database is {encoding}",
            "make one with createdb --encoding=UTF8 --template=template0, and name that",
        )


def verify_version(version: int, server: str) -> None:
    """Refuse a server that is too old; a version is 150004 for 15.4."""
    if version < _OLDEST_SERVER:
        raise StoreError(
            server,
            f"it is PostgreSQL {version // 10_000}",
            f"use PostgreSQL {_OLDEST_SERVER // 10_000} or later",
        )


def verify_namespace(namespace: str) -> None:
    """Raise InvalidArgumentError for a namespace that a server cannot hold."""
    check_server_name("namespace", namespace, MAX_NAMESPACE_BYTES)
    if not namespace:
        raise InvalidArgumentError("namespace is ''; pass a name")


def verify_url(url: str) -> str:
    """Return the URL; raises InvalidArgumentError for one that libpq would misread.

    Its own messages would quote a password that is not escaped.
    """
    problem = f"{shown_url(url)} is not a URL of PostgreSQL"
    remedy = (
        "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and in a password %40 for @, %3A for "
        ": and so on, or leave it to ~/.pgpass"
    )
    if not is_server_url(url):
        raise InvalidArgumentError(f"{problem}; {remedy}")
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        said = str(error).strip()
        if "URI query parameter" in said:
            raise InvalidArgumentError(f"{problem}: {said}; leave it out") from None
        raise InvalidArgumentError(f"{problem}; {remedy}") from None
    return url


_STARTING = re.compile(
    r"starting up|shutting down|recovery mode|not yet accepting connections"
    r"|error response during SSL exchange"  # of a server that cannot fork, or restarts
)
_TOO_MANY = re.compile(r"too many (?:clients|connections)|connection slots are reserved")
_REMEDIES = (
    (
        re.compile(r"password|pg_hba|role .* (?:does not exist|is not permitted)|authentication"),
        "check the user and the password of the URL, or ~/.pgpass",
    ),
    (re.compile(r"database .* does not exist"), "create it with createdb, or name another one"),
    (re.compile(r"SSL|certificate"), "check sslmode and sslrootcert of the URL"),
)
"""By what a server says when it refuses a connection: no code comes with it."""
_NO_CONNECTION = "check the host and the port of the URL, and that the server runs; then try again"
_NO_ROOM = "raise max_connections, or give PostgresStore a smaller pool_size; then try again"


def is_passing(error: Exception) -> bool:
    """Return whether trying again may help: a conflict, or a lost connection."""
    code: str | None = getattr(error, "sqlstate", None)
    if code is not None:
        # 40: conflicts; 08: connections; 57P: the server stops or starts; 53300: too many clients.
        return code.startswith(("40", "08", "57P")) or code == "53300"
    if not is_starting(error) and any(pattern.search(str(error)) for pattern, _ in _REMEDIES):
        return False
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))


def was_lost(error: Exception) -> bool:
    """Return whether it was the connection that failed, not a statement."""
    code: str | None = getattr(error, "sqlstate", None)
    return code is None or code.startswith(("08", "57P"))


def is_starting(error: Exception) -> bool:
    """Return whether a server that refuses a connection will soon take one."""
    return bool(_STARTING.search(str(error)) or _TOO_MANY.search(str(error)))


def store_error(error: Exception, server: str, *, seconds: float) -> StoreError:
    """Return the store's error for a failure of a statement that had this many seconds."""
    errors, said = psycopg.errors, _said(error)
    slow = f"a statement took longer than {seconds:g} s"
    more = "try again, or give PostgresStore more statement_seconds"
    locked = "another session kept a lock for longer than a statement may wait"
    known: dict[type[Exception], tuple[type[StoreError], str, str]] = {
        errors.QueryCanceled: (StoreBusyError, slow, more),
        errors.LockNotAvailable: (StoreBusyError, locked, more),
        errors.DiskFull: (StoreFullError, "no room left on its disk", "make room, then try again"),
        errors.ReadOnlySqlTransaction: (
            StoreReadOnlyError,
            "the server takes no writes",
            "use the primary server",
        ),
        errors.InsufficientPrivilege: (
            StoreError,
            said,
            "grant the role what docs/postgres.md lists",
        ),
        errors.UndefinedTable: (
            StoreError,
            said,
            "open it once with read_only=False, which makes the tables",
        ),
    }
    if (found := known.get(type(error))) is not None:
        kind, problem, remedy = found
        return kind(server, problem, remedy)
    no_code = getattr(error, "sqlstate", None) is None
    if is_passing(error) or (no_code and isinstance(error, psycopg.OperationalError)):
        return refused(error, server)
    return StoreError(server, said, "report it if it isn't the server's fault")


def _said(error: Exception) -> str:
    """Return what a server says is wrong, without the detail: that repeats the row's text."""
    diagnostics = getattr(error, "diag", None)
    return str(getattr(diagnostics, "message_primary", None) or str(error).strip())


def refused(error: Exception, server: str) -> StoreError:
    """Return the store's error for a connection that was refused or lost."""
    lines = str(error).strip().splitlines()
    said = lines[0].removeprefix("connection failed: ") if lines else type(error).__name__
    if _TOO_MANY.search(said):
        return StoreBusyError(server, said, _NO_ROOM)
    if _STARTING.search(said):
        return StoreBusyError(server, said, "try again when it has started")
    for pattern, remedy in _REMEDIES:
        if pattern.search(said):
            return StoreError(server, said, remedy)
    return StoreBusyError(server, said, _NO_CONNECTION)
