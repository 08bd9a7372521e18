"""serve_stdio: the server on standard input and output, a message a line."""

from __future__ import annotations

import math
from typing import Any

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage


async def serve_stdio(server: Server[Any]) -> None:
    """Answer until the input ends.

    The SDK passes over a line that is no message. Here it is answered with an error, as JSON-RPC
    has it, so that whoever sent it does not wait.
    """
    async with stdio_server() as (lines, replies):
        send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)

        async def relay() -> None:
            async with send:
                async for line in lines:
                    if isinstance(line, Exception):
                        await replies.send(SessionMessage(_refusal(line)))
                    else:
                        await send.send(line)

        async with anyio.create_task_group() as group:
            group.start_soon(relay)
            await server.run(receive, replies, server.create_initialization_options())
            group.cancel_scope.cancel()


def _refusal(error: Exception) -> types.JSONRPCError:
    kinds = {each["type"] for each in error.errors()} if hasattr(error, "errors") else set()
    if "json_invalid" in kinds:
        data = types.ErrorData(
            code=types.PARSE_ERROR, message="this line is no JSON; send a message a line"
        )
    else:
        data = types.ErrorData(
            code=types.INVALID_REQUEST,
            message="this line is no message of JSON-RPC 2.0; send jsonrpc, method and id",
        )
    return types.JSONRPCError(jsonrpc="2.0", id=None, error=data)
