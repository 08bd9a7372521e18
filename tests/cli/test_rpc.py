"""`rehydrate rpc` as a process: bytes in, replies out, nothing else, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from rehydrate import cli
from tests.sizes import PATIENCE_SECONDS

PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


def call(messages: object, identity: object = 1, **arguments: object) -> dict:
    arguments = {"messages": messages, **arguments}
    params = {"name": "compact_context", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": params}


@pytest.fixture
def server():
    process = subprocess.Popen(
        [sys.executable, "-m", "rehydrate", "rpc"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("indent", [None, 0, 4])
def test_a_call_works_on_its_own_and_is_answered_before_the_end(run, chat, indent):
    done = run("rpc", stdin=json.dumps(call(chat), indent=indent).encode())
    assert (done.returncode, done.stderr, done.stdout.count(b"\n")) == (0, b"", 1)
    found = json.loads(done.stdout)["result"]["structured"]
    assert 0 < len(found["messages"]) < len(chat)
    assert found["stats"]["dropped"] == len(chat) - len(found["messages"])


def test_requests_are_answered_in_order_however_they_are_laid_out(run, chat):
    requests = [
        {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "l", "method": "tools/list"},
        call(chat, "c"),
    ]
    pretty = "".join(json.dumps(request, indent=2) for request in requests)
    lines = "\r\n".join(json.dumps(request) for request in requests)
    done = run("rpc", stdin=f"\ufeff{pretty}\n{lines}".encode())
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reply["id"] for reply in replies] == ["i", "l", "c"] * 2
    assert not any("error" in reply for reply in replies)


def test_a_request_is_answered_at_once_while_the_input_stays_open(server):
    for _ in range(3):
        server.stdin.write(PING)  # without a line end: the value is complete without one
        server.stdin.flush()
        assert server.stdout.readline() == PONG


def test_a_character_split_between_reads_is_whole_again(server):
    data = json.dumps(call([{"role": "user", "content": "שלום 🙂"}]), ensure_ascii=False).encode()
    for byte in data:
        os.write(server.stdin.fileno(), bytes([byte]))
    reply = json.loads(server.stdout.readline())
    assert reply["result"]["structured"]["messages"][0]["content"] == "שלום 🙂"


def test_replies_to_a_framing_sender_are_framed(run):
    request = b"Content-Length: %d\r\n\r\n%s" % (len(PING), PING)
    reply = PONG.rstrip()
    assert run("rpc", stdin=request * 2).stdout == b"Content-Length: 36\r\n\r\n" + reply + (
        b"Content-Length: 36\r\n\r\n" + reply
    )


@pytest.mark.parametrize(
    ("hostile", "code"),
    [
        (b"nonsense", -32700),
        (b'{"jsonrpc": "2.0", "id": 4, "method": "pi', -32700),
        (b'{"a": "\xff"}', -32700),
        (b'{"id": NaN}', -32700),
        (b"[" * 10_000 + b"]" * 10_000, -32700),
        (b"[[[]]]", [-32600]),
        (b'"just text"', -32600),
    ],
    ids=["junk", "cut", "latin1", "nan", "deep", "nested", "text"],
)
def test_what_is_hostile_is_answered_and_the_next_line_too(run, hostile, code):
    done = run("rpc", stdin=hostile + b"\n" + PING)
    first, second = done.stdout.splitlines(keepends=True)
    reply = json.loads(first)
    codes = (
        [one["error"]["code"] for one in reply]
        if isinstance(reply, list)
        else reply["error"]["code"]
    )
    assert (done.returncode, done.stderr, codes, second) == (0, b"", code, PONG)


def test_half_a_surrogate_pair_goes_through(run):
    done = run("rpc", stdin=json.dumps(call([{"role": "user", "content": "a \ud800"}])).encode())
    reply = json.loads(done.stdout)
    assert reply["result"]["structured"]["messages"][0]["content"] == "a \ud800"


def test_a_message_of_ten_million_characters_comes_back_whole(run):
    message = {"role": "user", "content": 'a "b"\n' * 1_700_000}
    done = run("rpc", stdin=json.dumps(call([message], counter="chars")).encode())
    assert json.loads(done.stdout)["result"]["structured"]["messages"] == [message]


def test_no_input_is_no_output(run):
    done = run("rpc", stdin=b" \n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_reader_that_leaves_ends_it_quietly(server):
    server.stdout.close()
    server.stdin.write(PING * 10)
    server.stdin.flush()
    assert server.wait(timeout=PATIENCE_SECONDS) == cli.BROKEN_PIPE
    assert server.stderr.read() == b""


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_an_interrupt_ends_it_quietly_as_it_does_other_commands(server):
    server.stdin.write(PING)
    server.stdin.flush()
    assert server.stdout.readline() == PONG  # it is up, and waits for more
    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=PATIENCE_SECONDS) == cli.INTERRUPTED
    assert server.stderr.read() == b""


@pytest.mark.parametrize(("stream", "said"), [("stdin", b"input"), ("stdout", b"output")])
def test_a_closed_stream_is_a_mistake_in_one_line(stream, said):
    code = (
        f"import sys; sys.{stream} = None; from rehydrate.cli import main; sys.exit(main(['rpc']))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=PING, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert done.stderr.startswith(b"rehydrate: standard " + said + b" is closed")


def test_an_input_that_cannot_be_read_is_a_mistake_in_one_line(monkeypatch, capfd, tmp_path):
    def fail(*_):
        raise OSError(5, "Input/output error")

    (tmp_path / "in").touch()
    with (tmp_path / "in").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(os, "read", fail)
        assert cli.main(["rpc"]) == 2
    assert capfd.readouterr() == (
        "",
        "rehydrate: standard input cannot be read: Input/output error\n",
    )
