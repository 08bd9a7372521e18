"""Migrations: twice, at once, by a later version; roles and row-level security."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from rehydrate import Memory
from rehydrate.context import Threads
from rehydrate.errors import (
    InvalidArgumentError,
    NewerStoreError,
    StoreBusyError,
    StoreError,
    StoreReadOnlyError,
)
from rehydrate.memory.postgres import PostgresStore
from rehydrate.memory.postgres.connections import is_passing, refused
from rehydrate.memory.postgres.schema import STEPS
from tests.postgres_server import TABLES

psycopg = pytest.importorskip("psycopg")

ROLE = "rehydrate_test_app"


@pytest.fixture
def app(postgres: str, opened: Callable[..., Memory]) -> Iterator[str]:
    """The URL of a role that owns nothing, on a database with tables."""
    opened()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            f"DO $$ BEGIN CREATE ROLE {ROLE} LOGIN; "
            "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        )
        connection.execute(f"GRANT SELECT ON memory_migrations TO {ROLE}")
        for table in TABLES:
            connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")
    yield postgres.replace("postgres@", f"{ROLE}@")


def test_migrations_run_once_however_many_processes_open_at_once(postgres: str):
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: PostgresStore(postgres), range(8)))
    for store in stores:
        store.close()
    with psycopg.connect(postgres) as connection:
        found = connection.execute("SELECT name FROM memory_migrations ORDER BY name").fetchall()
    assert [name for (name,) in found if not name.startswith("v")] == [*STEPS]


def test_tables_of_a_later_version_are_left_alone(postgres: str, opened: Callable[..., Memory]):
    opened()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("INSERT INTO memory_migrations (name) VALUES ('900 from the future')")
    with pytest.raises(NewerStoreError, match="900 from the future"):
        opened()


def test_a_server_that_is_not_there_is_a_store_error_without_the_password():
    with pytest.raises(StoreError, match=r"postgresql://app@127\.0\.0\.1:1/none") as caught:
        Memory.open("postgresql://app:hunter2hunter2@127.0.0.1:1/none")
    assert "hunter2" not in str(caught.value)


def test_a_language_is_one_of_the_servers(opened: Callable[..., Memory], tmp_path):
    with pytest.raises(InvalidArgumentError, match="'klingon'"):
        opened(language="klingon")
    with pytest.raises(InvalidArgumentError, match="a file reads all languages alike"):
        Memory.open(tmp_path / "m.db", language="german")


def test_a_read_only_memory_reads_and_does_not_write(opened: Callable[..., Memory], postgres: str):
    with pytest.raises(StoreError, match="no memory tables"):
        opened(read_only=True)
    opened(namespace="a").add("an apple")
    reader = opened(namespace="a", read_only=True)
    assert [hit.item.text for hit in reader.search("apple")] == ["an apple"]
    with pytest.raises(StoreReadOnlyError):
        reader.add("a pear")


def test_a_role_without_rights_on_tables_of_its_own_can_use_a_memory(
    app: str, opened: Callable[..., Memory]
):
    memory = opened(app, namespace="alice")
    (added,) = memory.add("the port is 8443", source="notes")
    assert memory.search("port")[0].handle == added.handle
    memory.set_tier(added.handle, "hot")
    assert memory.get(added.handle).tier == "hot"
    assert memory.purge(source="notes") == 1
    assert memory.list() == []


def test_row_level_security_alone_keeps_namespaces_apart(app: str, opened: Callable[..., Memory]):
    owner = opened()
    names = [f"tenant {number}" for number in range(8)]
    for name in names:
        first, second = owner.add([f"the secret of {name}", f"the plan of {name}"], namespace=name)
        owner.link(first.handle, "explains", second.handle, namespace=name)
        owner.search("secret", namespace=name)  # the next addition writes that it was used
        owner.forget(owner.add("gone", namespace=name)[0].handle, namespace=name)
    draw = random.Random(3)
    statements = [f"SELECT namespace FROM {table}" for table in TABLES if "thread" not in table]
    with psycopg.connect(app, autocommit=True) as connection:
        for statement in statements:
            assert connection.execute(statement).fetchall() == []
        for _ in range(400):
            name, statement = draw.choice(names), draw.choice(statements)
            with connection.transaction():
                connection.execute("SELECT set_config('rehydrate.namespace', %s, true)", [name])
                found = {row[0] for row in connection.execute(statement).fetchall()}
            assert found == {name}
        mine, other = names[:2]
        with connection.transaction():
            connection.execute("SELECT set_config('rehydrate.namespace', %s, true)", [mine])
            changed = connection.execute(
                "UPDATE memory_chunks SET text = 'x' WHERE namespace = %s", [other]
            )
            assert changed.rowcount == 0
            assert connection.execute("DELETE FROM memory_chunks").rowcount == 2
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute("SELECT set_config('rehydrate.namespace', %s, true)", [mine])
            connection.execute(
                "INSERT INTO memory_namespaces (namespace, language) VALUES ('new', 'english')"
            )
    assert len(owner.list(namespace=other)) == 2


def test_a_tenant_writes_nothing_under_the_rows_of_another(
    app: str, postgres: str, opened: Callable[..., Memory]
):
    owner = opened()
    mine, other = "tenant a", "tenant b"
    for name in (mine, other):
        owner.add(["one", "two"], namespace=name)
    with psycopg.connect(postgres, autocommit=True) as connection:
        thread = connection.execute(
            "INSERT INTO memory_threads (namespace, name, created, changed) "
            "VALUES (%s, 't', 0, 0) RETURNING id",
            [other],
        ).fetchone()
        ids = dict(
            connection.execute("SELECT namespace, min(id) FROM memory_chunks GROUP BY 1").fetchall()
        )
    forged = [
        (
            "INSERT INTO memory_thread_records (namespace, thread, number, kind, time, body) "
            "VALUES (%s, %s, 99, 1, 0, 'forged')",
            [mine, thread[0]],
        ),
        ("INSERT INTO memory_uses VALUES (%s, %s, 1, 1)", [ids[other], mine]),
        (
            "INSERT INTO memory_links (namespace, origin, relation, target) "
            "VALUES (%s, %s, 'x', %s)",
            [mine, ids[mine], ids[other]],
        ),
        (
            "INSERT INTO memory_links (namespace, origin, relation, target) "
            "VALUES (%s, %s, 'x', %s)",
            [mine, ids[other], ids[mine]],
        ),
    ]
    with psycopg.connect(app, autocommit=True) as connection:
        for statement, values in forged:
            with pytest.raises(psycopg.errors.ForeignKeyViolation), connection.transaction():
                connection.execute("SELECT set_config('rehydrate.namespace', %s, true)", [mine])
                connection.execute(statement, values)


def test_an_error_of_the_server_repeats_no_text(postgres: str, opened: Callable[..., Memory]):
    text = "a private row " * 20
    memory = opened(namespace="a")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE memory_chunks ADD CONSTRAINT short CHECK (length(text) < 99) NOT VALID"
        )
    with pytest.raises(StoreError) as raised:
        memory.add(text)
    reported = "".join(traceback.format_exception(raised.value))
    assert text[:20] not in reported
    assert "short" in str(raised.value)


def test_a_server_that_restarts_during_the_handshake_is_busy():
    error = psycopg.OperationalError(
        "connection failed: server sent an error response during SSL exchange"
    )
    assert is_passing(error)
    assert isinstance(refused(error, "postgresql://db"), StoreBusyError)


def test_a_pgvector_that_is_too_old_is_left_alone(postgres: str, opened: Callable[..., Memory]):
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        connection.execute(
            "INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, "
            "extversion) SELECT 16000, 'vector', extowner, extnamespace, true, '0.4.4' "
            "FROM pg_extension WHERE extname = 'pg_trgm'"
        )
        for _ in range(2):
            memory = opened(namespace="a")
            memory.add("an apple")
            assert memory.search("apple")[0].item.text == "an apple"
        connection.execute("UPDATE pg_extension SET extversion = '0.10.0-dev' WHERE oid = 16000")
        with pytest.raises(StoreError, match="halfvec"):  # it says that it's there, and isn't
            opened()


def test_records_of_an_older_version_get_their_hashes(postgres: str, opened: Callable[..., Memory]):
    record = (1, 1.5, "an apple")
    with Threads.open(postgres, namespace="a") as threads:
        threads.native.append_records("a", "t", 0, [record])
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("ALTER TABLE memory_thread_records DROP COLUMN hash")
        connection.execute("DELETE FROM memory_migrations WHERE name = '002 hashes of records'")
    with pytest.raises(StoreError, match="old ones"):
        opened(read_only=True)
    assert opened().verify().ok
    with Threads.open(postgres, namespace="a") as threads:
        assert [*threads.native.records("a", "t")] == [record]
