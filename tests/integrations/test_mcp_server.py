"""`rehydrate mcp` and the official client: each tool and resource, over stdio and HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the MCP server needs the extra rehydrate[mcp]")

from jsonschema import Draft202012Validator

from rehydrate import Context, Memory
from rehydrate.context import Threads
from rehydrate.integrations.mcp_server.tools import TOOLS
from tests.integrations.served import (
    LOGIN,
    RELEASE,
    connected,
    connected_here,
    machine,
    write_sessions,
)
from tests.sizes import sized

pytestmark = pytest.mark.anyio
CONNECTIONS = sized(
    [("stdio", "auto"), ("http", "legacy")],
    [(transport, mode) for transport in ("stdio", "http") for mode in ("auto", "legacy")],
)
TALK = [
    message
    for turn in range(12)
    for message in (
        {"role": "user", "content": f"Question {turn}: what about the parser of dates?"},
        {"role": "assistant", "content": f"Answer {turn}: it takes 4{turn}7 formats. " * 4},
    )
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    write_sessions(tmp_path)
    return machine(tmp_path)


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    """A memory, and a thread with a long result whose middle nothing else says."""
    threads = tmp_path / "threads.db"
    log = "\n".join(f"line {number}: berth {number} is swept" for number in range(3_000))
    with Threads.open(threads, namespace="alice") as stored:
        context = Context(threads=stored, thread="ships/t 42")
        context.add(
            {"role": "user", "content": "Staging listens on port 8443."},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "log", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": log}],
            },
            {"role": "assistant", "content": "All berths are swept."},
        )
    with Memory.open(tmp_path / "memory.db", namespace="alice") as memory:
        memory.add("Deploys go out on Tuesdays.", source="notes/decisions.md", kind="decision")
    return [
        *("--memory", str(tmp_path / "memory.db")),
        *("--threads", str(threads)),
        *("--namespace", "alice"),
    ]


async def call(client: Any, tool: str, /, **arguments: Any) -> Any:
    """Call a tool; return its object, or its text where it is an error."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    if result.is_error:
        assert result.structured_content is None
        return content.text
    structured = result.structured_content
    Draft202012Validator(TOOLS[tool].output_schema).validate(structured)
    assert content.text == structured.get("text", content.text)
    if "text" not in structured:
        assert json.loads(content.text) == structured
    return structured


async def test_each_tool_is_described_with_schemas_and_what_it_may_do(
    env: dict[str, str],
) -> None:
    async with connected_here(environ=env) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert client.server_info.name == "rehydrate"
    assert [*listed] == [*TOOLS]
    for tool in listed.values():
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        assert tool.title and tool.description
        assert tool.annotations.destructive_hint is False
        assert tool.annotations.open_world_hint is False
    writing = [name for name, tool in listed.items() if not tool.annotations.read_only_hint]
    assert writing == ["compact_context", "add_memory"]


@pytest.mark.parametrize(("transport", "mode"), CONNECTIONS)
async def test_the_official_client_talks_to_every_tool_and_reads_every_resource(
    transport: str, mode: str, env: dict[str, str], options: list[str]
) -> None:
    async with connected(transport, *options, env=env, mode=mode) as client:
        await _calls_every_tool(client, reports=mode == "legacy")
        await _reads_every_resource(client)


async def _calls_every_tool(client: Any, *, reports: bool) -> None:
    compacted = await call(client, "compact_context", messages=TALK, budget_tokens=300)
    assert 0 < len(compacted["messages"]) < len(TALK)
    assert all(message in TALK for message in compacted["messages"])

    found = await call(client, "request_context", thread="ships/t 42", query="staging port")
    assert "Staging listens on port 8443." in found["text"]
    again = await call(client, "request_context", thread="ships/t 42", query="staging port")
    assert again == found

    part = await call(client, "fetch_whole", thread="ships/t 42", handle="#1", lines="2-3")
    assert "line 0: berth 0 is swept" in part["text"]
    looked = await call(client, "fetch_whole", thread="ships/t 42", handle="#1", query="berth 2718")
    assert "line 2718: berth 2718 is swept" in looked["text"]

    added = await call(client, "add_memory", text="The pilot is Ada. password=hunter2-hunter2")
    assert (added["created"], added["redacted"]) == (True, ["password"])
    hits = (await call(client, "search_memory", query="who is the pilot?", limit=1))["hits"]
    assert [hit["handle"] for hit in hits] == [added["handle"]]
    assert "hunter2" not in hits[0]["snippet"] and hits[0]["trust"] < 1
    loaded = await call(client, "load_memory", name="decisions.md")
    assert loaded["text"] == "Deploys go out on Tuesdays."

    steps: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    await client.call_tool("search_sessions", {}, progress_callback=note)
    if reports:
        assert {message for _, _, message in steps} == {LOGIN, RELEASE}
        assert 0 < steps[0][0] < steps[1][0] <= (steps[1][1] or 0)
    sessions = await call(client, "search_sessions", query="the session where we fixed the login")
    assert sessions["sessions"][0]["session"] == LOGIN
    assert sessions["unread_files"] == 0
    outline = await call(client, "session_outline", session=LOGIN[:12])
    assert outline["names"]["Edit"] == ["src/login.py"]
    assert [turn["text"].partition(".")[0] for turn in outline["user_turns"]] == [
        "The login fails for guests, fix it"
    ]
    assert "hunter2" not in json.dumps([sessions, outline])
    codex = await call(client, "session_outline", session=RELEASE)
    assert "v4.2" in json.dumps(codex["names"])


async def _reads_every_resource(client: Any) -> None:
    (thread,) = (await client.list_resources()).resources
    assert (thread.name, thread.uri) == ("ships/t 42", "rehydrate://thread/ships%2Ft%2042")
    templates = (await client.list_resource_templates()).resource_templates
    assert len(templates) == 3
    text = (await client.read_resource(thread.uri)).contents[0].text
    assert "#0 user: Staging listens on port 8443." in text
    handle = "rehydrate://handle/ships%2Ft%2042/%230"
    (content,) = (await client.read_resource(handle)).contents
    assert content.text == "user: Staging listens on port 8443."
    added = await call(client, "add_memory", text="Berth 4 is ours.")
    (item,) = (await client.read_resource(f"rehydrate://handle/{added['handle']}")).contents
    assert item.text == "Berth 4 is ours."


async def test_a_tool_without_its_store_says_how_to_configure_it() -> None:
    threads, memory = "rehydrate mcp --threads FILE", "rehydrate mcp --memory FILE --namespace NAME"
    async with connected_here(has_sessions=False) as client:
        for tool, arguments, said in (
            ("request_context", {"thread": "t", "query": "x"}, threads),
            ("fetch_whole", {"thread": "t", "handle": "#1"}, threads),
            ("search_memory", {"query": "x"}, memory),
            ("add_memory", {"text": "x"}, memory),
            ("load_memory", {"query": "x"}, memory),
            ("search_sessions", {}, "--no-sessions"),
            ("session_outline", {"session": LOGIN}, "--no-sessions"),
        ):
            assert said in await call(client, tool, **arguments)
        assert (await client.list_resources()).resources == []


async def test_a_file_of_threads_may_come_later(tmp_path: Path) -> None:
    file = tmp_path / "later.db"
    async with connected_here(threads=file, namespace="alice") as client:
        said = await call(client, "request_context", thread="t", query="port")
        assert "is not there yet" in said
        assert (await client.list_resources()).resources == []
        with Threads.open(file, namespace="alice") as threads:
            context = Context(threads=threads, thread="t")
            said = {"role": "user", "content": "Staging listens on port 8443."}
            context.add(said, {"role": "assistant", "content": "Noted."})
            found = await call(client, "request_context", thread="t", query="staging port")
            assert "8443" in found["text"]
            context.add({"role": "user", "content": "Production listens on port 443."})
            found = await call(client, "request_context", thread="t", query="production port")
            assert "Production listens on port 443." in found["text"]
        said = await call(client, "request_context", query="port")
        assert said == "request_context: thread is missing; send one of 't'"


async def test_only_the_named_tools_are_offered(env: dict[str, str]) -> None:
    from mcp import MCPError

    named = ("--tools", "search_sessions", "--no-sessions")
    async with connected("stdio", *named, env=env) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search_sessions"]
        with pytest.raises(MCPError, match="no tool 'add_memory'; there are search_sessions"):
            await client.call_tool("add_memory", {"text": "x"})
        assert "--no-sessions" in await call(client, "search_sessions")
