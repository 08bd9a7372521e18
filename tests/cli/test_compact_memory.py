"""--memory and its options, as a user runs them."""

from __future__ import annotations

import json

import pytest

from rehydrate import Memory

ALICE = ("--memory", "memory.db", "--namespace", "alice")


def test_what_is_dropped_is_in_the_memory_under_its_handle(run, write, chat, tmp_path):
    write("chat.json", chat)
    done = run(
        *("compact", "chat.json", "--ratio", "0.3", *ALICE),
        *("--archive", "dropped,novel,episode", "--json"),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    told = json.loads(done.stdout)
    assert told["stats"]["degraded"] == []
    assert told["stats"]["distilled"] > 0
    with Memory.open(tmp_path / "memory.db", namespace="alice") as memory:
        for record in told["dropped"]:
            assert json.loads(memory.get(record["handle"]).text) == chat[record["index"]]
        stats = told["stats"]
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
    told = json.loads(done.stdout)
    assert told["stats"]["distilled"] > 0
    assert {record["handle"] for record in told["dropped"]} == {None}


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
    first, second = map(json.loads, run("rpc", *ALICE, stdin=asked * 2).stdout.splitlines())
    assert first["result"]["structured"]["stats"]["distilled"] > 0
    assert second["result"]["structured"]["stats"]["distilled"] == 0
    with Memory.open(tmp_path / "memory.db", namespace="alice") as memory:
        assert {item.thread for item in memory.list()} == {"s-1"}
    refused = json.loads(run("rpc", stdin=asked).stdout)
    assert refused["error"]["code"] == -32602
    assert "start it as rehydrate rpc --memory FILE" in refused["error"]["message"]
