"""Connections: a pool of them, what a server refuses, and URLs without their passwords."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rehydrate import Context, Memory
from rehydrate._native import shown_url
from rehydrate.context import Threads
from rehydrate.errors import (
    InvalidArgumentError,
    StoreBusyError,
    StoreError,
    StoreReadOnlyError,
)
from rehydrate.memory import MemoryItem
from rehydrate.memory.postgres import PostgresStore
from rehydrate.memory.postgres.connections import Connections, verify_version
from tests.memory.stress.postgres import check_kills
from tests.postgres_server import server

psycopg = pytest.importorskip("psycopg")

PASSWORD = "hunter2"
DEAD = f"postgresql://app:{PASSWORD}@127.0.0.1:1/none"
MISREAD = [
    f"postgresql://app:%zz{PASSWORD}@127.0.0.1:1/none",
    f"postgresql://app:1@{PASSWORD}@127.0.0.1:1/none",
    f"postgresql://app:1/{PASSWORD}@127.0.0.1:1/none",
    f"postgresql://app:1?{PASSWORD}@127.0.0.1:1/none",
    f"postgresql://app:1#{PASSWORD}@127.0.0.1:1/none",
    f"postgresql://app:{PASSWORD}",
    f"postgresql://[::1:{PASSWORD}/none",
    f"mysql://app:{PASSWORD}@127.0.0.1:1/none",
]


def test_a_url_is_shown_without_its_password():
    assert shown_url(DEAD) == "postgresql://app@127.0.0.1:1/none"
    assert shown_url(f"postgres://db/m?password={PASSWORD}") == "postgres://db/m"
    assert shown_url("postgresql://a@[::1]:5432,b:1/m") == "postgresql://a@[::1]:5432,b:1/m"
    assert shown_url("postgresql:///m?host=/run") == "postgresql:///m"
    for url in MISREAD[:-1]:
        assert PASSWORD not in shown_url(url)


@pytest.mark.parametrize("url", [DEAD, f"{DEAD}?password={PASSWORD}", *MISREAD])
def test_no_error_shows_a_password(url: str):
    for opened in (
        Memory.open,
        Threads.open,
        lambda url: Context.open(url, thread="t", namespace="a"),
    ):
        with pytest.raises((StoreError, InvalidArgumentError)) as caught:
            opened(url)
        error: BaseException | None = caught.value
        while error is not None:
            assert PASSWORD not in f"{error} {error!r} {error.args}"
            error = None if error.__suppress_context__ else error.__cause__ or error.__context__


def test_a_path_that_was_a_url_is_refused():
    for opened in (Memory.open, Threads.open):
        with pytest.raises(InvalidArgumentError, match="pass the URL as a string"):
            opened(Path("postgresql://app@db/none"))


def test_objects_do_not_show_the_password(postgres: str):
    url = postgres.replace("postgres@", f"postgres:{PASSWORD}@")
    with Memory.open(url, namespace="a") as memory, Threads.open(url, namespace="a") as threads:
        store = PostgresStore(url)
        for one in (memory, threads, store, store.threads, store._connections, threads.path):
            assert PASSWORD not in f"{one!r} {one}"
        assert store.path == postgres
        store.close()


def test_a_server_that_cannot_be_opened_is_reported_with_a_remedy(postgres: str):
    with pytest.raises(StoreBusyError, match="check the host and the port"):
        Memory.open(DEAD)
    with pytest.raises(StoreBusyError, match="check the host and the port"):
        Memory.open("postgresql://app@no-such-host.invalid/none")
    with pytest.raises(StoreError, match="create it with createdb"):
        Memory.open(f"{postgres}_missing")
    with pytest.raises(StoreError, match="check the user and the password"):
        Memory.open(postgres.replace("postgres@", "nobody@"))
    with pytest.raises(StoreError, match="it is PostgreSQL 14; use PostgreSQL 15"):
        verify_version(140_011, "postgresql://db")
    verify_version(150_000, "postgresql://db")


def test_a_wrong_password_is_reported():
    with server("--fast") as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE with_password LOGIN PASSWORD '{PASSWORD}'")
        (file,) = connection.execute("SHOW hba_file").fetchone()
        connection.execute(
            "COPY (VALUES ('host all with_password 127.0.0.1/32 scram-sha-256'), "
            f"('host all all 127.0.0.1/32 trust')) TO '{file}'"
        )
        connection.execute("SELECT pg_reload_conf()")
        right = url.replace("postgres@", f"with_password:{PASSWORD}@")
        end = time.monotonic() + 60
        while time.monotonic() < end:  # until the server has read it
            try:
                Memory.open(right.replace(PASSWORD, "wrong"), read_only=True)
            except StoreError as error:
                if "check the user and the password" in str(error):
                    break
        else:
            pytest.fail("a wrong password is not reported")
        with pytest.raises(StoreError, match="it has no memory tables"):
            Memory.open(right, read_only=True)


def test_a_server_without_room_is_busy(postgres: str, opened: Callable[..., Memory]):
    opened()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS few")
        connection.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 1")
        url = postgres.replace("postgres@", "few@")
        with psycopg.connect(url), pytest.raises(StoreBusyError, match="raise max_connections"):
            PostgresStore(url, patience_seconds=0.3)


def test_a_server_that_takes_no_writes_is_read_from(postgres: str, opened: Callable[..., Memory]):
    name = postgres.rpartition("/")[2]
    read_only = f'ALTER DATABASE "{name}" SET default_transaction_read_only'
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"{read_only} = on")
        with pytest.raises(StoreReadOnlyError, match="use the primary"):
            opened()
        connection.execute(f"{read_only} = off")
        opened(namespace="a").add("an apple")
        connection.execute(f"{read_only} = on")
        memory = opened(namespace="a")
        assert len(memory.search("apple")) == 1
        with pytest.raises(StoreReadOnlyError, match="use the primary"):
            memory.add("a pear")


def test_many_threads_share_a_small_pool(postgres: str):
    store = PostgresStore(postgres, pool_size=3)
    memory = Memory(store, namespace="a")

    def work(number: int) -> int:
        memory.add(f"item {number}")
        return len(memory.search(f"item {number}", 1))

    with ThreadPoolExecutor(50) as threads:
        assert sum(threads.map(work, range(150))) == 150
    with psycopg.connect(postgres) as connection:
        (count,) = connection.execute(
            "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()"
        ).fetchone()
    assert 1 <= count <= 3
    memory.close()


def test_a_pool_that_stays_in_use_is_busy(postgres: str):
    store = PostgresStore(postgres, pool_size=1, patience_seconds=0.2)
    is_held, may_end = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        is_held.set()
        may_end.wait(60)

    holder = threading.Thread(target=store._connections.read, args=["a", hold])
    holder.start()
    is_held.wait(60)
    with pytest.raises(StoreBusyError, match="larger pool_size"):
        store.namespaces()
    may_end.set()
    holder.join()
    assert store.namespaces() == []
    store.close()


def test_statements_are_not_prepared(postgres: str, opened: Callable[..., Memory]):
    memory = opened(namespace="a")
    for number in range(20):  # psycopg prepares a statement that it has seen five times
        memory.add(f"item {number}")
        memory.search("item")

    def prepared(cursor: Any) -> list[Any]:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        return cursor.fetchall()

    store = memory._store
    assert isinstance(store, PostgresStore)
    assert store._connections.read("a", prepared) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_kills_of_clients_and_of_the_server_lose_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tests.memory.stress.postgres.WRITERS", 4)
    with server("--fast", "--restart") as url:
        seen = check_kills(tmp_path, url, 10, random.Random(4), lambda _: None)
    assert "1 of the server's first process" in seen
    assert " 0 acknowledged" not in seen


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_does_not_hold_every_text_is_refused(postgres: str, encoding: str):
    server_url, _, name = postgres.rpartition("/")
    other = f"{name}_{encoding.lower()}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {other} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'"
        )
        try:
            with pytest.raises(StoreError, match=f"is {encoding}; .*createdb --encoding=UTF8"):
                Memory.open(f"{server_url}/{other}")
        finally:
            connection.execute(f"DROP DATABASE {other} WITH (FORCE)")


def test_another_encoding_of_the_client_changes_nothing(
    postgres: str, monkeypatch: pytest.MonkeyPatch, opened: Callable[..., Memory]
):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    memory = opened(f"{postgres}?client_encoding=latin1", namespace="記憶")
    (added,) = memory.add("the port is 八四四三")
    assert memory.get(added.handle).text == "the port is 八四四三"


def check_busy(call: Callable[[], object]) -> None:
    """Assert that a call ends, in a thread of its own, since the store is busy."""
    ended: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except StoreError as error:
            ended.append(error)

    waits = threading.Thread(target=run, daemon=True)
    waits.start()
    waits.join(20)
    assert [type(error) for error in ended] == [StoreBusyError]


def test_a_lock_of_another_session_is_waited_for_as_long_as_a_statement_may_take(postgres: str):
    store = PostgresStore(postgres, statement_seconds=0.2)
    memory = Memory(store, namespace="a")
    (added,) = memory.add("an apple")
    with psycopg.connect(postgres) as other:
        other.execute("SELECT FROM memory_namespaces FOR UPDATE")
        check_busy(lambda: memory.forget(added.handle))
    assert memory.forget(added.handle) == 1
    memory.close()


def test_a_migration_that_another_session_holds_up_is_busy(postgres: str):
    with psycopg.connect(postgres) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtextextended('rehydrate.memory', 0))")
        check_busy(lambda: PostgresStore(postgres, statement_seconds=0.2))


class Gone(Connections):
    """A server that is gone."""

    attempts = 0

    def _once(self, *_: Any, **__: Any) -> Any:
        self.attempts += 1
        raise psycopg.OperationalError("the connection is lost")


def test_closing_waits_for_no_server_that_is_gone(postgres: str):
    store = PostgresStore(postgres)
    for name in "abc":
        store.add([MemoryItem("an apple")], namespace=name)
        assert len(store.search("apple", namespace=name)) == 1
    store._connections.close()
    store._connections = gone = Gone(postgres, read_only=False, patience_seconds=1)
    store.close()
    assert gone.attempts == 1  # what searches counted isn't a promise
