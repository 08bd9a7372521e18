"""Threads on a server: one writer wins, a purge of a namespace takes its threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from rehydrate import Context, Memory
from rehydrate.context import Threads
from rehydrate.errors import (
    InvalidArgumentError,
    StoreConflictError,
    StoreCorruptError,
    UnknownThreadError,
)

pytest.importorskip("psycopg")

RECORDS = [(1, 1.5, 'a NUL \\u0000 and \0, a brain 🧠, a "quote"'), (2, 2.5, "{}")]


def test_records_come_back_as_they_were(postgres: str):
    with Threads.open(postgres, namespace="a") as threads:
        store = threads.native
        assert store.thread("a", "t") is None
        assert store.append_records("a", "t", 0, RECORDS)[3] == 2
        assert [*store.records("a", "t")] == RECORDS
        assert [*store.records("a", "t", start=1, limit=1)] == RECORDS[1:]
        assert store.thread("b", "t") is None
        with pytest.raises(StoreConflictError, match='there is a thread "t" already'):
            store.append_records("a", "t", 0, RECORDS)
        with pytest.raises(StoreConflictError, match="has 2 records, not the 1"):
            store.append_records("a", "t", 1, RECORDS)
        store.replace_records("a", "t", 2, [(0, "other")])
        assert [body for _, _, body in store.records("a", "t")] == ["other", "{}"]
        store.replace_records("a", "t", 2, [(1, "one")], [(1, 3.5, "more")])
        assert [body for _, _, body in store.records("a", "t")] == ["other", "one", "more"]
        assert (store.thread("a", "t") or ())[3:] == (3, len("otheronemore"))
        with pytest.raises(InvalidArgumentError, match="years 1 to 9999"):
            store.append_records("a", "t", 3, [(1, 1e300, "x")])
        assert store.purge_thread("a", "t") == 3
        assert store.purge_thread("a", "t") == 0


def test_a_missing_record_is_found(postgres: str, opened: Callable[..., Memory]):
    import psycopg

    with Threads.open(postgres, namespace="a") as threads:
        threads.native.append_records("a", "t", 0, RECORDS)
        memory = opened(namespace="a")
        assert memory.verify().ok
        with psycopg.connect(postgres) as edit:
            edit.execute("DELETE FROM memory_thread_records WHERE number = 1")
        (problem,) = memory.verify().problems
        assert problem == "a record of thread 't' in 'a' is missing, or not as it was written"


def test_of_many_that_write_the_same_record_one_wins(postgres: str):
    with Threads.open(postgres, namespace="a") as threads:

        def write(number: int) -> bool:
            try:
                threads.native.append_records("a", "t", 0, [(1, 1.0, f"from {number}")])
            except StoreConflictError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(write, range(16))) == 1
        assert len(threads.native.records("a", "t")) == 1


def test_a_purge_of_a_namespace_takes_its_threads(postgres: str, opened: Callable[..., Memory]):
    with Threads.open(postgres) as threads:
        for name in ("a", "b"):
            context = Context(threads=threads, thread="t", namespace=name)
            context.add({"role": "user", "content": f"Hello from {name}."})
            context.close()
        opened(namespace="a").purge(everything=True)
        with pytest.raises(UnknownThreadError):
            threads.history("t", namespace="a")
        assert len(threads.history("t", namespace="b")) == 1


def test_the_stores_of_the_mcp_server_may_be_on_a_server(postgres: str):
    from rehydrate.integrations.mcp_server import Stores

    with Threads.open(postgres, namespace="a") as threads:
        context = Context(threads=threads, thread="t")
        context.add({"role": "user", "content": "Staging listens on 8443."})
        context.close()
    stores = Stores(memory=postgres, threads=postgres, namespace="a", has_sessions=False)
    assert stores.has_memory
    assert stores.has_threads
    stores.memory().add("The port is 8443.")
    assert [hit.item.text for hit in stores.memory().search("port")] == ["The port is 8443."]
    assert [info.name for info in stores.threads().list()] == ["t"]
    stores.close()


@pytest.mark.parametrize("what", ["body = 'forged'", "kind = 2", "time = 9", "hash = NULL"])
def test_a_changed_record_is_found(postgres: str, opened: Callable[..., Memory], what: str):
    import psycopg

    with Threads.open(postgres, namespace="a") as threads:
        threads.native.append_records("a", "t", 0, RECORDS)
        threads.native.replace_records("a", "t", 2, [(0, "other")])
        memory = opened(namespace="a")
        assert memory.verify().ok
        with psycopg.connect(postgres) as edit:
            edit.execute(f"UPDATE memory_thread_records SET {what} WHERE number = 0")
        (problem,) = memory.verify().problems
        assert problem == "a record of thread 't' in 'a' is missing, or not as it was written"
        with pytest.raises(StoreCorruptError, match="not as it was written"):
            threads.native.records("a", "t")
        assert [*threads.native.records("a", "t", start=1)] == RECORDS[1:]


def test_a_body_may_hold_half_a_surrogate_pair(postgres: str):
    with Threads.open(postgres, namespace="a") as threads:
        store = threads.native
        row = store.append_records("a", "t", 0, [(1, 1.5, "half \ud800")])
        assert [*store.records("a", "t")] == [(1, 1.5, "half \ud800")]
        store.replace_records("a", "t", 1, [(0, "half \ud800")])
        assert store.thread("a", "t")[4] == row[4]
