"""`rehydrate memory copy`, and the other commands on a server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rehydrate import Memory
from rehydrate.memory import MemoryItem

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "memory.db"
    with Memory.open(path) as memory:
        for name in ("alice", "bob"):
            first, second = memory.add(
                [
                    MemoryItem(f"the port of {name} is 8443", tier="hot", trust=0.5, thread="t"),
                    MemoryItem("lunch was at noon", kind="episode", metadata={"a": [1, None]}),
                ],
                namespace=name,
            )
            memory.link(first.handle, "explains", second.handle, namespace=name)
    return path


def items(where: Path | str, namespace: str) -> list[MemoryItem]:
    with Memory.open(where, namespace=namespace) as memory:
        found = memory.list(limit=None)
    for item in found:
        object.__setattr__(item, "created", None)
    return found


def ran(run: Run, *arguments: object, code: int = 0) -> str:
    done = run("memory", *map(str, arguments), env={"REHYDRATE_NAMESPACE": ""})
    assert done.returncode == code, done.stderr.decode()
    return (done.stdout if code == 0 else done.stderr).decode()


def test_a_copy_to_another_file_is_the_same(run: Run, file: Path, tmp_path: Path):
    other = tmp_path / "other.db"
    assert "4 items of 2 namespaces copied" in ran(run, "copy", other, "--store", file)
    for name in ("alice", "bob"):
        assert items(other, name) == items(file, name)
    again = json.loads(ran(run, "copy", other, "--store", file, "-n", "alice", "--json"))
    assert again == {"namespaces": 1, "added": 0, "unchanged": 2, "links": 0, "lost_links": 0}


def test_a_copy_to_a_server_and_back_is_the_same(
    run: Run, file: Path, tmp_path: Path, postgres: str
):
    assert "4 items of 2 namespaces copied" in ran(run, "copy", postgres, "--store", file)
    for name in ("alice", "bob"):
        assert items(postgres, name) == items(file, name)
    back = tmp_path / "back.db"
    ran(run, "copy", back, "--store", postgres, "-n", "bob")
    assert items(back, "bob") == items(file, "bob")
    assert items(back, "alice") == []


def test_the_commands_work_on_a_server(run: Run, postgres: str):
    where = ("--store", postgres, "-n", "alice")
    handle = ran(run, "add", "Staging listens on 8443.", *where).strip()
    assert "8443" in ran(run, "search", "which port is staging on?", *where)
    assert "8443" in ran(run, "show", handle, *where)
    assert "1 item" in ran(run, "verify", "--store", postgres)
    assert "1 forgotten" in ran(run, "forget", handle, *where)


def test_a_server_that_is_not_there_is_an_error_without_the_password(run: Run, file: Path):
    url = "postgresql://app:hunter2hunter2@127.0.0.1:1/none"
    error = ran(run, "copy", url, "--store", file, code=2)
    assert "postgresql://app@127.0.0.1:1/none" in error
    assert "hunter2" not in error


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app:hunter2@127.0.0.1:1/none",
        "postgresql://app:%zzhunter2@127.0.0.1:1/none",
        "postgresql://app:1@hunter2@127.0.0.1:1/none",
        "mysql://app:hunter2@127.0.0.1:1/none",
    ],
)
def test_no_command_shows_a_password(run: Run, file: Path, url: str):
    where = ("-n", "alice")
    for command, code in (
        (("memory", "list", "--store", url, *where), 2),
        (("memory", "verify", "--store", url), 2),
        (("memory", "copy", url, "--store", str(file)), 2),
        (("memory", "copy", str(file), "--store", url), 2),
        (("thread", "list", "--store", url, *where), 2),
        (("rpc", "--memory", url, "--namespace", "alice"), 2),
        (("memory", "--help"), 0),
        (("mcp", "--help"), 0),
        (("doctor", "--help"), 0),
    ):
        done = run(*command, env={"REHYDRATE_MEMORY": url})
        assert done.returncode == code, (command, done.stderr)
        assert b"hunter2" not in done.stdout + done.stderr


def test_the_folder_of_hooks_is_no_server(run: Run):
    env = {"REHYDRATE_HOME": "postgresql://app:hunter2@db/memories", "REHYDRATE_MEMORY": ""}
    for command in (("claude", "status"), ("memory", "list", "-n", "alice")):
        done = run(*command, env=env)
        assert done.returncode == 2
        assert b"REHYDRATE_HOME is an address; name a folder" in done.stderr
        assert b"hunter2" not in done.stderr
