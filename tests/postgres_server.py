"""A PostgreSQL server for a run of tests (`tools/postgres`), and a database for each test.

Where no server can be had the tests skip and say why; on CI that is an error.
REHYDRATE_POSTGRES_URL names a server that runs already, such as one with pgvector.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "tools" / "postgres"
_NUMBERS = itertools.count()


@contextmanager
def server(*arguments: str) -> Iterator[str]:
    """Serve; the URL of a database whose user may do everything."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout and process.stderr
    try:
        url = process.stdout.readline().strip()
        if not url:
            unavailable(process.stderr.read().strip())
        yield url
    finally:
        process.stdin.close()
        process.wait(600)
        process.stdout.close()
        process.stderr.close()


def unavailable(why: str) -> None:
    """Skip; on CI, fail, unless REHYDRATE_POSTGRES=none says that a job has no server."""
    is_ci = os.environ.get("CI", "").lower() in {"1", "true"}
    if is_ci and os.environ.get("REHYDRATE_POSTGRES") != "none":
        pytest.fail(f"CI has no PostgreSQL: {why}")
    pytest.skip(f"no PostgreSQL here: {why}")


TABLES = tuple(
    f"memory_{name}"
    for name in (
        *("namespaces", "chunks", "uses", "links", "deletions", "writes"),
        *("threads", "thread_records"),
    )
)
"""Those that row-level security guards; a role of an application needs all four rights on them."""


def require_psycopg() -> None:
    """Skip where the extra `postgres` is not installed; on CI, fail."""
    try:
        import psycopg
    except ImportError as error:
        unavailable(f"{error}; pip install 'rehydrate[postgres]'")
    else:
        assert psycopg.__version__


def new_database(url: str) -> str:
    """Make an empty database on the server; return its URL."""
    import psycopg

    name = f"rehydrate_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    return f"{url.rpartition('/')[0]}/{name}"


def drop_database(url: str) -> None:
    """Drop a database that `new_database` made, whoever is still connected."""
    import psycopg

    server_url, _, name = url.rpartition("/")
    with psycopg.connect(f"{server_url}/postgres", autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


_EMPTIED: list[str] = []


def borrow_database(url: str) -> str:
    """Return a database without a row: one that was given back, or a new one."""
    return _EMPTIED.pop() if _EMPTIED else new_database(url)


def give_back(url: str) -> None:
    """Empty a borrowed database for the next test; another one would take ten times as long."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        (made,) = connection.execute("SELECT to_regclass(%s)", [TABLES[-1]]).fetchone() or [None]
        if made is not None:
            connection.execute("; ".join(f"DELETE FROM {table}" for table in reversed(TABLES)))
    _EMPTIED.append(url)
