"""mcp_tools: the tools of a connected MCP server, as tools of an Interpreter."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from rehydrate._text import failed, result_text
from rehydrate.agent.tools import Tool, ToolError
from rehydrate.errors import InvalidArgumentError

MAX_NAME = 64
"""OpenAI's limit; Anthropic's is 128. Both take letters, digits, _ and -."""
MAX_TOOLS = 10_000
"""A server whose pages never end is broken, not rich."""


async def mcp_tools(
    session: Any, *, prefix: str = "", only: Iterable[str] = (), timeout: float | None = None
) -> list[Tool]:
    """The tools of an MCP server, read once, through a session that is connected to it.

    ``session`` is the SDK's `mcp.ClientSession`, initialized, or its `mcp.Client`; it has to stay
    open as long as the tools are used. ``prefix`` goes before every name, where two servers have
    tools of one name; ``only`` takes some of the server's tools, by its own names; ``seconds`` is
    how long a call may take. A name that a provider would refuse (``files/read.text``) is given to
    the model with ``_`` instead.

    The model reads a result's texts, and its structured content where no text says the same; of
    images, sound and files a line says that they are there. Whatever goes wrong in a call, also a
    server that is gone, is a result too, marked as an error. Raises what the session raises where
    the tools cannot be listed, and InvalidArgumentError for a name in ``only`` that is none.

        async with Client(server) as client:
            interpreter = Interpreter(model, tools=await mcp_tools(client, prefix="harbour_"))
    """
    if not callable(getattr(session, "list_tools", None)):
        raise InvalidArgumentError(
            f"session is of type {type(session).__name__}; pass a connected mcp.ClientSession"
        )
    listed = await _listed(session)
    wanted = {only} if isinstance(only, str) else set(only)
    if missing := wanted - {one.name for one in listed}:
        names = ", ".join(sorted(one.name for one in listed)) or "none"
        raise InvalidArgumentError(
            f"only names {', '.join(map(repr, sorted(missing)))}; the server's tools are: {names}"
        )
    tools: dict[str, Tool] = {}
    for one in listed:
        if not wanted or one.name in wanted:
            name = _free_name(prefix + one.name, tools)
            schema = _either(one, "input_schema", "inputSchema") or {"type": "object"}
            about = one.description or _either(one, "title") or ""
            tools[name] = Tool(name, about, schema, _caller(session, one.name), timeout)
    return list(tools.values())


async def _listed(session: Any) -> list[Any]:
    """The tools of all pages."""
    tools: list[Any] = []
    page = await session.list_tools()
    seen: set[Any] = set()
    while True:
        tools.extend(page.tools)
        cursor = _either(page, "next_cursor", "nextCursor")
        if cursor is None or cursor in seen or len(tools) > MAX_TOOLS:
            return tools
        seen.add(cursor)
        page = await _next_page(session, cursor)


def _next_page(session: Any, cursor: str) -> Awaitable[Any]:
    list_tools: Callable[..., Awaitable[Any]] = session.list_tools
    if (
        "cursor" in inspect.signature(list_tools).parameters
    ):  # the Client's; the session's until 1.x
        return list_tools(cursor=cursor)
    from mcp.types import PaginatedRequestParams

    return list_tools(params=PaginatedRequestParams(cursor=cursor))


def _caller(session: Any, name: str) -> Callable[..., Awaitable[str]]:
    async def call(**arguments: Any) -> str:
        try:
            result = await session.call_tool(name, arguments)
        except Exception as error:
            raise ToolError(_why(error, name)) from error
        text = "\n".join(_texts(result))
        if _either(result, "is_error", "isError"):
            raise ToolError(text or f"{name} failed, and the server does not say why")
        return text or result_text(None)

    return call


def _why(error: Exception, name: str) -> str:
    """What the model is told of an exception of the SDK's: what the server says, else its type."""
    code, message = getattr(error, "code", None), str(error)
    # The code alone is no proof: servers use it for errors of their own.
    is_cut = code == _CONNECTION_CLOSED and "closed" in message.lower()
    if is_cut or type(error).__name__ in _GONE:
        return (
            "the MCP server is not connected any more; its tools cannot be used for now, and "
            "whether this call took effect is unknown"
        )
    return message if code is not None and message else failed(error, name)


_CONNECTION_CLOSED = -32000
"""The SDK's code, for what is in flight when the connection ends and for what is sent later."""
_GONE = ("ClosedResourceError", "BrokenResourceError", "EndOfStream")
"""anyio's, where a transport lets them through."""


def _texts(result: Any) -> Iterator[str]:
    texts = [block.text for block in result.content if block.type == "text"]
    for block in result.content:
        yield block.text if block.type == "text" else _notice(block)
    structured = _either(result, "structured_content", "structuredContent")
    if structured is not None and not _is_said(structured, texts):
        yield result_text(structured)


def _is_said(structured: Any, texts: list[str]) -> bool:
    """Whether the texts are the same, for clients that know no structured content."""
    values = [_parsed(text) for text in texts]
    forms: list[Any] = [values, texts, *values, *texts]
    if isinstance(structured, dict) and set(structured) == {"result"}:  # as the SDK wraps a value
        return structured in forms or structured["result"] in forms
    return structured in forms


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _notice(block: Any) -> str:
    """A line for what is no text, or the text of a file that the server sends along."""
    resource = getattr(block, "resource", block)
    uri = getattr(resource, "uri", None)
    kind = _either(resource, "mime_type", "mimeType") or block.type
    text = getattr(resource, "text", None)
    if block.type == "resource" and isinstance(text, str):
        return f"[{uri}]\n{text}"
    data = getattr(resource, "data", None) or getattr(resource, "blob", None)
    parts = [
        f"{block.type.replace('_', ' ')}",
        str(uri or ""),
        str(getattr(block, "name", "") or ""),
    ]
    named = " ".join(part for part in parts if part)
    size = f", {len(data) * 3 // 4 - data[-2:].count('='):,} bytes" if data else ""
    return f"[{named}: {kind}{size}; not shown]"


def _free_name(name: str, taken: dict[str, Tool]) -> str:
    """The name as providers take it, with a number where that makes two of one."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:MAX_NAME] or "tool"
    free, number = plain, 2
    while free in taken:
        end = f"_{number}"
        free, number = plain[: MAX_NAME - len(end)] + end, number + 1
    return free


def _either(value: Any, *names: str) -> Any:
    """The first of the fields that is there: the SDK 1.x has them in camel case."""
    return next(
        (found for name in names if (found := getattr(value, name, None)) is not None), None
    )
