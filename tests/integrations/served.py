"""`rehydrate mcp` as a process, over either transport, and transcripts for it to read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tests.sizes import PATIENCE_SECONDS

COMMAND = [sys.executable, "-m", "rehydrate", "mcp"]
LOGIN = "11111111-aaaa-4bbb-8ccc-000000000001"
RELEASE = "0199a213-81c0-7800-8aa1-bbab2a035a53"


def machine(folder: Path) -> dict[str, str]:
    """The environment of a machine whose home is this folder."""
    return {
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(folder / "claude"),
        "CODEX_HOME": str(folder / "codex"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "PYTHONUTF8": "1",
    }


def write_lines(path: Path, lines: Iterable[object]) -> Path:
    """Write a transcript; texts are lines as they are, anything else is JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join([f"{text}\n" for text in texts]), encoding="utf-8")
    return path


def claude_line(role: str, content: object, time: str, **more: object) -> dict[str, Any]:
    message = {"role": role, "content": content}
    return {"type": role, "timestamp": time, "cwd": "/work/app", "message": message, **more}


def write_sessions(folder: Path) -> tuple[Path, Path]:
    """Write a session of Claude Code and one of Codex, each with what is broken in it."""
    edit = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"path": "src/login.py"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "done in checkLogin"}
    claude = write_lines(
        folder / "claude" / "projects" / "-work-app" / f"{LOGIN}.jsonl",
        [
            {"type": "file-history-snapshot", "snapshot": {}},
            "{this isn't JSON",
            "[1, 2]",
            claude_line(
                "user",
                "The login fails for guests, fix it. password=hunter2-hunter2",
                "2026-02-17T09:30:00Z",
            ),
            claude_line("user", 7, "2026-02-17T09:30:30Z"),
            claude_line(
                "assistant",
                [{"type": "text", "text": "The session cookie is dropped."}, edit],
                "2026-02-17T09:31:00Z",
            ),
            claude_line("user", [result], "2026-02-17T09:32:00Z"),
            '{"type":"assistant","message":{"role":"assistant","content":"cut o',
        ],
    )
    claude.write_bytes(claude.read_bytes().removesuffix(b"\n"))  # the agent is still writing
    said = {"role": "user", "content": [{"type": "input_text", "text": "Cut the release 4.2."}]}
    harness = {"role": "user", "content": "<environment_context>x</environment_context>"}
    items = [
        {"type": "message", **harness},
        {"type": "message", **said},
        {
            "type": "function_call",
            "name": "shell",
            "call_id": "c1",
            "arguments": '{"command": "git tag v4.2"}',
        },
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "The changelog is written."}],
        },
    ]
    codex = write_lines(
        folder / "codex/sessions/2026/03/01" / f"rollout-2026-03-01T10-00-00-{RELEASE}.jsonl",
        [
            {"type": "session_meta", "payload": {"id": RELEASE, "cwd": "/work/engine"}},
            *(
                {"timestamp": "2026-03-01T10:00:00Z", "type": "response_item", "payload": item}
                for item in items
            ),
            {"type": "event_msg", "payload": {"type": "user_message", "message": "Cut it."}},
        ],
    )
    return claude, codex


class Address(NamedTuple):
    """Of a server over HTTP."""

    url: str
    token: str

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])


@contextmanager
def over_http(*options: str, env: Mapping[str, str], token: str = "") -> Iterator[Address]:
    """Start the server on a free port."""
    given = {"REHYDRATE_MCP_TOKEN": token} if token else {}
    with subprocess.Popen(
        [*COMMAND, "--http", "0", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**os.environ, **env, **given},
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("url: ").strip()
            shown = process.stdout.readline().strip()
            assert not token or token not in shown
            yield Address(url, token or shown.removeprefix("token: "))
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_SECONDS)


@asynccontextmanager
async def connected_here(
    names: Collection[str] | None = None, **options: Any
) -> AsyncIterator[Any]:
    """The official client, connected to a server in this process; `options` are of `Stores`."""
    server = import_module("rehydrate.integrations.mcp_server.server")
    from mcp import Client

    from rehydrate.integrations.mcp_server.stores import Stores

    stores = Stores(**options)
    try:
        made = server.make_server(stores, *([] if names is None else [names]))
        async with Client(made, mode="legacy") as client:
            yield client
    finally:
        stores.close()


@asynccontextmanager
async def connected(
    transport: str, *options: str, env: Mapping[str, str], mode: str = "auto"
) -> AsyncIterator[Any]:
    """The official client, connected to a process."""
    import_module("rehydrate.integrations.mcp_server")  # raises where it is not installed
    from mcp import Client, StdioServerParameters

    if transport == "stdio":
        server = StdioServerParameters(
            command=COMMAND[0], args=[*COMMAND[1:], *options], env=dict(env)
        )
        async with Client(server, mode=mode) as client:
            yield client
        return
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    with over_http(*options, env=env) as address:
        headers = {"Authorization": f"Bearer {address.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(address.url, http_client=http), mode=mode) as client,
        ):
            yield client
