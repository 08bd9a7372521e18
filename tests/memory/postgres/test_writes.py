"""Writes: none is lost and none is counted twice, whoever dies."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rehydrate import Memory
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory import MemoryItem
from rehydrate.memory.postgres import PostgresStore
from rehydrate.memory.postgres.adding import UseCounts
from rehydrate.memory.postgres.connections import Connections

psycopg = pytest.importorskip("psycopg")

WRITER = """
import sys
from rehydrate import Memory
url, name, log = sys.argv[1:]
with Memory.open(url, namespace="a") as memory, open(log, "a") as done:
    for number in range(100_000):
        text = f"{name} item {number}"
        memory.add([text, f"{text}, its twin"], source=name)
        done.write(text + "\\n")
        done.flush()
"""


class Cutting(Connections):
    """Loses the connection once, after the server committed and before the answer is read."""

    cuts = 0

    def _once(self, namespace: str, work: Any, seconds: float, **options: Any) -> Any:
        found = super()._once(namespace, work, seconds, **options)
        if self.cuts:
            self.cuts -= 1
            raise psycopg.OperationalError("the connection is lost")
        return found


def test_a_write_whose_answer_is_lost_counts_once(postgres: str):
    store = PostgresStore(postgres)
    memory = Memory(store, namespace="a")
    memory.add("one")
    cutting = Cutting(postgres, read_only=False)
    store._connections.close()
    store._connections = cutting
    cutting.cuts = 2
    (added,) = memory.add("two")
    assert added.created  # the second attempt knows what the first one did
    cutting.cuts = 1
    assert memory.set_tier(added.handle, "hot") == 1
    cutting.cuts = 1
    assert memory.link(added.handle, "follows", memory.list()[-1].handle)
    cutting.cuts = 1
    assert memory.forget(added.handle) == 1
    assert [item.text for item in memory.list()] == ["one"]
    assert memory.verify().ok
    memory.close()


def test_searches_count_uses_and_write_no_item(postgres: str, opened: Callable[..., Memory]):
    memory = opened(namespace="a")
    (added,) = memory.add("an apple")
    with psycopg.connect(postgres, autocommit=True) as connection:
        before = connection.execute("SELECT ctid FROM memory_chunks").fetchall()
        for _ in range(3):
            memory.search("apple")
        memory.close()  # which writes what was counted
        after = connection.execute("SELECT ctid FROM memory_chunks").fetchall()
        assert before == after
    assert opened(namespace="a").get(added.handle).uses == 3


def test_connections_that_the_server_ends_are_made_again(
    postgres: str, opened: Callable[..., Memory]
):
    memory = opened(namespace="a")
    with psycopg.connect(postgres, autocommit=True) as other:
        for number in range(20):
            (added,) = memory.add(f"item {number}")
            assert added.created
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            assert len(memory.list(limit=None)) == number + 1


def test_threads_that_write_to_one_namespace_while_connections_die(
    postgres: str, opened: Callable[..., Memory]
):
    memory = opened(namespace="a")

    def cut() -> None:
        draw = random.Random(1)
        with psycopg.connect(postgres, autocommit=True) as other:
            for _ in range(30):  # no more: a busy machine would get nothing done between two
                time.sleep(draw.uniform(0.01, 0.05))
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> "
                    "pg_backend_pid() AND datname = current_database() ORDER BY random() LIMIT 1"
                )

    created: list[bool] = []

    def write(name: int) -> None:
        for number in range(25):
            found = memory.add([f"{name} item {number}", f"{name} twin {number}"])
            created.extend(one.created for one in found)

    cutter = threading.Thread(target=cut)
    writers = [threading.Thread(target=write, args=[name]) for name in range(4)]
    cutter.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    cutter.join()
    assert created.count(True) == len(created) == 200
    texts = [item.text for item in memory.list(limit=None)]
    assert len(texts) == len(set(texts)) == 200
    assert memory.verify().ok
    assert {hit.item.text for hit in memory.search("3 item 24", 1)} == {"3 item 24"}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_processes_that_are_killed_lose_nothing_that_was_acknowledged(
    postgres: str, tmp_path: Path, opened: Callable[..., Memory]
):
    opened()
    draw = random.Random(2)
    running: dict[int, subprocess.Popen[bytes]] = {}
    logs: list[Path] = []

    def start(number: int) -> None:
        log = tmp_path / f"{number}.log"
        logs.append(log)
        running[number] = subprocess.Popen(
            [sys.executable, "-c", WRITER, postgres, f"writer {number}", str(log)],
            stderr=subprocess.DEVNULL,
        )

    def wait_for_writes(number: int) -> None:
        end = time.monotonic() + 600
        while not (logs[number].exists() and logs[number].stat().st_size):
            assert running[number].poll() is None and time.monotonic() < end
            time.sleep(0.02)

    for number in range(3):
        start(number)
    for number in range(3, 9):
        victim = draw.choice([*running])
        wait_for_writes(victim)
        time.sleep(draw.uniform(0, 0.2))
        running[victim].send_signal(signal.SIGKILL)
        running.pop(victim).wait()
        start(number)
    for number, process in running.items():
        wait_for_writes(number)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = [line for log in logs if log.exists() for line in log.read_text().splitlines()]
    memory = opened(namespace="a")
    texts = [item.text for item in memory.list(limit=None)]
    assert len(texts) == len(set(texts))
    assert done
    held = set(texts)
    for text in done:
        assert text in held
        assert f"{text}, its twin" in held
    whole = {text.removesuffix(", its twin") for text in texts}
    assert 2 * len(whole) == len(texts)  # a batch is there whole or not at all
    assert memory.verify().ok


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_has_connections_of_its_own(opened: Callable[..., Memory]):
    memory = opened(namespace="a")
    memory.add("before the fork")
    child = os.fork()
    if child == 0:
        try:
            memory.add("in the child")
            os._exit(len(memory.list()))
        except BaseException:
            os._exit(99)
    memory.add("in the parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in {2, 3}
    assert {item.text for item in memory.list()} == {
        "before the fork",
        "in the child",
        "in the parent",
    }


def test_what_searches_in_many_namespaces_counted_makes_no_later_search_a_write(postgres: str):
    uses = UseCounts()
    full = [uses.count(f"tenant {number}", ["mem_1"]) for number in range(300)]
    assert full[:256] == [None] * 256
    assert full[256:] == ["tenant 0"] * 44  # nothing wrote it here
    with PostgresStore(postgres)._connections.single() as connection, connection.cursor() as cursor:
        for number in range(44):
            uses.write(cursor, f"tenant {number}")
    assert uses.count("tenant 299", ["mem_1"]) is None
    assert uses.count("tenant 299", [f"mem_{number}" for number in range(256)]) == "tenant 299"


def test_a_purge_names_one_thing(postgres: str):
    store = PostgresStore(postgres)
    store.add([MemoryItem("an apple")], namespace="a")
    with pytest.raises(InvalidArgumentError, match="purge removes one thing"):
        store.purge(namespace="a")
    with pytest.raises(InvalidArgumentError, match="purge removes one thing"):
        store.purge(namespace="a", source="", thread="")
    assert len(store.list(namespace="a")) == 1
    store.close()
