"""mcp_tools: the tools of a connected MCP server as tools of an `Interpreter`."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from rehydrate._text import failure_text, result_text
from rehydrate.agent.tools import Tool, ToolError
from rehydrate.errors import InvalidArgumentError

MAX_NAME_CHARS = 64
"""OpenAI's limit for a tool's name; Anthropic's is 128. Both accept letters, digits, _
and -."""
MAX_TOOLS = 10_000
"""The listing stops here: a server with more pages than this is broken."""

_CONNECTION_CLOSED = -32000
"""The SDK's error code for calls that are open or sent after the connection has closed."""
_CLOSED_ERRORS = ("ClosedResourceError", "BrokenResourceError", "EndOfStream")
"""Exceptions of anyio that some transports raise for a closed connection."""


async def mcp_tools(
    session: Any,
    *,
    prefix: str = "",
    only: Iterable[str] | None = None,
    timeout: float | None = None,
) -> list[Tool]:
    """List the tools of an MCP server once, and return them.

    ``session`` is the SDK's `mcp.ClientSession`, initialized, or its `mcp.Client`. Keep it open
    while the tools are used. ``prefix`` goes before each name, so that tools of two servers do not
    collide. ``only`` selects tools by the server's names; None is all, an empty list is none.
    ``timeout`` is in seconds for one call.
    Characters that a provider refuses in a name (``files/read.text``) become ``_``.

    The model reads the texts of a result, and its structured content unless a text holds the same.
    For an image, a sound or a file it reads a line that names it. If a call fails, also because the
    server has gone, the result is an error. Raises what the session raises if the tools cannot be
    listed, and InvalidArgumentError for a name in ``only`` that no tool has.

        async with Client(server) as client:
            interpreter = Interpreter(model, tools=await mcp_tools(client, prefix="harbour_"))
    """
    if not callable(getattr(session, "list_tools", None)):
        raise InvalidArgumentError(
            f"session is of type {type(session).__name__}; pass a connected mcp.ClientSession"
        )
    listed = await _list_tools(session)
    selected = {only} if isinstance(only, str) else set(only or ())
    if missing := selected - {tool.name for tool in listed}:
        names = ", ".join(sorted(tool.name for tool in listed)) or "none"
        raise InvalidArgumentError(
            f"only names {', '.join(map(repr, sorted(missing)))}; the server's tools are: {names}"
        )
    tools: dict[str, Tool] = {}
    for tool in listed:
        if only is None or tool.name in selected:
            name = _unused_name(prefix + tool.name, tools)
            schema = _first_of(tool, "input_schema", "inputSchema") or {"type": "object"}
            description = tool.description or _first_of(tool, "title") or ""
            tools[name] = Tool(name, description, schema, _caller(session, tool.name), timeout)
    return list(tools.values())


async def _list_tools(session: Any) -> list[Any]:
    """Return the tools of all pages."""
    tools: list[Any] = []
    page = await session.list_tools()
    cursors: set[Any] = set()
    while True:
        tools.extend(page.tools)
        cursor = _first_of(page, "next_cursor", "nextCursor")
        if cursor is None or cursor in cursors or len(tools) > MAX_TOOLS:
            return tools
        cursors.add(cursor)
        # The Client takes a cursor, and so did the session until version 1.
        if "cursor" in inspect.signature(session.list_tools).parameters:
            page = await session.list_tools(cursor=cursor)
        else:
            from mcp.types import PaginatedRequestParams

            page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))


def _caller(session: Any, name: str) -> Callable[..., Awaitable[str]]:
    async def call(**arguments: Any) -> str:
        try:
            result = await session.call_tool(name, arguments)
        except Exception as error:
            raise ToolError(_error_text(error, name)) from error
        text = "\n".join(_texts(result))
        if _first_of(result, "is_error", "isError"):
            raise ToolError(text or f"{name} failed, and the server does not say why")
        return text or result_text(None)

    return call


def _error_text(error: Exception, name: str) -> str:
    """Return the text for the model: the server's message, else the exception's type."""
    code, message = getattr(error, "code", None), str(error)
    # The message too, because servers use this code for errors of their own.
    is_closed = code == _CONNECTION_CLOSED and "closed" in message.lower()
    if is_closed or type(error).__name__ in _CLOSED_ERRORS:
        return (
            "the MCP server is not connected any more; its tools cannot be used for now, and "
            "whether this call took effect is unknown"
        )
    return message if code is not None and message else failure_text(error, name)


def _texts(result: Any) -> Iterator[str]:
    texts = [block.text for block in result.content if block.type == "text"]
    for block in result.content:
        yield block.text if block.type == "text" else _notice(block)
    structured = _first_of(result, "structured_content", "structuredContent")
    # The texts repeat it for older clients. The SDK wraps a value that isn't an object.
    values = [_parsed_json(text) for text in texts]
    forms: list[Any] = [None, values, texts, *values, *texts]
    is_wrapped = isinstance(structured, dict) and set(structured) == {"result"}
    if structured not in forms and not (is_wrapped and structured["result"] in forms[1:]):
        yield result_text(structured)


def _parsed_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _notice(block: Any) -> str:
    """Return a line that names a block without text, or the text of an embedded file."""
    resource = getattr(block, "resource", block)
    uri = getattr(resource, "uri", None)
    kind = _first_of(resource, "mime_type", "mimeType") or block.type
    text = getattr(resource, "text", None)
    if block.type == "resource" and isinstance(text, str):
        return f"[{uri}]\n{text}"
    data = getattr(resource, "data", None) or getattr(resource, "blob", None)
    words = (block.type.replace("_", " "), str(uri or ""), str(getattr(block, "name", "") or ""))
    label = " ".join(word for word in words if word)
    size = f", {len(data) * 3 // 4 - data[-2:].count('='):,} bytes" if data else ""
    return f"[{label}: {kind}{size}; not shown]"


def _unused_name(name: str, used: dict[str, Tool]) -> str:
    """Return the name as providers accept it, with a number if it is used already."""
    valid = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:MAX_NAME_CHARS] or "tool"
    unused, number = valid, 2
    while unused in used:
        end = f"_{number}"
        unused, number = valid[: MAX_NAME_CHARS - len(end)] + end, number + 1
    return unused


def _first_of(value: Any, *names: str) -> Any:
    """Return the first of these fields that is set. The SDK's version 1 has camel case."""
    return next(
        (found for name in names if (found := getattr(value, name, None)) is not None), None
    )
