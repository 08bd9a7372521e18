"""mcp_tools: the tools of real servers of the SDK, in memory and over stdio, and odd ones."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import mcp
import pytest
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError as ServersToolError
from mcp.shared.memory import create_client_server_memory_streams

from rehydrate.agent import mcp_tools
from rehydrate.agent.mcp import MAX_NAME_CHARS
from rehydrate.agent.tool_calls import ToolResult, ToolRunner, run_tool
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.calls import ToolCall

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


def harbour() -> Any:
    server = MCPServer("harbour", log_level="CRITICAL")

    @server.tool()
    def berths(quay: str, free_only: bool = True) -> list[int]:
        """The numbers of the berths at a quay."""
        return [4, 7] if free_only else [4, 5, 7]

    @server.tool()
    def ship(name: str) -> dict[str, int]:
        """Look up a ship."""
        return {"length_m": 90}

    @server.tool()
    def greet(self: str, name: str, call: str) -> str:
        """A greeting; its parameters are named as badly as can be."""
        return f"{self} {name} {call}"

    @server.tool()
    def sink() -> str:
        """Always fails."""
        raise ServersToolError("no such quay")

    @server.tool()
    def chart() -> Image:
        """A picture."""
        return Image(data=b"\x89PNG" * 10, format="png")

    @server.tool()
    async def wait() -> str:
        """Does not come back."""
        await anyio.sleep_forever()
        return "never"

    return server


@asynccontextmanager
async def session_with(server: Any):
    """A ClientSession and a server, joined by memory streams."""
    low = getattr(server, "_lowlevel_server", server)
    async with (
        create_client_server_memory_streams() as (ours, theirs),
        anyio.create_task_group() as group,
    ):
        group.start_soon(low.run, *theirs, low.create_initialization_options())
        async with mcp.ClientSession(*ours) as session:
            await session.initialize()
            yield session
        group.cancel_scope.cancel()


async def ask(tools: list[Any], name: str, arguments: Any = None) -> ToolResult:
    """Run a call as the interpreter does."""
    call = ToolCall("anthropic", "toolu_1", name, arguments or {})
    return await run_tool({tool.name: tool for tool in tools}, call, 20, ToolRunner())


async def test_the_tools_of_a_server_have_its_names_descriptions_and_schemas() -> None:
    async with session_with(harbour()) as session:
        tools = {tool.name: tool for tool in await mcp_tools(session)}
    assert sorted(tools) == ["berths", "chart", "greet", "ship", "sink", "wait"]
    assert tools["berths"].description == "The numbers of the berths at a quay."
    assert tools["berths"].schema["required"] == ["quay"]
    assert tools["berths"].definition.name == "berths"
    assert tools["berths"].is_async


@pytest.mark.parametrize(
    ("name", "arguments", "content"),
    [
        ("berths", {"quay": "A"}, "4\n7"),
        ("berths", {"quay": "A", "free_only": False}, "4\n5\n7"),
        ("ship", {"name": "Vega"}, '{\n  "length_m": 90\n}'),
        ("greet", {"self": "a", "name": "b", "call": "c"}, "a b c"),
        ("chart", {}, "[image: image/png, 40 bytes; not shown]"),
    ],
)
async def test_a_result_is_its_text_and_what_is_structured_is_said_once(
    name: str, arguments: dict[str, Any], content: str
) -> None:
    async with session_with(harbour()) as session:
        answer = await ask(await mcp_tools(session), name, arguments)
    assert (answer.content, answer.is_error) == (content, False)


async def test_an_error_of_the_tool_is_an_error_result_in_the_servers_words() -> None:
    async with session_with(harbour()) as session:
        tools = await mcp_tools(session)
        failed = await ask(tools, "sink")
        refused = await ask(tools, "berths", {"pier": 7})
        assert (await ask(tools, "berths", {"quay": "A"})).content == "4\n7"  # it goes on
    assert failed.is_error
    assert "no such quay" in failed.content
    assert refused.is_error
    assert "quay" in refused.content
    assert refused.provider_result["is_error"] is True


async def test_a_call_that_takes_too_long_ends_at_its_time() -> None:
    async with session_with(harbour()) as session:
        tools = await mcp_tools(session, timeout=0.05)
        answer = await ask(tools, "wait")
        assert answer.is_error
        assert "took longer than 0.05 s" in answer.content
        unhurried = await mcp_tools(session)
        assert not (await ask(unhurried, "ship", {"name": "Vega"})).is_error


async def test_a_session_that_is_over_gives_error_results() -> None:
    async with session_with(harbour()) as session:
        tools = await mcp_tools(session)
    answer = await ask(tools, "berths", {"quay": "A"})
    assert answer.is_error
    assert "the MCP server is not connected any more" in answer.content


async def test_the_sdks_client_serves_as_well_as_its_session() -> None:
    async with mcp.Client(harbour()) as client:
        answer = await ask(await mcp_tools(client), "ship", {"name": "Vega"})
    assert answer.content == '{\n  "length_m": 90\n}'


async def test_a_prefix_goes_before_every_name_and_only_some_are_taken() -> None:
    async with session_with(harbour()) as session:
        tools = await mcp_tools(session, prefix="harbour_", only=["ship", "berths"])
        assert sorted(tool.name for tool in tools) == ["harbour_berths", "harbour_ship"]
        assert not (await ask(tools, "harbour_ship", {"name": "Vega"})).is_error
        with pytest.raises(
            InvalidArgumentError, match="only names 'crane'; the server's tools are"
        ):
            await mcp_tools(session, only="crane")
        assert await mcp_tools(session, only=[]) == []


SERVER = """
import os
from mcp.server.mcpserver import MCPServer

server = MCPServer("quay", log_level="CRITICAL")

@server.tool()
def echo(text: str) -> str:
    return text

@server.tool()
def die() -> str:
    os._exit(3)

server.run("stdio")
"""


async def test_a_server_over_stdio_answers_until_it_dies_and_then_every_call_is_an_error(
    tmp_path: Path,
) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    parameters = mcp.StdioServerParameters(command=sys.executable, args=[str(script)])
    async with (
        mcp.stdio_client(parameters) as streams,
        mcp.ClientSession(*streams) as session,
    ):
        await session.initialize()
        tools = await mcp_tools(session)
        assert (await ask(tools, "echo", {"text": "Ahoi, Käpt’n"})).content == "Ahoi, Käpt’n"
        for name, arguments in (("die", {}), ("echo", {"text": "still there?"})):
            answer = await ask(tools, name, arguments)
            assert answer.is_error
            assert "the MCP server is not connected any more" in answer.content


class Paged:
    """A server of the low-level kind: pages, odd names, every kind of content."""

    def __init__(self, names: list[list[str]], result: Any = None, cursor_for: Any = None) -> None:
        self.names, self.result, self.calls = names, result, []
        self.cursor_for = cursor_for or (lambda page: str(page + 1))

    def server(self) -> Any:
        async def list_tools(_: Any, params: Any) -> Any:
            page = int((params and params.cursor) or 0)
            return types.ListToolsResult(
                tools=[
                    types.Tool(name=name, title="T", input_schema={"type": "object"})
                    for name in self.names[page]
                ],
                next_cursor=self.cursor_for(page) if page + 1 < len(self.names) else None,
            )

        async def call_tool(_: Any, params: Any) -> Any:
            self.calls.append((params.name, params.arguments))
            if isinstance(self.result, Exception):
                raise self.result
            return self.result

        return Server("paged", on_list_tools=list_tools, on_call_tool=call_tool)


async def test_all_pages_of_a_listing_are_read() -> None:
    async with session_with(Paged([["a", "b"], ["c"], ["d"]]).server()) as session:
        assert [tool.name for tool in await mcp_tools(session)] == ["a", "b", "c", "d"]
    async with mcp.Client(Paged([["a"], ["b"]]).server()) as client:
        assert [tool.name for tool in await mcp_tools(client)] == ["a", "b"]


async def test_a_listing_that_never_ends_is_ended() -> None:
    server = Paged([["a"], ["b"]], cursor_for=lambda page: "0").server()
    async with session_with(server) as session:
        assert {tool.name for tool in await mcp_tools(session)} == {"a", "a_2"}


async def test_names_that_a_provider_refuses_are_changed_and_called_by_their_own() -> None:
    long = "x" * 120
    text = types.CallToolResult(content=[types.TextContent(text="ok")])
    paged = Paged([["files/read.text", "files_read_text", "größe", long, long + "y"]], text)
    async with session_with(paged.server()) as session:
        tools = await mcp_tools(session, prefix="s_")
        names = [tool.name for tool in tools]
        assert names[:2] == ["s_files_read_text", "s_files_read_text_2"]
        assert names[2] == "s_gr__e"
        assert [len(name) for name in names[3:]] == [MAX_NAME_CHARS, MAX_NAME_CHARS]
        assert len(set(names)) == len(names)
        assert tools[0].description == "T"
        assert (await ask(tools, names[0], {"path": "a"})).content == "ok"
    assert paged.calls == [("files/read.text", {"path": "a"})]


@pytest.mark.parametrize(
    ("content", "structured", "expected"),
    [
        ([], None, "(nothing returned)"),
        ([], {"berth": 4}, '{"berth":4}'),
        (["Berth 4 is free."], {"berth": 4}, 'Berth 4 is free.\n{"berth":4}'),
        (['{"berth": 4}'], {"berth": 4}, '{"berth": 4}'),
        (["4"], {"result": 4}, "4"),
        (["4"], {"result": "4"}, "4"),
        (["4", "7"], {"result": [4, 7]}, "4\n7"),
        (["4", "7"], {"result": [4, 8]}, '4\n7\n{"result":[4,8]}'),
        ([{"type": "audio", "data": "QUJD", "mimeType": "audio/wav"}], None, "3 bytes; not shown]"),
        (
            [{"type": "resource_link", "uri": "file:///chart.pdf", "name": "chart"}],
            None,
            "[resource link file:///chart.pdf chart: resource_link; not shown]",
        ),
        (
            [{"type": "resource", "resource": {"uri": "file:///a.txt", "text": "tide tables"}}],
            None,
            "[file:///a.txt]\ntide tables",
        ),
        (
            [
                {
                    "type": "resource",
                    "resource": {"uri": "file:///a.bin", "blob": "QQ==", "mimeType": "x/y"},
                }
            ],
            None,
            "[resource file:///a.bin: x/y, 1 bytes; not shown]",
        ),
    ],
)
async def test_every_kind_of_content_is_said_in_text(
    content: list[Any], structured: Any, expected: str
) -> None:
    blocks = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content]
    result = types.CallToolResult.model_validate(
        {"content": blocks, "structuredContent": structured}
    )
    async with session_with(Paged([["a"]], result).server()) as session:
        answer = await ask(await mcp_tools(session), "a")
    assert not answer.is_error
    assert answer.content.endswith(expected)


async def test_an_error_of_the_protocol_is_reported_in_the_servers_words() -> None:
    error = mcp.MCPError(-32000, "the crane is out of order")
    async with session_with(Paged([["a"]], error).server()) as session:
        answer = await ask(await mcp_tools(session), "a")
    assert (answer.content, answer.is_error) == ("the crane is out of order", True)


async def test_an_error_without_words_says_that_it_has_none() -> None:
    result = types.CallToolResult(content=[], is_error=True)
    async with session_with(Paged([["a"]], result).server()) as session:
        answer = await ask(await mcp_tools(session), "a")
    assert (answer.content, answer.is_error) == ("a failed, and the server does not say why", True)


async def test_a_session_of_the_older_sdk_serves_too() -> None:
    """Its fields are in camel case, and its listing takes the cursor itself."""

    class Old:
        async def list_tools(self, cursor: str | None = None) -> Any:
            tool = SimpleNamespace(
                name=f"t{cursor or 0}", description=None, inputSchema={"type": "object", "x": 1}
            )
            return SimpleNamespace(tools=[tool], nextCursor=None if cursor else "1")

        async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
            block = SimpleNamespace(type="text", text=f"{name} {arguments}")
            return SimpleNamespace(content=[block], structuredContent=None, isError=True)

    tools = await mcp_tools(Old())
    assert [tool.name for tool in tools] == ["t0", "t1"]
    assert tools[0].schema["x"] == 1
    answer = await ask(tools, "t1", {"a": 1})
    assert (answer.content, answer.is_error) == ("t1 {'a': 1}", True)


async def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="pass a connected mcp"):
        await mcp_tools("http://localhost")
