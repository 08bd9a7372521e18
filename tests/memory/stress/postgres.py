"""PostgreSQL under kills: 8 processes write, clients and the server are killed, tenants search.

`python -m tests.memory.stress postgres --trials 200`: so many kills of clients, a tenth as many of
the server (a process of it is killed, so it recovers from its log), 500 times as many operations of
tenants against a model, each second one a statement under row-level security alone.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rehydrate import Memory
from rehydrate.memory import MemoryItem
from rehydrate.memory.postgres import TABLES
from tests.memory.stress.tenants import TENANTS, check
from tests.postgres_server import server

WRITERS = 8
ROLE = "stress_app"
WRITER = """
import sys
from rehydrate import Memory
url, name, log = sys.argv[1:]
with Memory.open(url, namespace="crowd") as memory, open(log, "a") as done:
    for number in range(10_000_000):
        text = f"{name} item {number}"
        added = memory.add([text, f"{text}, its twin"], source=name)
        if not all(one.created for one in added):
            done.write("TWICE " + text + "\\n")
        done.write(text + "\\n")
        done.flush()
"""


def run_trials(folder: Path, trials: int, seed: int, tell: Callable[[str], None]) -> str:
    """Run it; raises AssertionError where a write was lost or doubled, or a tenant was seen."""
    chance = random.Random(seed)
    with server() as url:
        Memory.open(url).close()
        kills = max(1, trials // 10)
        done, servers = _crowd(folder, url, trials, kills, chance, tell)
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
        tell(f"{len(done):,} acknowledged writes, {trials} clients and {servers} servers killed")
        made, rows = _tenants(url, trials * 500, chance, tell)
    return (
        f"{len(done):,} writes under {trials} kills of clients and {servers} of the server: none "
        f"lost, none twice; {made:,} operations of tenants and {rows:,} statements under "
        "row-level security alone: no tenant saw another"
    )


def _crowd(
    folder: Path,
    url: str,
    trials: int,
    kills: int,
    chance: random.Random,
    tell: Callable[[str], None],
) -> tuple[list[str], int]:
    import psycopg

    running: list[subprocess.Popen[bytes]] = []
    logs: list[Path] = []

    def start() -> None:
        log = folder / f"{len(logs)}.log"
        logs.append(log)
        command = [sys.executable, "-c", WRITER, url, f"writer {len(logs)}", str(log)]
        running.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))

    for _ in range(WRITERS):
        start()
    servers = 0
    for trial in range(trials):
        time.sleep(chance.uniform(0.1, 0.6))
        victim = running.pop(chance.randrange(len(running)))
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        start()
        every = max(1, trials // kills)
        if trial % every == every - 1:
            with suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as connection:
                rows = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                    "AND pid <> pg_backend_pid()"
                ).fetchall()
                if rows:
                    os.kill(chance.choice(rows)[0], signal.SIGKILL)
                    servers += 1
        if trial % 20 == 0:
            tell(f"{trial} kills")
    time.sleep(3)
    for process in running:
        process.send_signal(signal.SIGKILL)
        process.wait()
    lines = [line for log in logs if log.exists() for line in log.read_text().splitlines(True)]
    return [line[:-1] for line in lines if line.endswith("\n")], servers


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
