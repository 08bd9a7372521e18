"""Each message of `rehydrate mcp`, as it is on the wire, by the protocol's published schema.

The SDK ships the schema as models, a set for each era, and itself reads with lenient ones. Here
they are made strict: no field that the schema has not, and no null where it has none.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the MCP server needs the extra rehydrate[mcp]")

from jsonschema import Draft202012Validator, ValidationError
from mcp.types.methods import SERVER_NOTIFICATIONS, SERVER_RESULTS
from mcp.types.version import KNOWN_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from rehydrate import Context, Memory
from rehydrate.context import Threads
from rehydrate.integrations.mcp_server.tools import TOOLS
from tests.integrations.served import COMMAND, LOGIN, machine, write_sessions
from tests.sizes import PATIENCE_SECONDS, sized

ID = {"type": ["string", "integer"]}
RESULT = {
    "type": "object",
    "properties": {"jsonrpc": {"const": "2.0"}, "id": ID, "result": {"type": "object"}},
    "required": ["jsonrpc", "id", "result"],
    "additionalProperties": False,
}
ERROR = {
    "type": "object",
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": ID,
        "error": {
            "type": "object",
            "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "data": {}},
            "required": ["code", "message"],
            "additionalProperties": False,
        },
    },
    "required": ["jsonrpc", "error"],
    "additionalProperties": False,
}
OPEN = {"inputSchema", "outputSchema", "InputSchema", "OutputSchema"}
"""They are schemas themselves: any keyword may be there."""


def closed(schema: Any, name: str = "") -> Any:
    """Return a schema without unknown fields and without null for fields that may be missing."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value, key) for key, value in schema.items()}
    fields = made.get("properties")
    if not isinstance(fields, dict) or name == "properties":
        return made
    if name not in OPEN:
        made.setdefault("additionalProperties", False)
    for field, its in fields.items():
        if field not in made.get("required", ()) and "anyOf" in its:
            its["anyOf"] = [each for each in its["anyOf"] if each != {"type": "null"}]
    return made


@cache
def strict(kind: Any) -> Draft202012Validator:
    return Draft202012Validator(closed(TypeAdapter(kind).json_schema(by_alias=True)))


def check(message: dict[str, Any], method: str, version: str) -> None:
    """Raise jsonschema's ValidationError for what the schema of this version has not."""
    if "method" in message:
        strict(SERVER_NOTIFICATIONS[message["method"], version]).validate(message)
    elif "error" in message:
        Draft202012Validator(ERROR).validate(message)
    else:
        Draft202012Validator(RESULT).validate(message)
        strict(SERVER_RESULTS[method, version]).validate(message["result"])


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    write_sessions(tmp_path)
    with Threads.open(tmp_path / "threads.db", namespace="alice") as threads:
        said = {"role": "user", "content": "Staging listens on port 8443."}
        Context(threads=threads, thread="t").add(said)
    with Memory.open(tmp_path / "memory.db", namespace="alice") as memory:
        memory.add("Deploys go out on Tuesdays.", source="notes/decisions.md")
    return [
        *("--memory", str(tmp_path / "memory.db")),
        *("--threads", str(tmp_path / "threads.db")),
        *("--namespace", "alice"),
    ]


Ask = Callable[..., dict[str, Any]]


VERSIONS = KNOWN_PROTOCOL_VERSIONS


@pytest.fixture(params=sized([VERSIONS[0], *VERSIONS[-2:]], VERSIONS))
def ask(request: pytest.FixtureRequest, options: list[str], tmp_path: Path) -> Iterator[Ask]:
    """Sends a request in one version, and checks all messages up to its answer."""
    version = request.param
    is_modern = version in MODERN_PROTOCOL_VERSIONS
    info = {"name": "strict", "version": "1"}
    prefix = "io.modelcontextprotocol/"
    envelope = {
        f"{prefix}protocolVersion": version,
        f"{prefix}clientInfo": info,
        f"{prefix}clientCapabilities": {},
    }
    with subprocess.Popen(
        [*COMMAND, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **machine(tmp_path)},
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def send(message: object) -> None:
            stdin.write(f"{json.dumps(message)}\n")
            stdin.flush()

        def ask(method: str, /, **params: Any) -> dict[str, Any]:
            meta = {"progressToken": "p", **(envelope if is_modern else {})}
            params = params if method == "initialize" else {**params, "_meta": meta}
            send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            while "method" in (message := json.loads(stdout.readline())):
                check(message, "", version)
            check(message, method, version)
            return message

        if is_modern:
            found = ask("server/discover")
            assert version in found["result"]["supportedVersions"]
        else:
            found = ask("initialize", protocolVersion=version, capabilities={}, clientInfo=info)
            assert found["result"]["protocolVersion"] == version
            send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            ask("ping")
        yield ask
        stdin.close()
        assert process.wait(timeout=PATIENCE_SECONDS) == 0


ARGUMENTS: dict[str, dict[str, Any]] = {
    "compact_context": {"messages": [{"role": "user", "content": "Which berth is free?"}]},
    "request_context": {"thread": "t", "query": "port of staging"},
    "fetch_whole": {"thread": "t", "handle": "#0"},
    "search_memory": {"query": "deploys"},
    "add_memory": {"text": "The pilot is Ada."},
    "load_memory": {"name": "decisions.md"},
    "search_sessions": {"query": "login"},
    "session_outline": {"session": LOGIN},
}


def test_every_message_is_valid_in_every_version(ask: Ask) -> None:
    for tool in TOOLS:
        found = ask("tools/call", name=tool, arguments=ARGUMENTS[tool])
        assert not found["result"]["isError"], found
        assert ask("tools/call", name=tool, arguments={"wrong": 1})["result"]["isError"]
    assert len(ask("tools/list")["result"]["tools"]) == len(TOOLS)
    assert ask("resources/templates/list")["result"]["resourceTemplates"]
    (thread,) = ask("resources/list")["result"]["resources"]
    assert "8443" in ask("resources/read", uri=thread["uri"])["result"]["contents"][0]["text"]
    for method, params in {
        "tools/call": {"name": "nothing"},
        "tools/list ": {},
        "resources/read": {"uri": "rehydrate://nothing"},
        "resources/list": {"cursor": "x"},
        "resources/subscribe": {"uri": thread["uri"]},
        "prompts/list": {},
        "logging/setLevel": {"level": "debug"},
    }.items():
        assert "error" in ask(method, **params), method


@pytest.mark.parametrize(
    "wrong",
    [
        {"tools": [{"name": "a", "inputSchema": {"type": "object"}, "note": 1}]},
        {"tools": [{"name": "a", "inputSchema": {"type": "object"}, "title": None}]},
        {"tools": [{"name": "a", "inputSchema": {"type": "string"}}]},
        {"tools": [], "nextCursor": None},
        {"tools": [], "more": 1},
        {},
    ],
)
def test_the_check_finds_what_the_schema_has_not(wrong: dict[str, Any]) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "result": wrong}
    with pytest.raises(ValidationError):
        check(message, "tools/list", "2025-11-25")
