"""Clients that mean no good, or do not know better: each gets an error, and the next an answer."""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the MCP server needs the extra rehydrate[mcp]")

import os

import anyio
from mcp.shared.exceptions import MCPError

from rehydrate import Memory
from rehydrate.integrations.loopback_http import MAX_BODY_BYTES
from rehydrate.integrations.mcp_server.server import _in_thread
from rehydrate.integrations.mcp_server.tools import TOOLS
from tests.integrations.served import COMMAND, Address, machine, over_http, write_sessions
from tests.sizes import PATIENCE_SECONDS

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "hostile", "version": "1"},
    },
}
PING = {"jsonrpc": "2.0", "id": "after", "method": "ping"}


def request(tool: str, arguments: object, identity: object = 1) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": params}


class Raw:
    """A client that writes what it likes on standard input."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def send(self, *messages: object) -> None:
        assert self._process.stdin is not None
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def line(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def reply(self) -> dict[str, Any]:
        return json.loads(self.line())

    def ask(self, message: object) -> dict[str, Any]:
        self.send(message)
        return self.reply()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("machine")
    write_sessions(folder)
    return folder


@pytest.fixture(scope="module")
def env(folder: Path) -> dict[str, str]:
    return {**os.environ, **machine(folder)}


@pytest.fixture(scope="module")
def raw(env: dict[str, str], folder: Path) -> Iterator[Raw]:
    """One server for all: each test finds it as usable as the first did; it ends in order, and
    says nothing of it."""
    with subprocess.Popen(
        [*COMMAND, "--memory", str(folder / "raw.db"), "--namespace", "alice"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    ) as process:
        client = Raw(process)
        assert client.ask(INITIALIZE)["result"]["protocolVersion"] == "2025-11-25"
        client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield client
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
        assert (process.returncode, said) == (0, b"")


def error_of(reply: dict[str, Any]) -> str:
    """The text of a result that is an error, as the model reads it."""
    result = reply["result"]
    assert result["isError"] is True
    assert "structuredContent" not in result
    return result["content"][0]["text"]


@pytest.mark.parametrize(
    ("line", "code", "identity"),
    [
        (b"nonsense", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 4, "method": "pi', -32700, None),
        (b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": 4, "method": "ping"}', -32700, None),
        (b'{"a": "\xff"}', -32600, None),
        (b"[" * 5_000 + b"]" * 5_000, -32700, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc": "2.0", "id": 4, "method": "ping"}]', -32600, None),
        (b'"text"', -32600, None),
        (b'{"id": 7}', -32600, 7),
        (b'{"jsonrpc": "1.0", "id": "a", "method": "ping"}', -32600, "a"),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": []}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "\\ud800"}', -32700, 7),
        (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', -32700, None),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1' + b"0" * 9_000 + b', "method": "ping"}', -32700, None),
    ],
)
def test_a_line_that_is_no_message_is_answered_and_the_next_one_too(
    raw: Raw, line: bytes, code: int, identity: object
) -> None:
    reply = raw.ask(line)
    assert (reply.get("id"), reply["error"]["code"]) == (identity, code)
    assert ("id" in reply) == (identity is not None)  # the protocol's schema has no null there
    assert raw.ask(PING)["id"] == "after"


def test_what_asks_for_nothing_is_not_answered(raw: Raw) -> None:
    cancelled: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    raw.send(b"", b"  ", b"\r", b'{"jsonrpc": "2.0", "id": 5, "result": {}}')
    raw.send(*({**cancelled, "params": {"requestId": n}} for n in (99, "id")))
    raw.send({"jsonrpc": "2.0", "method": "notifications/nothing", "params": {"id": 1}})
    assert raw.ask(json.dumps(PING).encode() + b"\r")["id"] == "after"


def test_a_thousand_calls_at_once_are_all_answered(raw: Raw) -> None:
    calls = [
        request("search_memory", {"query": f"berth {number}"}, number) for number in range(1000)
    ]
    sender = threading.Thread(target=raw.send, args=calls)
    sender.start()
    replies = [raw.reply() for _ in calls]
    sender.join()
    assert {reply["id"] for reply in replies} == {*range(1000)}
    assert not any("error" in reply or reply["result"]["isError"] for reply in replies)


@pytest.mark.parametrize("closed", ["stdin", "stdout"])
def test_a_client_that_goes_in_the_middle_of_a_call_ends_the_server_in_peace(
    closed: str, env: dict[str, str]
) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(COMMAND, **pipes, env=env) as process:
        client = Raw(process)
        client.ask(INITIALIZE)
        client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert process.stdin is not None and process.stdout is not None
        if closed == "stdout":
            process.stdout.close()
        client.send(request("search_sessions", {"query": "login"}), request("x", {}, 2))
        process.stdin.close()
        assert process.wait(timeout=PATIENCE_SECONDS) == 0
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_calls_before_the_end_of_the_input_are_answered(env: dict[str, str]) -> None:
    slow = [request("search_sessions", {"query": "login"}, number) for number in range(1, 5)]
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}}
    again = {
        "jsonrpc": "2.0",
        "id": 5,
        "method": "resources/list",
        "params": {"cursor": "1" * 5_000},
    }
    sent = [INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *slow]
    lines = [
        json.dumps(each).encode() + b"\n" for each in [*sent, cancel, request("x", {}, 6), again]
    ]
    done = subprocess.run(
        COMMAND,
        input=b"".join(lines),
        capture_output=True,
        env=env,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    replies = {reply["id"]: reply for reply in map(json.loads, done.stdout.splitlines())}
    assert {1, 2, 3, 5, 6} <= replies.keys()
    assert not any(replies[number]["result"]["isError"] for number in (1, 2, 3))
    assert "cursor" in replies[5]["error"]["message"]
    assert "no tool 'x'" in replies[6]["error"]["message"]


def test_what_a_resource_raises_is_not_told() -> None:
    def fail() -> None:
        raise KeyError("hunter2")

    with pytest.raises(MCPError, match="KeyError") as raised:
        anyio.run(_in_thread, fail)
    assert "hunter2" not in str(raised.value)


def test_an_unknown_tool_and_method_are_errors_of_the_protocol(raw: Raw) -> None:
    reply = raw.ask(request("drop_memory", {}))
    assert reply["error"]["code"] == -32602
    assert "no tool 'drop_memory'; there are compact_context," in reply["error"]["message"]
    reply = raw.ask({"jsonrpc": "2.0", "id": 2, "method": "memory/drop"})
    assert reply["error"]["code"] == -32601
    reply = raw.ask(request("search_memory", [1]))
    assert reply["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("compact_context", {}, "messages is missing; send the conversation"),
        ("compact_context", {"messages": "hello"}, "expected a list of messages"),
        ("compact_context", {"mesages": []}, "no argument 'mesages', did you mean 'messages'?"),
        ("compact_context", {"messages": [], "budget_tokens": -1}, "budget_tokens is -1"),
        ("request_context", {"thread": 3, "query": "x"}, "thread is 3; send a string"),
        ("search_memory", {}, "query is empty; send a string that is not"),
        ("search_memory", {"query": {"a": 1}}, "query is an object; send a string"),
        ("search_memory", {"query": "x", "limit": 1e9}, "send a whole number from 1 to 50"),
        ("search_memory", {"query": "x", "limit": True}, "limit is True"),
        ("search_memory", {"query": "x", "kinds": "note"}, "send an array of strings"),
        ("search_memory", {"query": "x", "tier": []}, "tier is an array; send one of 'hot'"),
        ("search_memory", {"query": "x", "time_range": "soon"}, "cannot be used"),
        ("search_memory", {"query": "x", "namespace": "bob"}, "no argument 'namespace'"),
        ("add_memory", {"text": " "}, "text is empty"),
        ("add_memory", {"text": "x", "tier": "hot"}, "tier is 'hot'; send one of 'warm', 'cold'"),
        ("add_memory", {"text": "x", "trust": 1}, "no argument 'trust'"),
        ("load_memory", {}, 'send one of "name" and "query"'),
        ("search_sessions", {"agent": "gemini"}, "send one of 'claude_code', 'codex'"),
        ("session_outline", {"session": "../../../etc/passwd"}, "there is no session"),
        ("session_outline", {"session": "1"}, "there is no session '1'; search_sessions finds"),
        ("session_outline", {"session": "\u0000"}, "there is no session"),
    ],
)
def test_a_wrong_argument_is_a_result_that_says_what_to_send(
    raw: Raw, tool: str, arguments: dict[str, Any], said: str
) -> None:
    text = error_of(raw.ask(request(tool, arguments)))
    assert text.startswith(f"{tool}: ")
    assert said in text


def test_an_argument_of_ten_megabytes_is_taken_or_refused(raw: Raw) -> None:
    huge = "x " * 5_000_000
    for tool in ("search_memory", "search_sessions"):
        said = error_of(raw.ask(request(tool, {"query": huge})))
        assert said == f"{tool}: query has 10,000,000 characters, the limit is 2,000; send fewer"
    assert "the limit is 100,000" in error_of(raw.ask(request("add_memory", {"text": huge})))
    message = {"role": "user", "content": huge}
    reply = raw.ask(request("compact_context", {"messages": [message], "counter": "chars"}))
    assert reply["result"]["structuredContent"]["messages"] == [message]
    assert "x" * 60 not in error_of(raw.ask(request("session_outline", {"session": "x" * 10**7})))


@pytest.mark.parametrize("tool", [*TOOLS])
def test_values_of_every_type_are_taken_or_refused(raw: Raw, tool: str) -> None:
    values = [None, True, -1, 1.5, 2**70, "", "x", [], [[]], {}, {"a": [None]}]
    for name in TOOLS[tool].arguments:
        for value in values:
            result = raw.ask(request(tool, {name: value}))["result"]
            text = result["content"][0]["text"]
            assert not result["isError"] or text.startswith(f"{tool}: "), (name, value, text)


def test_a_cancelled_call_leaves_the_connection_usable(raw: Raw) -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    raw.send(request("search_sessions", {"query": "login"}), cancel, PING)
    replies = [raw.reply()]
    while replies[-1]["id"] != "after":
        replies.append(raw.reply())
    assert [reply["id"] for reply in replies[:-1]] in ([], [1])
    again = raw.ask(request("search_sessions", {"query": "login"}, 2))
    while again["id"] != 2:  # the cancelled call may have been answered after the ping
        again = raw.reply()
    assert again["result"]["structuredContent"]["sessions"]


def test_half_an_emoji_in_a_store_is_answered_by_every_entry_point(raw: Raw, folder: Path) -> None:
    half = "The gate code is half \ud83d of it."
    with Memory.open(folder / "raw.db", namespace="alice", redact=False) as memory:
        (added,) = memory.add(half, source="n.md")
    read = {"jsonrpc": "2.0", "id": 3, "method": "resources/read"}
    asked = [
        request("search_memory", {"query": "gate code"}, 1),
        request("load_memory", {"name": added.handle}, 2),
        {**read, "params": {"uri": f"rehydrate://handle/{added.handle}"}},
        request("load_memory", {"query": "gate code"}, 4),
    ]
    for each in asked:
        assert "half \ufffd of it" in json.dumps(raw.ask(each), ensure_ascii=False)


def test_a_line_end_of_unicode_does_not_cut_a_frame(raw: Raw, folder: Path) -> None:
    ends = "one\u2028two\u2029three\x85four"
    with Memory.open(folder / "raw.db", namespace="alice") as memory:
        (added,) = memory.add(f"ports: {ends}", source="n.md")
    raw.send(request("load_memory", {"name": added.handle}))
    line = raw.line().decode()
    assert len(line.splitlines()) == 1
    assert json.loads(line)["result"]["structuredContent"]["text"] == f"ports: {ends}"


# -------------------------------------------------------------------------------------------- HTTP


@pytest.fixture(scope="module")
def address(env: dict[str, str]) -> Iterator[Address]:
    with over_http(env=env, token="correct-horse-battery") as address:
        yield address


def post(address: Address, body: bytes, method: str = "POST", **headers: str) -> tuple[int, bytes]:
    """Send one request; a header is left out where it is ""."""
    with opened(address, method, body, **headers) as response:
        return response.status, response.read()


@contextmanager
def opened(
    address: Address, method: str, body: bytes = b"", **headers: str
) -> Iterator[http.client.HTTPResponse]:
    """Send one request, and close the connection afterwards."""
    usual = {
        "Host": f"127.0.0.1:{address.port}",
        "Authorization": f"Bearer {address.token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
    try:
        connection.putrequest(method, "/mcp", skip_host=True, skip_accept_encoding=True)
        for name, value in {"Content-Length": str(len(body)), **usual, **headers}.items():
            if value:
                connection.putheader(name, value)
        connection.endheaders(body)
        yield connection.getresponse()
    finally:
        connection.close()


def test_only_a_client_with_the_token_is_served(address: Address) -> None:
    body = json.dumps(INITIALIZE).encode()
    assert post(address, body)[0] == 200
    for wrong in ("", "Bearer", "Bearer ", "Bearer x", f"Basic {address.token}", address.token):
        status, said = post(address, body, Authorization=wrong)
        assert (status, address.token.encode() in said) == (401, False)
        assert b"Authorization: Bearer TOKEN" in said


def test_only_loopback_may_be_the_host_or_the_origin(address: Address) -> None:
    body = json.dumps(INITIALIZE).encode()
    port = address.port
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1:{port + 1}", "127.0.0.1"):
        assert post(address, body, Host=host)[0] == 421
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{port}.evil.example"):
        assert post(address, body, Origin=origin)[0] == 403
    assert (
        post(address, body, Host=f"localhost:{port}", Origin=f"http://localhost:{port}")[0] == 200
    )


def test_what_is_no_message_is_refused(address: Address) -> None:
    status, said = post(address, b"nonsense")
    assert (status, json.loads(said)["error"]["code"]) == (400, -32700)
    status, said = post(address, b'{"jsonrpc": "2.0"}')
    assert status == 400 and "error" in json.loads(said)
    assert post(address, b"{}", **{"Content-Type": "text/plain"})[0] in (400, 415)
    too_large = str(MAX_BODY_BYTES + 1)
    assert post(address, b"", **{"Content-Length": too_large})[0] == 413
    assert post(address, json.dumps(INITIALIZE).encode())[0] == 200


def test_an_error_that_answers_no_request_has_no_id(address: Address) -> None:
    ping = json.dumps(PING).encode()
    nobody = {"Mcp-Session-Id": "nobody"}
    for status, said in (
        post(address, ping),
        post(address, ping, **nobody),
        post(address, b"nonsense"),
        post(address, b"[" * 100_000),
        post(address, b"", "DELETE"),
        post(address, b"", "DELETE", **nobody),
        post(address, b"", "GET"),
        post(address, b"", "PUT"),
        post(address, json.dumps(INITIALIZE).encode(), Accept="text/plain"),
    ):
        assert 400 <= status < 500
        assert json.loads(said).keys() == {"jsonrpc", "error"}


def test_a_stream_that_cannot_be_resumed_begins_again(address: Address) -> None:
    with opened(address, "POST", json.dumps(INITIALIZE).encode()) as response:
        session = response.getheader("Mcp-Session-Id") or ""
        response.read()
    headers = {"Mcp-Session-Id": session, "Last-Event-Id": "42"}
    with opened(address, "GET", **headers) as response:
        assert response.status == 200
        assert response.getheader("Content-Type", "").startswith("text/event-stream")
    assert post(address, b"", "DELETE", **{"Mcp-Session-Id": session})[0] == 200
    assert post(address, json.dumps(PING).encode(), **{"Mcp-Session-Id": session})[0] == 404
