"""Shared by all statements: the cursor, strings as PostgreSQL takes them, the URL, and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from rehydrate.errors import (
    InvalidArgumentError,
    MissingPackageError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)
from rehydrate.memory.store import URL, has_ports, shown

try:
    import psycopg
    import psycopg_pool  # noqa: F401  what cannot connect is told at once
except ImportError:
    raise MissingPackageError("psycopg[binary,pool]", "keeps a memory on PostgreSQL") from None

Parameters = Sequence[Any] | Mapping[str, Any]


class Cursor(Protocol):
    """psycopg's cursor, within a transaction.

    psycopg types a statement as a literal. Ours are put together of literals; every value of a
    caller is a parameter. A statement is sent with the next one whose rows are read, so its own
    number of rows is not known here: count them by ``RETURNING``.
    """

    def execute(self, query: str, params: Parameters | None = None) -> object:
        """Run a statement."""

    def fetchone(self) -> Any:
        """Return the next row, None at the end."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rows."""


_ESCAPE = "\x1a"
_WRITTEN = re.compile("[\0\x1a\ud800-\udfff]")
_READ = re.compile("\x1a(\x1a|[0-9a-f]{4})")


def encoded(text: str) -> str:
    r"""Return the text as it is written to the server.

    >>> encoded("a\0b")
    'a\x1a0000b'
    """
    if _WRITTEN.search(text) is None:
        return text
    return _WRITTEN.sub(
        lambda found: _ESCAPE * 2 if found[0] == _ESCAPE else f"{_ESCAPE}{ord(found[0]):04x}", text
    )


def decoded(text: str) -> str:
    r"""Return the text that was written.

    >>> decoded(encoded("a\0\x1a \ud800")) == "a\0\x1a \ud800"
    True
    """
    if _ESCAPE not in text:
        return text
    return _READ.sub(lambda found: _ESCAPE if found[1] == _ESCAPE else chr(int(found[1], 16)), text)


def verify_url(url: str) -> str:
    """Return the URL; raises InvalidArgumentError for one that libpq would misread.

    Its own messages would quote a password that is not escaped.
    """
    problem = f"{shown(url)} is not a URL of PostgreSQL"
    remedy = (
        "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and in a password %40 for @, %3A for "
        ": and so on, or leave it to ~/.pgpass"
    )
    parts = URL.fullmatch(url)
    if parts is None or not has_ports(parts["place"]):
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
    """Return the store's error for a failure of a statement that had so many seconds."""
    errors, said = psycopg.errors, _said(error)
    slow = f"a statement took longer than {seconds:g} s"
    more = "try again, or give PostgresStore more statement_seconds"
    known: dict[type[Exception], tuple[type[StoreError], str, str]] = {
        errors.QueryCanceled: (StoreBusyError, slow, more),
        errors.LockNotAvailable: (StoreBusyError, slow, more),
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
    return StoreError(server, said, "report it, if it is no fault of the server")


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
