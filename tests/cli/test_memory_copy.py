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


# --memory and its options, as a user runs them.


ALICE = ("--memory", "memory.db", "--namespace", "alice")


def test_what_is_dropped_is_in_the_memory_under_its_handle(run, write, chat, tmp_path):
    write("chat.json", chat)
    done = run(
        *("compact", "chat.json", "--ratio", "0.3", *ALICE),
        *("--archive", "dropped,novel,episode", "--json"),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    shown = json.loads(done.stdout)
    assert shown["stats"]["degraded"] == []
    assert shown["stats"]["distilled"] > 0
    with Memory.open(tmp_path / "memory.db", namespace="alice") as memory:
        for record in shown["dropped"]:
            assert json.loads(memory.get(record["handle"]).text) == chat[record["index"]]
        stats = shown["stats"]
        (item,) = memory.list(sources=None, kinds=["episode"], limit=None)[:1]
        assert item.text.startswith(f"{stats['before_tokens']}->{stats['after_tokens']} tokens, ")


def test_what_memory_holds_goes_first(run, write, chat, tmp_path):
    write("chat.json", chat)
    with Memory.open(tmp_path / "memory.db", namespace="alice") as memory:
        memory.add([message["content"] for message in chat if "Lisbon" in message["content"]])
    without = json.loads(run("compact", "chat.json", "--ratio", "0.4", "--json").stdout)
    given = json.loads(run("compact", "chat.json", "--ratio", "0.4", *ALICE, "--json").stdout)

    def about_lisbon(result):
        return sum("flights to Lisbon" in m["content"] for m in result["messages"])

    assert about_lisbon(given) < about_lisbon(without)
    assert given["stats"]["covered_pct"] > 0
    other = run("compact", "chat.json", "--memory", "memory.db", "--namespace", "bob", "--json")
    assert json.loads(other.stdout)["messages"] == without["messages"]


@pytest.mark.parametrize("what", ["dropped", "novel", "episode"])
def test_writing_needs_a_memory(run, write, chat, what):
    write("chat.json", chat)
    done = run("compact", "chat.json", "--archive", what)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"rehydrate: --archive needs a memory; add --memory FILE")


@pytest.mark.parametrize(
    ("flags", "kinds"),
    [
        (["--archive", "dropped"], {"message"}),
        (["--archive", "episode"], {"episode"}),
        (["--archive", "dropped, episode"], {"message", "episode"}),
        (["--archive", "dropped", "--archive", "episode"], {"message", "episode"}),
    ],
)
def test_what_is_named_is_written_and_nothing_else(run, write, chat, tmp_path, flags, kinds):
    write("chat.json", chat)
    done = run("compact", "chat.json", "--ratio", "0.3", *ALICE, *flags)
    assert (done.returncode, done.stderr) == (0, b"")
    with Memory.open(tmp_path / "memory.db", namespace="alice") as memory:
        assert {item.kind for item in memory.list(limit=None)} == kinds


def test_the_beginnings_of_what_is_new_are_written_without_the_whole(run, write, chat):
    write("chat.json", chat)
    done = run("compact", "chat.json", "--ratio", "0.3", *ALICE, "--archive", "novel", "--json")
    shown = json.loads(done.stdout)
    assert shown["stats"]["distilled"] > 0
    assert {record["handle"] for record in shown["dropped"]} == {None}


def test_the_archive_of_something_unknown_is_refused(run, write, chat):
    write("chat.json", chat)
    done = run("compact", "chat.json", *ALICE, "--archive", "dropped,all")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"'all' is none of dropped, novel, episode; name one or more" in done.stderr


@pytest.mark.parametrize("command", [("compact", "chat.json"), ("rpc",)])
def test_a_memory_needs_a_namespace(run, write, chat, tmp_path, command):
    write("chat.json", chat)
    done = run(*command, "--memory", "memory.db")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--namespace NAME" in done.stderr
    assert not (tmp_path / "memory.db").exists()


def test_what_is_no_memory_is_refused_in_one_line(run, write, chat, tmp_path):
    write("chat.json", chat)
    (tmp_path / "notes.txt").write_text("not a database " * 100, encoding="utf-8")
    done = run("compact", "chat.json", "--memory", "notes.txt", "--namespace", "alice")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8").startswith("not a database")


def test_a_server_with_a_memory_compacts_with_it(run, chat, tmp_path):
    def call(**arguments):
        params = {"name": "compact_context", "arguments": {"messages": chat} | arguments}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return json.dumps(request).encode() + b"\n"

    asked = call(target_ratio=0.3, archive={"dropped": False, "novel": True, "thread": "s-1"})
    done = run("rpc", *ALICE, stdin=asked * 2)
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["result"]["structured"]["stats"]["distilled"] > 0
    assert second["result"]["structured"]["stats"]["distilled"] == 0
    with Memory.open(tmp_path / "memory.db", namespace="alice") as memory:
        assert {item.thread for item in memory.list()} == {"s-1"}
    refused = json.loads(run("rpc", stdin=asked).stdout)
    assert refused["error"]["code"] == -32602
    assert "start it as rehydrate rpc --memory FILE" in refused["error"]["message"]
