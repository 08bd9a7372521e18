"""Each command with a full disk, closed streams and no reader: one line, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rehydrate import Memory, cli
from rehydrate._distributions import is_here
from rehydrate.cli.terminal import USAGE
from tests.sizes import PATIENCE_SECONDS, sized

pytestmark = pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")

COMMANDS = [
    *("--help", "doctor --json", "compact chat.json", "memory add tea"),
    *("memory list", "memory export -", "memory import -"),
    *["lint chat.json"] * is_here("rehydrate.cli.inspect"),
    *["claude status"] * is_here("rehydrate.cli.hosts"),
]
COMMANDS = sized(COMMANDS[::2], COMMANDS)


@pytest.fixture
def shell(write, chat, tmp_path):
    """`shell("memory list >&-")`: in a folder with a conversation and a memory of one item."""
    write("chat.json", chat)
    env = {**os.environ, "REHYDRATE_HOME": str(tmp_path), "REHYDRATE_NAMESPACE": "t"}
    env |= {"HOME": str(tmp_path), "PYTHONUTF8": "1"}

    def shell(command: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["bash", "-c", f'"$0" -m rehydrate {command}', sys.executable],
            cwd=tmp_path,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    with Memory.open(tmp_path / "memory.db", namespace="t") as memory:
        memory.add("coffee")
    return shell


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_or_a_closed_output_is_one_line(shell, command):
    for stream, said in ((">/dev/full", b"cannot be written: No space left"), (">&-", b"closed")):
        done = shell(f"{command} {stream}")
        assert done.returncode == USAGE
        assert done.stderr.startswith(b"rehydrate: standard output ")
        assert said in done.stderr
        assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_is_gone_ends_the_command_in_silence(shell, command):
    done = shell(f"{command} | true; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (cli.BROKEN_PIPE, b"")


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_standard_error_the_output_is_the_same(shell, command):
    assert shell(f"{command} 2>/dev/full").returncode == shell(f"{command} 2>&-").returncode <= 1


@pytest.mark.parametrize(
    "command",
    [
        *("memory export {0}", "compact chat.json -o {0}", "compact chat.json --html {0}"),
        *("inspect chat.json -o {0}", "thread export {0}"),
    ],
)
def test_a_pipe_that_is_named_as_output_is_written_and_stays_one(shell, tmp_path, command):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if command.startswith("thread"):
        from rehydrate import Context

        with Context.open(tmp_path / "memory.db", thread="talk", namespace="t") as context:
            context.add({"role": "user", "content": "Hello"})
        command = "thread export --store memory.db talk {0}"
    # The shell holds it open until the command has ended, also one that never opens it.
    reads = "exec 3<>pipe 4<pipe; cat <&4 3>&- & wait $made; code=$?; exec 3>&-; wait; exit $code"
    done = shell(f"{command.format('pipe')} & made=$!; {reads}")
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    "command",
    [
        *("memory export {0}", "compact chat.json -o {0}", "compact chat.json --html {0}"),
        *("inspect chat.json -o {0}", "thread export --store {0} talk {0}"),
    ],
)
def test_no_output_replaces_a_memory_or_stored_threads(shell, tmp_path, command):
    from rehydrate import Context

    store = tmp_path / "memory.db"
    with Context.open(store, thread="talk", namespace="t") as context:
        context.add({"role": "user", "content": "Hello"})
    done = shell(command.format("memory.db"))
    assert done.returncode == USAGE
    assert b"memory.db cannot be written: it is a database" in done.stderr
    assert done.stderr.count(b"\n") == 1
    with Memory.open(store, namespace="t") as memory:
        assert [item.text for item in memory.list()] == ["coffee"]
