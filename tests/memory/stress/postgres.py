"""PostgreSQL under kills: 8 processes write, clients and the server are killed, tenants search.

`python -m tests.memory.stress postgres --trials 200`: so many kills of clients, a tenth as many of
the server's first process (it is started again, on its data and port) and a tenth of one of its
other processes; both make it recover from its log. Two readers look meanwhile for what was
acknowledged. Then 500 times as many operations of tenants against a model, each second one a
statement under row-level security alone.

The server waits for the disk (fsync is on), but a kill of processes leaves the system's cache as it
is: nothing here says what a loss of power does.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehydrate import Memory
from rehydrate.memory import MemoryItem
from tests.memory.stress.tenants import TENANTS, check
from tests.postgres_server import TABLES, server
from tests.sizes import PATIENCE_SECONDS

if TYPE_CHECKING:
    from psycopg import Connection

WRITERS = 8
READERS = 2
"""The first has an index in its process, the second the server's candidates."""
ROLE = "stress_app"
WRITER = """
import sys, time
from rehydrate import Memory
from rehydrate.errors import StoreBusyError
url, name, log = sys.argv[1:]
while True:  # a server that is being restarted refuses whoever opens a memory
    try:
        Memory.open(url).close()
        break
    except StoreBusyError:
        time.sleep(0.1)
with Memory.open(url, namespace="crowd") as memory, open(log, "a") as done:
    for number in range(10_000_000):
        text = f"{name} item {number}"
        added = memory.add([text, f"{text}, its twin"], source=name)
        if not all(one.created for one in added):
            done.write(f"TWICE {text}\\t\\n")
        done.write(f"{text}\\t{added[0].handle}\\n")
        done.flush()
"""
READER = """
import pathlib, random, sys, time
from rehydrate import Memory
from rehydrate.errors import StoreBusyError
url, number, folder, report = sys.argv[1:]
chance, folder, found, busy, longest = random.Random(number), pathlib.Path(folder), 0, 0, 0.0
options = {"index_bytes": 1} if number == "1" else {}
while True:  # as the writers
    try:
        memory = Memory.open(url, namespace="crowd", **options)
        break
    except StoreBusyError:
        time.sleep(0.1)
with memory:
    while not (folder / "stop").exists():
        logs = [log.read_text().splitlines(True) for log in folder.glob("*.log")]
        done = [line.strip() for lines in logs for line in lines if line.endswith("\\n")]
        if not done:
            continue
        (text, handle), started = chance.choice(done).split("\\t"), time.monotonic()
        try:
            there = memory.get(handle).text
            hits = [hit.item.text for hit in memory.search(text, 20)]
        except StoreBusyError:
            busy += 1
            continue
        found += 1
        longest = max(longest, time.monotonic() - started)
        if there != text or text not in hits:
            print("WRONG", text, there, hits, file=open(report, "a"))
print(f"{found} {busy} {longest}", file=open(report, "a"))
"""


def run_trials(folder: Path, trials: int, seed: int, tell: Callable[[str], None]) -> str:
    """Run it; raises AssertionError where a write was lost or doubled, or a tenant was seen."""
    chance = random.Random(seed)
    with server("--restart") as url:
        seen = check_kills(folder, url, trials, chance, tell)
        made, rows = _tenants(url, trials * 500, chance, tell)
    return (
        f"{seen}; {made:,} operations of tenants and {rows:,} statements under "
        "row-level security alone: no tenant saw another"
    )


def check_kills(
    folder: Path, url: str, trials: int, chance: random.Random, tell: Callable[[str], None]
) -> str:
    """Kill clients and the server during writes; raises AssertionError if anything is wrong."""
    Memory.open(url).close()
    done, first, others, reports = _crowd(folder, url, trials, chance, tell)
    connected(url).close()
    with Memory.open(url, namespace="crowd") as memory:
        texts = [item.text for item in memory.list(limit=None)]
        held = set(texts)
        assert len(held) == len(texts), "an item is there twice"
        twice = [line for line in done if line.startswith("TWICE")]
        assert not twice, f"a write was counted twice: {twice[:3]}"
        lost = [text for text in done if text not in held or f"{text}, its twin" not in held]
        assert not lost, f"{len(lost)} acknowledged writes are lost: {lost[:3]}"
        assert len({text.removesuffix(", its twin") for text in texts}) * 2 == len(texts)
        report = memory.verify()
        assert report.ok, report.problems[:3]
    wrong = [line for line in reports if line.startswith("WRONG")]
    assert not wrong, f"{len(wrong)} searches were wrong: {wrong[:3]}"
    assert len(reports) == READERS, f"a reader ended: {reports}"
    reads, busy = (sum(int(line.split()[at]) for line in reports) for at in (0, 1))
    return (
        f"{len(done):,} acknowledged writes under {trials} kills of clients, {first} of the "
        f"server's first process and {others} of its other ones: none lost, none twice; "
        f"{reads:,} searches meanwhile: none wrong, {busy} with StoreBusyError, the others at most "
        f"{max(float(line.split()[2]) for line in reports):.1f} s"
    )


def _crowd(
    folder: Path, url: str, trials: int, chance: random.Random, tell: Callable[[str], None]
) -> tuple[list[str], int, int, list[str]]:
    """Return what writers acknowledged, the server's kills of both kinds, what readers report."""
    running: list[subprocess.Popen[bytes]] = []
    logs: list[Path] = []

    def start() -> None:
        log = folder / f"{len(logs)}.log"
        logs.append(log)
        command = [sys.executable, "-c", WRITER, url, f"writer {len(logs)}", str(log)]
        running.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))

    for _ in range(WRITERS):
        start()
    report = folder / "report"
    readers = [
        subprocess.Popen([sys.executable, "-c", READER, url, str(n), str(folder), str(report)])
        for n in range(READERS)
    ]
    first = others = 0
    every = 10
    written = 0
    for trial in range(trials):
        written = _written(logs, more_than=written)
        time.sleep(chance.uniform(0, 0.9))
        victim = running.pop(chance.randrange(len(running)))
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        start()
        if trial % every == every // 2:
            others += _kill(url, OTHER_PROCESS)
        elif trial % every == every - 1:
            first += _kill(url, FIRST_PROCESS)
        if trial % 20 == 0:
            tell(f"{trial} kills")
    _written(logs, more_than=written)
    time.sleep(3)
    (folder / "stop").touch()
    for reader in readers:
        assert reader.wait(PATIENCE_SECONDS) == 0
    for process in running:
        process.send_signal(signal.SIGKILL)
        process.wait()
    lines = [line for log in logs if log.exists() for line in log.read_text().splitlines(True)]
    done = [line.split("\t")[0] for line in lines if line.endswith("\n")]
    return done, first, others, report.read_text().splitlines()


def _written(logs: list[Path], *, more_than: int) -> int:
    """Wait until writers acknowledged more: a busy machine starts them late. Return the bytes."""
    end = time.monotonic() + PATIENCE_SECONDS
    while (size := sum(log.stat().st_size for log in logs if log.exists())) <= more_than:
        assert time.monotonic() < end, "nobody writes"
        time.sleep(0.02)
    return size


FIRST_PROCESS = "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int"
OTHER_PROCESS = (
    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
    "AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
)


def _kill(url: str, process: str) -> bool:
    """Kill a process of the server; return whether there was one."""
    with connected(url) as connection:
        row = connection.execute(process).fetchone()
    if row is not None:
        os.kill(row[0], signal.SIGKILL)
    return row is not None


def connected(url: str) -> Connection[Any]:
    """Connect as soon as the server takes connections: it may recover from the last kill."""
    import psycopg

    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError:
            assert time.monotonic() < end, "the server does not come back"
            time.sleep(0.1)


def _tenants(
    url: str, searches: int, chance: random.Random, tell: Callable[[str], None]
) -> tuple[int, int]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        connection.execute(f"GRANT SELECT ON memory_migrations TO {ROLE}")
        for table in TABLES:
            connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}")
    as_role = url.replace("postgres@", f"{ROLE}@")
    with (
        Memory.open(url) as held,
        Memory.open(url, index_bytes=1) as candidates,
        Memory.open(as_role) as guarded,
    ):
        ways = [held, candidates, guarded]
        mine: list[dict[str, MemoryItem]] = [{} for _ in TENANTS]
        for made in range(searches // 2):
            check(chance.choice(ways), chance.randrange(len(TENANTS)), mine, chance)
            if made % 5_000 == 0:
                tell(f"{made:,} operations")
    rows = 0
    statements = [f"SELECT namespace FROM {table} LIMIT 1000" for table in TABLES]
    with psycopg.connect(as_role, autocommit=True) as connection:
        while rows < searches - searches // 2:
            tenant = chance.choice(TENANTS)
            with connection.transaction():
                connection.execute("SELECT set_config('rehydrate.namespace', %s, true)", [tenant])
                for statement in chance.sample(statements, 2):
                    seen = {name for (name,) in connection.execute(statement).fetchall()}
                    assert seen <= {tenant}, (tenant, seen)
                    rows += 1
    return searches // 2, rows
